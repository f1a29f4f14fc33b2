"""What a service answers when it cannot do what it was asked: RFC 9457 problem details.

Refused (400)
├── Unauthorized (401)   no key, or one that is not known
├── Forbidden (403)      a key without the scope that is needed
├── NotFound (404)       an agent or a decision that is not there
├── Conflict (409)       a name that is taken, feedback that says something else than before
├── Gone (410)           a decision of the part of the log that is no longer kept
├── TooLarge (413)       a body, a catalogue or a request beyond its limit
├── Unsupported (415)    a body of another type than those that are read
├── Unfit (422)          a body that is read but cannot be meant
├── Busy (429)           more at once than is allowed
└── Unavailable (503)    the disk is full, or the database does not answer
"""

from http import HTTPStatus
from typing import Any, ClassVar

from superarm.errors import SuperarmError


class Refused(SuperarmError):
    """A request that was refused, and left everything as it was."""

    status: ClassVar[int] = 400

    def __init__(self, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field

    def document(self) -> dict[str, Any]:
        """The problem details.

        >>> from superarm.service.problems import NotFound
        >>> NotFound("there is no agent 'news'").document()["title"]
        'Not Found'
        """
        title = HTTPStatus(self.status).phrase
        found: dict[str, Any] = {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.field is not None:
            found["errors"] = [{"pointer": self.field, "detail": self.detail}]
        return found


class Unauthorized(Refused):
    """There is no key, or one that is not known."""

    status = 401


class Forbidden(Refused):
    """The key has not the scope that is needed."""

    status = 403


class NotFound(Refused):
    """What is asked for is not there."""

    status = 404


class Conflict(Refused):
    """It contradicts what is there."""

    status = 409


class Gone(Refused):
    """It was there, but is no longer kept."""

    status = 410


class TooLarge(Refused):
    """It is beyond a limit."""

    status = 413


class Unsupported(Refused):
    """A body of a type that is not read."""

    status = 415


class Unfit(Refused):
    """It is read, but cannot be meant."""

    status = 422


class Busy(Refused):
    """There is more to do at once than is allowed."""

    status = 429


class Unavailable(Refused):
    """The log cannot be written or read now; nothing is lost, and it may be tried again."""

    status = 503

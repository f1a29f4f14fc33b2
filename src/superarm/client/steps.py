"""How a client speaks with a service, apart from who carries it: which requests are sent again, and
after how long.

A word of a client is a generator that yields requests and is sent their answers. So what waits for
an answer in a thread and what awaits it in an event loop are told the same.
"""

import email.utils
import json
import random
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

from superarm.client.replies import FOREIGN
from superarm.errors import ParameterError, ServiceError

T = TypeVar("T")
FIRST_WAIT = 0.1
"""Seconds before a request is sent again for the first time; they double from then on."""
LONGEST_WAIT = 60.0
"""Seconds that a client waits at most; a service that asks for more is not asked again."""
PASSING = (429, 502, 503)
"""Answers that may be others a moment later."""


@dataclass(frozen=True)
class Request:
    """What is asked of a service."""

    method: str
    path: str
    body: Any = None  # in terms of JSON, or bytes
    once: bool = False  # whether the service knows it by a key, and does it but once
    repeatable: bool = True  # whether doing it twice is doing it once
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def headers(self) -> dict[str, str]:
        """What is said beside the body."""
        found = {}
        if self.body is not None:
            is_bytes = isinstance(self.body, bytes)
            found["Content-Type"] = "application/octet-stream" if is_bytes else "application/json"
        if self.once:
            found["Idempotency-Key"] = self.key
        return found

    @property
    def content(self) -> bytes | None:
        """The body as bytes."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        try:
            return json.dumps(self.body, allow_nan=False).encode()
        except ValueError as error:
            raise ParameterError(
                f"NaN and infinity cannot be sent to a service ({error})"
            ) from error


class Wait(NamedTuple):
    """To be idle."""

    seconds: float


class Answer(NamedTuple):
    """What a service answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Failure(NamedTuple):
    """Why there is no answer."""

    text: str
    sent: bool  # whether the service may have got the request


Work = Generator[Request, Any, T]
"""A word of a client: requests, and what they come to."""
Steps = Generator[Request | Wait, Answer | Failure | None, T]
"""The same with all waits, for those who carry it out."""


def steps(work: Work[T], retries: int) -> Steps[T]:
    """All that is to be sent and waited for until the work is done."""
    try:
        request = next(work)
        while True:
            answer = yield from _answered(request, retries)
            request = work.send(_content(answer))
    except StopIteration as end:
        result: T = end.value
        return result


def _answered(request: Request, retries: int) -> Steps[Answer]:
    """The answer to a request, which is sent again where that does no harm and may help."""
    attempt = 0
    while True:
        answer = yield request
        if isinstance(answer, Answer) and answer.status not in PASSING:
            return answer
        pause = _pause(request, answer, attempt)
        if pause is None or attempt == retries:
            break
        attempt += 1
        yield Wait(pause)
    if isinstance(answer, Answer):
        return answer
    raise _lost(request, answer)


def _pause(request: Request, answer: Any, attempt: int) -> float | None:
    """Seconds to wait before a request is sent again; None if it should not be."""
    if not (request.once or request.repeatable):
        refused = isinstance(answer, Answer) and answer.status != HTTPStatus.BAD_GATEWAY
        unsent = isinstance(answer, Failure) and not answer.sent
        if not (refused or unsent):
            return None
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt)
    pause = random.uniform(longest / 2, longest)  # so that clients do not come back all at once
    if isinstance(answer, Answer):
        pause = max(pause, retry_after(answer.headers))
    return pause if pause <= LONGEST_WAIT else None


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that a service asks to wait: a number, or a date; 0 if it does not say.

    >>> from superarm.client.steps import retry_after
    >>> retry_after({"retry-after": "2"})
    2.0
    """
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _lost(request: Request, answer: Any) -> ServiceError:
    if isinstance(answer, Failure) and answer.sent and not request.repeatable:
        return ServiceError(
            f"the answer to {request.method} {request.path} was lost ({answer.text}), so it may "
            "have been done: look before you ask for it again"
        )
    text = getattr(answer, "text", "no answer")
    return ServiceError(
        f"the service does not answer ({text}): look whether it runs, and at the address"
    )


def _content(answer: Answer) -> Any:
    """What an answer holds: JSON, or bytes; what is refused is raised."""
    if not 200 <= answer.status < 300:
        raise _refused(answer)
    if answer.status == HTTPStatus.NO_CONTENT:
        return None
    if answer.headers.get("content-type", "").startswith("application/octet-stream"):
        return answer.content
    found = _json(answer.content)
    if found is None:
        raise ServiceError(FOREIGN, answer.status)
    return found


def _refused(answer: Answer) -> ServiceError:
    """Problem details as an error."""
    found = _json(answer.content)
    if not (isinstance(found, dict) and isinstance(found.get("detail"), str)):
        return ServiceError(FOREIGN, answer.status)
    errors = found.get("errors")
    pointer = None
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        pointer = errors[0].get("pointer")
    return ServiceError(found["detail"], answer.status, pointer)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (RecursionError, ValueError):
        return None

"""Sessions of those who look by a browser: somebody logs in with a key, and has its scopes until
the session ends or the key is revoked.

A session is a random token in a cookie that scripts cannot read. Only a hash of it is kept, as with
keys, so that a copy of the database lets nobody in. A request that comes with a cookie and changes
something must show that it was made by a page of this service: it carries a second token, which is
made of the first, and comes from the same origin.
"""

import hashlib
import hmac
import secrets
import time
from collections import deque
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from superarm.agent.decisions import as_time, now
from superarm.service import keys
from superarm.service.database import Connection, Database
from superarm.service.problems import Busy, Forbidden

LASTS = timedelta(hours=12)
"""How long a session lasts."""
COOKIE = "superarm"
HEADER = "x-csrf-token"
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
FAILURES = 10
"""Wrong keys per minute after which nobody can log in for a while."""
_KEPT = "session "
"""What the names of sessions begin with where they are kept."""


class Session(NamedTuple):
    """Whose session it is, and until when."""

    key: str  # the id of a key
    expires: str


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def open_session(database: Database, key: str) -> str:
    """The token of a new session of a key, by its id.

    >>> import tempfile
    >>> from superarm.service.dashboard import sessions
    >>> from superarm.service.sqlite import Sqlite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Sqlite(folder + "/superarm.db")
    ...     token = sessions.open_session(database, "3f2a")
    ...     found = sessions.find(database.read(), token)
    ...     sessions.close_session(database, token)
    ...     gone = sessions.find(database.read(), token)
    ...     database.close()
    >>> found.key, gone
    ('3f2a', None)
    """
    token = new_token()
    moment = now()
    expires = as_time(moment + LASTS)
    with database.transaction() as tx:
        # "!" comes after the blank, so that these are the names that begin with it
        tx.execute(
            "DELETE FROM meta WHERE name >= ? AND name < ? AND value < ?",
            (_KEPT, "session!", as_time(moment)),
        )
        tx.execute("INSERT INTO meta VALUES (?, ?)", (_name(token), f"{expires} {key}"))
    return token


def find(connection: Connection, token: str) -> Session | None:
    """The session of a token; None if there is none, or it has ended."""
    rows = connection.execute("SELECT value FROM meta WHERE name = ?", (_name(token),))
    if not rows:
        return None
    expires, key = rows[0][0].split(" ", 1)
    if expires < as_time(now()):
        return None
    return Session(key, expires)


def key_of(connection: Connection, token: str) -> keys.Key | None:
    """The key that a session is of; None if either has ended."""
    session = find(connection, token)
    return None if session is None else keys.by_id(connection, session.key)


def close_session(database: Database, token: str) -> None:
    """End a session."""
    with database.transaction() as tx:
        tx.execute("DELETE FROM meta WHERE name = ?", (_name(token),))


def _name(token: str) -> str:
    return _KEPT + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


# --- in requests ----------------------------------------------------------------------------------


def token_of(request: Request) -> str | None:
    """The token in the cookie of a request."""
    return request.cookies.get(_cookie(request)) or None


def give(request: Request, response: Response, token: str) -> None:
    """Let the browser keep a token, for the addresses of this service alone."""
    response.set_cookie(
        _cookie(request),
        token,
        max_age=int(LASTS.total_seconds()),
        path="/",
        secure=_is_https(request),
        httponly=True,
        samesite="strict",
    )


def delete_session_cookie(request: Request, response: Response) -> None:
    """Let the browser forget its token."""
    response.delete_cookie(
        _cookie(request),
        path="/",
        secure=_is_https(request),
        httponly=True,
        samesite="strict",
    )


def csrf_of(token: str) -> str:
    """What a page sends along to show that it could ask for it.

    >>> from superarm.service.dashboard.sessions import csrf_of
    >>> csrf_of("a")[:10]
    'a57754e12c'
    """
    return hashlib.sha256(f"csrf {token}".encode("utf-8", "surrogatepass")).hexdigest()


def require_own_page(request: Request, token: str | None) -> None:
    """Refuse a request that changes something and was not made by a page of this service."""
    if request.method in READING:
        return
    _require_same_origin(request)
    given = request.headers.get(HEADER, "")
    if token is None or not hmac.compare_digest(given.encode(), csrf_of(token).encode()):
        raise Forbidden("X-CSRF-Token is missing or wrong: load the page again")


def _require_same_origin(request: Request) -> None:
    """Browsers say where a request comes from: newer ones in a word, all of them by its origin."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise Forbidden("this request comes from a page of another site")
        return
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise Forbidden("this request comes from a page of another origin")


def _cookie(request: Request) -> str:
    """The name of the cookie: browsers do not tell ports apart, and there may be two services."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def _is_https(request: Request) -> bool:
    """Whether the browser came by TLS, which may end at a proxy."""
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")


class Failures:
    """Counts wrong keys of the last minute: more than some, and nobody can log in."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=FAILURES)

    def count(self) -> None:
        """One more."""
        self._times.append(time.monotonic())

    def require_few(self) -> None:
        """Refuse to look at a key for now."""
        if len(self._times) == FAILURES and time.monotonic() - self._times[0] < 60.0:
            raise Busy("there were too many wrong keys: try again in a minute")

"""The way from a request to what is behind its address, and back: bodies are read, keys are asked
for, and what is refused becomes problem details.
"""

import asyncio
import functools
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from superarm.errors import SuperarmError
from superarm.service import keys, tables
from superarm.service.dashboard import sessions
from superarm.service.database import Connection
from superarm.service.engine import Service, as_refused
from superarm.service.metrics import Metrics
from superarm.service.problems import (
    Busy,
    Forbidden,
    Refused,
    TooLarge,
    Unauthorized,
    Unfit,
    Unsupported,
)

JSON = "application/json"
BYTES = "application/octet-stream"
REMEMBERED = 1.0
"""Seconds for which a key is believed to be what it was."""
LARGE = 2**18
"""Bytes of a body that is read in a thread of its own."""

_NO_KEY = "give a key: Authorization: Bearer KEY"
_logger = logging.getLogger("superarm.service")


class Asking(NamedTuple):
    """A request as it came."""

    scope: Scope
    receive: Receive
    params: Mapping[str, str]  # from the address
    headers: Mapping[bytes, list[str]]

    def header(self, name: bytes, default: str) -> str:
        """What a header says, where it is there first."""
        return self.headers[name][0] if name in self.headers else default


def asking_of(scope: Scope, receive: Receive, params: Mapping[str, str]) -> Asking:
    """A request with its headers by name."""
    headers: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value.decode("latin-1"))
    return Asking(scope, receive, params, headers)


class HttpCall(NamedTuple):
    """One request, read and allowed."""

    service: Service
    asking: Asking
    body: Any
    key: str | None  # for idempotency, of one key of the service's
    allow: Callable[[], Any] = lambda: None  # raises if its key is none any more

    @property
    def agent(self) -> str:
        """The agent in the address."""
        return self.asking.params["agent"]

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number in the query."""
        text = QueryParams(self.asking.scope["query_string"]).get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= most):
            raise Unfit(f"{name} is a whole number from 0 to {most}, got {text!r:.60}")
        return int(text)

    def text(self, name: str) -> str | None:
        """A text in the query."""
        found = QueryParams(self.asking.scope["query_string"]).get(name)
        if found is not None and (len(found) > 1000 or "\x00" in found):
            raise Unfit(f"{name} has at most 1000 characters, none of them 0", f"/{name}")
        return found


ASIDE = 2
"""Long requests that are worked on at once."""


async def aside(call: HttpCall, work: Callable[..., Any], *given: Any) -> Any:
    """The result of long work in a thread of its own; more than a few at once are refused."""
    service = call.service
    if service.aside >= ASIDE:
        raise Busy("too many long requests at once: try again later")
    service.aside += 1
    try:
        return await asyncio.to_thread(work, service, call.agent, *given)
    finally:
        service.aside -= 1


@dataclass(frozen=True)
class Route:
    """An address, and what is behind it."""

    method: str
    path: str
    scope: str | None
    handle: Callable[[HttpCall], Awaitable[Any]]
    body: Any = None  # a type of `wire`, bytes, or None
    reply: Any = None  # a type of `wire`, bytes, str, or None
    status: int = 200
    once: bool = False  # whether it knows idempotency keys
    query: tuple[str, ...] = ()  # whole numbers
    texts: tuple[str, ...] = ()  # in the query too
    media: tuple[str, ...] = ()  # of the body, beside JSON

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return str(self.handle.__doc__).split("\n")[0]


class Door:
    """Reads requests, asks for keys, and turns what is refused into problem details."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self.service = service
        self._metrics = metrics
        self._known: dict[Any, tuple[float, keys.Key | None]] = {}
        self._held = 0  # bytes of the bodies that are worked on

    def endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        """What answers requests to an address."""
        decoder = decoder_of(route)

        async def answer(request: Request) -> Response:
            start = time.perf_counter()
            asking = asking_of(request.scope, request.receive, request.path_params)
            try:
                response = _response(await self.answer(route, decoder, asking), route.status)
            except Exception as error:
                response = self.refused(error, asking)
            self.count(route, response.status_code, start)
            return response

        return answer

    def guarded(
        self,
        scope: str | None,
        handle: Callable[[Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        """What answers only those who have a key for it, or everybody if it needs none."""

        async def answer(request: Request) -> Response:
            asking = asking_of(request.scope, request.receive, request.path_params)
            try:
                self._allowed(asking, scope)
                return await handle(request)
            except Exception as error:
                return self.refused(error, asking)

        return answer

    def count(self, route: Route, status: int, start: float) -> None:
        """Count an answer to what was asked at a time."""
        seconds = time.perf_counter() - start
        self._metrics.count(route.method, route.path, status, seconds)

    async def answer(self, route: Route, decoder: Any, asking: Asking) -> Any:
        """What is behind an address says to a request."""
        named = self._named(route, asking)
        if route.body is None:
            allow = functools.partial(self._allowed, asking, route.scope)
            call = HttpCall(self.service, asking, None, named, allow)
            return await route.handle(call)
        content = await self._read(asking)
        try:
            if len(content) < LARGE:
                body = _decoded(route, decoder, asking, content)
            else:
                body = await asyncio.to_thread(_decoded, route, decoder, asking, content)
            call = HttpCall(self.service, asking, body, named)
            return await route.handle(call)
        finally:
            self._held -= len(content)

    def call(self, route: Route, decoder: Any, asking: Asking, content: bytes) -> HttpCall:
        """A request whose body is there, read and allowed."""
        named = self._named(route, asking)
        body = _decoded(route, decoder, asking, content)
        return HttpCall(self.service, asking, body, named)

    def _named(self, route: Route, asking: Asking) -> str | None:
        """The idempotency key of a request that is allowed, if it has one."""
        key = self._allowed(asking, route.scope)
        return _named(key, route, asking.headers.get(b"idempotency-key", []))

    def _allowed(self, asking: Asking, scope: str | None) -> keys.Key | None:
        """The key of a request, if it is for this."""
        if scope is None:
            return None
        given = asking.headers.get(b"authorization", [])
        key = self._of_header(given) if given else self._of_session(Request(asking.scope))
        if not key.may(scope):
            raise Forbidden(f"this key is not for {scope!r}, but for {' '.join(key.scopes)}")
        return key

    def _of_header(self, given: list[str]) -> keys.Key:
        """The key that a request names."""
        kind, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if kind.lower() != "bearer" or not text:
            raise Unauthorized(_NO_KEY)
        key = self._find(text.strip()[:200], keys.find)
        if key is None:
            raise Unauthorized("this key is not known, or was revoked")
        return key

    def _of_session(self, request: Request) -> keys.Key:
        """The key that somebody logged in with."""
        token = sessions.token_of(request)
        if token is None:
            raise Unauthorized(_NO_KEY)
        key = self.session(token)
        if key is None:
            raise Unauthorized("nobody is logged in: the session has ended, or its key was revoked")
        sessions.require_own_page(request, token)
        return key

    def session(self, token: str) -> keys.Key | None:
        """The key of a session, as of a second ago."""
        return self._find(token[:200], sessions.key_of)

    def forget(self, token: str) -> None:
        """Look anew at a session that has ended."""
        self._known.pop((sessions.key_of, token[:200]), None)

    def _find(
        self,
        text: str,
        find: Callable[[Connection, str], keys.Key | None],
    ) -> keys.Key | None:
        """What a key or a token is, as of a second ago."""
        moment = time.monotonic()
        at, found = self._known.get((find, text), (-REMEMBERED, None))
        if moment - at < REMEMBERED:
            return found
        found = find(self.service.database.read(), text)
        if len(self._known) > 1000:
            self._known.clear()
        self._known[find, text] = (moment, found)
        return found

    async def _read(self, asking: Asking) -> bytes:
        """The whole body, unless it is too large, or all that are worked on are."""
        most = self.service.limits.body
        declared = asking.header(b"content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared[:18]) > most:
            raise TooLarge(f"a body may have {most} bytes")
        parts = []
        size = 0
        more = True
        try:
            while more:
                message = await asking.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part = message.get("body", b"")
                more = message.get("more_body", False)
                parts.append(part)
                size += len(part)
                self._held += len(part)
                if size > most:
                    raise TooLarge(f"a body may have {most} bytes")
                if self._held > self.service.limits.bodies:
                    raise Busy("there are too many large bodies at once: try again later")
        except BaseException:
            self._held -= size
            raise
        return b"".join(parts)

    def refused(self, error: BaseException, asking: Asking) -> Response:
        """The problem details of an error."""
        if isinstance(error, SuperarmError | MemoryError):
            error = as_refused(error)
        if isinstance(error, ClientDisconnect):
            return Response(status_code=400)
        if not isinstance(error, Refused):
            asked = (asking.scope["method"], asking.scope["path"])
            _logger.error("%s %s failed", *asked, exc_info=error)
            return problem(
                {
                    "type": "about:blank",
                    "title": "Internal Server Error",
                    "status": 500,
                    "detail": "the service failed; its log says more",
                }
            )
        response = problem(error.document())
        if error.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        if error.status in (429, 503):
            response.headers["retry-after"] = "1"
        return response


def _named(key: keys.Key | None, route: Route, given: list[str]) -> str | None:
    """An idempotency key, of one key of the service's and one address."""
    if not (route.once and given) or key is None:
        return None
    if len(given) > 1:
        raise Unfit("there are several Idempotency-Keys: give one")
    wanted = given[0]
    if not 1 <= len(wanted) <= 200 or not wanted.isprintable():
        raise Unfit("an Idempotency-Key has 1 to 200 printable characters")
    return f"{key.id}:{route.path}:{hidden(wanted)}"


def hidden(wanted: str) -> str:
    """An idempotency key as it is kept: it may say whose request it is."""
    return hashlib.blake2b(wanted.encode(), digest_size=16).hexdigest()


def decoder_of(route: Route) -> Any:
    """What reads the bodies of an address; None if they are no JSON."""
    return None if route.body in (None, bytes) else msgspec.json.Decoder(route.body)


def _decoded(route: Route, decoder: Any, asking: Asking, content: bytes) -> Any:
    """The body as what the address takes."""
    coding = asking.header(b"content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise Unsupported(f"bodies are read as they are, not in the encoding {coding!r:.60}")
    media = asking.header(b"content-type", JSON).split(";")[0].strip().lower()
    if route.body is bytes:
        if media not in (BYTES, JSON):
            raise Unsupported(f"this takes {BYTES}, not {media!r:.60}")
        return content
    if media != JSON:
        if media not in route.media:
            raise Unsupported(f"this takes {', '.join((JSON, *route.media))}, not {media!r:.60}")
        return tables.items_of(content, media)
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the body is not JSON ({str(error)[:200]})") from error


def _invalid(error: msgspec.ValidationError) -> Unfit:
    """What is wrong with a field, by its JSON pointer."""
    text, _, place = str(error).partition(" - at `")
    path = place.rstrip("`").removeprefix("$")
    known = path.replace("[...]", "")  # the key of an object is not told
    pointer = known.replace("[", "/").replace("]", "").replace(".", "/")
    if odd := re.search(r" (?:unknown|required) field `(.*)`", text):
        pointer += f"/{odd[1]}"[:100]
    return Unfit(text, pointer or None)


def _response(reply: Any, status: int) -> Response:
    if isinstance(reply, Response):
        return reply
    if reply is None:
        return Response(status_code=status)
    if isinstance(reply, bytes):
        return Response(reply, status, media_type=BYTES)
    return Response(msgspec.json.encode(reply), status, media_type=JSON)


def problem(document: dict[str, Any]) -> Response:
    """Problem details as an answer."""
    return Response(
        msgspec.json.encode(document),
        document["status"],
        media_type="application/problem+json",
    )

"""The way from a request to what is behind its address, and back: bodies are read, keys are asked
for, and what is refused becomes problem details.
"""

import asyncio
import functools
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

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

_logger = logging.getLogger("superarm.service")


@dataclass(frozen=True)
class Call:
    """One request, read and allowed."""

    service: Service
    request: Request
    body: Any
    key: str | None  # for idempotency, of one key of the service's
    allow: Callable[[], Any] = lambda: None  # raises if its key is none any more

    @property
    def agent(self) -> str:
        """The agent in the address."""
        return str(self.request.path_params["agent"])

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number in the query."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= most):
            raise Unfit(f"{name} is a whole number from 0 to {most}, got {text!r:.60}")
        return int(text)

    def text(self, name: str) -> str | None:
        """A text in the query."""
        found = self.request.query_params.get(name)
        if found is not None and (len(found) > 1000 or "\x00" in found):
            raise Unfit(f"{name} has at most 1000 characters, none of them 0", f"/{name}")
        return found


ASIDE = 2
"""Long requests that are worked on at once."""


async def aside(call: Call, work: Callable[..., Any], *given: Any) -> Any:
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
    handle: Callable[[Call], Awaitable[Any]]
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
        self.metrics = metrics
        self._known: dict[Any, tuple[float, keys.Key | None]] = {}
        self._held = 0  # bytes of the bodies that are worked on

    def endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        """What answers requests to an address."""
        takes_json = route.body not in (None, bytes)
        decoder = msgspec.json.Decoder(route.body) if takes_json else None

        async def answer(request: Request) -> Response:
            start = time.perf_counter()
            try:
                response = await self._answer(route, decoder, request)
            except Exception as error:
                response = self._refused(error, request)
            seconds = time.perf_counter() - start
            self.metrics.count(route.method, route.path, response.status_code, seconds)
            return response

        return answer

    def guarded(
        self,
        scope: str | None,
        handle: Callable[[Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        """What answers only those who have a key for it, or everybody if it needs none."""

        async def answer(request: Request) -> Response:
            try:
                self._allowed(request, scope)
                return await handle(request)
            except Exception as error:
                return self._refused(error, request)

        return answer

    async def _answer(self, route: Route, decoder: Any, request: Request) -> Response:
        key = self._allowed(request, route.scope)
        named = _named(key, route, request.headers.getlist("idempotency-key"))
        if route.body is None:
            allow = functools.partial(self._allowed, request, route.scope)
            call = Call(self.service, request, None, named, allow)
            return _response(await route.handle(call), route.status)
        async with self._content(request) as content:
            if len(content) < LARGE:
                body = _decoded(route, decoder, request, content)
            else:
                body = await asyncio.to_thread(_decoded, route, decoder, request, content)
            call = Call(self.service, request, body, named)
            return _response(await route.handle(call), route.status)

    def _allowed(self, request: Request, scope: str | None) -> keys.Key | None:
        """The key of a request, if it is for this."""
        if scope is None:
            return None
        given = request.headers.getlist("authorization")
        token = None if given else sessions.token_of(request)
        key = self._of_header(given) if token is None else self._of_session(request, token)
        if not key.may(scope):
            raise Forbidden(f"this key is not for {scope!r}, but for {' '.join(key.scopes)}")
        return key

    def _of_header(self, given: list[str]) -> keys.Key:
        """The key that a request names."""
        kind, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if kind.lower() != "bearer" or not text:
            raise Unauthorized("give a key: Authorization: Bearer KEY")
        key = self._find(text.strip()[:200], keys.find)
        if key is None:
            raise Unauthorized("this key is not known, or was revoked")
        return key

    def _of_session(self, request: Request, token: str) -> keys.Key:
        """The key that somebody logged in with."""
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

    @asynccontextmanager
    async def _content(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body, unless it is too large, or all that are worked on are."""
        most = self.service.limits.body
        declared = request.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared[:18]) > most:
            raise TooLarge(f"a body may have {most} bytes")
        parts = []
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                self._held += len(part)
                if size > most:
                    raise TooLarge(f"a body may have {most} bytes")
                if self._held > self.service.limits.bodies:
                    raise Busy("there are too many large bodies at once: try again later")
                parts.append(part)
            yield b"".join(parts)
        finally:
            self._held -= size

    def _refused(self, error: Exception, request: Request) -> Response:
        """The problem details of an error."""
        if isinstance(error, SuperarmError | MemoryError):
            error = as_refused(error)
        if isinstance(error, ClientDisconnect):
            return Response(status_code=400)
        if not isinstance(error, Refused):
            _logger.exception("%s %s failed", request.method, request.url.path)
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


def _decoded(route: Route, decoder: Any, request: Request, content: bytes) -> Any:
    """The body as what the address takes."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise Unsupported(f"bodies are read as they are, not in the encoding {coding!r:.60}")
    media = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
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
        raise Refused(f"the body is no JSON ({str(error)[:200]})") from error


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

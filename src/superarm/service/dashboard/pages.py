"""The page at `/`: its files, read once and served by their exact names, and how to log in.

Everything that the page shows it asks for at the addresses of `http.ROUTES`, as anybody else does.
"""

import asyncio
import dataclasses
import gzip
import hashlib
import mimetypes
from collections.abc import Awaitable, Callable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from superarm import learners
from superarm.agent import specs
from superarm.palette import LEARNERS, OTHERS
from superarm.service import keys
from superarm.service.dashboard import sessions
from superarm.service.door import JSON, Door
from superarm.service.problems import NotFound, Refused, TooLarge, Unauthorized

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # kept, but asked about each time: an upgrade shows at once
    "vary": "accept-encoding",
}
MEDIA = {".js": "text/javascript", ".md": "text/plain", "": "text/plain"}
"""What files are, where systems differ."""
LARGEST = 2000
"""Bytes of what is sent to log in."""


class File(NamedTuple):
    """A file as it is sent."""

    content: bytes
    packed: bytes  # by gzip
    media: str
    tag: str  # changes with the content


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """What is sent to log in."""

    key: str


# --- files ----------------------------------------------------------------------------------------


def files() -> dict[str, File]:
    """All files of the page by their names, as `main.js` and `pages/keys.js`."""
    root = resources.files("superarm.service.dashboard") / "static"
    found = {name: _file(name, content) for name, content in _contents(root, "")}
    found["learners.js"] = _file("learners.js", _learners())
    return found


def _contents(folder: Traversable, before: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _contents(entry, f"{before}{entry.name}/")
        else:
            yield before + entry.name, entry.read_bytes()


def _file(name: str, content: bytes) -> File:
    ending = name[name.rfind(".") :] if "." in name else ""
    media = MEDIA.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return File(
        content=content,
        packed=gzip.compress(content, mtime=0),
        media=media,
        tag=hashlib.sha256(content).hexdigest()[:32],
    )


def _learners() -> bytes:
    """How learners are drawn, and what can be set of them, as a module: the page uses what the
    library uses.
    """
    drawn = {name: style._asdict() for name, style in LEARNERS.items()}
    others = [style._asdict() for style in OTHERS]
    settings = {kind: _settings(getattr(learners, kind)) for kind in specs.LEARNERS}
    lines = [
        "// made from superarm.palette and superarm.learners",
        f"export const LEARNERS = {_json(drawn)};",
        f"export const OTHERS = {_json(others)};",
        f"export const SETTINGS = {_json(settings)};",
    ]
    return "\n".join([*lines, ""]).encode()


def _settings(learner: Any) -> dict[str, Any]:
    """What can be set of a kind of learner, with what it is if it is not: None if it must be."""
    found = {}
    for field in dataclasses.fields(learner):
        found[field.name] = None if field.default is dataclasses.MISSING else field.default
    return found


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _sent(file: File, request: Request) -> Response:
    """A file, packed if the browser takes it so; nothing if it has it already."""
    packs = _takes_gzip(request.headers.get("accept-encoding", ""))
    tag = f'"{file.tag}-gzip"' if packs else f'"{file.tag}"'
    headers = HEADERS | {"etag": tag}
    if tag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    if packs:
        headers["content-encoding"] = "gzip"
    content = file.packed if packs else file.content
    return Response(content, headers=headers, media_type=file.media)


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip, and does not refuse it.

    >>> from superarm.service.dashboard.pages import _takes_gzip
    >>> _takes_gzip("br, gzip;q=0.5"), _takes_gzip("gzip;q=0"), _takes_gzip("identity")
    (True, False, False)
    """
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


# --- sessions -------------------------------------------------------------------------------------


class Desk:
    """Where one logs in and out."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._database = door.service.database
        self._failures = sessions.Failures()

    async def show(self, request: Request) -> Response:
        """Who is logged in, if anybody is, and what to send along with requests."""
        token = sessions.token_of(request)
        key = None if token is None else self._door.session(token)
        if token is not None:
            return _told(key, token)
        fresh = sessions.new_token()
        response = _told(None, fresh)
        sessions.give(request, response, fresh)
        return response

    async def log_in(self, request: Request) -> Response:
        """A session for a key."""
        sessions.require_own_page(request, sessions.token_of(request))
        self._failures.require_few()
        wanted = await _login(request)
        key = keys.find(self._database.read(), wanted.key.strip()[:200])
        if key is None:
            self._failures.count()
            raise Unauthorized("this key is not known, or was revoked")
        token = await asyncio.to_thread(sessions.open_session, self._database, key.id)
        response = _told(key, token)
        sessions.give(request, response, token)
        return response

    async def log_out(self, request: Request) -> Response:
        """The end of a session."""
        token = sessions.token_of(request)
        sessions.require_own_page(request, token)
        await asyncio.to_thread(sessions.close_session, self._database, str(token))
        self._door.forget(str(token))
        response = Response(status_code=204, headers=HEADERS)
        sessions.delete_session_cookie(request, response)
        return response


async def _login(request: Request) -> Login:
    """What somebody logs in with."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            raise TooLarge(f"a key to log in with may have {LARGEST} bytes")
    try:
        return msgspec.json.decode(content, type=Login)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused('send {"key": KEY} to log in') from error


def _told(key: keys.Key | None, token: str) -> Response:
    """Who is logged in, to a page."""
    found: dict[str, Any] = {"csrf": sessions.csrf_of(token), "key": None}
    if key is not None:
        found["key"] = {"id": key.id, "note": key.note, "scopes": list(key.scopes)}
    headers = HEADERS | {"cache-control": "no-store"}
    return Response(msgspec.json.encode(found), headers=headers, media_type=JSON)


# --- addresses ------------------------------------------------------------------------------------


def routes(door: Door) -> list[StarletteRoute]:
    """The addresses of the page; they are for browsers, and not part of the API."""
    known = files()
    desk = Desk(door)

    async def index(request: Request) -> Response:
        return _sent(known["index.html"], request)

    async def static(request: Request) -> Response:
        file = known.get(request.path_params["name"])
        if file is None:
            raise NotFound("the page has no file of this name")
        return _sent(file, request)

    found: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/", index),
        ("GET", "/static/{name:path}", static),
        ("GET", "/session", desk.show),
        ("POST", "/session", desk.log_in),
        ("DELETE", "/session", desk.log_out),
    ]
    return [
        StarletteRoute(path, door.guarded(None, answer), methods=[method])
        for method, path, answer in found
    ]

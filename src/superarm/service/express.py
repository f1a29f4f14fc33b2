"""The short way of what is asked for most: decisions, and feedback on them.

A request takes the general way longer than the door needs for it: a task of its own, objects for
the request and its answer, and two writes. Where a small body has come, the connection itself asks
the door instead, and answers in one write. Both ways lead to the same door, and answer alike.
"""

import asyncio
import functools
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from superarm.service.door import JSON, Asking, Door, Route, asking_of, decoder_of

ADDRESS = re.compile("/v1/agents/([^/]+)/([^/]+)")
"""The addresses of agents, and what of them is asked for."""
SMALL = 2**15
"""Bytes of a body that is waited for: of larger ones uvicorn stops reading."""
IS_JSON = (b"content-type", JSON.encode())
_encoder = msgspec.json.Encoder()


class Way(NamedTuple):
    """A route, and what reads its bodies."""

    route: Route
    decoder: Any


class Express:
    """Which requests take the short way: those to addresses of the form /v1/agents/{agent}/...,
    with bodies of JSON.

    Args:
        door: reads them.
        routes: what is behind the addresses; each must return a future.
    """

    def __init__(self, door: Door, routes: Sequence[Route]) -> None:
        self.door = door
        self._ways = {
            (route.method, route.path.rpartition("/")[2]): Way(route, decoder_of(route))
            for route in routes
        }

    def wanted(self, scope: Any) -> "Wanted | None":
        """What a request asks for; None if it takes the general way."""
        found = ADDRESS.fullmatch(scope["path"])
        if found is None or scope["root_path"]:
            return None
        agent, last = found.groups()
        way = self._ways.get((scope["method"], last))
        if way is None:
            return None
        asking = asking_of(scope, _nothing_more, {"agent": agent})
        declared = asking.header(b"content-length", "")
        if not (declared.isascii() and declared.isdigit() and len(declared) < 8):
            return None
        if int(declared) > min(SMALL, self.door.service.limits.body):
            return None
        return Wanted(way, asking)


async def _nothing_more() -> Any:
    """What a request says whose body is there already."""
    return {"type": "http.disconnect"}


class Wanted(NamedTuple):
    """A request that takes the short way."""

    way: Way
    asking: Asking


class Connection(HttpToolsProtocol):
    """A connection that answers some requests by itself, one at a time; all others, and those that
    come before the last one was answered, go the general way.

    Args:
        config: of the server, whose application says which.
        given: what else uvicorn gives a connection.
    """

    def __init__(self, config: uvicorn.Config, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        application: Any = config.app
        self._express: Express = application.express
        self._wanted: tuple[RequestResponseCycle, Wanted] | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        wanted = None
        is_plain = cycle.more_body and not cycle.waiting_for_100_continue
        if app is self.app and cycle is self.cycle and is_plain and not self.flow.write_paused:
            wanted = self._express.wanted(cycle.scope)
        if wanted is None:
            super()._start_asgi_task(cycle, app)
        else:
            self._wanted = (cycle, wanted)

    def on_message_complete(self) -> None:
        """Answer what is wanted, now that all of it has come."""
        super().on_message_complete()
        if self._wanted is not None:
            cycle, wanted = self._wanted
            self._wanted = None
            self._answer(cycle, wanted)

    def _answer(self, cycle: RequestResponseCycle, wanted: Wanted) -> None:
        start = time.perf_counter()
        door = self._express.door
        try:
            call = door.call(*wanted.way, wanted.asking, bytes(cycle.body))
            answer: Any = wanted.way.route.handle(call)
        except Exception as error:
            self._refuse(cycle, wanted, start, error)
        else:
            answer.add_done_callback(functools.partial(self._finish, cycle, wanted, start))

    def _finish(
        self,
        cycle: RequestResponseCycle,
        wanted: Wanted,
        start: float,
        answer: "asyncio.Future[Any]",
    ) -> None:
        error = answer.exception()
        if error is not None:
            self._refuse(cycle, wanted, start, error)
            return
        route = wanted.way.route
        body = _encoder.encode(answer.result())
        headers = ((b"content-length", b"%d" % len(body)), IS_JSON)
        self._write(cycle, route.status, headers, body)
        self._express.door.count(route, route.status, start)

    def _refuse(
        self,
        cycle: RequestResponseCycle,
        wanted: Wanted,
        start: float,
        error: BaseException,
    ) -> None:
        door = self._express.door
        response = door.refused(error, wanted.asking)
        self._write(cycle, response.status_code, response.raw_headers, bytes(response.body))
        door.count(wanted.way.route, response.status_code, start)

    def _write(
        self,
        cycle: RequestResponseCycle,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        """Send an answer, and go on to the next request."""
        if cycle.disconnected:
            return
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            parts += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", body)
        self.transport.write(b"".join(parts))
        cycle.response_started = True
        cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

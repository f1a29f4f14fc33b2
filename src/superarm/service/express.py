"""The short way of what is asked for most: decisions, and feedback on them.

To find an address, and to make objects of a request and of its answer, takes the general way longer
than the door itself needs for such a request. Both ways lead to the same door.
"""

import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from superarm.service.door import JSON, Door, Route, asking_of, decoder_of

ADDRESS = re.compile("/v1/agents/([^/]+)/([^/]+)")
"""The addresses of agents, and what of them is asked for."""
_encoder = msgspec.json.Encoder()


class _Way(NamedTuple):
    """A route, and what reads its bodies."""

    route: Route
    decoder: Any


class Express:
    """Answers requests to addresses of the form /v1/agents/{agent}/..., with JSON.

    Args:
        door: reads them.
        routes: what is behind the addresses.
    """

    def __init__(self, door: Door, routes: Sequence[Route]) -> None:
        self._door = door
        self._ways = {
            (route.method, route.path.rpartition("/")[2]): _Way(route, decoder_of(route))
            for route in routes
        }

    async def answers(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether it is a request for this way; then it is answered."""
        found = ADDRESS.fullmatch(scope["path"])
        if found is None or scope.get("root_path"):
            return False
        agent, last = found.groups()
        way = self._ways.get((scope["method"], last))
        if way is None:
            return False
        start = time.perf_counter()
        asking = asking_of(scope, receive, {"agent": agent})
        status = way.route.status
        try:
            body = _encoder.encode(await self._door.answer(way.route, way.decoder, asking))
        except Exception as error:
            response = self._door.refused(error, asking)
            status = response.status_code
            await response(scope, receive, send)
        else:
            await _send(send, status, body)
        self._door.count(way.route, status, start)
        return True


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""The short way of what is asked for most: decisions, and feedback on them.

To find an address, and to make objects of a request and of its answer, takes the general way longer
than the door itself needs for such a request. Both ways lead to the same door.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from superarm.service.door import JSON, Door, Route, asking_of, decoder_of

BEFORE = ["", "v1", "agents"]
"""What is in an address before the name of an agent."""
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
        parts = scope["path"].split("/")
        way = self._ways.get((scope["method"], parts[-1]))
        if way is None or len(parts) != 5 or parts[:3] != BEFORE or scope.get("root_path"):
            return False
        start = time.perf_counter()
        asking = asking_of(scope, receive, {"agent": parts[3]})
        status = way.route.status
        try:
            reply = await self._door.answer(way.route, way.decoder, asking)
            await _send(send, status, _encoder.encode(reply))
        except Exception as error:
            response = self._door.refused(error, asking)
            status = response.status_code
            await response(scope, receive, send)
        self._door.count(way.route, status, start)
        return True


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""The overview as server-sent events: one per second, as long as somebody looks."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from starlette.responses import StreamingResponse

from superarm.service.dashboard.overview import Shared
from superarm.service.engine import Service
from superarm.service.problems import Busy, Refused, Unavailable

EVERY = 1.0
"""Seconds between events."""
SLICE = 0.25
"""Seconds after which a stream notices that the service ends."""
MEDIA = "text/event-stream"


class Streams:
    """The streams that a service has open."""

    def __init__(self) -> None:
        self.open = 0
        self.shared = Shared()


_streams: WeakKeyDictionary[Service, Streams] = WeakKeyDictionary()


def stream(service: Service, seconds: int, allow: Callable[[], Any]) -> StreamingResponse:
    """The overview of the last seconds, again and again.

    Args:
        service: to look at.
        seconds: the range of time that is shown.
        allow: raises once the key of the request is none any more.
    """
    streams = _streams.setdefault(service, Streams())
    if streams.open >= service.limits.streams:
        raise Busy(f"{service.limits.streams} look at the same time already: try again later")
    content = _events(service, streams, seconds, allow)
    headers = {"content-type": MEDIA, "cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(content, headers=headers)


async def _events(
    service: Service,
    streams: Streams,
    seconds: int,
    allow: Callable[[], Any],
) -> AsyncIterator[bytes]:
    streams.open += 1
    end = time.monotonic() + service.limits.stream_seconds
    try:
        while not service.stopping.is_set():
            try:
                allow()
                found = await asyncio.to_thread(streams.shared.last, service, seconds)
                yield _event("overview", found)
            except Unavailable as error:  # it may be back in a second
                yield _event("unavailable", error.document())
            except Refused as error:
                yield _event("refused", error.document())
                return
            if time.monotonic() >= end:
                return
            await _wait(service)
    finally:
        streams.open -= 1


async def _wait(service: Service) -> None:
    """Until the next event is due, or the service ends."""
    for _ in range(round(EVERY / SLICE)):
        if service.stopping.is_set():
            return
        await asyncio.sleep(SLICE)


def _event(name: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))

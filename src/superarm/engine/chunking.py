"""Calls in chunks: a cluster needs some milliseconds per task, so short calls share one.

A chunk is to take about `TARGET_SECONDS`. Its worker stops after that, and the rest goes into the
next chunks: nobody waits behind calls that take longer than those before them.
"""

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

TARGET_SECONDS = 1.0
"""Seconds that a chunk is to take; a single call may take longer."""


class Call(NamedTuple):
    """The arguments of one call, and its number among all."""

    number: int
    arguments: Sequence[Any]


class SharedArgument(NamedTuple):
    """Placeholder for an argument that several calls of a chunk share."""

    number: int


class ChunkResult(NamedTuple):
    """Results of the first calls of a chunk, and the seconds that they took."""

    results: list[Any]
    seconds: float


class ChunkQueue:
    """The calls that are still to be made, from which chunks are taken.

    >>> from superarm.engine.chunking import ChunkQueue, ChunkResult
    >>> queue = ChunkQueue([("a",), ("b",), ("c",)])
    >>> first = queue.take()
    >>> queue.complete(first, ChunkResult(["A"], seconds=0.001))
    [(0, 'A')]
    >>> [call.arguments for call in queue.take()]
    [('b',), ('c',)]
    """

    def __init__(self, calls: Iterable[Sequence[Any]]) -> None:
        numbered = enumerate(calls)
        self.waiting = deque(itertools.starmap(Call, numbered))
        self.requeued: deque[Call] = deque()
        self.size = 1

    def __bool__(self) -> bool:
        return bool(self.waiting or self.requeued)

    def take(self, n_chunks: int = 1) -> list[Call]:
        """The next chunk, so small that the rest is enough for `n_chunks` of its size. A requeued
        call comes alone.
        """
        if self.requeued:
            return [self.requeued.popleft()]
        n_waiting = len(self.waiting)
        per_chunk = n_waiting / n_chunks
        fair_share = math.ceil(per_chunk)
        size = min(self.size, fair_share)
        return [self.waiting.popleft() for _ in range(size)]

    def complete(self, chunk: Sequence[Call], result: ChunkResult) -> list[tuple[int, Any]]:
        """Number and result of each call that was made; the others of the chunk are next."""
        n = len(result.results)
        rest = chunk[n:]
        self.waiting.extendleft(reversed(rest))
        seconds = max(result.seconds, 1e-9)
        seconds_per_call = seconds / n
        fitting = round(TARGET_SECONDS / seconds_per_call)
        doubled = 2 * n
        self.size = max(1, min(doubled, fitting))
        numbers = [call.number for call in chunk[:n]]
        return list(zip(numbers, result.results, strict=True))

    def requeue(self, chunk: Sequence[Call]) -> None:
        """Make these calls again, each alone: any of them may be what kills workers."""
        self.requeued.extend(chunk)


def run_chunk(
    function: Callable[..., Any], calls: Sequence[Sequence[Any]], shared: Sequence[Any]
) -> ChunkResult:
    """The results of the calls, or of as many as there is time for."""
    start = time.perf_counter()
    results: list[Any] = []
    seconds = 0.0
    for call in calls:
        if seconds > TARGET_SECONDS:
            break
        arguments = [shared[x.number] if isinstance(x, SharedArgument) else x for x in call]
        results.append(function(*arguments))
        seconds = time.perf_counter() - start
    return ChunkResult(results, seconds)

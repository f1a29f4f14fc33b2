"""Short pieces of work, several per task, as each task costs a cluster some milliseconds.

A task is to take about `LONG` seconds. Its worker stops after that, and what is left goes to the
next tasks, so that pieces which take longer than those before them keep nobody waiting.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

LONG = 1.0
"""Seconds that a task is to take; one piece may take longer."""


class Piece(NamedTuple):
    """A call, and its place among all."""

    place: int
    call: Sequence[Any]


class Shared(NamedTuple):
    """Stands in a call for something that all calls of a task share."""

    at: int


class Played(NamedTuple):
    """What came of the first calls of a task, and how long they took."""

    results: list[Any]
    seconds: float


class Tasks:
    """What is left to do, from which tasks are taken.

    >>> from superarm.engine.chunking import Played, Tasks
    >>> tasks = Tasks([("a",), ("b",), ("c",)])
    >>> first = tasks.take()
    >>> tasks.done(first, Played(["A"], seconds=0.001))
    [(0, 'A')]
    >>> [piece.call for piece in tasks.take()]
    [('b',), ('c',)]
    """

    def __init__(self, calls: Iterable[Sequence[Any]]) -> None:
        self.waiting = deque(Piece(i, call) for i, call in enumerate(calls))
        self.lost: deque[Piece] = deque()
        self.size = 1

    def __bool__(self) -> bool:
        return bool(self.waiting or self.lost)

    def take(self, among: int = 1) -> list[Piece]:
        """The pieces of the next task: so few that what is left is enough for `among` tasks. One
        that has lost its worker comes alone.
        """
        if self.lost:
            return [self.lost.popleft()]
        size = min(self.size, -(-len(self.waiting) // among))
        return [self.waiting.popleft() for _ in range(size)]

    def done(self, task: Sequence[Piece], played: Played) -> list[tuple[int, Any]]:
        """The places and the results of what was played; the rest of the task is next."""
        n = len(played.results)
        self.waiting.extendleft(reversed(task[n:]))
        fitting = n * LONG / max(played.seconds, 1e-9)
        self.size = max(1, min(2 * n, round(fitting)))
        places = [piece.place for piece in task[:n]]
        return list(zip(places, played.results, strict=True))

    def lose(self, task: Sequence[Piece]) -> None:
        """Play these again, each alone: any of them may be what kills workers."""
        self.lost.extend(task)


def play(function: Callable[..., Any], calls: Sequence[Sequence[Any]], shared: Any) -> Played:
    """The results of the calls, or of as many as there is time for."""
    start = time.perf_counter()
    results: list[Any] = []
    seconds = 0.0
    for call in calls:
        if seconds > LONG:
            break
        arguments = [shared[x.at] if isinstance(x, Shared) else x for x in call]
        results.append(function(*arguments))
        seconds = time.perf_counter() - start
    return Played(results, seconds)

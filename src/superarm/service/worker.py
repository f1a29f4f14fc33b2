"""A thread that takes all that waits for it at once: the more there is, the less each costs."""

import asyncio
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

MOST = 512
"""Jobs that are taken at once."""
LOOKS = 0.002
"""Seconds between looks at whether it is busy."""
LONG = 0.05
"""Seconds that jobs taken at once usually do not need."""


class Job:
    """Something to do, and where the result is wanted."""

    __slots__ = ("error", "loop", "result", "waiting", "work")

    def __init__(self, work: Any) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.waiting: Any = None

    def deliver(self) -> None:
        """Hand over what came of it, in the thread that wants it."""
        if self.waiting.done():  # nobody waits for it any more
            return
        if self.error is not None:
            self.waiting.set_exception(self.error)
        else:
            self.waiting.set_result(self.result)


class Worker:
    """A thread with a queue.

    Args:
        name: of the thread.
        process: does some jobs, and sets the result or the error of each.
        limit: jobs that may wait; more are refused by `full`.

    >>> from superarm.service.worker import Worker
    >>> def square(jobs):
    ...     for job in jobs:
    ...         job.result = job.work**2
    ...     return jobs
    >>> worker = Worker("squares", square)
    >>> worker.submit(7).result()
    49
    >>> worker.stop()
    """

    def __init__(
        self,
        name: str,
        process: Callable[[list[Job]], Sequence[Job]],
        limit: int = 4096,
    ) -> None:
        self._process = process
        self._limit = limit
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._asked: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._busy_since = math.inf
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether so much waits that more should be refused."""
        return self._queue.qsize() >= self._limit

    @property
    def is_stuck(self) -> bool:
        """Whether it has been busy for so long that others should take what comes."""
        return time.monotonic() - self._busy_since > LONG

    def let_go_first(self, seconds: float) -> None:
        """Wait until it has nothing to do, or for so long, before work that can be put off."""
        end = time.monotonic() + seconds
        while self._is_busy and time.monotonic() < end:
            time.sleep(LOOKS)

    @property
    def _is_busy(self) -> bool:
        return self._busy_since < math.inf or not self._queue.empty()

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._queue.qsize() + sum(map(len, self._asked.values()))

    def submit(self, work: Any) -> "Future[Any]":
        """The result, when it is there: for callers that are threads."""
        job = Job(work)
        waiting: Future[Any] = Future()
        job.waiting = waiting
        self._queue.put(job)
        return waiting

    def ask(self, work: Any) -> "asyncio.Future[Any]":
        """The result, when it is there: for callers in an event loop."""
        loop = asyncio.get_running_loop()
        job = Job(work)
        job.loop = loop
        waiting: asyncio.Future[Any] = loop.create_future()
        job.waiting = waiting
        if loop in self._asked:
            self._asked[loop].append(job)
        else:  # all that is asked for in one turn of the loop is put together, which wakes once
            self._asked[loop] = [job]
            loop.call_soon(self._put, loop)
        return waiting

    def _put(self, loop: asyncio.AbstractEventLoop) -> None:
        self.take(self._asked.pop(loop, []))

    def take(self, jobs: Sequence[Job]) -> None:
        """Do jobs, also such as another worker has begun, and deliver what comes of them."""
        for job in jobs:
            self._queue.put(job)

    def stop(self) -> None:
        """Finish all that waits, and end."""
        for loop in list(self._asked):
            self._put(loop)
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            jobs, ends = self._taken()
            if jobs:
                self._busy_since = time.monotonic()
                deliver(self._done(jobs))
                self._busy_since = math.inf
            if ends:
                return

    def _taken(self) -> tuple[list[Job], bool]:
        """All jobs that wait, at least one; and whether the thread should end."""
        found = [self._queue.get()]
        with suppress(queue.Empty):
            while len(found) < MOST and found[-1] is not None:
                found.append(self._queue.get_nowait())
        jobs = [job for job in found if job is not None]
        return jobs, len(jobs) < len(found)

    def _done(self, jobs: list[Job]) -> Sequence[Job]:
        try:
            return self._process(jobs)
        except BaseException as error:  # a thread that died would leave all others waiting
            for job in jobs:
                job.error = error
            return jobs


def deliver(jobs: Sequence[Job]) -> None:
    """Hand over the results: to an event loop all of them at once, which wakes it once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.loop is None:
            job.deliver()
        else:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_deliver_each, some)


def _deliver_each(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.deliver()

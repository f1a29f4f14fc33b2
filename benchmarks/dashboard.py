"""What looking inside a service costs: processor time of each query behind the dashboard, with a
million events stored and a hundred thousand items; and of counting, per decision with feedback.

The log is written straight into the tables, many events per transaction. All figures are processor
time of this process, so that others on the machine do not matter; the first call of a query, which
may compile or remember something, is told apart from the others.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from superarm.agent.decisions import as_time, now
from superarm.arrays import Array
from superarm.service import agents, decisions, log
from superarm.service.dashboard import items, listing, tallies
from superarm.service.dashboard.baselines import baselines
from superarm.service.dashboard.coefficients import coefficients
from superarm.service.dashboard.constraint import constraint
from superarm.service.dashboard.following import Follower
from superarm.service.dashboard.history import history
from superarm.service.dashboard.opened import opened as opened_decision
from superarm.service.dashboard.overview import overview
from superarm.service.dashboard.ranges import Range
from superarm.service.dashboard.shapes import WhatIf
from superarm.service.dashboard.whatif import what_if
from superarm.service.database import Database
from superarm.service.engine import Service
from superarm.service.events import Decided, Matrix, Observed, Seen
from superarm.service.log import Place, Tail
from superarm.service.server import opened
from superarm.service.wire import CreateAgent, Decide
from superarm.service.worker import Worker

D, K = 8, 5
AT_ONCE = 2_000
"""Events per transaction."""
DAYS = 20
"""That the log goes back."""
REPEATS = 7
DRAWN = 20
"""Of so many decisions, one has propensities."""


def features(L: int) -> Array:
    """The features of the items."""
    Phi: Array = np.random.default_rng(1).standard_normal((L, D)) / np.sqrt(D)
    return Phi


def catalogue(L: int) -> CreateAgent:
    """The agent."""
    body = {
        "name": "news",
        "learner": {"kind": "CombLinTS", "lam": 1.0, "sigma": 0.5},
        "oracle": {"kind": "TopK", "k": K},
        "items": {"items": [f"article {i}" for i in range(L)], "features": features(L).tolist()},
    }
    return msgspec.convert(body, CreateAgent)


class Filling:
    """Writes a log by hand: a decision, and for most of them feedback on all its items."""

    def __init__(self, database: Database, L: int) -> None:
        self._database = database
        self._agent = log.agents(database.read())["news"]
        self._rng = np.random.default_rng(2)
        self._names = [f"article {i}" for i in range(L)]
        self._features = features(L)

    def fill(self, n: int) -> None:
        """Append n events over some days."""
        start = now() - timedelta(days=DAYS)
        done = 0
        while done < n:
            moment = start + timedelta(days=DAYS) * (done / n)
            with self._database.transaction() as tx:
                tail = Tail(tx, moment)
                done += self._some(tail, min(AT_ONCE, n - done))
                tail.finish()

    def _some(self, tail: Tail, n: int) -> int:
        half = max(1, n * 10 // 19)  # nine of ten are answered
        start = self._rng.integers(0, len(self._names), (half, 1))
        chosen = (start + 7 * np.arange(K)) % len(self._names)  # no item twice
        weights = self._rng.random((half, K))
        first = tail.position + 1
        for i, A in enumerate(chosen.tolist()):
            tail.append(self._agent, self._decided(A, drawn=i % DRAWN == 0))
        answered = n - half
        seen: dict[int, dict[int, Place]] = {}
        for i, w in enumerate(weights[:answered].tolist()):
            at = first + i
            event = Observed([Seen(at, list(range(K)), w, None, 0, None)])
            position = tail.append(self._agent, event)
            seen[at] = {place: Place(x, None, position) for place, x in enumerate(w)}
        log.note_seen(tail.tx, seen)
        return n

    def _decided(self, A: list[int], drawn: bool) -> Decided:
        return Decided(
            token="0" * 16,
            items=[self._names[e] for e in A],
            features=Matrix.of(self._features[A]),
            seed=0,
            believed=0,
            propensity=[0.01] * K if drawn else None,
            draws=1000 if drawn else None,
        )


class Cost(NamedTuple):
    """Milliseconds of the processor that a query takes."""

    first: float
    others: float


def cost(query: Callable[[], Any]) -> Cost:
    """What a query costs: at first, and the median of some more."""
    times = []
    for _ in range(REPEATS):
        start = time.thread_time()
        query()
        times.append(1000 * (time.thread_time() - start))
    return Cost(times[0], statistics.median(times[1:]))


def queries(service: Service) -> dict[str, Callable[[], Any]]:
    """What the pages ask for."""
    moment = now().timestamp()
    hour = Range(moment - DAYS * 86400, moment - DAYS * 86400 + 3600)
    weeks = Range(moment - (DAYS + 1) * 86400, moment)
    key = listing.listed(service, "news", None, 1).decisions[0].id
    return {
        "overview, an hour": lambda: overview(service, hour),
        "overview, three weeks": lambda: overview(service, weeks),
        "history, an hour": lambda: history(service, "news", hour, 400),
        "history, three weeks": lambda: history(service, "news", weeks, 400),
        "items by times chosen": lambda: items.items(service, "news", items.Asked()),
        "items by mean": lambda: items.items(service, "news", items.Asked(sort="mean")),
        "items searched for": lambda: items.items(
            service, "news", items.Asked(search="le 77", sort="deviation")
        ),
        "coefficients": lambda: coefficients(service, "news", "", 100),
        "constraint": lambda: constraint(service, "news"),
        "50 decisions": lambda: listing.listed(service, "news", None, 50),
        "50 decisions further back": lambda: listing.listed(service, "news", "500000", 50),
        "a decision opened": lambda: opened_decision(service, "news", key),
        "what if": lambda: what_if(service, "news", WhatIf(learner={"kind": "Greedy"})),
        "baselines": lambda: baselines(service, "news", weeks),
    }


def counted(database: Database) -> float:
    """Microseconds of the processor to count, per decision with its feedback."""

    def commit(jobs: list[Any]) -> list[Any]:
        for job in jobs:
            with database.transaction() as tx:
                job.result = job.work(Tail(tx, now()))
        return jobs

    writer = Worker("benchmark", commit)
    follower = Follower(database, writer, dict, lambda: True)
    start = time.process_time()
    follower.flush()
    spent = time.process_time() - start
    writer.stop()
    agent = log.agents(database.read())["news"]
    return 1e6 * spent / tallies.ever(database.read(), agent).decisions


def decided(service: Service, n: int) -> float:
    """Microseconds of the processor that a decision of this agent takes, without HTTP."""

    async def some(n: int) -> None:
        for _ in range(n):
            await decisions.decide(service, "news", Decide())

    asyncio.run(some(20))  # what is compiled is compiled now
    start = time.process_time()
    asyncio.run(some(n))
    return 1e6 * (time.process_time() - start) / n


def main() -> None:
    """Fill a log, count it, look at it, and print what that cost."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    options = parser.parse_args()
    with threadpool_limits(limits=1), tempfile.TemporaryDirectory() as folder:  # as a server does
        data = Path(folder)
        service = Service(opened(data))
        asyncio.run(agents.create(service, catalogue(options.items)))
        service.close()
        database = opened(data)
        Filling(database, options.items).fill(options.events)
        print(f"{options.events:,} events of {options.items:,} items, as of {as_time(now())[:16]}")
        print(f"counting a decision and its feedback: {counted(database):.0f} µs")
        database.close()
        service = Service(opened(data))
        try:
            print(f"for comparison, deciding: {decided(service, 200):.0f} µs\n")
            print(f"{'query':<28}{'first, ms':>12}{'others, ms':>12}")
            for name, query in queries(service).items():
                first, others = cost(query)
                print(f"{name:<28}{first:12.1f}{others:12.1f}")
        finally:
            service.close()


if __name__ == "__main__":
    main()

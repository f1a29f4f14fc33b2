"""How long a service takes to restart on a log of a million events, from its last snapshot.

The log is written event by event through what the service writes by, many in one transaction. Then
a real process is started, with as much feedback after the snapshot as ten seconds may bring. A fold
over a long log takes minutes and changes nothing about a restart. So the snapshot is of the first
events alone, noted as if it were of all; `--whole` folds them all.
"""

import argparse
import asyncio
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from superarm.agent.decisions import now
from superarm.service import agents, commits, feedback, log, snapshots
from superarm.service.engine import Service
from superarm.service.events import Decided, Matrix
from superarm.service.fold import fold
from superarm.service.log import Tail
from superarm.service.server import opened
from superarm.service.wire import CreateAgent, Seen

L, D, K = 1_000, 16, 5
AT_ONCE = 20_000
"""Events per transaction, of those that nobody reads."""
TOGETHER = 32
"""Events per transaction, of those that are folded: as 32 clients bring them."""


def catalogue() -> CreateAgent:
    """The agent."""
    Phi = np.random.default_rng(1).standard_normal((L, D)) / np.sqrt(D)
    body = {
        "name": "news",
        "oracle": {"kind": "TopK", "k": K},
        "items": {"items": list(range(L)), "features": Phi.tolist()},
    }
    return msgspec.convert(body, CreateAgent)


def create(data: Path) -> None:
    """A service with an agent."""
    service = Service(opened(data))
    asyncio.run(agents.create(service, catalogue()))
    service.close()


def fill(data: Path, n: int, together: int) -> None:
    """Append n events: decisions, and after each of them feedback on all its items."""
    database = opened(data)
    agent = log.agents(database.read())["news"]
    rng = np.random.default_rng(2)
    rows = Matrix.of(rng.standard_normal((K, D)))
    for start in range(0, n, together):
        with database.transaction() as tx:
            tail = Tail(tx, now())
            for _ in range(min(together, n - start) // 2):
                _one(tail, agent, rows, rng)
            tail.finish()
    database.close()


def _one(tail: Tail, agent: int, rows: Matrix, rng: Any) -> None:
    """A decision and its feedback."""
    chosen = rng.choice(L, K, replace=False).tolist()
    event = Decided(commits.tokens(1)[0], chosen, rows, seed=7, believed=tail.position)
    made = commits.record_decision(agent, event)(tail)
    given = Seen(decision=made.id, weights=rng.random(K).tolist())
    feedback.feedback(agent, [given], correct=False)(tail)


def keep_snapshot(data: Path, events: int) -> None:
    """Keep the fold of the first events as the snapshot of all."""
    database = opened(data)
    connection = database.read()
    end, _ = log.head(connection)
    agent = log.agents(connection)["news"]
    folded = fold(connection, agent, None, agent + events)._replace(position=end)
    with database.transaction() as tx:
        snapshots.prepared(agent, folded, end)(Tail(tx, now()))
    database.close()


class Start(NamedTuple):
    """What a start took, in seconds."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f} s of one core)"


def started(data: Path) -> Start:
    """From the start of a process until its port is open."""
    command = [sys.executable, "-m", "superarm", "serve", "--data", str(data), "--port", "0"]
    command += ["--snapshot-every", "1e9"]  # so that all starts fold the same
    before = _children()
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if re.match("serving at", line):
                break
        seconds = time.perf_counter() - start
        process.kill()  # what is after the snapshot stays after it
    return Start(seconds, _children() - before)


def _children() -> float:
    """Seconds of processors that ended processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Fill a log, fold it once, and restart on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--since", type=int, default=20_000, help="events after the snapshot")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="fold all events for the snapshot")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        create(data)
        print(f"start without events: {_least(data, arguments.starts)}", flush=True)
        start = time.perf_counter()
        fill(data, arguments.events - arguments.since, AT_ONCE)
        size = sum(file.stat().st_size for file in data.iterdir()) / 2**20
        took = time.perf_counter() - start
        print(f"written: {arguments.events} events, {size:.0f} MiB, {took:.0f} s", flush=True)
        if arguments.whole:
            start = time.perf_counter()
            Service(opened(data)).close()
            print(f"folded, snapshot kept: {time.perf_counter() - start:.1f} s", flush=True)
        else:
            keep_snapshot(data, 1000)
        print(f"restart at the snapshot: {_least(data, arguments.starts)}", flush=True)
        fill(data, arguments.since, TOGETHER)
        found = _least(data, arguments.starts)
        print(f"restart {arguments.since} events after it: {found}", flush=True)


def _least(data: Path, starts: int) -> Start:
    return min(started(data) for _ in range(starts))


if __name__ == "__main__":
    main()

"""What `Agent.learn` costs per row, beside an earlier revision and beside bare LAPACK.

    python benchmarks/learning.py

The earlier revision is checked out into a folder of its own and runs in a process of its own. Both
take turns at the same rows, and each turn of one is compared with the turn of the other beside it:
the ratio is the median of theirs. A turn is one call of `learn` for many rows, and as many calls as
take some milliseconds for few, each of a new agent. LAPACK's is that of `tpqrt` of the same rows in
blocks that stay in the cache, with nothing checked or kept.
"""

import argparse
import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtpqrt
from threadpoolctl import threadpool_limits

from superarm import Agent, CombLinTS, TopK

D = 20
TURN = 0.005
"""Seconds that a turn of the present revision takes at least: processes that take turns find cold
caches."""
TURNS = 60
"""Turns at most; few where rows are many."""
HERE = Path(__file__).parents[1]
EARLIER = "9fbfdba~1"
"""Where one call of LAPACK took all rows, once for the belief and once for its scales."""
LEARNERS: dict[str, Callable[[], Any]] = {
    "scales given": lambda: CombLinTS(lam=1.0, sigma=0.5),
    "scales found": CombLinTS,
}


class Log(NamedTuple):
    """Logged rows and their weights."""

    rows: Any  # (n, D)
    w: Any  # (n,)

    def first(self, n: int) -> "Log":
        """The first of them."""
        return Log(self.rows[:n], self.w[:n])


def log_of(n: int) -> Log:
    """As many rows as are asked for, of a linear model with noise."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, D))
    return Log(rows, rows @ rng.standard_normal(D) + rng.standard_normal(n))


def learned(name: str, features: Any, log: Log, calls: int) -> float:
    """Seconds of CPU time that a new agent takes for the log, of as many as there are calls."""
    agents = [
        Agent(LEARNERS[name](), features=features, oracle=TopK(5), seed=0) for _ in range(calls)
    ]
    start = time.process_time()
    for agent in agents:
        agent.learn(log.rows, log.w)
    return (time.process_time() - start) / calls


def reflected(log: Log, calls: int) -> float:
    """Seconds of CPU time that LAPACK takes to make the rows of the log a triangle."""
    start = time.process_time()
    for _ in range(calls):
        factor = np.zeros((D + 1, D + 1), order="F")
        step = 3000
        for first in range(0, len(log.w), step):
            part = slice(first, first + step)
            block = np.empty((len(log.w[part]), D + 1), order="F")
            block[:, :D] = log.rows[part]
            block[:, D] = log.w[part]
            dtpqrt(0, 8, factor, block, overwrite_a=1, overwrite_b=1)
    return (time.process_time() - start) / calls


# --- processes that take turns --------------------------------------------------------------------


def answer(most: int) -> None:
    """Answer each line "rows calls learner" with the seconds a call took, until there are no more
    lines.
    """
    log = log_of(most)
    for line in sys.stdin:
        n, calls, name = line.strip().split(" ", 2)
        print(learned(name, log.rows[:100], log.first(int(n)), int(calls)), flush=True)


@contextlib.contextmanager
def revision(name: str) -> Iterator[Path]:
    """The folder of the sources of a revision, which is there for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "earlier"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(there), name], check=True)
        try:
            yield there / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(there)], check=True)


class Contestant:
    """A process that learns with the superarm of a folder."""

    def __init__(self, sources: Path, most: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--answer", str(most)],
            env=os.environ | {"PYTHONPATH": str(sources)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turn(self, name: str, n: int, calls: int) -> float:
        """Seconds for so many rows, on the average of so many calls."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(n, calls, name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


class Turn(NamedTuple):
    """Seconds for some rows, one after the other."""

    before: float
    now: float
    lapack: float


def measured(before: Contestant, now: Contestant, name: str, log: Log) -> list[Turn]:
    """What the contestants take, turn by turn, once both have taken one."""
    n = len(log.w)
    before.turn(name, n, 1)
    now.turn(name, n, 1)
    calls = math.ceil(TURN / now.turn(name, n, 5))
    turns = max(9, min(TURNS, 10**6 // n))
    return [
        Turn(before.turn(name, n, calls), now.turn(name, n, calls), reflected(log, calls))
        for _ in range(turns)
    ]


def line(name: str, n: int, turns: list[Turn]) -> str:
    """The medians of the turns at n rows, and of their ratios."""
    before = statistics.median(turn.before for turn in turns)
    now = statistics.median(turn.now for turn in turns)
    faster = statistics.median(turn.before / turn.now for turn in turns)
    to_lapack = statistics.median(turn.now / turn.lapack for turn in turns)
    each = f"{1e9 * before / n:8.0f} ns{1e9 * now / n:8.0f} ns"
    return f"{name:12}{n:11,}{each}{faster:12.2f}{to_lapack:11.1f}"


def main() -> None:
    """Measure, and print each line when it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=EARLIER, help="the earlier revision")
    parser.add_argument("--most", type=float, default=1e6, help="rows at most; 1e7 take 7 GB")
    parser.add_argument("--answer", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # cores may differ in speed
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with threadpool_limits(limits=1):
        if given.answer:
            answer(given.answer)
            return
        most = int(given.most)
        log = log_of(most)
        with revision(given.against) as earlier:
            before = Contestant(earlier, most)
            now = Contestant(HERE / "src", most)
            print("learner            rows     before        now  before/now now/LAPACK")
            for name in LEARNERS:
                n = 1
                while n <= most:
                    print(line(name, n, measured(before, now, name, log.first(n))), flush=True)
                    n *= 10
            for contestant in (before, now):
                contestant.process.communicate()


if __name__ == "__main__":
    main()

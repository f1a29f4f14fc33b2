"""What `Agent.learn` costs per row, beside an earlier revision and beside bare LAPACK.

    python benchmarks/learning.py

The earlier revision is checked out into a folder of its own and runs in a process of its own. Both
take turns at the same rows, and the medians of their CPU times are compared. A turn is one call of
`learn` for many rows, and as many calls as take about that long for few, each of a new agent.
LAPACK's is that of `tpqrt` of the same rows in blocks that stay in the cache, with nothing checked
or kept.
"""

import argparse
import contextlib
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
ROWS = 10_000
"""About as many rows are learned in a turn, if there are fewer in the log."""
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


def calls(n: int) -> int:
    """How many calls with so many rows a turn is."""
    return max(1, ROWS // (n + 100))


def learned(name: str, features: Any, log: Log) -> float:
    """Seconds of CPU time that a new agent takes for the log."""
    agents = [
        Agent(LEARNERS[name](), features=features, oracle=TopK(5), seed=0)
        for _ in range(calls(len(log.w)))
    ]
    start = time.process_time()
    for agent in agents:
        agent.learn(log.rows, log.w)
    return (time.process_time() - start) / len(agents)


def reflected(log: Log) -> float:
    """Seconds of CPU time that LAPACK takes to make the rows of the log a triangle."""
    n = calls(len(log.w))
    start = time.process_time()
    for _ in range(n):
        factor = np.zeros((D + 1, D + 1), order="F")
        step = 3000
        for first in range(0, len(log.w), step):
            part = slice(first, first + step)
            block = np.empty((len(log.w[part]), D + 1), order="F")
            block[:, :D] = log.rows[part]
            block[:, D] = log.w[part]
            dtpqrt(0, 8, factor, block, overwrite_a=1, overwrite_b=1)
    return (time.process_time() - start) / n


# --- processes that take turns --------------------------------------------------------------------


def answer(most: int) -> None:
    """Answer each line "rows learner" with the seconds it took, until there are no more lines."""
    log = log_of(most)
    for line in sys.stdin:
        n, name = line.strip().split(" ", 1)
        print(learned(name, log.rows[:100], log.first(int(n))), flush=True)


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

    def turn(self, name: str, n: int) -> float:
        """Seconds for so many rows."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(n, name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


class Taken(NamedTuple):
    """Median seconds for some rows."""

    before: float
    now: float
    lapack: float


def measured(before: Contestant, now: Contestant, name: str, log: Log) -> Taken:
    """What the contestants take, turn by turn; a first turn is not counted."""
    n = len(log.w)
    repeats = max(5, min(25, 10**6 // n))
    turns = [
        Taken(before.turn(name, n), now.turn(name, n), reflected(log)) for _ in range(repeats + 1)
    ]
    medians = map(statistics.median, zip(*turns[1:], strict=True))
    return Taken(*medians)


def main() -> None:
    """Measure, and print each line when it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=EARLIER, help="the earlier revision")
    parser.add_argument("--most", type=float, default=1e6, help="rows at most; 1e7 take 7 GB")
    parser.add_argument("--answer", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
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
                    taken = measured(before, now, name, log.first(n))
                    each = [f"{1e9 * seconds / n:8.0f} ns" for seconds in taken[:2]]
                    ratios = f"{taken.before / taken.now:12.1f}{taken.now / taken.lapack:11.1f}"
                    print(f"{name:12}{n:11,}{''.join(each)}{ratios}", flush=True)
                    n *= 10
            for contestant in (before, now):
                contestant.process.communicate()


if __name__ == "__main__":
    main()

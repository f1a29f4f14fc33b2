"""What the engines of `superarm.simulation` cost per replicate, beside the replicate itself.

    python benchmarks/engine.py

CPU time of the driver, of which nothing is the replicate's; and CPU time of the workers between the
end of one replicate and the start of the next, which is all they do beside: receive and unpack what
to play, check versions, hold BLAS to one thread, pack and send what was earned. Starting workers is
not counted. On Ray, short replicates are played several per task: `--episodes 400` measures those
that are long enough to be played alone.
"""

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from superarm import CombLinTS
from superarm.engine.local import Engine, create_engine
from superarm.simulation.replicate import Result, Setup, replicate, replicate_seeds
from superarm.studies.longest_path import LongestPath

ASKED = 5.0
"""Milliseconds per replicate, at most."""


class Played(NamedTuple):
    """A replicate, and when it was played by the clock of its worker's CPU time."""

    worker: int
    start: float
    end: float
    result: Result


def timed(game: Setup, seed: np.random.SeedSequence) -> Played:
    """One replicate, as a worker plays it."""
    start = time.process_time()
    result = replicate(game, seed)
    return Played(os.getpid(), start, time.process_time(), result)


class Cost(NamedTuple):
    """Milliseconds of CPU time per replicate."""

    driver: float
    worker: float
    replicate: float


def cost(where: Engine, game: Setup, replicates: int) -> Cost:
    """What so many replicates cost once the workers are there."""
    shared = where.put(game)
    calls = [(shared, seed) for seed in replicate_seeds(0, replicates)]
    list(where.map(timed, calls[:20]))
    start = time.process_time()
    played = [result for _, result in where.map(timed, calls)]
    driver = time.process_time() - start
    return Cost(
        1e3 * driver / replicates,
        1e3 * float(np.mean(between(played))),
        1e3 * float(np.mean([one.end - one.start for one in played])),
    )


def between(played: list[Played]) -> list[float]:
    """Seconds from the end of each replicate to the start of the next one of the same worker."""
    found = []
    for worker in {one.worker for one in played}:
        own = sorted((one for one in played if one.worker == worker), key=lambda one: one.start)
        found += [after.start - before.end for before, after in pairwise(own)]
    return found


def main() -> None:
    """Measure both engines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=20)
    given = parser.parse_args()
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # where workers find `timed`
    learners = {"CombLinTS": CombLinTS(lam=10.0, sigma=1.0)}
    game = Setup(LongestPath(), learners, episodes=given.episodes, exact=None)
    print(f"milliseconds of CPU time per replicate (asked: at most {ASKED:g} in all)")
    print("engine    driver    worker    in all    beside a replicate of")
    for name, cluster in (("joblib", None), ("Ray", "ray")):
        with create_engine(cluster, given.workers) as where:
            of = cost(where, game, given.replicates)
        both = of.driver + of.worker
        print(f"{name:8}{of.driver:8.2f}{of.worker:10.2f}{both:10.2f}{of.replicate:14.1f}")


if __name__ == "__main__":
    main()

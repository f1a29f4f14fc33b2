"""What choosing and observing costs for many users who have a belief each, in CPU time."""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np

from superarm import Agent, CombLinTS, Population, TopK
from superarm.arrays.compiled import one_blas_thread
from superarm.contracts import Learner

SIGMA = 0.3
SHARDS = 8
"""Shards in this process, for what it costs to deal users to them."""
ALONE = 200
"""Users who are also served by an agent each, one after the other."""


def least(run: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of several runs, in milliseconds."""
    taken = []
    for _ in range(repeats):
        before = time.process_time()
        run()
        taken.append(time.process_time() - before)
    return 1e3 * min(taken)


def measure(learner: Learner, n: int, L: int, d: int, K: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((L, d))
    users = [f"user {i}" for i in range(n)]
    population = Population(learner, features=features, oracle=TopK(K), seed=0)
    weights = SIGMA * rng.standard_normal((n, K))
    chosen = population.choose(users)
    population.observe(users, chosen, weights)

    def choose() -> None:
        population.choose(users)

    def observe() -> None:
        population.observe(users, chosen, weights)

    population.observe(users[:1], chosen[:1], weights[:1])
    with one_blas_thread():
        taken = {"choose": least(choose, repeats), "observe": least(observe, repeats)}
    peaks = {}
    for name, run in (("choose", choose), ("observe", observe)):
        tracemalloc.start()
        run()
        peaks[name] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()

    agents = [Agent(learner, features=features, oracle=TopK(K), seed=i) for i in range(ALONE)]
    for agent, items, w in zip(agents, chosen, weights, strict=False):
        agent.observe(items, w)
    alone = least(lambda: [agent.choose() for agent in agents], repeats) / ALONE
    print(f"{learner}, {n:,} users, L={L:,}, d={d}, K={K}")
    for name, limit in (("choose", 80), ("observe", 60)):
        print(f"  {name:8} {taken[name]:7.1f} ms CPU (asked: {limit}), peak {peaks[name]:.0f} MB")
    print(f"  one agent per user: {alone:.3f} ms per choice, {alone * n / taken['choose']:.0f} x")


def in_shards(learner: Learner, n: int, L: int, d: int, K: int, repeats: int) -> None:
    """CPU time of all shards and of the head over that of one process, measured in turns."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((L, d))
    users = [f"user {i}" for i in range(n)]
    weights = SIGMA * rng.standard_normal((n, K))
    given: dict[str, Any] = {"features": features, "oracle": TopK(K), "seed": 0}
    both = [Population(learner, **given), Population(learner, shards=SHARDS, **given)]
    taken: dict[str, list[list[float]]] = {"choose": [], "observe": []}
    same = 0
    numba.set_num_threads(1)  # threads that wait for work would be counted
    with one_blas_thread():
        for _ in range(repeats):
            chosen = [population.choose(users) for population in both]
            same += bool(np.array_equal(chosen[0], chosen[1]))
            calls = {"choose": (users,), "observe": (users, chosen[0], weights)}
            for name, call in calls.items():
                runs = [partial(getattr(population, name), *call) for population in both]
                taken[name].append([least(run, 1) for run in runs])
    for name, costs in taken.items():
        one, many = np.median(costs, axis=0)
        print(f"  {name:8} in {SHARDS} shards {many:.1f} ms over {one:.1f} ms = {many / one:.2f}")
    print(f"  {same} of {repeats} batches of choices are the same")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--chosen", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    sizes = (given.users, given.items, given.features, given.chosen, given.repeats)
    for learner in (CombLinTS(lam=1.0, sigma=SIGMA), CombLinTS()):
        measure(learner, *sizes)
        in_shards(learner, *sizes)


if __name__ == "__main__":
    main()

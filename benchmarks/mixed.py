"""One decision of `CombMixTS` against one of `CombLinTS` on the ads problem, interleaved in one run.

L = 32,561 people, d = 10 features, 100 chosen; the beliefs are those after 300 episodes. Run: make bench
"""

import statistics
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from agent import timed
from superarm import Agent, CombLinTS, CombMixTS
from superarm.experiments.ads import Ads


def main(repeats: int = 1_000) -> None:
    problem, world = Ads()(np.random.default_rng(0))
    learners: dict[str, Any] = {
        "CombLinTS": CombLinTS(lam=1.0, sigma=0.3),
        "CombMixTS": CombMixTS(),
        "CombMixTS, explore=0": CombMixTS(explore=0.0),
    }
    agents = {name: Agent(a, features=problem.Phi, oracle=problem.oracle, seed=1) for name, a in learners.items()}
    rng = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in agents}
    with threadpool_limits(limits=1):
        for _ in range(300):
            for agent in agents.values():
                items = agent.choose()
                agent.observe(items, world.draw(rng)[items])
        for _ in range(repeats):
            for name, agent in agents.items():
                times[name].append(timed(agent.choose)[1])
    print(f"One decision at L={problem.L:,} d={problem.d}, medians of {repeats:,} interleaved repeats, microseconds\n")
    base = statistics.median(times["CombLinTS"])
    for name, taken in times.items():
        print(f"{name:22}{1e6 * statistics.median(taken):8.1f}   {statistics.median(taken) / base:.2f} x CombLinTS")


if __name__ == "__main__":
    main()

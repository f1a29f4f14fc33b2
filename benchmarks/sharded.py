"""What a catalogue in shards costs beside one process that has all of it.

    python benchmarks/sharded.py [--items 2000000] [--shards 8] [--decisions 1000]

CPU time of all shards and of the head over that of `decide` on one array of the same features,
measured in turns in one process; and how many decisions are the same, items and order. One more
line has the CPU time of the head per shard on a Ray of this machine, if Ray is installed.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from superarm import CombLinTS, CombLinUCB, CombMixTS, Feedback, Problem, Quota, TopK, sharded
from superarm.arrays.random import Stream
from superarm.cluster.cutting import cut
from superarm.contexts import Outer
from superarm.decide import decide

TS = CombLinTS(lam=1.0, sigma=0.5)
UCB = CombLinUCB(lam=1.0, sigma=0.5, c=1.0)
MIX = CombMixTS(lam=1.0, sigma=0.5, tau=0.3, explore=1.0)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def compared(learner: Any, oracle: Any, Phi: Any, shards: int, n: int, contexts: Any) -> str:
    """One line: how many of n decisions are the same, and the ratio of CPU time."""
    agent = sharded.Agent(
        learner, features=Phi, oracle=oracle, shards=shards, contexts=contexts, seed=1
    )
    rng = np.random.default_rng(1)
    users = np.random.default_rng(2).standard_normal((n, 3))
    made = None if contexts is None else contexts(Phi)
    belief = None
    same = 0
    costs = []
    for x in users:
        problem = Problem(Phi if made is None else made(x), oracle)
        if belief is None:
            belief = learner.model.prior(problem)
        (seed,) = rng.integers(2**63, size=1).tolist()
        here, A = seconds(partial(decide, learner, belief, problem, Stream(seed)))
        there, chosen = seconds(partial(agent.choose, None if made is None else x))
        same += bool(np.array_equal(A, chosen.items))
        costs.append((here, there))
        w = chosen.rows @ np.linspace(-1, 1, problem.d) + 0.5 * users.std()
        belief = learner.model.learn(belief, problem, Feedback.of(problem, A, w))
        agent.observe(chosen, w)
    one, many = np.median(np.array(costs), axis=0)
    return f"{same} of {n} the same; {1e3 * many:.1f} ms over {1e3 * one:.1f} ms = {many / one:.2f}"


def head_on_ray(Phi: Any, n: int) -> str:
    """CPU time of the head per shard, for 8 shards on 2 cores."""
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=800 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        with sharded.Agent(TS, features=Phi, oracle=TopK(10), shards=8, cluster="ray") as agent:
            agent.choose()
            costs = [seconds(agent.choose)[0] for _ in range(n)]
        return f"{1e3 * np.median(costs) / 8:.2f} ms per shard"
    finally:
        ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--items", type=int, default=2**21)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--decisions", type=int, default=1000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((options.items, 20), np.float32)
    quota = Quota(np.arange(options.items) % 3, {0: 5, 1: 3, 2: 2})
    shards = len(cut(Phi, options.shards))
    print(f"{options.items:,} items of 20 float32 features in {shards} shards")
    with threadpool_limits(limits=1):
        for name, learner, oracle, contexts in (
            ("CombLinTS, TopK", TS, TopK(10), None),
            ("CombLinTS, Quota", TS, quota, None),
            ("CombLinTS, Outer", TS, TopK(10), Outer),
            ("CombLinUCB, TopK", UCB, TopK(10), None),
            ("CombMixTS, TopK", MIX, TopK(10), None),
        ):
            line = compared(learner, oracle, Phi, shards, options.decisions, contexts)
            print(f"{name:18} {line}", flush=True)
    if find_spec("ray") is not None:
        print(f"head, on Ray       {head_on_ray(Phi[: 2**18], 100)}")


if __name__ == "__main__":
    main()

"""What an agent's catalogue costs: one more item, one less, a few available among a million."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from superarm.agent import Agent
from superarm.arrays import Array
from superarm.contracts import Learner
from superarm.learners import CombLinTS, CombMixTS
from superarm.oracles import TopK
from turns import Row, interleaved


def _median(calls: int, call: Callable[[int], Any]) -> float:
    """Median seconds of a call, the first of which is not counted."""
    taken = []
    for i in range(calls + 1):
        start = time.perf_counter()
        call(i)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def one_item(repeats: int, L: int = 1_000_000, d: int = 20) -> Iterator[Row]:
    """One item more, and one less, against a decision over all of them."""
    Phi = np.random.default_rng(0).standard_normal((L, d))
    yield from _one_item(CombLinTS(lam=1.0, sigma=1.0), "scales given", Phi, repeats)
    yield from _one_item(CombLinTS(), "scales auto", Phi, repeats)
    yield from _one_item(CombMixTS(), "with deviations", Phi, repeats)


def _one_item(learner: Learner, kind: str, Phi: Array, repeats: int) -> Iterator[Row]:
    L, d = Phi.shape
    calls = 100 * repeats
    new = np.random.default_rng(1).standard_normal((calls + 1, 1, d))
    agent = Agent(learner, features=Phi, oracle=TopK(10), seed=1)
    decision = _median(repeats, lambda i: agent.choose())
    taken = {
        "add": _median(calls, lambda i: agent.add_items(new[i])),
        "remove": _median(calls, lambda i: agent.remove_items([i])),
    }
    for what, seconds in taken.items():
        yield Row(
            f"{what} one item, L={L:,} d={d}, {kind}",
            seconds,
            "a decision over all",
            seconds / decision,
            "under 1 ms",
        )


def few(repeats: int, L: int = 1_000_000, d: int = 20, n: int = 500) -> Iterator[Row]:
    """A decision among a few available items, against one among all."""
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((L, d))
    agent = Agent(CombLinTS(), features=Phi, oracle=TopK(10), seed=1)
    available = rng.choice(L, n, replace=False).tolist()
    taken = interleaved(
        {"all": agent.choose, "few": lambda: agent.choose(available=available)},
        5 * repeats,
    )
    yield Row(
        f"choose among {n} of {L:,} items, d={d}",
        taken["few"],
        "among all",
        taken["few"] / taken["all"],
        "at most 0.05",
    )

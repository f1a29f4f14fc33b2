"""What an agent's catalogue costs: one more item, one less, a few available among a million."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from superarm.agent import Agent
from superarm.learners import CombLinTS
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
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((L, d))
    new = rng.standard_normal((100 * repeats + 1, 1, d))
    for learner in (CombLinTS(lam=1.0, sigma=1.0), CombLinTS()):
        agent = Agent(learner, features=Phi, oracle=TopK(10), seed=1)
        decision = _median(repeats, lambda i: agent.choose())  # noqa: B023
        added = _median(100 * repeats, lambda i: agent.add_items(new[i]))  # noqa: B023
        removed = _median(100 * repeats, lambda i: agent.remove_items([i]))  # noqa: B023
        kind = "auto" if learner == CombLinTS() else "given"
        for what, taken in (("add", added), ("remove", removed)):
            yield Row(
                f"{what} one item, L={L:,} d={d}, scales {kind}",
                taken,
                "a decision over all",
                taken / decision,
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

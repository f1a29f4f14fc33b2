"""Compiling ahead: first calls take seconds, unless somebody made them before.

Compiled code is kept on disk, by Numba, so that later processes only load it.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from superarm import decide
from superarm.arrays.compiled import expect_compilation
from superarm.arrays.namespace import KERNEL_MIN_NUMBERS
from superarm.contracts import Learner, Oracle, Problem
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.learners import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
)
from superarm.oracles import (
    BipartiteMatching,
    Budget,
    DagPath,
    GridPath,
    GroupLimits,
    Intervals,
    Knapsack,
    LaminarMatroid,
    Milp,
    PartitionMatroid,
    Quota,
    ShortestPath,
    SpanningTree,
    TopK,
    Tour,
)
from superarm.oracles.base import BaseOracle, as_oracle

TRIANGLE = [(0, 1), (1, 2), (0, 2)]

ORACLES: dict[str, Callable[[], BaseOracle]] = {
    "TopK": lambda: TopK(2),
    "Quota": lambda: Quota(["a", "a", "b"], {"a": 1, "b": 1}),
    "PartitionMatroid": lambda: PartitionMatroid(["a", "a", "b"], {"a": 1, "b": 1}),
    "LaminarMatroid": lambda: LaminarMatroid(3, sets=[[0, 1]], capacities=[1]),
    "GridPath": lambda: GridPath(2),
    "DagPath": lambda: DagPath(TRIANGLE, 0, 2),
    "ShortestPath": lambda: ShortestPath(TRIANGLE, 0, 2),
    "SpanningTree": lambda: SpanningTree(TRIANGLE),
    "BipartiteMatching": lambda: BipartiteMatching(TRIANGLE),
    "Knapsack": lambda: Knapsack(np.linspace(1.0, 2.0, 40), 20.0),
    "Budget": lambda: Budget(
        np.linspace(1.0, 2.0, 40), 20.0, groups=["a", "b"] * 20, maximum=9, max_items=15
    ),
    "GroupLimits": lambda: GroupLimits([["a"], ["a", "b"], ["b"]] * 4, {"a": 2, "b": 2}),
    "Intervals": lambda: Intervals([0.0, 1.0, 2.0], [1.5, 2.5, 3.0]),
    "Milp": lambda: Milp([[1.0, 2.0, 1.0]], [2.0], time_limit=10.0),
    "Tour": lambda: Tour(12),
}
"""An oracle of each kind that has kernels, by name."""
LEARNERS: dict[str, Callable[[], Learner]] = {
    "CombLinTS": lambda: CombLinTS(),
    "CombLinTS with scales": lambda: CombLinTS(lam=1.0, sigma=1.0),
    "CombLinTS of clicks": lambda: CombLinTS(link="logit"),
    "CombLinUCB": lambda: CombLinUCB(lam=1.0, sigma=1.0, c=1.0),
    "CombMixTS": lambda: CombMixTS(),
    "CombMixTS of clicks": lambda: CombMixTS(link="logit"),
    "CombMixUCB": lambda: CombMixUCB(c=1.0),
    "CombTS": lambda: CombTS(),
    "CombGaussianTS": lambda: CombGaussianTS(lam=1.0, sigma=1.0),
    "CombUCB1": lambda: CombUCB1(),
}
"""A learner of each kind that has kernels, by name."""
NAMES = [*ORACLES, *LEARNERS]


def compiled_oracles() -> list[str]:
    """The names of the oracles that have kernels.

    >>> from superarm.agent.ahead import compiled_oracles
    >>> "TopK" in compiled_oracles(), "CombTS" in compiled_oracles()
    (True, False)
    """
    return list(ORACLES)


class Compiled(NamedTuple):
    """What has been compiled, and how long it took; next to nothing if it was before."""

    name: str
    seconds: float


def warm_up(oracle: Any, learner: Learner | None = None) -> None:
    """Compile what an oracle needs, and a learner with it, by calls whose results are thrown away.

    A service that does so before it takes requests answers the first one as fast as the others.
    `Agent.warm_up` does the same for an agent.

    >>> from superarm import CombLinTS, TopK, warm_up
    >>> warm_up(TopK(2))
    >>> warm_up(TopK(2), CombLinTS(lam=1.0, sigma=1.0))
    """
    solver = as_oracle(oracle)
    L = _size(solver)
    with expect_compilation():
        _solve(solver, L)
        if learner is not None:
            _decide(learner, solver, L)


def compile_all(names: Iterable[str] = ()) -> Iterator[Compiled]:
    """Compile the named examples, or all of them, for one core and for all cores, one after the
    other; comes back to the caller after each.

    >>> from superarm.agent.ahead import compile_all
    >>> [done.name for done in compile_all(["TopK"])]
    ['TopK']
    """
    wanted = list(names) or NAMES
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        raise ParameterError(f"{unknown[0]!r} has nothing to compile; what has: {', '.join(NAMES)}")
    return map(_compiled, wanted)


def _compiled(name: str) -> Compiled:
    start = time.perf_counter()
    with expect_compilation(everything=True):
        if name in ORACLES:
            oracle = ORACLES[name]()
            _solve(oracle, _size(oracle))
        else:
            learner = LEARNERS[name]()
            _decide(learner, TopK(2), 3)
            _decide_for_many(learner)
    return Compiled(name, time.perf_counter() - start)


def _size(oracle: BaseOracle) -> int:
    """How many items to ask an oracle about: its own, or some."""
    L: int | None = oracle.L
    return L or (oracle.K or 1) + 1


def _solve(oracle: Oracle, L: int) -> None:
    """Call an oracle once, with weights that it takes: some take those of one sign alone."""
    w = np.linspace(1.0, 2.0, L)
    for weights in (w, -w):
        try:
            oracle(weights)
        except WeightsError:
            continue
        except InfeasibleError:  # what it compiled stays so
            pass
        return


def _decide(learner: Learner, oracle: Oracle, L: int) -> None:
    """Make a decision, and learn from it."""
    Phi = np.random.default_rng(0).standard_normal((L, 3))
    problem = Problem(Phi, oracle)
    decide.compile_first_call(learner, learner.model.prior(problem), problem)


def _decide_for_many(learner: Learner) -> None:
    """Decide for so many users that what is fastest for them is used, if they may have features of
    their own.
    """
    if learner.model.fixed_features or not learner.model.uses_features:
        return
    L = d = 2**4
    Phi = np.random.default_rng(0).standard_normal((KERNEL_MIN_NUMBERS // (L * d), L, d))
    problem = Problem(Phi[0], TopK(2))
    users = decide.with_features_of_users(learner, problem, Phi)
    decide.decide_each(learner, learner.model.prior(problem), users, np.random.default_rng(0))

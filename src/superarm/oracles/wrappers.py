"""Oracles made from oracles."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Array, beside, hashed_uniform, where
from superarm.errors import ParameterError
from superarm.problem import Around, Oracle, as_oracle, check_weights


class _Minimize(Around):
    @property
    def gap(self) -> float | None:
        return 0.0 if self.oracle.gap == 0 else None  # a share of the best says nothing about costs

    def __call__(self, w: Array, /) -> Array:
        w = check_weights(w, tensors=True)
        return self.oracle(where(w == -np.inf, w, -w))


def minimize(oracle: Oracle) -> Oracle:
    """The same feasible sets with weights that are costs: the cheapest set. -inf still means 'not available'.

    Thompson sampling learns from costs as they are. Optimism does not: an upper bound on a cost is pessimistic. For UCB
    learners, and for regret with the usual sign, observe minus the cost and use the oracle itself.

    >>> import numpy as np
    >>> from superarm import TopK, minimize
    >>> minimize(TopK(2))(np.array([3.0, 1.0, 2.0]))
    array([1, 2])
    """
    return _Minimize(as_oracle(oracle))


@dataclass(frozen=True)
class _WithGap:
    oracle: Oracle
    gap: float
    seed: int

    @property
    def K(self) -> int | None:
        return self.oracle.K

    def __call__(self, w: Array, /) -> Array:
        w = check_weights(w, tensors=True)
        items = np.arange(w.shape[-1])
        shrink = 1 - self.gap * hashed_uniform(items, np.full(len(items), self.seed))
        return self.oracle(w * beside(w, shrink))


def with_gap(oracle: Oracle, gamma: float, *, seed: int = 0) -> Oracle:
    """An exact oracle made worse on purpose, by a sub-optimality gap γ: for studies of approximate oracles.

    It maximizes w'(e) = (1 - γu_e) w(e) with fixed u_e in [0, 1). For weights that are not negative, the set A it finds
    satisfies f(A, w) >= f(A, w') >= f(A*, w') >= (1 - γ) f(A*, w).

    >>> import numpy as np
    >>> from superarm import TopK, with_gap
    >>> oracle = with_gap(TopK(1), 0.5)
    >>> w = np.linspace(0.6, 1.0, 9)
    >>> bool(0.5 <= w[oracle(w)][0] < 1.0), oracle.gap
    (True, 0.5)
    """
    oracle = as_oracle(oracle)
    if not 0 <= gamma < 1:
        raise ParameterError(f"gamma must lie in [0, 1), got {gamma!r}")
    if oracle.gap != 0:
        raise ParameterError(f"with_gap needs an exact oracle, but the gap of {oracle} is {oracle.gap}")
    return _WithGap(oracle, gamma, seed)

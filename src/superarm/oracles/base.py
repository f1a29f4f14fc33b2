"""What all oracles share: the check of what a user's function returns, masks, and oracles made from
oracles.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm.arrays import Array, as_like, hashed_uniform, to_numpy, where
from superarm.checks import check_weights, find_fault, is_whole
from superarm.contracts import Oracle
from superarm.errors import InfeasibleError, OracleError, ParameterError


@dataclass(frozen=True)
class CheckedOracle:
    """Somebody else's function `weights -> items`, or oracle, under the oracle contract; made by
    `as_oracle`.
    """

    solve: Callable[[Array], Any]
    K: int | None
    gap: float | None

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L), one weight vector at a time."""
        w = check_weights(w)
        sets = [self._checked(row) for row in w.reshape(-1, w.shape[-1])]
        A = np.full((len(sets), max(map(len, sets), default=0)), -1)
        for row, items in zip(A, sets, strict=True):
            row[: len(items)] = items
        return A.reshape(*w.shape[:-1], A.shape[-1])

    def _checked(self, w: Array) -> Array:
        found = self.solve(w.copy())
        try:
            items = np.asarray(sorted(found) if isinstance(found, set | frozenset) else found)
        except ValueError as error:
            raise OracleError(
                f"the oracle {self.solve!r} must return a flat list of items ({error})"
            ) from error
        if isinstance(self.solve, Oracle):
            items = items[items != -1]  # its padding
        fault = find_fault(items, len(w))
        if fault is None and self.K is not None and len(items) > self.K:
            fault = f"{len(items)} items where at most K={self.K} are allowed"
        if fault is None and items.size and np.isneginf(w[items]).any():
            if np.isneginf(w).all():
                raise InfeasibleError("no item is available")
            fault = f"item {items[np.isneginf(w[items])][0]} is not available (its weight is -inf)"
        if fault is not None:
            raise OracleError(
                f"the oracle {self.solve!r} must return a feasible set of items, but: {fault}"
            )
        return items.astype(np.int64)


def as_oracle(
    oracle: Callable[[Array], Any], *, K: int | None = None, gap: float | None = None
) -> Oracle:
    """Any function `weights -> items` as an oracle, with what it returns checked.

    superarm's own oracles are returned as they are. A function, or an oracle class of yours, sees
    one weight vector at a time, with -inf for items that may not be chosen. `K` is the most items
    it returns and `gap` its γ, if known; an object may have them as attributes.

    >>> import numpy as np
    >>> from superarm import as_oracle
    >>> best = as_oracle(lambda w: [np.argmax(w)], K=1, gap=0.0)
    >>> best(np.array([0.1, 0.7, 0.3]))
    array([1])
    """
    if not callable(oracle):
        raise OracleError(f"an oracle is a function from weights to items, got {oracle!r}")
    if isinstance(oracle, Oracle) and type(oracle).__module__.startswith("superarm."):
        if K is not None or gap is not None:
            raise ParameterError(f"{oracle} has its own K={oracle.K} and gap={oracle.gap}")
        return oracle
    K = getattr(oracle, "K", None) if K is None else K
    gap = getattr(oracle, "gap", None) if gap is None else gap
    if not (K is None or (is_whole(K) and K >= 0)) or not (gap is None or 0 <= gap < 1):
        raise ParameterError(
            f"K must be a whole number and gap lie in [0, 1), or be None; got K={K}, gap={gap}"
        )
    return CheckedOracle(oracle, K, gap)


@dataclass(frozen=True)
class Around:
    """An oracle around another, whose K and gap it has."""

    oracle: Oracle

    @property
    def K(self) -> int | None:
        """As of the oracle itself."""
        return self.oracle.K

    @property
    def gap(self) -> float | None:
        """As of the oracle itself."""
        return self.oracle.gap


class OnHost(Around):
    """An oracle for tensors that solves on the CPU; made by `on_host`."""

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        return as_like(w, self.oracle(to_numpy(w)))


def on_host(oracle: Oracle) -> OnHost:
    """For an oracle without kernels for tensors; says so, and Python says it once."""
    warnings.warn(
        f"{oracle} solves on the CPU: the weights of each episode are moved there and back",
        stacklevel=2,
    )
    return OnHost(oracle)


def takes_tensors(oracle: object) -> bool:
    """Whether it solves where the weights are: those around others do if the others do."""
    if isinstance(oracle, OnHost):
        return True
    inner = getattr(oracle, "oracle", None)
    return getattr(oracle, "takes_tensors", False) if inner is None else takes_tensors(inner)


@dataclass(frozen=True, eq=False)
class Masked(Around):
    """An oracle that chooses among the available items only."""

    available: Array  # (*B, L) bool

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        return self.oracle(where(as_like(w, self.available), w, -np.inf))


def feasible(found: bool, oracle: object) -> None:
    """Raise `InfeasibleError` in the name of `oracle` unless a set was found."""
    if not found:
        raise InfeasibleError(
            f"{oracle}: no feasible set among the items that are available (weight above -inf)"
        )


class _Minimize(Around):
    @property
    def gap(self) -> float | None:
        return 0.0 if self.oracle.gap == 0 else None  # a share of the best says nothing about costs

    def __call__(self, w: Array, /) -> Array:
        w = check_weights(w, tensors=True)
        return self.oracle(where(w == -np.inf, w, -w))


def minimize(oracle: Oracle) -> Oracle:
    """The same feasible sets with weights that are costs: the cheapest set. -inf still means 'not
    available'.

    Thompson sampling learns from costs as they are. Optimism does not: an upper bound on a cost is
    pessimistic. For UCB learners, and for regret with the usual sign, observe minus the cost and
    use the oracle itself.

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
        return self.oracle(w * as_like(w, shrink))


def with_gap(oracle: Oracle, gamma: float, *, seed: int = 0) -> Oracle:
    """An exact oracle made worse on purpose, by a sub-optimality gap γ: for studies of approximate
    oracles.

    It maximizes w'(e) = (1 - γu_e) w(e) with fixed u_e in [0, 1). For weights that are not
    negative, the set A it finds satisfies f(A, w) >= f(A, w') >= f(A*, w') >= (1 - γ) f(A*, w).

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
        raise ParameterError(
            f"with_gap needs an exact oracle, but the gap of {oracle} is {oracle.gap}"
        )
    return _WithGap(oracle, gamma, seed)

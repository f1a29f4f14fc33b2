"""Matroids: constraints under which taking the best item that still fits is exact.

A basis is a maximal independent set; all bases have the same size, the rank.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, prange
from superarm.checks import (
    as_weights,
    check_weights,
    find_fault,
    is_whole,
    refuse_weights,
    require_count,
)
from superarm.errors import ItemsError, ParameterError
from superarm.oracles.base import feasible
from superarm.oracles.rows import by_row
from superarm.oracles.topk import best_by_group, index_groups, numbers_by_group, replace_top


class PartitionMatroid:
    """Sets with at most a given number of items from each group.

    With `bases`, groups are filled up as far as they have items; without, items whose weight is not
    positive are left out. Items come group by group, the best first; ties go to the lowest index.

    >>> import numpy as np
    >>> from superarm import PartitionMatroid
    >>> slots = PartitionMatroid(["news", "news", "sport", "news"], {"news": 2, "sport": 1})
    >>> slots(np.array([0.5, -0.3, -0.1, -0.2]))
    array([0, 3, 2])
    >>> PartitionMatroid(["news", "news", "sport"], {"news": 2, "sport": 1}, bases=False)(np.array([0.5, -0.3, 0.1]))
    array([ 0,  2, -1])
    """

    gap = 0.0

    def __init__(
        self, groups: Sequence[Any] | Array, capacities: Mapping[Any, int], *, bases: bool = True
    ) -> None:
        labels, self._group, sizes = index_groups(groups)
        most = numbers_by_group(capacities, labels, "capacity")
        self._start = np.cumsum([0, *(min(a, b) for a, b in zip(most, sizes, strict=True))])
        self.bases = bases

    def __repr__(self) -> str:
        kind = "bases" if self.bases else "independent sets"
        return (
            f"PartitionMatroid({len(self._group)} items in {len(self._start) - 1} groups, {kind})"
        )

    @property
    def K(self) -> int:
        """The rank."""
        return int(self._start[-1])

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        A = best_by_group(
            as_weights(w, len(self._group)), self._group, self._start, positive=not self.bases
        )
        feasible(not self.bases or bool((A >= 0).all()), self)
        return np.take_along_axis(
            A, np.argsort(A < 0, axis=-1, kind="stable"), axis=-1
        )  # padding last


@compiled
def _laminar_row(
    w: Array, owner: Array, parent: Array, order: Array, start: Array, floor: float, A: Array
) -> int:
    """Fill A with the best independent set and return its size, or -1 if a weight is NaN or +inf.

    Each set of the family keeps its best in a heap with the worst on top. Items enter the smallest
    set they are in; then, from the inside out, what a set has kept enters the set around it.
    """
    value, item = np.full(start[-1], floor), np.full(start[-1], -1)
    size = 0
    for e in range(len(w)):
        s = owner[e]
        if s < 0:
            if w[e] > floor:
                A[size] = e
                size += 1
        elif start[s] < start[s + 1] and not w[e] <= value[start[s]]:
            replace_top(value, item, start[s], start[s + 1] - start[s], w[e], e)
        if not w[e] < np.inf:
            return -1
    for s in order:
        p = parent[s]
        for i in range(start[s], start[s + 1]):
            if item[i] < 0:
                continue
            if p < 0:
                A[size] = item[i]
                size += 1
            elif start[p] < start[p + 1] and value[i] > value[start[p]]:
                replace_top(value, item, start[p], start[p + 1] - start[p], value[i], item[i])
    A[:size].sort()
    return size


@compiled
def _laminar(
    w: Array, owner: Array, parent: Array, order: Array, start: Array, floor: float, rank: int
) -> tuple[Array, Array]:
    """`_laminar_row` for each row of w (n, L)."""
    n = len(w)
    A, size = np.full((n, rank), -1), np.empty(n, np.int64)
    for b in prange(n):
        size[b] = _laminar_row(w[b], owner, parent, order, start, floor, A[b])
    return A, size


class LaminarMatroid:
    """Sets with at most `capacities[i]` items from `sets[i]`, where any two of the sets are nested
    or disjoint.

    Think of categories within categories. Items in none of the sets are free. With `bases` the set
    is as large as the capacities allow; without, items whose weight is not positive are left out.
    Items come in increasing order.

    >>> import numpy as np
    >>> from superarm import LaminarMatroid
    >>> oracle = LaminarMatroid(5, sets=[[0, 1], [0, 1, 2, 3]], capacities=[1, 2])
    >>> oracle(np.array([0.9, 0.8, 0.3, 0.4, 0.1]))
    array([0, 3, 4])
    """

    gap = 0.0

    def __init__(
        self,
        L: int,
        *,
        sets: Sequence[Sequence[int] | Array],
        capacities: Sequence[int],
        bases: bool = True,
    ) -> None:
        require_count(L=L)
        if len(sets) != len(capacities):
            raise ParameterError(f"{len(sets)} sets need as many capacities, got {len(capacities)}")
        self.L, self.bases = L, bases
        self._owner = np.full(L, -1)
        self._parent = np.full(len(sets), -1)
        self._order = np.array(
            sorted(range(len(sets)), key=lambda s: len(sets[s])), dtype=np.int64
        )  # inner first
        for s in reversed(self._order):
            self._nest(int(s), np.asarray(sets[s]), sets)
        self._start = np.cumsum([0, *self._ranks(capacities)])
        self._rank = int((self._owner < 0).sum()) + sum(
            int(self._start[s + 1] - self._start[s])
            for s in range(len(sets))
            if self._parent[s] < 0
        )

    def _nest(self, s: int, items: Array, sets: Sequence[Any]) -> None:
        """Put set s inside the smallest set so far that holds all of its items."""
        if fault := find_fault(items, self.L):
            raise ItemsError(f"set {s}: {fault}")
        if not len(items):
            raise ItemsError(f"set {s} is empty")
        around = np.unique(self._owner[items])
        if len(around) > 1:
            raise ParameterError(
                f"set {s} and set {around[-1]} overlap, but neither lies within the other"
            )
        self._parent[s] = around[0]
        self._owner[items] = s

    def _ranks(self, capacities: Sequence[int]) -> list[int]:
        """What each set can hold at most: its capacity, or less if the sets within it hold less."""
        holds: list[int] = np.bincount(
            self._owner[self._owner >= 0], minlength=len(capacities)
        ).tolist()
        for s in self._order:
            capacity = capacities[s]
            if not (is_whole(capacity) and capacity >= 0):
                raise ParameterError(
                    f"the capacity of set {s} must be a whole number, 0 or more, got {capacity!r}"
                )
            holds[s] = min(int(capacity), holds[s])
            if self._parent[s] >= 0:
                holds[self._parent[s]] += holds[s]
        return holds

    def __repr__(self) -> str:
        return f"LaminarMatroid({self.L} items, {len(self._parent)} sets, rank {self._rank})"

    @property
    def K(self) -> int:
        """The rank."""
        return self._rank

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = as_weights(w, self.L)
        rows = np.ascontiguousarray(w.reshape(-1, self.L))
        floor = -np.inf if self.bases else 0.0
        A, size = _laminar(
            rows, self._owner, self._parent, self._order, self._start, floor, self._rank
        )
        if (size < 0).any():
            refuse_weights(w)
        feasible(not self.bases or bool((size == self._rank).all()), self)
        return A.reshape(*w.shape[:-1], self._rank)


@dataclass(frozen=True)
class Matroid:
    """Any matroid over L items, given by a test of independence; by the greedy algorithm.

    `independent(items)` says whether a list of items is independent. The answer is exact if it is a
    matroid: subsets of independent sets are independent, and the smaller of two independent sets
    can be extended from the larger.

    >>> import numpy as np
    >>> from superarm import Matroid
    >>> vectors = np.array([[1, 0], [2, 0], [0, 1]])
    >>> basis = Matroid(3, lambda items: np.linalg.matrix_rank(vectors[items]) == len(items))
    >>> basis(np.array([0.3, 0.5, 0.1]))
    array([1, 2])
    """

    L: int
    independent: Callable[[list[int]], bool]
    bases: bool = field(default=True, kw_only=True)
    K: int = field(init=False)

    def __post_init__(self) -> None:
        require_count(L=self.L)
        if not self.independent([]):
            raise ParameterError("the empty set must be independent")
        object.__setattr__(self, "K", len(self._greedy(np.zeros(self.L), floor=-np.inf)))

    @property
    def gap(self) -> float:
        """Exact."""
        return 0.0

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = check_weights(w, self.L)
        A = by_row(lambda row: self._greedy(row, -np.inf if self.bases else 0.0), w, self.K)
        feasible(not self.bases or bool((A >= 0).all()), self)
        return A

    def _greedy(self, w: Array, floor: float) -> Array:
        chosen: list[int] = []
        for e in np.argsort(-w, kind="stable").tolist():
            if w[e] <= floor:
                break
            if self.independent([*chosen, e]):
                chosen.append(e)
        return np.array(chosen, dtype=np.int64)

"""Matroids: constraints under which taking the best item that still fits is exact.

A basis is a maximal independent set; all bases have the same size, the rank.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, below_infinity
from superarm.arrays.compiled import compiled, prange
from superarm.checks import fault_of_set, raise_bad_weight, require_count
from superarm.checks.tables import split_labels
from superarm.errors import ItemsError, ParameterError
from superarm.oracles.base import (
    BaseOracle,
    feasible,
    is_full,
    padded,
    require_whole,
    starts,
)
from superarm.oracles.parts import NO_GROUPS, Candidates, Part, joined, named_items, within
from superarm.oracles.selection import ByGroup, best_by_group, replace_top
from superarm.oracles.topk import index_groups, numbers_by_group


class PartitionMatroid(BaseOracle):
    """Sets with at most a given number of items from each group, which are given in the order of
    the items, or by id as in `Quota`.

    With `bases`, groups are filled up as far as they have items; without, items whose weight is not
    positive are left out. Items come group by group, the best first; ties go to the lowest index.

    >>> import numpy as np
    >>> from superarm import PartitionMatroid
    >>> slots = PartitionMatroid(["news", "news", "sport", "news"], {"news": 2, "sport": 1})
    >>> slots(np.array([0.5, -0.3, -0.1, -0.2]))
    array([0, 3, 2])
    >>> some = PartitionMatroid(["news", "news", "sport"], {"news": 2, "sport": 1}, bases=False)
    >>> some(np.array([0.5, -0.3, 0.1]))
    array([ 0,  2, -1])
    """

    K: int  # the rank
    gap = 0.0
    exchanges = True
    checks_weights = True

    def __init__(
        self,
        groups: Sequence[Any] | Array | Mapping[Any, Any],
        capacities: Mapping[Any, int],
        *,
        bases: bool = True,
    ) -> None:
        listed, self.ids = split_labels(groups, ParameterError)
        labels, self._group, sizes = index_groups(listed)
        capacity = numbers_by_group(capacities, labels, "capacity")
        most = np.minimum(capacity, sizes).astype(np.int64)
        self._start = starts(most)
        self.L = len(self._group)
        self.K = int(most.sum())
        self.bases = bases

    def __repr__(self) -> str:
        kind = "bases" if self.bases else "independent sets"
        return f"PartitionMatroid({self.L} items in {len(self._start) - 1} groups, {kind})"

    def solve(self, rows: Array) -> Array:
        """The best items of each row of weights (n, L), group by group: (n, K), -1 pads."""
        return self._best(rows, self._group)

    def part(self, items: slice | Array) -> Part:
        """What finds the best of each group among some of the items."""
        items = within(items, self.L)
        return Part(items, self._group[items], ByGroup(self._start, _floor(self.bases)))

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best set (K,) of all items, from the candidates among each part of them."""
        of = joined(parts)
        return named_items(self._best(of.w[None], of.group), of.items)

    def _best(self, rows: Array, group: Array) -> Array:
        A = best_by_group(rows, group, self._start, _floor(self.bases))
        if self.bases:
            feasible(is_full(A), self)
            return A
        padding_last = np.argsort(A < 0, axis=-1, kind="stable")
        return np.take_along_axis(A, padding_last, axis=-1)


class _Family(NamedTuple):
    """S sets of which any two are nested or disjoint."""

    owner: Array  # (L,) the smallest set around each item, -1 if none is
    parent: Array  # (S,) the smallest set around each set, -1 if none is
    order: Array  # (S,) the sets, inner ones first
    start: Array  # (S + 1,) set s keeps its best items from start[s] to start[s+1]


@compiled
def _is_before(x: float, e: int, y: float, f: int) -> bool:
    """Whether item e of weight x comes before item f of weight y: ties go to the lowest index."""
    return x > y or (x == y and e < f)


@compiled
def _laminar_row(w: Array, family: _Family, floor: float, A: Array) -> int:
    """Fill A with the best independent set and return its size, or -1 if a weight is NaN or +inf.

    Each set of the family keeps its best in a heap with the worst on top. Items enter the smallest
    set they are in; then, from the inside out, what a set has kept enters the set around it.
    """
    owner, parent, order, start = family
    value = np.full(start[-1], floor)
    item = np.full(start[-1], -1)
    size = 0

    for e in range(len(w)):
        x = w[e]
        s = owner[e]
        lo = start[s]  # without meaning if s is -1
        hi = start[s + 1]
        if s < 0:
            if x > floor:
                A[size] = e
                size += 1
        elif lo < hi and not x <= value[lo]:
            replace_top(value[lo:hi], item[lo:hi], x, e)
        if not x < np.inf:
            return -1

    for s in order:
        p = parent[s]  # the set around it
        lo = start[p]
        hi = start[p + 1]
        for i in range(start[s], start[s + 1]):
            if item[i] < 0:
                continue
            if p < 0:
                A[size] = item[i]
                size += 1
            elif lo < hi and _is_before(value[i], item[i], value[lo], item[lo]):
                replace_top(value[lo:hi], item[lo:hi], value[i], item[i])

    A[:size].sort()
    return size


@compiled
def _laminar(w: Array, family: _Family, floor: float, rank: int) -> tuple[Array, Array]:
    """The best independent set for each row of w (n, L), and its size, -1 if a weight is NaN or
    +inf.
    """
    n = len(w)
    A = np.full((n, rank), -1)
    size = np.empty(n, np.int64)

    for b in prange(n):
        size[b] = _laminar_row(
            w[b],
            family,
            floor,
            A[b],
        )
    return A, size


class LaminarMatroid(BaseOracle):
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

    K: int  # the rank
    gap = 0.0
    exchanges = True
    checks_weights = True

    def __init__(
        self,
        L: int,
        *,
        sets: Sequence[Collection[int] | Array],
        capacities: Sequence[int],
        bases: bool = True,
    ) -> None:
        require_count(L=L)
        if len(sets) != len(capacities):
            raise ParameterError(f"{len(sets)} sets need as many capacities, got {len(capacities)}")
        self.L = L
        self.bases = bases
        owner = np.full(L, -1)
        parent = np.full(len(sets), -1)
        order = np.argsort([len(s) for s in sets], kind="stable")  # inner sets first
        for s in order[::-1].tolist():
            _nest(s, _members(sets[s]), owner, parent)
        holds = _ranks(capacities, owner, parent, order)
        self._family = _Family(owner, parent, order, starts(holds))
        self.K = int((owner < 0).sum() + holds[parent < 0].sum())

    def __repr__(self) -> str:
        return f"LaminarMatroid({self.L} items, {len(self._family.parent)} sets, rank {self.K})"

    def solve(self, rows: Array) -> Array:
        """The best independent set for each row of weights (n, L): (n, K), -1 pads."""
        return self._best(rows, self._family.owner)

    def part(self, items: slice | Array) -> Part:
        """What finds the best independent set among some of the items."""
        items = within(items, self.L)
        nobody = self._family._replace(owner=NO_GROUPS)
        rule = _Nested(nobody, _floor(self.bases), self.K)
        return Part(items, self._family.owner[items], rule)

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best set (K,) of all items, from the candidates among each part of them."""
        of = joined(parts)
        return named_items(self._best(of.w[None], of.group), of.items)

    def _best(self, rows: Array, owner: Array) -> Array:
        family = self._family._replace(owner=owner)
        A, size = _laminar(rows, family, _floor(self.bases), self.K)
        if (size < 0).any():
            raise_bad_weight(rows)
        if self.bases:
            feasible(bool((size == self.K).all()), self)
        return A


class _Nested(NamedTuple):
    """So many items from each of the sets of a family."""

    family: _Family  # without its items
    floor: float
    rank: int

    def best(self, part: Part, w: Array, /) -> Array:
        """The best independent set of a part, whose groups are the sets around its items."""
        family = self.family._replace(owner=part.group)
        A, size = _laminar(w[None], family, self.floor, min(self.rank, len(w)))
        if size[0] < 0:
            raise_bad_weight(w, first=part.first)
        return A


def _floor(bases: bool) -> float:
    """What the weight of an item must exceed to be chosen."""
    return -np.inf if bases else 0.0


def _members(items: Collection[int] | Array) -> Array:
    """The items of a set, a list or an array, as an array."""
    return np.asarray(items if isinstance(items, np.ndarray) else list(items))


def _nest(s: int, items: Array, owner: Array, parent: Array) -> None:
    """Put set s inside the smallest set so far that holds all of its items."""
    if fault := fault_of_set(items, len(owner)):
        raise ItemsError(f"set {s}: {fault}")
    if not len(items):
        raise ItemsError(f"set {s} is empty")
    around = np.unique(owner[items])
    if len(around) > 1:
        raise ParameterError(
            f"set {s} and set {around[-1]} overlap, but neither lies within the other"
        )
    parent[s] = around[0]
    owner[items] = s


def _ranks(capacities: Sequence[int], owner: Array, parent: Array, order: Array) -> Array:
    """What each set can hold at most: its capacity, or less if the sets within it hold less."""
    holds = np.bincount(owner[owner >= 0], minlength=len(parent))
    for s in order:
        capacity = capacities[s]
        require_whole(capacity, f"the capacity of set {s}")
        holds[s] = min(int(capacity), holds[s])
        if parent[s] >= 0:
            holds[parent[s]] += holds[s]
    return holds


@dataclass(frozen=True)
class Matroid(BaseOracle):
    """Any matroid over L items, given by a test of independence; by the greedy algorithm.

    `independent(items)` says whether a list of items is independent. The answer is exact if it is a
    matroid: subsets of independent sets are independent, and the smaller of two independent sets
    can be extended from the larger. What shows to be none is refused, with sets that contradict
    this; a few orders of the items are tried when it is made.

    Args:
        L: how many items there are.
        independent: the test, a function of a list of items.
        bases: whether the set must be as large as it can be.

    >>> import numpy as np
    >>> from superarm import Matroid
    >>> vectors = np.array([[1, 0], [2, 0], [0, 1]])
    >>> basis = Matroid(3, lambda items: np.linalg.matrix_rank(vectors[items]) == len(items))
    >>> basis(np.array([0.3, 0.5, 0.1]))
    array([1, 2])
    """

    L: int = field()
    independent: Callable[[list[int]], bool]
    bases: bool = field(default=True, kw_only=True)
    K: int = field(init=False)
    _basis: list[int] = field(init=False, repr=False, compare=False)
    gap = 0.0
    exchanges = True

    def __post_init__(self) -> None:
        require_count(L=self.L)
        if not self.independent([]):
            raise ParameterError("the empty set must be independent")

        each = np.arange(self.L)
        basis = _extended(self.independent, each, self.L)
        object.__setattr__(self, "_basis", basis)
        object.__setattr__(self, "K", len(basis))
        self._refuse_dependent_parts()
        shuffled = np.random.default_rng(0).permutation(self.L)
        for order in (each[::-1], shuffled):
            self._refuse_another_size(_extended(self.independent, order, self.L))

    def solve_row(self, w: Array) -> Array:
        """The best independent set for the weights (L,), the best item first."""
        return self._best(w, np.arange(self.L))

    def part(self, items: slice | Array) -> Part:
        """What finds the best independent set among some of the items."""
        return Part(within(items, self.L), NO_GROUPS, self._greedy)

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best set (K,) of all items, from the candidates among each part of them."""
        of = joined(parts)
        (A,) = padded([self._best(of.w, of.items)], self.K)
        return np.asarray(A)

    @property
    def _greedy(self) -> "_Greedy":
        return _Greedy(self.independent, _floor(self.bases), self.K)

    def _best(self, w: Array, items: Array) -> Array:
        """The best independent set of these items."""
        best: Array = items[self._greedy.places(w, items)]
        if len(w) == self.L and (w > _floor(self.bases)).all():
            self._refuse_another_size(best.tolist())
        if self.bases:
            feasible(len(best) == self.K, self)
        return best

    def _refuse_dependent_parts(self) -> None:
        """Raise if a part of the basis is not independent."""
        for e in self._basis:
            part = [x for x in self._basis if x != e]
            if not self.independent(part):
                raise ParameterError(
                    f"this is no matroid: {self._basis!r:.80} is independent, "
                    f"but its part {part!r:.80} is not"
                )

    def _refuse_another_size(self, items: list[int]) -> None:
        """Raise if a set that cannot be extended is not as large as the basis."""
        if len(items) != self.K:
            raise ParameterError(
                f"this is no matroid: neither {self._basis!r:.80} nor {items!r:.80} can be "
                "extended, but in a matroid such sets have one size; for a budget see Knapsack, "
                "for other constraints Milp"
            )


class _Greedy(NamedTuple):
    """Items that are independent, the best first."""

    independent: Callable[[list[int]], bool]
    floor: float
    rank: int

    def best(self, part: Part, w: Array, /) -> Array:
        """Where the best independent set is in the part."""
        if not below_infinity(w):
            raise_bad_weight(w, first=part.first)
        items = part.items
        if isinstance(items, slice):
            items = np.arange(part.first, part.first + len(w))
        return self.places(w, items)

    def places(self, w: Array, items: Array) -> Array:
        """Where the best independent set is among these items, the best first."""
        best_first = np.argsort(-w, kind="stable")
        good = best_first[w[best_first] > self.floor]
        chosen = _extended(self.independent, items[good], self.rank)
        places: Array = np.searchsorted(items, chosen)
        return places


def _extended(independent: Callable[[list[int]], bool], order: Array, most: int) -> list[int]:
    """The items, in this order, that are independent of those before; at most so many, as in a
    matroid nothing can be added to a basis.
    """
    chosen: list[int] = []
    for e in order.tolist():
        if len(chosen) == most:
            break
        if independent([*chosen, e]):
            chosen.append(e)
    return chosen

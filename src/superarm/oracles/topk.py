"""The best k items, over all or by group."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, as_like, take, where
from superarm.arrays.compiled import compiled, prange
from superarm.arrays.kinds import namespace
from superarm.checks import as_weights, refuse_weights, require_count
from superarm.checks.tables import named
from superarm.errors import InfeasibleError, ParameterError
from superarm.oracles.base import BaseOracle, feasible, is_full, require_whole, starts

BLOCK = 64  # items looked at together
LONG = 4 * BLOCK  # items from which on it pays to look for a higher floor first
ROWS = 16  # rows from which on it does
MANY = 64 * BLOCK  # items that are enough to find one
FEW = 16  # groups whose lowest bar is worth knowing
LARGEST = float(np.finfo(np.float64).max)


@compiled
def replace_top(value: Array, item: Array, x: float, e: int) -> None:
    """Put (x, e) in place of the top of the heap, whose top is the worst: least, then last."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= len(value):
            break
        right = child + 1
        if right < len(value) and (
            value[right] < value[child]
            or (value[right] == value[child] and item[right] > item[child])
        ):
            child = right
        least = value[child]
        if x < least or (x == least and e > item[child]):
            break
        value[i] = least
        item[i] = item[child]
        i = child
    value[i] = x
    item[i] = e


@compiled
def _any_above(block: Array, bar: float) -> bool:
    """Whether one of the BLOCK weights exceeds the bar, or is NaN."""
    above = 0  # a count without branches over a fixed length, so that it runs in vector registers
    for i in range(BLOCK):
        above += not block[i] <= bar
    return above > 0


@compiled
def _raised(w: Array, k: int, floor: float) -> float:
    """The floor, or a higher one if k weights are found to exceed it: then fewer enter the heap.

    Weights that are BLOCK apart are in one lane. Where the largest of k lanes exceed that of
    another, so do k weights. Without branches, as in `_any_above`.
    """
    most = np.full(BLOCK, floor)
    for begin in range(0, min(len(w), MANY) - BLOCK + 1, BLOCK):
        block = w[begin : begin + BLOCK]
        for i in range(BLOCK):
            most[i] = block[i] if block[i] > most[i] else most[i]

    for i in range(BLOCK):
        x = most[i]
        above = 0
        for j in range(BLOCK):
            above += most[j] > x
        if above >= k and x > floor:
            floor = x
    return floor


@compiled
def _least(bar: Array) -> float:
    """The least of the bars; NumPy's own takes a second to compile."""
    least = np.inf
    for g in range(len(bar)):
        least = min(least, bar[g])
    return least


@compiled
def _select_row(w: Array, group: Array, start: Array, floor: float, item: Array) -> bool:
    """Fill `item` with the best of each group; False if a weight is NaN or +inf."""
    L = len(w)
    G = len(start) - 1
    value = np.empty(len(item))
    for i in range(len(item)):
        value[i] = floor

    # what a weight must exceed to enter its group
    bar = np.empty(G)
    for g in range(G):
        bar[g] = floor if start[g] < start[g + 1] else LARGEST
    lowest = _least(bar)

    for begin in range(0, L, BLOCK):
        end = min(begin + BLOCK, L)
        if end - begin == BLOCK and G <= FEW and not _any_above(w[begin:end], lowest):
            continue
        for e in range(begin, end):
            if w[e] <= lowest:
                continue
            g = group[e] if len(group) else 0
            if w[e] <= bar[g]:
                continue
            if not w[e] < np.inf:
                return False

            lo = start[g]
            hi = start[g + 1]
            replace_top(
                value[lo:hi],
                item[lo:hi],
                w[e],
                e,
            )
            bar[g] = value[lo]
        if G <= FEW:
            lowest = _least(bar)

    for g in range(G):  # heapsort: the worst goes last
        lo = start[g]
        for last in range(start[g + 1] - 1, lo, -1):
            x = value[last]
            e = item[last]
            value[last] = value[lo]
            item[last] = item[lo]
            replace_top(value[lo:last], item[lo:last], x, e)
    return True


@compiled
def _raise_all(w: Array, k: int, floor: Array) -> None:
    """Put the higher floor of each row in place of the one there is."""
    for b in prange(len(w)):
        floor[b] = _raised(w[b], k, floor[b])


def select(w: Array, group: Array, start: Array, floor: float) -> tuple[Array, Array]:
    """The start[g+1] - start[g] largest weights above `floor` of each group g; ties go to the
    lowest index.

    w is (n, L); an empty `group` puts every item into group 0. One pass, with a heap per group.
    Returns the items, group by group with the best first and -1 where a group has too few, and for
    each row whether its weights are below +inf.
    """
    n, L = w.shape
    floors = np.full(n, floor)
    k = int(start[-1])
    if n >= ROWS and len(start) == 2 and 1 < k < BLOCK and L >= LONG:
        _raise_all(w, k, floors)
    A = np.full((n, k), -1)
    valid = np.empty(n, np.bool_)
    _select_all(w, group, start, floors, A, valid)
    return A, valid


@compiled
def _select_all(
    w: Array,
    group: Array,
    start: Array,
    floor: Array,
    A: Array,
    valid: Array,
) -> None:
    for b in prange(len(w)):
        valid[b] = _select_row(w[b], group, start, floor[b], A[b])


def best_by_group(rows: Array, group: Array, start: Array, floor: float) -> Array:
    """The items (n, k) that `select` finds, of tensors too; weights not below +inf are refused."""
    if isinstance(rows, np.ndarray):
        find = select
    else:
        from superarm.oracles.gpu import select as find
    A, valid = find(rows, group, start, floor)
    if not valid.all():
        refuse_weights(rows)
    return A


def best_of_total(w: Array, A: Array, needed: Array, total: int) -> Array:
    """Of the best of each group (n, k): what the minimum asks for first, then the best of the rest,
    (n, total).
    """
    xp = namespace(w)
    value = where(A < 0, -np.inf, take(w, A))
    value = where(as_like(A, needed), np.inf, value)
    order = xp.argsort(-value, stable=True)
    rank = xp.argsort(order)
    return A[rank < total].reshape(len(A), total)


class Groups(NamedTuple):
    """Items by group."""

    labels: list[Any]
    group: Array  # (L,) the group of each item, as an index into the labels
    sizes: list[int]  # items per group


def index_groups(groups: Sequence[Any] | Array) -> Groups:
    """The groups of items whose labels are given, one per item."""
    if not len(groups) or (isinstance(groups, np.ndarray) and groups.ndim != 1):
        raise ParameterError(f"groups must name the group of each item, got {groups!r}")

    if isinstance(groups, np.ndarray) and groups.dtype != object:
        unique, group = np.unique(groups, return_inverse=True)
        labels = unique.tolist()
    else:  # labels may be of different types
        try:
            labels = list(dict.fromkeys(groups))
        except TypeError as error:
            raise ParameterError(
                f"groups must name the group of each item by a label ({error})"
            ) from error
        index = {label: g for g, label in enumerate(labels)}
        group = np.array([index[label] for label in groups])
    return Groups(labels, group, np.bincount(group).tolist())


def numbers_by_group(numbers: Mapping[Any, int], labels: list[Any], what: str) -> list[int]:
    """A whole number for each label, in their order; an upper bound on a group without items does
    not matter.
    """
    if not isinstance(numbers, Mapping):
        raise ParameterError(
            f"{what} must be given for each group, as in {{'a': 2, 'b': 1}}, got {numbers!r}"
        )
    if unnamed := [label for label in labels if label not in numbers]:
        raise ParameterError(f"{what} must name every group; missing: {unnamed[0]!r}")
    for label, number in numbers.items():
        require_whole(number, f"{what} of group {label!r}")
        if number and label not in labels and what in ("count", "minimum"):
            raise ParameterError(f"{what} names group {label!r}, which has no items")
    return [int(numbers[label]) for label in labels]


_NO_GROUPS = np.empty(0, np.int64)


@dataclass(frozen=True)
class TopK(BaseOracle):
    """Sets of exactly k items, or of at most k items.

    The best come first, and ties go to the lowest index. With `at_most`, items whose weight is not
    positive are left out, and -1 fills the rest.

    Args:
        k: how many items.
        at_most: whether fewer will do.

    >>> import numpy as np
    >>> from superarm import TopK
    >>> TopK(2)(np.array([0.1, 0.7, -np.inf, 0.3]))
    array([1, 3])
    >>> TopK(3, at_most=True)(np.array([0.1, 0.7, -0.2, -0.3]))
    array([ 1,  0, -1])
    """

    k: int
    at_most: bool = field(default=False, kw_only=True)
    gap = 0.0
    exchanges = True
    checks_weights = True

    def __post_init__(self) -> None:
        require_count(k=self.k)

    @property
    def K(self) -> int:
        """The most items it returns."""
        return self.k

    @functools.cached_property
    def _start(self) -> Array:
        """Where the only group starts and ends."""
        return np.array([0, self.k])

    def solve(self, rows: Array) -> Array:
        """The best items of each row of weights (n, L): (n, k), -1 pads."""
        L = rows.shape[-1]
        if self.k > L and not self.at_most:
            raise InfeasibleError(f"{self} asks for more items than the {L} there are")

        A = best_by_group(
            rows,
            _NO_GROUPS,
            self._start,
            0.0 if self.at_most else -np.inf,
        )
        if not self.at_most:
            feasible(is_full(A), self)
        return A

    solve_tensors = solve

    def of_parts(self, parts: Iterable[Array]) -> Array:
        """The best set (k,) for weights that come one part after the other, in one pass that keeps
        k of them.

        >>> import numpy as np
        >>> from superarm import TopK
        >>> TopK(2).of_parts([np.array([0.1, 0.7]), np.array([0.3, 0.9])])
        array([3, 1])
        """
        best = np.full(self.k, 0.0 if self.at_most else -np.inf)
        items = np.full(self.k, -1)
        first = 0

        for part in parts:
            w = as_weights(part)
            # only what exceeds the worst of the best so far can enter; a tie goes to the item that
            # came first
            found, valid = select(w[None], _NO_GROUPS, self._start, best[-1])
            if not valid.all():
                refuse_weights(w, first=first)

            new = found[found >= 0]
            best = np.append(best, w[new])
            order = np.argsort(-best, kind="stable")[: self.k]
            best = best[order]
            items = np.append(items, first + new)[order]
            first += len(w)

        feasible(self.at_most or is_full(items), self)
        return items


class Quota(BaseOracle):
    """Sets with a given number of items from each group, or with a total and bounds for each group.

    `groups` gives the group of each item, by any label: a list in the order of the items, or by id,
    as a mapping or a pandas Series, with which an agent aligns its items. `counts` says exactly how
    many to choose from each group. Instead, `total` says how many to choose in all, and `minimum`
    and `maximum` bound the number from the groups they name. Items come group by group, the best
    first; ties go to the lowest index.

    >>> import numpy as np
    >>> from superarm import Quota
    >>> w = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    >>> Quota(["f", "m", "f", "m", "f"], {"f": 2, "m": 1})(w)
    array([4, 2, 3])
    >>> Quota(["f", "m", "f", "m", "f"], total=3, maximum={"f": 1})(w)
    array([4, 3, 1])
    """

    K: int  # the number of items it returns
    gap = 0.0
    exchanges = True
    checks_weights = True

    def __init__(
        self,
        groups: Sequence[Any] | Array | Mapping[Any, Any],
        counts: Mapping[Any, int] | None = None,
        *,
        total: int | None = None,
        minimum: Mapping[Any, int] | None = None,
        maximum: Mapping[Any, int] | None = None,
    ) -> None:
        if (counts is None) == (total is None) or (counts is not None and (minimum or maximum)):
            raise ParameterError("a quota takes either counts, or a total with minimum and maximum")
        listed, self.ids = named(groups, ParameterError)
        by_group = index_groups(listed)
        labels = by_group.labels
        if counts is None:
            least = dict.fromkeys(labels, 0) | dict(minimum or {})
            most = dict(zip(labels, by_group.sizes, strict=True)) | dict(maximum or {})
            low = numbers_by_group(least, labels, "minimum")
            high = numbers_by_group(most, labels, "maximum")
            high = np.minimum(high, by_group.sizes).tolist()
        else:
            low = high = numbers_by_group(counts, labels, "count")
        self.K = sum(low) if total is None else total
        self.L = len(by_group.group)
        self._groups = by_group
        self._check(low, high)
        spare = self.K - sum(low)
        sizes = np.minimum(np.add(low, spare), high)
        self._start = starts(sizes)
        self._needed = np.concatenate([np.arange(n) < a for a, n in zip(low, sizes, strict=True)])

    def _check(self, low: list[int], high: list[int]) -> None:
        require_whole(self.K, "total")
        labels, _, sizes = self._groups
        for label, least, most, size in zip(labels, low, high, sizes, strict=True):
            if least > size:
                raise InfeasibleError(f"group {label!r} has {size} items, fewer than its {least}")
            if least > most:
                raise InfeasibleError(
                    f"group {label!r} has a minimum of {least} above its maximum of {most}"
                )

        if not sum(low) <= self.K <= sum(high):
            raise InfeasibleError(
                f"the total is {self.K}, but the groups allow {sum(low)} to {sum(high)} items"
            )

    def __repr__(self) -> str:
        return f"Quota({self.L} items in {len(self._groups.labels)} groups, total={self.K})"

    def solve(self, rows: Array) -> Array:
        """The best items of each row of weights (n, L), group by group: (n, K)."""
        A = best_by_group(
            rows,
            self._groups.group,
            self._start,
            -np.inf,
        )
        if len(self._needed) > self.K:
            missing = as_like(A, self._needed) & (A < 0)
            feasible(not missing.any(), self)
            A = best_of_total(rows, A, self._needed, self.K)
        feasible(is_full(A), self)
        return A

    solve_tensors = solve

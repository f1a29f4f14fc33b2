"""The best k items, over all or by group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from superarm.arrays import Array, as_like, or_torch, take
from superarm.arrays.compiled import compiled, prange
from superarm.checks import as_weights, is_whole, refuse_weights, require_count
from superarm.errors import InfeasibleError, ParameterError
from superarm.oracles.base import feasible

BLOCK = 64  # items looked at together
FEW = 16  # groups whose lowest bar is worth knowing


@compiled
def replace_top(value: Array, item: Array, lo: int, size: int, x: float, e: int) -> None:
    """Put (x, e) in place of the top of the heap value[lo:lo+size], whose top is the worst: least,
    then last.
    """
    i = lo
    while True:
        child = lo + 2 * (i - lo) + 1
        if child >= lo + size:
            break
        right = child + 1
        if right < lo + size and (
            value[right] < value[child]
            or (value[right] == value[child] and item[right] > item[child])
        ):
            child = right
        if x < value[child] or (x == value[child] and e > item[child]):
            break
        value[i], item[i] = value[child], item[child]
        i = child
    value[i], item[i] = x, e


@compiled
def _any_above(block: Array, bar: float) -> bool:
    """Whether one of the BLOCK weights exceeds the bar, or is NaN."""
    above = 0  # a count without branches over a fixed length, so that it runs in vector registers
    for i in range(BLOCK):
        above += not block[i] <= bar
    return above > 0


@compiled
def _select_row(w: Array, group: Array, start: Array, floor: float, item: Array) -> bool:
    """Fill `item` with the best of each group; False if a weight is NaN or +inf."""
    L, G = len(w), len(start) - 1
    value = np.full(len(item), floor)
    bar = np.full(G, floor)  # what a weight must exceed to enter its group
    for g in range(G):
        if start[g] == start[g + 1]:
            bar[g] = np.finfo(np.float64).max
    lowest = bar.min()
    for begin in range(0, L, BLOCK):
        end = min(begin + BLOCK, L)
        if end - begin == BLOCK and G <= FEW and not _any_above(w[begin:end], lowest):
            continue
        for e in range(begin, end):
            g = group[e] if len(group) else 0
            if w[e] <= bar[g]:
                continue
            if not w[e] < np.inf:
                return False
            replace_top(value, item, start[g], start[g + 1] - start[g], w[e], e)
            bar[g] = value[start[g]]
        if G <= FEW:
            lowest = bar.min()
    for g in range(G):  # heapsort: the worst goes last
        for last in range(start[g + 1] - 1, start[g], -1):
            x, e = value[last], item[last]
            value[last], item[last] = value[start[g]], item[start[g]]
            replace_top(value, item, start[g], last - start[g], x, e)
    return True


@compiled
def _select(w: Array, group: Array, start: Array, floor: float) -> tuple[Array, Array]:
    """The start[g+1] - start[g] largest weights above `floor` of each group g; ties go to the
    lowest index.

    w is (n, L); an empty `group` puts every item into group 0. One pass, with a heap a group.
    Returns the items, group by group with the best first and -1 where a group has too few, and for
    each row whether its weights are below +inf.
    """
    n = len(w)
    A = np.full((n, start[-1]), -1)
    valid = np.empty(n, np.bool_)
    for b in prange(n):
        valid[b] = _select_row(w[b], group, start, floor, A[b])
    return A, valid


@or_torch("superarm.oracles.gpu")
def best_items(w: Array, group: Array, start: Array, floor: float) -> tuple[Array, Array]:
    """`_select` on rows that lie in any way."""
    return _select(np.ascontiguousarray(w), group, start, floor)


def best_by_group(w: Array, group: Array, start: Array, *, positive: bool = False) -> Array:
    """`_select` for any batch shape, among positive weights only if asked; refuses weights not
    below +inf.
    """
    A, valid = best_items(w.reshape(-1, w.shape[-1]), group, start, 0.0 if positive else -np.inf)
    if not valid.all():
        refuse_weights(w)
    return A.reshape(*w.shape[:-1], A.shape[-1])


def index_groups(groups: Sequence[Any] | Array) -> tuple[list[Any], Array, list[int]]:
    """The labels, the group of each item as an index into them, and the sizes of the groups."""
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
    return labels, group, np.bincount(group).tolist()


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
        if not (is_whole(number) and number >= 0):
            raise ParameterError(
                f"{what} of group {label!r} must be a whole number, 0 or more, got {number!r}"
            )
        if number and label not in labels and what in ("count", "minimum"):
            raise ParameterError(f"{what} names group {label!r}, which has no items")
    return [int(numbers[label]) for label in labels]


_NO_GROUPS = np.empty(0, np.int64)


@or_torch("superarm.oracles.gpu")
def best_of_total(w: Array, A: Array, needed: Array, total: int) -> Array:
    """Of the best of each group: what the minimum asks for first, then the best of the rest,
    `total` in all.
    """
    value = np.where(A < 0, -np.inf, take(w, A))
    order = np.argsort(-np.where(needed, np.inf, value), axis=-1, kind="stable")
    return np.take_along_axis(A, np.sort(order[..., :total], axis=-1), axis=-1)


@dataclass(frozen=True)
class TopK:
    """Sets of exactly k items, or of at most k items.

    The best come first, and ties go to the lowest index. With `at_most`, items whose weight is not
    positive are left out, and -1 fills the rest.

    >>> import numpy as np
    >>> from superarm import TopK
    >>> TopK(2)(np.array([0.1, 0.7, -np.inf, 0.3]))
    array([1, 3])
    >>> TopK(3, at_most=True)(np.array([0.1, 0.7, -0.2, -0.3]))
    array([ 1,  0, -1])
    """

    k: int
    at_most: bool = field(default=False, kw_only=True)
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(k=self.k)

    @property
    def K(self) -> int:
        """The most items it returns."""
        return self.k

    @property
    def gap(self) -> float:
        """Exact."""
        return 0.0

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = as_weights(w, tensors=True)
        if self.k > w.shape[-1] and not self.at_most:
            raise InfeasibleError(f"{self} asks for more items than the {w.shape[-1]} there are")
        A = best_by_group(w, _NO_GROUPS, np.array([0, self.k]), positive=self.at_most)
        feasible(self.at_most or bool((A >= 0).all()), self)
        return A

    def of_parts(self, parts: Iterable[Array]) -> Array:
        """The best set for weights that come a part after the other, in one pass that keeps k of
        them.

        >>> import numpy as np
        >>> from superarm import TopK
        >>> TopK(2).of_parts([np.array([0.1, 0.7]), np.array([0.3, 0.9])])
        array([3, 1])
        """
        floor = 0.0 if self.at_most else -np.inf
        best, items, start = np.full(self.k, floor), np.full(self.k, -1), 0
        for part in parts:
            w = as_weights(part)
            # only what exceeds the worst of the best so far can enter; a tie goes to the item that came first
            found, valid = _select(w[None], _NO_GROUPS, np.array([0, self.k]), best[-1])
            if not valid.all():
                refuse_weights(w, first=start)
            new = found[0][found[0] >= 0]
            both = np.concatenate([best, w[new]])
            order = np.argsort(-both, kind="stable")[: self.k]
            best, items = both[order], np.concatenate([items, start + new])[order]
            start += len(w)
        feasible(self.at_most or bool((items >= 0).all()), self)
        return items


class Quota:
    """Sets with a given number of items from each group, or with a total and bounds for each group.

    `groups` gives the group of each item, by any label. `counts` says exactly how many to choose
    from each group. Instead, `total` says how many to choose in all, and `minimum` and `maximum`
    bound the number from the groups they name. Items come group by group, the best first; ties go
    to the lowest index.

    >>> import numpy as np
    >>> from superarm import Quota
    >>> w = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    >>> Quota(["f", "m", "f", "m", "f"], {"f": 2, "m": 1})(w)
    array([4, 2, 3])
    >>> Quota(["f", "m", "f", "m", "f"], total=3, maximum={"f": 1})(w)
    array([4, 3, 1])
    """

    gap = 0.0
    takes_tensors = True

    def __init__(
        self,
        groups: Sequence[Any] | Array,
        counts: Mapping[Any, int] | None = None,
        *,
        total: int | None = None,
        minimum: Mapping[Any, int] | None = None,
        maximum: Mapping[Any, int] | None = None,
    ) -> None:
        if (counts is None) == (total is None) or (counts is not None and (minimum or maximum)):
            raise ParameterError("a quota takes either counts, or a total with minimum and maximum")
        self._labels, self._group, sizes = index_groups(groups)
        if counts is None:
            nothing, everything = (
                dict.fromkeys(self._labels, 0),
                dict(zip(self._labels, sizes, strict=True)),
            )
            low = numbers_by_group(nothing | dict(minimum or {}), self._labels, "minimum")
            high = numbers_by_group(everything | dict(maximum or {}), self._labels, "maximum")
            high = [min(number, size) for number, size in zip(high, sizes, strict=True)]
        else:
            low = high = numbers_by_group(counts, self._labels, "count")
        self._total = sum(low) if total is None else total
        self._check(low, high, sizes)
        spare = self._total - sum(low)
        most = [min(a + spare, b) for a, b in zip(low, high, strict=True)]
        self._start = np.cumsum([0, *most])
        self._needed = np.concatenate([np.arange(b) < a for a, b in zip(low, most, strict=True)])

    def _check(self, low: list[int], high: list[int], sizes: list[int]) -> None:
        if not (is_whole(self._total) and self._total >= 0):
            raise ParameterError(f"total must be a whole number, 0 or more, got {self._total!r}")
        for label, least, most, size in zip(self._labels, low, high, sizes, strict=True):
            if least > size:
                raise InfeasibleError(f"group {label!r} has {size} items, fewer than its {least}")
            if least > most:
                raise InfeasibleError(
                    f"group {label!r} has a minimum of {least} above its maximum of {most}"
                )
        if not sum(low) <= self._total <= sum(high):
            raise InfeasibleError(
                f"the total is {self._total}, but the groups allow {sum(low)} to {sum(high)} items"
            )

    def __repr__(self) -> str:
        return f"Quota({len(self._group)} items in {len(self._labels)} groups, total={self._total})"

    @property
    def K(self) -> int:
        """The number of items it returns."""
        return self._total

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = as_weights(w, len(self._group), tensors=True)
        A = best_by_group(w, self._group, self._start)
        feasible(not (as_like(A, self._needed) & (A < 0)).any(), self)
        if len(self._needed) > self._total:
            A = best_of_total(w, A, self._needed, self._total)
        feasible(bool((A >= 0).all()), self)
        return A

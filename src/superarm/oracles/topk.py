"""The best k items, over all or by group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.errors import InfeasibleError, ParameterError, require_count
from superarm.oracles.compiled import compiled
from superarm.problem import as_weights, feasible, refuse_weights


@compiled
def _replace_top(value: Array, item: Array, lo: int, size: int, x: float, e: int) -> None:
    """Put (x, e) in place of the top of the heap value[lo:lo+size], whose top is the worst: least, then last."""
    i = lo
    while True:
        child = lo + 2 * (i - lo) + 1
        if child >= lo + size:
            break
        right = child + 1
        if right < lo + size and (
            value[right] < value[child] or (value[right] == value[child] and item[right] > item[child])
        ):
            child = right
        if x < value[child] or (x == value[child] and e > item[child]):
            break
        value[i], item[i] = value[child], item[child]
        i = child
    value[i], item[i] = x, e


@compiled
def _select(w: Array, group: Array, start: Array, floor: float) -> tuple[Array, bool]:
    """The start[g+1] - start[g] largest weights above `floor` of each group g; ties go to the lowest index.

    w is (n, L); an empty `group` puts every item into group 0. One pass, with a heap a group. Returns the items, group
    by group with the best first and -1 where a group has too few, and whether all weights are below +inf.
    """
    n, L = w.shape
    G = len(start) - 1
    A = np.full((n, start[G]), -1)
    value = np.empty(start[G])
    bar = np.empty(G)  # what a weight must exceed to enter; NaN and +inf exceed any
    for b in range(n):
        item = A[b]
        value[:] = floor
        for g in range(G):
            bar[g] = floor if start[g] < start[g + 1] else np.finfo(np.float64).max
        for e in range(L):
            x = w[b, e]
            g = group[e] if len(group) else 0
            if x <= bar[g]:
                continue
            if not x < np.inf:
                return A, False
            _replace_top(value, item, start[g], start[g + 1] - start[g], x, e)
            bar[g] = value[start[g]]
        for g in range(G):  # heapsort: the worst goes last
            for last in range(start[g + 1] - 1, start[g], -1):
                x, e = value[last], item[last]
                value[last], item[last] = value[start[g]], item[start[g]]
                _replace_top(value, item, start[g], last - start[g], x, e)
    return A, True


def _best(w: Array, group: Array, start: Array, floor: float) -> Array:
    """`_select` for any batch shape, refusing weights that are not below +inf."""
    rows = np.ascontiguousarray(w.reshape(-1, w.shape[-1]))
    A, valid = _select(rows, group, start, floor)
    if not valid:
        refuse_weights(w)
    return A.reshape(*w.shape[:-1], A.shape[-1])


_NO_GROUPS = np.empty(0, np.int64)


@dataclass(frozen=True)
class TopK:
    """Sets of exactly k items, or of at most k items.

    The best come first, and ties go to the lowest index. With `at_most`, items whose weight is not positive are left
    out, and -1 fills the rest.

    >>> import numpy as np
    >>> from superarm import TopK
    >>> TopK(2)(np.array([0.1, 0.7, -np.inf, 0.3]))
    array([1, 3])
    >>> TopK(3, at_most=True)(np.array([0.1, 0.7, -0.2, -0.3]))
    array([ 1,  0, -1])
    """

    k: int
    at_most: bool = field(default=False, kw_only=True)

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
        A = _best(as_weights(w), _NO_GROUPS, np.array([0, self.k]), 0.0 if self.at_most else -np.inf)
        feasible(self.at_most or bool((A[..., -1] >= 0).all()), self)
        return A


class Quota:
    """Sets with an exact number of items from each group.

    `groups` gives the group of each item, by any label; `counts` says how many to choose from each group. Within a
    group the best come first, and ties go to the lowest index.

    >>> import numpy as np
    >>> from superarm import Quota
    >>> oracle = Quota(["f", "m", "f", "m", "f"], {"f": 2, "m": 1})
    >>> oracle(np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    array([4, 2, 3])
    """

    gap = 0.0

    def __init__(self, groups: Sequence[Any] | Array, counts: Mapping[Any, int]) -> None:
        labels, self._group, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
        if self._group.ndim != 1 or not len(labels):
            raise ParameterError(f"groups must name the group of each item, got shape {np.shape(groups)}")
        members = dict(zip(labels.tolist(), sizes.tolist(), strict=True))
        if unnamed := [label for label in members if label not in counts]:
            raise ParameterError(f"counts must say how many of each group, 0 for none; missing: {unnamed[0]!r}")
        for label, count in counts.items():
            if not (isinstance(count, int | np.integer) and count >= 0):
                raise ParameterError(f"the count of group {label!r} must be a whole number, 0 or more, got {count!r}")
            if count > members.get(label, 0):
                raise InfeasibleError(f"group {label!r} has {members.get(label, 0)} items, fewer than its {count}")
        self.counts = {label: int(counts[label]) for label in members}
        self._start = np.cumsum([0, *self.counts.values()])

    def __repr__(self) -> str:
        return f"Quota({len(self._group)} items, {self.counts})"

    @property
    def K(self) -> int:
        """The number of items it returns."""
        return int(self._start[-1])

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        A = _best(as_weights(w, len(self._group)), self._group, self._start, -np.inf)
        feasible(bool((A >= 0).all()), self)
        return A

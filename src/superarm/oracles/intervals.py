"""Items that take time: the best of those that do not overlap (weighted interval scheduling).

Intervals are numbered by their ends; `before[j]` of them have ended when interval j starts, so

    V[m, j] = max(V[m, j-1], w_j + V[m-1, before[j]])

is the most that at most m of the first j are worth.
"""

from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, prange
from superarm.checks import require_count, require_unmasked
from superarm.checks.tables import align_alike, split_labels
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle


@compiled
def _schedule(w: Array, order: Array, before: Array, limited: bool, A: Array) -> None:
    """Fill A with the items of the best schedule, the earliest first: of at most len(A) items if it
    is limited, and else of as many as there are.
    """
    L = len(w)
    layers = len(A) if limited else 1
    V = np.zeros((layers + 1, L + 1))
    for m in range(1, layers + 1):
        below = V[m - 1] if limited else V[m]
        for j in range(L):
            taken = w[order[j]] + below[before[j]]
            V[m, j + 1] = max(V[m, j], taken)

    size = 0
    m = layers
    j = L
    while m > 0 and j > 0:
        if V[m, j] > V[m, j - 1]:
            A[size] = order[j - 1]
            size += 1
            m -= limited
            j = before[j - 1]
        else:
            j -= 1
    for i in range(size // 2):
        A[i], A[size - 1 - i] = A[size - 1 - i], A[i]


@compiled
def _schedules(w: Array, order: Array, before: Array, limited: bool, K: int) -> Array:
    """The items of the best schedule for each row of w (n, L): (n, K), -1 pads."""
    n = len(w)
    A = np.empty((n, K), np.int64)
    A[:] = -1
    for b in prange(n):
        _schedule(w[b], order, before, limited, A[b])
    return A


class Intervals(BaseOracle):
    """Sets of items that do not overlap in time, of at most `max_items` items if that is given.

    Item e takes the time from `start[e]` up to `end[e]`, without the end itself: one may start when
    another ends. Times are numbers or dates, in the order of the items, or by id, each as a mapping
    or a pandas Series. Items whose weight is not positive are left out, so that no item at all is a
    feasible set; the others are returned in the order of time. Of items that take the same time,
    ties go to the lowest index.

    The best set is found by a dynamic program, in a time that grows with L, times `max_items` if
    that binds.

    >>> import numpy as np
    >>> from superarm import Intervals
    >>> talks = Intervals(start=[9, 10, 9, 11], end=[10, 12, 11, 12])
    >>> talks(np.array([0.3, 0.4, 0.5, 0.3]))
    array([2, 3])
    >>> Intervals([9, 10, 9, 11], [10, 12, 11, 12], max_items=1)(np.array([0.3, 0.4, 0.5, 0.3]))
    array([2])
    """

    K: int  # the most items that do not overlap, or `max_items` if those are fewer
    gap = 0.0

    def __init__(self, start: Any, end: Any, *, max_items: int | None = None) -> None:
        if max_items is not None:
            require_count(max_items=max_items)
        starts, self.ids = split_labels(start, ParameterError)
        ends = align_alike(end, self.ids, "start and end", ParameterError)
        first, last = _ranks(_times(starts, "start"), _times(ends, "end"), self.ids)
        self.L = len(first)
        self.max_items = max_items
        self._order = np.argsort(last, kind="stable")
        self._before = np.searchsorted(last[self._order], first[self._order], side="right")
        fit = self._most()
        self._limited = max_items is not None and max_items < fit
        self.K = fit if max_items is None else min(fit, max_items)

    def __repr__(self) -> str:
        most = "" if self.max_items is None else f", max_items={self.max_items}"
        return f"Intervals({self.L} items{most})"

    def _most(self) -> int:
        """The most items that do not overlap: each the first to end of those that can follow."""
        size = 0
        ended = 0  # intervals that end no later than the last one taken
        for j, before in enumerate(self._before.tolist()):
            if before >= ended:
                size += 1
                ended = j + 1
        return size

    def solve(self, rows: Array) -> Array:
        """The best schedule for each row of weights (n, L): (n, K), -1 pads."""
        return _schedules(
            rows,
            self._order,
            self._before,
            self._limited,
            self.K,
        )


def _times(times: Any, name: str) -> Array:
    """Numbers or dates, one per item, as an array."""
    try:
        values = np.asarray(require_unmasked(times))
    except ValueError as error:
        raise ParameterError(f"{name} must be a time per item ({error})") from error
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iufmMO":
        raise ParameterError(
            f"{name} must be a time per item, as numbers or dates, got {values.dtype} of shape "
            f"{values.shape}"
        )
    return values


def _ranks(start: Array, end: Array, ids: list[Any] | None) -> tuple[Array, Array]:
    """The starts and ends as their places among all times, (L,) each; refused if an item ends no
    later than it starts, or if times cannot be compared.
    """
    if len(start) != len(end):
        raise ParameterError(f"{len(start)} starts need as many ends, got {len(end)}")
    try:
        lasts = np.asarray(end > start, dtype=bool)
        _, rank = np.unique(np.concatenate([start, end]), return_inverse=True)
    except TypeError as error:
        raise ParameterError(f"start and end must be of one kind ({error})") from error
    if not lasts.all():
        e = int(lasts.argmin())
        item = e if ids is None else ids[e]
        raise ParameterError(
            f"each item must end after it starts, but {item!r} goes from {start[e]} to {end[e]}"
        )
    return rank[: len(start)], rank[len(start) :]

"""The largest weights of each group, in one pass with a heap per group."""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array, as_like, take, where
from superarm.arrays.compiled import compiled, prange
from superarm.arrays.namespace import backend
from superarm.checks import raise_bad_weight
from superarm.oracles.parts import Part

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
def sort_heap(value: Array, item: Array) -> None:
    """Put the best of a heap first: its top is the worst, and goes last."""
    for last in range(len(value) - 1, 0, -1):
        x = value[last]
        e = item[last]
        value[last] = value[0]
        item[last] = item[0]
        replace_top(
            value[:last],
            item[:last],
            x,
            e,
        )


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
    """The least of the bars; the functions of NumPy and Python take longer to compile."""
    least = np.inf
    for g in range(len(bar)):
        if bar[g] < least:
            least = bar[g]
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
        end = begin + BLOCK if begin + BLOCK < L else L
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

    for g in range(G):
        lo = start[g]
        hi = start[g + 1]
        sort_heap(value[lo:hi], item[lo:hi])
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
        raise_bad_weight(rows)
    return A


def best_of_total(w: Array, A: Array, needed: Array, total: int) -> Array:
    """Of the best of each group (n, k): what the minimum asks for first, then the best of the rest,
    (n, total).
    """
    xp = backend(w)
    value = where(A < 0, -np.inf, take(w, A))
    value = where(as_like(A, needed), np.inf, value)
    order = xp.argsort(-value, stable=True)
    rank = xp.argsort(order)
    return A[rank < total].reshape(len(A), total)


class ByGroup(NamedTuple):
    """So many items from each group."""

    start: Array  # (G + 1,) group g may have start[g+1] - start[g] items
    floor: float  # what a weight must exceed

    def best(self, part: Part, w: Array, /) -> Array:
        """The best of each group."""
        A, valid = select(w[None], part.group, self.start, self.floor)
        if not valid.all():
            raise_bad_weight(w, first=part.first)
        return A

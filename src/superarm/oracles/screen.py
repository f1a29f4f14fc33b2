"""The best k of many items for many users at once: scores in float32 leave few items to look at in
float64.

Scores in float32 take half the time and half the memory, and each is off by no more than

    γ |φ| |θ|    with γ = (d + 4) 2⁻²⁴,

as a sum of d products, of numbers that were rounded before, is off. So an item whose score is
lower than the k-th by more than twice as much is not among the best; all others are scored again.
"""

import math
from typing import Any

import numpy as np

from superarm.arrays import Array, row_norms
from superarm.arrays.compiled import compiled
from superarm.oracles.selection import BLOCK, replace_top, sort_heap

TOGETHER = 4 * BLOCK
"""Items that are multiplied at a time, few enough for BLAS to do without a copy of them."""
ROUNDING = 2.0**-24
"""What a number is off by in float32, relative to its size."""
LEAST = 2.0**-126
"""Below it, numbers may count as zero in float32."""


class Screen:
    """The features of items in float32, and what finds the best of them.

    Args:
        Phi: (L, d) in float64 and C order, finite.

    >>> import numpy as np
    >>> from superarm.oracles.screen import Screen
    >>> screen = Screen(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> screen.best(np.array([[1.0, 2.0], [2.0, -1.0]]), k=2)
    array([[2, 1],
           [0, 2]])
    """

    def __init__(self, Phi: Array) -> None:
        L, d = Phi.shape
        blocks = math.ceil(L / TOGETHER)
        scaled = _scaled(Phi)
        rows = np.zeros((blocks * TOGETHER, d), np.float32)
        rows[:L] = scaled
        by_block = rows.reshape(blocks, TOGETHER, d)
        self.Phi = Phi
        self._columns = np.ascontiguousarray(by_block.mT)
        self._longest = row_norms(scaled).max()
        self._in_last = L - (blocks - 1) * TOGETHER

    def best(self, theta: Array, k: int) -> Array:
        """The items with the largest scores Φθ of each user, the best first; ties go to the lowest
        index: (n, d) -> (n, k).

        Args:
            theta: the coefficients of each user, finite.
            k: how many, at most TOGETHER, and as many as there are items.
        """
        n, d = theta.shape
        scaled = _scaled(theta)
        scores = np.matmul(scaled.astype(np.float32), self._columns)
        scores[-1, :, self._in_last :] = -np.inf
        off = (d + 4) * ROUNDING * self._longest * row_norms(scaled) + 3 * d * LEAST
        A = np.empty((n, k), np.int64)
        _find(scores, off, self.Phi, np.ascontiguousarray(theta), A)
        return A


def _scaled(x: Array) -> Array:
    """The numbers times a power of two, so that none is above 1, nor rounded."""
    _, exponent = np.frexp(np.abs(x).max())
    scale = float(np.ldexp(1.0, -max(exponent, -1000)))
    return x * scale


@compiled
def _find(scores: Array, off: Array, Phi: Array, theta: Array, A: Array) -> None:
    """Fill in the best items of each user: scores (blocks, n, TOGETHER), off (n,), A (n, k)."""
    lane = np.empty(TOGETHER, np.float32)
    for u in range(len(A)):
        bar = _reached(scores, u, A.shape[1], lane) - 2 * off[u]
        _best_from(scores, u, np.float32(bar), Phi, theta[u], A[u])


@compiled
def _reached(scores: Array, u: int, k: int, lane: Array) -> float:
    """What k scores reach for certain: scores that are TOGETHER apart are in one lane, and the
    largest of k lanes do.
    """
    lane[:] = -np.inf
    for i in range(len(scores)):
        block = scores[i, u]
        for j in range(TOGETHER):  # without branches, so that it runs in vector registers
            lane[j] = block[j] if block[j] > lane[j] else lane[j]
    value = np.full(k, -np.inf)
    item = np.zeros(k, np.int64)
    for j in range(TOGETHER):
        if lane[j] > value[0]:
            replace_top(value, item, lane[j], 0)
    reached: float = value[0]
    return reached


@compiled
def _any_from(block: Array, bar: Any) -> bool:
    """Whether one of the BLOCK scores is at least as large as the bar."""
    found = np.int32(0)  # a count without branches, as above
    for i in range(BLOCK):
        found += np.int32(block[i] >= bar)
    return bool(found)


@compiled
def _best_from(scores: Array, u: int, bar: Any, Phi: Array, theta: Array, item: Array) -> None:
    """Fill in the best items of those whose score is not below the bar."""
    L = len(Phi)
    value = np.full(len(item), -np.inf)
    item[:] = L
    for i in range(len(scores)):
        for begin in range(0, TOGETHER, BLOCK):
            block = scores[i, u, begin : begin + BLOCK]
            if not _any_from(block, bar):
                continue
            first = i * TOGETHER + begin
            for e in range(first, min(first + BLOCK, L)):
                if block[e - first] < bar:
                    continue
                x = _score(Phi[e], theta)
                if x > value[0] or item[0] == L:
                    replace_top(value, item, x, e)
    sort_heap(value, item)


@compiled
def _score(row: Array, theta: Array) -> float:
    """φ·θ in float64."""
    total = 0.0
    for j in range(len(row)):
        total += row[j] * theta[j]
    return total

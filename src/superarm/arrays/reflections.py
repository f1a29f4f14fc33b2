"""Many rows made a triangle by Householder's reflections, in blocks that stay in the cache.

LAPACK's `tpqrt` goes over all columns of a block once to find a reflection and once to apply it.
Here two reflections at a time are applied to four columns at a time: that many products are made of
each number that is loaded.

    F       (D, D)      the transposed factor of what came before, which becomes that of all rows
    block   (D, WIDTH)  rows [φ w] as columns, of which the first ROWS are used

A reflection by [u v] of column j, with u at the diagonal of the factor, takes c [u v] from each
later column [f t], where c = b (uf + v·t) and b = 2/(u² + v·v).
"""

import math
from typing import NamedTuple

import numpy as np

from superarm.arrays.compiled import compiled_sums
from superarm.arrays.kinds import Array

ROWS = 192
"""Rows of a block: with 20 features it is as large as the fastest cache."""
LANES = 32
"""Rows that a loop takes at a time: those that are missing are filled with zeros."""
WIDTH = ROWS + 8
"""Numbers from one column to the next: not a power of two, as such columns evict each other."""
WIDEST = 256
"""Columns up to which blocks stay in the second cache; LAPACK is as fast for more."""
LEAST = 1e-280
LARGEST = 1e280
"""Where sums of squares neither vanish nor overflow."""


class Reflection(NamedTuple):
    """I - b [u v] [u v]ᵀ, with v in the block."""

    u: float
    b: float


def new_block(D: int) -> Array:
    """Memory for a block, at the start of a cache line."""
    memory = np.empty(D * WIDTH + 8)
    start = -(memory.ctypes.data // 8) % 8
    return memory[start : start + D * WIDTH].reshape(D, WIDTH)


@compiled_sums
def reflect_rows(
    F: Array, rows: Array, w: Array, scale: Array, present: Array, block: Array
) -> bool:
    """Make F the transposed factor of itself stacked on the rows [φ w] times their scale, of which
    there may be one for all, of those that are present.

    It returns False, with F half done, where squares leave the range of float64.
    """
    n, d = rows.shape
    each = len(scale) == n
    at = 0
    while at < n:
        m = 0
        while at < n and m < ROWS:
            if present[at]:
                v = scale[at] if each else scale[0]
                for j in range(d):
                    block[j, m] = v * rows[at, j]
                block[d, m] = v * w[at]
                m += 1
            at += 1
        while m % LANES:
            for j in range(d + 1):
                block[j, m] = 0.0
            m += 1
        if not _reflect_block(F, block, m):
            return False
    return True


@compiled_sums
def _reflect_block(F: Array, block: Array, m: int) -> bool:
    """Make F the transposed factor of itself stacked on a block; False where it cannot be."""
    D = len(F)
    for j in range(0, D, 2):
        one = _reflection(F, block, m, j)
        if one.b < 0:
            return False
        if j + 1 == D:
            break
        _reflect(F, block, m, j, j + 1, one)
        two = _reflection(F, block, m, j + 1)
        if two.b < 0:
            return False
        k = j + 2
        if k == D:
            break
        dot = 0.0
        for i in range(m):
            dot += block[j, i] * block[j + 1, i]
        while k + 4 <= D:
            _reflect_four(F, block, m, j, k, one, two, dot)
            k += 4
        while k < D:
            _reflect_one(F, block, m, j, k, one, two, dot)
            k += 1
    return True


@compiled_sums
def _reflection(F: Array, block: Array, m: int, j: int) -> Reflection:
    """The reflection that leaves of column j only its length, at the diagonal of F; b is 0 if it is
    that already, and negative if its square leaves the range of float64.
    """
    squares = 0.0
    largest = 0.0
    for i in range(m):
        squares += block[j, i] * block[j, i]
    if squares == 0.0:
        for i in range(m):
            largest = max(largest, abs(block[j, i]))
        if largest > 0:
            return Reflection(0.0, -1.0)
        return Reflection(0.0, 0.0)
    f = F[j, j]
    total = f * f + squares
    if not (squares > LEAST and total < LARGEST):
        return Reflection(0.0, -1.0)
    length = math.sqrt(total)
    if f > 0:  # so that u has no cancellation
        length = -length
    F[j, j] = length
    u = f - length
    return Reflection(u, 2.0 / (u * u + squares))


@compiled_sums
def _reflect(F: Array, block: Array, m: int, j: int, k: int, by: Reflection) -> None:
    """Apply the reflection of column j to column k."""
    dot = 0.0
    for i in range(m):
        dot += block[j, i] * block[k, i]
    c = by.b * (by.u * F[k, j] + dot)
    F[k, j] -= c * by.u
    for i in range(m):
        block[k, i] -= c * block[j, i]


@compiled_sums
def _reflect_one(
    F: Array, block: Array, m: int, j: int, k: int, one: Reflection, two: Reflection, dot: float
) -> None:
    """Apply the reflections of columns j and j+1, whose product is `dot`, to column k."""
    p = 0.0
    q = 0.0
    for i in range(m):
        p += block[j, i] * block[k, i]
        q += block[j + 1, i] * block[k, i]
    c, e = _shares(F, j, k, p, q, one, two, dot)
    for i in range(m):
        block[k, i] -= c * block[j, i] + e * block[j + 1, i]


@compiled_sums
def _reflect_four(
    F: Array, block: Array, m: int, j: int, k: int, one: Reflection, two: Reflection, dot: float
) -> None:
    """Apply the reflections of columns j and j+1, whose product is `dot`, to four from k on."""
    p0 = p1 = p2 = p3 = 0.0
    q0 = q1 = q2 = q3 = 0.0
    for i in range(m):
        v = block[j, i]
        x = block[j + 1, i]
        p0 += v * block[k, i]
        q0 += x * block[k, i]
        p1 += v * block[k + 1, i]
        q1 += x * block[k + 1, i]
        p2 += v * block[k + 2, i]
        q2 += x * block[k + 2, i]
        p3 += v * block[k + 3, i]
        q3 += x * block[k + 3, i]
    c0, e0 = _shares(F, j, k, p0, q0, one, two, dot)
    c1, e1 = _shares(F, j, k + 1, p1, q1, one, two, dot)
    c2, e2 = _shares(F, j, k + 2, p2, q2, one, two, dot)
    c3, e3 = _shares(F, j, k + 3, p3, q3, one, two, dot)
    for i in range(m):
        v = block[j, i]
        x = block[j + 1, i]
        block[k, i] -= c0 * v + e0 * x
        block[k + 1, i] -= c1 * v + e1 * x
        block[k + 2, i] -= c2 * v + e2 * x
        block[k + 3, i] -= c3 * v + e3 * x


@compiled_sums
def _shares(
    F: Array, j: int, k: int, p: float, q: float, one: Reflection, two: Reflection, dot: float
) -> tuple[float, float]:
    """How much of the columns j and j+1 is taken from column k, whose products with them are p and
    q.
    """
    c = one.b * (one.u * F[k, j] + p)
    F[k, j] -= c * one.u
    left = q - c * dot  # of q, after the first reflection
    e = two.b * (two.u * F[k, j + 1] + left)
    F[k, j + 1] -= e * two.u
    return c, e

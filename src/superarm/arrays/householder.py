"""Rows put below a triangle, and made a triangle with it, by Householder's reflections.

LAPACK's `tpqrt` goes over all columns of a block once to find a reflection and once to apply it,
and for few rows its calls take longer than the work. Here two reflections at a time are applied to
four columns at a time: that many products are made of each number that is loaded.

    F       (D, D)      the transposed factor of what came before, which becomes that of all rows
    block   (D, width)  at most ROWS rows [φ w] as columns, and zeros

A reflection by [u v] of column j, with u at the diagonal of the factor, takes c [u v] from each
later column [f t], where c = b (uf + v·t) and b = 2/(u² + v·v).
"""

import math
from typing import NamedTuple

import numpy as np

from superarm.arrays.compiled import compiled_fastmath
from superarm.arrays.types import Array

ROWS = 512
"""Rows of a block: it stays in the second cache, and what is done once per column counts little."""
LANES = 8
"""Rows that vector registers hold: those that are missing are filled with zeros."""
FEW = 2
"""Rows up to which each is rotated into the factor by itself, as most of a register would be
empty."""
WIDEST = 255
"""Columns up to which factor and block stay in the second cache; LAPACK is as fast for more."""
LEAST = 1e-280
LARGEST = 1e280
"""Where sums of squares neither vanish nor overflow."""


class Pair(NamedTuple):
    """Two reflections I - b [u v] [u v]ᵀ one after the other, with v in the block."""

    u: float
    b: float  # negative if squares leave the range of float64
    next_u: float
    next_b: float
    dot: float  # of the two v


@compiled_fastmath
def reflect_rows(
    F: Array, start: Array, rows: Array, w: Array, one: float, each: Array, tally: Array, first: int
) -> int:
    """Make each F, of the entries of a batch from `first` on, the transposed factor of `start`
    stacked on the rows [φ w] / noise; or on rows φ / noise, if they are as wide as F. The noise is
    `one` for all, or `each` has it for each row or for each entry.

    Rows φ of zeros are padding. The tally gets, of each entry, how many others there are, and then,
    of each entry, the sum of the logarithms of their noise. The n entries of a batch are laid end
    to end: (nD, D), (nD, D), (nK, d), (nK,), (nK,) or (n,) or (0,), (2n,).

    Returns:
        the first entry that LAPACK is to take, whose F is then half done: where squares leave the
        range of float64, or D is larger than WIDEST; n if there is none.
    """
    n: int = len(tally) // 2
    D = F.shape[1]
    if n == 0 or D > WIDEST:
        return first
    K = len(rows) // n
    weighted = len(w) // n
    noises = len(each) // n
    block = _new_block(D, min(K, ROWS))
    for b in range(first, n):
        own = F[b * D : (b + 1) * D]
        before = start[b * D : (b + 1) * D]
        for j in range(D):
            for k in range(D):
                own[j, k] = before[j, k]
        phi = rows[b * K : (b + 1) * K]
        last = w[b * weighted : (b + 1) * weighted]
        noise = each[b * noises : (b + 1) * noises]
        if noises == 1:
            one = noise[0]
        present = 0
        at = 0
        while at < K:
            stop = min(at + ROWS, K)
            m = _fill(block, phi, last, one, noise, at, stop)
            if not _reflect_block(own, block, m):
                return b
            present += m
            at = stop
        if present > 0:
            _turn_upright(own)
        tally[b] = present
        if noises <= 1:
            tally[n + b] = present * math.log(one)
        else:
            tally[n + b] = _sum_of_logs(phi, noise)
    return n


@compiled_fastmath
def _new_block(D: int, rows: int) -> Array:
    """Memory for a block of so many rows and LANES more, at the start of a cache line."""
    width = -(-rows // LANES) * LANES + LANES
    memory = np.empty(D * width + LANES)
    start = -(memory.ctypes.data // 8) % LANES
    return memory[start : start + D * width].reshape(D, width)


@compiled_fastmath
def _is_zero(row: Array) -> bool:
    return not row.any()


@compiled_fastmath
def _sum_of_logs(rows: Array, noise: Array) -> float:
    """The sum of the logarithms of the noise of rows that are not zero."""
    total = 0.0
    product = 1.0
    for i in range(len(rows)):
        if _is_zero(rows[i]):
            continue
        product *= noise[i]
        if not 1e-100 < product < 1e100:  # one logarithm of many
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@compiled_fastmath
def _fill(block: Array, rows: Array, w: Array, one: float, noise: Array, at: int, stop: int) -> int:
    """Put the rows from `at` up to but not including `stop` into a block, without those of zeros,
    and zeros behind them; return how many there are.
    """
    zeros = 0
    for i in range(at, stop):
        zeros += rows[i, 0] == 0.0
    if zeros == 0:
        m = stop - at
        _fill_with_all(block, rows, w, one, noise, at, m)
    else:
        m = _fill_with_some(block, rows, w, one, noise, at, stop)
    for j in range(len(block)):
        for i in range(m, m + LANES):
            block[j, i] = 0.0
    return m


@compiled_fastmath
def _fill_with_all(
    block: Array, rows: Array, w: Array, one: float, noise: Array, at: int, m: int
) -> None:
    """Put m rows into a block: eight at a time, one vector register per column."""
    d = rows.shape[1]
    each = len(noise) > 1
    v = 1.0 if each else 1.0 / one
    i = 0
    while i + 8 <= m:
        r0 = rows[at + i]
        r1 = rows[at + i + 1]
        r2 = rows[at + i + 2]
        r3 = rows[at + i + 3]
        r4 = rows[at + i + 4]
        r5 = rows[at + i + 5]
        r6 = rows[at + i + 6]
        r7 = rows[at + i + 7]
        for j in range(d):
            column = block[j]
            column[i] = v * r0[j]
            column[i + 1] = v * r1[j]
            column[i + 2] = v * r2[j]
            column[i + 3] = v * r3[j]
            column[i + 4] = v * r4[j]
            column[i + 5] = v * r5[j]
            column[i + 6] = v * r6[j]
            column[i + 7] = v * r7[j]
        i += 8
    while i < m:
        for j in range(d):
            block[j, i] = v * rows[at + i, j]
        i += 1
    if d < len(block):
        for i in range(m):
            block[d, i] = v * w[at + i]
    if each:
        scale = np.empty(m)
        for i in range(m):
            scale[i] = 1.0 / noise[at + i]
        for j in range(len(block)):
            column = block[j]
            for i in range(m):
                column[i] *= scale[i]


@compiled_fastmath
def _fill_with_some(
    block: Array, rows: Array, w: Array, one: float, noise: Array, at: int, stop: int
) -> int:
    """Put rows into a block, without those of zeros."""
    d = rows.shape[1]
    each = len(noise) > 1
    m = 0
    for k in range(at, stop):
        if _is_zero(rows[k]):
            continue
        v = 1.0 / (noise[k] if each else one)
        for j in range(d):
            block[j, m] = v * rows[k, j]
        if d < len(block):
            block[d, m] = v * w[k]
        m += 1
    return m


@compiled_fastmath
def _reflect_block(F: Array, block: Array, rows: int) -> bool:
    """Make F the transposed factor of itself stacked on a block; False where it cannot be."""
    if rows <= FEW:
        return _rotate_rows(F, block, rows)
    D = len(F)
    m = -(-rows // LANES) * LANES
    for j in range(0, D - 1, 2):
        by = _reflections(F, block, m, j)
        if by.b < 0 or by.next_b < 0:
            return False
        k = j + 2
        while k + 4 <= D:
            _reflect_four(F, block, m, j, k, by)
            k += 4
        while k < D:
            _reflect_one(F, block, m, j, k, by)
            k += 1
    return D % 2 == 0 or _reflect_last(F, block, m)


@compiled_fastmath
def _rotate_rows(F: Array, block: Array, rows: int) -> bool:
    """Make F the transposed factor of itself stacked on few rows of a block, one row after the
    other, by Givens' rotations; False where it cannot be.
    """
    D = len(F)
    x = np.empty(D)
    for i in range(rows):
        for j in range(D):
            x[j] = block[j, i]
        for j in range(D):
            if x[j] == 0.0:
                continue
            f = F[j, j]
            square = x[j] * x[j]
            total = f * f + square
            if not (square > LEAST and total < LARGEST):
                return False
            length = math.sqrt(total)
            share = 1.0 / length
            c = share * f
            s = share * x[j]
            F[j, j] = length
            for k in range(j + 1, D):
                before = F[k, j]
                F[k, j] = c * before + s * x[k]
                x[k] = c * x[k] - s * before
    return True


@compiled_fastmath
def _reflect_last(F: Array, block: Array, m: int) -> bool:
    """Find the length of the last column; False where it cannot be found."""
    x = block[len(F) - 1]
    squares = 0.0
    for i in range(m):
        squares += x[i] * x[i]
    _, b = _reflection(F, x, m, len(F) - 1, squares)
    return b >= 0


@compiled_fastmath
def _reflections(F: Array, block: Array, m: int, j: int) -> Pair:
    """The reflection that leaves of column j only its length, at the diagonal of F, applied to
    column j+1; and then that of column j+1.
    """
    x = block[j]
    y = block[j + 1]
    squares = 0.0
    product = 0.0
    for i in range(m):
        squares += x[i] * x[i]
        product += x[i] * y[i]
    u, b = _reflection(F, x, m, j, squares)
    if b < 0:
        return Pair(u, b, 0.0, 0.0, 0.0)
    c = b * (u * F[j + 1, j] + product)
    F[j + 1, j] -= c * u
    squares = 0.0
    product = 0.0
    for i in range(m):
        t = y[i] - c * x[i]
        y[i] = t
        squares += t * t
        product += t * x[i]
    next_u, next_b = _reflection(F, y, m, j + 1, squares)
    return Pair(u, b, next_u, next_b, product)


@compiled_fastmath
def _reflection(F: Array, x: Array, m: int, j: int, squares: float) -> tuple[float, float]:
    """U and b of the reflection of a column x with these squares; b is 0 if it is nothing but its
    length already, and negative if its square leaves the range of float64.
    """
    if squares == 0.0:
        largest = 0.0
        for i in range(m):
            largest = max(largest, abs(x[i]))
        return 0.0, (-1.0 if largest > 0 else 0.0)
    f = F[j, j]
    total = f * f + squares
    if not (squares > LEAST and total < LARGEST):
        return 0.0, -1.0
    length = math.sqrt(total)
    if f > 0:  # so that u has no cancellation
        length = -length
    F[j, j] = length
    u = f - length
    return u, 2.0 / (u * u + squares)


@compiled_fastmath
def _reflect_one(F: Array, block: Array, m: int, j: int, k: int, by: Pair) -> None:
    """Apply the reflections of columns j and j+1 to column k."""
    p = 0.0
    q = 0.0
    for i in range(m):
        p += block[j, i] * block[k, i]
        q += block[j + 1, i] * block[k, i]
    c, e = _shares(F, j, k, p, q, by)
    for i in range(m):
        block[k, i] -= c * block[j, i] + e * block[j + 1, i]


@compiled_fastmath
def _reflect_four(F: Array, block: Array, m: int, j: int, k: int, by: Pair) -> None:
    """Apply the reflections of columns j and j+1 to four columns from k on."""
    p0 = p1 = p2 = p3 = 0.0
    q0 = q1 = q2 = q3 = 0.0
    for i in range(m):
        v = block[j, i]
        z = block[j + 1, i]
        p0 += v * block[k, i]
        q0 += z * block[k, i]
        p1 += v * block[k + 1, i]
        q1 += z * block[k + 1, i]
        p2 += v * block[k + 2, i]
        q2 += z * block[k + 2, i]
        p3 += v * block[k + 3, i]
        q3 += z * block[k + 3, i]
    c0, e0 = _shares(F, j, k, p0, q0, by)
    c1, e1 = _shares(F, j, k + 1, p1, q1, by)
    c2, e2 = _shares(F, j, k + 2, p2, q2, by)
    c3, e3 = _shares(F, j, k + 3, p3, q3, by)
    for i in range(m):
        v = block[j, i]
        z = block[j + 1, i]
        block[k, i] -= c0 * v + e0 * z
        block[k + 1, i] -= c1 * v + e1 * z
        block[k + 2, i] -= c2 * v + e2 * z
        block[k + 3, i] -= c3 * v + e3 * z


@compiled_fastmath
def _shares(F: Array, j: int, k: int, p: float, q: float, by: Pair) -> tuple[float, float]:
    """How much of the columns j and j+1 is taken from column k, whose products with them are p and
    q.
    """
    c = by.b * (by.u * F[k, j] + p)
    F[k, j] -= c * by.u
    left = q - c * by.dot  # of q, after the first reflection
    e = by.next_b * (by.next_u * F[k, j + 1] + left)
    F[k, j + 1] -= e * by.next_u
    return c, e


@compiled_fastmath
def _turn_upright(F: Array) -> None:
    """Give the factor a positive diagonal."""
    D = len(F)
    for j in range(D):
        if F[j, j] < 0:
            for k in range(j, D):
                F[k, j] = 0.0 - F[k, j]  # of which zeros come out as 0, not as -0

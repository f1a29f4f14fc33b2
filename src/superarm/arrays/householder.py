"""Rank-k update of triangular factors by Householder reflections: the kernel.

LAPACK's `tpqrt` goes over all columns of a block once to find a reflection and once to apply it,
and for few rows its calls take longer than the work. Here two reflections at a time are applied to
four columns at a time: that many products are made of each number that is loaded. It is 2.5
times as fast as `tpqrt` for 10 rows of 20, 1.7 times for 60 of 200 and 3.7 times for 512 of 20.

    F       (D, D)      the transposed factor, updated in place
    block   (D, width)  at most ROWS rows [φ w] / noise as columns, and zeros

A reflection by [u v] of column j, with u at the diagonal of the factor, takes c [u v] from each
later column [f t], where c = b (uf + v·t) and b = 2/(u² + v·v).
"""

import math
from typing import NamedTuple

import numpy as np

from superarm.arrays.compiled import compiled, compiled_fastmath
from superarm.arrays.types import Array

ROWS = 512
"""Rows of a block: it stays in the second cache, and what is done once per column counts little."""
LANES = 8
"""Rows that vector registers hold: those that are missing are filled with zeros."""
MAX_COLUMNS = 255
"""Columns up to which factor and block stay in the second cache; LAPACK is as fast for more."""
SAFE_SQUARE_MIN = 1e-280
SAFE_SQUARE_MAX = 1e280
"""Where sums of squares neither vanish nor overflow."""


class ReflectorPair(NamedTuple):
    """Two reflections I - b [u v] [u v]ᵀ one after the other, with v in the block."""

    u: float
    b: float  # negative if squares leave the range of float64
    next_u: float
    next_b: float
    dot: float  # of the two v


@compiled
def update_factors(F: Array, rows: Array, w: Array, noise: Array, sums: Array, first: int) -> int:
    """Rank-k update of each transposed factor of a batch, from entry `first` on, by its rows
    [φ w] / noise; or by rows φ / noise, if they are as wide as the factor.

    Rows φ of zeros are padding. The sums get the number of other rows of each entry, and then the
    sum of the logarithms of their noise. The n entries of a batch are laid end to end:
    (nD, D), (nK, d), (nK,) or (0,), (nK,) or (n,), (2n,).

    Returns:
        the first entry that LAPACK is to take, whose F is then half done: where squares leave the
        range of float64, or D is larger than MAX_COLUMNS; n if there is none.
    """
    n: int = len(sums) // 2
    D = F.shape[1]
    if n == 0 or D > MAX_COLUMNS:
        return first
    K = len(rows) // n
    n_noise = len(noise) // n
    block_rows = K if K < ROWS else ROWS  # NumPy's and Python's functions take longer to compile
    block = _new_block(D, block_rows)
    index = np.empty(block_rows, np.intp)
    for b in range(first, n):
        factor = F[b * D : (b + 1) * D]
        same_noise = noise[b] if n_noise == 1 else -1.0
        n_rows = 0
        log_noise = 0.0
        end = (b + 1) * K
        for start in range(b * K, end, ROWS):
            stop = start + ROWS if start + ROWS < end else end
            m, log_sum = _load_rows(block, index, rows, w, noise, same_noise, start, stop)
            if not _reflect_block(factor, block, m):
                return b
            n_rows += m
            log_noise += log_sum
        if n_rows > 0:
            _make_diagonal_positive(factor)
        sums[b] = n_rows
        sums[n + b] = log_noise
    return n


@compiled
def _new_block(D: int, rows: int) -> Array:
    """Memory for a block of so many rows and LANES more, at the start of a cache line."""
    width = -(-rows // LANES) * LANES + LANES
    memory = np.empty(D * width + LANES)
    start = -(memory.ctypes.data // 8) % LANES
    return memory[start : start + D * width].reshape(D, width)


@compiled
def _load_rows(
    block: Array,
    index: Array,
    rows: Array,
    w: Array,
    noise: Array,
    same_noise: float,
    start: int,
    stop: int,
) -> tuple[int, float]:
    """Copy nonzero rows, divided by their noise, into the columns of a block, and zeros behind
    them: their number, and the sum of the logarithms of their noise.

    The noise is the same for all, or else -1 stands in its place.
    """
    n = stop - start
    D = len(block)
    d = rows.shape[1]
    m = 0
    for i in range(start, stop):
        for j in range(d):
            if rows[i, j] != 0.0:
                index[m] = i
                m += 1
                break
    phi = rows[start:stop]
    if m < n:
        phi = np.empty((m, d))
        for i in range(m):
            for j in range(d):
                phi[i, j] = rows[index[i], j]
    is_same = not same_noise < 0.0
    scale = 1.0 / same_noise if is_same else 1.0
    _fill_block(block, phi, scale)
    if d < D:
        for i in range(m):
            block[d, i] = scale * w[index[i]]
    if is_same:
        return m, m * math.log(same_noise)
    scales = np.empty(m)
    log_noise = 0.0
    for i in range(m):
        scales[i] = 1.0 / noise[index[i]]
        log_noise += math.log(noise[index[i]])
    for j in range(D):
        for i in range(m):
            block[j, i] *= scales[i]
    return m, log_noise


@compiled
def _fill_block(block: Array, phi: Array, scale: float) -> None:
    """Copy rows times their scale into the columns of a block, LANES rows at a time, and zeros
    behind them.
    """
    m, d = phi.shape
    aligned = m - m % LANES
    for i in range(0, aligned, LANES):
        for j in range(d):
            for k in range(LANES):
                block[j, i + k] = scale * phi[i + k, j]
    for i in range(aligned, m):
        for j in range(d):
            block[j, i] = scale * phi[i, j]
    for j in range(len(block)):
        for i in range(m, m + LANES):
            block[j, i] = 0.0


@compiled_fastmath
def _reflect_block(F: Array, block: Array, rows: int) -> bool:
    """Make F the transposed factor of itself stacked on a block; False where it cannot be."""
    D = len(F)
    lanes = -(-rows // LANES)
    for j in range(0, D - 1, 2):
        pair = _reflections(F, block, lanes, j)
        if pair.b < 0 or pair.next_b < 0:
            return False
        _reflect_columns(F, block, lanes, j, pair)
    return D % 2 == 0 or _reflect_last(F, block, lanes)


@compiled_fastmath
def _reflect_last(F: Array, block: Array, lanes: int) -> bool:
    """Find the length of the last column; False where it cannot be found."""
    m = lanes * LANES
    x = block[len(F) - 1]
    squares = 0.0
    for i in range(m):
        squares += x[i] * x[i]
    _, b = _reflection(F, x, m, len(F) - 1, squares)
    return b >= 0


@compiled_fastmath
def _reflections(F: Array, block: Array, lanes: int, j: int) -> ReflectorPair:
    """The reflection that leaves of column j only its length, at the diagonal of F, applied to
    column j+1; and then that of column j+1.
    """
    m = lanes * LANES
    x = block[j]
    y = block[j + 1]
    squares = 0.0
    product = 0.0
    for i in range(m):
        squares += x[i] * x[i]
        product += x[i] * y[i]
    u, b = _reflection(F, x, m, j, squares)
    if b < 0:
        return ReflectorPair(u, b, 0.0, 0.0, 0.0)
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
    return ReflectorPair(u, b, next_u, next_b, product)


@compiled_fastmath
def _reflection(F: Array, x: Array, m: int, j: int, squares: float) -> tuple[float, float]:
    """U and b of the reflection of a column x with these squares; b is 0 if it is nothing but its
    length already, and negative if its square leaves the range of float64.
    """
    if squares == 0.0:
        for i in range(m):
            if x[i] != 0.0:
                return 0.0, -1.0
        return 0.0, 0.0
    f = F[j, j]
    total = f * f + squares
    if not (squares > SAFE_SQUARE_MIN and total < SAFE_SQUARE_MAX):
        return 0.0, -1.0
    length = math.sqrt(total)
    if f > 0:  # so that u has no cancellation
        length = -length
    F[j, j] = length
    u = f - length
    return u, 2.0 / (u * u + squares)


@compiled_fastmath
def _reflect_columns(F: Array, block: Array, lanes: int, j: int, pair: ReflectorPair) -> None:
    """Apply the reflections of columns j and j+1 to the later columns, four at a time."""
    m = lanes * LANES
    D = len(F)
    start = j + 2
    four = D - (D - start) % 4
    for k in range(start, four, 4):
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
        c0, e0 = _coefficients(F, j, k, p0, q0, pair)
        c1, e1 = _coefficients(F, j, k + 1, p1, q1, pair)
        c2, e2 = _coefficients(F, j, k + 2, p2, q2, pair)
        c3, e3 = _coefficients(F, j, k + 3, p3, q3, pair)
        for i in range(m):
            v = block[j, i]
            z = block[j + 1, i]
            block[k, i] -= c0 * v + e0 * z
            block[k + 1, i] -= c1 * v + e1 * z
            block[k + 2, i] -= c2 * v + e2 * z
            block[k + 3, i] -= c3 * v + e3 * z
    for k in range(four, D):
        p = 0.0
        q = 0.0
        for i in range(m):
            p += block[j, i] * block[k, i]
            q += block[j + 1, i] * block[k, i]
        c, e = _coefficients(F, j, k, p, q, pair)
        for i in range(m):
            block[k, i] -= c * block[j, i] + e * block[j + 1, i]


@compiled_fastmath
def _coefficients(
    F: Array, j: int, k: int, p: float, q: float, pair: ReflectorPair
) -> tuple[float, float]:
    """Multiples of the columns j and j+1 to take from column k, whose products with them are p and
    q.
    """
    c = pair.b * (pair.u * F[k, j] + p)
    F[k, j] -= c * pair.u
    q_reflected = q - c * pair.dot
    e = pair.next_b * (pair.next_u * F[k, j + 1] + q_reflected)
    F[k, j + 1] -= e * pair.next_u
    return c, e


@compiled
def _make_diagonal_positive(F: Array) -> None:
    """Give the factor a positive diagonal."""
    D = len(F)
    for j in range(D):
        if F[j, j] < 0:
            for k in range(j, D):
                F[k, j] = 0.0 - F[k, j]  # of which zeros come out as 0, not as -0

"""The triangular factors of many users, each packed into one row: kernels for all of them at once.

    data     (n, D(D+1)/2)   upper triangles of rows [φ w], row by row, D = d + 1
    start    (D, D)          the factor [R z; 0 r] that every user starts from

LAPACK would be called once per user, and for triangles this small the call takes longer than the
work. Here LANES users go through Householder's reflections side by side, in vector registers: their
triangles are interleaved, so that the innermost loop is over users.
"""

import math

import numpy as np

from superarm.arrays.compiled import compiled, prange
from superarm.arrays.householder import SAFE_SQUARE_MAX, SAFE_SQUARE_MIN
from superarm.arrays.types import Array

LANES = 8


def packed_size(D: int) -> int:
    """Numbers in an upper triangle of D rows."""
    return D * (D + 1) // 2


def unpacked(data: Array, D: int) -> Array:
    """The triangles as matrices: (*B, D(D+1)/2) -> (*B, D, D).

    >>> unpacked(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [0., 3.]])
    """
    out = np.zeros((*data.shape[:-1], D, D))
    out[..., *np.triu_indices(D)] = data
    return out


@compiled
def _in_own_unit(R: Array, B: Array, n: int, j: int, i: int) -> float:
    """Measure column j of lane i in its largest entry, which is returned; in 1 if all are zero."""
    largest: float = R[j, j, i]
    for k in range(n):
        largest = max(largest, abs(B[k, j, i]))
    if largest == 0.0:
        return 1.0
    R[j, j, i] /= largest
    for k in range(n):
        B[k, j, i] /= largest
    return largest


@compiled
def _reflect(R: Array, B: Array, n: int, j: int, dots: Array) -> None:
    """Make column j of the first n rows of B zero by Householder's reflections with R[j, j], which
    is not negative and stays so: (D, D, LANES), (K, D, LANES), (D, LANES). What is left in that
    column of B is not looked at again.
    """
    D = R.shape[1]
    squares = np.zeros(LANES)
    for k in range(n):
        for i in range(LANES):
            squares[i] += B[k, j, i] * B[k, j, i]
    unit = np.ones(LANES)
    for i in range(LANES):
        if not SAFE_SQUARE_MIN < R[j, j, i] * R[j, j, i] + squares[i] < SAFE_SQUARE_MAX:
            unit[i] = _in_own_unit(R, B, n, j, i)
            squares[i] = 0.0
            for k in range(n):
                squares[i] += B[k, j, i] * B[k, j, i]
    v = np.empty(LANES)
    scale = np.empty(LANES)
    for i in range(LANES):
        v[i] = R[j, j, i] + math.sqrt(R[j, j, i] * R[j, j, i] + squares[i])
        length = v[i] * v[i] + squares[i]
        scale[i] = 2.0 / length if length > 0.0 else 0.0
    for c in range(j, D):
        for i in range(LANES):
            dots[c, i] = v[i] * R[j, c, i]
    for k in range(n):
        for c in range(j, D):
            for i in range(LANES):
                dots[c, i] += B[k, j, i] * B[k, c, i]
    for c in range(j, D):
        for i in range(LANES):
            dots[c, i] *= scale[i]
            # the reflection makes the diagonal negative: the row is turned over at once
            R[j, c, i] = v[i] * dots[c, i] - R[j, c, i]
    for i in range(LANES):
        R[j, j, i] *= unit[i]
    for k in range(n):
        for c in range(j + 1, D):
            for i in range(LANES):
                B[k, c, i] -= B[k, j, i] * dots[c, i]


@compiled
def absorb_rows(data: Array, users: Array, Phi: Array, A: Array, w: Array, keep: float) -> None:
    """Put the rows [φ w] of the chosen items of each user into their triangles; -1 pads. Each user
    is there once.

    What a triangle held before counts `keep` times what it did.
    """
    K = A.shape[1]
    d = Phi.shape[1]
    D = d + 1
    root = math.sqrt(keep)
    for block in prange((len(users) + LANES - 1) // LANES):
        R = np.zeros((D, D, LANES))
        B = np.zeros((K, D, LANES))
        dots = np.empty((D, LANES))
        first = block * LANES
        lanes = min(LANES, len(users) - first)
        for i in range(lanes):
            packed = data[users[first + i]]
            at = 0
            for r in range(D):
                for c in range(r, D):
                    R[r, c, i] = root * packed[at]
                    at += 1
            for k in range(K):
                e = A[first + i, k]
                if e >= 0:
                    for c in range(d):
                        B[k, c, i] = Phi[e, c]
                    B[k, d, i] = w[first + i, k]
        for j in range(D):
            _reflect(R, B, K, j, dots)
        for i in range(lanes):
            packed = data[users[first + i]]
            at = 0
            for r in range(D):
                for c in range(r, D):
                    packed[at] = R[r, c, i]
                    at += 1


@compiled
def _joined(data: Array, users: Array, start: Array, sigma: float) -> Array:
    """The factors (D, D, LANES) of at most LANES users: `start` with the rows of their triangles,
    divided by σ. A user of -1 has none.
    """
    D = start.shape[1]
    R = np.zeros((D, D, LANES))
    T = np.zeros((D, D, LANES))
    dots = np.empty((D, LANES))
    for r in range(D):
        for c in range(r, D):
            for i in range(LANES):
                R[r, c, i] = start[r, c]
    share = 1.0 / sigma
    for i in range(len(users)):
        if users[i] < 0:
            continue
        packed = data[users[i]]
        at = 0
        for r in range(D):
            for c in range(r, D):
                T[r, c, i] = share * packed[at]
                at += 1
    for j in range(D):
        _reflect(R, T, j + 1, j, dots)  # the rows below hold nothing in this column
    return R


@compiled
def fill_factors(out: Array, data: Array, users: Array, start: Array, sigma: float) -> None:
    """Fill out (n, D, D) with the factor of each user: `start` with the rows of their triangle,
    divided by σ. A user of -1 has none.
    """
    D = start.shape[1]
    for block in prange((len(users) + LANES - 1) // LANES):
        first = block * LANES
        some = users[first : first + LANES]
        R = _joined(data, some, start, sigma)
        for i in range(len(some)):
            for r in range(D):
                for c in range(D):
                    out[first + i, r, c] = R[r, c, i]


@compiled
def fill_thetas(
    theta: Array, data: Array, users: Array, start: Array, sigma: float, noise: Array
) -> None:
    """Fill theta (n, d) with θ = R⁻¹(z + ε), where [R z; 0 r] is the factor of each user and ε
    their noise (n, d).
    """
    d = theta.shape[1]
    for block in prange((len(users) + LANES - 1) // LANES):
        first = block * LANES
        some = users[first : first + LANES]
        R = _joined(data, some, start, sigma)
        x = np.zeros((d, LANES))
        for i in range(len(some)):
            for r in range(d):
                x[r, i] = noise[first + i, r]
        for r in range(d - 1, -1, -1):
            for i in range(LANES):
                x[r, i] += R[r, d, i]
            for c in range(r + 1, d):
                for i in range(LANES):
                    x[r, i] -= R[r, c, i] * x[c, i]
            for i in range(LANES):
                x[r, i] /= R[r, r, i]
        for i in range(len(some)):
            for r in range(d):
                theta[first + i, r] = x[r, i]

"""What the array-API standard leaves out, for NumPy arrays: LAPACK, hashes, gather and
scatter. Each function that meets a tensor is its namesake in `arrays.torch`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.special import expit, log_expit

from superarm.arrays.types import (
    Array,
    Features,
    is_product,
    is_sparse,
    unbroadcast,
    or_torch,
    sparse_arrays,
)

PART = 2**16
"""Numbers in a part of the features that stays in the cache."""


# --- conversions ----------------------------------------------------------------------------------


@or_torch
def to_numpy(x: Any) -> Array:
    """The same numbers in a NumPy array."""
    return np.asarray(x)


@or_torch
def as_like(like: Features, x: Array) -> Array:
    """The numbers of x in an array of the kind of `like`, on the same device."""
    return x


@or_torch
def full(
    shape: Sequence[int],
    value: Array | float,
    like: Features | None = None,
) -> Array:
    """One value, or the values of an array repeated to fill the shape, in an array of the kind of
    `like`.
    """
    return np.full(shape, value)


@or_torch
def where(condition: Array, x: Array | float, y: Array | float) -> Array:
    """X where the condition holds, y elsewhere; Python numbers count as float64."""
    return np.where(
        condition,
        x,
        y,
    )


# --- numbers --------------------------------------------------------------------------------------


@or_torch
def sigmoid(x: Array) -> Array:
    """1/(1 + exp(-x)), elementwise, without overflow."""
    p: Array = expit(x)
    return p


@or_torch
def log_sigmoid(x: Array) -> Array:
    """The logarithm of `sigmoid`, exact far out in both tails."""
    p: Array = log_expit(x)
    return p


@or_torch
def row_norms(M: Array) -> Array:
    """The Euclidean norm of each row: (*B, L, d) -> (*B, L)."""
    return np.asarray(
        np.sqrt(np.einsum("...ld,...ld->...l", M, M)),
    )


@or_torch
def rows_per_part(Phi: Features) -> int:
    """How many rows of the features to work on at a time."""
    d: int = Phi.shape[-1]
    return max(1, PART // max(1, d))


# --- gather and scatter ---------------------------------------------------------------------------


def _flat(A: Array, L: int) -> Array:
    """The places of the items in a batch laid end to end: (*B, K)."""
    batch = A.shape[:-1]
    first = L * np.arange(math.prod(batch))
    return A + first.reshape(*batch, 1)


def _for_each(left: Array, A: Array) -> Array:
    """The left side of a product, repeated for each entry of a batch if it is shared."""
    if is_sparse(left):
        return left
    return np.broadcast_to(
        left,
        A.shape[:-1] + left.shape[-2:],
    )


@or_torch
def take_rows(Phi: Features, A: Array) -> Array:
    """The rows of the chosen items, zero where A pads: (*B, L, d), (*B, K) -> (*B, K, d).

    Example:
        >>> take_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1]))
        array([[3., 4.],
               [0., 0.]])
    """
    if is_product(Phi):
        product: Array = take_rows(_for_each(Phi.left, A), A) @ Phi.right
        return product
    if is_sparse(Phi):
        filled: Array = sparse_arrays().take_rows(Phi, A)
        return filled
    *batch, L, d = Phi.shape
    one = unbroadcast(Phi)
    if one is not None:  # as one array it would be copied for each entry of the batch
        rows: Array = one[A]
    else:
        every_row = Phi.reshape(L * math.prod(batch), d)
        rows = every_row[_flat(A, L)]
    rows[A < 0] = 0
    return rows


@or_torch
def add_at(v: Array, A: Array, x: Array) -> Array:
    """A copy of v with x added at the chosen items: (*B, L), (*B, K), (*B, K) -> (*B, L).

    Example:
        >>> add_at(np.zeros(3), np.array([2, 0, -1]), np.array([0.5, 1.0, 9.0]))
        array([1. , 0. , 0.5])
    """
    out = v.copy()
    chosen = A >= 0
    np.add.at(
        out.reshape(-1),
        _flat(A, v.shape[-1])[chosen],
        np.broadcast_to(x, A.shape)[chosen],
    )
    return out


# --- bits -----------------------------------------------------------------------------------------


def hashed_uniform(*keys: Array) -> Array:
    """Uniforms on [0, 1) that are a pure function of the keys' bits: one round of SplitMix64 per
    key.
    """
    h: Array = np.zeros(1, np.uint64)
    for key in keys:
        bits = np.ascontiguousarray(key, np.float64)
        h = (h ^ bits.view(np.uint64)) + 0x9E3779B97F4A7C15
        h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9
        h = (h ^ (h >> 27)) * 0x94D049BB133111EB
        h = h ^ (h >> 31)
    return (h >> 11) * 2.0**-53


# --- triangular factors ---------------------------------------------------------------------------
# LAPACK wants Fortran order, so each D x D slice is kept as the transpose of a C-ordered one: no
# copies on the way in.


def _slices(factor: Array) -> Array:
    """The transposed factors of a batch laid end to end: (n, D, D), in C order."""
    D = factor.shape[-1]
    return factor.mT.reshape(-1, D, D)


@or_torch
def solve_rows(factor: Array, Phi: Array, transposed: bool = False) -> Array:
    """X with X R = Phi, or X Rᵀ = Phi, one row per item: (*B, D, D), (*B, L, d) -> (*B, L, d)."""
    L, d = Phi.shape[-2:]
    one = unbroadcast(factor)
    if one is not None:
        return solve_rows(one, Phi.reshape(-1, d), transposed).reshape(Phi.shape)
    triangles = _slices(factor)[:, :d].mT
    columns = Phi.reshape(-1, L, d).mT
    lower = 0
    trans = int(not transposed)
    X = [
        dtrtrs(R, rhs, lower, trans)[0].T  # by position, which is faster
        for R, rhs in zip(triangles, columns, strict=True)
    ]
    together = X[0] if len(X) == 1 else np.concatenate(X)
    return together.reshape(Phi.shape)


@or_torch
def triangle(A: Array) -> Array:
    """R with RᵀR = AᵀA, upper triangular: (*B, M, N) -> (*B, N, N)."""
    return np.asarray(
        np.linalg.qr(A, mode="r"),
    )

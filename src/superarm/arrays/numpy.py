"""Functions that the array-API standard leaves out, for NumPy arrays: LAPACK, gather and scatter.

`arrays.namespace` says what each function does.
"""

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.special import expit, log_expit

from superarm.arrays.types import Array, Features, unbroadcast

CHUNK_NUMBERS = 2**16
"""Numbers in a chunk of the features that stays in the cache."""


# --- conversions ----------------------------------------------------------------------------------


def to_numpy(x: Any) -> Array:
    """The same numbers in a NumPy array."""
    return np.asarray(x)


def as_like(like: Features, x: Array) -> Array:
    """X itself."""
    return x


def full(shape: Sequence[int], value: Array | float, like: Features | None = None) -> Array:
    """The value, or values repeated to fill the shape."""
    return np.full(shape, value)


sigmoid = expit
log_sigmoid = log_expit


# --- rows -----------------------------------------------------------------------------------------


def row_norms(M: Array) -> Array:
    """The Euclidean norm of each row."""
    squares = np.einsum("...ld,...ld->...l", M, M)
    norms: Array = np.sqrt(squares)
    return norms


def rows_per_chunk(Phi: Features) -> int:
    """Number of feature rows to work on at a time."""
    d = Phi.shape[-1]
    fitting: int = CHUNK_NUMBERS // max(1, d)
    return max(1, fitting)


# --- gather and scatter ---------------------------------------------------------------------------


def _flat_indices(A: Array, L: int) -> Array:
    """Indices of the items in a batch laid end to end: (*B, K)."""
    batch = A.shape[:-1]
    n = math.prod(batch)
    first = L * np.arange(n)
    return A + first.reshape(*batch, 1)


def take_rows(Phi: Array, A: Array) -> Array:
    """The rows of the chosen items, zero where A pads."""
    *batch, L, d = Phi.shape
    shared = unbroadcast(Phi)
    if shared is not None:  # as one array it would be copied for each entry of the batch
        rows: Array = shared[A]
    else:
        n = math.prod(batch)
        all_rows = Phi.reshape(L * n, d)
        rows = all_rows[_flat_indices(A, L)]
    rows[A < 0] = 0
    return rows


def add_at(v: Array, A: Array, x: Array) -> Array:
    """A copy of v with x added at the chosen items."""
    out = v.copy()
    chosen = A >= 0
    indices = _flat_indices(A, v.shape[-1])
    np.add.at(
        out.reshape(-1),
        indices[chosen],
        np.broadcast_to(x, A.shape)[chosen],
    )
    return out


# --- triangular factors ---------------------------------------------------------------------------
# LAPACK needs Fortran order. Each D x D slice is stored as the transpose of a C-ordered one, and so
# passed without a copy.


def solve_rows(factor: Array, Phi: Array, transposed: bool = False) -> Array:
    """X with X R = Phi, or X Rᵀ = Phi."""
    L, d = Phi.shape[-2:]
    shared = unbroadcast(factor)
    if shared is not None:
        rows = Phi.reshape(-1, d)
        return solve_rows(shared, rows, transposed).reshape(Phi.shape)
    D = factor.shape[-1]
    transposed_factors = factor.mT.reshape(-1, D, D)
    triangles = transposed_factors[:, :d].mT
    columns = Phi.reshape(-1, L, d).mT
    lower = 0
    trans = int(not transposed)
    X = [
        dtrtrs(R, rhs, lower, trans)[0].T  # by position, which is faster
        for R, rhs in zip(triangles, columns, strict=True)
    ]
    joined = X[0] if len(X) == 1 else np.concatenate(X)
    return joined.reshape(Phi.shape)


def triangle(A: Array) -> Array:
    """R with RᵀR = AᵀA."""
    R: Any = np.linalg.qr(A, mode="r")
    return np.asarray(R)


# --- the array-API standard -----------------------------------------------------------------------


BACKEND: Any = SimpleNamespace(**vars(np) | globals())
"""NumPy's functions and those above. Reductions are the ufuncs' own, as np.max and its like take a
microsecond more in every small decision."""
BACKEND.astype = np.ndarray.astype
BACKEND.all = functools.partial(np.logical_and.reduce, axis=None)
BACKEND.any = functools.partial(np.logical_or.reduce, axis=None)
BACKEND.max = functools.partial(np.maximum.reduce, axis=None)
BACKEND.min = functools.partial(np.minimum.reduce, axis=None)

"""What the array-API standard leaves out, for NumPy arrays: LAPACK, hashes, gather and
scatter. Each function that meets a tensor is its namesake in `arrays.torch`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtpqrt, dtrtrs
from scipy.special import expit, log_expit

from superarm.arrays.compiled import for_kernels
from superarm.arrays.kinds import (
    Array,
    Features,
    is_product,
    is_sparse,
    only_one,
    or_torch,
    sparse_arrays,
)
from superarm.arrays.reflections import ROWS, WIDEST, new_block, reflect_rows
from superarm.errors import NumericalError

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
    one = only_one(Phi)
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
    one = only_one(factor)
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


@or_torch
def qr_update(factor: Array, rows: Array, present: Array) -> Array:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows that are
    present (LAPACK tpqrt).

    (*B, D, D), (*B, K, D), (*B, K) bool -> (*B, D, D)

    Example:
        >>> qr_update(3 * np.eye(2), np.array([[4.0, 0.0]]), np.array([True]))
        array([[5., 0.],
               [0., 3.]])
    """
    K, D = rows.shape[-2:]
    # A Householder reflection flips the sign of the diagonal it meets: from -R it comes out
    # positive.
    out = np.negative(factor.mT, order="C")
    slices = out.reshape(-1, D, D)
    n = len(slices)
    entries = zip(
        slices,
        rows.reshape(n, K, D),
        present.reshape(n, K),
        strict=True,
    )
    step = max(1, PART // D)
    for F, B, keep in entries:
        for start in range(0, K, step):
            part = slice(start, start + step)
            kept = B[part].T[:, keep[part]].T  # in Fortran order
            _reflect(F, kept, 16)
    return _upright(out)


@or_torch
def factor_of_rows(
    Phi: Array,
    w: Array,
    root: Array | float,
    present: Array,
    start: Array | None = None,
) -> Array:
    """The triangular factor, with positive diagonal, of the rows [φ w] times `root`, of those that
    are present: `qr_update` for many rows. They are stacked below the factor `start`, if there is
    one.

    (*B, K, d), (*B, K), a number or (*B, K), (*B, K) bool, (*B, d+1, d+1) -> (*B, d+1, d+1)

    Example:
        >>> rows = np.array([[3.0], [4.0]])
        >>> factor = factor_of_rows(rows, np.array([5.0, 10.0]), 1.0, np.array([True, True]))
        >>> factor.round(9) + 0.0
        array([[ 5., 11.],
               [ 0.,  2.]])
    """
    *batch, K, d = Phi.shape
    D = d + 1
    n = math.prod(batch)
    before = np.zeros((*batch, D, D)) if start is None else start
    out = np.negative(before.mT, order="C")  # as in `qr_update`
    scales = np.full((n, 1), root) if np.ndim(root) == 0 else np.broadcast_to(root, w.shape)
    entries = zip(
        out.reshape(n, D, D),
        Phi.reshape(n, K, d),
        w.reshape(n, K),
        scales.reshape(n, -1),
        present.reshape(n, K),
        strict=True,
    )
    block = new_block(D)
    for F, *some in entries:
        _reflect_many(F, Some(*some), block)
    return _upright(out)


class Some(NamedTuple):
    """Rows, each of them with a weight, and with a scale or one for all."""

    rows: Array  # (K, d)
    w: Array  # (K,)
    scale: Array  # (K,) or (1,)
    present: Array  # (K,) bool

    def part(self, first: int, stop: int) -> "Some":
        """Those at the places from `first` up to but not including `stop`."""
        of = slice(first, stop)
        scale = self.scale if len(self.scale) == 1 else self.scale[of]
        return Some(self.rows[of], self.w[of], scale, self.present[of])


def _reflect_many(F: Array, some: Some, block: Array) -> None:
    """Make the transposed factor F that of itself stacked on the rows [φ w] times their scale, of
    those that are present.
    """
    D = len(F)
    in_blocks = D <= WIDEST and some.rows.flags.c_contiguous  # LAPACK wants columns
    step = max(ROWS, PART // D)
    for first in range(0, len(some.rows), step):
        part = some.part(first, first + step)
        before = F.copy()
        if in_blocks and _reflect_blocks(F, part, block):
            continue
        F[:] = before
        _reflect(F, _joined(part), 8)


def _reflect_blocks(F: Array, some: Some, block: Array) -> bool:
    """The same by a kernel, which returns False, with F half done, where it cannot."""
    numbers = (some.rows, some.w, some.scale)
    rows, w, scale = (for_kernels(x.astype(np.float64, copy=False)) for x in numbers)
    return reflect_rows(F, rows, w, scale, for_kernels(some.present), block)


def _joined(some: Some) -> Array:
    """The rows [φ w] times their scale, of those that are present, in Fortran order."""
    K, d = some.rows.shape
    joined = np.empty((K, d + 1), order="F")
    joined[:, :d] = some.rows
    joined[:, d] = some.w
    if len(some.scale) > 1 or some.scale[0] != 1:
        with np.errstate(over="ignore"):  # which shows in the factor
            joined *= some.scale[:, None]
    if some.present.all():
        return joined
    return np.asfortranarray(joined[some.present])


def _reflect(F: Array, rows: Array, width: int) -> None:
    """Make the transposed factor F that of itself stacked on rows, which are lost, in Fortran
    order.
    """
    if len(rows):
        dtpqrt(
            0,
            min(width, len(F)),
            F.T,
            rows,
            overwrite_a=1,
            overwrite_b=1,
        )


def _upright(out: Array) -> Array:
    """The factors whose transposes are given, with positive diagonals."""
    diagonal = out.diagonal(axis1=-2, axis2=-1)
    require_finite(diagonal)
    if not (diagonal > 0).all():
        out *= np.copysign(1.0, diagonal)[..., None, :]
    return out.mT


def require_finite(diagonal: Array) -> None:
    """Refuse a factor in whose diagonal what was not finite shows."""
    if not math.isfinite(diagonal.sum()):
        raise NumericalError(
            "features or weights, divided by sigma, are not finite or leave the range of float64"
        )

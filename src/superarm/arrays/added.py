"""Rows added to triangular factors: by a kernel, and by LAPACK where the kernel cannot.

    factor  (*B, D, D)      upper triangular, with positive diagonal
    Phi     (*B, K, d)      rows φ, of which those of zeros are padding
    w       (*B, K)         their last column, if d = D - 1; (*B, 0) if there is none
    noise   (*B, K)         what rows are divided by; (*B, 1) if it is the same for all

LAPACK wants Fortran order, so each D x D slice is kept as the transpose of a C-ordered one: no
copies on the way in.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtpqrt

from superarm.arrays.compiled import for_kernels
from superarm.arrays.kinds import Array, or_torch
from superarm.arrays.numpy import rows_per_part
from superarm.arrays.reflections import WIDEST, reflect_rows
from superarm.errors import FeaturesError, NumericalError

FLOAT64 = np.dtype(np.float64)


class Added(NamedTuple):
    """A triangular factor with rows added to it, and what else of these a belief keeps."""

    factor: Array  # (*B, D, D)
    rows: Array  # (*B,) how many they are
    log_noise: Array  # (*B,) the sum of the logarithms of their noise


@or_torch
def added_rows(factor: Array, Phi: Array, w: Array, noise: Array | float) -> Added:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows [φ w] / noise,
    where rows φ of zeros are padding.

    (*B, D, D), (*B, K, d), (*B, K), a number, (*B, 1) or (*B, K) -> (*B, D, D)

    Example:
        >>> rows = np.array([[3.0], [4.0], [0.0]])
        >>> added = added_rows(np.zeros((2, 2)), rows, np.array([5.0, 10.0, 7.0]), 1.0)
        >>> added.factor.round(9)
        array([[ 5., 11.],
               [ 0.,  2.]])
        >>> int(added.rows)
        2
    """
    K, d = Phi.shape[-2:]
    batch = Phi.shape[:-2]
    each = np.array(noise, dtype=FLOAT64, ndmin=1)
    if each.shape[:-1] != batch:
        each = np.broadcast_to(each, (*batch, each.shape[-1]))
    # kernels do not look where an array ends
    _require_shape("factor", factor, (*batch, d + 1, d + 1))
    _require_shape("weights", w, (*batch, K))
    _require_shape("noise", each, (*batch, 1 if each.shape[-1] == 1 else K))
    start = _plain(factor.mT)
    if _is_plain(Phi):
        return _added(start, Phi, w, each)
    added = Added(start.mT, np.zeros(batch), np.zeros(batch))
    step = rows_per_part(Phi)
    for first in range(0, K, step):
        part = slice(first, first + step)
        some = each if each.shape[-1] == 1 else each[..., part]
        more = _added(added.factor.mT, _plain(Phi[..., part, :]), w[..., part], some)
        added = Added(more.factor, added.rows + more.rows, added.log_noise + more.log_noise)
    return added


@or_torch
def stacked_rows(factor: Array, rows: Array) -> Array:
    """The triangular factor, with positive diagonal, of `factor` stacked on rows, of which those
    that are zero are padding: (*B, D, D), (*B, K, D) -> (*B, D, D).

    Example:
        >>> stacked_rows(3 * np.eye(2), np.array([[4.0, 0.0]]))
        array([[5., 0.],
               [0., 3.]])
    """
    *batch, _, D = rows.shape
    _require_shape("factor", factor, (*batch, D, D))
    nothing = np.empty((*batch, 0))
    return _added(_plain(factor.mT), _plain(rows), nothing, np.ones((*batch, 1))).factor


def _require_shape(what: str, x: Array, shape: tuple[int, ...]) -> None:
    if x.shape != shape:
        raise FeaturesError(f"these rows go with {what} of shape {shape}, not {x.shape}")


def _is_plain(x: Array) -> bool:
    """Whether kernels take an array as it is."""
    return x.dtype == FLOAT64 and x.flags.carray


def _plain(x: Array) -> Array:
    """The array as kernels take it, or a copy that is so."""
    if _is_plain(x):
        return x
    converted: Array = for_kernels(x.astype(np.float64, copy=False))
    return converted


def _added(start: Array, Phi: Array, w: Array, noise: Array) -> Added:
    """The factors, whose transposes are given, with the rows added to them."""
    *batch, K, d = Phi.shape
    n = math.prod(batch)
    D = start.shape[-1]
    out = np.empty(start.shape)
    tally = np.empty((2, *batch))
    before = start.reshape(n, D, D)
    after = out.reshape(n, D, D)
    rows = Phi.reshape(n, K, d)
    last = _plain(w).reshape(n, w.shape[-1])
    each = _plain(noise).reshape(n, noise.shape[-1])
    counts = tally.reshape(2, n)
    b = 0
    while b < n:
        if D <= WIDEST:
            b = reflect_rows(after, before, rows, last, each, counts, b)
        if b < n:  # where squares leave the range of float64, or rows are long
            after[b] = before[b]
            counts[:, b] = _reflect_by_lapack(after[b], rows[b], last[b], each[b])
            b += 1
    return Added(out.mT, tally[0], tally[1])


def _reflect_by_lapack(F: Array, Phi: Array, w: Array, noise: Array) -> tuple[int, float]:
    """Make one transposed factor that of itself stacked on rows, by `tpqrt`; returns what to
    count: how many rows are not padding, and the logarithms of their noise.
    """
    present = Phi.any(-1)
    if not present.any():
        return 0, 0.0
    K, d = Phi.shape
    joined = np.empty((K, len(F)), order="F")
    joined[:, :d] = Phi
    if len(F) > d:
        joined[:, d] = w
    with np.errstate(over="ignore", invalid="ignore"):  # which shows in the factor
        joined /= noise[:, None]
    kept = np.asfortranarray(joined[present])
    # a reflection flips the sign of the diagonal it meets: from -R it comes out positive
    F *= -1
    dtpqrt(
        0,
        min(16, len(F)),
        F.T,
        kept,
        overwrite_a=1,
        overwrite_b=1,
    )
    diagonal = F.diagonal()
    require_finite(diagonal)
    F *= np.copysign(1.0, diagonal)
    logs = np.log(np.broadcast_to(noise, K)[present])
    return len(kept), float(logs.sum())


def require_finite(diagonal: Array) -> None:
    """Refuse a factor in whose diagonal what was not finite shows."""
    if not math.isfinite(diagonal.sum()):
        raise NumericalError(
            "features or weights, divided by sigma, are not finite or leave the range of float64"
        )

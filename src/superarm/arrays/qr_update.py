"""Rank-k update and downdate of triangular factors: by a kernel, and by LAPACK where the kernel
cannot.

    factor  (*B, D, D)      upper triangular, with positive diagonal
    Phi     (*B, K, d)      rows φ, of which those of zeros are padding
    w       (*B, K)         their last column, if d = D - 1; (*B, 0) if there is none
    noise   (*B, K)         what rows are divided by; (*B, 1) or a number if it is the same for all

LAPACK wants Fortran order, so each D x D slice is kept as the transpose of a C-ordered one: no
copies on the way in.
"""

import functools
import math
from typing import NamedTuple, NoReturn

import numpy as np
from scipy.linalg.lapack import dtpqrt

from superarm.arrays.compiled import for_kernels
from superarm.arrays.householder import update_factors
from superarm.arrays.namespace import (
    all_finite,
    backend,
    full,
    matvec,
    rows_per_chunk,
    solve_rows,
    torch_arrays,
)
from superarm.arrays.types import FLOAT64, Array, Features, is_contiguous_float64, is_tensor
from superarm.errors import FeaturesError, NumericalError

LAPACK_BLOCK = 16
"""Columns that LAPACK reflects at a time."""
NO_WEIGHTS = np.empty(0)


class UpdatedFactor(NamedTuple):
    """A triangular factor with rows added to it, and what else of these a belief keeps."""

    factor: Array  # (*B, D, D)
    n_rows: Array  # (*B,) number of the rows
    log_noise: Array  # (*B,) sum of the logarithms of their noise


# --- updates --------------------------------------------------------------------------------------


def qr_append(factor: Array, Phi: Array, w: Array, noise: Array | float) -> UpdatedFactor:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows [φ w] / noise,
    where rows φ of zeros are padding.

    (*B, D, D), (*B, K, d), (*B, K), a number, (*B, 1) or (*B, K) -> (*B, D, D)

    Example:
        >>> rows = np.array([[3.0], [4.0], [0.0]])
        >>> updated = qr_append(np.zeros((2, 2)), rows, np.array([5.0, 10.0, 7.0]), 1.0)
        >>> updated.factor.round(9)
        array([[ 5., 11.],
               [ 0.,  2.]])
        >>> int(updated.n_rows)
        2
    """
    if is_tensor(factor):
        updated: UpdatedFactor = torch_arrays().qr_append(factor, Phi, w, noise)
        return updated
    *batch, K, d = Phi.shape
    # kernels do not look where an array ends
    if factor.shape != (*batch, d + 1, d + 1):
        refuse_rows(factor, Phi)
    if w.shape != (*batch, K):
        raise FeaturesError(f"rows of shape {Phi.shape} do not go with weights of shape {w.shape}")
    noise = _noise_per_row(noise, w)
    F = _contiguous(factor.mT)
    if is_contiguous_float64(Phi) and is_contiguous_float64(w):
        return _update_batch(F, Phi, w, noise)
    return _update_by_chunks(F, Phi, w, noise)


def qr_stack(factor: Array, rows: Array) -> Array:
    """The triangular factor, with positive diagonal, of `factor` stacked on rows, of which those
    that are zero are padding: (*B, D, D), (*B, K, D) -> (*B, D, D).

    Example:
        >>> qr_stack(3 * np.eye(2), np.array([[4.0, 0.0]]))
        array([[5., 0.],
               [0., 3.]])
    """
    if is_tensor(factor):
        return backend(factor).qr_stack(factor, rows)
    *batch, _, D = rows.shape
    if factor.shape != (*batch, D, D):
        raise FeaturesError(f"rows of shape {rows.shape} do not go with a factor {factor.shape}")
    no_weights = np.empty((*batch, 0)) if batch else NO_WEIGHTS
    ones = np.ones((*batch, 1)) if batch else _array_of(1.0)
    F = _contiguous(factor.mT)
    return _update_batch(F, _contiguous(rows), no_weights, ones).factor


@functools.lru_cache(maxsize=64)
def _array_of(noise: float) -> Array:
    """The number as an array (1,), which callers share and leave as it is."""
    return np.array([noise])


def _noise_per_row(noise: Array | float, w: Array) -> Array:
    """Noise, by which rows are divided: of each row (*B, K) or of each entry (*B, 1)."""
    if w.ndim == 1 and type(noise) is float:  # as in every small update
        return _array_of(noise)
    *batch, _ = w.shape
    noises = np.array(noise, dtype=FLOAT64, ndmin=1)
    if batch:
        noises = np.broadcast_to(noises, (*batch, noises.shape[-1]))
    if noises.shape not in (w.shape, (*batch, 1)):
        raise FeaturesError(f"weights {w.shape} do not go with noise of shape {noises.shape}")
    return _contiguous(noises)


def _contiguous(x: Array) -> Array:
    """The array as kernels take it, or a copy that is so."""
    if is_contiguous_float64(x):
        return x
    converted: Array = for_kernels(x.astype(np.float64, copy=False))
    return converted


def _update_by_chunks(F: Array, Phi: Array, w: Array, noise: Array) -> UpdatedFactor:
    """As `_update_batch`, with rows that are converted a chunk at a time."""
    *batch, K = w.shape
    updated = UpdatedFactor(F.mT, np.zeros(batch), np.zeros(batch))
    step = rows_per_chunk(Phi)
    for start in range(0, K, step):
        chunk = slice(start, start + step)
        rows = _contiguous(Phi[..., chunk, :])
        weights = _contiguous(w[..., chunk])
        noises = _contiguous(noise[..., chunk]) if noise.shape == w.shape else noise
        factor, n_rows, log_noise = _update_batch(updated.factor.mT, rows, weights, noises)
        updated = UpdatedFactor(factor, updated.n_rows + n_rows, updated.log_noise + log_noise)
    return updated


def _update_batch(start: Array, Phi: Array, w: Array, noise: Array) -> UpdatedFactor:
    """Rank-k update of factors, whose transposes are given: by the kernel, and by LAPACK where
    squares leave the range of float64 or rows are long.
    """
    *batch, _, D = start.shape
    F = start.copy()
    sums = np.empty((2, *batch))
    n = 1
    entries = (F, Phi, w, noise, sums)
    if batch:
        n = math.prod(batch)
        K, d = Phi.shape[-2:]
        entries = (
            F.reshape(n * D, D),
            Phi.reshape(n * K, d),
            w.reshape(-1),
            noise.reshape(-1),
            sums.reshape(-1),
        )
    done = update_factors(*entries, 0)
    while done < n:
        b = np.unravel_index(done, batch)
        F[b] = start[b]
        sums.reshape(2, n)[:, done] = _update_by_lapack(F[b], Phi[b], w[b], noise[b])
        done = update_factors(*entries, done + 1)
    return UpdatedFactor(F.mT, sums[0], sums[1])


def _update_by_lapack(F: Array, phi: Array, w: Array, noise: Array) -> tuple[float, float]:
    """Rank-k update of one transposed factor, in place, by `tpqrt`: the number of its rows, and
    the sum of the logarithms of their noise.
    """
    present = phi.any(-1)
    if not present.any():
        return 0.0, 0.0
    rows = phi if len(w) == 0 else np.column_stack([phi, w])
    noises = np.broadcast_to(noise, len(phi))
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow shows in the factor
        divided_rows = rows / noises[:, None]
    # a reflection flips the sign of the diagonal it meets: from -R it comes out positive
    F *= -1
    dtpqrt(
        0,
        min(LAPACK_BLOCK, len(F)),
        F.T,
        np.asfortranarray(divided_rows[present]),
        overwrite_a=1,
        overwrite_b=1,
    )
    diagonal = F.diagonal()
    require_finite(diagonal)
    F *= np.copysign(1.0, diagonal)
    return present.sum(), np.log(noises[present]).sum()


def refuse_rows(factor: Array, Phi: Features) -> NoReturn:
    """Say which feature rows a factor goes with."""
    *batch, D = factor.shape[:-1]
    raise FeaturesError(
        f"the belief asks for feature rows of shape {(*batch, 'n', D - 1)}, got {Phi.shape}"
    )


def require_finite(diagonal: Array) -> None:
    """Refuse a factor in whose diagonal what was not finite shows."""
    if not math.isfinite(diagonal.sum()):
        raise NumericalError(
            "features or weights, divided by sigma, are not finite or leave the range of float64"
        )


# --- downdates and functions of a factor ---------------------------------------------------------


def qr_downdate(factor: Array, rows: Array) -> Array:
    """The triangular factor of `factor` without `rows`, which are at most half of it:
    (*B, D, D) both.

    With R = [S s; 0 r] and rows = [V v; 0 u], X = V S⁻¹ and C the Cholesky factor of I - XᵀX, whose
    eigenvalues are at least a half: SᵀS - VᵀV = (CS)ᵀ(CS). With e = Vθ - v, what θ misses the rows
    by once they are gone, r² becomes r² - u² - ‖e‖² + ‖Xᵀe‖². So nothing large is ever subtracted
    from what is large.
    """
    xp = backend(factor)
    S = factor[..., :-1, :-1]
    s = factor[..., :-1, -1]
    V = rows[..., :-1, :-1]
    v = rows[..., :-1, -1]
    Xt = solve_rows(factor, V).mT
    d = S.shape[-1]
    identity = diagonal(full((d,), 1.0, factor))
    Ct = xp.linalg.cholesky(identity - Xt @ Xt.mT)  # Cᵀ, lower
    rest = s - matvec(Xt, v)
    z = xp.linalg.solve(Ct, rest[..., None])
    S_theta = xp.linalg.solve(Ct.mT, z)
    e = (Xt.mT @ S_theta)[..., 0] - v
    with np.errstate(over="ignore", invalid="ignore"):
        r2 = (
            factor[..., -1, -1] ** 2
            - rows[..., -1, -1] ** 2
            - xp.sum(e**2, axis=-1)
            + xp.sum(matvec(Xt, e) ** 2, axis=-1)
        )
    out = xp.zeros_like(factor.mT).mT
    out[..., :-1, :-1] = xp.triu(Ct.mT @ S)
    out[..., :-1, -1] = z[..., 0]
    # of a sum of squares: below 0 by rounding only
    out[..., -1, -1] = xp.sqrt(xp.where(r2 < 0, 0.0, r2))
    if not all_finite(out):
        raise NumericalError(
            "beliefs are too large to merge: their squares leave the range of float64"
        )
    return out


def solve_factor(factor: Array, b: Array) -> Array:
    """X with R x = b, where R is the leading block of `factor` of b's length:
    (*B, D, D), (*B, d) -> (*B, d).
    """
    x = solve_rows(factor, b[..., None, :], True)
    return x[..., 0, :]


def diagonal(values: Array) -> Array:
    """Matrices that are zero but for the values on their diagonals: (*B, d) -> (*B, d, d)."""
    xp = backend(values)
    place = xp.arange(
        values.shape[-1],
        device=values.device,
    )
    return xp.where(
        place[:, None] == place,
        values[..., None],
        0.0,
    )


def log_det(R: Array) -> Array:
    """Log det of an upper triangle with positive diagonal: (*B, d, d) -> (*B,)."""
    xp = backend(R)
    diagonal = xp.linalg.diagonal(R)
    return xp.sum(
        xp.log(diagonal),
        axis=-1,
    )

"""Rows added to triangular factors: by a kernel, and by LAPACK where the kernel cannot.

    factor  (*B, D, D)      upper triangular, with positive diagonal
    Phi     (*B, K, d)      rows φ, of which those of zeros are padding
    w       (*B, K)         their last column, if d = D - 1; (*B, 0) if there is none
    noise   (*B, K)         what rows are divided by; (*B, 1) or a number if it is one for all

LAPACK wants Fortran order, so each D x D slice is kept as the transpose of a C-ordered one: no
copies on the way in.
"""

import math
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np
from scipy.linalg.lapack import dtpqrt

from superarm.arrays.compiled import for_kernels
from superarm.arrays.householder import reflect_rows
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

Entries: TypeAlias = tuple[Array, Array, Array, Array, float, Array, Array]
"""All but the last argument of `reflect_rows`."""
NOTHING = np.empty(0)


class UpdatedFactor(NamedTuple):
    """A triangular factor with rows added to it, and what else of these a belief keeps."""

    factor: Array  # (*B, D, D)
    rows: Array  # (*B,) how many they are
    log_noise: Array  # (*B,) the sum of the logarithms of their noise


def qr_append(factor: Array, Phi: Array, w: Array, noise: Array | float) -> UpdatedFactor:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows [φ w] / noise,
    where rows φ of zeros are padding.

    (*B, D, D), (*B, K, d), (*B, K), a number, (*B, 1) or (*B, K) -> (*B, D, D)

    Example:
        >>> rows = np.array([[3.0], [4.0], [0.0]])
        >>> added = qr_append(np.zeros((2, 2)), rows, np.array([5.0, 10.0, 7.0]), 1.0)
        >>> added.factor.round(9)
        array([[ 5., 11.],
               [ 0.,  2.]])
        >>> int(added.rows)
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
    one = 1.0
    each = NOTHING
    if type(noise) is float:
        one = noise
    else:
        each = _one_for_each(noise, w)
    start = _plain(factor.mT)
    if is_contiguous_float64(Phi) and is_contiguous_float64(w):
        return _added(start, Phi, w, one, each)
    added = UpdatedFactor(start.mT, np.zeros(batch), np.zeros(batch))
    step = rows_per_chunk(Phi)
    for first in range(0, K, step):
        part = slice(first, first + step)
        some = each[..., part] if each.shape == w.shape else each
        more = _added(added.factor.mT, _plain(Phi[..., part, :]), _plain(w[..., part]), one, some)
        added = UpdatedFactor(more.factor, added.rows + more.rows, added.log_noise + more.log_noise)
    return added


def _one_for_each(noise: Array | float, w: Array) -> Array:
    """What rows are divided by, for each of the weights (*B, K) or for each entry (*B, 1)."""
    each = np.array(noise, dtype=FLOAT64, ndmin=1)
    *batch, _ = w.shape
    if batch:
        each = np.broadcast_to(each, (*batch, each.shape[-1]))
    if each.shape not in (w.shape, (*batch, 1)):
        raise FeaturesError(f"weights {w.shape} do not go with noise of shape {each.shape}")
    return _plain(each)


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
    return _added(_plain(factor.mT), _plain(rows), np.empty((*batch, 0)), 1.0, NOTHING).factor


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


def solve(factor: Array, b: Array) -> Array:
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


def refuse_rows(factor: Array, Phi: Features) -> NoReturn:
    """Say which feature rows a factor goes with."""
    *batch, D = factor.shape[:-1]
    raise FeaturesError(
        f"the belief asks for feature rows of shape {(*batch, 'n', D - 1)}, got {Phi.shape}"
    )


def _plain(x: Array) -> Array:
    """The array as kernels take it, or a copy that is so."""
    if is_contiguous_float64(x):
        return x
    converted: Array = for_kernels(x.astype(np.float64, copy=False))
    return converted


def _added(start: Array, Phi: Array, w: Array, one: float, each: Array) -> UpdatedFactor:
    """The factors, whose transposes are given, with the rows added to them."""
    batch = start.shape[:-2]
    F = np.empty(start.shape)
    n = 1
    if not batch:
        tally = np.empty(2)
        entries: Entries = (F, start, Phi, w, one, each, tally)
    else:
        n = math.prod(batch)
        tally = np.empty((2, *batch))
        entries = _end_to_end(n, (F, start, Phi, w, one, each, tally))
    done = reflect_rows(*entries, 0)
    while done < n:  # where squares leave the range of float64, or rows are long
        _reflect_by_lapack(*entries, done)
        done = reflect_rows(*entries, done + 1)
    return UpdatedFactor(F.mT, tally[0], tally[1])


def _end_to_end(n: int, entries: Entries) -> Entries:
    """The arrays of n problems laid end to end, as those of one problem are."""
    F, start, Phi, w, one, each, tally = entries
    D = F.shape[-1]
    K, d = Phi.shape[-2:]
    return (
        F.reshape(n * D, D),
        start.reshape(n * D, D),
        Phi.reshape(n * K, d),
        w.reshape(-1),
        one,
        each.reshape(-1),
        tally.reshape(-1),
    )


def _reflect_by_lapack(
    F: Array, start: Array, rows: Array, w: Array, one: float, each: Array, tally: Array, b: int
) -> None:
    """Do what `reflect_rows` does for entry b alone, by `tpqrt`."""
    n = len(tally) // 2
    after, before, phi, last, own = (
        x.reshape(n, len(x) // n, *x.shape[1:])[b] for x in (F, start, rows, w, each)
    )
    noise = own if len(own) else np.full(1, one)
    after[:] = before
    tally[[b, n + b]] = 0.0
    present = phi.any(-1)
    if not present.any():
        return
    K, d = phi.shape
    D = len(after)
    joined = np.empty((K, D), order="F")
    joined[:, :d] = phi
    if d < D:
        joined[:, d] = last
    with np.errstate(over="ignore", invalid="ignore"):  # which shows in the factor
        joined /= noise[:, None]
    kept = np.asfortranarray(joined[present])
    # a reflection flips the sign of the diagonal it meets: from -R it comes out positive
    after *= -1
    dtpqrt(
        0,
        min(16, D),
        after.T,
        kept,
        overwrite_a=1,
        overwrite_b=1,
    )
    diagonal = after.diagonal()
    require_finite(diagonal)
    after *= np.copysign(1.0, diagonal)
    logs = np.log(np.broadcast_to(noise, K)[present])
    tally[b] = len(kept)
    tally[n + b] = logs.sum()


def require_finite(diagonal: Array) -> None:
    """Refuse a factor in whose diagonal what was not finite shows."""
    if not math.isfinite(diagonal.sum()):
        raise NumericalError(
            "features or weights, divided by sigma, are not finite or leave the range of float64"
        )

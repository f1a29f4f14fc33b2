"""Posterior std of every item, ‖R⁻ᵀφ_e‖, for one user or for many users with a common R.

R       (*B, D, D)      an upper triangle, as the leading block of `factor`
Phi     (*B, L, d)      one row per item
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from superarm.arrays.namespace import backend, row_norms, rows_per_chunk, solve_rows, triangle
from superarm.arrays.types import (
    Array,
    Features,
    Product,
    is_product,
    is_selection,
    is_sparse,
    unbroadcast,
)

MAX_GROUPS = 64
"""Largest number of groups of columns, as all pairs of groups are multiplied."""
MAX_DIAGONAL_RATIO = 1e3
"""Ratio of the entries on the diagonal of R up to which R⁻¹R⁻ᵀ is exact enough."""


def map_row_chunks(
    Phi: Array,
    function: Callable[[Array], Array],
    like: Array | None = None,
) -> Array:
    """A function of the feature rows, one number per row, a chunk of the rows at a time: (*B, L).

    Chunks are sized for temporary rows as long as the rows of `like`, by default of Phi.
    """
    step = rows_per_chunk(Phi if like is None else like)
    n_rows = Phi.shape[-2]
    starts = range(0, n_rows, step)
    parts = [function(Phi[..., start : start + step, :]) for start in starts]
    if len(parts) == 1:
        return parts[0]
    return backend(Phi).concat(parts, axis=-1)


def posterior_row_norms(factor: Array, Phi: Features) -> Array:
    """The norms of the rows of Φ R⁻¹, without storing these rows: (*B, L).

    For a product Φ = Y B, the rows of Y X with X R = B have the same norms, and with Xᵀ = QT also
    the shorter rows of Y Tᵀ.
    """
    if is_product(Phi):
        if _share_items(factor, Phi):
            return _std_of_shared_items(factor[0], Phi)
        B = np.asarray(Phi.right)
        X = solve_rows(factor, B)
        return product_row_norms(Phi.left, triangle(X.mT))
    if is_sparse(Phi):
        inverse = _inverse(factor, Phi.shape[-1])
        return product_row_norms(Phi, inverse.mT)
    shared = unbroadcast(factor)
    if shared is None:
        return map_row_chunks(
            Phi,
            lambda rows: row_norms(solve_rows(factor, rows)),
        )
    *batch, L, d = Phi.shape
    inverse = _inverse(shared, d)
    rows = Phi.reshape(-1, d)
    norms = product_row_norms(rows, inverse.mT)
    return norms.reshape(*batch, L)


def _inverse(factor: Array, d: int) -> Array:
    """R⁻¹: (D, D) -> (d, d)."""
    identity = np.eye(d)
    return solve_rows(factor, identity)


def _share_items(factor: Array, Phi: Product) -> bool:
    """True if users share R and the items, and are so many that it pays to compute the quadratic
    forms of each item first. R must not be ill-conditioned, as these contain its square.
    """
    B = Phi.right
    if unbroadcast(factor) is None or not is_selection(B) or B.ndim != 3:
        return False
    if unbroadcast(Phi.left) is None and not is_sparse(Phi.left):
        return False
    n, k, d = B.shape
    groups = np.unique(B.scale[:2], axis=-1)
    if groups.shape[-1] > MAX_GROUPS or n * k**2 < d**2:
        return False
    R = factor[0, :d, :d]
    return not is_ill_conditioned(R, MAX_DIAGONAL_RATIO)


def _std_of_shared_items(factor: Array, Phi: Product) -> Array:
    """√(φ_{x,e}ᵀ Σ φ_{x,e}) for many users x: (n, L).

    Columns with the same factor x_p for every user are one group p. With v_{p,e} the entries of
    item e in these columns, the variance is Σ_{p≤q} c_pq (v_{p,e}ᵀ Σ_pq v_{q,e}), where c_pq is
    x_p x_q, doubled for p < q: one product for all users.
    """
    B = Phi.right
    assert is_selection(B)
    x, group_of_column = np.unique(B.scale, axis=-1, return_inverse=True)
    n_groups = x.shape[-1]
    groups = [np.flatnonzero(group_of_column.reshape(-1) == p) for p in range(n_groups)]
    sources = [B.source[group] for group in groups]
    p, q = np.triu_indices(n_groups)
    multiplicity = np.where(p == q, 1.0, 2.0)
    coefficients = multiplicity * x[:, p] * x[:, q]
    inverse = _inverse(factor, B.shape[-1])
    blocks = [inverse[groups[a]] @ inverse[groups[b]].T for a, b in zip(p, q, strict=True)]

    def variance(rows: Any) -> Array:
        Y = rows.toarray() if is_sparse(rows) else rows
        v = [Y[:, source] for source in sources]
        pairs = zip(p, q, blocks, strict=True)
        forms = [np.einsum("ld,ld->l", v[a] @ block, v[b]) for a, b, block in pairs]
        users_by_items: Array = coefficients @ np.stack(forms)
        return users_by_items

    items = Phi.left if is_sparse(Phi.left) else Phi.left[0]
    variances = map_row_chunks(items, variance, inverse)
    std: Array = np.sqrt(variances.clip(0.0))
    return std


def product_row_norms(Phi: Array, U: Array) -> Array:
    """The norms of the rows of ΦUᵀ, without storing these: (*B, L, d), (*B, K, d) -> (*B, L)."""
    if is_sparse(Phi):
        if U.ndim > 2:  # of many users
            return np.stack([product_row_norms(Phi, u) for u in U])
        Ut = np.ascontiguousarray(U.mT)
        return map_row_chunks(Phi, lambda rows: row_norms(rows @ Ut), Ut)
    xp = backend(Phi)
    return map_row_chunks(
        Phi,
        lambda rows: row_norms(xp.matmul(rows, U.mT)),
    )


def is_ill_conditioned(R: Array, ratio: float) -> Array:
    """True where the largest entry on the diagonal is more than `ratio` times the least:
    (*B, d, d) -> (*B,) bool.
    """
    xp = backend(R)
    diagonal = xp.linalg.diagonal(R)
    largest = xp.max(diagonal, axis=-1)
    least = xp.min(diagonal, axis=-1)
    bound = ratio * least
    return largest > bound

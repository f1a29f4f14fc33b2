"""Norms of the rows of Φ R⁻¹, as wide as a belief is about each item: of one user, or of many who
share R and what is known of the items.

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

MOST = 64
"""Features of users of which all pairs may be looked at."""
STEEPEST = 1e3
"""The largest ratio on the diagonal of R for which its square says enough."""


def map_row_chunks(
    Phi: Array,
    function: Callable[[Array], Array],
    like: Array | None = None,
) -> Array:
    """What a function gives for the feature rows, one number per row, a part of the rows at a
    time: (*B, L). On its way are rows as long as those of `like`; None: as those of Phi.
    """
    step = rows_per_chunk(Phi if like is None else like)
    starts = range(0, Phi.shape[-2], step)
    parts = [function(Phi[..., start : start + step, :]) for start in starts]
    if len(parts) == 1:
        return parts[0]
    return backend(Phi).concat(parts, axis=-1)


def posterior_row_norms(factor: Array, Phi: Features) -> Array:
    """The norms of the rows of `solve_rows`, without keeping these: (*B, L).

    Of a product Y B they are those of Y X with X R = B, and with Xᵀ = QT those of Y Tᵀ. Of sparse
    rows Φ they are those of Φ R⁻¹.
    """
    if is_product(Phi):
        if _is_of_many_users(factor, Phi):
            return _norms_of_users(factor[0], Phi)
        X = solve_rows(factor, np.asarray(Phi.right))
        return product_row_norms(Phi.left, triangle(X.mT))
    if is_sparse(Phi):
        inverse = _inverse(factor, Phi.shape[-1])
        return product_row_norms(Phi, inverse.mT)
    one = unbroadcast(factor)
    if one is not None:
        return _norms_by_inverse(one, Phi)
    return map_row_chunks(
        Phi,
        lambda rows: row_norms(solve_rows(factor, rows)),
    )


def _inverse(factor: Array, d: int) -> Array:
    """R⁻¹: (D, D) -> (d, d)."""
    return solve_rows(factor, np.eye(d))


def _norms_by_inverse(factor: Array, Phi: Array) -> Array:
    """The norms of the rows of Φ R⁻¹ for many users, who share R: (D, D), (*B, L, d) -> (*B, L)."""
    d = Phi.shape[-1]
    inverse = _inverse(factor, d)
    norms = product_row_norms(Phi.reshape(-1, d), inverse.mT)
    return norms.reshape(Phi.shape[:-1])


def _is_of_many_users(factor: Array, Phi: Product) -> bool:
    """Whether the norms of the rows are those of users who share R and the items, and who are so
    many that it pays to look at each item first. R must not be steep, as its square is looked at.
    """
    B = Phi.right
    if unbroadcast(factor) is None or not is_selection(B) or B.ndim != 3:
        return False
    if unbroadcast(Phi.left) is None and not is_sparse(Phi.left):
        return False
    n, k, d = B.shape
    distinct = len(np.unique(B.scale[:2], axis=-1).T)
    few = distinct <= MOST and n * k**2 >= d**2
    return few and not is_ill_conditioned(factor[0, :d, :d], STEEPEST)


def _norms_of_users(factor: Array, Phi: Product) -> Array:
    """√(φ_{x,e}ᵀ Σ φ_{x,e}) for many users x: (n, L).

    Columns with the same factor x_p for every user are put together: with v_{p,e} what item e has
    in them, the square is Σ_pq x_p x_q (v_{p,e}ᵀ Σ_pq v_{q,e}): one product for all of them.
    """
    B = Phi.right
    assert is_selection(B)
    x, column = np.unique(B.scale, axis=-1, return_inverse=True)
    groups = [np.flatnonzero(column.reshape(-1) == g) for g in range(x.shape[-1])]
    p, q = np.triu_indices(len(groups))
    users = np.where(p == q, 1.0, 2.0) * x[:, p] * x[:, q]
    inverse = _inverse(factor, B.shape[-1])
    blocks = [inverse[groups[a]] @ inverse[groups[b]].T for a, b in zip(p, q, strict=True)]

    def squares(rows: Any) -> Array:
        Y = rows.toarray() if is_sparse(rows) else rows
        v = [Y[:, B.source[group]] for group in groups]
        terms = zip(p, q, blocks, strict=True)
        items = [np.einsum("ld,ld->l", v[a] @ block, v[b]) for a, b, block in terms]
        found: Array = users @ np.stack(items)
        return found

    every = Phi.left if is_sparse(Phi.left) else Phi.left[0]
    return np.sqrt(np.maximum(map_row_chunks(every, squares, inverse), 0.0))


def product_row_norms(Phi: Array, U: Array) -> Array:
    """The norms of the rows of ΦUᵀ, without keeping these: (*B, L, d), (*B, K, d) -> (*B, L)."""
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
    """Whether the largest entry on the diagonal exceeds the least by more than the ratio:
    (*B, d, d) -> (*B,) bool.
    """
    xp = backend(R)
    diagonal = xp.linalg.diagonal(R)
    most = xp.max(diagonal, axis=-1)
    least = xp.min(diagonal, axis=-1)
    return most > ratio * least

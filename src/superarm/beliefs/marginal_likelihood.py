"""The marginal likelihood of λ, σ and τ: how large θ, the noise and the items' own deviations are.

    w = φ·θ + δ_item + noise,   θ ~ N(0, λ²I),   δ ~ N(0, τ²),   noise ~ N(0, σ²)

All rows together are X = U D Vᵀ. In the coordinates U, θ becomes DVᵀθ ~ N(0, λ²D²), and nothing
cancels, however collinear the columns are:

    symbol      code             meaning
    N           rows             observations
    D           D                infinite for a column whose coefficient has a flat prior
    y, r²       y, residual      Uᵀw, and what is left of ‖w‖²
    n_c, E_c    n, items         a count that occurs, and how many items have it
    G_c         gram             Σ over those items of [ū w̄-ūy]ᵀ[ū w̄-ūy], their mean rows
    W           within           Σ over rows of the same around the means of their items

Without deviations, as if each row were of an item of its own:

    -2 log p(w) = N log 2π + (N - d) log σ² + Σ log(σ² + λ²D²) + r²/σ² + Σ y²/(σ² + λ²D²)

With them, and with P = λ²D²:

    [M b; bᵀ q] = W/σ² + Σ_c n_c/(σ² + n_c τ²) G_c
    -2 log p(w) = N log 2π + (N - E) log σ² + Σ_c E_c log(σ² + n_c τ²) + log det(I + PM)
                  + min over δ of [-δ 1] [M b; bᵀ q] [-δ 1]ᵀ + (y + δ)ᵀP⁻¹(y + δ)
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from superarm.arrays import Array
from superarm.errors import NumericalError, WeightsError

ROUNDING = 1e-13
"""The share of the largest D below which a direction is rounding: the columns are collinear."""
LARGEST = 1e140
"""Features and weights beyond it, squared and added up, could leave the range of float64."""
LEAST = 1e-300
"""Sums of squares below it have lost digits, or all."""


class Summary(NamedTuple):
    """All that the marginal likelihood depends on. Its size grows with the number of distinct
    counts, not with the number of rows.
    """

    rows: float  # N
    D: Array  # (r,) where r is the rank
    y: Array  # (r,)
    residual: float  # r²
    n: Array  # (C,)
    items: Array  # (C,)
    gram: Array  # (C, r+1, r+1)
    within: Array  # (r+1, r+1)


class Axes(NamedTuple):
    """All rows [φ w] together, in coordinates in which they are orthonormal."""

    D: Array  # (r,)
    y: Array  # (r,)
    residual: float


class Basis(NamedTuple):
    """Those coordinates."""

    T: Array  # (d+1, r+1): [φ w] T = [u w-uy]
    axes: Axes


class Decomposed(NamedTuple):
    """The triangular factor of all rows [φ w], the flat column first, and its singular values."""

    order: Array  # (d+1,) of the columns
    first: int  # 1 if there is a flat column
    R: Array  # (d+1, d+1)
    D: Array  # (r,) without the flat column, as below
    Vt: Array  # (r, d - first)
    y: Array  # (r,)
    residual: float

    @property
    def axes(self) -> Axes:
        """With the flat column."""
        if not self.first:
            return Axes(self.D, self.y, self.residual)
        D = np.append(np.inf, self.D)
        y = np.append(self.R[0, -1], self.y)
        return Axes(D, y, self.residual)


def summary_of_rows(rows: Array, n: float, flat: int | None = None) -> Summary:
    """The summary of n rows [φ w], or of their triangular factor, without deviations of items.

    The coefficient of the column `flat`, if there is one, has a flat prior.
    """
    axes = _decomposed(rows, flat).axes
    r = len(axes.D)
    return Summary(
        n,
        *axes,
        n=np.empty(0),
        items=np.empty(0),
        gram=np.empty((0, r + 1, r + 1)),
        within=np.zeros((r + 1, r + 1)),
    )


def pooled(summaries: Sequence[Summary]) -> Summary:
    """The summary of rows that have a θ each, all of the same λ and σ: log p(w) adds up.

    Each of the summaries is one of `summary_of_rows`.
    """
    if len(summaries) == 1:
        return summaries[0]
    return Summary(
        sum(each.rows for each in summaries),
        np.concatenate([each.D for each in summaries]),
        np.concatenate([each.y for each in summaries]),
        sum(each.residual for each in summaries),
        n=np.empty(0),
        items=np.empty(0),
        gram=np.empty((0, 1, 1)),
        within=np.zeros((1, 1)),
    )


def summary_of_items(
    n: Array,
    means: Array,
    within: Array,
    rows: float,
    *,
    flat: int | None = None,
    loose: Array | None = None,
    loose_rows: float = 0.0,
) -> Summary:
    """The summary of items with counts n (E,) and mean rows [φ̄ w̄] (E, d+1).

    Args:
        n: how often each item was observed, or how precise its mean is.
        means: their mean rows.
        within: all rows less the means of their items, or their triangular factor.
        rows: how many rows there are.
        flat: the column whose coefficient has a flat prior.
        loose: more rows [φ w], each of an item of its own, or their triangular factor.
        loose_rows: how many those are.
    """
    if loose is None:
        loose = np.zeros((1, means.shape[1]))
    weighted = np.sqrt(n)[:, None] * means
    every_row = np.concatenate([weighted, within, loose])
    basis = _basis(every_row, flat)
    order = np.argsort(n, kind="stable")
    count, first, items = np.unique(
        n[order],
        return_index=True,
        return_counts=True,
    )
    groups = np.split(means[order] @ basis.T, first[1:]) if len(n) else []
    groups.append(loose @ basis.T)
    around = within @ basis.T
    return Summary(
        rows + loose_rows,
        *basis.axes,
        n=np.append(count, 1.0),
        items=np.append(items, loose_rows),
        gram=np.array([group.T @ group for group in groups]),
        within=around.T @ around,
    )


def _decomposed(rows: Array, flat: int | None) -> Decomposed:
    """The singular value decomposition of all features, the flat column apart."""
    d = rows.shape[1] - 1
    order = np.arange(d + 1)
    first = 0
    if not np.abs(rows).max(initial=0.0) <= LARGEST:  # nor where one is NaN
        raise no_scales()
    if flat is not None and rows[:, flat].any():
        first = 1
        order = np.append(flat, np.delete(order, flat))
        rows = rows[:, order]
    R = _triangle(rows)
    last = max(_height(R[:d]), first)
    U, D, Vt = np.linalg.svd(R[first:last, first:d], full_matrices=False)
    y = U.T @ R[first:last, d]
    rank = np.count_nonzero(ROUNDING * D[:1] < D)
    residual = R[d, d] ** 2 + (y[rank:] ** 2).sum()
    return Decomposed(order, first, R, D[:rank], Vt[:rank], y[:rank], float(residual))


def _height(rows: Array) -> int:
    """How many rows there are up to the last that is not zero: of few rows, the triangular factor
    is as low as they are.
    """
    if len(rows) and rows[-1].any():
        return len(rows)
    there = np.flatnonzero(rows.any(-1))
    return int(there[-1]) + 1 if len(there) else 0


def _triangle(rows: Array) -> Array:
    """The triangular factor of rows, which are that already or not: (n, D) -> (D, D)."""
    n, D = rows.shape
    if n == D and not rows[_below(D)].any():
        return rows
    triangle = np.linalg.qr(rows, mode="r")
    known = len(triangle)
    R = np.zeros((D, D))
    R[:known] = triangle
    return R


@functools.cache
def _below(D: int) -> Array:
    """Where a matrix of D rows is below its diagonal."""
    return np.tri(D, k=-1, dtype=np.bool_)


def _basis(rows: Array, flat: int | None) -> Basis:
    """The coordinates in which all rows together are orthonormal."""
    of = _decomposed(rows, flat)
    first = of.first
    d = len(of.R) - 1
    T = np.zeros((d + 1, first + len(of.D)))
    T[first:d, first:] = of.Vt.T / of.D
    if first:
        c = of.R[0, 0]
        T[0, 0] = 1 / c
        T[0, 1:] = -of.R[0, 1:d] @ T[1:d, 1:] / c
    axes = of.axes
    last = np.append(-T[:d] @ axes.y, 1.0)
    back = np.argsort(of.order)
    return Basis(np.column_stack([T, last])[back], axes)


def log_evidence(summary: Summary, scales: Array) -> tuple[float, Array]:
    """Log p(w | λ, σ, τ), and its derivatives by the logarithms of the three."""
    lam2, sigma2, tau2 = (float(s) ** 2 for s in scales)
    if tau2:
        twice = _items_evidence(summary, lam2, sigma2, tau2)
    else:
        twice = rows_evidence(summary, lam2, sigma2)
    value = summary.rows * math.log(2 * math.pi) + twice[0]
    return -value / 2, -np.array(twice[1:])


def rows_evidence(summary: Summary, lam2: Any, sigma2: Any) -> tuple[Any, Any, Any, Any]:
    """-2 log p(w) but for 2π without deviations, and half of its derivatives; for one pair of
    scales or, in arrays, for many.
    """
    shrunk = np.isfinite(summary.D)
    prior = np.multiply.outer(lam2, summary.D[shrunk] ** 2)
    free = summary.rows - len(summary.D)
    total = np.asarray(sigma2)[..., None] + prior
    misfit = summary.y[shrunk] ** 2 / total
    noise = summary.residual / sigma2
    value = free * np.log(sigma2) + np.log(total).sum(-1) + noise + misfit.sum(-1)
    excess = (1 - misfit) / total
    by_lam = (prior * excess).sum(-1)
    by_sigma = free - noise + sigma2 * excess.sum(-1)
    return value, by_lam, by_sigma, 0.0


def _items_evidence(
    summary: Summary, lam2: float, sigma2: float, tau2: float
) -> tuple[float, float, float, float]:
    """-2 log p(w) but for 2π with deviations of the items, and half of its derivatives."""
    n = summary.n
    E = summary.items
    r = len(summary.D)
    v = sigma2 + n * tau2
    free = summary.rows - E.sum()
    shrunk = np.isfinite(summary.D)
    precision = 1 / (lam2 * summary.D**2)
    info = summary.within / sigma2 + np.tensordot(n / v, summary.gram, axes=1)  # [M b; bᵀ q]
    Sigma, log_det = _inverse(info[:r, :r] + np.diag(precision))
    delta = Sigma @ (info[:r, r] - precision * summary.y)
    theta = summary.y + delta
    residual = np.append(-delta, 1)
    value = free * math.log(sigma2) + E @ np.log(v)
    value += log_det - np.log(precision[shrunk]).sum()
    value += residual @ info @ residual + precision @ theta**2
    # By the envelope theorem δ can be held fixed: a matrix G of the sum enters with
    # [-δ 1] G [-δ 1]ᵀ + tr(ΣG).
    second = np.outer(residual, residual)
    second[:r, :r] += Sigma
    in_group = np.tensordot(summary.gram, second, axes=2)
    in_within = (summary.within * second).sum()
    excess = E - n * in_group / v
    by_lam = shrunk.sum() - precision @ (np.diagonal(Sigma) + theta**2)
    by_sigma = free - in_within / sigma2 + (sigma2 / v * excess).sum()
    by_tau = (n * tau2 / v * excess).sum()
    return float(value), float(by_lam), float(by_sigma), float(by_tau)


def _inverse(A: Array) -> tuple[Array, float]:
    """A⁻¹ and log det A of a symmetric matrix with positive eigenvalues."""
    if not A.size:  # LAPACK prints that it is illegal
        return A, 0.0
    scale = np.sqrt(np.diagonal(A))
    units = np.outer(scale, scale)
    factor, failed = dpotrf(A / units, lower=1)
    if failed:
        raise NumericalError("scales too far apart: use other units for features or weights")
    lower = np.tril(dpotri(factor, lower=1)[0])
    log_det = 2 * np.log(np.diagonal(factor) * scale).sum()
    return (lower + np.tril(lower, -1).T) / units, float(log_det)


def says_nothing(summary: Summary) -> bool:
    """Whether all weights are zero or nearly so, or equal to what the constant column explains."""
    of = Squares.of(summary)
    return not of.varied > max(ROUNDING**2 * (of.varied + of.level), LEAST)


class Squares(NamedTuple):
    """The sum of squares of the weights: what coefficients with a flat prior explain, and the
    rest.
    """

    level: float
    varied: float

    @classmethod
    def of(cls, summary: Summary) -> "Squares":
        """Of the weights of a summary."""
        y2 = summary.y**2
        shrunk = np.isfinite(summary.D)
        return cls(float(y2[~shrunk].sum()), float(summary.residual + y2[shrunk].sum()))


def no_scales() -> WeightsError:
    """What to raise where weights do not say what scales are."""
    return WeightsError(
        "all weights are zero, or weights or features too large: they do not say what scales are"
    )

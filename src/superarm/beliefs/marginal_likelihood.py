"""Marginal likelihood of λ, σ and τ: the density of the weights, with θ and item effects integrated
out.

    w = φ·θ + δ_item + noise,   θ ~ N(0, λ²I),   δ ~ N(0, τ²),   noise ~ N(0, σ²)

All rows together are X = U D Vᵀ. In the coordinates U, θ becomes DVᵀθ ~ N(0, λ²D²), and nothing
cancels, however collinear the columns are:

    symbol      code                meaning
    N           n_rows              observations
    d           n_flat + len(D)     rank of X; a column whose coefficient has a flat prior is first
    D           D                   singular values of the other columns
    y, r²       y, residual_ss      Uᵀw, and the rest of ‖w‖²
    n_c, E_c    counts, n_items     a number of observations, and how many items have it
    G_c         gram                Σ over those items of [ū w̄-ūy]ᵀ[ū w̄-ūy], their mean rows
    W           within              Σ over rows of the same around the means of their items

Without item effects:

    -2 log p(w) = N log 2π + (N - d) log σ² + Σ log(σ² + λ²D²) + r²/σ² + Σ y²/(σ² + λ²D²)

With them, and with P = λ²D²:

    [M b; bᵀ q] = W/σ² + Σ_c n_c/(σ² + n_c τ²) G_c
    -2 log p(w) = N log 2π + (N - E) log σ² + Σ_c E_c log(σ² + n_c τ²) + log det(I + PM)
                  + min over δ of [-δ 1] [M b; bᵀ q] [-δ 1]ᵀ + (y + δ)ᵀP⁻¹(y + δ)
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from superarm.arrays import Array
from superarm.errors import NumericalError, WeightsError

RANK_TOLERANCE = 1e-13
"""Share of the largest D below which a direction is rounding: the columns are collinear."""
MAX_MAGNITUDE = 1e140
"""Largest feature or weight whose squares add up within the range of float64."""
MIN_SUM_OF_SQUARES = 1e-300
"""Least sum of squares with all its digits: below it, terms underflow."""


class Units(NamedTuple):
    """Sizes of typical weights and coefficients, in which σ and τ, and λ, are near 1."""

    weight: float
    coefficient: float


class SufficientStatistics(NamedTuple):
    """Sufficient statistics of rows [φ w] for λ and σ. Their size does not grow with the rows."""

    n_rows: float  # N
    D: Array  # (r,)
    y: Array  # (r,)
    residual_ss: float  # r²
    n_flat: float  # columns whose coefficient has a flat prior
    flat_ss: float  # squares of the weights that those columns explain

    @property
    def weight_ss(self) -> float:
        """Sum of squares of the weights that flat columns do not explain."""
        explained_ss = self.y @ self.y
        return float(self.residual_ss + explained_ss)

    @property
    def is_degenerate(self) -> bool:
        """True if all weights are nearly zero, or equal to what a constant column explains."""
        weight_ss = self.weight_ss
        rounding = RANK_TOLERANCE**2 * (weight_ss + self.flat_ss)
        return not weight_ss > max(rounding, MIN_SUM_OF_SQUARES)

    def standardized(
        self, expected_size: float | None = None
    ) -> tuple["SufficientStatistics", Units]:
        """The statistics in units of a typical weight and feature row, so that nothing overflows.

        Flat columns do not count for these units: they may hide what the others say.

        Args:
            expected_size: root mean square expected of the linear predictors; by default that of
                the weights.
        """
        weight = expected_size or math.sqrt(self.weight_ss / self.n_rows)
        mean_square = self.D @ self.D / self.n_rows
        length = math.sqrt(mean_square) or 1.0
        statistics = self._replace(
            D=self.D / length,
            y=self.y / weight,
            residual_ss=self.residual_ss / weight**2,
        )
        return statistics, Units(weight, weight / length)


class ItemMoments(NamedTuple):
    """Second moments of the mean rows of items, by the number of observations, and around them.

    Their size grows with the number of distinct counts, not with the number of items.
    """

    counts: Array  # (C,) n_c
    n_items: Array  # (C,) E_c
    gram: Array  # (C, r+1, r+1) G_c
    within: Array  # (r+1, r+1) W

    def standardized(self, weight: float) -> "ItemMoments":
        """The moments in this unit of the weights."""
        unit = np.ones(len(self.within))
        unit[-1] = 1 / weight
        units = np.outer(unit, unit)
        gram = self.gram * units
        within = self.within * units
        return self._replace(gram=gram, within=within)


class Decomposition(NamedTuple):
    """Singular value decomposition of all features, with the flat column first and apart."""

    order: Array  # (d+1,) of the columns
    n_flat: int  # 1 if there is a flat column
    R: Array  # (d+1, d+1) triangular factor of all rows [φ w]
    D: Array  # (r,)
    Vt: Array  # (r, d - n_flat)
    y: Array  # (r,)
    residual_ss: float

    def statistics(self, n_rows: float) -> SufficientStatistics:
        """Sufficient statistics of that many rows."""
        flat_ss = 0.0
        if self.n_flat:
            flat_ss = float(self.R[0, -1]) ** 2
        return SufficientStatistics(
            n_rows=float(n_rows),
            D=self.D,
            y=self.y,
            residual_ss=self.residual_ss,
            n_flat=float(self.n_flat),
            flat_ss=flat_ss,
        )


def statistics_of_rows(
    rows: Array, n_rows: float, flat_column: int | None = None
) -> SufficientStatistics:
    """Sufficient statistics of rows [φ w], or of their triangular factor.

    The coefficient of the flat column, if there is one, has a flat prior.
    """
    decomposition = _decompose(rows, flat_column)
    return decomposition.statistics(n_rows)


def pool_statistics(parts: Sequence[SufficientStatistics]) -> SufficientStatistics:
    """Statistics of rows that have a θ each, all of the same λ and σ: log p(w) adds up."""
    if len(parts) == 1:
        return parts[0]
    return SufficientStatistics(
        sum(part.n_rows for part in parts),
        np.concatenate([part.D for part in parts]),
        np.concatenate([part.y for part in parts]),
        sum(part.residual_ss for part in parts),
        sum(part.n_flat for part in parts),
        sum(part.flat_ss for part in parts),
    )


def statistics_of_items(
    n: Array,
    means: Array,
    within: Array,
    n_rows: float,
    *,
    flat_column: int | None = None,
    unknown_items: Array | None = None,
    n_unknown: float = 0.0,
) -> tuple[SufficientStatistics, ItemMoments]:
    """Sufficient statistics of items with counts n (E,) and mean rows [φ̄ w̄] (E, d+1).

    Args:
        n: how often each item was observed, or how precise its mean is.
        means: their mean rows.
        within: all rows less the means of their items, or their triangular factor.
        n_rows: the number of all those rows.
        flat_column: the column whose coefficient has a flat prior.
        unknown_items: more rows [φ w], each of an item of its own, or their triangular factor.
        n_unknown: the number of rows of unknown items.
    """
    if unknown_items is None:
        unknown_items = np.zeros((1, means.shape[1]))
    weighted = np.sqrt(n)[:, None] * means
    rows = np.concatenate([weighted, within, unknown_items])
    decomposition = _decompose(rows, flat_column)
    T = _whitening(decomposition)
    order = np.argsort(n, kind="stable")
    counts, starts, n_items = np.unique(n[order], return_index=True, return_counts=True)
    groups = []
    if len(n):
        whitened = means[order] @ T
        groups = np.split(whitened, starts[1:])
    groups.append(unknown_items @ T)
    around_means = within @ T
    moments = ItemMoments(
        counts=np.append(counts, 1.0),
        n_items=np.append(n_items, n_unknown),
        gram=np.array([group.T @ group for group in groups]),
        within=around_means.T @ around_means,
    )
    return decomposition.statistics(n_rows + n_unknown), moments


def _decompose(rows: Array, flat_column: int | None) -> Decomposition:
    d = rows.shape[1] - 1
    order = np.arange(d + 1)
    n_flat = 0
    magnitude = np.abs(rows).max(initial=0.0)
    if not magnitude <= MAX_MAGNITUDE:  # also where it is NaN
        raise degenerate_error()
    if flat_column is not None and rows[:, flat_column].any():
        n_flat = 1
        order = np.append(flat_column, np.delete(order, flat_column))
        rows = rows[:, order]
    R = _triangular_factor(rows)
    height = max(_height(R[:d]), n_flat)
    X = R[n_flat:height, n_flat:d]
    w = R[n_flat:height, d]
    U, D, Vt = np.linalg.svd(X, full_matrices=False)
    y = U.T @ w
    is_significant = RANK_TOLERANCE * D[:1] < D
    rank = np.count_nonzero(is_significant)
    rounding = y[rank:]
    residual_ss = R[d, d] ** 2 + rounding @ rounding
    return Decomposition(
        order,
        n_flat,
        R,
        D=D[:rank],
        Vt=Vt[:rank],
        y=y[:rank],
        residual_ss=float(residual_ss),
    )


def _height(rows: Array) -> int:
    """Number of rows up to the last that is not zero: the triangular factor of a few rows is no
    higher than they are.
    """
    if len(rows) and rows[-1].any():
        return len(rows)
    nonzero = np.flatnonzero(rows.any(-1))
    if not len(nonzero):
        return 0
    last = int(nonzero[-1])
    return last + 1


def _triangular_factor(rows: Array) -> Array:
    """Triangular factor of rows, which may be one already: (n, D) -> (D, D)."""
    n, D = rows.shape
    if n == D and not rows[_below_diagonal(D)].any():
        return rows
    triangle = np.linalg.qr(rows, mode="r")
    R = np.zeros((D, D))
    R[: len(triangle)] = triangle
    return R


@functools.cache
def _below_diagonal(D: int) -> Array:
    """Mask of a matrix of D rows, True below its diagonal."""
    return np.tri(D, k=-1, dtype=np.bool_)


def _whitening(decomposition: Decomposition) -> Array:
    """T (d+1, r+1) with [φ w] T = [u w-uy]: coordinates in which all rows are orthonormal."""
    n_flat = decomposition.n_flat
    R = decomposition.R
    d = len(R) - 1
    rank = n_flat + len(decomposition.D)
    T = np.zeros((d + 1, rank + 1))
    to_u = T[:d, :rank]
    to_u[n_flat:, n_flat:] = decomposition.Vt.T / decomposition.D
    y = decomposition.y
    if n_flat:
        c = R[0, 0]
        flat_row = -R[0, 1:d]
        T[0, 0] = 1 / c
        T[0, 1:-1] = flat_row @ T[1:d, 1:-1] / c
        y = np.append(R[0, -1], y)
    T[:d, -1] = -to_u @ y
    T[d, -1] = 1.0
    original_order = np.argsort(decomposition.order)
    return T[original_order]


class _ItemEvidence(NamedTuple):
    """Terms of the marginal likelihood with item effects at one λ, σ and τ."""

    v: Array  # (C,) σ² + n_c τ²
    information: Array  # (r+1, r+1) [M b; bᵀ q]
    prior_precision: Array  # (r,) P⁻¹, zero for a flat prior
    Sigma: Array  # (r, r) (M + P⁻¹)⁻¹
    log_det: float  # of M + P⁻¹
    contrast: Array  # (r+1,) [-δ 1] at the minimum
    theta: Array  # (r,) y + δ; of a flat prior δ alone, as nothing depends on its y


def log_marginal(
    statistics: SufficientStatistics, items: ItemMoments, lam: float, sigma: float, tau: float
) -> tuple[float, Array]:
    """Log p(w | λ, σ, τ) with item effects, and its gradient by the logarithms of the three."""
    sigma2 = sigma**2
    tau2 = tau**2
    terms = _item_evidence(statistics, items, lam**2, sigma2, tau2)
    n_within = statistics.n_rows - items.n_items.sum()
    n_flat = int(statistics.n_flat)
    precision = terms.prior_precision[n_flat:]
    twice = statistics.n_rows * math.log(2 * math.pi)
    twice += n_within * math.log(sigma2)
    twice += items.n_items @ np.log(terms.v)
    twice += terms.log_det - np.log(precision).sum()
    twice += terms.contrast @ terms.information @ terms.contrast
    twice += terms.prior_precision @ terms.theta**2
    gradient = _gradient(statistics, items, terms, sigma2, tau2)
    return -float(twice) / 2, gradient


def _item_evidence(
    statistics: SufficientStatistics,
    items: ItemMoments,
    lam2: float,
    sigma2: float,
    tau2: float,
) -> _ItemEvidence:
    no_prior = np.zeros(int(statistics.n_flat))
    P = lam2 * statistics.D**2
    prior_precision = np.append(no_prior, 1 / P)
    y = np.append(no_prior, statistics.y)
    r = len(y)
    v = sigma2 + items.counts * tau2
    between = np.tensordot(items.counts / v, items.gram, axes=1)
    information = items.within / sigma2 + between
    M = information[:r, :r]
    b = information[:r, r]
    precision = M + np.diag(prior_precision)
    Sigma, log_det = _inverse(precision)
    delta = Sigma @ (b - prior_precision * y)
    return _ItemEvidence(
        v,
        information,
        prior_precision,
        Sigma,
        log_det,
        contrast=np.append(-delta, 1.0),
        theta=y + delta,
    )


def _gradient(
    statistics: SufficientStatistics,
    items: ItemMoments,
    terms: _ItemEvidence,
    sigma2: float,
    tau2: float,
) -> Array:
    """Gradient of log p(w) by log λ, log σ and log τ.

    By the envelope theorem δ can be held fixed: a matrix G of the sum [M b; bᵀ q] enters with
    [-δ 1] G [-δ 1]ᵀ + tr(ΣG).
    """
    r = len(terms.Sigma)
    second_moment = np.outer(terms.contrast, terms.contrast)
    second_moment[:r, :r] += terms.Sigma
    group_ss = np.tensordot(items.gram, second_moment, axes=2)
    within_ss = (items.within * second_moment).sum()
    v = terms.v
    misfit = items.counts * group_ss / v
    excess = (items.n_items - misfit) / v
    n_within = statistics.n_rows - items.n_items.sum()
    theta2 = np.diagonal(terms.Sigma) + terms.theta**2
    lam_slope = len(statistics.D) - terms.prior_precision @ theta2
    sigma_slope = n_within - within_ss / sigma2 + sigma2 * excess.sum()
    tau_slope = tau2 * (items.counts @ excess)
    return -np.array([lam_slope, sigma_slope, tau_slope])


def _inverse(A: Array) -> tuple[Array, float]:
    """A⁻¹ and log det A of a symmetric positive definite matrix."""
    if not A.size:  # LAPACK prints that it is illegal
        return A, 0.0
    scale = np.sqrt(np.diagonal(A))
    units = np.outer(scale, scale)
    factor, info = dpotrf(A / units, lower=1)
    if info:
        raise NumericalError("scales too far apart: use other units for features or weights")
    inverse, _ = dpotri(factor, lower=1)
    lower = np.tril(inverse)
    upper = np.tril(lower, -1).T
    diagonal = np.diagonal(factor) * scale
    log_det = 2 * np.log(diagonal).sum()
    return (lower + upper) / units, float(log_det)


def degenerate_error() -> WeightsError:
    """Error for weights that do not determine the hyperparameters."""
    return WeightsError(
        "cannot estimate lam and sigma: all weights are (nearly) zero, or the values are too large"
    )

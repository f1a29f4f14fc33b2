"""How large are θ, the noise and the items' own deviations? λ, σ and τ of the largest marginal
likelihood.

    w = φ·θ + δ_item + noise,   θ ~ N(0, λ²I),   δ ~ N(0, τ²),   noise ~ N(0, σ²)

The marginal likelihood p(w | λ, σ, τ), or evidence, needs each item's count n_e and its mean row
only; items of equal count can be added up:

    symbol      code             meaning
    N           rows             observations
    n_c, E_c    n, items         a count that occurs, and how many items have it
    G_c         gram             Σ over those items of [φ̄ w̄]ᵀ[φ̄ w̄], their mean rows and weights
    W           within           Σ over rows of [φ-φ̄ w-w̄]ᵀ[φ-φ̄ w-w̄]

    [M b; bᵀ q] = W/σ² + Σ_c n_c/(σ² + n_c τ²) G_c
    -2 log p(w) = N log 2π + (N - E) log σ² + Σ_c E_c log(σ² + n_c τ²)
                  + log det(I + λ²M) + q - bᵀ(M + I/λ²)⁻¹b
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from superarm.arrays import Array, as_float64, as_like, to_numpy
from superarm.checks import as_numbers, check_features
from superarm.contracts import Belief
from superarm.errors import FeaturesError, ItemsError, NumericalError, WeightsError

WEAK = 3.0
"""Std of the prior on the logarithm of each scale: a factor of twenty around the size of the
weights."""
RANGE = (-16.0, 4.0)
"""Where to look, on that logarithmic scale: a Gram matrix resolves nothing below a ten-millionth of
the weights."""
LARGEST = 1e140
"""Features and weights beyond it, squared and added up, could leave the range of float64."""
NAMES = ("lam", "sigma", "tau")


class Scales(NamedTuple):
    """Prior std λ, noise std σ and item std τ, each with its relative standard error.

    An error near 1 or above says that the data does not determine that scale.
    """

    lam: float
    sigma: float
    tau: float
    lam_error: float
    sigma_error: float
    tau_error: float
    log_evidence: float

    def __str__(self) -> str:
        lines = []
        for name, meaning in (("lam", "prior"), ("sigma", "noise"), ("tau", "items")):
            value = getattr(self, name)
            factor = math.exp(2 * getattr(self, f"{name}_error"))
            interval = f"between {value / factor:.4g} and {value * factor:.4g}"
            lines.append(f"{name:5} {value:10.4g}   {interval}   ({meaning})")
        return "\n".join(lines)


class Summary(NamedTuple):
    """All that the marginal likelihood depends on. Its size grows with the number of distinct
    counts, not with the number of rows.
    """

    rows: float  # N
    n: Array  # (C,)
    items: Array  # (C,)
    gram: Array  # (C, d+1, d+1)
    within: Array  # (d+1, d+1)


def fit_scales(rows: Any, weights: Any, items: Any = None) -> Scales:
    """The scales of the largest marginal likelihood: λ and σ, and τ if items are given.

    Args:
        rows: one feature row per observation, (n, d).
        weights: one number per row.
        items: the item of each row, any labels. Without it τ is taken as 0.

    A weak prior, a factor of twenty around the size of the weights, keeps the answer finite where
    the data is silent; the errors say when that is so.

    >>> import numpy as np
    >>> from superarm import fit_scales
    >>> rng = np.random.default_rng(0)
    >>> rows, theta = rng.standard_normal((5000, 20)), rng.standard_normal(20)
    >>> scales = fit_scales(rows, rows @ theta + 0.3 * rng.standard_normal(5000))
    >>> round(scales.sigma, 2), round(scales.sigma_error, 2), round(scales.lam_error, 2)
    (0.3, 0.01, 0.16)
    """
    joined = _rows_and_weights(rows, weights)
    if items is None:
        return maximize(summary_of_rows(joined, len(joined)), tau=0.0)
    try:
        labels = np.asarray(items)
        _, item, n = np.unique(labels, return_inverse=True, return_counts=True)
    except (TypeError, ValueError) as error:
        raise ItemsError(
            f"items must be one label for each row, all of one kind ({error})"
        ) from error
    if labels.shape != (len(joined),):
        raise ItemsError(
            f"items must be one label for each of {len(joined)} rows, got shape {labels.shape}"
        )
    means = np.zeros((len(n), joined.shape[1]))
    np.add.at(means, item, joined)
    means /= n[:, None]
    return maximize(_by_count(n, means, _gram(joined - means[item])))


def _rows_and_weights(rows: Any, weights: Any) -> Array:
    """[φ w], (n, d+1)."""
    X = check_features(rows)
    try:
        w = as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers, one for each row ({error})") from error

    if not X.size:
        raise FeaturesError(f"rows must have at least one feature, got shape {X.shape}")
    if X.ndim != 2 or w.shape != X.shape[:1] or not np.isfinite(w).all():
        raise WeightsError(f"rows {X.shape} need as many finite weights, got shape {w.shape}")
    return np.column_stack([X, w])


def summary_of_rows(rows: Array, n: float) -> Summary:
    """The summary of n rows [φ w], or of their triangular factor, each of an item of its own."""
    gram = _gram(rows)
    return Summary(n, np.ones(1), np.array([n]), gram[None], np.zeros_like(gram))


def summary_of_items(
    n: Array, phi: Array, mean: Array, within: float, data: Array, rows: float
) -> Summary:
    """The summary of items with counts n, fixed features and mean weights, and of loose rows given
    by their triangular factor.

    `within` is the sum of squares of the weights around the means of their items.
    """
    d = phi.shape[-1]
    around = np.zeros((d + 1, d + 1))
    around[d, d] = max(within, 0.0)

    of_items = _by_count(n, np.column_stack([phi, mean]), around)
    of_rows = summary_of_rows(data, rows)
    return Summary(
        of_items.rows + rows,
        np.concatenate([of_items.n, of_rows.n]),
        np.concatenate([of_items.items, of_rows.items]),
        np.concatenate([of_items.gram, of_rows.gram]),
        around,
    )


def _by_count(n: Array, means: Array, within: Array) -> Summary:
    """The summary of items with counts n (E,) and mean rows (E, d+1)."""
    order = np.argsort(n, kind="stable")
    count, first, items = np.unique(
        n[order],
        return_index=True,
        return_counts=True,
    )
    groups = np.split(means[order], first[1:])
    grams = [_gram(group) for group in groups[: len(count)]]
    return Summary(
        float(n.sum()),
        count,
        items,
        np.reshape(grams, (len(count), *within.shape)),
        within,
    )


def _gram(rows: Array) -> Array:
    """RowsᵀRows; what overflows is refused when the sizes are looked at."""
    with np.errstate(over="ignore", invalid="ignore"):
        gram: Array = rows.T @ rows
    return gram


def _evidence(summary: Summary, scales: Array) -> tuple[float, Array]:
    """Log p(w | λ, σ, τ), and its derivatives by the logarithms of the three."""
    lam2, sigma2, tau2 = (float(s) ** 2 for s in scales)
    n = summary.n
    E = summary.items
    d = summary.gram.shape[-1] - 1
    v = sigma2 + n * tau2
    free = summary.rows - E.sum()
    info = summary.within / sigma2 + np.tensordot(n / v, summary.gram, axes=1)  # [M b; bᵀ q]
    b = info[:d, d]
    Sigma, log_det = _inverse(info[:d, :d], lam2)
    theta = Sigma @ b
    value = summary.rows * math.log(2 * math.pi) + free * math.log(sigma2)
    value += E @ np.log(v)
    value += log_det
    value += info[d, d] - b @ theta
    # By the envelope theorem θ can be held fixed: a matrix G of the sum enters with
    # [-θ 1] G [-θ 1]ᵀ + tr(ΣG).
    residual = np.append(-theta, 1)
    second = np.outer(residual, residual)
    second[:d, :d] += Sigma
    in_group = np.tensordot(summary.gram, second, axes=2)
    in_within = (summary.within * second).sum()
    excess = E - n * in_group / v
    by_log_scales = [
        d - (np.trace(Sigma) + theta @ theta) / lam2,
        free - in_within / sigma2 + (sigma2 / v * excess).sum(),
        (n * tau2 / v * excess).sum(),
    ]
    return float(-value / 2), -np.array(by_log_scales)


def _inverse(M: Array, lam2: float) -> tuple[Array, float]:
    """(M + I/λ²)⁻¹ and log det(I + λ²M), for M positive semidefinite but for rounding."""
    factor, failed = dpotrf(M + np.eye(len(M)) / lam2, lower=1)
    if not failed:
        lower = np.tril(dpotri(factor, lower=1)[0])
        log_det = 2 * np.log(np.diagonal(factor)).sum() + len(M) * math.log(lam2)
        return lower + np.tril(lower, -1).T, log_det
    # I/λ² is lost in the rounding of M: eigenvalues, ten times as slow, tell what is zero
    eigenvalue, V = np.linalg.eigh(M)
    eigenvalue = eigenvalue.clip(0)
    return V / (eigenvalue + 1 / lam2) @ V.T, np.log1p(lam2 * eigenvalue).sum()


def maximize(summary: Summary, **known: float) -> Scales:
    """The scales of the largest marginal likelihood; those that are `known` stay as they are."""
    search = _Search(summary, known)
    x = search.best()
    relative = search.relative(x)
    value, _ = _evidence(search.summary, relative)
    log_evidence = value - summary.rows * math.log(search.units[-1])
    found = [*relative * search.units, *search.errors(x), log_evidence]
    return Scales(*map(float, found))


def best_scales(summary: Summary, **known: float) -> list[float]:
    """λ, σ and τ of the largest marginal likelihood, to three digits: more is noise, and the order
    of feedback must not matter.
    """
    search = _Search(summary, known)
    found = search.relative(search.best()) * search.units
    return [known.get(name, float(f"{x:.3g}")) for name, x in zip(NAMES, found, strict=True)]


class _Search:
    """For the scales that are not known, as x: their logarithms, relative to the size of the
    weights.

    Features and weights are measured in their own size, so that nothing overflows.
    """

    def __init__(self, summary: Summary, known: Mapping[str, float]) -> None:
        size, length = _sizes(summary)
        unit = np.full(summary.gram.shape[-1], 1 / length)
        unit[-1] = 1 / size
        scaled = np.outer(unit, unit)
        self.summary = summary._replace(
            gram=summary.gram * scaled,
            within=summary.within * scaled,
        )
        self.units = np.array([size / length, size, size])
        self.known = np.array([known.get(name, np.nan) for name in NAMES]) / self.units
        self.free = np.isnan(self.known)

    def relative(self, x: Array) -> Array:
        """λ, σ and τ in their units."""
        scales: Array = self.known.copy()
        scales[self.free] = np.exp(x)
        return scales

    def descend(self, x: Array) -> tuple[float, Array]:
        """Minus log p(w) and the log of the weak prior, and its gradient."""
        value, gradient = _evidence(self.summary, self.relative(x))
        return float(x @ x) / (2 * WEAK**2) - value, x / WEAK**2 - gradient[self.free]

    def best(self) -> Array:
        """The x of the largest marginal likelihood, from two starts: much noise, or little."""
        from scipy.optimize import minimize

        starts = np.array([[-1.0, -0.5, -2.0], [0.0, -3.0, -4.0]])[:, self.free]
        if not starts.size:
            return np.empty(0)
        found = [
            minimize(
                self.descend,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[RANGE] * len(start),
            )
            for start in starts
        ]
        x: Array = min(found, key=lambda result: result.fun).x
        return x

    def errors(self, x: Array) -> Array:
        """Relative standard errors, from the curvature at x by differences of the gradient;
        infinite if it has none.
        """
        errors = np.where(self.free, np.inf, 0.0)
        step = 1e-4
        curvature = np.zeros((len(x), len(x)))
        for row, h in zip(curvature, step * np.eye(len(x)), strict=True):
            row[:] = (self.descend(x + h)[1] - self.descend(x - h)[1]) / (2 * step)
        variance = np.diagonal(np.linalg.pinv(curvature + curvature.T)) * 2
        inside = (variance > 0) & (x > RANGE[0]) & (x < RANGE[1])
        errors[self.free] = np.sqrt(np.where(inside, variance, np.inf))
        return errors


def _sizes(summary: Summary) -> tuple[float, float]:
    """Root mean squares of the weights and of the lengths of the feature rows: where the weak prior
    is centred.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = summary.within + np.tensordot(summary.n, summary.gram, axes=1)
    if not total[-1, -1] > 0 or not np.isfinite(total).all():
        raise WeightsError(
            "all weights are zero, or weights or features too large: "
            "they do not say what scales are"
        )
    size = math.sqrt(total[-1, -1] / summary.rows)
    length = math.sqrt(np.trace(total[:-1, :-1]) / summary.rows)
    return size, length or 1.0


def require_squares(*values: Array) -> None:
    """Refuse numbers whose squares would leave the range of float64, before a belief holds them."""
    if any((abs(as_float64(value)) > LARGEST).any() for value in values):
        raise NumericalError(
            f"features or weights beyond {LARGEST:g} are too large to find scales for: "
            "use other units"
        )


def refit_where(
    due: Array, belief: Belief, refit: Callable[[Belief, tuple[int, ...]], Belief]
) -> Belief:
    """The batch of beliefs with `refit(entry, its index)` in place of the entries that are due."""
    if not due.any():
        return belief
    arrays = [to_numpy(x).copy("K") for x in belief]
    for at in np.argwhere(to_numpy(due)):
        b = tuple(at)
        entry = type(belief)(*(np.asarray(x[b]) for x in arrays))
        for x, new in zip(arrays, refit(entry, b), strict=True):
            x[b] = new
    return type(belief)(*map(as_like, belief, arrays))

"""How large are θ, the noise and the items' own deviations? λ, σ and τ of the largest marginal
likelihood.

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
"""Width of the prior on the logarithm of each scale: a factor of twenty around the size of the
weights. It has heavy tails, as the size of the weights may be that of one large column."""
RANGES = ((-25.0, 25.0), (-25.0, 4.0), (-25.0, 4.0))
"""Where to look for λ, σ and τ, on that logarithmic scale."""
SPLITS = (0.02, 0.3, 0.9)
"""Shares of what features leave open that may be the items' own: where to begin."""
ROUNDING = 1e-13
"""The share of the largest D below which a direction is rounding: the columns are collinear."""
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
    D: Array  # (r,) where r is the rank
    y: Array  # (r,)
    residual: float  # r²
    n: Array  # (C,)
    items: Array  # (C,)
    gram: Array  # (C, r+1, r+1)
    within: Array  # (r+1, r+1)


class Basis(NamedTuple):
    """Coordinates in which all rows [φ w] together are orthonormal."""

    T: Array  # (d+1, r+1): [φ w] T = [u w-uy]
    D: Array  # (r,)
    y: Array  # (r,)
    residual: float


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
    return maximize(summary_of_items(n, means, joined - means[item], len(joined)))


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


def summary_of_rows(rows: Array, n: float, flat: int | None = None) -> Summary:
    """The summary of n rows [φ w], or of their triangular factor, without deviations of items.

    The coefficient of the column `flat`, if there is one, has a flat prior.
    """
    basis = _basis(rows, flat)
    r = len(basis.D)
    return Summary(
        n,
        basis.D,
        basis.y,
        basis.residual,
        n=np.empty(0),
        items=np.empty(0),
        gram=np.empty((0, r + 1, r + 1)),
        within=np.zeros((r + 1, r + 1)),
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
    loose = np.zeros((1, means.shape[1])) if loose is None else loose
    weighted = np.sqrt(n)[:, None] * means
    basis = _basis(np.concatenate([weighted, within, loose]), flat)
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
        basis.D,
        basis.y,
        basis.residual,
        n=np.append(count, 1.0),
        items=np.append(items, loose_rows),
        gram=np.array([group.T @ group for group in groups]),
        within=around.T @ around,
    )


def _basis(rows: Array, flat: int | None) -> Basis:
    """The singular value decomposition of all features, the flat column apart."""
    d = rows.shape[1] - 1
    order = np.arange(d + 1)
    if flat is not None:
        order[: flat + 1] = np.roll(order[: flat + 1], 1)
    if not np.isfinite(rows).all() or abs(rows).max(initial=0.0) > LARGEST:
        raise _no_scales()
    R = np.linalg.qr(rows[:, order], mode="r")
    R = np.pad(R, ((0, d + 1 - len(R)), (0, 0)))
    first = int(flat is not None)
    U, D, Vt = np.linalg.svd(R[first:d, first:d])
    y = U.T @ R[first:d, d]
    rank = int((D > ROUNDING * max(D, default=0.0)).sum())
    residual = R[d, d] ** 2 + (y[rank:] ** 2).sum()
    T = np.zeros((d + 1, first + rank))
    T[first:d, first:] = Vt[:rank].T / D[:rank]
    D = D[:rank]
    y = y[:rank]
    if first:
        c = R[0, 0]
        T[0, 0] = 1 / c
        T[0, 1:] = -R[0, 1:d] @ T[1:d, 1:] / c
        D = np.append(np.inf, D)
        y = np.append(R[0, d], y)
    last = np.append(-T[:d] @ y, 1.0)
    back = np.argsort(order)
    return Basis(np.column_stack([T, last])[back], D, y, float(residual))


def _evidence(summary: Summary, scales: Array) -> tuple[float, Array]:
    """Log p(w | λ, σ, τ), and its derivatives by the logarithms of the three."""
    lam2, sigma2, tau2 = (float(s) ** 2 for s in scales)
    twice = _of_items(summary, lam2, sigma2, tau2) if tau2 else _of_rows(summary, lam2, sigma2)
    value = summary.rows * math.log(2 * math.pi) + twice[0]
    return -value / 2, -np.array(twice[1:])


def _of_rows(summary: Summary, lam2: Any, sigma2: Any) -> tuple[Any, Any, Any, Any]:
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


def _of_items(
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
    scale = np.sqrt(np.diagonal(A))
    units = np.outer(scale, scale)
    factor, failed = dpotrf(A / units, lower=1)
    if failed:
        raise NumericalError("scales too far apart: use other units for features or weights")
    lower = np.tril(dpotri(factor, lower=1)[0])
    log_det = 2 * np.log(np.diagonal(factor) * scale).sum()
    return (lower + np.tril(lower, -1).T) / units, float(log_det)


def maximize(summary: Summary, **known: float) -> Scales:
    """The scales of the largest marginal likelihood; those that are `known` stay as they are."""
    search = _Search(summary, known)
    x = search.best()
    relative = search.relative(x)
    value, _ = _evidence(search.summary, relative)
    log_evidence = value - summary.rows * math.log(search.units[-1])
    scales = [known.get(name, v) for name, v in zip(NAMES, relative * search.units, strict=True)]
    return Scales(*map(float, [*scales, *search.errors(x), log_evidence]))


def best_scales(summary: Summary, size: float | None = None, **known: float) -> list[float]:
    """λ, σ and τ of the largest marginal likelihood, to three digits: more is noise, and the order
    of feedback must not matter.

    `size` is what the weights are expected to vary by, if it is not what they do. For a learner σ
    must not be lost in τ, nor τ in σ, because few items happened to repeat what they showed before:
    with R = (τ/σ)², the log density of R has the weak prior (log R - R)/2.
    """
    search = _Search(summary, known, size, balanced="tau" not in known)
    found = search.relative(search.best()) * search.units
    return [known.get(name, float(f"{x:.3g}")) for name, x in zip(NAMES, found, strict=True)]


class _Search:
    """For the scales that are not known, as x: their logarithms, relative to the size of the
    weights.

    Features and weights are measured in their own size, so that nothing overflows.
    """

    def __init__(
        self,
        summary: Summary,
        known: Mapping[str, float],
        expected: float | None = None,
        balanced: bool = False,
    ) -> None:
        self.balanced = balanced
        size, length = _sizes(summary)
        size = expected or size
        unit = np.ones(len(summary.D) + 1)
        unit[-1] = 1 / size
        scaled = np.outer(unit, unit)
        self.summary = summary._replace(
            D=summary.D / length,
            y=summary.y / size,
            residual=summary.residual / size**2,
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
        scales = self.relative(x)
        value, gradient = _evidence(self.summary, scales)
        if self.balanced:
            R = float(scales[2] / scales[1]) ** 2
            value += (math.log(R) - R) / 2
            gradient += (1 - R) * np.array([0.0, -1.0, 1.0])
        wide = 1 + x**2 / (2 * WEAK**2)
        return float(np.log(wide).sum()) - value, x / (WEAK**2 * wide) - gradient[self.free]

    def best(self) -> Array:
        """The x of the largest marginal likelihood."""
        from scipy.optimize import minimize

        if not self.free.any():
            return np.empty(0)
        start = min(self.starts(), key=lambda x: self.descend(x)[0])
        found = minimize(
            self.descend,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=np.array(RANGES)[self.free],
        )
        x: Array = found.x
        return x

    def starts(self) -> list[Array]:
        """Where to begin: at the best λ and σ without deviations, of all on a grid; and with some
        of that noise taken as the items' own.
        """
        lam, sigma = self._grid()
        value = _of_rows(self.summary, lam**2, sigma**2)[0] / 2
        for scale, free in zip((lam, sigma), self.free[:2], strict=True):
            value += free * np.log(1 + np.log(scale) ** 2 / (2 * WEAK**2))
        best = np.argmin(value)
        starts = []
        for share in SPLITS:
            noise = sigma[best] * math.sqrt(1 - share)
            own = sigma[best] * math.sqrt(share)
            starts.append(np.log([lam[best], noise, own])[self.free])
        return starts if self.free[2] else [np.log([lam[best], sigma[best], 1.0])[self.free]]

    def _grid(self) -> tuple[Array, Array]:
        """Pairs of λ and σ; where both are free, one per ratio of the two, with the σ best for it.
        """
        low, high = np.exp(np.array(RANGES)[:2]).T
        steps = np.exp(np.arange(-50.0, 50.0, 0.5))
        lam = steps if self.free[0] else np.full(len(steps), self.known[0])
        sigma = steps if self.free[1] else np.full(len(steps), self.known[1])
        if self.free[:2].all():
            D = self.summary.D
            misfit = self.summary.y**2 / (1 + np.multiply.outer(steps**2, D**2))
            unexplained = self.summary.residual + misfit.sum(-1)
            sigma = np.sqrt(unexplained / self.summary.rows)
            lam = steps * sigma
        return lam.clip(low[0], high[0]), sigma.clip(low[1], high[1])

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
        low, high = np.array(RANGES)[self.free].T
        inside = (variance > 0) & (x > low) & (x < high)
        errors[self.free] = np.sqrt(np.where(inside, variance, np.inf))
        return errors


def says_nothing(summary: Summary) -> bool:
    """Whether all weights are zero, or equal to what the constant column explains."""
    of = _Squares.of(summary)
    return not of.varied > ROUNDING**2 * (of.varied + of.level)


class _Squares(NamedTuple):
    """The sum of squares of the weights: what coefficients with a flat prior explain, and the
    rest.
    """

    level: float
    varied: float

    @classmethod
    def of(cls, summary: Summary) -> "_Squares":
        y2 = summary.y**2
        shrunk = np.isfinite(summary.D)
        return cls(float(y2[~shrunk].sum()), float(summary.residual + y2[shrunk].sum()))


def _sizes(summary: Summary) -> tuple[float, float]:
    """Root mean squares of the weights and of the lengths of the feature rows: where the weak prior
    is centred.

    A coefficient with a flat prior is left out: it may hide what the others say.
    """
    if says_nothing(summary):
        raise _no_scales()
    size = math.sqrt(_Squares.of(summary).varied / summary.rows)
    D = summary.D[np.isfinite(summary.D)]
    length = math.sqrt((D**2).sum() / summary.rows)
    return size, length or 1.0


def _no_scales() -> WeightsError:
    return WeightsError(
        "all weights are zero, or weights or features too large: they do not say what scales are"
    )


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

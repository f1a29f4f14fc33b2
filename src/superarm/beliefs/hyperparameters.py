"""How large are θ, the noise and the items' own deviations? λ, σ and τ of the largest marginal
likelihood, which is in `beliefs.marginal_likelihood`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from superarm.arrays import Array, as_like, is_tensor, to_numpy
from superarm.beliefs.marginal_likelihood import (
    LARGEST,
    Squares,
    Summary,
    log_evidence,
    no_scales,
    says_nothing,
    summary_of_items,
    summary_of_rows,
)
from superarm.beliefs.newton import Rows, Weights, best_of_grid, descend, scales_of_rows
from superarm.checks import as_numbers, check_features, require_positive
from superarm.errors import (
    FeaturesError,
    ItemsError,
    NumericalError,
    ParameterError,
    WeightsError,
)

WEAK = 3.0
"""Width of the prior on the logarithm of each scale: a factor of twenty around the size of the
weights. It has heavy tails, as the size of the weights may be that of one large column."""
RANGES = ((-25.0, 25.0), (-25.0, 4.0), (-25.0, 4.0))
"""Where to look for λ, σ and τ, on that logarithmic scale."""
LOW, HIGH = np.array(RANGES)[:2].T.copy()
FARTHEST = 1e-5
"""The least σ/τ for which the marginal likelihood is looked at beside a prior on that ratio."""
SPLITS = (0.02, 0.3, 0.9)
"""Shares of what features leave open that may be the items' own: where to begin."""
NAMES = ("lam", "sigma", "tau")

Hyperparameter: TypeAlias = float | Literal["auto"]
"""A number, or "auto": by the marginal likelihood, anew after 1, 2, 4, 8, ... episodes."""

Belief = TypeVar("Belief", bound=tuple[Any, ...])


class Hyperparameters(NamedTuple):
    """Prior std λ, noise std σ and item std τ, each with its relative standard error.

    An error near 1 or above says that the data does not determine that scale.

    Attributes:
        lam: λ, the prior std of a coefficient.
        sigma: σ, the noise std of a weight.
        tau: τ, the std of the deviations of items; 0 if no items were given.
        lam_error: the relative standard error of λ.
        sigma_error: the relative standard error of σ.
        tau_error: the relative standard error of τ.
        log_evidence: the log marginal likelihood at these scales.
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


def fit_hyperparameters(rows: Any, weights: Any, items: Any = None) -> Hyperparameters:
    """The scales of the largest marginal likelihood: λ and σ, and τ if items are given.

    A weak prior, a factor of twenty around the size of the weights, keeps the answer finite where
    the data is silent; the errors say when that is so.

    Args:
        rows: one feature row per observation, (n, d).
        weights: one number per row.
        items: the item of each row, any labels. Without it τ is taken as 0.

    Returns:
        the scales with their relative errors; printed, a table with intervals.

    Raises:
        FeaturesError: if rows are no finite table.
        WeightsError: if there is not one finite weight per row.

    >>> import numpy as np
    >>> from superarm import fit_hyperparameters
    >>> rng = np.random.default_rng(0)
    >>> rows, theta = rng.standard_normal((5000, 20)), rng.standard_normal(20)
    >>> scales = fit_hyperparameters(rows, rows @ theta + 0.3 * rng.standard_normal(5000))
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


def maximize(summary: Summary, **known: float) -> Hyperparameters:
    """The scales of the largest marginal likelihood; those that are `known` stay as they are."""
    search = _Search(summary, known)
    x = search.best()
    relative = search.relative(x)
    value, _ = log_evidence(search.summary, relative)
    in_units = value - summary.rows * math.log(search.units[-1])
    scales = [known.get(name, v) for name, v in zip(NAMES, relative * search.units, strict=True)]
    return Hyperparameters(*map(float, [*scales, *search.errors(x), in_units]))


def best_scales(summary: Summary, size: float | None = None, **known: float) -> list[float]:
    """λ, σ and τ of the largest marginal likelihood, to three digits: more is noise, and the order
    of feedback must not matter.

    `size` is what the weights are expected to vary by, if it is not what they do. For a learner σ
    must not be lost in τ, nor τ in σ, because few items happened to repeat what they showed before:
    with R = (τ/σ)², the log density of R has the weak prior (log R - R)/2.
    """
    search = _Search(summary, known, size, balanced="tau" not in known)
    found = search.relative(search.best()) * search.units
    return [known.get(name, _rounded(x)) for name, x in zip(NAMES, found, strict=True)]


def best_scales_of_rows(
    summary: Summary, size: float | None = None, *, lam: float = math.nan, sigma: float = math.nan
) -> tuple[float, float] | None:
    """`best_scales` where items have no deviations, all in one kernel: λ and σ, of which those that
    are given stay as they are; None where weights do not say what scales are.
    """
    of = Rows(
        summary.D,
        summary.y,
        float(summary.rows),
        float(summary.residual),
        size or 0.0,
        2 * WEAK**2,
    )
    found = scales_of_rows(float(lam), float(sigma), LOW, HIGH, of)
    if any(map(math.isnan, found)):
        return None
    return (
        _rounded(found[0]) if math.isnan(lam) else lam,
        _rounded(found[1]) if math.isnan(sigma) else sigma,
    )


def _rounded(scale: float) -> float:
    return float(f"{scale:.3g}")


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
        unit = np.ones(len(summary.within))
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
        shrunk = np.isfinite(self.summary.D)
        self.weights = Weights(
            self.summary.D[shrunk] ** 2,
            self.summary.y[shrunk] ** 2,
            free=float(summary.rows) - len(summary.D),
            rows=float(summary.rows),
            residual=float(self.summary.residual),
            wide=2 * WEAK**2,
        )

    def relative(self, x: Array) -> Array:
        """λ, σ and τ in their units."""
        scales: Array = self.known.copy()
        scales[self.free] = np.exp(x)
        return scales

    def descend(self, x: Array) -> tuple[float, Array]:
        """Minus log p(w) and the log of the weak prior, and its gradient."""
        scales = self.relative(x)
        likely = scales.copy()
        if self.balanced:  # a line search may step to where only the prior on R counts
            likely[1] = max(scales[1], FARTHEST * scales[2])
        value, gradient = log_evidence(self.summary, likely)
        if self.balanced:
            R = float(scales[2] / scales[1]) ** 2
            value += (math.log(R) - R) / 2
            gradient += (1 - R) * np.array([0.0, -1.0, 1.0])
        wide = 1 + x**2 / (2 * WEAK**2)
        return float(np.log(wide).sum()) - value, x / (WEAK**2 * wide) - gradient[self.free]

    def best(self) -> Array:
        """The x of the largest marginal likelihood."""
        if not self.free.any():
            return np.empty(0)
        if not self.free[2]:
            of_rows: Array = self._of_rows(best_of_grid, descend)[self.free[:2]]
            return of_rows
        from scipy.optimize import minimize

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
        """Where to begin: at the best λ and σ without deviations, of all on a grid, with some of
        that noise taken as the items' own.
        """
        lam, sigma = np.exp(self._of_rows(best_of_grid))
        starts = []
        for share in SPLITS:
            noise = sigma * math.sqrt(1 - share)
            own = sigma * math.sqrt(share)
            starts.append(np.log([lam, noise, own])[self.free])
        return starts

    def _of_rows(self, *searches: Callable[..., None]) -> Array:
        """What searches find one after the other, without deviations: log λ and log σ."""
        free = self.free[:2]
        least = np.where(free, LOW, -np.inf)
        most = np.where(free, HIGH, np.inf)
        x = np.log(np.where(free, 1.0, self.known[:2]))
        for search in searches:
            search(x, free, least, most, self.weights)
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
        low, high = np.array(RANGES)[self.free].T
        inside = (variance > 0) & (x > low) & (x < high)
        errors[self.free] = np.sqrt(np.where(inside, variance, np.inf))
        return errors


def _sizes(summary: Summary) -> tuple[float, float]:
    """Root mean squares of the weights and of the lengths of the feature rows: where the weak prior
    is centred.

    A coefficient with a flat prior is left out: it may hide what the others say.
    """
    if says_nothing(summary):
        raise no_scales()
    size = math.sqrt(Squares.of(summary).varied / summary.rows)
    D = summary.D[np.isfinite(summary.D)]
    length = math.sqrt((D**2).sum() / summary.rows)
    return size, length or 1.0


def require_squares(*values: Array) -> None:
    """Refuse numbers whose squares would leave the range of float64, before a belief holds them."""
    given = [value for value in values if 0 not in value.shape]
    if any(max(float(value.max()), -float(value.min())) > LARGEST for value in given):
        raise NumericalError(
            f"features or weights beyond {LARGEST:g} are too large to find scales for: "
            "use other units"
        )


def map_entries(
    due: Array, belief: Belief, refit: Callable[[Belief, tuple[int, ...]], Belief]
) -> Belief:
    """The batch of beliefs with `refit(entry, its index)` in place of the entries that are due."""
    if not due.any():
        return belief
    if not due.shape and not is_tensor(due):  # a single belief, which is an entry of its own
        return refit(belief, ())
    arrays = [to_numpy(x).copy("K") for x in belief]
    for at in np.argwhere(to_numpy(due)):
        b = tuple(at)
        entry = type(belief)(*(np.asarray(x[b]) for x in arrays))
        for x, new in zip(arrays, refit(entry, b), strict=True):
            x[b] = new
    return type(belief)(*map(as_like, belief, arrays))


def fixed_hyperparameters(**values: Hyperparameter) -> dict[str, float]:
    """The hyperparameters that are numbers, which must be positive, by name."""
    fixed: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, str):
            fixed[name] = value
        elif value != "auto":
            raise ParameterError(f'{name} must be a positive number or "auto", got {value!r}')
    require_positive(**fixed)
    fixed = {name: float(value) for name, value in fixed.items()}  # NumPy's would keep their dtype
    extreme = any(not 1e-100 < value < 1e100 for value in fixed.values())
    if extreme and len(fixed) < len(values):
        raise ParameterError(
            f'beside a scale that is "auto", others must lie between 1e-100 and 1e100, got {fixed}'
        )
    return fixed

"""Hyperparameters of the largest marginal likelihood: prior std λ, noise std σ and item std τ.

`beliefs.marginal_likelihood` has the density, and `beliefs.newton` the search for λ and σ.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from superarm.arrays import Array, as_like, is_tensor, to_numpy
from superarm.beliefs.marginal_likelihood import (
    MAX_MAGNITUDE,
    ItemMoments,
    SufficientStatistics,
    degenerate_error,
    log_marginal,
    statistics_of_items,
    statistics_of_rows,
)
from superarm.beliefs.newton import (
    PRIOR_WIDTH,
    Range,
    grid_search,
    minimize_penalized,
    objective,
    penalized,
)
from superarm.checks import as_numbers, check_features, require_positive
from superarm.errors import (
    FeaturesError,
    ItemsError,
    NumericalError,
    ParameterError,
    WeightsError,
)

LOG_RANGES: Mapping[str, Range] = {
    "lam": (-25.0, 25.0),
    "sigma": (-25.0, 4.0),
    "tau": (-25.0, 4.0),
}
"""Ranges of log λ, log σ and log τ, in units of the weights."""
MAX_LOG = 150.0
"""Largest logarithm of a fixed hyperparameter, in those units: ratios stay in float64."""
MIN_NOISE_RATIO = 1e-5
"""Least σ/τ at which the marginal likelihood is evaluated beside a prior on that ratio."""
ITEM_FRACTIONS = (0.02, 0.3, 0.9)
"""Shares of the residual variance that items explain where searches start."""

Hyperparameter: TypeAlias = float | Literal["auto"]
"""A number, or "auto": fitted by the marginal likelihood after 1, 2, 4, 8, ... episodes."""

Belief = TypeVar("Belief", bound=tuple[Any, ...])


class Hyperparameters(NamedTuple):
    """Prior std λ, noise std σ and item std τ, each with its relative standard error.

    An error near 1 or above says that the data does not determine that number.

    Attributes:
        lam: λ, the prior std of a coefficient.
        sigma: σ, the noise std of a weight.
        tau: τ, the std of item effects; 0 if no items were given.
        lam_error: the relative standard error of λ.
        sigma_error: the relative standard error of σ.
        tau_error: the relative standard error of τ.
        log_evidence: the log marginal likelihood at these hyperparameters.
    """

    lam: float
    sigma: float
    tau: float
    lam_error: float
    sigma_error: float
    tau_error: float
    log_evidence: float

    def __str__(self) -> str:
        lines = [
            _line("lam", self.lam, self.lam_error, "prior"),
            _line("sigma", self.sigma, self.sigma_error, "noise"),
            _line("tau", self.tau, self.tau_error, "items"),
        ]
        return "\n".join(lines)


def _line(name: str, value: float, error: float, meaning: str) -> str:
    factor = math.exp(2 * error)
    low = value / factor
    high = value * factor
    interval = f"between {low:.4g} and {high:.4g}"
    return f"{name:5} {value:10.4g}   {interval}   ({meaning})"


def fit_hyperparameters(rows: Any, weights: Any, items: Any = None) -> Hyperparameters:
    """Hyperparameters of the largest marginal likelihood: λ and σ, and τ if items are given.

    A weak prior, a factor of twenty around the size of the weights, keeps the answer finite where
    the data is silent; the errors say when that is so.

    Args:
        rows: one feature row per observation, (n, d).
        weights: one number per row.
        items: the item of each row, any labels. Without it τ is taken as 0.

    Returns:
        the hyperparameters with their relative errors; printed, a table with intervals.

    Raises:
        FeaturesError: if rows are not a finite table.
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
    n_rows = len(joined)
    if items is None:
        return estimate_lam_sigma(statistics_of_rows(joined, n_rows))
    item, n = _item_numbers(items, n_rows)
    means = np.zeros((len(n), joined.shape[1]))
    np.add.at(means, item, joined)
    means /= n[:, None]
    within = joined - means[item]
    statistics, moments = statistics_of_items(n, means, within, n_rows)
    return estimate_with_items(statistics, moments)


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


def _item_numbers(items: Any, n_rows: int) -> tuple[Array, Array]:
    """Number of the item of each row (n,), and how often each item occurs (E,)."""
    try:
        labels = np.asarray(items)
        _, item, n = np.unique(labels, return_inverse=True, return_counts=True)
    except (TypeError, ValueError) as error:
        raise ItemsError(
            f"items must be one label for each row, all of one kind ({error})"
        ) from error
    if labels.shape != (n_rows,):
        raise ItemsError(
            f"items must be one label for each of {n_rows} rows, got shape {labels.shape}"
        )
    return item, n


def estimate_lam_sigma(statistics: SufficientStatistics) -> Hyperparameters:
    """λ and σ of the largest marginal likelihood of rows, with their errors."""
    if statistics.is_degenerate:
        raise degenerate_error()
    standardized, units = statistics.standardized()
    lam_range = LOG_RANGES["lam"]
    sigma_range = LOG_RANGES["sigma"]
    x = minimize_penalized(lam_range, sigma_range, standardized)
    optimum = penalized(*x, standardized)
    hessian = np.array(
        [
            [optimum.lam_lam, optimum.lam_sigma],
            [optimum.lam_sigma, optimum.sigma_sigma],
        ]
    )
    lam_error, sigma_error = _relative_errors(hessian, np.array(x), [lam_range, sigma_range])
    constant = statistics.n_rows * math.log(math.sqrt(2 * math.pi) * units.weight)
    return Hyperparameters(
        math.exp(x[0]) * units.coefficient,
        math.exp(x[1]) * units.weight,
        0.0,
        float(lam_error),
        float(sigma_error),
        0.0,
        -objective(*x, standardized).value - constant,
    )


def estimate_with_items(statistics: SufficientStatistics, items: ItemMoments) -> Hyperparameters:
    """λ, σ and τ of the largest marginal likelihood of rows of items, with their errors."""
    search = EvidenceSearch(statistics, items, {})
    x = search.minimum()
    hessian = search.hessian(x)
    lam_error, sigma_error, tau_error = _relative_errors(hessian, x, search.bounds)
    relative = np.exp(x)
    lam, sigma, tau = relative * search.units
    log_p, _ = log_marginal(search.statistics, search.items, *relative)
    constant = statistics.n_rows * math.log(search.units[-1])
    return Hyperparameters(
        float(lam),
        float(sigma),
        float(tau),
        float(lam_error),
        float(sigma_error),
        float(tau_error),
        log_p - constant,
    )


def _relative_errors(hessian: Array, x: Array, bounds: Any) -> Array:
    """Standard errors of logarithms from the curvature at their optimum; infinite for a logarithm
    on a bound, or without curvature.
    """
    symmetric = (hessian + hessian.T) / 2
    variance = np.diagonal(np.linalg.pinv(symmetric))
    low, high = np.transpose(bounds)
    is_inside = (x > low) & (x < high)
    is_inside &= variance > 0
    return np.sqrt(np.where(is_inside, variance, np.inf))


def optimal_lam_sigma(
    statistics: SufficientStatistics,
    fixed: Mapping[str, float],
    expected_size: float | None = None,
) -> tuple[float, float] | None:
    """λ and σ of the largest marginal likelihood without item effects, to three digits.

    More digits are noise, and the order of feedback must not matter.

    Args:
        statistics: of the rows.
        fixed: values of "lam" or "sigma" that are not fitted.
        expected_size: root mean square expected of the linear predictors; by default that of the
            weights.

    Returns:
        λ and σ, or None where the weights do not determine them.
    """
    if statistics.is_degenerate:
        return None
    standardized, units = statistics.standardized(expected_size)
    log_lam, log_sigma = minimize_penalized(
        _log_range("lam", fixed, units.coefficient),
        _log_range("sigma", fixed, units.weight),
        standardized,
    )
    return (
        _fixed_or_rounded("lam", fixed, math.exp(log_lam) * units.coefficient),
        _fixed_or_rounded("sigma", fixed, math.exp(log_sigma) * units.weight),
    )


def optimal_hyperparameters(
    statistics: SufficientStatistics,
    items: ItemMoments,
    fixed: Mapping[str, float],
    expected_size: float | None = None,
) -> tuple[float, float, float] | None:
    """λ, σ and τ of the largest marginal likelihood, to three digits, as in `optimal_lam_sigma`.

    For a learner σ must not be lost in τ, nor τ in σ, because few items happened to repeat what
    they showed before: if τ is free, R = (τ/σ)² has a weak prior of log density (log R - R)/2.
    """
    if fixed.get("tau") == 0:
        lam_sigma = optimal_lam_sigma(statistics, fixed, expected_size)
        return lam_sigma and (*lam_sigma, 0.0)
    if statistics.is_degenerate:
        return None
    search = EvidenceSearch(
        statistics, items, fixed, expected_size=expected_size, has_ratio_prior="tau" not in fixed
    )
    relative = np.exp(search.minimum())
    lam, sigma, tau = relative * search.units
    return (
        _fixed_or_rounded("lam", fixed, lam),
        _fixed_or_rounded("sigma", fixed, sigma),
        _fixed_or_rounded("tau", fixed, tau),
    )


def _log_range(name: str, fixed: Mapping[str, float], unit: float) -> Range:
    """Range of the logarithm of a hyperparameter in this unit; a single point if it is fixed."""
    if name not in fixed:
        return LOG_RANGES[name]
    log_unit = math.log(unit)
    x = math.log(fixed[name]) - log_unit
    x = min(max(x, -MAX_LOG), MAX_LOG)
    return x, x


def _fixed_or_rounded(name: str, fixed: Mapping[str, float], value: float) -> float:
    if name in fixed:
        return fixed[name]
    return float(f"{value:.3g}")


class EvidenceSearch:
    """Search for the largest marginal likelihood with item effects, beside a weak prior.

    A point is x = (log λ, log σ, log τ) in units of the weights.

    Args:
        statistics: of all rows.
        items: of the rows by item.
        fixed: values of hyperparameters that are not fitted, by name; τ is not fixed at 0.
        expected_size: root mean square expected of the linear predictors; by default that of the
            weights.
        has_ratio_prior: True for a prior on (τ/σ)², see `optimal_hyperparameters`.
    """

    def __init__(
        self,
        statistics: SufficientStatistics,
        items: ItemMoments,
        fixed: Mapping[str, float],
        *,
        expected_size: float | None = None,
        has_ratio_prior: bool = False,
    ) -> None:
        if statistics.is_degenerate:
            raise degenerate_error()
        self.statistics, units = statistics.standardized(expected_size)
        self.items = items.standardized(units.weight)
        self.units = np.array([units.coefficient, units.weight, units.weight])
        self.has_ratio_prior = has_ratio_prior
        self.bounds = [
            _log_range(name, fixed, unit) for name, unit in zip(LOG_RANGES, self.units, strict=True)
        ]
        self.is_free = np.array([low < high for low, high in self.bounds])

    def objective(self, x: Array) -> tuple[float, Array]:
        """-log p(w) less the log density of the prior, and the gradient."""
        lam, sigma, tau = np.exp(x)
        used_sigma = sigma
        if self.has_ratio_prior:
            used_sigma = max(sigma, MIN_NOISE_RATIO * tau)
        log_p, slope = log_marginal(self.statistics, self.items, lam, used_sigma, tau)
        if self.has_ratio_prior:
            ratio = tau / sigma
            R = ratio**2
            log_p += (math.log(R) - R) / 2
            direction = np.array([0.0, -1.0, 1.0])
            slope += (1 - R) * direction
        variance = PRIOR_WIDTH**2
        u = 1 + x**2 / (2 * variance)
        log_u = np.log(u)
        value = log_u[self.is_free].sum() - log_p
        gradient = x / (variance * u) - slope
        free_gradient = np.where(self.is_free, gradient, 0.0)
        return float(value), free_gradient

    def minimum(self) -> Array:
        """Point of the least objective, from the best of the starts."""
        from scipy.optimize import minimize

        starts = self.starts()
        start = min(starts, key=lambda x: self.objective(x)[0])
        optimum = minimize(self.objective, start, jac=True, method="L-BFGS-B", bounds=self.bounds)
        x: Array = optimum.x
        return x

    def starts(self) -> list[Array]:
        """Points with the best λ and σ of a grid without item effects, and a fraction of that noise
        as item effects.
        """
        lam_range, sigma_range, _ = self.bounds
        log_lam, log_sigma = grid_search(lam_range, sigma_range, self.statistics)
        low, high = np.transpose(self.bounds)
        points = []
        for fraction in ITEM_FRACTIONS:
            log_noise = log_sigma + math.log(1 - fraction) / 2
            log_tau = log_sigma + math.log(fraction) / 2
            point = np.array([log_lam, log_noise, log_tau])
            points.append(np.clip(point, low, high))
        return points

    def hessian(self, x: Array) -> Array:
        """Hessian of the objective, by differences of its gradient."""
        step = 1e-4
        rows = []
        for h in step * np.eye(len(x)):
            _, above = self.objective(x + h)
            _, below = self.objective(x - h)
            difference = above - below
            rows.append(difference / (2 * step))
        return np.array(rows)


def require_squares(*values: Array) -> None:
    """Refuse numbers whose squares would leave the range of float64, before a belief holds them."""
    for array in values:
        if 0 in array.shape:
            continue
        magnitude = max(float(array.max()), -float(array.min()))
        if magnitude > MAX_MAGNITUDE:
            raise NumericalError(
                f"features or weights beyond {MAX_MAGNITUDE:g} are too large to find scales for: "
                "use other units"
            )


def map_entries(
    due: Array, belief: Belief, refit: Callable[[Belief, tuple[int, ...]], Belief]
) -> Belief:
    """The batch of beliefs with `refit(entry, index)` in place of the entries that are due."""
    if not due.any():
        return belief
    if not due.shape and not is_tensor(due):  # a single belief, its own only entry
        return refit(belief, ())
    arrays = [to_numpy(x).copy("K") for x in belief]
    for index in map(tuple, np.argwhere(to_numpy(due))):
        entry = type(belief)(*(np.asarray(x[index]) for x in arrays))
        for x, new in zip(arrays, refit(entry, index), strict=True):
            x[index] = new
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

"""Search for the λ and σ of the largest marginal likelihood, by Newton's method.

The objective is -log p(w), of `beliefs.marginal_likelihood`, as a function of log λ and log σ. With
P = λ²D², q = P/(σ² + P), p = 1 - q and m = y²/(σ² + P), its derivatives are, N log 2π / 2 aside,

    value           ½ ((N - d) log σ² + r²/σ² + Σ log(σ² + P) + m)
    slope of λ      Σ q (1 - m)
    slope of σ      (N - d) - r²/σ² + Σ p (1 - m)
    λ twice         2 Σ q (p (1 - m) + q m)
    σ twice         2 r²/σ² + 2 Σ p (q (1 - m) + p m)
    λ and σ         -2 Σ q p (1 - 2m)

The search adds a weak prior with heavy tails, log(1 + x²/2W²), on each of the two logarithms. With
200 rows of 20 features its kernels take 10 µs, and L-BFGS-B of SciPy takes 49 times as long.
"""

import math
from typing import NamedTuple

from superarm.arrays.compiled import compiled
from superarm.beliefs.marginal_likelihood import MIN_SUM_OF_SQUARES, SufficientStatistics

PRIOR_WIDTH = 3.0
"""W, the width of the prior on the logarithm of a hyperparameter: a factor of twenty around the
size of the weights. It has heavy tails, as that size may be due to one large column."""
GRID_STEP = 0.5
"""Step of the logarithms on the grid."""
MAX_STEPS = 100
"""Newton steps of a search: more than any needs."""
TOLERANCE = 1e-9
"""Change of the logarithms below which a step is the last."""
MAX_STEP = 4.0
"""Largest change of a logarithm in one step."""

Range = tuple[float, float]
"""Lower and upper bound of a logarithm; of a hyperparameter that is fixed, both are the same."""


class Derivatives(NamedTuple):
    """Value, gradient and Hessian of a function of log λ and log σ."""

    value: float
    lam: float
    sigma: float
    lam_lam: float
    sigma_sigma: float
    lam_sigma: float


@compiled
def minimize_penalized(
    lam_range: Range, sigma_range: Range, statistics: SufficientStatistics
) -> tuple[float, float]:
    """Log λ and log σ at the minimum of `penalized` within their ranges."""
    log_lam, log_sigma = grid_search(lam_range, sigma_range, statistics)
    return newton(log_lam, log_sigma, lam_range, sigma_range, statistics)


@compiled
def grid_search(
    lam_range: Range, sigma_range: Range, statistics: SufficientStatistics
) -> tuple[float, float]:
    """Best log λ and log σ on a grid of ratios λ/σ, with the best σ for each if both are free."""
    n = statistics.n_rows - statistics.n_flat
    first = lam_range[0] - sigma_range[1]
    last = lam_range[1] - sigma_range[0]
    best = (lam_range[0], sigma_range[0])
    lowest = math.inf
    n_steps = (last - first) / GRID_STEP
    for i in range(int(n_steps + 1.5)):
        log_ratio = first + i * GRID_STEP
        misfit, log_det = profile_at_ratio(log_ratio, statistics)
        variance = max(misfit, MIN_SUM_OF_SQUARES) / statistics.n_rows
        log_sigma = clip(math.log(variance) / 2, sigma_range)
        if lam_range[0] == lam_range[1]:
            log_sigma = lam_range[0] - log_ratio
        log_product = log_sigma + log_ratio
        log_lam = clip(log_product, lam_range)
        is_clipped = abs(log_product - log_lam) > TOLERANCE
        if is_clipped:
            misfit, log_det = profile_at_ratio(log_lam - log_sigma, statistics)
        sigma2 = math.exp(2 * log_sigma)
        lam_prior, _, _ = log_prior(log_lam)
        sigma_prior, _, _ = log_prior(log_sigma)
        value = n * log_sigma + misfit / (2 * sigma2) + log_det / 2
        value += lam_prior + sigma_prior
        if value < lowest:
            lowest = value
            best = (log_lam, log_sigma)
        if is_clipped and log_lam == lam_range[1]:  # λ only grows with the ratio
            break
    return best


@compiled
def clip(x: float, bounds: Range) -> float:
    """The number within the bounds that is nearest to x."""
    low, high = bounds
    return min(max(x, low), high)


@compiled
def profile_at_ratio(log_ratio: float, statistics: SufficientStatistics) -> tuple[float, float]:
    """Squares of the weights that are left at ρ = (λ/σ)², r² + Σ y²/(1 + ρD²), and
    Σ log(1 + ρD²).
    """
    ratio = math.exp(2 * log_ratio)
    misfit = statistics.residual_ss
    log_det = 0.0
    product = 1.0
    for k in range(len(statistics.D)):
        D = statistics.D[k]
        y = statistics.y[k]
        factor = 1 + ratio * (D * D)  # powers take longer to compile
        misfit += y * y / factor
        product *= factor
        if product > 1e100:  # one logarithm of many factors
            log_det += math.log(product)
            product = 1.0
    return misfit, log_det + math.log(product)


@compiled
def objective(log_lam: float, log_sigma: float, statistics: SufficientStatistics) -> Derivatives:
    """-log p(w) less N log 2π / 2, and its derivatives by log λ and log σ."""
    lam2 = math.exp(2 * log_lam)
    sigma2 = math.exp(2 * log_sigma)
    n_residual = statistics.n_rows - statistics.n_flat - len(statistics.D)
    noise = statistics.residual_ss / sigma2
    twice = n_residual * 2 * log_sigma + noise
    lam = 0.0
    sigma = n_residual - noise
    lam_lam = 0.0
    sigma_sigma = 2 * noise
    lam_sigma = 0.0
    for k in range(len(statistics.D)):
        D = statistics.D[k]
        y = statistics.y[k]
        P = lam2 * (D * D)
        total = sigma2 + P
        q = P / total
        p = sigma2 / total
        m = y * y / total
        rest = 1 - m
        lam_change = p * rest + q * m
        sigma_change = q * rest + p * m
        twice += math.log(total) + m
        lam += q * rest
        sigma += p * rest
        lam_lam += 2 * q * lam_change
        sigma_sigma += 2 * p * sigma_change
        lam_sigma -= 2 * q * p * (1 - 2 * m)
    return Derivatives(twice / 2, lam, sigma, lam_lam, sigma_sigma, lam_sigma)


@compiled
def log_prior(x: float) -> tuple[float, float, float]:
    """Minus the log density of the weak prior on a logarithm, with first and second derivative."""
    variance = 2 * (PRIOR_WIDTH * PRIOR_WIDTH)
    u = 1 + x * x / variance
    value = math.log(u)
    slope = 2 * x / (variance * u)
    curvature = 2 * (2 - u) / (variance * (u * u))
    return value, slope, curvature


@compiled
def penalized(log_lam: float, log_sigma: float, statistics: SufficientStatistics) -> Derivatives:
    """`objective` with the weak prior on λ and on σ."""
    likelihood = objective(log_lam, log_sigma, statistics)
    value_lam, slope_lam, curvature_lam = log_prior(log_lam)
    value_sigma, slope_sigma, curvature_sigma = log_prior(log_sigma)
    return Derivatives(
        likelihood.value + value_lam + value_sigma,
        likelihood.lam + slope_lam,
        likelihood.sigma + slope_sigma,
        likelihood.lam_lam + curvature_lam,
        likelihood.sigma_sigma + curvature_sigma,
        likelihood.lam_sigma,
    )


@compiled
def newton(
    log_lam: float,
    log_sigma: float,
    lam_range: Range,
    sigma_range: Range,
    statistics: SufficientStatistics,
) -> tuple[float, float]:
    """Log λ and log σ of the nearest minimum of `penalized` within their ranges."""
    point = penalized(log_lam, log_sigma, statistics)
    for _ in range(MAX_STEPS):
        lam_moves = may_move(log_lam, point.lam, lam_range)
        sigma_moves = may_move(log_sigma, point.sigma, sigma_range)
        lam_step, sigma_step = newton_step(point, lam_moves, sigma_moves)
        fraction = 1.0
        while True:
            new_lam = clip(log_lam - fraction * lam_step, lam_range)
            new_sigma = clip(log_sigma - fraction * sigma_step, sigma_range)
            candidate = penalized(new_lam, new_sigma, statistics)
            if candidate.value <= point.value or fraction < TOLERANCE:
                break
            fraction /= 2
        if candidate.value > point.value:
            break
        lam_change = abs(new_lam - log_lam)
        sigma_change = abs(new_sigma - log_sigma)
        change = max(lam_change, sigma_change)
        log_lam = new_lam
        log_sigma = new_sigma
        point = candidate
        if change < TOLERANCE:
            break
    return log_lam, log_sigma


@compiled
def may_move(x: float, slope: float, bounds: Range) -> bool:
    """True if the objective falls from x towards the inside of its range."""
    low, high = bounds
    if low == high:
        return False
    if x <= low:
        return slope < 0
    if x >= high:
        return slope > 0
    return True


@compiled
def newton_step(point: Derivatives, lam_moves: bool, sigma_moves: bool) -> tuple[float, float]:
    """Newton's step for the variables that move, with a positive definite Hessian."""
    a = point.lam_lam
    b = point.sigma_sigma
    c = point.lam_sigma
    if lam_moves and sigma_moves:
        middle = (a + b) / 2
        half = (a - b) / 2
        radius = math.sqrt(half * half + c * c)
        min_eigenvalue = middle - radius
        least = 1e-6 * (abs(a) + abs(b)) + TOLERANCE
        shift = max(least - min_eigenvalue, 0.0)
        a += shift
        b += shift
        det = a * b - c * c
        lam_step = (b * point.lam - c * point.sigma) / det
        sigma_step = (a * point.sigma - c * point.lam) / det
    else:
        lam_step = point.lam / max(abs(a), TOLERANCE) if lam_moves else 0.0
        sigma_step = point.sigma / max(abs(b), TOLERANCE) if sigma_moves else 0.0
    bounds = (-MAX_STEP, MAX_STEP)
    return clip(lam_step, bounds), clip(sigma_step, bounds)

"""λ and σ of the largest marginal likelihood without deviations of items, by Newton's method.

Minus the logarithm of the marginal likelihood, which is in `beliefs.marginal_likelihood`, and of
the weak prior, is a function of x = (log λ, log σ). With P = λ²D², q = P/(σ² + P) and m = y²/(σ² +
P), half of the sum of what depends on them has the derivatives

    by λ            Σ q (1 - m)
    by σ            (N - d) - r²/σ² + Σ (1 - q) (1 - m)
    by λ twice      2 Σ q ((1 - q) (1 - m) + q m)
    by σ twice      2 r²/σ² + 2 Σ (1 - q) (q (1 - m) + (1 - q) m)
    by λ and σ      -2 Σ q (1 - q) (1 - 2m)

A prior of width W on each x is log(1 + x²/2W²).
"""

import math
from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.beliefs.marginal_likelihood import LEAST, ROUNDING

SPACING = 0.5
"""Of the logarithms on the grid."""
STEPS = 100
"""More than any search needs."""
NEAR = 1e-9
"""Steps that change scales by less are the last."""


class Weights(NamedTuple):
    """What the marginal likelihood depends on: see `beliefs.marginal_likelihood.Summary`."""

    D2: Array  # (r,) squares of the finite D
    y2: Array  # (r,) squares of their y
    free: float  # N - d
    rows: float  # N
    residual: float  # r²
    wide: float  # 2W²


class Rows(NamedTuple):
    """The same in the units that features and weights came in."""

    D: Array  # (r,) infinite for a coefficient with a flat prior
    y: Array  # (r,)
    rows: float  # N
    residual: float  # r²
    size: float  # what weights are expected to vary by; 0 for what they do
    wide: float  # 2W²


class Point(NamedTuple):
    """The function and its derivatives."""

    value: float
    by_lam: float
    by_sigma: float
    lam_lam: float
    sigma_sigma: float
    lam_sigma: float


@compiled
def scales_of_rows(
    lam: float, sigma: float, low: Array, high: Array, of: Rows
) -> tuple[float, float]:
    """The best λ and σ; one that is not NaN is known, and stays as it is. Logarithms of the others
    are between bounds, relative to the size of the weights. NaN where `says_nothing` of these.
    """
    shrunk = np.isfinite(of.D)
    D2 = of.D[shrunk] ** 2
    y2 = of.y[shrunk] ** 2
    varied = of.residual + y2.sum()
    level = (of.y[~shrunk] ** 2).sum()
    if not varied > max(ROUNDING**2 * (varied + level), LEAST):
        return math.nan, math.nan
    size = of.size
    if size == 0:
        size = math.sqrt(varied / of.rows)
    length = math.sqrt(D2.sum() / of.rows)
    if length == 0:
        length = 1.0
    weights = Weights(
        D2 / length**2,
        y2 / size**2,
        of.rows - len(of.D),
        of.rows,
        of.residual / size**2,
        of.wide,
    )
    unit = np.array([size / length, size])
    given = np.array([lam, sigma])
    free = np.isnan(given)
    if not free.any():
        return lam, sigma
    x = np.zeros(2)
    least = np.full(2, -np.inf)
    most = np.full(2, np.inf)
    for k in range(2):
        if free[k]:
            least[k] = low[k]
            most[k] = high[k]
        else:
            x[k] = math.log(given[k] / unit[k])
    best_of_grid(x, free, least, most, weights)
    descend(x, free, least, most, weights)
    for k in range(2):
        if free[k]:
            given[k] = math.exp(x[k]) * unit[k]
    return given[0], given[1]


@compiled
def best_of_grid(x: Array, free: Array, low: Array, high: Array, of: Weights) -> None:
    """Make x, where it is free, the best of a grid; where both are, at the best σ for each λ/σ on
    the grid.
    """
    if not free.any():
        return
    both = free.all()
    one = 0 if free[0] else 1
    first = low[0] - high[1] if both else low[one]
    last = high[0] - low[1] if both else high[one]
    least = math.inf
    at = x.copy()
    for i in range(int((last - first) / SPACING) + 1):
        here = first + i * SPACING
        left = 0.0
        log_det = 0.0
        inside = False
        if both:
            left, log_det = _at_ratio(math.exp(2 * here), of)
            at[1] = math.log(max(left, LEAST) / of.rows) / 2
            at[0] = at[1] + here
            inside = low[0] <= at[0] <= high[0] and low[1] <= at[1] <= high[1]
        else:
            at[one] = here
        too_large = at[0] > high[0]
        if not inside:
            for k in range(2):
                at[k] = min(max(at[k], low[k]), high[k])
            left, log_det = _at_ratio(math.exp(2 * (at[0] - at[1])), of)
        value = _value(at, free, left, log_det, of)
        if value < least:
            least = value
            for k in range(2):
                x[k] = at[k]
        if too_large:  # as λ grows with the ratio
            return


@compiled
def _at_ratio(ratio: float, of: Weights) -> tuple[float, float]:
    """Where (λ/σ)² = ρ is this: what is left of the squares of the weights, r² + Σ y²/(1 + ρD²),
    and Σ log(1 + ρD²).
    """
    left = of.residual
    log_det = 0.0
    product = 1.0
    for k in range(len(of.D2)):
        shrunk = 1 + ratio * of.D2[k]
        left += of.y2[k] / shrunk
        product *= shrunk
        if product > 1e100:  # one logarithm of many
            log_det += math.log(product)
            product = 1.0
    return left, log_det + math.log(product)


@compiled
def _value(x: Array, free: Array, left: float, log_det: float, of: Weights) -> float:
    """The function at x, from what it is at the ratio of λ and σ there."""
    n = of.free + len(of.D2)
    prior = 1.0
    for k in range(2):
        if free[k]:
            prior *= 1 + x[k] ** 2 / of.wide
    value: float = n * x[1] + left / (2 * math.exp(2 * x[1])) + log_det / 2 + math.log(prior)
    return value


@compiled
def point(x: Array, free: Array, of: Weights) -> Point:
    """The function at x, and its derivatives."""
    lam2 = math.exp(2 * x[0])
    sigma2 = math.exp(2 * x[1])
    noise = of.residual / sigma2
    value = of.free * 2 * x[1] + noise
    by_lam = 0.0
    by_sigma = of.free - noise
    lam_lam = 0.0
    sigma_sigma = 2 * noise
    lam_sigma = 0.0
    for k in range(len(of.D2)):
        total = sigma2 + lam2 * of.D2[k]
        q = lam2 * of.D2[k] / total
        p = sigma2 / total
        m = of.y2[k] / total
        value += math.log(total) + m
        by_lam += q * (1 - m)
        by_sigma += p * (1 - m)
        lam_lam += 2 * q * (p * (1 - m) + q * m)
        sigma_sigma += 2 * p * (q * (1 - m) + p * m)
        lam_sigma -= 2 * q * p * (1 - 2 * m)
    value /= 2
    if free[0]:
        wide = 1 + x[0] ** 2 / of.wide
        value += math.log(wide)
        by_lam += 2 * x[0] / (of.wide * wide)
        lam_lam += 2 * (2 - wide) / (of.wide * wide**2)
    if free[1]:
        wide = 1 + x[1] ** 2 / of.wide
        value += math.log(wide)
        by_sigma += 2 * x[1] / (of.wide * wide)
        sigma_sigma += 2 * (2 - wide) / (of.wide * wide**2)
    return Point(value, by_lam, by_sigma, lam_lam, sigma_sigma, lam_sigma)


@compiled
def descend(x: Array, free: Array, low: Array, high: Array, of: Weights) -> None:
    """Move x, where it is free, to the least of the function between bounds that is near."""
    here = point(x, free, of)
    for _ in range(STEPS):
        moves_lam = free[0] and _may_move(x[0], here.by_lam, low[0], high[0])
        moves_sigma = free[1] and _may_move(x[1], here.by_sigma, low[1], high[1])
        step = _step(here, moves_lam, moves_sigma)
        share = 1.0
        while True:
            new = x.copy()
            for k in range(2):
                new[k] = min(max(x[k] - share * step[k], low[k]), high[k])
            there = point(new, free, of)
            if there.value <= here.value or share < NEAR:
                break
            share /= 2
        moved = max(abs(new[0] - x[0]), abs(new[1] - x[1]))
        if there.value > here.value:
            return
        for k in range(2):
            x[k] = new[k]
        here = there
        if moved < NEAR:
            return


@compiled
def _may_move(x: float, slope: float, low: float, high: float) -> bool:
    """Whether the function falls from x towards what is between the bounds."""
    return low < x < high or (x <= low and slope < 0) or (x >= high and slope > 0)


@compiled
def _step(here: Point, moves_lam: bool, moves_sigma: bool) -> tuple[float, float]:
    """Newton's step, for those that move, with curvatures that are made positive."""
    a = here.lam_lam
    b = here.sigma_sigma
    c = here.lam_sigma
    if not (moves_lam and moves_sigma):
        by_lam = here.by_lam / max(abs(a), NEAR) if moves_lam else 0.0
        by_sigma = here.by_sigma / max(abs(b), NEAR) if moves_sigma else 0.0
        return _bounded(by_lam), _bounded(by_sigma)
    # the least eigenvalue of [a c; c b]
    least = (a + b) / 2 - math.sqrt(((a - b) / 2) ** 2 + c**2)
    floor = 1e-6 * (abs(a) + abs(b)) + NEAR
    if least < floor:
        a += floor - least
        b += floor - least
    det = a * b - c * c
    by_lam = (b * here.by_lam - c * here.by_sigma) / det
    by_sigma = (a * here.by_sigma - c * here.by_lam) / det
    return _bounded(by_lam), _bounded(by_sigma)


@compiled
def _bounded(step: float) -> float:
    """A step by a factor of at most e⁴ at a time."""
    return min(max(step, -4.0), 4.0)

"""Clicks as Gaussian observations of log-odds, by moment matching.

    P(w = 1) = p = sigmoid(η),   log p(w) = v (w log p + (1 - w) log(1 - p))

Under the belief before it, η ~ N(m, s²). After the observation its density is no longer Gaussian;
the Gaussian of the same mean and variance takes its place. That is what a linear model would
believe that had seen, instead of the click, a target y with precision a:

    1/s'² = 1/s² + a,   m'/s'² = m/s² + a y

So `gaussian.condition` on the targets is the update. The observations of a block are matched in
turns, each given all the others. Weights between 0 and 1 are shares: w of v is binomial.
"""

import math
from typing import NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    as_float64,
    as_like,
    full,
    matvec,
    nonzero_rows,
    solve_rows,
    to_numpy,
    where,
)
from superarm.arrays.compiled import compiled
from superarm.beliefs.hyperparameters import require_squares
from superarm.checks import require_unit
from superarm.contracts import Feedback
from superarm.errors import NumericalError, ParameterError, WeightsError
from superarm.gaussian import HasFactor, condition

NODES = 129
"""Places at which a density is looked at; with that many the trapezoidal rule is exact to rounding
where s is below 10."""
STDS = 8.0
"""How far from its mean a Gaussian is looked at."""
NEGLIGIBLE = 40.0
"""Logarithm of the share of the highest density below which density does not count."""
PASSES = 30
"""How often the interval may be narrowed to where the density is."""
WIDEST = 1e12
"""The largest std of log-odds before a click."""
BLOCK = 64
"""Rows that are matched under one joint covariance."""
SWEEPS = 20
"""How often the observations of a block take turns."""
TOLERANCE = 1e-6
"""The largest change in standard deviations after which they agree."""


@compiled
def _log_sigmoid(x: float) -> float:
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


@compiled
def _moments(m: float, variance: float, w: float, v: float) -> tuple[float, float, float]:
    """Mean, variance and log mass of N(m, s²) times the likelihood of w (trapezoidal rule)."""
    height = np.empty(NODES)
    std = math.sqrt(variance)
    # the likelihood moves the mass by at most v s², up if w = 1 and down if w = 0
    low = m - STDS * std - v * (1 - w) * variance
    high = m + STDS * std + v * w * variance
    for _ in range(PASSES):
        step = (high - low) / (NODES - 1)
        for i in range(NODES):
            eta = low + i * step
            z = (eta - m) / std
            log_p = _log_sigmoid(eta) - (1 - w) * eta  # as log(1-p) = log p - eta
            height[i] = v * log_p - z * z / 2
        top = height.max()
        counts = np.flatnonzero(height > top - NEGLIGIBLE)
        first = low
        if len(counts) > NODES // 2:
            break
        low = first + (counts[0] - 1) * step
        high = first + (counts[-1] + 1) * step
    total = 0.0
    moved = 0.0
    for i in range(NODES):
        height[i] = math.exp(height[i] - top)
        total += height[i]
        moved += height[i] * (first + i * step - m)
    mean = moved / total
    square = 0.0
    for i in range(NODES):
        square += height[i] * (first + i * step - m - mean) ** 2
    log_mass = top + math.log(total * step / (std * math.sqrt(2 * math.pi)))
    return mean, square / total, log_mass


@compiled
def _match(
    out: Array,
    m: Array,
    V: Array,
    w: Array,
    v: Array,
    present: Array,
) -> None:
    """Fill out (B, 3, K) with targets, precisions, and what is missing of the log evidence."""
    for b in range(len(m)):
        a = np.zeros(m.shape[1])  # precisions
        ay = np.zeros(m.shape[1])  # precisions times targets
        for _ in range(SWEEPS):
            largest = 0.0
            for k in range(m.shape[1]):
                if not present[b, k]:
                    continue
                now = 1 / V[b, k, k]
                without = 1 / max(now - a[k], 1e-12 * now)  # variance without this observation
                mean = (m[b, k] * now - ay[k]) * without
                change, left, log_mass = _moments(mean, without, w[b, k], v[b, k])
                # below 1e-12 of the variance it is rounding that speaks
                precision = max(1 / left - 1 / without, 1e-12 / without)
                y = mean + change * (1 + 1 / (precision * without))
                more = precision - a[k]
                shift = (precision * y - ay[k] - more * m[b, k]) / (1 + more / now)
                largest = max(largest, abs(more) / now, abs(shift) / math.sqrt(now))
                column = V[b, :, k].copy()
                m[b] += column * shift
                V[b] -= (more / (1 + more / now)) * np.outer(column, column)
                a[k] = precision
                ay[k] = precision * y
                spread = without + 1 / precision
                log_density = -(math.log(2 * math.pi * spread) + (y - mean) ** 2 / spread) / 2
                out[b, 0, k] = y
                out[b, 1, k] = precision
                out[b, 2, k] = log_mass - log_density
            if largest < TOLERANCE:
                break


class Targets(NamedTuple):
    """Gaussian observations, with noise of std 1/√precision, that say what clicks say."""

    y: Array  # (*B, K)
    precision: Array  # (*B, K), 1 where nothing is present
    missing: Array  # (*B,) the log evidence of the clicks less that of the targets


def targets(m: Array, V: Array, w: Array, v: Array, present: Array) -> Targets:
    """For log-odds that are believed to be N(m, V): (*B, K), (*B, K, K).

    Each of the weights w, of importance v, is matched given all the others, in turns, until they
    agree (expectation propagation).
    """
    _require_narrow(V)
    *batch, K = m.shape
    out = np.zeros((*batch, 3, K))
    out[..., 1, :] = 1.0
    try:
        _match(
            out.reshape(-1, 3, K),
            to_numpy(m).reshape(-1, K).copy(),
            to_numpy(V).reshape(-1, K, K).copy(),
            to_numpy(as_float64(w)).reshape(-1, K),
            to_numpy(v).reshape(-1, K),
            to_numpy(present).reshape(-1, K),
        )
    except ZeroDivisionError as error:
        raise NumericalError(
            "clicks on these features cannot be computed with in float64: rescale the features"
        ) from error
    found = as_like(m, out)
    return Targets(
        found[..., 0, :],
        found[..., 1, :],
        found[..., 2, :].sum(-1),
    )


def _require_narrow(V: Array) -> None:
    """Refuse log-odds that are so open that rounding would decide what a click says of them."""
    if (V > WIDEST**2).any():
        raise NumericalError(
            f"log-odds with a std beyond {WIDEST:g} are too large: use smaller features, or lam"
        )


def require_shares(feedback: Feedback, present: Array) -> None:
    """Refuse weights that are no shares of clicks, and numbers that are out of range."""
    w = feedback.w
    outside = present & ~((w >= 0) & (w <= 1))
    if outside.any():
        raise WeightsError(
            f"the logit link needs weights in [0, 1], got {w[outside][0]}: rescale them"
        )
    require_unit(feedback.w, feedback.n_observations, feedback.residual_ss, present)
    v = full(w.shape, feedback.importance, as_float64(feedback.rows))
    bad = present & ~((v > 0) & (v < math.inf))
    if bad.any():
        raise ParameterError(f"importance must be positive and finite, got {v[bad][0]}")
    require_squares(feedback.rows)


def _of_block(belief: HasFactor, block: Feedback) -> Targets:
    """The targets of a few rows under a belief about θ."""
    phi = as_float64(block.rows)
    present = nonzero_rows(phi)
    X = solve_rows(belief.factor, phi)
    return targets(
        matvec(phi, gaussian.mean(belief)),
        X @ X.mT,
        where(present, block.w, 0.0),
        full(block.w.shape, block.importance, X),
        present,
    )


class Matched(NamedTuple):
    """Clicks as Gaussian feedback with noise of std 1, and what its log evidence misses (*B,)."""

    feedback: Feedback
    missing: Array


def blocks(feedback: Feedback) -> list[slice]:
    """The feedback in parts of few rows, each with some of its beginning and of its end."""
    n = -(-feedback.w.shape[-1] // BLOCK)
    return [slice(start, None, n) for start in range(n)]


def matched(belief: HasFactor, feedback: Feedback) -> Matched:
    """What the clicks say, as Gaussian feedback, under a belief about θ."""
    require_shares(feedback, nonzero_rows(feedback.rows))
    v = full(feedback.w.shape, feedback.importance, belief.factor)
    y = full(v.shape, 0.0, v)
    precision = full(v.shape, 1.0, v)
    missing = full(v.shape[:-1], 0.0, v)
    for part in blocks(feedback):
        rows = feedback.rows[..., part, :]
        block = Feedback(feedback.A[..., part], rows, feedback.w[..., part], v[..., part])
        found = _of_block(belief, block)
        belief = condition(belief, rows, found.y, 1.0, found.precision)
        y[..., part] = found.y
        precision[..., part] = found.precision
        missing = missing + found.missing
    as_gaussian = feedback._replace(w=y, importance=precision, n_observations=1.0, residual_ss=0.0)
    return Matched(as_gaussian, missing)

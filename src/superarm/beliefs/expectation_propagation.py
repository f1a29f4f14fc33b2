"""Expectation propagation: clicks as Gaussian observations of log-odds, by moment matching.

    P(w = 1) = p = sigmoid(η),   log p(w) = v (w log p + (1 - w) log(1 - p))

The posterior of log-odds η ~ N(m, V) is no longer Gaussian. Each click k is a site: a Gaussian
observation y_k of η_k with precision a_k, in place of its likelihood.

    posterior  N(m, V)          prior times all sites
    cavity     N(m_c, V_c)      posterior of η_k without site k
    tilted     N(m_c, V_c) p(w_k | η_k), not Gaussian; the site is such that the posterior of η_k
               has its mean and variance

Sites are matched in turns until they agree. `gaussian.condition` on the targets y, with noise of
std 1/√a, is then the update of a linear model. A weight w in (0, 1) is a share of v clicks.
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
"""Nodes of the trapezoidal rule, which is then exact to rounding for stds of log-odds below 10."""
TAIL_STDS = 8.0
"""Stds of the cavity that are integrated on either side."""
NEGLIGIBLE = 40.0
"""Logarithm of the ratio to the highest density below which density does not count."""
MAX_NARROWING = 30
"""Number of times that the nodes are moved to where the density is."""
MIN_PRECISION = 1e-12
"""Least precision of a site, and of a cavity, relative to what it is matched to: rounding."""
MAX_LOG_ODDS_STD = 1e12
BLOCK_ROWS = 64
"""Number of rows that are matched under one joint covariance."""
MAX_SWEEPS = 20
TOLERANCE = 1e-6
"""Largest change of a site in posterior stds at which matching ends."""


@compiled
def _log_likelihood(eta: float, w: float) -> float:
    log_p = min(eta, 0.0) - math.log1p(math.exp(-abs(eta)))
    return log_p - (1 - w) * eta  # as log(1-p) = log p - η


@compiled
def tilted_moments(
    mean: float, variance: float, w: float, v: float, log_density: Array
) -> tuple[float, float, float]:
    """Mean less that of N(mean, variance), variance and log mass of its product with the likelihood
    of w, by the trapezoidal rule; `log_density` is room for one number per node.
    """
    std = math.sqrt(variance)
    # the likelihood moves the mass by at most v·variance, up if w = 1 and down if w = 0
    low = mean - TAIL_STDS * std - v * (1 - w) * variance
    high = mean + TAIL_STDS * std + v * w * variance
    top = -math.inf
    start = low
    step = 0.0
    for _ in range(MAX_NARROWING):
        start = low
        step = (high - low) / (NODES - 1)
        top = -math.inf
        for i in range(NODES):
            eta = start + i * step
            z = (eta - mean) / std
            log_density[i] = v * _log_likelihood(eta, w) - z * z / 2
            top = max(top, log_density[i])
        first = -1
        last = -1
        n_counted = 0
        for i in range(NODES):
            if log_density[i] > top - NEGLIGIBLE:
                first = i if first < 0 else first
                last = i
                n_counted += 1
        if n_counted > NODES // 2:
            break
        low = start + (first - 1) * step
        high = start + (last + 1) * step
    mass = 0.0
    moment = 0.0
    for i in range(NODES):
        density = math.exp(log_density[i] - top)
        mass += density
        moment += density * (start + i * step - mean)
    shift = moment / mass
    square = 0.0
    for i in range(NODES):
        off = start + i * step - mean - shift
        square += math.exp(log_density[i] - top) * off * off
    log_mass = top + math.log(mass * step / (std * math.sqrt(2 * math.pi)))
    return shift, square / mass, log_mass


@compiled
def cavity(m: float, variance: float, precision: float, y: float) -> tuple[float, float]:
    """Mean and variance of N(m, variance) without a site of this precision at y."""
    total = 1 / variance
    rest = max(total - precision, MIN_PRECISION * total)
    return (m * total - precision * y) / rest, 1 / rest


@compiled
def update_site(m: Array, V: Array, k: int, precision: float, shift: float, column: Array) -> float:
    """Change the precision of site k, and precision times target, by this much: a rank-one update
    of the posterior N(m, V). Returns the change in posterior stds.
    """
    n = len(m)
    scale = 1 + precision * V[k, k]
    step = (shift - precision * m[k]) / scale
    gain = precision / scale
    change: float = max(abs(precision) * V[k, k], abs(step) * math.sqrt(V[k, k]))
    for i in range(n):
        column[i] = V[i, k]
    for i in range(n):
        m[i] += column[i] * step
        for j in range(n):
            V[i, j] -= gain * (column[i] * column[j])
    return change


@compiled
def match_sites(
    out: Array,
    m: Array,
    V: Array,
    w: Array,
    v: Array,
    present: Array,
) -> None:
    """Fill out (B, 3, K) with targets, precisions, and log masses less those of the targets.

    Args:
        out: targets of 0, precisions of 1 and log masses of 0 to begin with.
        m: means of the log-odds, (B, K); overwritten.
        V: covariances of the log-odds, (B, K, K); overwritten.
        w: shares of clicks, (B, K).
        v: importance, (B, K).
        present: False for padding, (B, K).
    """
    n, K = m.shape
    log_density = np.empty(NODES)
    column = np.empty(K)
    precisions = np.empty(K)
    for b in range(n):
        y, a, log_missing = out[b, 0], out[b, 1], out[b, 2]
        for k in range(K):
            precisions[k] = 0.0
        for _ in range(MAX_SWEEPS):
            largest = 0.0
            for k in range(K):
                if not present[b, k]:
                    continue
                mean, variance = cavity(m[b, k], V[b, k, k], precisions[k], y[k])
                shift, tilted_variance, log_mass = tilted_moments(
                    mean, variance, w[b, k], v[b, k], log_density
                )
                precision = max(1 / tilted_variance - 1 / variance, MIN_PRECISION / variance)
                target = mean + shift * (1 + 1 / (precision * variance))
                old = precisions[k]
                change = update_site(
                    m[b], V[b], k, precision - old, precision * target - old * y[k], column
                )
                largest = max(largest, change)
                precisions[k] = precision
                a[k] = precision
                y[k] = target
                spread = variance + 1 / precision
                log_target = -(math.log(2 * math.pi * spread) + (target - mean) ** 2 / spread) / 2
                log_missing[k] = log_mass - log_target
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
        match_sites(
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
    if (V > MAX_LOG_ODDS_STD**2).any():
        raise NumericalError(
            f"log-odds with a std beyond {MAX_LOG_ODDS_STD:g} are too large: use smaller features, "
            "or lam"
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
    n = -(-feedback.w.shape[-1] // BLOCK_ROWS)
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

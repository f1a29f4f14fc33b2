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

Compiled, `tilted_moments` takes 2 µs, a sixth of the same steps in NumPy. Ten clicks need some 50.
"""

import math
from typing import NamedTuple

import numpy as np

from superarm.arrays import (
    Array,
    as_float64,
    as_like,
    to_numpy,
)
from superarm.arrays.compiled import compiled
from superarm.errors import NumericalError

ROOT_2PI = math.sqrt(2 * math.pi)
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
MAX_SWEEPS = 20
TOLERANCE = 1e-6
"""Largest change of a site in posterior stds at which matching ends."""


@compiled
def _log_likelihood(eta: float, w: float) -> float:
    """Log p(w) of one click, as log(1-p) = log p - η."""
    tail = math.exp(-abs(eta))
    log_p = min(eta, 0.0) - math.log1p(tail)
    complement = (1 - w) * eta
    return log_p - complement


@compiled
def _fill_log_density(
    log_density: Array, start: float, step: float, mean: float, std: float, w: float, v: float
) -> float:
    """Fill in the log density of N(mean, std²) times the likelihood of w at the nodes, but for a
    constant. Returns the largest.
    """
    top = -math.inf
    for i in range(NODES):
        eta = start + i * step
        z = (eta - mean) / std
        log_likelihood = _log_likelihood(eta, w)
        value = v * log_likelihood - z * z / 2
        log_density[i] = value
        top = max(top, value)
    return top


@compiled
def tilted_moments(
    mean: float, variance: float, w: float, v: float, log_density: Array
) -> tuple[float, float, float]:
    """Shift of the mean, variance and log mass of N(mean, variance) times the likelihood of w.

    By the trapezoidal rule; `log_density` is room for one number per node.
    """
    std = math.sqrt(variance)
    # the likelihood moves the mass by at most v·variance, up if w = 1 and down if w = 0
    reach = TAIL_STDS * std
    low = mean - reach - v * (1 - w) * variance
    high = mean + reach + v * w * variance
    start = low
    step = 0.0
    top = 0.0
    for _ in range(MAX_NARROWING):
        start = low
        step = (high - low) / (NODES - 1)
        top = _fill_log_density(log_density, start, step, mean, std, w, v)
        first = NODES
        last = 0
        n_dense = 0
        for i in range(NODES):
            if log_density[i] > top - NEGLIGIBLE:
                first = min(first, i)
                last = i
                n_dense += 1
        if n_dense > NODES // 2:
            break
        low = start + (first - 1) * step
        high = start + (last + 1) * step
    mass = 0.0
    moment = 0.0
    square = 0.0
    for i in range(NODES):
        density = math.exp(log_density[i] - top)
        mass += density
        eta = start + i * step
        moment += density * (eta - mean)
        log_density[i] = density
    shift = moment / mass
    for i in range(NODES):
        eta = start + i * step
        off = eta - mean - shift
        square += log_density[i] * off * off
    scale = step / (std * ROOT_2PI)
    return shift, square / mass, top + math.log(mass * scale)


@compiled
def cavity(m: float, variance: float, precision: float, y: float) -> tuple[float, float]:
    """Mean and variance of N(m, variance) without a site of this precision at y."""
    total = 1 / variance
    least = MIN_PRECISION * total
    rest = max(total - precision, least)
    shift = m * total - precision * y
    return shift / rest, 1 / rest


@compiled
def update_site(m: Array, V: Array, k: int, precision: float, shift: float, column: Array) -> float:
    """Change the precision of site k, and precision times target, by this much: a rank-one update
    of the posterior N(m, V). Returns the change in posterior stds.
    """
    n = len(m)
    variance = V[k, k]
    scale = 1 + precision * variance
    gain = precision / scale
    step = (shift - precision * m[k]) / scale
    for i in range(n):
        column[i] = V[i, k]
    for i in range(n):
        m[i] += column[i] * step
        for j in range(n):
            V[i, j] -= gain * (column[i] * column[j])
    change_of_mean = abs(step) * math.sqrt(variance)
    change_of_precision = abs(precision) * variance
    change: float = max(change_of_mean, change_of_precision)
    return change


@compiled
def match_site(
    mean: float, variance: float, w: float, v: float, log_density: Array
) -> tuple[float, float, float]:
    """Target y and precision of a site, and its log correction.

    The cavity N(mean, variance) times the site has the mean and variance of the tilted
    distribution; the correction is the log mass of the tilted distribution less the site's.
    """
    shift, tilted_variance, log_mass = tilted_moments(
        mean,
        variance,
        w,
        v,
        log_density,
    )
    more = 1 / tilted_variance - 1 / variance
    precision = max(more, MIN_PRECISION / variance)
    noise_ratio = 1 / (precision * variance)
    y = mean + shift * (1 + noise_ratio)
    spread = variance + 1 / precision
    z2 = (y - mean) ** 2 / spread
    log_target = -(math.log(2 * math.pi * spread) + z2) / 2
    return y, precision, log_mass - log_target


@compiled
def match_sites(
    out: Array,
    m: Array,
    V: Array,
    w: Array,
    v: Array,
    present: Array,
) -> None:
    """Match sites in turns until they agree: fill out (B, 3, K) with targets, precisions, and log
    masses less those of the targets.

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
    for b in range(n):
        sites = out[b]
        for sweep in range(MAX_SWEEPS):
            largest = 0.0
            for k in range(K):
                if not present[b, k]:
                    continue
                y, precision = sites[0, k], sites[1, k]
                if sweep == 0:
                    precision = 0.0
                mean, variance = cavity(m[b, k], V[b, k, k], precision, y)
                sites[0, k], sites[1, k], sites[2, k] = match_site(
                    mean, variance, w[b, k], v[b, k], log_density
                )
                more = sites[1, k] - precision
                shift = sites[0, k] * sites[1, k] - y * precision
                change = update_site(m[b], V[b], k, more, shift, column)
                largest = max(largest, change)
            if largest < TOLERANCE:
                break


class Sites(NamedTuple):
    """Gaussian observations in place of binomial ones, with noise of std 1/√precision."""

    y: Array  # (*B, K) 0 for padding
    precision: Array  # (*B, K) 1 for padding
    log_correction: Array  # (*B,) log evidence of the binomial observations less that of the sites


def expectation_propagation(m: Array, V: Array, w: Array, v: Array, present: Array) -> Sites:
    """Sites for binomial observations of log-odds whose prior is N(m, V).

    Args:
        m: prior means of the log-odds, (*B, K).
        V: prior covariances of the log-odds, (*B, K, K).
        w: shares of clicks, (*B, K).
        v: importance, (*B, K).
        present: False for padding, (*B, K).

    Raises:
        NumericalError: if the stds of the log-odds are too large or too small for float64.
    """
    if (V > MAX_LOG_ODDS_STD**2).any():
        raise NumericalError(
            f"log-odds with a std beyond {MAX_LOG_ODDS_STD:g} are too large: use smaller features, "
            "or lam"
        )
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
    sites = as_like(m, out)
    y = sites[..., 0, :]
    precision = sites[..., 1, :]
    log_corrections = sites[..., 2, :]
    return Sites(y, precision, log_corrections.sum(-1))

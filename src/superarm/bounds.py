"""The paper's theorems as functions.

    paper       code         meaning
    n, K, L, d  n, K, L, d   episodes, most items a set, items, features
    λ, σ, c     lam, sigma, c
    δ, γ        delta, gamma failure probability, sub-optimality gap of the oracle
    ‖θ*‖        theta_norm   (a bound on) the norm of the true coefficients
    M           max_norm     (a bound on) max_e ‖φ_e‖

The theorems assume ‖φ_e‖ <= 1. For M = max ‖φ_e‖ write φ_e·θ = (φ_e/M)·(Mθ): features of norm at
most 1 and a prior of std λM. So every function here replaces λ by λM; ‖θ*‖/λ is unchanged, since
both are scaled by M.
"""

import math

from superarm.checks import require_count, require_positive
from superarm.errors import ParameterError


def _width_sum(n: int, K: int, d: int, lam: float, sigma: float) -> float:
    """Upper bound of Σ_t Σ_{e∈A^t} √(φ_eᵀ Σ_t φ_e), by the paper's key lemma."""
    ratio = (lam / sigma) ** 2
    most = math.log1p(n * K * ratio / d)
    least = math.log1p(ratio)
    n_directions = d * n * (most / least)
    return K * lam * math.sqrt(n_directions)


def comblints_bound(
    n: int, *, K: int, L: int, d: int, lam: float, sigma: float, max_norm: float = 1.0
) -> float:
    """The refined Bayes regret bound of CombLinTS in a coherent Gaussian case, whatever λ and σ.

    R_Bayes(n) <= 1 + c K λ √(d n ln(1 + nKλ²/(dσ²)) / ln(1 + λ²/σ²))
    with c = √2 min{√ln(λLn/√2π), √(d ln(2dKnλ/√2π))}

    The paper is inconsistent in two places, and here follows its proofs. The theorem prints ln(1 +
    nKλ²/d) where the lemma it rests on has ln(1 + nKλ²/(dσ²)). And the condition on c is printed
    without the factor √2 that its proof needs, while the final bound carries it. Where a logarithm
    is negative, c = 0 meets the proof's condition.

    Returns:
        the bound, in units of weights.

    >>> round(comblints_bound(150, K=60, L=1860, d=200, lam=10.0, sigma=1.0))
    740368
    """
    require_count(n=n, K=K, L=L, d=d)
    require_positive(lam=lam, sigma=sigma, max_norm=max_norm)
    lam = lam * max_norm
    scale = lam * n / math.sqrt(2 * math.pi)
    by_items = math.log(L * scale)
    by_features = d * math.log(2 * d * K * scale)
    smaller = min(by_items, by_features)
    c = math.sqrt(2 * max(0.0, smaller))
    width_sum = _width_sum(n, K, d, lam, sigma)
    return 1 + c * width_sum


def comblinucb_c(
    n: int,
    *,
    K: int,
    d: int,
    lam: float,
    sigma: float,
    delta: float,
    theta_norm: float,
    max_norm: float = 1.0,
) -> float:
    """The smallest c the CombLinUCB theorem allows.

    c = (1/σ) √(d ln(1 + nKλ²/(dσ²)) + 2 ln(1/δ)) + ‖θ*‖/λ

    With it, |φ_e·(θ̄_t - θ*)| <= c √(φ_eᵀ Σ_t φ_e) for all items and all n episodes with
    probability at least 1 - δ. It holds for weights in [0, 1], and for any noise that is
    sub-Gaussian with constant 1.

    Returns:
        c, for `CombLinUCB`.

    >>> round(comblinucb_c(1000, K=10, d=5, lam=1.0, sigma=1.0, delta=0.05, theta_norm=1.0), 3)
    7.633
    """
    require_count(n=n, K=K, d=d)
    require_positive(lam=lam, sigma=sigma, max_norm=max_norm)
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {delta!r}")
    if not 0 <= theta_norm < math.inf:
        raise ParameterError(f"theta_norm must be finite and not negative, got {theta_norm!r}")
    ratio = (lam * max_norm / sigma) ** 2
    log_det = d * math.log1p(n * K * ratio / d)
    log_confidence = 2 * math.log(1 / delta)
    noise_term = math.sqrt(log_det + log_confidence) / sigma
    prior_term = theta_norm / lam
    return noise_term + prior_term


def comblinucb_bound(
    n: int,
    *,
    K: int,
    d: int,
    lam: float,
    sigma: float,
    c: float,
    delta: float,
    gamma: float = 0.0,
    max_norm: float = 1.0,
) -> float:
    """The regret bound of CombLinUCB, for a c of at least `comblinucb_c` and weights in [0, 1].

    R^γ(n) <= 2cKλ/(1-γ) √(d n ln(1 + nKλ²/(dσ²)) / ln(1 + λ²/σ²)) + nKδ

    γ = 0 is the theorem for exact oracles; γ > 0 bounds the scaled regret of the variant for
    approximate ones.

    Returns:
        the bound, in units of weights.

    >>> round(comblinucb_bound(1000, K=10, d=5, lam=1.0, sigma=1.0, c=7.633, delta=1e-4))
    35748
    """
    require_count(n=n, K=K, d=d)
    require_positive(lam=lam, sigma=sigma, c=c, max_norm=max_norm)
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {delta!r}")
    if not 0 <= gamma < 1:
        raise ParameterError(f"gamma must lie in [0, 1), got {gamma!r}")
    width_sum = _width_sum(n, K, d, lam * max_norm, sigma)
    failure_term = n * K * delta
    return 2 * c / (1 - gamma) * width_sum + failure_term

"""The belief about θ: Algorithm 1 in square-root information form.

    Σ_t⁻¹ = RᵀR,   R θ̄_t = z,   R upper triangular with positive diagonal

    [R z]              one triangular `factor`. A block of feedback (φ_k, w_k) with noise std σ is absorbed by
    [0 r]              re-triangularizing  [factor; φ/σ w/σ]: orthogonal transformations keep RᵀR, Rᵀz and r² exact.

Algorithm 1 subtracts rank-one terms from Σ and loses positive definiteness in float64 once λ/σ is large. R cannot
lose it: rows are only ever added, and Σ is never formed.

    paper     code                     shape
    θ̄_t       mean(belief)             (*B, d)
    Σ_t       (RᵀR)⁻¹, never formed    R = belief.R (*B, d, d)
    λ, σ      lam, sigma
"""

import math
from typing import NamedTuple

from superarm.arrays import (
    Array,
    Rng,
    full,
    joined,
    log_det,
    nonzero_rows,
    normal,
    qr_update,
    row_norms,
    solve,
    solve_rows,
    upper_from_diagonal,
)
from superarm.errors import FeaturesError, ParameterError, require_positive


class Gaussian(NamedTuple):
    """θ ~ N(θ̄, Σ), as the triangular factor and the terms of the evidence that do not depend on it."""

    factor: Array  # (*B, d+1, d+1): [R z; 0 r], r² the squared residual
    log_scale: Array  # (*B,): log det R of the prior less Σ log(σ √2π) over the rows observed

    @property
    def R(self) -> Array:
        """Σ⁻¹ = RᵀR, shape (*B, d, d)."""
        return self.factor[..., :-1, :-1]

    @property
    def z(self) -> Array:
        """Rθ̄, shape (*B, d)."""
        return self.factor[..., :-1, -1]


def prior(d: int, lam: float, batch: tuple[int, ...] = ()) -> Gaussian:
    """θ ~ N(0, λ²I).

    >>> from superarm import gaussian
    >>> gaussian.mean(gaussian.prior(3, lam=10.0))
    array([0., 0., 0.])
    """
    require_positive(lam=lam)
    if d < 1:
        raise ParameterError(f"a linear learner needs at least one feature an item, got d={d}")
    return Gaussian(upper_from_diagonal([1 / lam] * d + [0.0], batch), full(batch, -d * math.log(lam)))


def mean(belief: Gaussian) -> Array:
    """θ̄ = R⁻¹z."""
    return solve(belief.factor, belief.z)


def std(belief: Gaussian, Phi: Array) -> Array:
    """√(φ_eᵀ Σ φ_e) = ‖R⁻ᵀφ_e‖ of all items at once: (*B, L).

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> gaussian.std(gaussian.prior(2, lam=10.0), np.array([[1.0, 0.0], [0.3, 0.4]]))
    array([10.,  5.])
    """
    _check_rows(belief, Phi)
    return row_norms(solve_rows(belief.factor, Phi))


def _check_rows(belief: Gaussian, phi: Array) -> None:
    batch, d = belief.z.shape[:-1], belief.z.shape[-1]
    if phi.shape[-1] != d or phi.shape[:-2] != batch:
        raise FeaturesError(f"the belief asks for feature rows of shape {(*batch, 'n', d)}, got {phi.shape}")


def sample(belief: Gaussian, rng: Rng) -> Array:
    """θ = R⁻¹(z + ε) with ε ~ N(0, I), so θ ~ N(θ̄, Σ)."""
    return solve(belief.factor, belief.z + normal(rng, belief.z))


def condition(belief: Gaussian, phi: Array, w: Array, sigma: float) -> Gaussian:
    """Algorithm 1 for a block of feedback: w = φθ + noise of std sigma.

    phi is (*B, K, d), w is (*B, K). A zero row says nothing about θ and is an exact no-op, whatever its w.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> belief = gaussian.prior(2, lam=1.0)
    >>> belief = gaussian.condition(belief, np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([3.0, 0.0]), sigma=1.0)
    >>> gaussian.mean(belief)
    array([1.5, 0. ])
    """
    require_positive(sigma=sigma)
    _check_rows(belief, phi)
    present = nonzero_rows(phi)
    factor = qr_update(belief.factor, joined(phi, w, sigma), present)
    return Gaussian(factor, belief.log_scale - present.sum(-1) * math.log(sigma * math.sqrt(2 * math.pi)))


def log_evidence(belief: Gaussian) -> Array:
    """The logarithm of p(w), of everything observed: (*B,). Zero rows, being padding, do not count.

    log p(w) = log det R₀ - log det R - Σ log(σ √2π) - r²/2

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> belief = gaussian.condition(gaussian.prior(1, lam=1.0), np.array([[1.0]]), np.array([2.0]), sigma=1.0)
    >>> round(float(gaussian.log_evidence(belief)), 6)  # N(2; 0, 1 + 1)
    -2.265512
    """
    r = belief.factor[..., -1, -1]
    return belief.log_scale - log_det(belief.R) - r**2 / 2

"""Gaussian posterior of θ: Algorithm 1 of Wen, Kveton & Ashkan (ICML 2015) in square-root
information form.

    F = [R z]     Σ_t⁻¹ = RᵀR,   R θ̄_t = z,   R upper triangular with positive diagonal
        [0 r]     r² = Σ (w - φ·θ̄_t)²/σ² + ‖θ̄_t‖²/λ², the least value of this sum over θ

A belief holds this `factor` F. Rows (φ, w) with noise of std σ are added by stacking [φ w]/σ below
F and making the stack triangular again. That is orthogonal, so FᵀF grows by Σ [φ w]ᵀ[φ w]/σ².

Algorithm 1 subtracts rank-one terms from Σ and loses positive definiteness in float64 once λ/σ is
large. R cannot lose it: rows are only ever added, and Σ is never formed. tests/reference.py has the
plain version, and docs/paper.md the paper's symbols.

    paper     code                     shape
    θ̄_t       mean(belief)             (*B, d)
    Σ_t       (RᵀR)⁻¹, never formed    R = belief.R (*B, d, d)
    λ, σ      lam, sigma

Beyond the paper, evidence can be discounted: `forget` counts it `keep` times.

A belief is conditioned on observations in three forms:

    condition               rows φ and their weights w, as arrays
    condition_on_feedback   `Feedback`, whose rows may be means of several observations
    condition_on_factor     a `RowFactor`, the triangular factor of rows alone

Models that fit σ keep the factor of all their rows: `factor_rows` makes one and `append_rows` adds
rows to it. `condition_and_append` does both for feedback, a belief and a factor.
"""

import math
from typing import Any, NamedTuple, Protocol

from superarm.arrays import (
    Array,
    Features,
    Rng,
    full,
    log,
    log_det,
    nonzero_rows,
    normal,
    posterior_row_norms,
    qr_append,
    qr_downdate,
    qr_stack,
    refuse_rows,
    solve_factor,
    where,
)
from superarm.checks import is_real, require_scale
from superarm.contracts import Feedback
from superarm.errors import ParameterError

MIN_KEEP = 1e-100
"""Least share of earlier evidence after forgetting: a floor against underflow to 0."""
LOG_ROOT_2PI = math.log(2 * math.pi) / 2
MANY_ROWS = 512
"""Number of rows from which on `condition_and_append` adds their factor in their place."""


class HasFactor(Protocol):
    """Belief with the factor of a Gaussian posterior: `Gaussian`, or one with more fields."""

    @property
    def factor(self) -> Array:
        """[R z; 0 r], (*B, d+1, d+1); r² is the least penalized sum of squares, in units of σ²."""

    @property
    def log_normalizer(self) -> Array:
        """Constant of the log density of the rows, as in `Gaussian`: (*B,)."""


class Gaussian(NamedTuple):
    """θ ~ N(θ̄, Σ), as a triangular factor, and the constant of its marginal likelihood.

    Attributes:
        factor: [R z; 0 r], triangular, (*B, d+1, d+1).
        log_normalizer: log det R of the prior, less Σ log(σ √2π) over the rows, plus ½ Σ log v over
            their importance, (*B,). `log_evidence` adds the terms that depend on `factor`.
    """

    factor: Array  # (*B, d+1, d+1)
    log_normalizer: Array  # (*B,)

    @property
    def R(self) -> Array:
        """Σ⁻¹ = RᵀR, shape (*B, d, d)."""
        return self.factor[..., :-1, :-1]


def prior(
    d: int,
    lam: Array | float,
    batch: tuple[int, ...] = (),
    like: Features | None = None,
) -> Gaussian:
    """Prior θ ~ N(0, λ²I), with one λ for all coefficients or one for each, (*B, d).

    Args:
        d: number of features.
        lam: prior std λ, a number or (*B, d).
        batch: the batch shape *B.
        like: an array of the kind to make, NumPy by default.

    Returns:
        the belief before any feedback.

    Raises:
        ParameterError: if d or lam is not positive.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> gaussian.mean(gaussian.prior(3, lam=10.0))
    array([0., 0., 0.])
    >>> gaussian.std(gaussian.prior(2, lam=np.array([10.0, 0.1])), np.eye(2))
    array([10. ,  0.1])
    """
    if d < 1:
        raise ParameterError(f"a linear learner needs at least one feature per item, got d={d}")
    require_scale("lam", lam, (*batch, d))
    std = full((*batch, d), lam, like)
    transposed = empty_factor(d, batch, like)  # factors are transposes of arrays in C order
    entries = transposed.reshape(*batch, (d + 1) ** 2)
    entries[..., : -1 : d + 2] = 1 / std  # the diagonal but for its last entry
    log_normalizer = -log(std).sum(-1)
    return Gaussian(transposed.mT, log_normalizer)


def prior_like(belief: HasFactor, lam: Array | float) -> Gaussian:
    """Prior θ ~ N(0, λ²I) in the batch shape and the kind of arrays of a belief."""
    factor = belief.factor
    *batch, D = factor.shape[:-1]
    d = D - 1
    return prior(d, lam, tuple(batch), factor)


def mean(belief: HasFactor) -> Array:
    """Posterior mean θ̄ = R⁻¹z.

    Returns:
        one number per coefficient, (*B, d).
    """
    factor = belief.factor
    z = factor[..., :-1, -1]
    return solve_factor(factor, z)


def std(belief: HasFactor, Phi: Features) -> Array:
    """Posterior standard deviation of each φ_e·θ: √(φ_eᵀ Σ φ_e) = ‖R⁻ᵀφ_e‖.

    Returns:
        one number per item, (*B, L).

    Raises:
        FeaturesError: if rows have another number of features.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> gaussian.std(gaussian.prior(2, lam=10.0), np.array([[1.0, 0.0], [0.3, 0.4]]))
    array([10.,  5.])
    """
    factor = belief.factor
    *batch, _, D = factor.shape
    *phi_batch, _, d = Phi.shape
    if d != D - 1 or phi_batch != batch:
        refuse_rows(factor, Phi)
    return posterior_row_norms(factor, Phi)


def sample(belief: HasFactor, rng: Rng) -> Array:
    """Sample θ ~ N(θ̄, Σ): θ = R⁻¹(z + ε) with ε ~ N(0, I).

    Returns:
        one number per coefficient, (*B, d).
    """
    factor = belief.factor
    z = factor[..., :-1, -1]
    noise = normal(rng, z)
    return solve_factor(factor, z + noise)


def condition(
    belief: HasFactor,
    phi: Array,
    w: Array,
    sigma: Array | float,
    importance: Array | float = 1.0,
) -> Gaussian:
    """Algorithm 1 for several rows: condition on w = φ·θ + noise of std σ.

    A zero row carries no information about θ and leaves the belief exactly as it is.

    Args:
        belief: the posterior before.
        phi: feature rows, (*B, K, d).
        w: their weights, (*B, K).
        sigma: noise std, a number or (*B, K).
        importance: number of observations v that each row counts as, a number or (*B, K): its noise
            has std σ/√v.

    Returns:
        the posterior; the belief before is unchanged.

    Raises:
        FeaturesError: if rows have another number of features.
        ParameterError: if sigma or importance is not positive.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> belief = gaussian.prior(2, lam=1.0)
    >>> rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> belief = gaussian.condition(belief, rows, np.array([3.0, 0.0]), sigma=1.0)
    >>> gaussian.mean(belief)
    array([1.5, 0. ])
    >>> sigma = np.array([1.0, 0.1])
    >>> belief = gaussian.condition(belief, np.eye(2), np.array([3.0, 1.0]), sigma=sigma)
    >>> gaussian.mean(belief).round(2)
    array([2.  , 0.99])
    """
    is_single = type(sigma) is type(importance) is float  # as in every small update
    if not (is_single and 0 < sigma < math.inf and 0 < importance < math.inf):
        require_scale("sigma", sigma, w.shape)
        require_scale("importance", importance, w.shape)
    noise = sigma / importance**0.5
    updated = qr_append(belief.factor, phi, w, noise)
    constant = updated.n_rows * LOG_ROOT_2PI
    log_noise = updated.log_noise + constant
    log_normalizer = belief.log_normalizer - log_noise
    return Gaussian(updated.factor, log_normalizer)


def forget(belief: HasFactor, start: HasFactor, keep: float) -> Gaussian:
    """Count all evidence `keep` times, and the prior `start` in full.

    Σ⁻¹ ← keep Σ⁻¹ + (1 - keep) Σ₀⁻¹, so that feedback of s episodes ago has importance keepˢ.
    Without new data the belief returns to the prior, and not beyond it.

    Returns:
        the posterior after the discounted evidence.

    Raises:
        ParameterError: if keep is not in (0, 1].

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> prior = gaussian.prior(1, lam=2.0)
    >>> belief = gaussian.condition(prior, np.array([[1.0]]), np.array([5.0]), sigma=0.1)
    >>> for _ in range(1000):
    ...     belief = gaussian.forget(belief, prior, keep=0.9)
    >>> gaussian.mean(belief).round(9), gaussian.std(belief, np.array([[1.0]])).round(9)
    (array([0.]), array([2.]))
    """
    require_keep(keep)
    restored = 1 - keep
    factor = qr_stack(
        math.sqrt(keep) * belief.factor,
        math.sqrt(restored) * start.factor,
    )
    log_normalizer = keep * belief.log_normalizer + restored * start.log_normalizer
    return Gaussian(factor, log_normalizer)


def require_keep(keep: Any) -> None:
    """Refuse shares of earlier evidence outside (0, 1]."""
    if not (is_real(keep) and 0 < keep <= 1):
        raise ParameterError(f"keep must lie in (0, 1], where 1 forgets nothing, got {keep!r}")


def keep_after(forgetting: float, episodes: int) -> float:
    """Share of earlier evidence left after some episodes: forgettingⁿ, at least `MIN_KEEP`."""
    keep = forgetting**episodes
    return max(keep, MIN_KEEP)


def merge(belief: HasFactor, other: HasFactor, start: HasFactor) -> Gaussian:
    """Posterior after the evidence of two beliefs that both started from the prior `start`.

    Σ⁻¹ = Σ_a⁻¹ + Σ_b⁻¹ - Σ₀⁻¹

    Returns:
        the posterior.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> prior = gaussian.prior(2, lam=1.0)
    >>> rows = np.array([[1.0, 2.0], [0.5, -1.0]])
    >>> w = np.array([3.0, 1.0])
    >>> here, there = (gaussian.condition(prior, rows[[i]], w[[i]], sigma=0.1) for i in range(2))
    >>> both = gaussian.condition(prior, rows, w, sigma=0.1)
    >>> bool(np.allclose(gaussian.merge(here, there, prior).factor, both.factor, rtol=1e-12))
    True
    """
    both = qr_stack(belief.factor, other.factor)
    factor = qr_downdate(both, start.factor)
    log_normalizer = belief.log_normalizer + other.log_normalizer
    log_normalizer = log_normalizer - start.log_normalizer
    return Gaussian(factor, log_normalizer)


def log_evidence(belief: HasFactor) -> Array:
    """Log marginal likelihood of all rows observed; rows of zeros do not count.

    log p(w) = log det R₀ - log det R - Σ log(σ √2π) + ½ Σ log v - r²/2

    Returns:
        one number per problem of the batch, (*B,).

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> prior = gaussian.prior(1, lam=1.0)
    >>> belief = gaussian.condition(prior, np.array([[1.0]]), np.array([2.0]), sigma=1.0)
    >>> round(float(gaussian.log_evidence(belief)), 6)  # N(2; 0, 1 + 1)
    -2.265512
    """
    factor = belief.factor
    R = factor[..., :-1, :-1]
    r = factor[..., -1, -1]
    misfit = r**2 / 2
    complexity = log_det(R)
    return belief.log_normalizer - complexity - misfit


# --- many rows as one factor ----------------------------------------------------------------------


class RowFactor(NamedTuple):
    """Many rows √v [φ w] in one triangular factor F, where FᵀF = Σ v [φ w]ᵀ[φ w].

    Conditioning on it is conditioning on the rows. They are not divided by σ, so that a model that
    fits σ can condition on them again at another σ.

    Attributes:
        factor: upper triangular, (*B, d+1, d+1).
        n: number of rows, (*B,).
        half_log_v: ½ Σ log v over their importance v, (*B,).
    """

    factor: Array  # (*B, d+1, d+1)
    n: Array  # (*B,)
    half_log_v: Array | float = 0.0  # (*B,)


def empty_factor(d: int, batch: tuple[int, ...] = (), like: Features | None = None) -> Array:
    """Triangular factor of an empty set of rows, in arrays of the kind of `like`."""
    shape = (*batch, d + 1, d + 1)
    return full(shape, 0.0, like)


def factor_rows(phi: Array, w: Array, importance: Array | float = 1.0) -> RowFactor:
    """Row factor of rows phi (*B, K, d) with weights w (*B, K); zero rows are padding.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3))
    >>> prior = gaussian.prior(2, lam=1.0)
    >>> factor = gaussian.factor_rows(rows[:, :2], rows[:, 2])
    >>> at_once = gaussian.condition_on_factor(prior, factor, sigma=0.5)
    >>> one_by_one = gaussian.condition(prior, rows[:, :2], rows[:, 2], sigma=0.5)
    >>> bool(np.allclose(at_once.factor, one_by_one.factor, rtol=1e-14))
    True
    """
    *batch, _, d = phi.shape
    start = RowFactor(
        empty_factor(d, tuple(batch), phi),
        full(tuple(batch), 0.0, phi),
    )
    return append_rows(start, phi, w, importance)


def append_rows(
    rows: RowFactor, phi: Array, w: Array, importance: Array | float = 1.0
) -> RowFactor:
    """Row factor with rows phi (*B, K, d) and weights w (*B, K) added."""
    require_scale("importance", importance, w.shape)
    noise = importance**-0.5
    updated = qr_append(rows.factor, phi, w, noise)
    return RowFactor(
        updated.factor,
        rows.n + updated.n_rows,
        rows.half_log_v - updated.log_noise,
    )


def feedback_factor(feedback: Feedback) -> RowFactor:
    """Row factor of the observations in feedback.

    For a linear belief n observations of one row are equivalent to their mean w̄ with importance n,
    and rows [0 w] whose squares sum to Σ (w - w̄)².
    """
    means = factor_rows(feedback.rows, feedback.w, feedback.importance)
    if not feedback.is_summed:
        return means
    present = nonzero_rows(feedback.rows)
    n = where(present, feedback.n_observations, 1.0)
    residual_ss = where(present, feedback.residual_ss, 0.0).sum(-1)
    return RowFactor(
        add_residual(means.factor, residual_ss),
        means.n + (n - 1).sum(-1),
        means.half_log_v - log(n).sum(-1) / 2,
    )


def add_residual(factor: Array, residual_ss: Array) -> Array:
    """Factor after rows [0 w] whose squares sum to `residual_ss`: evidence about σ alone."""
    r = factor[..., -1, -1]
    total = factor + 0.0
    squares = r**2 + residual_ss
    total[..., -1, -1] = squares**0.5
    return total


def condition_on_factor(belief: HasFactor, rows: RowFactor, sigma: Array | float) -> Gaussian:
    """Condition on all rows of a row factor, with noise of std σ, a number or (*B,)."""
    batch = belief.log_normalizer.shape
    require_scale("sigma", sigma, batch)
    noise = sigma
    if not is_real(sigma):
        noise = full(batch, sigma, rows.factor)[..., None, None]
    scaled = rows.factor / noise
    factor = qr_stack(belief.factor, scaled)
    log_noise = rows.n * (log(sigma) + LOG_ROOT_2PI)
    log_normalizer = belief.log_normalizer - log_noise + rows.half_log_v
    return Gaussian(factor, log_normalizer)


def condition_on_feedback(belief: HasFactor, feedback: Feedback, sigma: float) -> Gaussian:
    """Condition on feedback, whose rows may be means of several observations."""
    if feedback.is_summed:
        return condition_on_factor(belief, feedback_factor(feedback), sigma)
    return condition(belief, feedback.rows, feedback.w, sigma, feedback.importance)


def condition_and_append(
    belief: HasFactor, rows: RowFactor, feedback: Feedback, sigma: Array
) -> tuple[Gaussian, RowFactor]:
    """Posterior after feedback with noise of std σ (*B,), and the row factor after it."""
    phi = feedback.rows
    w = feedback.w
    importance = feedback.importance
    if not feedback.is_summed and w.shape[-1] < MANY_ROWS:
        noise = sigma[..., None]
        posterior = condition(belief, phi, w, noise, importance)
        both = append_rows(rows, phi, w, importance)
        return posterior, both
    new = feedback_factor(feedback)
    both = RowFactor(
        qr_stack(rows.factor, new.factor),
        rows.n + new.n,
        rows.half_log_v + new.half_log_v,
    )
    return condition_on_factor(belief, new, sigma), both

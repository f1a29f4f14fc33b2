"""The belief about θ: Algorithm 1 in square-root information form.

    Σ_t⁻¹ = RᵀR,   R θ̄_t = z,   R upper triangular with positive diagonal

    [R z]     one triangular `factor`. A block of feedback (φ_k, w_k) with noise std σ is absorbed
    [0 r]     by re-triangularizing  [factor; φ/σ w/σ]: orthogonal transformations keep RᵀR, Rᵀz
              and r² exact.

Algorithm 1 subtracts rank-one terms from Σ and loses positive definiteness in float64 once λ/σ is
large. R cannot lose it: rows are only ever added, and Σ is never formed.

    paper     code                     shape
    θ̄_t       mean(belief)             (*B, d)
    Σ_t       (RᵀR)⁻¹, never formed    R = belief.R (*B, d, d)
    λ, σ      lam, sigma
    γ         keep                     how much of the past an episode leaves, in `forget`
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
    normal,
    posterior_row_norms,
    qr_append,
    qr_downdate,
    qr_stack,
    refuse_rows,
    solve,
)
from superarm.checks import is_real, require_positive
from superarm.errors import ParameterError

MIN_KEEP = 1e-100
"""The least that the past may count at once; what has faded further counts nothing."""
LOG_ROOT_2PI = math.log(2 * math.pi) / 2


class HasFactor(Protocol):
    """Any belief about θ: `Gaussian`, or one that keeps more beside."""

    @property
    def factor(self) -> Array:
        """(*B, d+1, d+1): [R z; 0 r], r² the squared residual."""

    @property
    def log_scale(self) -> Array:
        """(*B,): log det R of the prior less Σ log(σ √2π) over the rows observed."""


class Gaussian(NamedTuple):
    """θ ~ N(θ̄, Σ), as the triangular factor, and what else the marginal likelihood needs.

    Attributes:
        factor: [R z; 0 r], triangular, (*B, d+1, d+1).
        log_scale: what else the marginal likelihood needs, (*B,).
    """

    factor: Array  # (*B, d+1, d+1)
    log_scale: Array  # (*B,)

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
    """θ ~ N(0, λ²I), with one λ for all or one per coefficient, (*B, d), in arrays of the kind of
    `like`.

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
    _check_scale("lam", lam, (*batch, d))
    stds = full((*batch, d), lam, like)
    transposed = no_rows(d, batch, like)  # which is what is kept in C order of all factors
    flat = transposed.reshape(*batch, (d + 1) ** 2)
    flat[..., : -1 : d + 2] = 1 / stds  # the diagonal but for its last entry
    return Gaussian(transposed.mT, -log(stds).sum(-1))


def mean(belief: HasFactor) -> Array:
    """θ̄ = R⁻¹z.

    Returns:
        the posterior mean, (*B, d).
    """
    return solve(belief.factor, belief.factor[..., :-1, -1])


def std(belief: HasFactor, Phi: Features) -> Array:
    """√(φ_eᵀ Σ φ_e) = ‖R⁻ᵀφ_e‖ of all items at once: (*B, L).

    Returns:
        the posterior std of each φ_e·θ, (*B, L).

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> gaussian.std(gaussian.prior(2, lam=10.0), np.array([[1.0, 0.0], [0.3, 0.4]]))
    array([10.,  5.])
    """
    *batch, D = belief.factor.shape[:-1]
    if Phi.shape[-1] != D - 1 or Phi.shape[:-2] != tuple(batch):
        refuse_rows(belief.factor, Phi)
    return posterior_row_norms(belief.factor, Phi)


def _check_scale(name: str, value: Any, shape: tuple[int, ...]) -> None:
    """Refuse a scale that is not positive and finite, or an array of them that does not fit the
    shape.
    """
    if type(value) is float and 0 < value < math.inf:
        return
    if is_real(value) or not hasattr(value, "shape"):
        require_positive(**{name: value})
        return
    if value.shape != shape and not _repeats(value.shape, shape):
        raise ParameterError(f"{name} must be a number or have shape {shape}, got {value.shape}")
    good = (value > 0) & (value < math.inf)
    if not good.all():
        raise ParameterError(f"{name} must be positive and finite, got {value[~good][0]}")


def _repeats(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether an array of one shape, repeated along some of its axes, has another."""
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(n in (1, m) for n, m in pairs)


def sample(belief: HasFactor, rng: Rng) -> Array:
    """θ = R⁻¹(z + ε) with ε ~ N(0, I), so θ ~ N(θ̄, Σ).

    Returns:
        one draw from the posterior, (*B, d).
    """
    z = belief.factor[..., :-1, -1]
    return solve(belief.factor, z + normal(rng, z))


def condition(
    belief: HasFactor,
    phi: Array,
    w: Array,
    sigma: Array | float,
    importance: Array | float = 1.0,
) -> Gaussian:
    """Algorithm 1 for a block of feedback: w = φθ + noise of std sigma.

    phi is (*B, K, d), w is (*B, K). A zero row says nothing about θ and is an exact no-op, whatever
    its w. `sigma` is one number, or (*B, K) with one per row. A row of `importance` v, a number or
    (*B, K), is as precise as v observations: it has noise of std sigma/√v.

    Returns:
        the belief after the feedback; the one before is unchanged.

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
    # first what is on the way of all feedback
    if not (type(sigma) is float and 0 < sigma < math.inf):
        _check_scale("sigma", sigma, w.shape)
    if not (type(importance) is float and 0 < importance < math.inf):
        _check_scale("importance", importance, w.shape)
    added = qr_append(belief.factor, phi, w, sigma / importance**0.5)
    return Gaussian(added.factor, belief.log_scale - added.log_noise - added.rows * LOG_ROOT_2PI)


class RowFactor(NamedTuple):
    """Rows [φ w], times √v if they have importance v: all that any belief about θ learns of them,
    at whatever noise.
    """

    data: Array  # (*B, d+1, d+1) their triangular factor
    rows: Array  # (*B,) how many they are
    log_v: Array  # (*B,) ½ Σ log v


def block(phi: Array, w: Array, importance: Array | float = 1.0) -> RowFactor:
    """The block of rows phi (*B, K, d) with weights w (*B, K); zero rows are padding.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3))
    >>> prior = gaussian.prior(2, lam=1.0)
    >>> block = gaussian.block(rows[:, :2], rows[:, 2])
    >>> after = gaussian.absorb(prior, block.data, block.rows, sigma=0.5)
    >>> one_by_one = gaussian.condition(prior, rows[:, :2], rows[:, 2], sigma=0.5)
    >>> bool(np.allclose(after.factor, one_by_one.factor, rtol=1e-14))
    True
    """
    _check_scale("importance", importance, w.shape)
    nothing = no_rows(phi.shape[-1], phi.shape[:-2], phi)
    added = qr_append(nothing, phi, w, importance**-0.5)
    return RowFactor(added.factor, added.rows, -added.log_noise)


def no_rows(d: int, batch: tuple[int, ...] = (), like: Features | None = None) -> Array:
    """The factor of [φ w] before any row: (*B, d+1, d+1)."""
    return full((*batch, d + 1, d + 1), 0.0, like)


def absorb(belief: HasFactor, data: Array, rows: Array | float, sigma: Array | float) -> Gaussian:
    """`condition` on many rows at once, given the triangular factor of [φ w] (*B, d+1, d+1) and how
    many they are.
    """
    batch = belief.log_scale.shape
    _check_scale("sigma", sigma, batch)
    noise = sigma if is_real(sigma) else full(batch, sigma, data)[..., None, None]
    factor = qr_stack(belief.factor, data / noise)
    return Gaussian(factor, belief.log_scale - rows * log(sigma * math.sqrt(2 * math.pi)))


def forget(belief: HasFactor, start: HasFactor, keep: float) -> Gaussian:
    """Let the past count `keep` times what it did, and the prior `start` as much as ever.

    Σ⁻¹ ← γ Σ⁻¹ + (1-γ) Σ₀⁻¹, so that all feedback of s episodes ago has importance γˢ. Left alone,
    the belief goes back to the prior and not beyond it.

    Returns:
        the belief with a past that counts less.

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
    factor = qr_stack(math.sqrt(keep) * belief.factor, math.sqrt(1 - keep) * start.factor)
    return Gaussian(factor, keep * belief.log_scale + (1 - keep) * start.log_scale)


def require_keep(keep: Any) -> None:
    """Refuse what is not a share of the past in (0, 1]."""
    if not (is_real(keep) and 0 < keep <= 1):
        raise ParameterError(f"keep must lie in (0, 1], where 1 forgets nothing, got {keep!r}")


def keep_after(forgetting: float, episodes: int) -> float:
    """What is left of the past after some episodes, γⁿ, but never so little that it rounds to 0."""
    return max(forgetting**episodes, MIN_KEEP)


def merge(belief: HasFactor, other: HasFactor, start: HasFactor) -> Gaussian:
    """What two beliefs learned apart from each other, each from the prior `start`.

    Σ⁻¹ = Σ_a⁻¹ + Σ_b⁻¹ - Σ₀⁻¹

    Returns:
        the belief of both.

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
    factor = qr_stack(belief.factor, other.factor)
    log_scale = belief.log_scale + other.log_scale - start.log_scale
    return Gaussian(qr_downdate(factor, start.factor), log_scale)


def log_evidence(belief: HasFactor) -> Array:
    """The log marginal likelihood of everything observed: (*B,). Zero rows are padding and do not
    count.

    log p(w) = log det R₀ - log det R - Σ log(σ √2π) - r²/2

    Returns:
        one number per problem of the batch, (*B,).

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> prior = gaussian.prior(1, lam=1.0)
    >>> belief = gaussian.condition(prior, np.array([[1.0]]), np.array([2.0]), sigma=1.0)
    >>> round(float(gaussian.log_evidence(belief)), 6)  # N(2; 0, 1 + 1)
    -2.265512
    """
    r = belief.factor[..., -1, -1]
    return belief.log_scale - log_det(belief.factor[..., :-1, :-1]) - r**2 / 2

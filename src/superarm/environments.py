"""Where the weights come from in a simulation: a distribution P over weight vectors with mean w̄."""

from dataclasses import dataclass, field

import numpy as np

from superarm.arrays import Array, Rng, full, matvec, normal, uniform, where
from superarm.errors import ParameterError, WeightsError, require_count, require_positive


def _finite(mean: Array) -> Array:
    mean = np.asarray(mean, dtype=np.float64)
    if mean.ndim == 0 or not np.isfinite(mean).all():
        raise WeightsError("mean weights must be finite, one an item")
    return mean


@dataclass(frozen=True, eq=False)
class GaussianEnvironment:
    """w_t(e) ~ N(w̄(e), σ²), independently.

    >>> import numpy as np
    >>> from superarm import GaussianEnvironment
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.standard_normal((5, 2))
    >>> world = GaussianEnvironment.coherent(Phi, lam=10.0, sigma=1.0, rng=rng)
    >>> world.mean.shape, world.draw(rng).shape
    ((5,), (5,))
    """

    mean: Array  # (*B, L)
    sigma: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _finite(self.mean))
        if not 0 <= self.sigma < float("inf"):
            raise ParameterError(f"sigma must be a finite number, 0 or more, got {self.sigma!r}")

    @classmethod
    def coherent(cls, Phi: Array, *, lam: float, sigma: float, rng: Rng) -> "GaussianEnvironment":
        """The paper's coherent Gaussian case: θ* ~ N(0, λ²I), w̄ = Φθ*."""
        require_positive(lam=lam)
        theta = lam * normal(rng, full((*Phi.shape[:-2], Phi.shape[-1]), 0.0))
        return cls(matvec(Phi, theta), sigma=sigma)

    def draw(self, rng: Rng) -> Array:
        """The weights of one episode."""
        return self.mean + self.sigma * normal(rng, self.mean)


@dataclass(frozen=True, eq=False)
class BernoulliEnvironment:
    """w_t(e) is 1 with probability w̄(e), else 0, independently.

    >>> import numpy as np
    >>> from superarm import BernoulliEnvironment
    >>> BernoulliEnvironment(np.array([0.0, 1.0])).draw(np.random.default_rng(0))
    array([0., 1.])
    """

    mean: Array  # (*B, L)

    def __post_init__(self) -> None:
        mean = _finite(self.mean)
        if (mean < 0).any() or (mean > 1).any():
            raise WeightsError("the means of 0/1 weights are probabilities and must lie in [0, 1]")
        object.__setattr__(self, "mean", mean)

    def draw(self, rng: Rng) -> Array:
        """The weights of one episode."""
        return where(uniform(rng, self.mean) < self.mean, 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class DriftingEnvironment:
    """A coherent Gaussian case whose coefficients move: w_t(e) ~ N(φ_e·θ*_t, σ²).

    >>> import numpy as np
    >>> from superarm import DriftingEnvironment
    >>> rng = np.random.default_rng(0)
    >>> world = DriftingEnvironment.wandering(np.eye(3), lam=1.0, sigma=0.1, drift=0.05, episodes=100, rng=rng)
    >>> world.theta.shape, world.at(100).mean.shape
    ((100, 3), (3,))
    """

    Phi: Array  # (L, d)
    theta: Array  # (n, d): θ*_1, ..., θ*_n
    sigma: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if np.ndim(self.theta) != 2 or np.shape(self.theta)[1:] != np.shape(self.Phi)[1:]:
            raise ParameterError(
                f"theta must be one row of {np.shape(self.Phi)[-1]} coefficients an episode, got {np.shape(self.theta)}"
            )

    @classmethod
    def wandering(
        cls, Phi: Array, *, lam: float, sigma: float, drift: float, episodes: int, rng: np.random.Generator
    ) -> "DriftingEnvironment":
        """θ*_1 ~ N(0, λ²I), and θ*_{t+1} = √(1-drift²) θ*_t + drift N(0, λ²I): always N(0, λ²I), ever another."""
        require_positive(lam=lam)
        require_count(episodes=episodes)
        if not 0 <= drift <= 1:
            raise ParameterError(f"drift must lie in [0, 1], got {drift!r}")
        theta = lam * rng.standard_normal((episodes, Phi.shape[-1]))
        for t in range(1, episodes):
            theta[t] = np.sqrt(1 - drift**2) * theta[t - 1] + drift * theta[t]
        return cls(Phi, theta, sigma=sigma)

    def at(self, t: int) -> GaussianEnvironment:
        """The environment of episode t."""
        if not 1 <= t <= len(self.theta):
            raise ParameterError(f"this environment is known for episodes 1 to {len(self.theta)}, not {t}")
        return GaussianEnvironment(self.Phi @ self.theta[t - 1], sigma=self.sigma)

    @property
    def mean(self) -> Array:
        """The mean weights of the first episode."""
        return self.at(1).mean

    def draw(self, rng: Rng) -> Array:
        """The weights of the first episode."""
        return self.at(1).draw(rng)

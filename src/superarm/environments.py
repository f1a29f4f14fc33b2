"""Where the weights come from in a simulation: a distribution P over weight vectors with mean w̄."""

from dataclasses import dataclass, field

import numpy as np

from superarm.arrays import Array, Rng, full, matvec, normal, uniform, where
from superarm.errors import ParameterError, WeightsError, require_positive


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

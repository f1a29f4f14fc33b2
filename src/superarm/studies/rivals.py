"""CombLinTS done otherwise, to compare with. Not for use."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, matvec, nonzero_rows, normal
from superarm.checks import require_count, require_positive
from superarm.contracts import Feedback, Model, Problem
from superarm.errors import ParameterError
from superarm.gaussian import condition, prior, sample


@dataclass(frozen=True, kw_only=True)
class _Rival(Model):
    """A learner that scores items by their features and is its own model."""

    lam: float
    sigma: float

    def __post_init__(self) -> None:
        require_positive(lam=self.lam, sigma=self.sigma)

    @property
    def model(self) -> Any:
        """The learner itself."""
        return self


class MeanAndCovariance(NamedTuple):
    """θ̄ and Σ, both held explicitly."""

    theta: Array  # (*B, d)
    Sigma: Array  # (*B, d, d)


class LiteralCombLinTS(_Rival):
    """CombLinTS on the paper's Algorithm 1 as printed, in float64: the recursion subtracts rank-one
    terms from Σ and loses positive definiteness, which is where the published cliff at tiny σ comes
    from.
    """

    def prior(self, problem: Problem) -> MeanAndCovariance:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        shape = (*problem.batch, problem.d)
        Sigma = self.lam**2 * np.eye(problem.d)
        return MeanAndCovariance(
            np.zeros(shape),
            np.broadcast_to(Sigma, (*shape, problem.d)),
        )

    def scores(self, belief: MeanAndCovariance, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t."""
        try:
            root = np.linalg.cholesky(belief.Sigma)
        except np.linalg.LinAlgError:
            # rounding has made Σ indefinite: what np.random.multivariate_normal falls back to
            parts = np.linalg.svd(belief.Sigma)
            root = parts.U * np.sqrt(parts.S)[..., None, :]
        noise = normal(rng, belief.theta)
        theta = belief.theta + matvec(root, noise)
        return matvec(problem.Phi, theta)

    def learn(
        self,
        belief: MeanAndCovariance,
        problem: Problem,
        feedback: Feedback,
    ) -> MeanAndCovariance:
        """Algorithm 1, item by item; a zero row changes nothing."""
        theta = belief.theta
        Sigma = belief.Sigma
        w = np.where(nonzero_rows(feedback.rows), feedback.w, 0.0)
        for k in range(w.shape[-1]):
            phi = feedback.rows[..., k, :]
            Sigma_phi = matvec(Sigma, phi)
            gain = Sigma_phi / ((phi * Sigma_phi).sum(-1, keepdims=True) + self.sigma**2)
            surprise = w[..., k] - (phi * theta).sum(-1)
            theta = theta + gain * surprise[..., None]
            Sigma = Sigma - gain[..., None] * Sigma_phi[..., None, :]
        return MeanAndCovariance(theta, Sigma)


class Window(NamedTuple):
    """The feedback of the last episodes, the oldest first; zero rows before there is any."""

    rows: Array  # (*B, size K, d + 1) features and weight


@dataclass(frozen=True, kw_only=True)
class WindowCombLinTS(_Rival):
    """CombLinTS on the feedback of the last `size` episodes: the usual remedy for drift."""

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(size=self.size)

    def prior(self, problem: Problem) -> Window:
        """Nothing observed."""
        if problem.oracle.K is None:
            raise ParameterError("a sliding window needs an oracle that knows its K")
        n = self.size * problem.oracle.K
        return Window(np.zeros((*problem.batch, n, problem.d + 1)))

    def scores(self, belief: Window, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t) given the window;  Φθ_t."""
        before = prior(problem.d, self.lam, problem.batch)
        posterior = condition(before, belief.rows[..., :-1], belief.rows[..., -1], self.sigma)
        return matvec(problem.Phi, sample(posterior, rng))

    def learn(self, belief: Window, problem: Problem, feedback: Feedback) -> Window:
        """Put in the new episode, drop the oldest."""
        w = np.where(feedback.A >= 0, feedback.w, 0.0)
        new = np.concatenate([feedback.rows, w[..., None]], axis=-1)
        K = belief.rows.shape[-2] // self.size
        kept = belief.rows[..., K:, :]
        # the set may have fewer than K items: zeros fill it up
        fill = np.zeros_like(belief.rows[..., w.shape[-1] : K, :])
        return Window(np.concatenate([kept, new, fill], axis=-2))

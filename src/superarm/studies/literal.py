"""The paper's Algorithm 1 as printed, in float64: shows where the published cliff at tiny σ comes
from. Not for use.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, matvec, nonzero_rows, normal
from superarm.checks import require_positive
from superarm.contracts import Feedback, Problem


class MeanAndCovariance(NamedTuple):
    """θ̄ and Σ, both held explicitly."""

    theta: Array  # (*B, d)
    Sigma: Array  # (*B, d, d)


def _square_root(Sigma: Array) -> Array:
    """S with S Sᵀ = Σ; what np.random.multivariate_normal falls back to where rounding has made Σ
    indefinite.
    """
    try:
        root: Array = np.linalg.cholesky(Sigma)
    except np.linalg.LinAlgError:
        parts = np.linalg.svd(Sigma)
        root = parts.U * np.sqrt(parts.S)[..., None, :]
    return root


@dataclass(frozen=True, kw_only=True)
class LiteralCombLinTS:
    """CombLinTS on the literal recursion, which subtracts rank-one terms from Σ and loses positive
    definiteness.
    """

    lam: float
    sigma: float
    per_item: ClassVar[tuple[str, ...]] = ()
    uses_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(lam=self.lam, sigma=self.sigma)

    @property
    def model(self) -> "LiteralCombLinTS":
        """The recursion itself."""
        return self

    def prior(self, problem: Problem) -> MeanAndCovariance:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        shape = (*problem.batch, problem.d)
        Sigma = self.lam**2 * np.eye(problem.d)
        return MeanAndCovariance(
            np.zeros(shape),
            np.broadcast_to(Sigma, (*shape, problem.d)),
        )

    def weights(self, belief: MeanAndCovariance, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t."""
        theta = belief.theta + matvec(_square_root(belief.Sigma), normal(rng, belief.theta))
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

"""The paper's model: w̄(e) = φ_e·θ with θ ~ N(0, λ²I), and noise of std σ.

paper     code
θ̄_t       coefficients(belief)
λ, σ      lam, sigma
γ         forgetting, what an episode leaves of all that was learned before
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from superarm import gaussian
from superarm.arrays import Array, Rng, full, matvec
from superarm.contracts import Feedback, Model, Problem
from superarm.gaussian import Gaussian, HasFactor, RowFactor


class FactoredModel(Model):
    """Scores φ_e·θ under any belief that holds the triangular factor of a Gaussian."""

    takes_statistics: ClassVar[bool] = True
    lam: float

    def prior(self, problem: Problem) -> Any:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        return gaussian.prior(problem.d, self.lam, problem.batch, problem.Phi)

    def prior_std(self, belief: Any, problem: Problem) -> Array:
        """λ for every coefficient, (*B, d)."""
        return full((*problem.batch, problem.d), self.lam, problem.Phi)

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> Any:
        """The Gaussian with this factor."""
        return Gaussian(factor, full(factor.shape[:-2], 0.0, factor))

    def merge(self, belief: Any, other: Any, problem: Problem) -> Any:
        """The belief after the feedback of both, each of which started from the prior."""
        return gaussian.merge(belief, other, self.prior(problem))

    def forget(self, belief: Any, problem: Problem, keep: float) -> Any:
        """The belief to which all of the past counts `keep` times what it did, and the prior as
        much as ever.
        """
        return belief if keep == 1 else faded(belief, self.lam, keep)

    def coefficients(self, belief: HasFactor) -> Array:
        """θ̄_t: (*B, d)."""
        return gaussian.mean(belief)

    def mean(self, belief: HasFactor, problem: Problem) -> Array:
        """φ_e·θ̄_t: (*B, L)."""
        return matvec(problem.Phi, gaussian.mean(belief))

    def std(self, belief: Any, problem: Problem) -> Array:
        """√(φ_eᵀ Σ_t φ_e): (*B, L)."""
        return gaussian.std(belief, problem.Phi)

    def sample(self, belief: HasFactor, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ_t with θ_t ~ N(θ̄_t, Σ_t): (*B, L)."""
        return matvec(problem.Phi, gaussian.sample(belief, rng))


def faded(belief: HasFactor, stds: Array | float, keep: float) -> Gaussian:
    """`gaussian.forget` of a belief whose prior had these stds of θ."""
    *batch, D = belief.factor.shape[:-1]
    start = gaussian.prior(D - 1, stds, tuple(batch), belief.factor)
    return gaussian.forget(belief, start, keep)


@dataclass(frozen=True)
class LinearModel(FactoredModel):
    """Algorithm 1 with λ and σ given.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.linear import LinearModel
    >>> model = LinearModel(lam=1.0, sigma=1.0)
    >>> problem = Problem(np.eye(2), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([3.0]))
    >>> model.mean(model.learn(model.prior(problem), problem, feedback), problem)
    array([1.5, 0. ])
    """

    lam: float
    sigma: float
    forgetting: float = 1.0
    fits_row_factors: ClassVar[bool] = True

    def hyperparameters(self, belief: Gaussian) -> dict[str, Array | float]:
        """λ and σ, which are fixed."""
        return {"lam": self.lam, "sigma": self.sigma}

    def learn(self, belief: Gaussian, problem: Problem, feedback: Feedback) -> Gaussian:
        """Algorithm 1 on the rows of the feedback."""
        past = belief
        if self.forgetting < 1:
            past = self.forget(
                belief, problem, gaussian.keep_after(self.forgetting, feedback.episodes)
            )
        return gaussian.observe(past, feedback, self.sigma)

    def absorb(
        self, belief: Gaussian, problem: Problem, rows: RowFactor, columns: Array
    ) -> Gaussian:
        """The belief after all rows of a factor; what their columns hold does not matter."""
        return gaussian.absorb(belief, rows, self.sigma)

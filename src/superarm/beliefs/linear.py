"""The paper's model: w̄(e) = φ_e·θ with θ ~ N(0, λ²I), and noise of std σ.

paper     code
θ̄_t       coefficients(belief)
λ, σ      lam, sigma

The paper's learners never forget; here each episode leaves the share `forgetting` of the evidence
before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from superarm import gaussian
from superarm.arrays import Array, Rng, full, matvec
from superarm.beliefs.likelihoods import GaussianNoise, Likelihood
from superarm.contracts import Feedback, Model, Problem
from superarm.gaussian import Gaussian, HasFactor, RowFactor


@dataclass(frozen=True)
class LinearModel(Model):
    """Algorithm 1, `gaussian.condition`, with fixed λ and σ.

    Another likelihood than `GaussianNoise` replaces the weights by Gaussian targets that stand for
    them, see `beliefs.likelihoods`; `sigma` is then not used.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.likelihoods import Bernoulli
    >>> from superarm.beliefs.linear import LinearModel
    >>> problem = Problem(np.eye(2), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([1.0]))
    >>> model = LinearModel(lam=1.0, sigma=1.0)
    >>> model.mean(model.learn(model.prior(problem), problem, feedback), problem)
    array([0.5, 0. ])
    >>> clicks = LinearModel(lam=1.0, likelihood=Bernoulli())
    >>> belief = clicks.learn(clicks.prior(problem), problem, feedback)
    >>> clicks.inverse_link(clicks.mean(belief, problem)).round(2)
    array([0.6, 0.5])
    """

    lam: float
    sigma: float = 1.0
    forgetting: float = 1.0
    likelihood: Likelihood = field(default_factory=GaussianNoise)
    takes_statistics: ClassVar[bool] = True

    @property
    def is_gaussian(self) -> bool:
        """True if weights are linear predictors with Gaussian noise."""
        return self.likelihood.is_gaussian

    @property
    def unit_weights(self) -> bool:
        """True if weights must lie in [0, 1]."""
        return self.likelihood.unit_weights

    @property
    def fits_row_factors(self) -> bool:
        """True if all it learns of feedback is the `gaussian.RowFactor` of its rows."""
        return self.likelihood.is_gaussian

    @property
    def fixed(self) -> dict[str, float]:
        """Hyperparameters that are not fitted: λ and σ."""
        return {"lam": self.lam, "sigma": self.sigma}

    def hyperparameters(self, belief: HasFactor) -> dict[str, Array | float]:
        """λ and σ, whatever the feedback."""
        return {**self.fixed}

    def prior(self, problem: Problem) -> HasFactor:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        return gaussian.prior(
            problem.d,
            self.lam,
            problem.batch,
            like=problem.Phi,
        )

    def prior_std(self, belief: HasFactor, problem: Problem) -> Array:
        """λ for every coefficient, (*B, d)."""
        shape = (*problem.batch, problem.d)
        return full(shape, self.lam, problem.Phi)

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> HasFactor:
        """The Gaussian with this factor."""
        batch = factor.shape[:-2]
        log_normalizer = full(batch, 0.0, factor)
        return Gaussian(factor, log_normalizer)

    def learn(self, belief: Any, problem: Problem, feedback: Feedback) -> HasFactor:
        """Forget, then Algorithm 1 on the rows: `gaussian.condition`, called by the likelihood."""
        past = belief
        if self.forgetting < 1:
            keep = gaussian.keep_after(self.forgetting, feedback.episodes)
            past = self.forget(belief, problem, keep)
        return self.likelihood.condition(
            past,
            feedback,
            self.sigma,
        )

    def learn_factor(
        self, belief: Any, problem: Problem, rows: RowFactor, column_statistics: Array
    ) -> HasFactor:
        """Condition on all rows of a factor, without forgetting."""
        return gaussian.condition_on_factor(belief, rows, self.sigma)

    def extend(self, belief: Any, problem: Problem, to: Problem) -> Any:
        """The belief itself: new items do not change it."""
        return belief

    def coefficients(self, belief: HasFactor) -> Array:
        """θ̄_t: (*B, d)."""
        return gaussian.mean(belief)

    def mean(self, belief: HasFactor, problem: Problem) -> Array:
        """φ_e·θ̄_t: (*B, L)."""
        theta = gaussian.mean(belief)
        return matvec(problem.Phi, theta)

    def std(self, belief: Any, problem: Problem) -> Array:
        """√(φ_eᵀ Σ_t φ_e): (*B, L)."""
        return gaussian.std(belief, problem.Phi)

    def sample(self, belief: HasFactor, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ_t with θ_t ~ N(θ̄_t, Σ_t): (*B, L)."""
        theta = gaussian.sample(belief, rng)
        return matvec(problem.Phi, theta)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight of a linear predictor, by the likelihood."""
        return self.likelihood.inverse_link(linear_predictor)

    def forget(self, belief: Any, problem: Problem, keep: float) -> HasFactor:
        """The belief with all evidence counted `keep` times, and the prior in full."""
        if keep == 1:
            unchanged: HasFactor = belief
            return unchanged
        start = gaussian.prior_like(belief, self.lam)
        return gaussian.forget(belief, start, keep)

    def merge(self, belief: Any, other: Any, problem: Problem) -> HasFactor:
        """The belief after the evidence of both; each started from the prior."""
        start = gaussian.prior_like(belief, self.lam)
        return gaussian.merge(belief, other, start)

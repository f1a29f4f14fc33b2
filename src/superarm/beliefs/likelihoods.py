"""Likelihoods of weights given their linear predictors η = φ_e·θ, or φ_e·θ + δ_e with item effects.

    GaussianNoise   w = η + N(0, σ²/v)       v is the importance of an observation
    Bernoulli       v w clicks in v views, each with probability sigmoid(η)

A belief about θ stays Gaussian: it learns from other weights as from Gaussian targets that stand
for them. `Likelihood` is the base class: another likelihood gives its targets and inverse link.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from superarm import gaussian
from superarm.arrays import (
    Array,
    as_float64,
    full,
    matvec,
    nonzero_rows,
    sigmoid,
    solve_rows,
    where,
)
from superarm.beliefs.expectation_propagation import expectation_propagation
from superarm.beliefs.hyperparameters import require_squares
from superarm.checks import require_unit
from superarm.contracts import Feedback
from superarm.errors import ParameterError, WeightsError
from superarm.gaussian import Gaussian, HasFactor

BLOCK_ROWS = 64
"""Number of rows whose targets are found together."""


class GaussianTargets(NamedTuple):
    """Gaussian observations of linear predictors that stand for the weights of feedback."""

    feedback: Feedback  # with targets for weights, and their precision for importance
    log_correction: Array | float  # (*B,) log evidence of the weights less that of the targets


class Likelihood(ABC):
    """Likelihood of weights given their linear predictors, as models of θ use it.

    Unless the likelihood is Gaussian itself, its targets have noise of std 1/√importance, whatever
    σ is.
    """

    is_gaussian: ClassVar[bool] = False
    """True if weights are linear predictors with Gaussian noise of std σ."""
    unit_weights: ClassVar[bool] = False
    """True if weights must lie in [0, 1]."""
    initial_lam: ClassVar[float] = 1.0
    """λ before any feedback where it is not fixed."""
    expected_size: ClassVar[float | None] = None
    """Root mean square expected of the linear predictors; by default that of the weights."""

    @abstractmethod
    def targets(self, m: Array, V: Array, feedback: Feedback, present: Array) -> GaussianTargets:
        """Targets of rows whose linear predictors are N(m, V) before the feedback.

        Args:
            m: means, (*B, K).
            V: covariances, (*B, K, K).
            feedback: the weights and their importance.
            present: False for padding, (*B, K).
        """

    @abstractmethod
    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight of a linear predictor, elementwise."""

    @abstractmethod
    def require_weights(self, feedback: Feedback, present: Array) -> None:
        """Refuse weights that are impossible; those of padding do not matter."""

    def condition(self, belief: HasFactor, feedback: Feedback, sigma: float = 1.0) -> Gaussian:
        """Posterior of θ after the feedback."""
        targets, log_correction = self.as_gaussian(belief, feedback)
        posterior = gaussian.condition_on_feedback(belief, targets, sigma=1.0)
        log_normalizer = posterior.log_normalizer + log_correction
        return Gaussian(posterior.factor, log_normalizer)

    def as_gaussian(self, belief: HasFactor, feedback: Feedback) -> GaussianTargets:
        """Targets of all rows under a belief about θ, found block by block."""
        self.require_weights(feedback, nonzero_rows(feedback.rows))
        shape = feedback.w.shape
        y = full(shape, 0.0, belief.factor)
        precision = full(shape, 1.0, belief.factor)
        log_correction = full(shape[:-1], 0.0, belief.factor)
        for rows, block in _split(feedback):
            targets, block_correction = self._block_targets(belief, block)
            belief = gaussian.condition(
                belief,
                block.rows,
                targets.w,
                sigma=1.0,
                importance=targets.importance,
            )
            y[..., rows] = targets.w
            precision[..., rows] = targets.importance
            log_correction = log_correction + block_correction
        targets = feedback._replace(
            w=y,
            importance=precision,
            n_observations=1.0,
            residual_ss=0.0,
        )
        return GaussianTargets(targets, log_correction)

    def _block_targets(self, belief: HasFactor, block: Feedback) -> GaussianTargets:
        """Targets of one block under a belief about θ: η ~ N(Φθ̄, ΦΣΦᵀ)."""
        phi = block.rows
        theta = gaussian.mean(belief)
        X = solve_rows(belief.factor, phi)
        return self.targets(
            matvec(phi, theta),
            X @ X.mT,
            block,
            nonzero_rows(phi),
        )

    def blocks(self, feedback: Feedback) -> list[Feedback]:
        """Blocks of rows whose targets are found together, each with its share of the episodes."""
        has_item = feedback.A >= 0
        has_features = nonzero_rows(feedback.rows)
        self.require_weights(feedback, has_item | has_features)
        return [block for _, block in _split(feedback)]


@dataclass(frozen=True)
class GaussianNoise(Likelihood):
    """Weights with Gaussian noise of std σ/√v around their linear predictors."""

    is_gaussian: ClassVar[bool] = True
    initial_lam: ClassVar[float] = 10.0
    """For σ = 1: first choices depend on λ/σ alone."""

    def targets(self, m: Array, V: Array, feedback: Feedback, present: Array) -> GaussianTargets:
        """The weights themselves."""
        return GaussianTargets(feedback, 0.0)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight: the linear predictor itself."""
        return linear_predictor

    def require_weights(self, feedback: Feedback, present: Array) -> None:
        """All weights are possible."""

    def condition(self, belief: HasFactor, feedback: Feedback, sigma: float = 1.0) -> Gaussian:
        """Condition on weights with noise of std σ."""
        return gaussian.condition_on_feedback(
            belief,
            feedback,
            sigma,
        )

    def as_gaussian(self, belief: HasFactor, feedback: Feedback) -> GaussianTargets:
        """The weights themselves."""
        return GaussianTargets(feedback, 0.0)

    def blocks(self, feedback: Feedback) -> list[Feedback]:
        """The feedback as one block."""
        return [feedback]


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Clicks of probability sigmoid(η). A weight between 0 and 1 is a share of clicks.

    The targets are those of `beliefs.expectation_propagation`.

    >>> import numpy as np
    >>> from superarm import Feedback, gaussian
    >>> from superarm.beliefs.likelihoods import Bernoulli
    >>> clicks = np.where(np.arange(100) < 20, 1.0, 0.0)
    >>> feedback = Feedback(np.full(100, -1), np.ones((100, 1)), clicks)
    >>> belief = Bernoulli().condition(gaussian.prior(1, lam=10.0), feedback)
    >>> Bernoulli().inverse_link(gaussian.mean(belief)).round(2)
    array([0.2])
    """

    unit_weights: ClassVar[bool] = True
    expected_size: ClassVar[float | None] = 1.0

    def targets(self, m: Array, V: Array, feedback: Feedback, present: Array) -> GaussianTargets:
        """Targets with which the posterior of each log-odds keeps its mean and variance."""
        sites = expectation_propagation(
            m,
            V,
            where(present, feedback.w, 0.0),
            full(feedback.w.shape, feedback.importance, m),
            present,
        )
        targets = feedback._replace(w=sites.y, importance=sites.precision)
        return GaussianTargets(targets, sites.log_correction)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(linear_predictor)

    def require_weights(self, feedback: Feedback, present: Array) -> None:
        """Refuse weights that are not shares of clicks, and numbers beyond float64."""
        w = feedback.w
        outside = present & ~((w >= 0) & (w <= 1))
        if outside.any():
            raise WeightsError(
                f"the logit link needs weights in [0, 1], got {w[outside][0]}: rescale them"
            )
        require_unit(
            w,
            feedback.n_observations,
            feedback.residual_ss,
            present,
        )
        v = full(w.shape, feedback.importance, as_float64(feedback.rows))
        bad = present & ~((v > 0) & (v < math.inf))
        if bad.any():
            raise ParameterError(f"importance must be positive and finite, got {v[bad][0]}")
        require_squares(feedback.rows)


def _split(feedback: Feedback) -> Iterator[tuple[slice, Feedback]]:
    """Blocks of at most `BLOCK_ROWS` rows, evenly spaced over all of the feedback."""
    phi = as_float64(feedback.rows)
    v = full(feedback.w.shape, feedback.importance, phi)
    n_blocks = -(-feedback.w.shape[-1] // BLOCK_ROWS)
    for i in range(n_blocks):
        rows = slice(i, None, n_blocks)
        start = feedback.episodes * i // n_blocks
        stop = feedback.episodes * (i + 1) // n_blocks
        yield (
            rows,
            Feedback(
                feedback.A[..., rows],
                phi[..., rows, :],
                feedback.w[..., rows],
                v[..., rows],
                episodes=stop - start,
            ),
        )

"""Likelihoods of weights given their linear predictors η = φ_e·θ, or φ_e·θ + δ_e with item effects.

    GaussianNoise   w = η + N(0, σ²/v)       v is the importance of an observation
    Bernoulli       v w clicks in v views, each with probability sigmoid(η)

A belief about θ stays Gaussian: it learns from clicks as from Gaussian targets that stand for them,
by `beliefs.expectation_propagation`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

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
from superarm.beliefs.expectation_propagation import Sites, expectation_propagation
from superarm.beliefs.hyperparameters import require_squares
from superarm.checks import require_unit
from superarm.contracts import Feedback
from superarm.errors import ParameterError, WeightsError
from superarm.gaussian import Gaussian, HasFactor

BLOCK_ROWS = 64
"""Number of rows whose targets are found together."""


@dataclass(frozen=True)
class GaussianNoise:
    """Weights with Gaussian noise around their linear predictors."""

    unit_weights: ClassVar[bool] = False
    initial_lam: ClassVar[float] = 10.0
    """λ before any feedback where it is not fixed, for σ = 1: first choices depend on λ/σ alone."""
    expected_size: ClassVar[float | None] = None
    """Expected std of the linear predictors; None for that of the weights."""

    def condition(self, belief: HasFactor, feedback: Feedback, sigma: float) -> Gaussian:
        """Condition on weights with noise of std σ."""
        return gaussian.condition_on_feedback(
            belief,
            feedback,
            sigma,
        )

    def blocks(self, feedback: Feedback) -> list[Feedback]:
        """The feedback as one block."""
        return [feedback]

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight: the linear predictor itself."""
        return linear_predictor


class GaussianTargets(NamedTuple):
    """Gaussian observations, with noise of std 1, in place of clicks."""

    feedback: Feedback
    log_correction: Array  # (*B,) log evidence of the clicks less that of the targets


@dataclass(frozen=True)
class Bernoulli:
    """Clicks of probability sigmoid(η). A weight between 0 and 1 is a share of clicks.

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
    initial_lam: ClassVar[float] = 1.0
    expected_size: ClassVar[float | None] = 1.0

    def condition(self, belief: HasFactor, feedback: Feedback, sigma: float = 1.0) -> Gaussian:
        """Condition on clicks, which bring noise of their own: σ does not matter."""
        targets, log_correction = self.as_gaussian(belief, feedback)
        posterior = gaussian.condition_on_feedback(belief, targets, sigma=1.0)
        log_normalizer = posterior.log_normalizer + log_correction
        return Gaussian(posterior.factor, log_normalizer)

    def as_gaussian(self, belief: HasFactor, feedback: Feedback) -> GaussianTargets:
        """Targets that stand for clicks under a belief about θ, found block by block."""
        require_clicks(feedback, nonzero_rows(feedback.rows))
        shape = feedback.w.shape
        y = full(shape, 0.0, belief.factor)
        precision = full(shape, 1.0, belief.factor)
        log_correction = full(shape[:-1], 0.0, belief.factor)
        for rows, block in _split(feedback):
            sites = _sites(belief, block)
            belief = gaussian.condition(
                belief,
                block.rows,
                sites.y,
                sigma=1.0,
                importance=sites.precision,
            )
            y[..., rows] = sites.y
            precision[..., rows] = sites.precision
            log_correction = log_correction + sites.log_correction
        targets = feedback._replace(
            w=y,
            importance=precision,
            n_observations=1.0,
            residual_ss=0.0,
        )
        return GaussianTargets(targets, log_correction)

    def blocks(self, feedback: Feedback) -> list[Feedback]:
        """Blocks of rows whose targets are found together, each with its share of the episodes."""
        has_item = feedback.A >= 0
        has_features = nonzero_rows(feedback.rows)
        require_clicks(feedback, has_item | has_features)
        return [block for _, block in _split(feedback)]

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(linear_predictor)


Likelihood: TypeAlias = GaussianNoise | Bernoulli


def _split(feedback: Feedback) -> Iterator[tuple[slice, Feedback]]:
    """Blocks of at most `BLOCK_ROWS` rows, each of which spans all of the feedback."""
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


def _sites(belief: HasFactor, block: Feedback) -> Sites:
    """Targets of one block under a belief about θ: log-odds are N(Φθ̄, ΦΣΦᵀ)."""
    phi = block.rows
    present = nonzero_rows(phi)
    theta = gaussian.mean(belief)
    X = solve_rows(belief.factor, phi)
    return expectation_propagation(
        matvec(phi, theta),
        X @ X.mT,
        where(present, block.w, 0.0),
        full(block.w.shape, block.importance, X),
        present,
    )


def require_clicks(feedback: Feedback, present: Array) -> None:
    """Refuse weights that are no shares of clicks, and numbers beyond float64."""
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

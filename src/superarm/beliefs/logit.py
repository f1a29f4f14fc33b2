"""Empirical Bayes for clicks: P(w = 1) = sigmoid(φ_e·θ), at a λ of the largest marginal likelihood.

S, N      n_clicks, n_views     Σ v w, Σ v
G         gram                  Σ v φφᵀ over the views
Σ a       target_precision      of the targets that stand for the clicks
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import Array, as_float64, full, nonzero_rows, where
from superarm.beliefs.coefficient_prior import INTERCEPT_STD, CoefficientPrior
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.likelihoods import Bernoulli
from superarm.contracts import Feedback, Problem

MIN_OUTCOMES = 30
"""Number of clicks, and of views without, from which on λ is chosen."""
MAX_LOG_ODDS_CHANGE = 3.0
"""Largest change of log-odds in a refit, from one in two to one in twenty: beyond it, targets no
longer stand for their clicks."""
RARE_RATE = 0.05
"""Clicks per view below which p(1-p) is about p."""


class EmpiricalBayesLogit(NamedTuple):
    """`EmpiricalBayes` belief on Gaussian targets, and sums of the clicks they stand for."""

    factor: Array  # (*B, d+1, d+1)
    log_normalizer: Array  # (*B,)
    observation_factor: Array  # (*B, d+1, d+1) of the targets √a [φ y]
    n_rows: Array  # (*B,)
    column_statistics: Array  # (*B, 4, d)
    prior_std: Array  # (*B, d)
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,)
    n_views: Array  # (*B,)
    n_clicks: Array  # (*B,)
    gram: Array  # (*B, d, d)
    target_precision: Array  # (*B,)


@dataclass(frozen=True)
class EmpiricalBayesLogitModel(EmpiricalBayesModel):
    """Empirical Bayes on Gaussian targets that stand for clicks.

    A target is as precise as its click was expected to be informative when it came. Rare clicks are
    at first expected far more or far less often than they turn out to come. So each refit first
    moves the targets to the level and precision that rare clicks have.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.logit import EmpiricalBayesLogitModel
    >>> model = EmpiricalBayesLogitModel()
    >>> problem = Problem(np.column_stack([np.ones(500), np.arange(500) % 2]), TopK(1))
    >>> clicked = np.where(np.arange(500) % 2, np.arange(500) % 5 == 1, np.arange(500) % 50 == 0)
    >>> feedback = Feedback.of(problem, np.arange(500), clicked)
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> model.inverse_link(model.mean(belief, problem))[:2].round(2)
    array([0.04, 0.2 ])
    """

    fixed: Mapping[str, float] = field(default_factory=lambda: {"sigma": 1.0})
    likelihood: ClassVar[Bernoulli] = Bernoulli()
    max_lam: ClassVar[float] = INTERCEPT_STD
    """Where features separate the clicks, the marginal likelihood grows with λ without bound."""

    def prior(self, problem: Problem) -> Any:
        """The prior at the initial λ, without clicks."""
        d = problem.d
        zero = full(problem.batch, 0.0, problem.Phi)
        return EmpiricalBayesLogit(
            **super().prior(problem)._asdict(),
            n_views=zero,
            n_clicks=zero,
            gram=full((*problem.batch, d, d), 0.0, problem.Phi),
            target_precision=zero,
        )

    def learn(self, belief: EmpiricalBayesLogit, problem: Problem, feedback: Feedback) -> Any:
        """Condition on the targets that stand for the clicks; a new fit where it is due."""
        keep = gaussian.keep_after(
            self.forgetting,
            feedback.episodes,
        )
        past = self.forget(belief, problem, keep)
        targets, _ = self.likelihood.as_gaussian(past, feedback)
        phi = as_float64(feedback.rows)
        present = nonzero_rows(phi)
        importance = full(feedback.w.shape, feedback.importance, phi)
        views = where(present, importance, 0.0)
        clicks = views * where(present, feedback.w, 0.0)
        precision = where(present, targets.importance, 0.0)
        weighted = views[..., None] * phi
        counted = past._replace(
            n_views=past.n_views + views.sum(-1),
            n_clicks=past.n_clicks + clicks.sum(-1),
            gram=past.gram + phi.mT @ weighted,
            target_precision=past.target_precision + precision.sum(-1),
        )
        return self._learn_rows(counted, targets)

    def _refit(self, belief: EmpiricalBayesLogit) -> Any:
        recentred = _recentre(belief)
        rebuilt = self.rebuild(
            recentred,
            belief.lam,
            belief.sigma,
        )
        n_without = belief.n_views - belief.n_clicks
        if min(belief.n_clicks, n_without) < MIN_OUTCOMES:
            return rebuilt
        refitted = super()._refit(recentred)
        if _rms_log_odds_change(rebuilt, refitted) > MAX_LOG_ODDS_CHANGE:
            return rebuilt
        return refitted

    def forget(self, belief: EmpiricalBayesLogit, problem: Problem, keep: float) -> Any:
        """The belief with all evidence counted `keep` times, and the prior in full."""
        if keep == 1:
            return belief
        past = super().forget(belief, problem, keep)
        return past._replace(
            n_views=keep * belief.n_views,
            n_clicks=keep * belief.n_clicks,
            gram=keep * belief.gram,
            target_precision=keep * belief.target_precision,
        )

    def merge(
        self, belief: EmpiricalBayesLogit, other: EmpiricalBayesLogit, problem: Problem
    ) -> Any:
        """The targets of both, at the λ of the largest marginal likelihood."""
        both = belief._replace(
            n_views=belief.n_views + other.n_views,
            n_clicks=belief.n_clicks + other.n_clicks,
            gram=belief.gram + other.gram,
            target_precision=belief.target_precision + other.target_precision,
        )
        return super().merge(both, other, problem)


def _rms_log_odds_change(belief: EmpiricalBayesLogit, other: EmpiricalBayesLogit) -> float:
    """Root mean square difference of two beliefs in the log-odds of all views."""
    theta = gaussian.mean(belief)
    change = theta - gaussian.mean(other)
    sum_of_squares = change @ belief.gram @ change
    mean_square = sum_of_squares / float(belief.n_views)
    return math.sqrt(max(0.0, mean_square))


def _recentre(belief: EmpiricalBayesLogit) -> EmpiricalBayesLogit:
    """Single belief with its targets at the level and precision that rare clicks have.

    Its slopes stay. Σ v p(1-p) is about the number of clicks.
    """
    prior = CoefficientPrior.from_columns(belief.column_statistics)
    intercept = prior.intercept_column
    n_clicks = float(belief.n_clicks)
    max_clicks = RARE_RATE * float(belief.n_views)
    if intercept is None or not 1 <= n_clicks <= max_clicks:
        return belief
    theta = _target_coefficients(belief)
    theta[intercept] = _poisson_intercept(belief, intercept)
    return _rescaled_targets(belief, theta, n_clicks)


def _target_coefficients(belief: EmpiricalBayesLogit) -> Array:
    """Least squares coefficients of the targets, without a prior."""
    factor = belief.observation_factor
    R = factor[:-1, :-1]
    z = factor[:-1, -1]
    solution = np.linalg.lstsq(R, z, rcond=1e-12)
    return solution[0]


def _poisson_intercept(belief: EmpiricalBayesLogit, intercept: int) -> float:
    """Coefficient of the intercept column, of constant c, at the slopes of the belief.

    Rare clicks are Poisson with mean Σ v exp(cθ_c + ρ), where ρ is the rest of the log-odds. With ρ
    normal over the views, the most likely level is cθ_c = log(S/N) - E[ρ] - Var[ρ]/2.
    """
    N = float(belief.n_views)
    rate = float(belief.n_clicks) / N
    moments = belief.gram / N
    c = belief.column_statistics[2, intercept]
    slopes = gaussian.mean(belief)
    slopes[intercept] = 0.0
    mean_row = moments[intercept] / c
    mean = mean_row @ slopes
    mean_square = slopes @ moments @ slopes
    variance = mean_square - mean**2
    level = math.log(rate) - mean - variance / 2
    return float(level / c)


def _rescaled_targets(
    belief: EmpiricalBayesLogit, theta: Array, precision: float
) -> EmpiricalBayesLogit:
    """Single belief with targets Φθ, whose precisions add up to at most `precision`."""
    total = float(belief.target_precision)
    share = min(1.0, precision / total)
    R = math.sqrt(share) * belief.observation_factor[:-1, :-1]
    factor = np.zeros_like(belief.observation_factor)
    factor[:-1, :-1] = R
    factor[:-1, -1] = R @ theta
    return belief._replace(
        observation_factor=factor,
        target_precision=np.asarray(share * total),
    )

"""Linear and mixed-effects models of log-odds, for clicks: `beliefs.expectation_propagation`
says what clicks say as
Gaussian observations, and the models learn from those.

    P(w = 1) = sigmoid(η),   η = φ_e·θ, or φ_e·θ + δ_e
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    as_float64,
    diagonal,
    full,
    matvec,
    nonzero_rows,
    sigmoid,
    solve_rows,
    where,
)
from superarm.beliefs.columns import LEVEL, is_level
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.expectation_propagation import blocks, matched, require_shares, targets
from superarm.beliefs.item_statistics import Means, RandomEffects
from superarm.beliefs.linear import FactoredModel
from superarm.beliefs.random_effects import RandomEffectsModel
from superarm.checks import require_unit
from superarm.contracts import Feedback, Problem
from superarm.gaussian import Gaussian, HasFactor

ENOUGH = 30
"""Clicks, and views without, from which on λ is chosen."""
FAR = 3.0
"""The change of log-odds beyond which what a click says as a Gaussian target is not what it says:
from one in two to one in twenty."""
RARE = 0.05
"""Clicks per view below which p(1-p) is about p."""


def condition_logit(
    belief: HasFactor,
    phi: Array,
    w: Array,
    importance: Array | float = 1.0,
) -> Gaussian:
    """The belief after rows phi (*B, K, d) showed the weights w (*B, K) in [0, 1].

    A row of `importance` v is a share of v throws.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> from superarm.beliefs.logit import condition_logit
    >>> clicked = np.arange(100) < 20
    >>> belief = condition_logit(gaussian.prior(1, lam=10.0), np.ones((100, 1)), clicked)
    >>> (1 / (1 + np.exp(-gaussian.mean(belief)))).round(2)
    array([0.2])
    """
    nowhere = full(w.shape, -1, belief.factor)
    of = matched(belief, Feedback(nowhere, phi, w, importance))
    after = gaussian.observe(belief, of.feedback, 1.0)
    return after._replace(log_scale=after.log_scale + of.missing)


@dataclass(frozen=True)
class LogitModel(FactoredModel):
    """P(w = 1) = sigmoid(φ_e·θ) with θ ~ N(0, λ²I).

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.logit import LogitModel
    >>> model = LogitModel(lam=1.0)
    >>> problem = Problem(np.eye(2), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([1.0]))
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> model.inverse_link(model.mean(belief, problem)).round(2)
    array([0.6, 0.5])
    """

    lam: float
    forgetting: float = 1.0
    unit_weights: ClassVar[bool] = True

    def hyperparameters(self, belief: Gaussian) -> dict[str, Array | float]:
        """λ, which is fixed."""
        return {"lam": self.lam}

    def learn(self, belief: Gaussian, problem: Problem, feedback: Feedback) -> Gaussian:
        """Bayes' rule by moment matching."""
        present = nonzero_rows(feedback.rows)
        require_unit(feedback.w, feedback.n_observations, feedback.residual_ss, present)
        keep = gaussian.keep_after(self.forgetting, feedback.episodes)
        past = self.forget(belief, problem, keep)
        return condition_logit(past, feedback.rows, feedback.w, feedback.importance)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(linear_predictor)


class EmpiricalBayesLogit(NamedTuple):
    """`empirical_bayes.EmpiricalBayes` on Gaussian targets, and what keeps these up to date."""

    factor: Array  # (*B, d+1, d+1)
    log_scale: Array  # (*B,)
    data: Array  # (*B, d+1, d+1) the factor of the targets [φ y], times √a
    rows: Array  # (*B,)
    columns: Array  # (*B, 4, d)
    spread: Array  # (*B, d)
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,)
    shown: Array  # (*B,) Σ v
    clicked: Array  # (*B,) Σ v w
    gram: Array  # (*B, d, d) Σ v φφᵀ
    formed: Array  # (*B,) Σ a


@dataclass(frozen=True)
class EmpiricalBayesLogitModel(EmpiricalBayesModel):
    """P(w = 1) = sigmoid(φ_e·θ) with a prior on θ that follows the columns of the features, at a λ
    of its own choosing: `EmpiricalBayesModel` on Gaussian targets.

    A target is as precise as its click was thought to tell when it came. Rare clicks are at first
    thought far more or far less likely than they turn out to be. So whenever λ is chosen anew, the
    level of the log-odds is too, and the precision of the targets: with c the coefficient of the
    constant, the clicks are Poisson with mean e^c Σ v exp(rest of the log-odds), for which moments
    of the features are kept, and Σ v p (1-p) is about their number.

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

    known: Mapping[str, float] = field(default_factory=lambda: {"sigma": 1.0})
    unit_weights: ClassVar[bool] = True
    fits_row_factors: ClassVar[bool] = False
    wide: ClassVar[Mapping[str, float]] = {"lam": 1.0}
    size: ClassVar[float | None] = 1.0
    widest: ClassVar[float] = LEVEL  # where features tell clicks apart, no λ is too large for them

    def prior(self, problem: Problem) -> Any:
        """Nothing observed."""
        d = problem.d
        nothing = full(problem.batch, 0.0, problem.Phi)
        gram = full((*problem.batch, d, d), 0.0, problem.Phi)
        start = super().prior(problem)._asdict()
        return EmpiricalBayesLogit(
            **start, shown=nothing, clicked=nothing, gram=gram, formed=nothing
        )

    def learn(self, belief: EmpiricalBayesLogit, problem: Problem, feedback: Feedback) -> Any:
        """Bayes' rule by moment matching, and at times the choice of a new λ and of new targets."""
        keep = gaussian.keep_after(self.forgetting, feedback.episodes)
        past = self.forget(belief, problem, keep)
        of = matched(past, feedback).feedback
        phi = as_float64(feedback.rows)
        present = nonzero_rows(phi)
        v = where(present, full(feedback.w.shape, feedback.importance, phi), 0.0)
        counted = past._replace(
            shown=past.shown + v.sum(-1),
            clicked=past.clicked + (v * where(present, feedback.w, 0.0)).sum(-1),
            gram=past.gram + phi.mT @ (v[..., None] * phi),
            formed=past.formed + where(present, of.importance, 0.0).sum(-1),
        )
        return self._observe(counted, of)

    def forget(self, belief: EmpiricalBayesLogit, problem: Problem, keep: float) -> Any:
        """The belief, and what it was made from, to which the past counts `keep` times what it
        did.
        """
        if keep == 1:
            return belief
        past = super().forget(belief, problem, keep)
        return past._replace(
            shown=keep * belief.shown,
            clicked=keep * belief.clicked,
            gram=keep * belief.gram,
            formed=keep * belief.formed,
        )

    def _refitted(self, belief: EmpiricalBayesLogit) -> Any:
        fresh = _refreshed(belief)
        kept = self._made(fresh, belief.lam, belief.sigma, self._prior_of(fresh))
        if min(belief.clicked, belief.shown - belief.clicked) < ENOUGH:
            return kept
        found = super()._refitted(fresh)
        # targets say what clicks say only near the log-odds at which they were formed
        return kept if _apart(kept, found) > FAR else found

    def merge(
        self, belief: EmpiricalBayesLogit, other: EmpiricalBayesLogit, problem: Problem
    ) -> Any:
        """The targets of both, at the λ of the largest marginal likelihood."""
        both = belief._replace(
            shown=belief.shown + other.shown,
            clicked=belief.clicked + other.clicked,
            gram=belief.gram + other.gram,
            formed=belief.formed + other.formed,
        )
        return super().merge(both, other, problem)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(linear_predictor)

    def _level(self, belief: EmpiricalBayesLogit, constant: Array) -> Array:
        """The prior std of the log-odds of a typical item."""
        return full((), LEVEL)


def _apart(belief: EmpiricalBayesLogit, other: EmpiricalBayesLogit) -> float:
    """How far the log-odds of all views are apart in two beliefs, in root mean square."""
    off = gaussian.mean(belief) - gaussian.mean(other)
    return math.sqrt(max(0.0, off @ belief.gram @ off) / float(belief.shown))


def _refreshed(belief: EmpiricalBayesLogit) -> EmpiricalBayesLogit:
    """A single belief with targets of the level and the precision that rare clicks have."""
    level = is_level(belief.columns)
    S = float(belief.clicked)
    N = float(belief.shown)
    if not level.any() or not 1 <= S <= RARE * N:
        return belief
    d = len(level)
    c = belief.columns[2, level][0]
    G = belief.gram
    mean = G[level][0] / (N * c)
    slopes = np.where(level, 0.0, gaussian.mean(belief))
    of_slopes = mean @ slopes + (slopes @ G @ slopes / N - (mean @ slopes) ** 2) / 2
    R = belief.data[:d, :d]
    theta = np.linalg.lstsq(R, belief.data[:d, d], rcond=1e-12)[0]
    theta[level] = (math.log(S / N) - of_slopes) / c
    data = np.zeros_like(belief.data)
    data[:d, :d] = R * math.sqrt(min(1.0, S / float(belief.formed)))
    data[:d, d] = data[:d, :d] @ theta
    return belief._replace(data=data, formed=np.minimum(belief.clicked, belief.formed))


@dataclass(frozen=True)
class RandomEffectsLogitModel(RandomEffectsModel):
    """P(w = 1) = sigmoid(φ_e·θ + δ_e): `RandomEffectsModel` on Gaussian targets.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.logit import RandomEffectsLogitModel
    >>> model = RandomEffectsLogitModel({"lam": 1.0, "sigma": 1.0, "tau": 1.0})
    >>> problem = Problem(np.ones((2, 1)), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([1.0]))
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> model.inverse_link(model.mean(belief, problem)).round(2)
    array([0.67, 0.59])
    """

    unit_weights: ClassVar[bool] = True
    wide: ClassVar[Mapping[str, float]] = {"lam": 1.0, "sigma": 1.0, "tau": 1.0}
    size: ClassVar[float | None] = 1.0

    def learn(self, belief: RandomEffects, problem: Problem, feedback: Feedback) -> RandomEffects:
        """Bayes' rule by moment matching, and at times the choice of new scales."""
        present = nonzero_rows(feedback.rows) | (feedback.A >= 0)
        require_shares(feedback, present)
        v = full(feedback.w.shape, feedback.importance, belief.total)
        parts = blocks(feedback)
        before = 0
        for i, part in enumerate(parts):
            after = feedback.episodes * (i + 1) // len(parts)  # their share of the episodes
            block = Feedback(
                feedback.A[..., part],
                feedback.rows[..., part, :],
                feedback.w[..., part],
                v[..., part],
                after - before,
            )
            belief = super().learn(belief, problem, block)
            before = after
        return belief

    def _as_gaussian(self, belief: RandomEffects, block: Feedback) -> Feedback:
        present = nonzero_rows(block.rows) | (block.A >= 0)
        of = self.rows_of(belief, block.A, as_float64(block.rows))
        X = solve_rows(belief.factor, of.rows)
        found = targets(
            matvec(of.rows, gaussian.mean(belief)) + of.pull,
            X @ X.mT + _shared(of.variance, block.A),
            where(present, block.w, 0.0),
            full(block.w.shape, block.importance, X),
            present,
        )
        return block._replace(w=found.y, importance=found.precision)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(linear_predictor)

    def _level(self, belief: RandomEffects, items: Means) -> Array:
        """The prior std of the log-odds of a typical item."""
        return full((), LEVEL)


def _shared(variance: Array, A: Array) -> Array:
    """The covariance of the deviations of observed items: (*B, K), (*B, K) -> (*B, K, K). The
    observations of an item share its deviation; rows that belong to none have one each.
    """
    own = A >= 0
    same = own[..., None] & (A[..., None] == A[..., None, :])
    return where(same, variance[..., None], 0.0) + diagonal(where(own, 0.0, variance))

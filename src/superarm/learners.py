"""Learners: CombLinTS and CombLinUCB of the paper, learners with item effects, and baselines.

The paper is Wen, Kveton & Ashkan, Efficient Learning in Large-Scale Combinatorial Semi-Bandits
(ICML 2015). A learner is a model of the weights and a policy. The model holds hyperparameters and
turns feedback into a belief; the policy, its method `scores` or `row_scores`, turns a belief into
one score per item. All state is in the belief.

    Algorithm 1   `gaussian.condition`, which `LinearModel.learn` calls by way of its likelihood
    Algorithm 2   the loop in `simulation/episodes.py`, with `CombLinTS`
    Algorithm 3   the same loop, with `CombLinUCB`

Each episode of the loop is

    A = decide(learner, belief, problem, rng)
    belief = learner.model.learn(belief, problem, feedback)

where `decide` is `problem.oracle(learner.scores(belief, problem, rng))`, but for large catalogues.
A policy whose score of an item depends on its feature row alone defines `row_scores` in place of
`scores`: it returns a function of feature rows. `BaseLearner.scores` applies it to all rows. Above
`decide.MAX_ITEMS_AT_ONCE` items `decide` applies it chunk by chunk, and never calls `scores`.

    paper       code
    λ, σ, c     lam, sigma, c
    θ̄_t, Σ_t    belief, of the models in `superarm.beliefs`
    T(e), t     belief.n, belief.t (`beliefs.independent.Counts`)
"""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from superarm import bounds, gaussian
from superarm.arrays import Array, Features, Rng, item_normal, log, matvec, take, where
from superarm.base_learner import BaseLearner
from superarm.beliefs.cached_std import CachedStdModel
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.exploration_bonus import gittins_bonus
from superarm.beliefs.hyperparameters import Hyperparameter, fixed_hyperparameters
from superarm.beliefs.independent import (
    BetaBernoulliModel,
    BetaPosterior,
    Counts,
    CountsModel,
    NormalModel,
)
from superarm.beliefs.item_statistics import RandomEffects
from superarm.beliefs.likelihoods import Bernoulli, GaussianNoise, Likelihood
from superarm.beliefs.linear import LinearModel
from superarm.beliefs.logit import EmpiricalBayesLogitModel
from superarm.beliefs.random_effects import RandomEffectsModel
from superarm.checks import is_real, positive_each, require_count, require_positive
from superarm.contracts import Model, Oracle, Problem
from superarm.errors import ParameterError
from superarm.oracles.base import RowScores, as_oracle

__all__ = [
    "CombGaussianTS",
    "CombLinTS",
    "CombLinUCB",
    "CombMixTS",
    "CombMixUCB",
    "CombTS",
    "CombUCB1",
    "Greedy",
    "RandomChoice",
]


# --- linear models --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LinearLearner(BaseLearner):
    """Parameters of every linear learner, and their model."""

    lam: Hyperparameter = "auto"
    sigma: Hyperparameter = "auto"
    forgetting: float = 1.0
    link: Literal["identity", "logit"] = "identity"

    def __post_init__(self) -> None:
        _ = self.model  # it refuses parameters that are out of their range

    @cached_property
    def model(self) -> Model:
        """w̄(e) = φ_e·θ, or its log-odds.

        link       λ and σ          model
        identity   both numbers     LinearModel; CachedStdModel in CombLinUCB without forgetting
        identity   one is "auto"    EmpiricalBayesModel
        logit      λ a number       LinearModel with the Bernoulli likelihood
        logit      λ "auto"         EmpiricalBayesLogitModel
        """
        forgetting = self.forgetting
        fixed = fixed_hyperparameters(lam=self.lam, sigma=self.sigma)
        _check_options(forgetting, self.link)
        if self.link == "logit":
            _refuse_sigma(fixed)
            if fixed:
                return LinearModel(fixed["lam"], forgetting=forgetting, likelihood=Bernoulli())
            return EmpiricalBayesLogitModel(forgetting=forgetting)
        if len(fixed) < 2:
            return EmpiricalBayesModel(fixed, forgetting)
        lam = fixed["lam"]
        sigma = fixed["sigma"]
        return LinearModel(lam, sigma, forgetting)

    def _predictions(self, theta: Array) -> RowScores:
        """Φθ, through the inverse link, as a function of feature rows Φ."""

        def predictions(Phi: Features) -> Array:
            linear_predictor = matvec(Phi, theta)
            return self.model.inverse_link(linear_predictor)

        return predictions


@dataclass(frozen=True, kw_only=True)
class CombLinTS(LinearLearner):
    """Combinatorial linear Thompson sampling, Algorithm 2.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: the share of earlier evidence that an episode leaves, in (0, 1]: below 1 if the
            weights drift. An episode is one decision with feedback.
        link: "logit" for clicks, with weights in [0, 1]; then φ·θ are log-odds, lam is on that
            scale and sigma is left out. Include a constant feature: without one, log-odds of 0
            mean a click probability of one half.

    >>> from superarm import CombLinTS
    >>> learner = CombLinTS(lam=10.0, sigma=1.0)
    >>> empirical_bayes = CombLinTS()
    >>> clicks = CombLinTS(lam=1.0, link="logit", forgetting=0.999)
    """

    theta_noise: ClassVar[float | None] = 1.0
    takes_streams: ClassVar[bool] = True

    def row_scores(self, belief: Any, rng: Rng) -> RowScores:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t, or sigmoid(Φθ_t) with the logit link.

        Returns:
            a function from feature rows Φ to their scores.
        """
        theta = gaussian.sample(belief, rng)
        return self._predictions(theta)


@dataclass(frozen=True, kw_only=True)
class CombLinUCB(LinearLearner):
    """Combinatorial linear UCB, Algorithm 3, with the options of `CombLinTS`.

    With numbers for `lam` and `sigma` it is Algorithm 3. Where one of them is "auto", c √(φᵀΣφ) is
    multiplied by `beliefs.exploration_bonus.log_growth`, as the first estimates may be too small.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: the share of earlier evidence that an episode leaves, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].
        c: width of the confidence bounds in posterior stds; begin with 1.

    >>> from superarm import CombLinUCB
    >>> learner = CombLinUCB(lam=1.0, sigma=1.0, c=2.0)
    >>> learner = CombLinUCB.from_theorem(
    ...     lam=1.0, sigma=1.0, horizon=1000, K=10, d=5, delta=0.05, theta_norm=1.0
    ... )
    >>> round(learner.c, 3)
    7.633
    """

    c: float
    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(c=self.c)

    @cached_property
    def model(self) -> Model:
        """The linear model, with the stds of the catalogue cached if only feedback changes them."""
        model = super().model
        if model.fits_hyperparameters or not model.is_gaussian or self.forgetting < 1:
            return model
        lam = float(self.lam)
        sigma = float(self.sigma)
        return CachedStdModel(lam, sigma)

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ̄_t + c √(φ_eᵀ Σ_t φ_e); c grows with t if λ and σ are estimated."""
        model = self.model
        mean = model.mean(belief, problem)
        width = self.c * model.std(belief, problem)
        width = width * model.ucb_growth(width, belief)
        sense = as_oracle(problem.oracle).sense  # for costs, the lower bound is optimistic
        bound = mean + sense * width
        return model.inverse_link(bound)

    @classmethod
    def from_theorem(
        cls,
        *,
        lam: float,
        sigma: float,
        horizon: int,
        K: int,
        d: int,
        delta: float,
        theta_norm: float,
        max_norm: float = 1.0,
    ) -> "CombLinUCB":
        """With the smallest c for which the theorem holds over `horizon` episodes; see
        `bounds.comblinucb_c`.

        Returns:
            the learner.
        """
        require_count(horizon=horizon)
        c = bounds.comblinucb_c(
            horizon,
            K=K,
            d=d,
            lam=lam,
            sigma=sigma,
            delta=delta,
            theta_norm=theta_norm,
            max_norm=max_norm,
        )
        return cls(lam=lam, sigma=sigma, c=c)


@dataclass(frozen=True, kw_only=True)
class Greedy(LinearLearner):
    """The posterior mean without exploration: a baseline, with the options of `CombLinTS`.

    While the posterior mean is exactly 0, it samples from the posterior: it would otherwise never
    choose anything from sets that may be empty.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: the share of earlier evidence that an episode leaves, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].

    >>> from superarm import Greedy
    >>> learner = Greedy(lam=10.0, sigma=1.0)
    """

    theta_noise: ClassVar[float | None] = 0.0
    takes_streams: ClassVar[bool] = True

    def row_scores(self, belief: Any, rng: Rng) -> RowScores:
        """Φθ̄_t, or sigmoid(Φθ̄_t) with the logit link.

        Returns:
            a function from feature rows Φ to their scores.
        """
        theta = gaussian.mean(belief)
        is_zero = (theta == 0).all(-1)
        if is_zero.any():
            sampled = gaussian.sample(belief, rng)
            is_zero = is_zero[..., None]
            theta = where(is_zero, sampled, theta)
        return self._predictions(theta)


# --- linear models with item effects --------------------------------------------------------------

BONUS_FRACTIONS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.125, 0.0)
"""Fractions of the bonus with which sets are proposed."""
POWER = 1.5
"""How bonuses of a set add up: 1 would be their sum, 2 the std of a sum of independent terms."""


def optimistic(mean: Array, bonus: Array, oracle: Oracle) -> Array:
    """Scores whose best set trades what it is expected to return against what it teaches: (*B, L).

    Where items of a set can be exchanged one by one, each gets its own bonus. Elsewhere, as on
    paths, the bonuses of a set would add up to more than the std of their sum: then sets are
    proposed with fractions of the bonus, and the best by mean and shared bonus is taken.

    Args:
        mean: expected weights of the items, (*B, L).
        bonus: what to add for what each item teaches, (*B, L).
        oracle: the feasible sets.
    """
    solver = as_oracle(oracle)
    sense = solver.sense
    if solver.exchanges:
        upper: Array = mean + sense * bonus
        return upper
    best_scores = mean
    best_value = None
    for fraction in BONUS_FRACTIONS:
        scores = mean + (sense * fraction) * bonus
        A = solver(scores)
        shared_bonus = (take(bonus, A) ** POWER).sum(-1) ** (1 / POWER)
        value = sense * take(mean, A).sum(-1) + shared_bonus
        if best_value is None:
            best_scores = scores
            best_value = value
            continue
        better = value > best_value
        best_scores = where(better[..., None], scores, best_scores)
        best_value = where(better, value, best_value)
    return best_scores


@dataclass(frozen=True, kw_only=True)
class MixedLearner(BaseLearner):
    """Parameters of the learners with item effects, and their model."""

    lam: Hyperparameter = "auto"
    sigma: Hyperparameter = "auto"
    tau: Hyperparameter = "auto"
    explore: float | None = None
    forgetting: float = 1.0
    link: Literal["identity", "logit"] = "identity"
    contexts: bool = False

    def __post_init__(self) -> None:
        _ = self.model  # it refuses parameters that are out of their range
        explore = 0.0 if self.explore is None else self.explore
        if not (is_real(explore) and 0 <= explore <= 1):
            raise ParameterError(f"explore must lie in [0, 1], or be None, got {self.explore!r}")

    @cached_property
    def model(self) -> RandomEffectsModel:
        """w̄(e) = φ_e·θ + δ_e with δ_e ~ N(0, τ²), or its log-odds."""
        fixed = self._fixed()
        _check_options(self.forgetting, self.link)
        if self.contexts not in (False, True):
            raise ParameterError(f"contexts must be True or False, got {self.contexts!r}")
        likelihood: Likelihood = GaussianNoise()
        if self.link == "logit":
            _refuse_sigma(fixed)
            fixed["sigma"] = 1.0
            likelihood = Bernoulli()
        return RandomEffectsModel(fixed, self.forgetting, bool(self.contexts), likelihood)

    def _fixed(self) -> dict[str, float]:
        """The hyperparameters that are numbers; τ may be 0."""
        tau = self.tau
        is_zero = is_real(tau) and tau == 0
        if not is_zero:
            return fixed_hyperparameters(lam=self.lam, sigma=self.sigma, tau=tau)
        fixed = fixed_hyperparameters(lam=self.lam, sigma=self.sigma)
        fixed["tau"] = 0.0
        return fixed


@dataclass(frozen=True, kw_only=True)
class CombMixTS(MixedLearner):
    """Thompson sampling for items that their features explain only in part: w̄(e) = φ_e·θ + δ_e.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        tau: std of the item effects δ_e, or "auto"; with 0 this is CombLinTS.
        explore: how to explore δ_e. None adds a bonus for the variance of each δ_e, see
            `beliefs.exploration_bonus`. A number from 0 to 1 samples δ_e with that share of its
            posterior std: 1 is Thompson sampling in full, which tries too many items where most
            can never be chosen twice; 0 explores θ alone.
        forgetting: the share of earlier evidence that an episode leaves, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].
        contexts: True if the features of an item differ from call to call; then the mean feature
            row of each item is kept. If False, they must stay the same.

    >>> from superarm import CombMixTS
    >>> learner = CombMixTS()
    >>> learner = CombMixTS(lam=1.0, sigma=0.3, tau=0.05, explore=0.3)
    >>> clicks = CombMixTS(link="logit", contexts=True)
    """

    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def scores(self, belief: RandomEffects, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  E[w̄(e) | θ_t] and a bonus for the variance of δ_e."""
        model = self.model
        if self.explore is not None:
            linear_predictor = model.sample(belief, problem, rng, self.explore)
            return model.inverse_link(linear_predictor)
        theta = gaussian.sample(belief, rng)
        moments = model.conditional_moments(belief, problem, theta)
        bonus = gittins_bonus(moments.variance, belief.sigma, belief.t)
        mean = model.inverse_link(moments.mean)
        upper = model.inverse_link(moments.mean + bonus)
        return optimistic(mean, upper - mean, problem.oracle)


@dataclass(frozen=True, kw_only=True)
class CombMixUCB(MixedLearner):
    """Upper confidence bounds for items that their features explain only in part, with the options
    of `CombMixTS`.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        tau: std of the item effects, or "auto".
        explore: how to explore the item effects, as for `CombMixTS`; None for the bonus.
        forgetting: the share of earlier evidence that an episode leaves, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].
        contexts: True if the features of an item differ from call to call.
        c: width of the confidence bounds in posterior stds; begin with 1.

    >>> from superarm import CombMixUCB
    >>> learner = CombMixUCB(c=1.0)
    """

    c: float
    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(c=self.c)

    def scores(self, belief: RandomEffects, problem: Problem, rng: Rng) -> Array:
        """E[w̄(e)] + c √(var E[w̄(e) | θ] + explore² E[var(δ_e | θ)]), or with the bonus."""
        model = self.model
        linear_predictor = model.mean(belief, problem)
        width = self._width(belief, problem)
        mean = model.inverse_link(linear_predictor)
        upper = model.inverse_link(linear_predictor + width)
        bonus = upper - mean
        return optimistic(mean, bonus, problem.oracle)

    def _width(self, belief: RandomEffects, problem: Problem) -> Array:
        """The width of the confidence bounds of linear predictors, (*B, L)."""
        model = self.model
        if self.explore is not None:
            return self.c * model.std(belief, problem, self.explore)
        std = model.std(belief, problem, 0.0)
        variance = model.deviation_variance(belief)
        bonus = gittins_bonus(variance, belief.sigma, belief.t)
        squares = (self.c * std) ** 2 + bonus**2
        width: Array = squares**0.5
        return width


# --- options --------------------------------------------------------------------------------------


def _check_options(forgetting: Any, link: Any) -> None:
    if not (is_real(forgetting) and 0 < forgetting <= 1):
        raise ParameterError(
            f"forgetting must lie in (0, 1], where 1 forgets nothing, got {forgetting!r}"
        )
    if link not in ("identity", "logit"):
        raise ParameterError(f"link must be 'identity' or 'logit', got {link!r}")


def _refuse_sigma(fixed: dict[str, float]) -> None:
    if "sigma" in fixed:
        raise ParameterError(
            "the logit link has no sigma: the variance of a click follows from its probability"
        )


# --- independent items ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CombTS(BaseLearner):
    """Thompson sampling with a Beta posterior per item, for weights in [0, 1]: a baseline of the
    paper.

    A weight strictly between 0 and 1 counts as that share of a success.

    Args:
        alpha: successes before any feedback: a number, or one per item in their order.
        beta: failures, likewise. An item that had 30 clicks in 1,000 views elsewhere starts at
            alpha 1 + 30 and beta 1 + 970, or at a share of that if it may differ here.

    >>> from superarm import CombTS
    >>> CombTS()
    CombTS(alpha=1.0, beta=1.0)
    >>> CombTS(alpha=[1, 31], beta=[1, 971])
    CombTS(alpha=(1.0, 31.0), beta=(1.0, 971.0))
    """

    alpha: float | Sequence[float] | Array = 1.0
    beta: float | Sequence[float] | Array = 1.0
    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        alpha = positive_each("alpha", self.alpha)
        beta = positive_each("beta", self.beta)
        if isinstance(alpha, tuple) and isinstance(beta, tuple) and len(alpha) != len(beta):
            raise ParameterError(
                f"alpha has {len(alpha)} numbers and beta {len(beta)}: each needs one per item"
            )
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)

    def __repr__(self) -> str:
        alpha = reprlib.repr(self.alpha)
        beta = reprlib.repr(self.beta)
        return f"CombTS(alpha={alpha}, beta={beta})"

    @cached_property
    def model(self) -> BetaBernoulliModel:
        """Beta(alpha, beta) for each item."""
        alpha = positive_each("alpha", self.alpha)
        beta = positive_each("beta", self.beta)
        return BetaBernoulliModel(alpha, beta)

    def scores(self, belief: BetaPosterior, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) ~ Beta."""
        return self.model.sample(belief, problem, rng)

    def resize(self, source: Array) -> "CombTS":
        """The learner for another catalogue, whose item i was item source[i], or is new: -1.

        If each item has a prior of its own, new items get the vaguest: the smallest alpha + beta.

        Returns:
            the learner with one prior per item of the other catalogue.
        """
        alpha, beta = np.broadcast_arrays(self.alpha, self.beta)
        if alpha.ndim == 0:
            return self
        vaguest = np.argmin(alpha + beta)
        prior = np.where(source >= 0, source, vaguest)
        return CombTS(alpha=alpha[prior], beta=beta[prior])


@dataclass(frozen=True, kw_only=True)
class CombGaussianTS(BaseLearner):
    """Thompson sampling with a normal posterior per item, for unbounded weights: w̄(e) ~ N(0, λ²),
    and noise of std σ.

    Args:
        lam: prior std of each mean weight.
        sigma: noise std of a weight.

    >>> from superarm import CombGaussianTS
    >>> CombGaussianTS(lam=10.0, sigma=1.0)
    CombGaussianTS(lam=10.0, sigma=1.0)
    """

    lam: float
    sigma: float
    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(lam=self.lam, sigma=self.sigma)

    @cached_property
    def model(self) -> NormalModel:
        """N(0, λ²) for each item."""
        return NormalModel(self.lam, self.sigma)

    def scores(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) ~ N(total/(n + σ²/λ²), σ²/(n + σ²/λ²))."""
        return self.model.sample(belief, problem, rng)


@dataclass(frozen=True, kw_only=True)
class CombUCB1(BaseLearner):
    """UCB1 per item (Kveton et al., AISTATS 2015), the paper's other baseline:
    mean + scale √(1.5 ln t / T(e)).

    The theory is for weights in [0, 1]; for another range set `scale` to its width. Items that were
    never observed come first. An episode, for ln t, is one decision with feedback.

    Args:
        scale: the width of the range of weights.

    >>> from superarm import CombUCB1
    >>> CombUCB1()
    CombUCB1(scale=1.0)
    """

    scale: float = 1.0
    model: ClassVar[CountsModel] = CountsModel()
    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)

    def scores(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """1 for unobserved items while some feasible set has one; then upper confidence bounds."""
        unobserved = belief.n == 0
        n = where(unobserved, 1.0, belief.n)
        t = where(belief.t > 1, belief.t, 1.0)
        mean = belief.weight_sums / n
        log_t = log(t)[..., None]
        width = (1.5 * log_t / n) ** 0.5
        upper = mean + self.scale * width
        if not unobserved.any():
            return upper
        indicator = where(unobserved, 1.0, 0.0)
        A = problem.oracle(indicator)
        n_new = take(indicator, A).sum(-1)
        has_new = n_new[..., None] > 0
        return where(has_new, indicator, upper)


@dataclass(frozen=True, kw_only=True)
class RandomChoice(BaseLearner):
    """The best set for random scores, whatever the feedback: a baseline.

    >>> from superarm import RandomChoice
    >>> RandomChoice()
    RandomChoice()
    """

    model: ClassVar[CountsModel] = CountsModel()
    scores_subsets: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True

    def scores(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """Independent N(0, 1)."""
        return item_normal(rng, belief.n)

"""The algorithms: CombLinTS and CombLinUCB of the paper, their mixed-effects kin, and baselines.

A learner is a model of the weights and a policy: the model says what is believed, the policy turns
that into weights for the oracle. All state is the belief, which the model passes along.

    paper       code
    λ, σ, c     lam, sigma, c
    θ̄_t, Σ_t    belief, of the models in `superarm.beliefs`
    T(e), t     belief.n, belief.t (`beliefs.independent.Counts`)
"""

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from superarm import bounds, gaussian
from superarm.arrays import Array, Features, Rng, item_normal, log, matvec, take, where
from superarm.beliefs.cached_std import CachedStdModel
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.exploration_bonus import growth, index, optimistic
from superarm.beliefs.independent import (
    BetaBernoulliModel,
    BetaPosterior,
    Counts,
    CountsModel,
    NormalModel,
)
from superarm.beliefs.item_statistics import RandomEffects
from superarm.beliefs.linear import LinearModel
from superarm.beliefs.options import LinearFamily, Scale, linear_model, mixed_model
from superarm.beliefs.random_effects import RandomEffectsModel
from superarm.checks import is_real, positive_each, require_count, require_positive
from superarm.contracts import Problem
from superarm.errors import ParameterError

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


@dataclass(frozen=True, kw_only=True)
class _Linear:
    """The parameters of every linear learner, and the model they ask for."""

    lam: Scale = "auto"
    sigma: Scale = "auto"
    forgetting: float = 1.0
    link: Literal["identity", "logit"] = "identity"

    def __post_init__(self) -> None:
        _ = self.model  # which refuses parameters that are out of their range

    @cached_property
    def model(self) -> LinearFamily:
        """The linear model; with a link, of log-odds. Its scales are those given, or found."""
        return linear_model(self.lam, self.sigma, self.forgetting, self.link)


@dataclass(frozen=True, kw_only=True)
class CombLinTS(_Linear):
    """Combinatorial linear Thompson sampling, Algorithm 2.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: what an episode leaves of all that was learned before, in (0, 1]: below 1 for a
            world that changes. An episode is one decision that was observed.
        link: "logit" for clicks, with weights in [0, 1]; then φ·θ are log-odds, lam is theirs and
            sigma is left out. Give the features a constant: log-odds of 0 are a coin toss, and few
            things are.

    >>> from superarm import CombLinTS
    >>> learner = CombLinTS(lam=10.0, sigma=1.0)
    >>> tuned_by_marginal_likelihood = CombLinTS()
    >>> clicks = CombLinTS(lam=1.0, link="logit", forgetting=0.999)
    """

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t."""
        return self.model.inverse_link(self.model.sample(belief, problem, rng))

    def row_scores(self, belief: Any, rng: Rng) -> Callable[[Features], Array]:
        """θ_t ~ N(θ̄_t, Σ_t), as the function of feature rows Φ that returns Φθ_t."""
        theta = gaussian.sample(belief, rng)
        return lambda Phi: self.model.inverse_link(matvec(Phi, theta))


@dataclass(frozen=True, kw_only=True)
class CombLinUCB(_Linear):
    """Combinatorial linear UCB, Algorithm 3, with the options of `CombLinTS`.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: what an episode leaves of all that was learned before, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].
        c: how optimistic, begin with 1.

    >>> from superarm import CombLinUCB
    >>> learner = CombLinUCB(lam=1.0, sigma=1.0, c=2.0)
    >>> learner = CombLinUCB.from_theorem(
    ...     lam=1.0, sigma=1.0, horizon=1000, K=10, d=5, delta=0.05, theta_norm=1.0
    ... )
    >>> round(learner.c, 3)
    7.633
    """

    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(c=self.c)

    @cached_property
    def model(self) -> LinearFamily:
        """The linear model; widths are worth keeping where Σ changes by feedback alone."""
        model = super().model
        if isinstance(model, LinearModel) and self.forgetting == 1:
            return CachedStdModel(model.lam, model.sigma)
        return model

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ̄_t + c √(φ_eᵀ Σ_t φ_e); with scales of its own choosing c grows with t, as what is
        believed at first of items that were never seen may be wrong.
        """
        width = self.c * self.model.std(belief, problem)
        if isinstance(self.model, EmpiricalBayesModel):
            width = width * growth(width, belief.sigma, belief.t)
        sense = getattr(problem.oracle, "sense", 1)  # for costs, the lower bound is optimistic
        return self.model.inverse_link(self.model.mean(belief, problem) + sense * width)

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
class Greedy(_Linear):
    """The posterior mean without exploration: a reference, with the options of `CombLinTS`.

    As long as all it has seen are zeros, it draws from the posterior: it would otherwise never
    begin where nothing is chosen at weights of zero.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: what an episode leaves of all that was learned before, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].

    >>> from superarm import Greedy
    >>> learner = Greedy(lam=10.0, sigma=1.0)
    """

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """Φθ̄_t."""
        return self.row_scores(belief, rng)(problem.Phi)

    def row_scores(self, belief: Any, rng: Rng) -> Callable[[Features], Array]:
        """The function of feature rows Φ that returns Φθ̄_t."""
        theta = gaussian.mean(belief)
        unknown = (theta == 0).all(-1)
        if unknown.any():
            theta = where(unknown[..., None], gaussian.sample(belief, rng), theta)
        return lambda Phi: self.model.inverse_link(matvec(Phi, theta))


@dataclass(frozen=True, kw_only=True)
class _Mixed:
    """The parameters of the mixed-effects learners, and their model."""

    lam: Scale = "auto"
    sigma: Scale = "auto"
    tau: Scale = "auto"
    explore: float | None = None
    forgetting: float = 1.0
    link: Literal["identity", "logit"] = "identity"
    contexts: bool = False

    def __post_init__(self) -> None:
        _ = self.model  # which refuses parameters that are out of their range
        if self.explore is not None and not (is_real(self.explore) and 0 <= self.explore <= 1):
            raise ParameterError(f"explore must lie in [0, 1], or be None, got {self.explore!r}")

    @cached_property
    def model(self) -> RandomEffectsModel:
        """w̄(e) = φ_e·θ + δ_e with δ_e ~ N(0, τ²); of log-odds for clicks."""
        return mixed_model(
            {"lam": self.lam, "sigma": self.sigma, "tau": self.tau},
            self.forgetting,
            self.link,
            self.contexts,
        )


@dataclass(frozen=True, kw_only=True)
class CombMixTS(_Mixed):
    """Thompson sampling for items that their features explain only in part: w̄(e) = φ_e·θ + δ_e.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        tau: std of the items' own deviations δ_e, or "auto"; with 0 this is CombLinTS.
        explore: how to explore for the sake of δ_e. None adds to each item what it is worth to find
            out more about it, see `beliefs.exploration_bonus`. A number from 0 to 1 draws δ_e from
            its posterior with a std of that size: 1 is full Thompson sampling, which tries too many
            items where most can never be seen twice; 0 tries them for the sake of θ alone.
        forgetting: what an episode leaves of all that was learned before, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].
        contexts: whether the features of an item differ from call to call. If not, its deviation is
            from features that must stay the same; if so, the mean feature row of each item is kept.

    >>> from superarm import CombMixTS
    >>> learner = CombMixTS()
    >>> learner = CombMixTS(lam=1.0, sigma=0.3, tau=0.05, explore=0.3)
    >>> clicks = CombMixTS(link="logit", contexts=True)
    """

    def scores(self, belief: RandomEffects, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  E[w̄(e) | θ_t] and a bonus for what is open about δ_e."""
        if self.explore is not None:
            return self.model.inverse_link(self.model.sample(belief, problem, rng, self.explore))
        of = self.model.outlook(belief, problem, gaussian.sample(belief, rng))
        mean = self.model.inverse_link(of.mean)
        bonus = index(of.variance, belief.sigma, belief.t)
        upper = self.model.inverse_link(of.mean + bonus)
        return optimistic(mean, upper - mean, problem.oracle)


@dataclass(frozen=True, kw_only=True)
class CombMixUCB(_Mixed):
    """Upper confidence bounds for items that their features explain only in part, with the options
    of `CombMixTS`.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        tau: std of the items' own deviations, or "auto".
        explore: how to explore for the sake of the deviations, None for the bonus.
        forgetting: what an episode leaves of all that was learned before, in (0, 1].
        link: "logit" for clicks, with weights in [0, 1].
        contexts: whether the features of an item differ from call to call.
        c: how optimistic, begin with 1.

    >>> from superarm import CombMixUCB
    >>> learner = CombMixUCB(c=1.0)
    """

    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(c=self.c)

    def scores(self, belief: RandomEffects, problem: Problem, rng: Rng) -> Array:
        """E[w̄(e)] + c √(var E[w̄(e) | θ] + explore² E[var(δ_e | θ)]), or with the bonus."""
        score = self.model.mean(belief, problem)
        mean = self.model.inverse_link(score)
        if self.explore is not None:
            width = self.c * self.model.std(belief, problem, self.explore)
        else:
            of_theta = self.model.std(belief, problem, 0.0)
            of_items = index(self.model.open(belief), belief.sigma, belief.t)
            width = ((self.c * of_theta) ** 2 + of_items**2) ** 0.5
        upper = self.model.inverse_link(score + width)
        return optimistic(mean, upper - mean, problem.oracle)


@dataclass(frozen=True, kw_only=True)
class CombTS:
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
        return f"CombTS(alpha={reprlib.repr(self.alpha)}, beta={reprlib.repr(self.beta)})"

    @cached_property
    def model(self) -> BetaBernoulliModel:
        """Beta(alpha, beta) for each item."""
        alpha = positive_each("alpha", self.alpha)
        beta = positive_each("beta", self.beta)
        return BetaBernoulliModel(alpha, beta)

    def scores(self, belief: BetaPosterior, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) ~ Beta."""
        return self.model.sample(belief, problem, rng)

    def moved(self, source: Array) -> "CombTS":
        """The learner for another catalogue, whose item i was item source[i], or is new if that is
        -1.

        Where items have priors of their own, a new one starts from the vaguest of them, that with
        the smallest alpha + beta.
        """
        alpha, beta = np.broadcast_arrays(self.alpha, self.beta)
        if alpha.ndim == 0:
            return self
        vaguest = np.argmin(alpha + beta)
        place = np.where(source >= 0, source, vaguest)
        return CombTS(alpha=alpha[place], beta=beta[place])


@dataclass(frozen=True, kw_only=True)
class CombGaussianTS:
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
class CombUCB1:
    """UCB1 per item (Kveton et al., AISTATS 2015), the paper's other baseline:
    mean + scale √(1.5 ln t / T(e)).

    The theory is for weights in [0, 1]; for a range of another width set `scale` to it. It first
    chooses until every item that can be chosen has been observed; an episode, for ln t, is one
    decision that was observed.

    Args:
        scale: the width of the range of weights.

    >>> from superarm import CombUCB1
    >>> CombUCB1()
    CombUCB1(scale=1.0)
    """

    scale: float = 1.0
    model: ClassVar[CountsModel] = CountsModel()

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)

    def scores(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """The indicator of unobserved items while a feasible set brings a new one, then the upper
        confidence bounds.
        """
        unobserved = belief.n == 0
        n = where(unobserved, 1.0, belief.n)
        t = where(belief.t > 1, belief.t, 1.0)
        upper = belief.total / n + self.scale * (1.5 * log(t)[..., None] / n) ** 0.5
        if not unobserved.any():
            return upper
        indicator = where(unobserved, 1.0, 0.0)
        brings_new = take(indicator, problem.oracle(indicator)).sum(-1) > 0
        return where(brings_new[..., None], indicator, upper)


@dataclass(frozen=True, kw_only=True)
class RandomChoice:
    """The best set for weights drawn at random, whatever the feedback: a reference.

    >>> from superarm import RandomChoice
    >>> RandomChoice()
    RandomChoice()
    """

    model: ClassVar[CountsModel] = CountsModel()

    def scores(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """Independent N(0, 1)."""
        return item_normal(rng, belief.n)

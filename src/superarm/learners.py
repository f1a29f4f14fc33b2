"""The algorithms: CombLinTS and CombLinUCB of the paper, their mixed-effects kin, the baselines,
plain references.

A learner is hyperparameters and three pure functions; all state is the belief they pass along.

    paper       code
    λ, σ, c     lam, sigma, c
    θ̄_t, Σ_t    belief (`gaussian.Gaussian`; `tuned.Tuned` where scales are "auto"; `widths.Widths` where they are kept)
    T(e), t     belief.n, belief.t (`itemwise.Counts`)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from superarm import bounds
from superarm.arrays import (
    Array,
    Product,
    Rng,
    beta,
    log,
    matvec,
    normal,
    sigmoid,
    take,
    take_rows,
    to_array,
    where,
)
from superarm.beliefs.itemwise import Beta, Counts, beta_prior, count, no_counts, toss
from superarm.beliefs.logit import condition_logit
from superarm.beliefs.mixed import (
    Mixed,
    drawn,
    mixed_condition,
    mixed_learn,
    mixed_merge,
    mixed_prior,
    shares,
)
from superarm.beliefs.tuned import Tuned, tuned_condition, tuned_forget, tuned_merge, tuned_prior
from superarm.beliefs.widths import Widths, condition_widths, widths, with_widths
from superarm.checks import is_real, require_count, require_positive
from superarm.contracts import Problem
from superarm.errors import ParameterError
from superarm.gaussian import Gaussian, condition, forget, mean, merge, prior, sample, std

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

Scale: TypeAlias = float | Literal["auto"]
"""A number, or "auto": from the evidence of the feedback, anew after 1, 2, 4, 8, ... episodes."""


LinearBelief: TypeAlias = Gaussian | Tuned | Widths


def _known(**scales: Scale) -> dict[str, float]:
    """The scales that are numbers, which must be positive."""
    known: dict[str, Any] = {
        name: value for name, value in scales.items() if not isinstance(value, str)
    }
    for name, value in scales.items():
        if isinstance(value, str) and value != "auto":
            raise ParameterError(f'{name} must be a positive number or "auto", got {value!r}')
    require_positive(**known)
    known = {
        name: float(value) for name, value in known.items()
    }  # NumPy's are kept in the dtype they have
    if len(known) < len(scales) and any(not 1e-100 < value < 1e100 for value in known.values()):
        raise ParameterError(
            f'beside a scale that is "auto", others must lie between 1e-100 and 1e100, got {known}'
        )
    return known


@dataclass(frozen=True, kw_only=True)
class _Linear:
    """w̄(e) = φ_e·θ with θ ~ N(0, λ²I) and noise of std σ: init and update of every linear
    learner.
    """

    lam: Scale = "auto"
    sigma: Scale = "auto"
    forgetting: float = 1.0
    link: Literal["identity", "logit"] = "identity"

    def __post_init__(self) -> None:
        known = self._known
        if not (is_real(self.forgetting) and 0 < self.forgetting <= 1):
            raise ParameterError(
                f"forgetting must lie in (0, 1], where 1 forgets nothing, got {self.forgetting!r}"
            )
        if self.link not in ("identity", "logit"):
            raise ParameterError(f"link must be 'identity' or 'logit', got {self.link!r}")
        if self.link == "logit" and set(known) != {"lam"}:
            raise ParameterError(
                "the logit link needs lam as a number, and no sigma: a coin brings its own noise"
            )

    @cached_property
    def _known(self) -> dict[str, float]:
        return _known(lam=self.lam, sigma=self.sigma)

    def init(self, problem: Problem) -> LinearBelief:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        if self.link == "identity" and "auto" in (self.lam, self.sigma):
            return tuned_prior(problem, self._known)
        return prior(problem.d, self._known["lam"], problem.batch, problem.Phi)

    def update(
        self,
        belief: LinearBelief,
        problem: Problem,
        A: Array,
        w: Array,
        importance: Array | float = 1.0,
    ) -> LinearBelief:
        """Algorithm 1 on the chosen items."""
        return self.learn(belief, problem, take_rows(problem.Phi, A), w, importance)

    def learn(
        self,
        belief: LinearBelief,
        problem: Problem,
        rows: Array,
        w: Array,
        importance: Array | float = 1.0,
    ) -> LinearBelief:
        """Algorithm 1 on any feature rows (*B, n, d)."""
        if isinstance(belief, Tuned):
            belief = tuned_forget(belief, self.forgetting) if self.forgetting < 1 else belief
            return tuned_condition(belief, rows, w, importance, self._known)
        if self.forgetting < 1:
            *batch, d = belief.factor.shape[:-1]
            belief = forget(
                belief,
                prior(d - 1, self._known["lam"], tuple(batch), belief.factor),
                self.forgetting,
            )
        if self.link == "logit":
            return condition_logit(belief, rows, w, importance)
        return condition(belief, rows, w, self._known["sigma"], importance)

    def merge(self, belief: LinearBelief, other: LinearBelief, problem: Problem) -> LinearBelief:
        """The belief after the feedback of both, each of which started from the prior."""
        if isinstance(belief, Tuned) and isinstance(other, Tuned):
            return tuned_merge(belief, other, self._known)
        return merge(belief, other, prior(problem.d, self._known["lam"], problem.batch))

    def _inverse_link(self, score: Array) -> Array:
        """The mean weight of a score φ_e·θ: clicks add up, log-odds do not."""
        return sigmoid(score) if self.link == "logit" else score


@dataclass(frozen=True, kw_only=True)
class CombLinTS(_Linear):
    """Combinatorial linear Thompson sampling, Algorithm 2.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        forgetting: what an episode leaves of all that was learned before, in (0, 1]: below 1 for a
            world that changes. An episode is one call of `update`.
        link: "logit" for clicks, with weights in [0, 1]; then φ·θ are log-odds, lam is theirs and
            sigma is left out. Give the features a constant: log-odds of 0 are a coin toss, and few
            things are.

    >>> from superarm import CombLinTS
    >>> learner = CombLinTS(lam=10.0, sigma=1.0)
    >>> tuned_by_the_evidence = CombLinTS()
    >>> clicks = CombLinTS(lam=1.0, link="logit", forgetting=0.999)
    """

    by_row: ClassVar[bool] = True  # a part of the catalogue can be weighed on its own

    def weights(self, belief: LinearBelief, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t."""
        return self._inverse_link(matvec(problem.Phi, sample(belief, rng)))


@dataclass(frozen=True, kw_only=True)
class CombLinUCB(_Linear):
    """Combinatorial linear UCB, Algorithm 3, with the options of `CombLinTS`.

    >>> from superarm import CombLinUCB
    >>> learner = CombLinUCB(lam=1.0, sigma=1.0, c=2.0)
    >>> learner = CombLinUCB.from_theorem(lam=1.0, sigma=1.0, horizon=1000, K=10, d=5, delta=0.05, theta_norm=1.0)
    >>> round(learner.c, 3)
    7.633
    """

    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(c=self.c)

    def init(self, problem: Problem) -> LinearBelief:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        belief = super().init(problem)
        # only where Σ changes by the rows of feedback alone are widths worth keeping
        simple = isinstance(belief, Gaussian) and self.link == "identity" and self.forgetting == 1
        return (
            belief
            if isinstance(problem.Phi, Product) or not simple
            else with_widths(belief, problem.Phi)
        )

    def learn(
        self,
        belief: LinearBelief,
        problem: Problem,
        rows: Array,
        w: Array,
        importance: Array | float = 1.0,
    ) -> LinearBelief:
        """Algorithm 1, and what it does to the widths."""
        if isinstance(belief, Widths):
            return condition_widths(belief, problem.Phi, rows, w, self._known["sigma"], importance)
        return super().learn(belief, problem, rows, w, importance)

    def merge(self, belief: LinearBelief, other: LinearBelief, problem: Problem) -> LinearBelief:
        """As of all, with the widths anew."""
        both = super().merge(belief, other, problem)
        return with_widths(both, to_array(problem.Phi)) if isinstance(belief, Widths) else both

    def weights(self, belief: LinearBelief, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ̄_t + c √(φ_eᵀ Σ_t φ_e)."""
        width = (
            widths(belief, problem.Phi) if isinstance(belief, Widths) else std(belief, problem.Phi)
        )
        return self._inverse_link(matvec(problem.Phi, mean(belief)) + self.c * width)

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
    """The posterior mean without exploration: a reference.

    >>> from superarm import Greedy
    >>> learner = Greedy(lam=10.0, sigma=1.0)
    """

    by_row: ClassVar[bool] = True  # a part of the catalogue can be weighed on its own

    def weights(self, belief: LinearBelief, problem: Problem, rng: Rng) -> Array:
        """Φθ̄_t."""
        return self._inverse_link(matvec(problem.Phi, mean(belief)))


@dataclass(frozen=True, kw_only=True)
class _Mixed:
    """w̄(e) = φ_e·θ + δ_e with δ_e ~ N(0, τ²): init and update of the mixed-effects learners."""

    lam: Scale = "auto"
    sigma: Scale = "auto"
    tau: Scale = "auto"
    explore: float = 0.3
    numpy_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _ = self._known  # which refuses what is not a scale
        if not (is_real(self.explore) and 0 <= self.explore <= 1):
            raise ParameterError(f"explore must lie in [0, 1], got {self.explore!r}")

    @cached_property
    def _known(self) -> dict[str, float]:
        if is_real(self.tau) and self.tau == 0:
            return _known(lam=self.lam, sigma=self.sigma) | {"tau": 0.0}
        return _known(lam=self.lam, sigma=self.sigma, tau=self.tau)

    def init(self, problem: Problem) -> Mixed:
        """θ ~ N(0, λ²I), δ_e ~ N(0, τ²)."""
        return mixed_prior(problem, self._known)

    def update(
        self, belief: Mixed, problem: Problem, A: Array, w: Array, importance: Array | float = 1.0
    ) -> Mixed:
        """Bayes' rule for θ and δ together."""
        return mixed_condition(belief, problem, A, w, importance, self._known)

    def learn(
        self,
        belief: Mixed,
        problem: Problem,
        rows: Array,
        w: Array,
        importance: Array | float = 1.0,
    ) -> Mixed:
        """The same for feature rows (*B, n, d) of items that are not the problem's."""
        return mixed_learn(belief, problem, rows, w, importance, self._known)

    def merge(self, belief: Mixed, other: Mixed, problem: Problem) -> Mixed:
        """The belief after the feedback of both, each of which started from the prior."""
        return mixed_merge(belief, other, problem, self._known)


@dataclass(frozen=True, kw_only=True)
class CombMixTS(_Mixed):
    """Thompson sampling for items that their features explain only in part: w̄(e) = φ_e·θ + δ_e.

    Args:
        lam: prior std of each coefficient, or "auto".
        sigma: noise std of a weight, or "auto".
        tau: std of the items' own deviations δ_e, or "auto"; with 0 this is CombLinTS.
        explore: 0 to 1, how much of the uncertainty about δ_e enters a choice. 1 is full Thompson
            sampling, which tries too many items where most can never be seen twice; 0 tries them
            for the sake of θ alone.

    The features of an item must stay the same, as its deviation is from them.

    >>> from superarm import CombMixTS
    >>> learner = CombMixTS()
    >>> learner = CombMixTS(lam=1.0, sigma=0.3, tau=0.05, explore=0.3)
    """

    def weights(self, belief: Mixed, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  φ_e·θ_t + E[δ_e | θ_t] + explore · N(0, var(δ_e | θ_t))."""
        return drawn(belief, matvec(problem.Phi, sample(belief, rng)), self.explore, rng)


@dataclass(frozen=True, kw_only=True)
class CombMixUCB(_Mixed):
    """Upper confidence bounds for the same model.

    >>> from superarm import CombMixUCB
    >>> learner = CombMixUCB(c=1.0)
    """

    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(c=self.c)

    def weights(self, belief: Mixed, problem: Problem, rng: Rng) -> Array:
        """E[w̄(e)] + c √(var E[w̄(e) | θ] + explore² E[var(δ_e | θ)])."""
        keep, pull, spread2 = shares(belief, belief.n, belief.total)
        width2 = (keep * std(belief, problem.Phi)) ** 2 + self.explore**2 * spread2
        return keep * matvec(problem.Phi, mean(belief)) + pull + self.c * width2**0.5


@dataclass(frozen=True, kw_only=True)
class CombTS:
    """Thompson sampling with a Beta belief an item, for weights in [0, 1]: the paper's baseline.

    Weights strictly between 0 and 1 are counted by the Bernoulli trick, `itemwise.toss`.

    >>> from superarm import CombTS
    >>> CombTS()
    CombTS(alpha=1.0, beta=1.0)
    """

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        require_positive(alpha=self.alpha, beta=self.beta)

    def init(self, problem: Problem) -> Beta:
        """Beta(alpha, beta) for each item."""
        return beta_prior(problem, float(self.alpha), float(self.beta))

    def weights(self, belief: Beta, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) ~ Beta."""
        return beta(rng, belief.alpha, belief.beta)

    def update(self, belief: Beta, problem: Problem, A: Array, w: Array) -> Beta:
        """Heads to alpha, tails to beta."""
        return toss(belief, A, w)


@dataclass(frozen=True, kw_only=True)
class CombGaussianTS:
    """CombTS for unbounded weights: w̄(e) ~ N(0, λ²) and noise of std σ, an item at a time.

    >>> from superarm import CombGaussianTS
    >>> CombGaussianTS(lam=10.0, sigma=1.0)
    CombGaussianTS(lam=10.0, sigma=1.0)
    """

    lam: float
    sigma: float

    def __post_init__(self) -> None:
        require_positive(lam=self.lam, sigma=self.sigma)

    def init(self, problem: Problem) -> Counts:
        """Nothing observed."""
        return no_counts(problem)

    def weights(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) ~ N(total/(n + σ²/λ²), σ²/(n + σ²/λ²))."""
        n = belief.n + (self.sigma / self.lam) ** 2
        return belief.total / n + self.sigma / n**0.5 * normal(rng, n)

    def update(self, belief: Counts, problem: Problem, A: Array, w: Array) -> Counts:
        """Count."""
        return count(belief, A, w)


@dataclass(frozen=True, kw_only=True)
class CombUCB1:
    """UCB1 an item (Kveton et al., AISTATS 2015): mean + scale √(1.5 ln t / T(e)), the paper's
    other baseline.

    The theory is for weights in [0, 1]; for a range of another width set `scale` to it. It first
    chooses until every item that can be chosen has been observed; an episode, for ln t, is one call
    of `update`.

    >>> from superarm import CombUCB1
    >>> CombUCB1()
    CombUCB1(scale=1.0)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)

    def init(self, problem: Problem) -> Counts:
        """Nothing observed."""
        return no_counts(problem)

    def weights(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """The indicator of unobserved items while a feasible set brings a new one, then the upper
        confidence bounds.
        """
        unobserved = belief.n == 0
        n, t = where(unobserved, 1.0, belief.n), where(belief.t > 1, belief.t, 1.0)
        upper = belief.total / n + self.scale * (1.5 * log(t)[..., None] / n) ** 0.5
        if not unobserved.any():
            return upper
        indicator = where(unobserved, 1.0, 0.0)
        brings_new = take(indicator, problem.oracle(indicator)).sum(-1) > 0
        return where(brings_new[..., None], indicator, upper)

    def update(self, belief: Counts, problem: Problem, A: Array, w: Array) -> Counts:
        """Count."""
        return count(belief, A, w)


@dataclass(frozen=True, kw_only=True)
class RandomChoice:
    """The best set for weights drawn at random, whatever the feedback: a reference.

    >>> from superarm import RandomChoice
    >>> RandomChoice()
    RandomChoice()
    """

    def init(self, problem: Problem) -> Counts:
        """Nothing observed."""
        return no_counts(problem)

    def weights(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """Independent N(0, 1)."""
        return normal(rng, belief.n)

    def update(self, belief: Counts, problem: Problem, A: Array, w: Array) -> Counts:
        """Count; never used."""
        return count(belief, A, w)

"""The algorithms: CombLinTS and CombLinUCB of the paper, its two baselines, and two plain references.

A learner is hyperparameters and three pure functions; all state is the belief they pass along.

    paper       code
    λ, σ, c     lam, sigma, c
    θ̄_t, Σ_t    belief (`gaussian.Gaussian`)
    T(e), t     belief.n, belief.t (`itemwise.Counts`)
"""

from dataclasses import dataclass

from superarm import bounds
from superarm.arrays import Array, Rng, beta, log, matvec, normal, take, take_rows, where
from superarm.errors import require_count, require_positive
from superarm.gaussian import Gaussian, condition, mean, prior, sample, std
from superarm.itemwise import Beta, Counts, beta_prior, count, no_counts, toss
from superarm.problem import Problem

__all__ = ["CombGaussianTS", "CombLinTS", "CombLinUCB", "CombTS", "CombUCB1", "Greedy", "RandomChoice"]


@dataclass(frozen=True, kw_only=True)
class _Linear:
    """w̄(e) = φ_e·θ with θ ~ N(0, λ²I) and noise of std σ: init and update of every linear learner."""

    lam: float
    sigma: float

    def __post_init__(self) -> None:
        require_positive(**vars(self))

    def init(self, problem: Problem) -> Gaussian:
        """Σ_1 = λ²I, θ̄_1 = 0."""
        return prior(problem.d, self.lam, problem.batch)

    def update(self, belief: Gaussian, problem: Problem, A: Array, w: Array) -> Gaussian:
        """Algorithm 1 on the chosen items."""
        return condition(belief, take_rows(problem.Phi, A), w, self.sigma)


@dataclass(frozen=True, kw_only=True)
class CombLinTS(_Linear):
    """Combinatorial linear Thompson sampling, Algorithm 2.

    >>> from superarm import CombLinTS
    >>> CombLinTS(lam=10.0, sigma=1.0)
    CombLinTS(lam=10.0, sigma=1.0)
    """

    def weights(self, belief: Gaussian, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t."""
        return matvec(problem.Phi, sample(belief, rng))


@dataclass(frozen=True, kw_only=True)
class CombLinUCB(_Linear):
    """Combinatorial linear UCB, Algorithm 3.

    >>> from superarm import CombLinUCB
    >>> learner = CombLinUCB(lam=1.0, sigma=1.0, c=2.0)
    >>> learner = CombLinUCB.from_theorem(lam=1.0, sigma=1.0, horizon=1000, K=10, d=5, delta=0.05, theta_norm=1.0)
    >>> round(learner.c, 3)
    7.633
    """

    c: float

    def weights(self, belief: Gaussian, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ̄_t + c √(φ_eᵀ Σ_t φ_e)."""
        return matvec(problem.Phi, mean(belief)) + self.c * std(belief, problem.Phi)

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
        """With the smallest c for which the theorem holds over `horizon` episodes; see `bounds.comblinucb_c`."""
        require_count(horizon=horizon)
        c = bounds.comblinucb_c(
            horizon, K=K, d=d, lam=lam, sigma=sigma, delta=delta, theta_norm=theta_norm, max_norm=max_norm
        )
        return cls(lam=lam, sigma=sigma, c=c)


@dataclass(frozen=True, kw_only=True)
class Greedy(_Linear):
    """The posterior mean without exploration: a reference.

    >>> from superarm import Greedy
    >>> Greedy(lam=10.0, sigma=1.0)
    Greedy(lam=10.0, sigma=1.0)
    """

    def weights(self, belief: Gaussian, problem: Problem, rng: Rng) -> Array:
        """Φθ̄_t."""
        return matvec(problem.Phi, mean(belief))


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
        return beta_prior(problem, self.alpha, self.beta)

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
    """UCB1 an item (Kveton et al., AISTATS 2015): mean + scale √(1.5 ln t / T(e)), the paper's other baseline.

    The theory is for weights in [0, 1]; for a range of another width set `scale` to it. It first chooses until every
    item that can be chosen has been observed; an episode, for ln t, is one call of `update`.

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
        """The indicator of unobserved items while a feasible set brings a new one, then the upper confidence bounds."""
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

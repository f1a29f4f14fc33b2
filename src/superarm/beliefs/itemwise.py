"""Models that keep parameters per item and ignore features: what the paper's baselines learn.

paper     code          shape
T(e)      Counts.n      (*B, L)    observations of item e
t         Counts.t      (*B,)      episodes observed
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from superarm.arrays import Array, Rng, add_at, beta, full, hashed_uniform, normal, take
from superarm.contracts import Belief, Feedback, Problem
from superarm.errors import WeightsError


def summed(belief: Belief, other: Belief, start: Belief) -> Belief:
    """What two beliefs that only add up know together, each of which started from the same."""
    fields = zip(belief, other, start, strict=True)
    return type(belief)(*(a + b - c for a, b, c in fields))


class Counts(NamedTuple):
    """How often each item was observed, and what it added up to."""

    n: Array  # (*B, L)
    total: Array  # (*B, L)
    t: Array  # (*B,)


@dataclass(frozen=True)
class CountsModel:
    """Counts and sums per item.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.itemwise import CountsModel
    >>> model = CountsModel()
    >>> problem = Problem(np.eye(3), TopK(2))
    >>> feedback = Feedback.of(problem, np.array([2, 0, -1]), np.array([0.5, 0.1, 0.0]))
    >>> model.learn(model.prior(problem), problem, feedback).total
    array([0.1, 0. , 0.5])
    """

    per_item: ClassVar[tuple[str, ...]] = ("n", "total")
    uses_features: ClassVar[bool] = False

    def prior(self, problem: Problem) -> Counts:
        """Nothing observed."""
        shape = (*problem.batch, problem.L)
        return Counts(
            full(shape, 0.0, problem.Phi),
            full(shape, 0.0, problem.Phi),
            full(problem.batch, 0.0, problem.Phi),
        )

    def learn(self, belief: Counts, problem: Problem, feedback: Feedback) -> Counts:
        """One more episode."""
        A = feedback.A
        once = full(A.shape, 1.0, belief.n)
        return Counts(
            add_at(belief.n, A, once),
            add_at(belief.total, A, feedback.w),
            belief.t + (A >= 0).any(-1),
        )

    def merge(self, belief: Counts, other: Counts, problem: Problem) -> Counts:
        """The counts and sums of both."""
        return summed(belief, other, self.prior(problem))


@dataclass(frozen=True)
class NormalItemsModel(CountsModel):
    """w̄(e) ~ N(0, λ²) independently, and noise of std σ."""

    lam: float
    sigma: float

    def _precision(self, belief: Counts) -> Array:
        """The precision of the posterior, in units of 1/σ²: n + σ²/λ²."""
        return belief.n + (self.sigma / self.lam) ** 2

    def mean(self, belief: Counts, problem: Problem) -> Array:
        """The posterior mean of each item, total/(n + σ²/λ²): (*B, L)."""
        return belief.total / self._precision(belief)

    def std(self, belief: Counts, problem: Problem) -> Array:
        """The posterior std of each item, σ/√(n + σ²/λ²): (*B, L)."""
        return self.sigma / self._precision(belief) ** 0.5

    def sample(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) from the posterior: (*B, L)."""
        spread = self.std(belief, problem) * normal(rng, belief.n)
        weights: Array = self.mean(belief, problem) + spread
        return weights


class Beta(NamedTuple):
    """w̄(e) ~ Beta(alpha, beta), independently."""

    alpha: Array  # (*B, L)
    beta: Array  # (*B, L)


@dataclass(frozen=True)
class CoinsModel:
    """w̄(e) ~ Beta independently: each item is a coin.

    A weight between 0 and 1 counts as a coin that shows heads with probability w: the Bernoulli
    trick. That coin is a hash of the item, its count so far and the weight, so that learning stays
    a pure function of belief and feedback: the same history gives the same belief, alone or in a
    batch. So where feedback takes few values between 0 and 1, replicates share coins.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.itemwise import CoinsModel
    >>> model = CoinsModel(1.0, 1.0)
    >>> problem = Problem(np.eye(3), TopK(2))
    >>> feedback = Feedback.of(problem, np.array([2, 0]), np.array([1.0, 0.0]))
    >>> model.learn(model.prior(problem), problem, feedback)
    Beta(alpha=array([1., 1., 2.]), beta=array([2., 1., 1.]))
    """

    alpha: float
    beta: float
    per_item: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    uses_features: ClassVar[bool] = False

    def prior(self, problem: Problem) -> Beta:
        """One Beta for all items."""
        shape = (*problem.batch, problem.L)
        return Beta(full(shape, self.alpha, problem.Phi), full(shape, self.beta, problem.Phi))

    def learn(self, belief: Beta, problem: Problem, feedback: Feedback) -> Beta:
        """Heads to alpha, tails to beta."""
        A = feedback.A
        w = feedback.w
        outside = (A >= 0) & ~((w >= 0) & (w <= 1))
        if outside.any():
            raise WeightsError(
                f"item {A[outside][0]} has weight {w[outside][0]}, but a Beta belief needs weights "
                "in [0, 1]: rescale them, or use CombGaussianTS"
            )
        tosses = take(belief.alpha, A) + take(belief.beta, A)
        heads = hashed_uniform(A, tosses, w) < w
        return Beta(add_at(belief.alpha, A, heads), add_at(belief.beta, A, ~heads))

    def sample(self, belief: Beta, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) from the posterior: (*B, L)."""
        return beta(rng, belief.alpha, belief.beta)

    def merge(self, belief: Beta, other: Beta, problem: Problem) -> Beta:
        """Heads and tails of both."""
        return summed(belief, other, self.prior(problem))

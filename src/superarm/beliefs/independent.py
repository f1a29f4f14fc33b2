"""Models with independent parameters per item, for the paper's baselines; features are ignored.

paper     code          shape
T(e)      Counts.n      (*B, L)    observations of item e
t         Counts.t      (*B,)      episodes observed

An observation of importance v counts as v observations of the same weight.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from superarm import gaussian
from superarm.arrays import Array, Rng, add_at, as_like, beta, full, item_normal, where
from superarm.checks import require_unit
from superarm.contracts import Feedback, Model, Problem
from superarm.errors import ParameterError, WeightsError

Belief = TypeVar("Belief", bound=tuple[Any, ...])


def add_evidence(belief: Belief, other: Belief, start: Belief) -> Belief:
    """Belief after the evidence of two beliefs whose fields are sums that began at `start`."""
    sums = []
    for x, y, x0 in zip(belief, other, start, strict=True):
        both = x + y
        sums.append(both - x0)
    return type(belief)(*sums)


class Counts(NamedTuple):
    """Counts and sums of the weights of each item."""

    n: Array  # (*B, L)
    weight_sums: Array  # (*B, L)
    t: Array  # (*B,)


@dataclass(frozen=True)
class CountsModel(Model):
    """Counts and sums per item.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.independent import CountsModel
    >>> model = CountsModel()
    >>> problem = Problem(np.eye(3), TopK(2))
    >>> feedback = Feedback.of(problem, np.array([2, 0, -1]), np.array([0.5, 0.1, 0.0]))
    >>> model.learn(model.prior(problem), problem, feedback).weight_sums
    array([0.1, 0. , 0.5])
    """

    per_item: ClassVar[tuple[str, ...]] = ("n", "weight_sums")
    uses_features: ClassVar[bool] = False
    takes_statistics: ClassVar[bool] = True

    def prior(self, problem: Problem) -> Counts:
        """Nothing observed."""
        shape = (*problem.batch, problem.L)
        return Counts(
            full(shape, 0.0, problem.Phi),
            full(shape, 0.0, problem.Phi),
            full(problem.batch, 0.0, problem.Phi),
        )

    def learn(self, belief: Counts, problem: Problem, feedback: Feedback) -> Counts:
        """Add the observations to the counts and sums of their items."""
        A = feedback.A
        v = full(A.shape, 1.0, belief.n) * feedback.importance
        weighted = v * feedback.w
        has_items = (A >= 0).any(-1)
        return Counts(
            add_at(belief.n, A, v),
            add_at(belief.weight_sums, A, weighted),
            belief.t + feedback.episodes * has_items,
        )

    def forget(self, belief: Counts, problem: Problem, keep: float) -> Counts:
        """All counts and sums times `keep`, also the number of episodes, as in discounted UCB."""
        gaussian.require_keep(keep)
        n = keep * belief.n
        remains = n > gaussian.MIN_KEEP
        return Counts(
            where(remains, n, 0.0),
            where(remains, keep * belief.weight_sums, 0.0),
            keep * belief.t,
        )

    def extend(self, belief: Counts, problem: Problem, to: Problem) -> Counts:
        """Counts of 0 for the new items."""
        n_new = to.L - problem.L
        rows = to.last_rows(n_new)
        new_items = Problem(rows, to.oracle)
        start = self.prior(new_items)
        extended: Counts = self.append_items(belief, start)
        return extended

    def mean(self, belief: Counts, problem: Problem) -> Array:
        """The mean of the observed weights of each item, 0 where there are none: (*B, L)."""
        n = where(belief.n > 0, belief.n, 1.0)
        mean: Array = belief.weight_sums / n
        return mean

    def merge(self, belief: Counts, other: Counts, problem: Problem) -> Counts:
        """The counts and sums of both."""
        start = self.prior(problem)
        return add_evidence(belief, other, start)


@dataclass(frozen=True)
class NormalModel(CountsModel):
    """w̄(e) ~ N(0, λ²) independently, and noise of std σ."""

    lam: float
    sigma: float

    def _precision(self, belief: Counts) -> Array:
        """The precision of the posterior, in units of 1/σ²: n + σ²/λ²."""
        ratio = self.sigma / self.lam
        return belief.n + ratio**2

    def mean(self, belief: Counts, problem: Problem) -> Array:
        """The posterior mean of each item, Σ w/(n + σ²/λ²): (*B, L)."""
        precision = self._precision(belief)
        return belief.weight_sums / precision

    def std(self, belief: Counts, problem: Problem) -> Array:
        """The posterior std of each item, σ/√(n + σ²/λ²): (*B, L)."""
        precision = self._precision(belief)
        return self.sigma / precision**0.5

    def sample(self, belief: Counts, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) from the posterior: (*B, L)."""
        mean = self.mean(belief, problem)
        std = self.std(belief, problem)
        weights: Array = mean + std * item_normal(rng, belief.n)
        return weights


class BetaPosterior(NamedTuple):
    """w̄(e) ~ Beta(alpha, beta), independently."""

    alpha: Array  # (*B, L)
    beta: Array  # (*B, L)


def _per_item(name: str, values: float | tuple[float, ...], problem: Problem) -> Array:
    """One number for all items, or one per item, as an array (*B, L)."""
    shape = (*problem.batch, problem.L)
    if not isinstance(values, tuple):
        return full(shape, values, problem.Phi)
    if len(values) != problem.L:
        raise ParameterError(
            f"{name} has {len(values)} numbers, but there are {problem.L} items: "
            "give one number, or one per item in their order"
        )
    return full(shape, as_like(problem.Phi, np.array(values)), problem.Phi)


@dataclass(frozen=True)
class BetaBernoulliModel(Model):
    """w̄(e) ~ Beta(alpha, beta) independently: each item is a coin.

    A weight between 0 and 1 counts as that share of heads, and the rest as tails. So learning is
    deterministic, and the order of observations does not matter. Weights that vary less than coins
    make the posterior wider than necessary, never narrower.

    Args:
        alpha: prior heads of all items, or one number per item (L,).
        beta: prior tails, likewise.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.independent import BetaBernoulliModel
    >>> model = BetaBernoulliModel(1.0, 1.0)
    >>> problem = Problem(np.eye(3), TopK(2))
    >>> feedback = Feedback.of(problem, np.array([2, 0]), np.array([1.0, 0.0]))
    >>> model.learn(model.prior(problem), problem, feedback)
    BetaPosterior(alpha=array([1., 1., 2.]), beta=array([2., 1., 1.]))
    """

    alpha: float | tuple[float, ...]
    beta: float | tuple[float, ...]
    per_item: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    unit_weights: ClassVar[bool] = True
    uses_features: ClassVar[bool] = False
    takes_statistics: ClassVar[bool] = True

    def prior(self, problem: Problem) -> BetaPosterior:
        """The Beta of each item before any feedback."""
        return BetaPosterior(
            _per_item("alpha", self.alpha, problem),
            _per_item("beta", self.beta, problem),
        )

    def learn(self, belief: BetaPosterior, problem: Problem, feedback: Feedback) -> BetaPosterior:
        """Add w heads to alpha, and 1 - w tails to beta."""
        A = feedback.A
        w = feedback.w
        outside = (A >= 0) & ~((w >= 0) & (w <= 1))
        if outside.any():
            raise WeightsError(
                f"item {A[outside][0]} has weight {w[outside][0]}, but a Beta belief needs weights "
                "in [0, 1]: rescale them, or use CombGaussianTS"
            )
        require_unit(feedback.w, feedback.n_observations, feedback.residual_ss, A >= 0)
        heads = feedback.importance * w
        tails = feedback.importance * (1 - w)
        return BetaPosterior(
            add_at(belief.alpha, A, heads),
            add_at(belief.beta, A, tails),
        )

    def forget(self, belief: BetaPosterior, problem: Problem, keep: float) -> BetaPosterior:
        """Heads and tails times `keep`, beside those of the prior."""
        gaussian.require_keep(keep)
        if keep == 1:
            return belief
        start = self.prior(problem)
        return BetaPosterior(
            start.alpha + keep * (belief.alpha - start.alpha),
            start.beta + keep * (belief.beta - start.beta),
        )

    def sample(self, belief: BetaPosterior, problem: Problem, rng: Rng) -> Array:
        """w̄_t(e) from the posterior: (*B, L)."""
        return beta(rng, belief.alpha, belief.beta)

    def extend(self, belief: BetaPosterior, problem: Problem, to: Problem) -> BetaPosterior:
        """The new items start from their prior."""
        start = self.prior(to)
        L = problem.L
        alpha = start.alpha[..., L:]
        beta = start.beta[..., L:]
        new = BetaPosterior(alpha, beta)
        extended: BetaPosterior = self.append_items(belief, new)
        return extended

    def mean(self, belief: BetaPosterior, problem: Problem) -> Array:
        """α/(α + β): (*B, L)."""
        n = belief.alpha + belief.beta
        mean: Array = belief.alpha / n
        return mean

    def merge(self, belief: BetaPosterior, other: BetaPosterior, problem: Problem) -> BetaPosterior:
        """Heads and tails of both."""
        start = self.prior(problem)
        return add_evidence(belief, other, start)

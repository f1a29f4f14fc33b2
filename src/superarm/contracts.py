"""Who takes part: a problem and its oracle, a learner and its model, feedback, a world.

paper           code       shape
E, L            L                          ground set, number of items
𝒜, ORACLE       oracle     (*B, L) -> (*B, K)
Φ, Φ_x          Phi        (*B, L, d)      features, one row per item; in context x
A^t             A          (*B, K) int     chosen items, -1 pads
w̄, w_t          mean, w    (*B, L)         mean weights, weights of episode t
θ̄_t, Σ_t        belief                     what a model believes after t - 1 episodes

Every array may carry a leading batch shape *B; a single run has B = ().
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from superarm.arrays import Array, Features, Rng, full, matvec, take_rows
from superarm.checks import centered_statistics, is_real
from superarm.errors import ParameterError, UnsupportedError


@runtime_checkable
class Oracle(Protocol):
    """Maximizes the sum of weights over the feasible sets.

    Called with weights (*B, L), it returns items (*B, k) with k <= K, padded with -1. A weight of
    -inf means that the item may not be chosen; NaN, +inf or a wrong length raise `WeightsError`; no
    feasible set raises `InfeasibleError`. `superarm.testing.check_oracle` checks all of this.
    """

    @property
    def K(self) -> int | None:
        """The most items it returns; None if unknown."""

    @property
    def gap(self) -> float | None:
        """The paper's γ, with which its sets reach (1 - γ) of the maximum; 0 if exact, None if
        unknown.
        """

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L).

        Returns:
            the items of the best set, (*B, K), in which -1 pads sets that are smaller.
        """


class Problem(NamedTuple):
    """Items with features, and the oracle over their feasible sets.

    Attributes:
        Phi: features, one row per item, (*B, L, d).
        oracle: the feasible sets, as the solver over them.

    >>> import numpy as np
    >>> from superarm import Problem, TopK
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> problem.L, problem.d, problem.batch
    (4, 4, ())
    >>> today = problem._replace(Phi=2 * np.eye(4))  # the features of one call: a context
    """

    Phi: Features  # (*B, L, d)
    oracle: Oracle

    @property
    def L(self) -> int:
        """Number of items."""
        L: int = self.Phi.shape[-2]
        return L

    @property
    def d(self) -> int:
        """Number of features."""
        d: int = self.Phi.shape[-1]
        return d

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch shape *B; () for a single run."""
        return self.Phi.shape[:-2]


class Statistics(NamedTuple):
    """What many observations of an item, or of one feature row, add up to: n, Σ w and Σ w².

    It says all that the single weights would: `Agent.observe`, `Agent.learn` and `Feedback.of` take
    it in their place, and scales come out as from them. Each is one number per item or row.

    Take the same number off all weights that are far from 0 beside what they vary by, as times are:
    Σ w² would lose the digits that tell of the noise.

    Attributes:
        n: how many observations, at least 1, (*B, K).
        sum: Σ w, (*B, K).
        squares: Σ w², (*B, K).

    >>> import numpy as np
    >>> from superarm import Agent, CombLinTS, Statistics, TopK
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((50, 3))
    >>> w = (rows @ [1.0, -1.0, 2.0])[:, None] + 0.5 * rng.standard_normal((50, 200))
    >>> agent = Agent(CombLinTS(), features=rows, oracle=TopK(5), seed=0)
    >>> agent.learn(rows, Statistics(np.full(50, 200), w.sum(axis=1), (w**2).sum(axis=1)))
    >>> round(float(agent.belief.sigma), 2)
    0.5
    """

    n: Any  # (*B, K) how many observations, at least 1
    sum: Any  # (*B, K) Σ w
    squares: Any  # (*B, K) Σ w²


class Feedback(NamedTuple):
    """What came back: which items showed which weights, and what their features were then.

    An item of -1 is not in the catalogue. If its row is not zero, the item was there once, and its
    weight still tells about features; a row of zeros is padding and tells nothing.

    Attributes:
        A: the items, (*B, K); -1 for one that is not in the catalogue.
        rows: their features at the time, (*B, K, d).
        w: what they showed, (*B, K).
        importance: how often each observation counts, a number or (*B, K).
        episodes: how many decisions it is on, where an item may occur once in each.
        n_observations: how many observations each weight is the mean of, (*B, K).
        residual_ss: Σ (w - w̄)² of those around their mean, (*B, K).

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> problem = Problem(np.eye(3), TopK(2))
    >>> Feedback.of(problem, np.array([2, -1]), np.array([0.5, 0.0])).rows
    array([[0., 0., 1.],
           [0., 0., 0.]])
    """

    A: Array  # (*B, K) int
    rows: Array  # (*B, K, d)
    w: Array  # (*B, K)
    importance: Array | float = 1.0  # how often each observation counts: a number, or (*B, K)
    episodes: int = 1  # how many decisions it is on, where an item may occur once in each
    n_observations: Array | float = 1.0  # how many observations each weight is the mean of, (*B, K)
    residual_ss: Array | float = 0.0  # Σ (w - w̄)² of those around their mean, (*B, K)

    @classmethod
    def of(
        cls,
        problem: Problem,
        A: Array,
        w: Array | Statistics,
        importance: Array | float = 1.0,
    ) -> "Feedback":
        """The feedback of items of the problem, with the features they have in it.

        Returns:
            the feedback, with the rows of the items taken from the problem.
        """
        rows = take_rows(problem.Phi, A)
        if not isinstance(w, Statistics):
            return cls(A, rows, w, importance)
        mean, n, residual_ss = centered_statistics(*w)
        return cls(A, rows, mean, n, n_observations=n, residual_ss=residual_ss)

    @property
    def is_summed(self) -> bool:
        """Whether weights are means of many observations, as `Statistics` are."""
        return type(self.n_observations) is not float and not is_real(self.n_observations)


class Moments(NamedTuple):
    """Mean and variance of each mean weight, given θ."""

    mean: Array  # (*B, L)
    variance: Array  # (*B, L)


class Model(ABC):
    """Posterior over mean weights. A subclass defines `prior` and `learn`; the rest has defaults.

    A belief is a NamedTuple of arrays. Methods return new beliefs and leave the old ones as they
    are. The default of a method that cannot be derived raises an error that names it.

    >>> import numpy as np
    >>> from typing import NamedTuple
    >>> from superarm import Model, Problem, TopK
    >>> class LastWeights(NamedTuple):
    ...     w: np.ndarray
    >>> class LastWeight(Model):
    ...     per_item = ("w",)
    ...     uses_features = False
    ...     def prior(self, problem):
    ...         return LastWeights(np.zeros(problem.L))
    ...     def learn(self, belief, problem, feedback):
    ...         w = belief.w.copy()
    ...         w[feedback.A[feedback.A >= 0]] = feedback.w[feedback.A >= 0]
    ...         return LastWeights(w)
    >>> problem = Problem(np.eye(3), TopK(1))
    >>> LastWeight().prior(problem)
    LastWeights(w=array([0., 0., 0.]))
    """

    per_item: ClassVar[tuple[str, ...]] = ()
    """The fields of a belief that have one entry per item, on the last axis."""
    uses_features: ClassVar[bool] = True
    """True if it learns from feature rows, also from those of items that are gone."""
    takes_statistics: ClassVar[bool] = False
    """True if `learn` reads `n_observations` and `residual_ss`; else `Statistics` are refused."""
    unit_weights: ClassVar[bool] = False
    """True if weights must lie in [0, 1]."""
    fits_row_factors: ClassVar[bool] = False
    """True if all it learns of feedback is the `gaussian.RowFactor` of its rows."""
    forgetting: float = 1.0
    """The share of earlier evidence that an episode leaves, in (0, 1]."""

    @property
    def fixed_features(self) -> bool:
        """True if the features of an item must stay the same, as its parameters go with them."""
        return bool(self.per_item) and self.uses_features

    # --- required -----------------------------------------------------------------------------

    @abstractmethod
    def prior(self, problem: Problem) -> Any:
        """The belief before any feedback.

        Returns:
            a NamedTuple of arrays.
        """

    @abstractmethod
    def learn(self, belief: Any, problem: Problem, feedback: Feedback) -> Any:
        """The belief after the feedback.

        Returns:
            a NamedTuple of arrays, of the same class.
        """

    # --- the posterior ------------------------------------------------------------------------

    def mean(self, belief: Any, problem: Problem) -> Array:
        """Posterior mean of each linear predictor.

        Returns:
            one number per item, (*B, L).
        """
        raise self._unsupported("mean")

    def std(self, belief: Any, problem: Problem) -> Array:
        """Posterior standard deviation of each linear predictor, for `Agent.explain`.

        Returns:
            one number per item, (*B, L).
        """
        raise self._unsupported("std")

    def sample(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """Linear predictors sampled from the posterior.

        Returns:
            one number per item, (*B, L).
        """
        raise self._unsupported("sample")

    def coefficients(self, belief: Any) -> Array:
        """Posterior mean θ̄ of the coefficients of the features, for `Agent.explain`.

        Returns:
            one number per feature, (*B, d).
        """
        raise self._unsupported("coefficients")

    def item_effects(self, belief: Any, problem: Problem) -> Array:
        """Posterior mean of each item's deviation from what its features predict; 0 by default.

        Returns:
            one number per item, (*B, L).
        """
        return full((*problem.batch, problem.L), 0.0, problem.Phi)

    def conditional_moments(self, belief: Any, problem: Problem, theta: Array) -> Moments:
        """Mean and variance of each linear predictor given θ; by default φ_e·θ and 0.

        Returns:
            the moments, (*B, L) each.
        """
        linear = matvec(problem.Phi, theta)
        return Moments(linear, 0 * linear)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """The mean weight that a linear predictor stands for; by default the same number.

        Returns:
            an array of the same shape.
        """
        return linear_predictor

    def ucb_growth(self, std: Array, belief: Any) -> Array | float:
        """The factor by which upper confidence bounds widen with time; 1 by default.

        Returns:
            a number, or one per item, (*B, L).
        """
        return 1.0

    def hyperparameters(self, belief: Any) -> dict[str, Array | float]:
        """λ, σ and τ in use, by the names `lam`, `sigma` and `tau`; none by default.

        Returns:
            a number, or (*B,), by name.
        """
        return {}

    # --- beliefs that change without feedback -------------------------------------------------

    def forget(self, belief: Any, problem: Problem, keep: float) -> Any:
        """The belief with all evidence counted `keep` times, in (0, 1], and the prior in full.

        Returns:
            a belief of the same class.
        """
        raise self._unsupported("forget")

    def merge(self, belief: Any, other: Any, problem: Problem) -> Any:
        """The belief after the evidence of both, each of which started from the prior.

        Returns:
            a belief of the same class.
        """
        raise self._unsupported("merge")

    def resize(self, belief: Any, problem: Problem, to: Problem, source: Array) -> Any:
        """The belief about another catalogue, whose item i was item source[i], or is new: -1.

        By default fields `per_item` move along, and new items start from the prior.

        Returns:
            a belief of the same class.
        """
        if not self.per_item:
            return belief
        start = self.prior(to)
        has_source = source >= 0
        fields = {}
        for name in self.per_item:
            values = np.array(getattr(start, name))
            before = np.asarray(getattr(belief, name))
            values[..., has_source] = before[..., source[has_source]]
            fields[name] = values
        return belief._replace(**fields)

    def extend(self, belief: Any, problem: Problem, to: Problem) -> Any:
        """The belief about a catalogue with more items behind those of `problem`: as `resize`,
        which it calls by default.

        Returns:
            a belief of the same class.
        """
        new = np.full(to.L - problem.L, -1)
        source = np.append(np.arange(problem.L), new)
        return self.resize(belief, problem, to, source)

    def select_items(self, belief: Any, items: Array) -> Any:
        """The belief about some of the items alone, in this order.

        Returns:
            a belief of the same class.
        """
        fields = {name: np.asarray(getattr(belief, name))[..., items] for name in self.per_item}
        return belief._replace(**fields)

    def append_items(self, belief: Any, start: Any) -> Any:
        """The belief with the fields `per_item` of `start`, which is about items behind its own.

        Returns:
            a belief of the same class.
        """
        fields = {}
        for name in self.per_item:
            parts = [np.asarray(getattr(belief, name)), np.asarray(getattr(start, name))]
            fields[name] = np.concatenate(parts, axis=-1)
        return belief._replace(**fields)

    def _unsupported(self, method: str) -> UnsupportedError:
        return UnsupportedError(
            f"{type(self).__name__} has no method {method}(...), which this needs: "
            "see superarm.contracts.Model for what it takes and returns"
        )


def last_rows(problem: Problem, n: int) -> Array:
    """Feature rows of the last n items: (n, d)."""
    return take_rows(problem.Phi, np.arange(problem.L - n, problem.L))


@runtime_checkable
class Learner(Protocol):
    """An algorithm: a model of the weights, and a policy.

    A learner of yours need not inherit from anything. One that inherits from
    `superarm.learners.BaseLearner` may say more, such as how it scores feature rows alone.
    `superarm.testing.check_learner` checks the contract.
    """

    @property
    def model(self) -> Model:
        """The model of the weights, chosen once when the learner is made."""

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """The scores of an episode, of which the oracle maximizes the sum over a set.

        Returns:
            one score per item, (*B, L).
        """


def require_learner(learner: Any) -> None:
    """Refuse all but a learner whose model is a `Model`, and say what to write instead."""
    if isinstance(learner, type) or not isinstance(learner, Learner):
        raise ParameterError(
            "a learner is needed, as CombLinTS(): an object with an attribute model and a method "
            f"scores(belief, problem, rng), got {learner!r:.100}"
        )
    if not isinstance(learner.model, Model):
        name = type(learner.model).__name__
        raise ParameterError(
            f"the model of a learner must be a superarm.Model: write class {name}(Model), with "
            "the methods prior(problem) and learn(belief, problem, feedback)"
        )


class Environment(Protocol):
    """Where the weights of one episode come from in a simulation."""

    @property
    def mean(self) -> Array:
        """The true mean weights w̄ (*B, L); the array stays as it is."""

    @property
    def features(self) -> Features | None:
        """A context that is shown to the learner instead of the problem's features, or None."""

    def sample(self, rng: Rng) -> Array:
        """The weights w_t ~ P of one episode (*B, L).

        Returns:
            one weight per item, (*B, L).
        """


class SlateEnvironment(Environment, Protocol):
    """An environment of ordered slates: what is observed, and what a slate is worth, depend on the
    order.

    One with these three methods is asked for them; else each chosen item shows its weight, and a
    set is worth the sum.
    """

    def clicks(self, A: Array, weights: Array, rng: Rng) -> Array:
        """What came of the slate A (*B, K) in an episode with these weights (*B, L): (*B, K).

        Returns:
            one number per position, (*B, K); 1 where there was a click, else 0.
        """

    def feedback(self, problem: Problem, A: Array, clicks: Array) -> Feedback:
        """What the learner is told of it; items that were not seen are left out, as -1.

        Returns:
            what the learner's model learns from.
        """

    def value(self, A: Array, weights: Array) -> Array:
        """What the slate A is worth if these are the weights (*B, L), or their means: (*B,).

        Returns:
            one number per slate, (*B,).
        """


Choose: TypeAlias = Callable[[Features | None], Array]
"""What a learner would choose, (*B, K), if it were shown these features (None: the problem's own).

It draws with a stream of its own, anew in every call.
"""


class World(Protocol):
    """What is played in: an environment per episode."""

    def at(self, t: int, choose: Choose) -> Environment:
        """The environment of episode t = 1, 2, ...

        A world that stays the same returns itself. One that changes by itself returns the same
        environment whenever it is asked for episode t, as several learners may ask in turn. An
        adversary knows the learner's policy, but not its coin: it may ask what `choose` would
        choose.

        Returns:
            the mean weights of this episode, and how its weights are drawn.
        """

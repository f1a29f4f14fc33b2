"""The core records and protocols: problem, oracle, feedback, model, learner, environment, world.

Each episode, a learner turns its belief into one score per item, the oracle returns the set A^t of
the largest sum of scores, the environment returns the weights of its items, and the model of the
learner turns this feedback into the next belief.

paper           code       shape
E, L            L                          ground set, number of items
𝒜, ORACLE       oracle     (*B, L) -> (*B, K)
Φ, Φ_x          Phi        (*B, L, d)      features, one row per item; in context x
A^t             A          (*B, K) int     chosen items, -1 pads
w̄, w_t          mean, w    (*B, L)         mean weights, weights of episode t
θ̄_t, Σ_t        belief                     posterior after t - 1 episodes

Every array may carry a leading batch shape *B; a single run has B = ().
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from superarm.arrays import Array, Features, Rng, full, matvec, take_rows
from superarm.checks import centered_statistics, is_real
from superarm.errors import ParameterError, UnsupportedError


@runtime_checkable
class Oracle(Protocol):
    """Solver that maximizes the sum of scores over the feasible sets.

    Called with scores (*B, L), it returns items (*B, k) with k <= K, padded with -1. A score of
    -inf means that the item may not be chosen; NaN, +inf or a wrong length raise `WeightsError`; no
    feasible set raises `InfeasibleError`. `superarm.testing.check_oracle` checks all of this.
    """

    @property
    def K(self) -> int | None:
        """The most items it returns; None if unknown."""

    @property
    def gap(self) -> float | None:
        """The paper's γ, with sets within (1 - γ) of the maximum; 0 if exact, None if unknown."""

    def __call__(self, w: Array, /) -> Array:
        """The set of the largest sum of the scores w, (*B, L).

        Returns:
            the items of the set, (*B, k), in which -1 pads smaller sets.
        """


class Problem(NamedTuple):
    """Items with features, and the oracle over their feasible sets.

    Attributes:
        Phi: features, one row per item, (*B, L, d).
        oracle: the solver over the feasible sets.

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
        shape = self.Phi.shape
        return shape[:-2]

    def last_rows(self, n: int) -> Array:
        """Feature rows of the last n items.

        Returns:
            the rows, (n, d).
        """
        L = self.L
        first = L - n
        items = np.arange(first, L)
        return take_rows(self.Phi, items)


class Statistics(NamedTuple):
    """Sums over many observations of each item, or of each feature row: n, Σ w and Σ w².

    `Agent.observe`, `Agent.learn` and `Feedback.of` take them in place of the single weights, and
    learn the same, hyperparameters included.

    Weights that are far from 0 compared with their spread, such as timestamps, need a constant
    subtracted first: else Σ w² loses the digits that measure the noise.

    Attributes:
        n: number of observations, at least 1, (*B, K).
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

    n: Any  # (*B, K) number of observations, at least 1
    sum: Any  # (*B, K) Σ w
    squares: Any  # (*B, K) Σ w²


class Feedback(NamedTuple):
    """Observed weights of chosen items, with the features that the items had.

    An item of -1 is not in the catalogue: with a row of zeros it is padding; with another row it is
    an item that is gone, whose weight is still evidence about θ.

    Attributes:
        A: items, (*B, K); -1 for one that is not in the catalogue.
        rows: features of the items when they were chosen, (*B, K, d).
        w: observed weights, or means of `n_observations` of them, (*B, K).
        importance: v, a number or (*B, K): the noise of a weight has std σ/√v. For a mean of n, n.
        episodes: number of decisions that it is feedback on; an item occurs once in each at most.
        n_observations: how many observations each weight is the mean of, (*B, K), for fitting σ.
        residual_ss: Σ (w - w̄)² of these observations around their mean, (*B, K).

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
    importance: Array | float = 1.0  # a number, or (*B, K)
    episodes: int = 1
    n_observations: Array | float = 1.0  # a number, or (*B, K)
    residual_ss: Array | float = 0.0  # a number, or (*B, K)

    @classmethod
    def of(
        cls,
        problem: Problem,
        A: Array,
        w: Array | Statistics,
        importance: Array | float = 1.0,
    ) -> "Feedback":
        """Feedback on items of the problem, with their features.

        `Statistics` have their n for importance: leave it out then.

        Returns:
            the feedback, with the rows of the items taken from the problem.
        """
        rows = take_rows(problem.Phi, A)
        if not isinstance(w, Statistics):
            return cls(A, rows, w, importance)
        if not (is_real(importance) and importance == 1):
            raise ParameterError(
                "statistics say by n how often their weights count: leave importance out"
            )
        mean, n, residual_ss = centered_statistics(*w)
        return cls(A, rows, mean, n, n_observations=n, residual_ss=residual_ss)

    @property
    def is_summed(self) -> bool:
        """True if weights are means of several observations, such as `Statistics`."""
        n = self.n_observations
        return not (is_real(n) and n == 1)


class Moments(NamedTuple):
    """Mean and variance of each linear predictor, given θ."""

    mean: Array  # (*B, L)
    variance: Array  # (*B, L)


class Model(ABC):
    """Prior and update of a belief. A subclass defines `prior` and `learn`; the rest has defaults.

    A belief is a NamedTuple of arrays that holds the posterior of the model's parameters: of θ in a
    linear model, of each mean weight where items are independent. From it follows the linear
    predictor of an item, φ_e·θ in a linear model, which the inverse link turns into its mean
    weight.
    Methods return new beliefs and leave the old ones as they are. The default of a method that
    cannot be derived raises an error that names it.

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
    """True if it learns from feature rows, also of items that were removed."""
    takes_statistics: ClassVar[bool] = False
    """True if `learn` reads `n_observations` and `residual_ss`; else `Statistics` are refused."""
    fits_hyperparameters: ClassVar[bool] = False
    """True if λ, σ or τ are chosen by the marginal likelihood of the feedback."""
    forgetting: float = 1.0
    """The share of earlier evidence that an episode leaves, in (0, 1]."""

    @property
    def is_gaussian(self) -> bool:
        """True if weights are linear predictors with Gaussian noise."""
        return False

    @property
    def unit_weights(self) -> bool:
        """True if weights must lie in [0, 1]."""
        return False

    @property
    def fits_row_factors(self) -> bool:
        """True if it defines `learn_factor`, which learns many rows by their triangular factor, a
        `gaussian.RowFactor`, and statistics of their columns.
        """
        return False

    @property
    def fixed_features(self) -> bool:
        """True if the features of an item must stay the same, as its parameters go with them."""
        if not self.per_item:
            return False
        return self.uses_features

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
        Phi = problem.Phi
        *shape, _ = Phi.shape
        return full(shape, 0.0, Phi)

    def conditional_moments(self, belief: Any, problem: Problem, theta: Array) -> Moments:
        """Mean and variance of each linear predictor given θ; by default φ_e·θ and 0.

        Returns:
            the moments, (*B, L) each.
        """
        linear = matvec(problem.Phi, theta)
        variance = 0 * linear
        return Moments(linear, variance)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """The mean weight that a linear predictor stands for; by default the same number.

        Returns:
            an array of the same shape.
        """
        return linear_predictor

    def ucb_growth(self, width: Array, belief: Any) -> Array | float:
        """The factor by which bounds of this width, c·std (*B, L), widen with time; 1 by default.

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

    def prior_std(self, belief: Any, problem: Problem) -> Array:
        """Prior standard deviation of each coefficient.

        Returns:
            one number per feature, (*B, d).
        """
        raise self._unsupported("prior_std")

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> Any:
        """The belief with the factor of a Gaussian posterior, for models of `gaussian.RowFactor`.

        Args:
            factor: [R z; 0 r], (*B, d+1, d+1), such as `gaussian.Gaussian.factor`.
            problem: the problem, for beliefs that hold numbers per item.
            hyperparameters: λ and σ of the posterior.
            t: episodes so far, (*B,).

        Returns:
            a NamedTuple of arrays.
        """
        raise self._unsupported("from_factor")

    def learn_factor(
        self, belief: Any, problem: Problem, rows: Any, column_statistics: Array
    ) -> Any:
        """The belief after all rows of a `gaussian.RowFactor`, for models with `fits_row_factors`.

        Args:
            belief: the belief before them.
            problem: the problem, for beliefs that hold numbers per item.
            rows: the factor of the rows.
            column_statistics: count, squares, least and largest of each column, (4, d).

        Returns:
            a belief of the same class.
        """
        raise self._unsupported("learn_factor")

    # --- beliefs that change without feedback -------------------------------------------------

    def forget(self, belief: Any, problem: Problem, keep: float) -> Any:
        """The belief with all evidence counted `keep` times, in (0, 1], and the prior in full.

        Returns:
            a belief of the same class.
        """
        raise self._unsupported("forget")

    def merge(self, belief: Any, other: Any, problem: Problem) -> Any:
        """The belief after the evidence of both, where both started from the prior.

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
        """The belief about the catalogue of `problem` with more items at the end. By default it
        calls `resize`.

        Returns:
            a belief of the same class.
        """
        L = problem.L
        old = np.arange(L)
        new = np.full(to.L - L, -1)
        source = np.append(old, new)
        return self.resize(belief, problem, to, source)

    def select_items(self, belief: Any, items: Array) -> Any:
        """The belief about some of the items alone, in this order.

        Returns:
            a belief of the same class.
        """
        fields = {}
        for name in self.per_item:
            values = np.asarray(getattr(belief, name))
            fields[name] = values[..., items]
        return belief._replace(**fields)

    def append_items(self, belief: Any, start: Any) -> Any:
        """The belief with the fields `per_item` of `start`, which is about items behind its own.

        Returns:
            a belief of the same class.
        """
        fields = {}
        for name in self.per_item:
            own = np.asarray(getattr(belief, name))
            added = np.asarray(getattr(start, name))
            fields[name] = np.concatenate([own, added], axis=-1)
        return belief._replace(**fields)

    def _unsupported(self, method: str) -> UnsupportedError:
        return UnsupportedError(
            f"{type(self).__name__} has no method {method}(...), which this needs: "
            "see superarm.contracts.Model for what it takes and returns"
        )


@runtime_checkable
class Learner(Protocol):
    """An algorithm: a model of the weights, and a policy.

    A learner of yours need not inherit from anything. One that inherits from
    `superarm.base_learner.BaseLearner` may say more, such as how it scores feature rows alone.
    `superarm.testing.check_learner` checks the contract.
    """

    @property
    def model(self) -> Model:
        """The model of the weights, chosen once when the learner is made."""

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """The scores of an episode; the oracle maximizes their sum over a set.

        Returns:
            one score per item, (*B, L).
        """


def require_learner(learner: Any) -> None:
    """Refuse all but a learner whose model is a `Model`, and say what to write instead."""
    if isinstance(learner, type) or not isinstance(learner, Learner):
        raise ParameterError(
            "a learner is needed, such as CombLinTS(): an object with an attribute model and a "
            f"method scores(belief, problem, rng), got {learner!r:.100}"
        )
    if not isinstance(learner.model, Model):
        name = type(learner.model).__name__
        raise ParameterError(
            f"the model of a learner must be a superarm.Model: write class {name}(Model), with "
            "the methods prior(problem) and learn(belief, problem, feedback)"
        )


class Environment(Protocol):
    """Distribution of the weights of one episode, in a simulation."""

    @property
    def mean(self) -> Array:
        """The true mean weights w̄ (*B, L); the array stays as it is."""

    @property
    def features(self) -> Features | None:
        """Features that replace the problem's in this episode (a context), or None."""

    def sample(self, rng: Rng) -> Array:
        """The weights w_t ~ P of one episode (*B, L).

        Returns:
            one weight per item, (*B, L).
        """


@runtime_checkable
class SlateEnvironment(Environment, Protocol):
    """Environment of ordered slates, whose feedback and return depend on the order.

    Without these three methods every chosen item shows its weight, and the return is their sum.
    """

    def clicks(self, A: Array, weights: Array, rng: Rng) -> Array:
        """Clicks on the slate A (*B, K), in an episode with these weights (*B, L).

        Returns:
            one number per position, (*B, K), 1 where there was a click, else 0.
        """

    def feedback(self, problem: Problem, A: Array, clicks: Array) -> Feedback:
        """Feedback for the learner; items that were not seen are left out, as -1.

        Returns:
            the feedback that the model learns from.
        """

    def value(self, A: Array, weights: Array) -> Array:
        """Return of the slate A for these weights (*B, L), or for their means.

        Returns:
            one number per slate, (*B,).
        """


Choose: TypeAlias = Callable[[Features | None], Array]
"""The set (*B, K) that a learner would choose with these features (None: the problem's).

Every call samples again, from random numbers of its own.
"""


@runtime_checkable
class World(Protocol):
    """Sequence of environments, one per episode."""

    def at(self, t: int, choose: Choose) -> Environment:
        """The environment of episode t = 1, 2, ...

        A stationary world returns itself. One that drifts returns the same environment whenever it
        is called for episode t, as several learners may play in turn. An adversary knows the policy
        of the learner, but not its random numbers: it may call `choose`.

        Returns:
            the environment, with mean weights and a method that samples the weights.
        """

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

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from superarm.arrays import Array, Features, Rng, take_rows
from superarm.checks import centered_statistics, is_real
from superarm.errors import ParameterError


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


Belief = TypeVar("Belief", bound=tuple[Any, ...])


class Model(Protocol):
    """What is believed about the weights. A belief is a NamedTuple of arrays.

    These two attributes and two functions are all that choosing, observing, saving and simulation
    need. More is possible with more methods; where one is missing, an error names it.

    - `mean(belief, problem)`: the expected score of each item, (*B, L).
    - `std(belief, problem)`: its standard deviation, (*B, L), for `Agent.explain`.
    - `coefficients(belief)`: what a feature adds, (*B, d), for `Agent.explain`.
    - `deviation(belief, problem)`: what an item adds to what its features say, (*B, L), for
      `Agent.explain` where there are fields `per_item`.
    - `sample(belief, problem, rng)`: scores drawn from the posterior, (*B, L).
    - `inverse_link(linear_predictor)`: the weight that φ·θ stands for.
    - `merge(belief, other, problem)`: both at once, each from the prior, for `Agent.merge`.
    - `forget(belief, problem, keep)`: the belief to which all of the past counts `keep` times what
      it did, in (0, 1], and the prior as much as ever.
    - `move(belief, problem, to, source)`: the belief for another catalogue, where gathering the
      `per_item` fields is not enough.
    - `append(belief, to, n)`: the belief for a catalogue whose last n items are new, without a look
      at the others.

    An attribute `statistics` that is true says that `learn` reads the fields `n_observations` and
    `residual_ss` of feedback; without it `Statistics` are refused.
    """

    @property
    def per_item(self) -> tuple[str, ...]:
        """The fields of a belief that have one entry per item, on the last axis."""

    @property
    def uses_features(self) -> bool:
        """Whether it learns from feature rows, also from those of items that are gone."""

    def prior(self, problem: Problem) -> Any:
        """The belief before any feedback.

        Returns:
            a NamedTuple of arrays.
        """

    def learn(self, belief: Any, problem: Problem, feedback: Feedback) -> Any:
        """The belief after the feedback; the one given stays as it is.

        Returns:
            a NamedTuple of arrays, of the same kind.
        """


def features_stay(model: Model) -> bool:
    """Whether what the model knows of an item holds for the features it has in the catalogue only.

    That is so of a model of items and features, unless its attribute `contexts` is true.
    """
    return bool(model.per_item) and model.uses_features and not getattr(model, "contexts", False)


def method_of(model: object, name: str) -> Callable[..., Any]:
    """An optional method of a model, refused by name if the model has none."""
    method: Callable[..., Any] | None = getattr(model, name, None)
    if method is None:
        raise ParameterError(
            f"{type(model).__name__} has no method {name}(...), which this needs: "
            "see superarm.contracts.Model for what it takes and returns"
        )
    return method


class Learner(Protocol):
    """An algorithm: a model of the weights, and a policy.

    `superarm.testing.check_learner` checks the contract.

    A learner that weighs each item by its feature row alone may also define, in the same class as
    `scores`, a method `row_scores(belief, rng)` that returns a function from feature rows to the
    same weights. It then chooses from millions of items without holding all of their weights.

    One with parameters per item may define `moved(source)`, which returns the learner for another
    catalogue, whose item i was item source[i], or is new if that is -1.
    """

    @property
    def model(self) -> Model:
        """What it believes, chosen once when the learner is made."""

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """The scores (*B, L) to hand to the oracle in this episode.

        Returns:
            one score per item, (*B, L), of which the oracle maximizes the sum.
        """


def require_learner(learner: Any) -> None:
    """Refuse what is not a learner, such as its class, and name what is missing from one."""
    if isinstance(learner, type) or not hasattr(learner, "model"):
        raise ParameterError(f"a learner is needed, as CombLinTS(), got {learner!r:.100}")
    needed = [(learner.model, name) for name in ("per_item", "uses_features", "prior", "learn")]
    for part, name in [(learner, "scores"), *needed]:
        if not hasattr(part, name):
            raise ParameterError(
                f"{type(part).__name__} has no {name}: superarm.contracts says what a learner and "
                "its model must have"
            )


def defines_both(thing: object, name: str, other: str) -> bool:
    """Whether a class defines, and does not inherit, two methods that must agree.

    A subclass may have changed what one of them depends on.
    """
    return {name, other} <= vars(type(thing)).keys()


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

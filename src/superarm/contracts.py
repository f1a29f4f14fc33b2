"""What is to be solved, and who takes part: a problem, its oracle, a learner, a world.

paper           code     shape
E, L            L                        ground set, number of items
𝒜, ORACLE       oracle   (*B, L) -> (*B, K)
Φ, Φ_x          Phi      (*B, L, d)      features, one row an item; in context x
A^t             A        (*B, K) int     chosen items, -1 pads
w̄, w_t          mean, w  (*B, L)         mean weights, weights of episode t
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from superarm.arrays import Array, Features, Rng
from superarm.errors import ParameterError


@runtime_checkable
class Oracle(Protocol):
    """Maximizes the sum of weights over the feasible sets.

    Called with weights (*B, L), it returns items (*B, k) with k <= K, padded with -1. `w[e] = -inf`
    means that e may not be chosen; NaN, +inf or a wrong length raise `WeightsError`; no feasible
    set raises `InfeasibleError`. `superarm.testing.check_oracle` checks all of this.
    """

    @property
    def K(self) -> int | None:
        """The most items it returns; None if unknown."""

    @property
    def gap(self) -> float | None:
        """The paper's γ: it reaches (1 - γ) of the maximum. 0 if exact, None if unknown."""

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""


class Problem(NamedTuple):
    """Items with features, and the oracle over their feasible sets.

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
        return int(self.Phi.shape[-2])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.Phi.shape[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch shape *B; () for a single run."""
        return self.Phi.shape[:-2]


Belief = TypeVar("Belief", bound=tuple[Any, ...])


class Learner(Protocol[Belief]):
    """An algorithm: hyperparameters and three pure functions of a belief, which is a NamedTuple of
    arrays.

    `superarm.testing.check_learner` checks the contract.
    """

    def init(self, problem: Problem) -> Belief:
        """The belief before any feedback."""

    def weights(self, belief: Belief, problem: Problem, rng: Rng) -> Array:
        """The weights (*B, L) to hand to the oracle in this episode."""

    def update(self, belief: Belief, problem: Problem, A: Array, w: Array) -> Belief:
        """The belief after the chosen items A showed the weights w, both (*B, K). Where A is -1, w
        is ignored.
        """


def require_learner(learner: object) -> None:
    """Refuse what is not a learner, such as its class."""
    if isinstance(learner, type) or not hasattr(learner, "init"):
        raise ParameterError(f"a learner is needed, as CombLinTS(), got {learner!r:.100}")


@runtime_checkable
class RowLearner(Protocol[Belief]):
    """A learner that knows items by their features: it also learns from rows alone, and some may
    count for more.
    """

    def update(
        self, belief: Belief, problem: Problem, A: Array, w: Array, importance: Array | float = 1.0
    ) -> Belief:
        """As of `Learner`; an observation of importance v, a number or (*B, K), counts v times."""

    def learn(
        self,
        belief: Belief,
        problem: Problem,
        rows: Array,
        w: Array,
        importance: Array | float = 1.0,
    ) -> Belief:
        """The belief after feature rows (*B, n, d), of no item in particular, showed the weights w
        (*B, n).
        """


class Environment(Protocol):
    """Where the weights come from in a simulation.

    One with an attribute `features`, (*B, L, d) or a `Product`, shows a context: the learner
    chooses and learns with these features, and not with those of the problem.
    """

    @property
    def mean(self) -> Array:
        """The true mean weights w̄ (*B, L)."""

    def draw(self, rng: Rng) -> Array:
        """The weights w_t ~ P of one episode (*B, L)."""


@runtime_checkable
class Changing(Protocol):
    """A world that differs from episode to episode, whatever the learner does: drift, or contexts
    from outside.
    """

    def at(self, t: int) -> Environment:
        """The environment of episode t = 1, 2, ...: the same whenever it is asked for."""


Choose: TypeAlias = Callable[[Features | None], Array]
"""What a learner would choose, (*B, K), if it were shown these features (the problem's own if
None)."""


@runtime_checkable
class Adversary(Protocol):
    """A world that knows the learner's policy, but not its coin."""

    def against(self, t: int, choose: Choose) -> Environment:
        """The environment of episode t = 1, 2, ...; `choose` draws with a stream of its own, anew
        in every call.
        """


World: TypeAlias = Environment | Changing | Adversary
"""What an episode is played in."""

"""Users who do not look at all of a slate: attraction is drawn per item, clicks are what is seen of
it.

symbol    code           shape
α_e       mean           (*B, L)    P(item e attracts)
X_e       weights        (*B, L)    whether it attracts in this episode, 0 or 1
C_k       clicks         (*B, K)    whether position k of the slate was clicked
p_k       examination    (K,)       P(position k is looked at)

How the learner reads the clicks is the environment's `read`: the function that makes `Feedback`. By
default it is the model that the users follow; `Feedback.of` is what ignores positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from superarm.arrays import Array, Rng, as_like, take, uniform, where
from superarm.contracts import Feedback, Problem
from superarm.simulation.environments import BernoulliEnvironment
from superarm.slates.feedback import as_examination, cascade, of_positions, position_based

Read: TypeAlias = Callable[[Problem, Array, Array], Feedback]
"""What clicks (*B, K) on a slate A (*B, K) say about the items of a problem."""


@dataclass(frozen=True, eq=False)
class CascadeEnvironment(BernoulliEnvironment):
    """Users who look from the top down and click the first item that attracts them.

    A slate is worth the probability of a click, 1 - Π(1 - α_e). The best are the most attractive
    items, in any order.

    Args:
        mean: the attraction α_e of each item, (*B, L).
        features: of the context, if there is one.
        read: how clicks become feedback, by default as a cascade.

    >>> import numpy as np
    >>> from superarm import CascadeEnvironment, CombLinTS, Problem, TopK, episodes
    >>> world = CascadeEnvironment(np.array([0.1, 0.9, 0.2, 0.1]))
    >>> problem = Problem(np.eye(4), TopK(3))
    >>> learner = CombLinTS(lam=1.0, sigma=0.5)
    >>> steps = list(episodes(learner, problem, world, rng=np.random.default_rng(0), n=100))
    >>> steps[-1].A, steps[-1].w
    (array([1, 2, 3]), array([1., 0., 0.]))
    """

    read: Read = field(default=cascade, kw_only=True)

    def clicks(self, A: Array, weights: Array, rng: Rng) -> Array:
        """The first of the slate that attracts: (*B, K)."""
        attracts = take(weights, A)
        first = attracts.cumsum(-1) == 1
        return where(first, attracts, 0.0)

    def feedback(self, problem: Problem, A: Array, clicks: Array) -> Feedback:
        """What the learner makes of the clicks."""
        return self.read(problem, A, clicks)

    def value(self, A: Array, weights: Array) -> Array:
        """The probability of a click on the slate, 1 - Π(1 - w): (*B,)."""
        ignored: Array = (1 - take(weights, A)).prod(-1)
        return 1 - ignored


@dataclass(frozen=True, eq=False)
class PositionEnvironment(BernoulliEnvironment):
    """Users who look at position k with probability p_k, and click what they see and like.

    A slate is worth the clicks to expect, Σ_k p_k α of the item there; what oracles earn by the
    attraction of one episode is counted so too, without the chance of what is looked at.

    Args:
        mean: the attraction α_e of each item, (*B, L).
        features: of the context, if there is one.
        examination: p_k, how likely each position is looked at, (K,).
        read: how clicks become feedback, by default by the position-based model.

    >>> import numpy as np
    >>> from superarm import CombLinTS, PositionEnvironment, Problem, Slate, episodes
    >>> p = [0.3, 1.0]
    >>> world = PositionEnvironment(np.array([0.1, 0.9, 0.6, 0.1]), examination=p)
    >>> problem = Problem(np.eye(4), Slate(2, examination=p))
    >>> learner = CombLinTS(lam=1.0, sigma=0.5)
    >>> steps = list(episodes(learner, problem, world, rng=np.random.default_rng(0), n=200))
    >>> steps[-1].A
    array([2, 1])
    """

    examination: Any = field(kw_only=True)  # (K,)
    read: Read | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        p = as_examination(self.examination)
        object.__setattr__(self, "examination", tuple(p.tolist()))
        if self.read is None:
            read = partial(position_based, examination=self.examination)
            object.__setattr__(self, "read", read)

    def clicks(self, A: Array, weights: Array, rng: Rng) -> Array:
        """What is looked at and attracts: (*B, K)."""
        attracts = take(weights, A)
        p = self._examination(attracts)
        return where(uniform(rng, attracts) < p, attracts, 0.0)

    def feedback(self, problem: Problem, A: Array, clicks: Array) -> Feedback:
        """What the learner makes of the clicks."""
        assert self.read is not None  # it was given, or made
        return self.read(problem, A, clicks)

    def value(self, A: Array, weights: Array) -> Array:
        """The clicks on the slate to expect, Σ_k p_k w: (*B,)."""
        attracts = take(weights, A)
        expected: Array = (attracts * self._examination(attracts)).sum(-1)
        return expected

    def _examination(self, attracts: Array) -> Array:
        """Of the positions of this slate."""
        K = attracts.shape[-1]
        p = of_positions(self.examination, K)
        return as_like(attracts, p)

"""Simulated users of slates, by the click models of Craswell et al. (2008): attraction is drawn per
item, and clicked where the user looks.

symbol    code           shape
α_e       mean           (*B, L)    P(item e attracts)
X_e       weights        (*B, L)    1 if it attracts in this episode, else 0
C_k       clicks         (*B, K)    1 if position k of the slate was clicked, else 0
p_k       examination    (K,)       P(position k is looked at)

The environment's `read` is the function that makes `Feedback` of clicks. By default it is the click
model that the users follow; `Feedback.of` ignores positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from superarm.arrays import Array, Rng, as_like, take, uniform, where
from superarm.contracts import Feedback, Problem
from superarm.simulation.environments import BernoulliEnvironment
from superarm.slates.feedback import as_examination, cascade, of_positions, position_based

Read: TypeAlias = Callable[[Problem, Array, Array], Feedback]
"""From a problem, a slate A (*B, K) and clicks on it (*B, K) to feedback on items."""


@dataclass(frozen=True, eq=False)
class CascadeEnvironment(BernoulliEnvironment):
    """Users who look from the top down and click the first item that attracts them.

    A slate is worth the probability of a click, 1 - Π(1 - α_e). The best are the most attractive
    items, in any order.

    Args:
        mean: the attraction α_e of each item, (*B, L).
        features: of the context, if there is one.
        read: makes feedback of clicks, by default as a cascade.

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
        """1 for the first item of the slate that attracts, (*B, K)."""
        attracts = take(weights, A)
        n_so_far = attracts.cumsum(-1)
        is_first = n_so_far == 1
        return where(is_first, attracts, 0.0)

    def feedback(self, problem: Problem, A: Array, clicks: Array) -> Feedback:
        """Feedback on the items, from the clicks."""
        return self.read(problem, A, clicks)

    def value(self, A: Array, weights: Array) -> Array:
        """The probability of a click on the slate, 1 - Π(1 - w): (*B,)."""
        attracts = take(weights, A)
        ignores = 1 - attracts
        no_click: Array = ignores.prod(-1)
        return 1 - no_click


@dataclass(frozen=True, eq=False)
class PositionEnvironment(BernoulliEnvironment):
    """Users who look at position k with probability p_k, and click items there that attract.

    The value of a slate is the expected number of clicks, Σ_k p_k α of the item there. The returns
    of oracles in an episode are expectations over the positions too, given the attraction.

    Args:
        mean: the attraction α_e of each item, (*B, L).
        features: of the context, if there is one.
        examination: p_k, the probability that each position is looked at, (K,).
        read: makes feedback of clicks, by default by the position-based model.

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
        examination = tuple(p.tolist())
        object.__setattr__(self, "examination", examination)

    def clicks(self, A: Array, weights: Array, rng: Rng) -> Array:
        """1 where the user looks and the item attracts, (*B, K)."""
        attracts = take(weights, A)
        p = self._examination(attracts)
        u = uniform(rng, attracts)
        is_examined = u < p
        return where(is_examined, attracts, 0.0)

    def feedback(self, problem: Problem, A: Array, clicks: Array) -> Feedback:
        """Feedback on the items, from the clicks."""
        if self.read is not None:
            return self.read(problem, A, clicks)
        p = self.examination
        return position_based(problem, A, clicks, examination=p)

    def value(self, A: Array, weights: Array) -> Array:
        """The expected clicks on the slate, Σ_k p_k w: (*B,)."""
        attracts = take(weights, A)
        p = self._examination(attracts)
        clicks = attracts * p
        expected: Array = clicks.sum(-1)
        return expected

    def _examination(self, attracts: Array) -> Array:
        """The examination of each position of this slate, like its attraction."""
        K = attracts.shape[-1]
        p = of_positions(self.examination, K)
        return as_like(attracts, p)

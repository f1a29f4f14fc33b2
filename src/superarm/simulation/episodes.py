"""One learner in one world, episode by episode."""

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

from superarm.arrays import Array, Features, Rng, spawn, take
from superarm.checks import require_count
from superarm.contracts import (
    Environment,
    Feedback,
    Learner,
    Problem,
    World,
    require_learner,
)
from superarm.decide import decide, validated, with_features
from superarm.errors import ParameterError, WeightsError


class Episode(NamedTuple):
    """One episode.

    Attributes:
        t: the episode, 1, 2, and so on.
        A: the chosen items, (*B, K).
        w: what was observed of them, (*B, K), their weights or the clicks on a slate.
        weights: the weights of all items in this episode, (*B, L).
        belief: after learning from the episode.
        mean: the mean weights in this episode, (*B, L).
        value: a function from a set and weights to what the set is worth.
    """

    t: int  # 1, 2, ...
    A: Array  # (*B, K) the chosen items
    w: Array  # (*B, K) what was observed of them: their weights, or the clicks on a slate
    weights: Array  # (*B, L) w_t, of all items
    belief: Any  # after learning from the episode
    mean: Array  # (*B, L) w̄, in this episode
    value: "Value"  # what a set is worth in this episode


Value: TypeAlias = Callable[[Array, Array], Array]
"""From a set A (*B, K) and weights (*B, L) to what the set is worth, (*B,)."""


def total(A: Array, weights: Array) -> Array:
    """The sum of the weights of the set, f(A, w): (*B,)."""
    value: Array = take(weights, A).sum(-1)
    return value


def episodes(
    learner: Learner,
    problem: Problem,
    world: World,
    *,
    rng: Rng,
    n: int | None = None,
) -> Iterator[Episode]:
    """Play n episodes (endlessly if n is None), yielding each as it is done.

    The weights w_t are drawn from a stream of their own, so two learners given equal generators
    meet the same weights. A batch of problems plays in lock-step, with one generator per entry. A
    world may show features of its own, as in contexts, and may differ from episode to episode: see
    `superarm.contracts.World`.

    Returns:
        an iterator over the episodes.

    Raises:
        ParameterError: if n is no positive whole number, or learner and world are none.

    >>> import numpy as np
    >>> from superarm import BernoulliEnvironment, CombLinTS, Problem, TopK, episodes
    >>> learner = CombLinTS(lam=1.0, sigma=0.5)
    >>> problem = Problem(np.eye(3), TopK(1))
    >>> world = BernoulliEnvironment(np.array([0.1, 0.9, 0.2]))
    >>> steps = episodes(learner, problem, world, rng=np.random.default_rng(7), n=200)
    >>> chosen = [step.A[0] for step in steps]
    >>> float(np.mean(np.equal(chosen[100:], 1))) > 0.9
    True
    """
    if n is not None:
        require_count(n=n)
    require_learner(learner)
    require_world(world)

    problem = validated(problem)
    nature, mind = spawn(rng, 2)
    coin = _Stream(rng)
    eyes = _Stream(rng)
    belief = learner.model.prior(problem)
    for t in itertools.count(1) if n is None else range(1, n + 1):

        def choose(features: Features | None, belief: Any = belief) -> Array:
            shown = with_features(learner, problem, features)
            return decide(learner, belief, shown, coin.stream)

        now = world.at(t, choose)
        require_environment(now)
        shown = with_features(learner, problem, now.features)
        A = decide(learner, belief, shown, mind)
        weights = _drawn(now, problem, nature)
        users = _users(now, eyes)
        w = users.clicks(A, weights)
        belief = learner.model.learn(belief, shown, users.feedback(shown, A, w))
        yield Episode(t, A, w, weights, belief, now.mean, users.value)


class _Users(NamedTuple):
    """What is observed of a set, what the learner is told of it, and what it is worth."""

    clicks: Callable[[Array, Array], Array]
    feedback: Callable[[Problem, Array, Array], Feedback]
    value: Value


def _all_of_it(A: Array, weights: Array) -> Array:
    """The weights of the set (*B, K)."""
    return take(weights, A)


_SEE_ALL = _Users(_all_of_it, Feedback.of, total)


def _users(now: Any, eyes: "_Stream") -> _Users:
    """Those of an environment of slates, or who see every item of a set."""
    if not hasattr(now, "clicks"):
        return _SEE_ALL
    return _Users(partial(now.clicks, rng=eyes.stream), now.feedback, now.value)


class _Stream:
    """A stream that few worlds need: to ask what the learner would choose, or for what users look
    at. Made when it is first asked for.
    """

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    @cached_property
    def stream(self) -> Rng:
        """Independent of what the learner and nature draw from."""
        stream: Rng = spawn(self._rng, 1)[0]
        return stream


def require_world(world: object) -> None:
    """Refuse what is not a world, such as a function or a class."""
    if isinstance(world, type) or not hasattr(world, "at"):
        raise ParameterError(
            f"a world is needed, with a method at(t, choose) that returns the environment of "
            f"episode t, got {world!r:.100}"
        )


def require_environment(environment: object) -> None:
    """Refuse what a world returned if it is not an environment."""
    for name in ("mean", "features", "sample"):
        if not hasattr(environment, name):
            raise ParameterError(
                f"an environment has mean, features (None, or those of a context) and sample(rng), "
                f"but {environment!r:.100} has no {name}"
            )
    if not hasattr(environment, "clicks"):
        return
    for name in ("feedback", "value"):
        if not hasattr(environment, name):
            raise ParameterError(
                f"an environment of slates has clicks, feedback and value, but "
                f"{environment!r:.100} has no {name}: see superarm.contracts.SlateEnvironment"
            )


def _drawn(now: Environment, problem: Problem, nature: Rng) -> Array:
    """The weights of one episode."""
    shape = (*problem.batch, problem.L)
    if now.mean.shape != shape:
        raise ParameterError(
            f"the environment has mean weights of shape {now.mean.shape}, "
            f"the problem's features ask for {shape}"
        )
    weights = now.sample(nature)
    if weights.shape != shape:
        raise WeightsError(f"the environment drew weights of shape {weights.shape}, not {shape}")
    return weights

"""One learner in one environment, episode by episode."""

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from superarm.arrays import Array, Features, Rng, spawn, take
from superarm.checks import require_count
from superarm.contracts import (
    Environment,
    Feedback,
    Learner,
    Problem,
    SlateEnvironment,
    World,
    require_learner,
)
from superarm.decide import decide, validated, with_features
from superarm.errors import ParameterError, WeightsError
from superarm.simulation.environments import BaseEnvironment


class Episode(NamedTuple):
    """A decision in a simulation, with its feedback.

    Attributes:
        t: the number of the episode, 1, 2, and so on.
        A: the chosen items, (*B, K).
        w: the observations of them, (*B, K): their weights or the clicks on a slate.
        weights: the weights of all items in this episode, (*B, L).
        belief: after learning from the episode.
        mean: the mean weights in this episode, (*B, L).
        value: a function from a set and weights to the value of the set.
    """

    t: int  # 1, 2, ...
    A: Array  # (*B, K) the chosen items
    w: Array  # (*B, K) the observations of them: their weights, or the clicks on a slate
    weights: Array  # (*B, L) w_t, of all items
    belief: Any  # after learning from the episode
    mean: Array  # (*B, L) w̄, in this episode
    value: "Value"  # of a set in this episode


Value: TypeAlias = Callable[[Array, Array], Array]
"""From a set A (*B, K) and weights (*B, L) to the value of the set, (*B,)."""


def sum_of_weights(A: Array, weights: Array) -> Array:
    """The sum of the weights of the set, f(A, w): (*B,)."""
    w = take(weights, A)
    value: Array = w.sum(-1)
    return value


def episodes(
    learner: Learner,
    problem: Problem,
    world: World,
    *,
    rng: Rng,
    n: int | None = None,
) -> Iterator[Episode]:
    """Run n episodes (endlessly if n is None), yielding each at its end.

    The weights w_t are drawn from a stream of their own, so two learners with equal generators meet
    the same weights. A batch of problems runs in lock-step, with one generator per entry. A world
    may show features of its own, as in contexts, and may differ from episode to episode: see
    `superarm.contracts.World`.

    Returns:
        an iterator over the episodes.

    Raises:
        ParameterError: if n is not a positive integer, or learner or world has the wrong type.

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
    env_rng, policy_rng = spawn(rng, 2)
    probe_rng = _LazyStream(rng)
    click_rng = _LazyStream(rng)
    belief = learner.model.prior(problem)
    for t in itertools.count(1) if n is None else range(1, n + 1):

        def choose(features: Features | None, belief: Any = belief) -> Array:
            visible = with_features(learner, problem, features)
            rng = probe_rng.stream
            return decide(learner, belief, visible, rng)

        environment = world.at(t, choose)
        require_environment(environment)

        visible = with_features(learner, problem, environment.features)
        A = decide(learner, belief, visible, policy_rng)
        weights = _sample(environment, problem, env_rng)

        observation = _observation(environment, click_rng)
        w = observation.clicks(A, weights)

        feedback = observation.feedback(visible, A, w)
        belief = learner.model.learn(belief, visible, feedback)
        yield Episode(t, A, w, weights, belief, environment.mean, observation.value)


class _Observation(NamedTuple):
    """The observations of a set, the feedback that they become, and the value of a set."""

    clicks: Callable[[Array, Array], Array]
    feedback: Callable[[Problem, Array, Array], Feedback]
    value: Value


def _weights_of_set(A: Array, weights: Array) -> Array:
    """The weights of the set (*B, K)."""
    return take(weights, A)


_FULL_OBSERVATION = _Observation(_weights_of_set, Feedback.of, sum_of_weights)


def _observation(environment: Environment, click_rng: "_LazyStream") -> _Observation:
    """Clicks on a slate for an environment of slates, otherwise the weight of every item."""
    if not is_slate(environment):
        return _FULL_OBSERVATION
    clicks = partial(environment.clicks, rng=click_rng.stream)
    return _Observation(clicks, environment.feedback, environment.value)


def is_slate(environment: Environment) -> TypeGuard[SlateEnvironment]:
    """True if the environment is one of ordered slates."""
    if isinstance(environment, BaseEnvironment):
        return environment.is_slate
    return isinstance(environment, SlateEnvironment)


class _LazyStream:
    """A random stream that few worlds need, for probes of the learner or for clicks. It is spawned
    on first use.
    """

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    @cached_property
    def stream(self) -> Rng:
        """A stream independent of the learner's and the environment's."""
        stream: Rng = spawn(self._rng, 1)[0]
        return stream


def require_world(world: object) -> None:
    """Refuse anything but a world, such as a function or a class."""
    if isinstance(world, type) or not isinstance(world, World):
        raise ParameterError(
            f"a world is needed, with a method at(t, choose) that returns the environment of "
            f"episode t, got {world!r:.100}"
        )


def require_environment(environment: object) -> None:
    """Refuse an environment that lacks an attribute; with clicks, it needs those for slates."""
    for name in ("mean", "features", "sample"):
        if not hasattr(environment, name):
            raise ParameterError(
                f"an environment has mean, features (of a context, or None) and sample(rng), "
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


def _sample(environment: Environment, problem: Problem, rng: Rng) -> Array:
    """The weights of one episode, (*B, L)."""
    shape = (*problem.batch, problem.L)
    if environment.mean.shape != shape:
        raise ParameterError(
            f"the environment has mean weights of shape {environment.mean.shape}, "
            f"the problem's features ask for {shape}"
        )
    weights = environment.sample(rng)
    if weights.shape != shape:
        raise WeightsError(f"the environment drew weights of shape {weights.shape}, not {shape}")
    return weights

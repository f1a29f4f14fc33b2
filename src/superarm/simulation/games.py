"""What every replicate of a simulation plays, and what is earned in it."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, is_tensor, to_numpy
from superarm.contracts import Learner, Oracle, Problem, World
from superarm.decide import validated
from superarm.errors import ParameterError
from superarm.simulation.episodes import Episode, Value, episodes
from superarm.simulation.lockstep import Instance
from superarm.simulation.trace import ARRAYS


class Game(NamedTuple):
    """What every replicate plays."""

    instance: Instance
    learners: Mapping[str, Learner]
    episodes: int
    exact: Oracle | None

    @property
    def settings(self) -> dict[str, Any]:
        """In words, for a trace."""
        return {
            "episodes": self.episodes,
            "instance": getattr(self.instance, "__qualname__", repr(self.instance)),
            "exact": None if self.exact is None else repr(self.exact),
            "learners": {name: repr(learner) for name, learner in self.learners.items()},
        }


class Result(NamedTuple):
    """What learners and oracles earned, in one replicate or in those of a batch."""

    earned: Array  # (the arrays of a trace, learners, replicates, episodes)
    gap: float | None


def replicate(game: Game, seed: np.random.SeedSequence) -> Result:
    """What is earned in the replicate with this seed."""
    rng = np.random.default_rng(seed)
    problem, world = game.instance(rng)
    if is_tensor(problem.Phi):
        problem = problem._replace(Phi=to_numpy(problem.Phi))
    if problem.batch:
        raise ParameterError(
            f"simulate plays one problem per replicate, got a batch {problem.batch}: use episodes"
        )
    return play(problem, world, game, rng)


class _Best(NamedTuple):
    """The best set for mean weights, and what it and the optimum earn."""

    mean: Array  # (*B, L)
    value: Value  # f
    star: Array  # (*B, K) A*
    expected: Array  # (*B,) f(A*, w̄)
    optimum: Array  # (*B,) f(A^opt, w̄)

    def holds(self, step: Episode) -> bool:
        """Whether the episode has the same means, and values sets alike."""
        return self.value == step.value and _equal(self.mean, step.mean)


def play(problem: Problem, world: World, game: Game, rng: Rng) -> Result:
    """What the learners earn, on one problem or a batch of them."""
    problem = validated(problem)
    exact = problem.oracle if game.exact is None else game.exact
    runs = [
        episodes(learner, problem, world, rng=copy.deepcopy(rng), n=game.episodes)
        for learner in game.learners.values()
    ]

    best = None
    earned = []
    for episode in zip(*runs, strict=True):
        for step in episode:
            if best is None or not best.holds(step):
                best = _best(step, problem.oracle, exact)
            earned += _earned(step, best)

    # only now: to look at a result is to wait for the device
    values: Array = np.array([to_numpy(x) for x in earned])
    # (episodes x learners x arrays, *B) -> (arrays, learners, replicates, episodes)
    values = values.reshape(game.episodes, len(runs), len(ARRAYS), -1)
    return Result(values.transpose(2, 1, 3, 0), problem.oracle.gap)


def _best(step: Episode, oracle: Oracle, exact: Oracle) -> _Best:
    mean = step.mean
    value = step.value
    if not is_tensor(mean):
        mean = mean.copy()  # a world may change its own
    star = oracle(mean)
    optimum = star if exact is oracle else exact(mean)
    return _Best(mean, value, star, value(star, mean), value(optimum, mean))


def _earned(step: Episode, best: _Best) -> list[Array]:
    """What one episode adds to the arrays of a trace, in their order."""
    return [
        step.value(step.A, step.mean),
        step.w.sum(-1),
        best.expected,
        step.value(best.star, step.weights),
        best.optimum,
    ]


def _equal(x: Array, y: Array) -> bool:
    return x is y or bool((x == y).all())

"""Replicates side by side on one device: their instances as a batch of tensors, as many as fit in
memory.
"""

import math
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from superarm.arrays import Array, Stream, as_like, is_sparse
from superarm.contracts import (
    Choose,
    Environment,
    Learner,
    Oracle,
    Problem,
    World,
)
from superarm.decide import validated
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, padded
from superarm.simulation.click_models import CascadeEnvironment, PositionEnvironment
from superarm.simulation.environments import BernoulliEnvironment, GaussianEnvironment
from superarm.simulation.episodes import require_world

Instance: TypeAlias = Callable[[Any], tuple[Problem, World]]
"""Draws the problem and the world of one replicate from a generator."""
Seeds: TypeAlias = Sequence[np.random.SeedSequence]


class Batch(NamedTuple):
    """Replicates side by side, and the randomness that goes on from there."""

    problem: Problem
    world: World
    rng: Any


def find_device(name: str) -> Any:
    """The device of this name, if Torch and the device are there."""
    try:
        from superarm.arrays import torch as torch_arrays
    except ImportError as error:
        raise ParameterError(
            f"device={name!r} needs PyTorch: pip install 'superarm[torch]'"
        ) from error
    return torch_arrays.check_device(name)


def stack_instances(instance: Instance, seeds: Seeds, device: Any, draws: str) -> Batch:
    """The instances of these seeds as a batch on the device.

    An instance with a method `batch(stream)` draws there, from a `Stream` of the device with a key
    per replicate; others draw one at a time with NumPy and are moved. With `draws` "host" all
    numbers, to the last episode, are NumPy's.
    """
    # anew, as a generator counts on its seed what it spawns
    seeds = [np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key) for seed in seeds]
    stream = stream_of(seeds, device)
    if draws == "device" and defines_both(instance, "__call__", "batch"):
        drawn: Any = instance
        problem, world = drawn.batch(stream)
        return Batch(problem, world, stream)

    generators = [np.random.default_rng(seed) for seed in seeds]
    problems, worlds = zip(*map(instance, generators), strict=True)
    problem = _stacked_problem(problems, device)
    world = _Worlds(worlds, problem.Phi)
    if draws == "device" and isinstance(world.at(1, _refuse), _Apart):
        warnings.warn(
            f"{type(worlds[0]).__name__} draws its weights on the CPU, one by one", stacklevel=1
        )
        draws = "host"
    return Batch(problem, world, stream if draws == "device" else generators)


def stream_of(seeds: Seeds, device: Any) -> Stream:
    """A stream on the device, with a key per seed."""
    from superarm.arrays import torch as torch_arrays

    states = [seed.generate_state(1, np.uint64) for seed in seeds]
    keys = np.concatenate(states).view(np.int64)
    return Stream(torch_arrays.BACKEND.asarray(keys, device=device))


def defines_both(thing: object, name: str, other: str) -> bool:
    """True if a class defines, and does not inherit, two methods that must agree.

    A subclass may have changed what one of them depends on.
    """
    return {name, other} <= vars(type(thing)).keys()


def chunk_size(
    instance: Instance, learners: Sequence[Learner], seeds: Seeds, device: Any, draws: str
) -> int:
    """How many replicates fit into what memory is free, all but a fifth of it.

    Learners that do not run on a device are refused here, before anything is played.
    """
    from superarm.arrays import torch as torch_arrays

    problem, world, _ = stack_instances(instance, seeds[:1], device, draws)
    for learner in learners:
        learner.model.prior(problem)

    L = problem.L
    d = problem.d
    K = problem.oracle.K or L
    # features, in contexts those of this episode and of the last too, for each learner
    with_features = world.at(1, _refuse).features is not None
    tables = 1 + 2 * len(learners) if with_features else 1
    # vectors over the items, and [R; φ/σ] in the update
    learning = 24 * L + 12 * (d + 1 + K) * (d + 1)
    each = 8 * (tables * L * d + len(learners) * learning)
    parts = 4 * 8 * min(torch_arrays.CHUNK_NUMBERS, len(seeds) * L * d)
    free = 0.8 * torch_arrays.free_bytes(device) - parts
    return max(1, math.floor(free / each))


def _refuse(features: Any) -> Array:
    """Refuse a world that asks what a learner would choose."""
    raise ParameterError("on a device, worlds are not told what a learner would choose")


def _stacked_problem(problems: Sequence[Problem], device: Any) -> Problem:
    from superarm.arrays import torch as torch_arrays

    each = [validated(problem) for problem in problems]
    if any(problem.batch for problem in each):
        raise ParameterError("simulate plays one problem per replicate, got a batch: use episodes")
    Phi = torch_arrays.BACKEND.asarray(
        _stacked([problem.Phi for problem in each], "features"), device=device
    )
    return Problem(Phi, _oracle([problem.oracle for problem in each]))


def _stacked(parts: Sequence[Any], what: str) -> Array:
    if any(map(is_sparse, parts)):
        raise ParameterError(
            f"sparse {what} play on the CPU only: leave out device, or give dense arrays"
        )
    shapes = {np.shape(part) for part in parts}
    if len(shapes) > 1:
        raise ParameterError(
            f"in lock-step all replicates need {what} of one shape, got {sorted(shapes)}"
        )
    return np.stack(parts)


class _Worlds:
    """One world per replicate."""

    def __init__(self, each: Sequence[World], like: Any) -> None:
        for world in each:
            require_world(world)
        self.each = each
        self.like = like
        self._last: tuple[list[Environment], Environment] | None = None

    def at(self, t: int, choose: Choose) -> Environment:
        """One environment for the batch; the one before if no world has changed."""
        now = [self._environment(world, t) for world in self.each]
        if self._last is not None:
            before, stacked = self._last
            if all(x is y for x, y in zip(now, before, strict=True)):
                return stacked
        self._last = (now, _stacked_environment(now, self.like))
        return self._last[1]

    @staticmethod
    def _environment(world: World, t: int) -> Environment:
        def refuse(features: Any) -> Array:
            raise ParameterError(
                f"{type(world).__name__} knows the policy of one learner: it plays on the CPU only"
            )

        return world.at(t, refuse)


def _stacked_environment(environments: Sequence[Any], like: Array) -> Environment:
    """In tensors if we know how they draw, else those that there are, one after the other."""
    apart = _Apart(environments, like)
    first = environments[0]
    if type(first) in STACKED and all(_differ_in_means(x, first) for x in environments):
        stacked: Environment = replace(first, mean=apart.mean, features=apart.features)
        return stacked
    for environment in environments:
        if hasattr(environment, "clicks"):
            raise ParameterError(
                f"{type(environment).__name__} reads clicks in a way of its own in each replicate: "
                "it plays on the CPU only"
            )
    return apart


STACKED = (BernoulliEnvironment, CascadeEnvironment, GaussianEnvironment, PositionEnvironment)
"""Environments whose means may be a batch."""


def _differ_in_means(environment: Any, other: Any) -> bool:
    """Whether they are of one kind and differ at most in means and features."""
    means = {"mean": None, "features": None}
    same_kind = type(environment) is type(other)
    return same_kind and _alike(vars(environment) | means, vars(other) | means)


@dataclass(frozen=True, eq=False)
class _Apart:
    """Environments of which each draws for its own entry, on the CPU."""

    each: Sequence[Environment]
    like: Array

    @cached_property
    def mean(self) -> Array:
        means = [environment.mean for environment in self.each]
        return as_like(self.like, _stacked(means, "mean weights"))

    @cached_property
    def features(self) -> Array | None:
        shown = [environment.features for environment in self.each]
        if shown[0] is None:
            return None
        return as_like(self.like, _stacked(shown, "features"))

    def sample(self, rng: Any) -> Array:
        if not isinstance(rng, Sequence):
            raise ParameterError(
                "these environments draw for themselves, on the CPU: use draws='host'"
            )
        drawn = [environment.sample(g) for environment, g in zip(self.each, rng, strict=True)]
        return as_like(self.like, np.stack(drawn))


def _oracle(oracles: Sequence[Oracle]) -> Oracle:
    """The one they have in common, or all of them."""
    if all(_alike(oracle, oracles[0]) for oracle in oracles):
        return oracles[0]
    return _EachItsOwn(oracles)


def _alike(thing: object, other: object) -> bool:
    """Whether they are equal, or made of the same."""
    if thing is other:
        return True
    try:
        return bool(thing == other) or pickle.dumps(thing) == pickle.dumps(other)
    # of what cannot be compared or pickled
    except (AttributeError, TypeError, ValueError, pickle.PicklingError):
        return False


@dataclass(frozen=True, eq=False)
class _EachItsOwn(BaseOracle):
    """Oracles of which each solves for its own entry, on the CPU."""

    oracles: Sequence[Oracle]

    @property
    def K(self) -> int | None:
        sizes = [oracle.K for oracle in self.oracles]
        return None if None in sizes else max(size for size in sizes if size is not None)

    @property
    def gap(self) -> float | None:
        gaps = {oracle.gap for oracle in self.oracles}
        return gaps.pop() if len(gaps) == 1 else None

    def __repr__(self) -> str:
        return f"{type(self.oracles[0]).__name__}, another for each replicate,"

    def solve(self, rows: Array) -> Array:
        return padded([oracle(w) for oracle, w in zip(self.oracles, rows, strict=True)])

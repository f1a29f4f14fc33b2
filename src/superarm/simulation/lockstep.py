"""Replicates side by side on one device: their instances as a batch of tensors, as many as fit in
memory.
"""

import math
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from superarm.simulation.environments import BaseEnvironment
from superarm.simulation.episodes import is_slate, require_world

Instance: TypeAlias = Callable[[Any], tuple[Problem, World]]
"""Draws the problem and the world of one replicate from a generator."""
Seeds: TypeAlias = Sequence[np.random.SeedSequence]


class InstanceBatch(NamedTuple):
    """The instances of many replicates, and the random numbers that continue after theirs."""

    problem: Problem
    world: World
    rng: Any


def find_device(name: str) -> Any:
    """The device of this name, if Torch and the device are available."""
    try:
        from superarm.arrays import torch as torch_arrays
    except ImportError as error:
        raise ParameterError(
            f"device={name!r} needs PyTorch: pip install 'superarm[torch]'"
        ) from error
    return torch_arrays.check_device(name)


def stack_instances(instance: Instance, seeds: Seeds, device: Any, draws: str) -> InstanceBatch:
    """The instances of these seeds as a batch on the device.

    An instance with a method `batch(stream)` draws there, from a `Stream` of the device with a key
    per replicate; others draw one at a time with NumPy and are moved. With `draws` "host" all
    numbers, to the last episode, are NumPy's.
    """
    # copies, as a generator that spawns children changes its seed
    seeds = [np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key) for seed in seeds]
    stream = stream_of(seeds, device)
    if draws == "device" and _draws_batches(instance):
        batch_instance: Any = instance
        problem, world = batch_instance.batch(stream)
        return InstanceBatch(problem, world, stream)

    generators = [np.random.default_rng(seed) for seed in seeds]
    problems, worlds = zip(*map(instance, generators), strict=True)
    problem = _stack_problems(problems, device)

    world = _WorldBatch(worlds, problem.Phi)
    if draws == "device" and isinstance(world.at(1, _refuse), _EnvironmentBatch):
        warnings.warn(
            f"{type(worlds[0]).__name__} draws its weights on the CPU, one by one", stacklevel=1
        )
        draws = "host"
    return InstanceBatch(problem, world, stream if draws == "device" else generators)


def _draws_batches(instance: Instance) -> bool:
    """True if the instance's class itself defines both `__call__` and `batch`, as a subclass may
    have changed only one of them.
    """
    return {"__call__", "batch"} <= vars(type(instance)).keys()


def stream_of(seeds: Seeds, device: Any) -> Stream:
    """A stream on the device, with a key per seed."""
    from superarm.arrays import torch as torch_arrays

    states = [seed.generate_state(1, np.uint64) for seed in seeds]
    bits = np.concatenate(states)
    keys = torch_arrays.BACKEND.asarray(bits.view(np.int64), device=device)
    return Stream(keys)


def chunk_size(
    instance: Instance, learners: Sequence[Learner], seeds: Seeds, device: Any, draws: str
) -> int:
    """The number of replicates that fit into four fifths of the free memory.

    Learners that do not run on a device are refused here, before the first episode.
    """
    from superarm.arrays import torch as torch_arrays

    problem, world, _ = stack_instances(instance, seeds[:1], device, draws)
    for learner in learners:
        learner.model.prior(problem)

    L = problem.L
    d = problem.d
    K = problem.oracle.K or L
    # the problem's features; in contexts, features of this and the last episode for each learner
    has_contexts = world.at(1, _refuse).features is not None
    n_tables = 1 + 2 * len(learners) if has_contexts else 1
    # vectors over the items, and [R; φ/σ] in the update
    learner_numbers = 24 * L + 12 * (d + 1 + K) * (d + 1)
    replicate_bytes = 8 * (n_tables * L * d + len(learners) * learner_numbers)
    buffer_bytes = 4 * 8 * min(torch_arrays.CHUNK_NUMBERS, len(seeds) * L * d)
    free_bytes = 0.8 * torch_arrays.free_bytes(device) - buffer_bytes
    return max(1, math.floor(free_bytes / replicate_bytes))


def _refuse(features: Any) -> Array:
    """Refuse a world that asks what a learner would choose."""
    raise ParameterError("on a device, worlds are not told what a learner would choose")


def _stack_problems(problems: Sequence[Problem], device: Any) -> Problem:
    from superarm.arrays import torch as torch_arrays

    problems = [validated(problem) for problem in problems]
    if any(problem.batch for problem in problems):
        raise ParameterError("simulate plays one problem per replicate, got a batch: use episodes")
    features = [problem.Phi for problem in problems]
    stacked = _stack_arrays(features, "features")
    Phi = torch_arrays.BACKEND.asarray(stacked, device=device)
    oracles = [problem.oracle for problem in problems]
    return Problem(Phi, _stack_oracles(oracles))


def _stack_arrays(arrays: Sequence[Any], what: str) -> Array:
    if any(map(is_sparse, arrays)):
        raise ParameterError(
            f"sparse {what} play on the CPU only: leave out device, or give dense arrays"
        )
    shapes = {np.shape(array) for array in arrays}
    if len(shapes) > 1:
        raise ParameterError(
            f"in lock-step all replicates need {what} of one shape, got {sorted(shapes)}"
        )
    return np.stack(arrays)


# --- worlds ---------------------------------------------------------------------------------------


class _WorldBatch:
    """The worlds of all replicates, as one world of batches."""

    def __init__(self, worlds: Sequence[World], like: Any) -> None:
        for world in worlds:
            require_world(world)
        self.worlds = worlds
        self.like = like
        self._last: tuple[list[Environment], Environment] | None = None

    def at(self, t: int, choose: Choose) -> Environment:
        """One environment for the batch; the previous one if no world has changed."""
        environments = [self._environment(world, t) for world in self.worlds]
        if self._last is not None:
            last, stacked = self._last
            if all(x is y for x, y in zip(environments, last, strict=True)):
                return stacked

        stacked = _stack_environments(environments, self.like)

        self._last = (environments, stacked)
        return stacked

    @staticmethod
    def _environment(world: World, t: int) -> Environment:
        def refuse(features: Any) -> Array:
            raise ParameterError(
                f"{type(world).__name__} knows the policy of one learner: it plays on the CPU only"
            )

        return world.at(t, refuse)


def _stack_environments(environments: Sequence[Any], like: Array) -> Environment:
    """One environment for the batch, in tensors if it can draw in tensors."""
    first, *others = environments
    batch = _EnvironmentBatch(environments, like)
    if isinstance(first, BaseEnvironment) and first.draws_alike(others):
        return first.with_means(batch.mean, batch.features)
    for environment in environments:
        if is_slate(environment):
            raise ParameterError(
                f"{type(environment).__name__} reads clicks in a way of its own in each replicate: "
                "it plays on the CPU only"
            )
    return batch


@dataclass(frozen=True, eq=False)
class _EnvironmentBatch:
    """Environments that draw on the CPU, each for its own entry of the batch."""

    environments: Sequence[Environment]
    like: Array

    @cached_property
    def mean(self) -> Array:
        means = [environment.mean for environment in self.environments]
        stacked = _stack_arrays(means, "mean weights")
        return as_like(self.like, stacked)

    @cached_property
    def features(self) -> Array | None:
        features = [environment.features for environment in self.environments]
        if features[0] is None:
            return None
        stacked = _stack_arrays(features, "features")
        return as_like(self.like, stacked)

    def sample(self, rng: Any) -> Array:
        if not isinstance(rng, Sequence):
            raise ParameterError(
                "these environments draw for themselves, on the CPU: use draws='host'"
            )
        pairs = zip(self.environments, rng, strict=True)
        weights = [environment.sample(generator) for environment, generator in pairs]
        return as_like(self.like, np.stack(weights))


# --- oracles --------------------------------------------------------------------------------------


def _stack_oracles(oracles: Sequence[Oracle]) -> Oracle:
    """The oracle that all replicates share, or a batch of their own."""
    first, *others = oracles
    if all(_is_same_oracle(first, other) for other in others):
        return first
    return _OracleBatch(oracles)


def _is_same_oracle(oracle: Oracle, other: Oracle) -> bool:
    """True if the oracles are equal, or the same when pickled."""
    try:
        return bool(oracle == other) or pickle.dumps(oracle) == pickle.dumps(other)
    # of oracles that cannot be compared or pickled
    except (AttributeError, TypeError, ValueError, pickle.PicklingError):
        return False


@dataclass(frozen=True, eq=False)
class _OracleBatch(BaseOracle):
    """Oracles that solve on the CPU, each for its own entry of the batch."""

    oracles: Sequence[Oracle]

    @property
    def K(self) -> int | None:
        largest = 0
        for oracle in self.oracles:
            if oracle.K is None:
                return None
            largest = max(largest, oracle.K)
        return largest

    @property
    def gap(self) -> float | None:
        gaps = {oracle.gap for oracle in self.oracles}
        if len(gaps) > 1:
            return None
        return gaps.pop()

    def __repr__(self) -> str:
        first = self.oracles[0]
        kind = type(first)
        return f"{kind.__name__}, another for each replicate,"

    def solve(self, rows: Array) -> Array:
        pairs = zip(self.oracles, rows, strict=True)
        sets = [oracle(w) for oracle, w in pairs]
        return padded(sets)

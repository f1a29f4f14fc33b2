"""Replicates side by side on one device: their instances as a batch of tensors, as many as fit in
memory.
"""

import math
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Array, as_like
from superarm.contracts import Adversary, Changing, Oracle, Problem, World
from superarm.decide import checked
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, padded
from superarm.simulation.worlds import BernoulliEnvironment, GaussianEnvironment

Batch: TypeAlias = tuple[Problem, World, Any]  # with generators of the batch
Instance: TypeAlias = Callable[[Any], tuple[Problem, World]]
Seeds: TypeAlias = Sequence[np.random.SeedSequence]


def find_device(name: str) -> Any:
    """The device of this name, if Torch and the device are there."""
    try:
        from superarm.arrays import torch as torch_arrays
    except ImportError as error:
        raise ParameterError(
            f"device={name!r} needs PyTorch: pip install 'superarm[torch]'"
        ) from error
    return torch_arrays.check_device(name)


def together(instance: Instance, seeds: Seeds, device: Any, draws: str) -> Batch:
    """The instances of these seeds as a batch on the device, and the generators that go on from
    there.

    An instance that says `draws_batches` draws there too, from streams of the device; others draw
    one at a time with NumPy and are moved. With `draws` "host" all numbers, to the last episode,
    are NumPy's.
    """
    from superarm.arrays import torch as torch_arrays

    # anew, as a generator counts on its seed what it spawns
    seeds = [np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key) for seed in seeds]
    streams = torch_arrays.Streams.of_seeds(seeds, device)
    # of the class itself: a subclass may draw otherwise
    if draws == "device" and vars(type(instance)).get("draws_batches", False):
        return *instance(streams), streams
    generators = [np.random.default_rng(seed) for seed in seeds]
    problems, environments = zip(*map(instance, generators), strict=True)
    problems = tuple(checked(problem) for problem in problems)
    if any(problem.batch for problem in problems):
        raise ParameterError("simulate plays one problem a replicate, got a batch: use episodes")
    Phi = torch_arrays.moved(_stacked([problem.Phi for problem in problems], "features"), device)
    environment = _environment(environments, Phi)
    first = environment.at(1) if isinstance(environment, Changing) else environment
    if draws == "device" and isinstance(first, _Together):
        warnings.warn(
            f"{type(environments[0]).__name__} draws its weights on the CPU, one by one",
            stacklevel=1,
        )
        draws = "host"
    problem = Problem(Phi, _oracle([problem.oracle for problem in problems]))
    return problem, environment, streams if draws == "device" else generators


def chunk_size(instance: Instance, seeds: Seeds, device: Any, draws: str) -> int:
    """How many replicates fit into what memory is free, all but a fifth of it."""
    from superarm.arrays import torch as torch_arrays

    problem, world, _ = together(instance, seeds[:1], device, draws)
    L, d, K = problem.L, problem.d, problem.oracle.K or problem.L
    # features, in contexts those of this episode and the last too, vectors over the items, and [R; φ/σ] in the update
    tables = 3 if isinstance(world, Changing) else 1
    each = 8 * (tables * L * d + 24 * L + 12 * (d + 1 + K) * (d + 1))
    del problem, world
    parts = 4 * 8 * min(torch_arrays.PART, len(seeds) * L * d)
    return max(1, math.floor((0.8 * torch_arrays.free_bytes(device) - parts) / each))


def _stacked(parts: Sequence[Any], what: str) -> Array:
    shapes = {np.shape(part) for part in parts}
    if len(shapes) > 1:
        raise ParameterError(
            f"in lock-step all replicates need {what} of one shape, got {sorted(shapes)}"
        )
    return np.stack(parts)


def _environment(environments: Sequence[Any], like: Array) -> Any:
    """One for the batch: in tensors if we know how it draws, else those that there are, one after
    the other.
    """
    first = environments[0]
    if isinstance(first, Adversary):
        raise ParameterError(
            f"{type(first).__name__} knows the policy of one learner: it plays on the CPU only"
        )
    if isinstance(first, Changing):
        return _Moving(environments, like)
    kinds, sigmas = ({f(environment) for environment in environments} for f in (type, _noise))
    if kinds not in ({BernoulliEnvironment}, {GaussianEnvironment}) or len(sigmas) > 1:
        return _Together(environments, like)
    shown = [environment.features for environment in environments]
    features = None if shown[0] is None else as_like(like, _stacked(shown, "features"))
    mean = as_like(
        like, _stacked([environment.mean for environment in environments], "mean weights")
    )
    return replace(first, mean=mean, features=features)


def _noise(environment: Any) -> Any:
    return getattr(environment, "sigma", None)


@dataclass(frozen=True, eq=False)
class _Together:
    """Environments of which each draws for its own entry."""

    each: Sequence[Any]
    like: Array

    @property
    def mean(self) -> Array:
        return as_like(
            self.like, _stacked([environment.mean for environment in self.each], "mean weights")
        )

    @property
    def features(self) -> Array | None:
        shown = [getattr(environment, "features", None) for environment in self.each]
        return None if shown[0] is None else as_like(self.like, _stacked(shown, "features"))

    def draw(self, rng: Any) -> Array:
        if hasattr(rng, "draws_tensors"):
            raise ParameterError(
                "these environments draw for themselves, on the CPU: use draws='host'"
            )
        drawn = [environment.draw(g) for environment, g in zip(self.each, rng, strict=True)]
        return as_like(self.like, np.stack(drawn))


@dataclass(frozen=True, eq=False)
class _Moving:
    """Environments that change."""

    each: Sequence[Any]
    like: Array

    def at(self, t: int) -> Any:
        return _environment([environment.at(t) for environment in self.each], self.like)


def _oracle(oracles: Sequence[Oracle]) -> Oracle:
    """The one they have in common, or all of them."""
    return (
        oracles[0]
        if all(_alike(oracle, oracles[0]) for oracle in oracles)
        else _EachItsOwn(oracles)
    )


def _alike(oracle: Oracle, other: Oracle) -> bool:
    """Whether they are equal, or made of the same."""
    try:
        return (
            oracle is other or bool(oracle == other) or pickle.dumps(oracle) == pickle.dumps(other)
        )
    except (
        AttributeError,
        TypeError,
        ValueError,
        pickle.PicklingError,
    ):  # of what cannot be compared or pickled
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

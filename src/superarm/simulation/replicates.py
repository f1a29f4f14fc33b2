"""Many learners on many random instances: on cores, or in lock-step on a device."""

import copy
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from superarm.arrays import Array, Rng, is_tensor, to_numpy
from superarm.checks import is_whole, require_count
from superarm.contracts import Learner, Oracle, Problem, World, require_learner
from superarm.decide import checked
from superarm.errors import ParameterError
from superarm.oracles.base import as_oracle
from superarm.simulation import lockstep
from superarm.simulation.episodes import Step, Value, episodes
from superarm.simulation.lockstep import Instance
from superarm.simulation.progress import Progress, reporting
from superarm.simulation.trace import ARRAYS, Trace
from superarm.version import __version__

steps = episodes  # `simulate` has a parameter of that name


def simulate(
    instance: Instance,
    learners: Mapping[str, Learner] | Sequence[Learner],
    *,
    episodes: int,
    replicates: int,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = True,
    exact: Oracle | None = None,
    device: str | None = None,
    chunk: int | None = None,
    draws: Literal["device", "host"] = "device",
) -> Trace:
    """Play every learner on the same random instances.

    Replicate i depends on `seed` and i alone: instance, weights and the learners' randomness are
    the same with any number of replicates, workers or other learners beside.

    Args:
        instance: draws the problem and the world of one replicate from a generator. With a method
            `batch(streams)` it also draws those of many replicates at once, on a device.
        learners: by name, or a list of different classes.
        episodes: how many each learner plays per replicate.
        replicates: random instances.
        seed: the trace is a function of this and the other settings.
        workers: joblib's n_jobs; leave it None inside `joblib.parallel_config`.
        progress: whether to show a bar with the time left, in a terminal or a notebook; the text to
            show it under; or a function that is told how many more replicates are done.
        exact: an exact oracle for A^opt where the problem's own is approximate.
        device: such as "cuda": replicates play in lock-step on it, by PyTorch. Replicate i is again
            a function of `seed` and i alone, but of numbers drawn on the device, which are not the
            CPU's.
        chunk: replicates at a time on the device; by default as many as fit in its memory.
        draws: with "host" all numbers are drawn as on the CPU, and traces agree but for rounding,
            which scales that are "auto" can make much of where the marginal likelihood is flat.
            This is slower where there are many items.

    Returns:
        what every learner earned, by replicate and episode.

    Raises:
        ParameterError: if a setting is out of its range, or two learners have one name.

    >>> from superarm import CombLinTS, RandomChoice, simulate
    >>> from superarm.studies.longest_path import LongestPath
    >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
    >>> path = LongestPath(m=3, d=4)
    >>> trace = simulate(path, learners, episodes=30, replicates=4, progress=False)
    >>> linear, random = (trace.regret(name)[:, -1] for name in trace.learners)
    >>> bool((linear < random).all())
    True
    """
    require_count(episodes=episodes, replicates=replicates)
    if not (is_whole(seed) and seed >= 0):
        raise ParameterError(f"seed must be a whole number, 0 or more, got {seed!r}")
    if workers == 0:
        raise ParameterError(
            "workers must not be 0: give a number of processes, or -1 for one per core"
        )
    game = Game(instance, _named(learners), episodes, None if exact is None else as_oracle(exact))
    settings = game.settings | {"replicates": replicates, "seed": seed, "versions": versions()}
    if device is not None:
        results = _in_lock_step(game, seeds_of(seed, replicates), device, chunk, draws, progress)
        settings |= {"device": str(device), "draws": draws, "versions": versions(device)}
    elif chunk is not None or draws != "device":
        raise ParameterError("chunk and draws are for a device: give one, such as device='cuda'")
    else:
        results = _in_workers(game, seeds_of(seed, replicates), workers, progress)
    earned = np.concatenate([result.earned for result in results], axis=2)
    gap = results[0].gap
    return Trace(
        learners=tuple(game.learners),
        **dict(zip(ARRAYS, earned, strict=True)),
        gap=gap,
        exact=exact is not None or gap == 0,
        settings=settings,
    )


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


def versions(device: str | None = None) -> dict[str, str]:
    """The versions of superarm and of what its numbers depend on."""
    found = {
        "superarm": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }
    if device is not None:
        found["torch"] = importlib.metadata.version("torch")
    return found


def _named(
    learners: Mapping[str, Learner] | Sequence[Learner],
) -> dict[str, Learner]:
    if isinstance(learners, Mapping):
        named = dict(learners)
    else:
        named = {type(learner).__name__: learner for learner in learners}
        if len(named) < len(learners):
            raise ParameterError(
                "two learners of one class: name them, as in {'c=1': CombLinUCB(...), ...}"
            )
    if not named:
        raise ParameterError("simulate needs at least one learner")
    for learner in named.values():
        require_learner(learner)
    return named


def seeds_of(seed: int, replicates: int) -> list[np.random.SeedSequence]:
    """One seed per replicate: SeedSequence(seed).spawn(...)[i], however many there are."""
    return [np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(replicates)]


class Result(NamedTuple):
    """What learners and oracles earned, in one replicate or in those of a batch."""

    earned: Array  # (the arrays of a trace, learners, replicates, episodes)
    gap: float | None


def _in_workers(
    game: Game,
    seeds: Sequence[np.random.SeedSequence],
    workers: int | None,
    progress: Progress,
) -> list[Result]:
    """Each replicate on its own, in as many processes as there are workers, or replicates."""
    import joblib

    replicate = joblib.delayed(_replicate)
    jobs = (replicate(i, game, seed, os.getpid()) for i, seed in enumerate(seeds))
    processes = min(joblib.effective_n_jobs(workers), len(seeds))
    results = {}
    # One BLAS thread: workers do not fight over cores, and rounding is the same with any number.
    with threadpool_limits(limits=1), reporting(progress, len(seeds)) as finished:
        done = joblib.Parallel(n_jobs=processes, return_as="generator_unordered")(jobs)
        for i, result in done:
            results[i] = result
            finished(1)
    return [results[i] for i in range(len(seeds))]


def _replicate(i: int, game: Game, seed: np.random.SeedSequence, parent: int) -> tuple[int, Result]:
    """Replicate i and what it earned, by a process with one BLAS thread."""
    with threadpool_limits(limits=None if os.getpid() == parent else 1):
        rng = np.random.default_rng(seed)
        problem, world = game.instance(rng)
        if is_tensor(problem.Phi):
            problem = problem._replace(Phi=to_numpy(problem.Phi))
        if problem.batch:
            raise ParameterError(
                f"simulate plays one problem per replicate, got a batch {problem.batch}: "
                "use episodes"
            )
        return i, play(problem, world, game, rng)


class _Best(NamedTuple):
    """The best set for mean weights, and what it and the optimum earn."""

    mean: Array  # (*B, L)
    value: Value  # f
    star: Array  # (*B, K) A*
    expected: Array  # (*B,) f(A*, w̄)
    optimum: Array  # (*B,) f(A^opt, w̄)

    def holds(self, step: Step) -> bool:
        """Whether the episode has the same means, and values sets alike."""
        return self.value == step.value and _equal(self.mean, step.mean)


def play(problem: Problem, world: World, game: Game, rng: Rng) -> Result:
    """What the learners earn, on one problem or a batch of them."""
    problem = checked(problem)
    exact = problem.oracle if game.exact is None else game.exact
    runs = [
        steps(learner, problem, world, rng=copy.deepcopy(rng), n=game.episodes)
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


def _best(step: Step, oracle: Oracle, exact: Oracle) -> _Best:
    mean = step.mean
    value = step.value
    if not is_tensor(mean):
        mean = mean.copy()  # a world may change its own
    star = oracle(mean)
    optimum = star if exact is oracle else exact(mean)
    return _Best(mean, value, star, value(star, mean), value(optimum, mean))


def _earned(step: Step, best: _Best) -> list[Array]:
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


def _in_lock_step(
    game: Game,
    seeds: Sequence[np.random.SeedSequence],
    name: str,
    chunk: int | None,
    draws: str,
    progress: Progress,
) -> list[Result]:
    """All replicates on a device, a chunk of them at a time."""
    if chunk is not None:
        require_count(chunk=chunk)
    if draws not in ("device", "host"):
        raise ParameterError(f"draws must be 'device' or 'host', got {draws!r}")
    device = lockstep.find_device(name)
    learners = list(game.learners.values())
    most = lockstep.chunk_size(game.instance, learners, seeds, device, draws)
    chunks = -(-len(seeds) // (chunk or most))
    size = -(-len(seeds) // chunks)  # as few chunks as fit, and alike

    def played(first: int) -> Result:  # a function, so that a chunk's tensors go before the next's
        batch = lockstep.stack_instances(game.instance, seeds[first : first + size], device, draws)
        return play(batch.problem, batch.world, game, batch.rng)

    results = []
    # One BLAS thread, as above, where the device is the CPU.
    with reporting(progress, len(seeds)) as finished, threadpool_limits(limits=1):
        for first in range(0, len(seeds), size):
            results.append(played(first))
            finished(results[-1].earned.shape[2])
    return results

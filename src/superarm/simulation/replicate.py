"""Many learners on many random instances: on cores, on a cluster, or in lock-step on a device."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.arrays import Array, Rng, is_tensor, to_numpy
from superarm.checks import is_whole, require_count
from superarm.contracts import Learner, Oracle, Problem, World, require_learner
from superarm.decide import validated
from superarm.engine.local import Engine, create_engine
from superarm.engine.progress import Progress, progress_callback
from superarm.engine.ray_nodes import versions
from superarm.errors import ParameterError
from superarm.oracles.base import as_oracle
from superarm.simulation import lockstep
from superarm.simulation.episodes import Episode, Value, episodes
from superarm.simulation.lockstep import Instance
from superarm.simulation.trace import ARRAYS, Trace


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
    cluster: str | None = None,
) -> Trace:
    """Play every learner on the same random instances.

    Replicate i depends on `seed` and i alone: instance, weights and the learners' randomness are
    the same with any number of replicates, workers or other learners beside.

    Args:
        instance: draws the problem and the world of one replicate from a generator. With a method
            `batch(stream)` it also draws many replicates at once, on a device.
        learners: by name, or a list of different classes.
        episodes: how many each learner plays per replicate.
        replicates: random instances.
        seed: the trace is a function of this and the other settings.
        workers: joblib's n_jobs; leave it None inside `joblib.parallel_config`. On a cluster, the
            largest number of replicates at a time.
        progress: True for a bar with the remaining time, in a terminal or a notebook; a text beside
            it; or a function that is called with the number of replicates that finished since the
            last call.
        exact: an exact oracle for A^opt where the problem's own is approximate.
        device: such as "cuda": replicates run in lock-step on it, by PyTorch. Replicate i is again
            a function of `seed` and i alone, but not the same as on the CPU, as the device draws
            other random numbers.
        chunk: replicates at a time on the device; by default as many as fit in its memory.
        draws: with "host" all numbers are drawn as on the CPU, and traces agree but for rounding.
            Scales that are "auto" can amplify rounding where the marginal likelihood is flat.
            This is slower with many items.
        cluster: the address of a Ray cluster, such as "10.0.0.1:6379", that runs the replicates;
            "ray" starts one on this machine, or uses the one that is connected. It needs
            superarm[cluster], and the same versions on all nodes. The trace is the same as here.

    Returns:
        the returns of every learner, by replicate and episode.

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
    exact = None if exact is None else as_oracle(exact)

    setup = Setup(instance, _by_name(learners), episodes, exact)
    run = Run(setup, replicates, seed)
    if device is not None:
        if cluster is not None:
            raise ParameterError("give a device or a cluster, not both")
        seeds = replicate_seeds(seed, replicates)
        results = _run_on_device(setup, seeds, device, chunk, draws, progress)
        settings = {"device": str(device), "draws": draws, "versions": versions(device)}
        return _build_trace(run, results, settings)
    if chunk is not None or draws != "device":
        raise ParameterError("chunk and draws are for a device: give one, such as device='cuda'")

    with (
        create_engine(cluster, workers, replicates) as engine,
        progress_callback(progress, replicates) as advance,
    ):
        ((_, trace),) = traces([run], engine, on_result=lambda _: advance(1))
    return trace


def _by_name(learners: Mapping[str, Learner] | Sequence[Learner]) -> dict[str, Learner]:
    if isinstance(learners, Mapping):
        by_name = dict(learners)
    else:
        by_name = {type(learner).__name__: learner for learner in learners}
        if len(by_name) < len(learners):
            raise ParameterError(
                "two learners of one class: name them, as in {'c=1': CombLinUCB(...), ...}"
            )
    if not by_name:
        raise ParameterError("simulate needs at least one learner")
    for learner in by_name.values():
        require_learner(learner)
    return by_name


# --- one replicate --------------------------------------------------------------------------------


class Setup(NamedTuple):
    """The instance, learners and episodes that all replicates share."""

    instance: Instance
    learners: Mapping[str, Learner]
    episodes: int
    exact: Oracle | None

    @property
    def settings(self) -> dict[str, Any]:
        """The setup as text, for a trace."""
        return {
            "episodes": self.episodes,
            "instance": getattr(self.instance, "__qualname__", repr(self.instance)),
            "exact": None if self.exact is None else repr(self.exact),
            "learners": {name: repr(learner) for name, learner in self.learners.items()},
        }


class Result(NamedTuple):
    """Returns of learners and oracles, in one replicate or in a batch of them."""

    returns: Array  # (the arrays of a trace, learners, replicates, episodes)
    gap: float | None


def replicate(setup: Setup, seed: np.random.SeedSequence) -> Result:
    """The returns in the replicate with this seed."""
    rng = np.random.default_rng(seed)
    problem, world = setup.instance(rng)
    if is_tensor(problem.Phi):
        problem = problem._replace(Phi=to_numpy(problem.Phi))
    if problem.batch:
        raise ParameterError(
            f"simulate plays one problem per replicate, got a batch {problem.batch}: use episodes"
        )
    return run_learners(problem, world, setup, rng)


def run_learners(problem: Problem, world: World, setup: Setup, rng: Rng) -> Result:
    """The returns of the learners, on one problem or a batch of them."""
    problem = validated(problem)
    exact = problem.oracle if setup.exact is None else setup.exact
    runs = [
        episodes(learner, problem, world, rng=copy.deepcopy(rng), n=setup.episodes)
        for learner in setup.learners.values()
    ]

    reference = None
    returns = []
    for same_t in zip(*runs, strict=True):
        for episode in same_t:
            if reference is None or not reference.holds(episode):
                reference = _reference(episode, problem.oracle, exact)
            returns += _returns(episode, reference)

    # only now, as reading a result waits for the device
    values: Array = np.array([to_numpy(x) for x in returns])
    # (episodes x learners x arrays, *B) -> (arrays, learners, replicates, episodes)
    values = values.reshape(setup.episodes, len(runs), len(ARRAYS), -1)
    return Result(values.transpose(2, 1, 3, 0), problem.oracle.gap)


class _Reference(NamedTuple):
    """The oracle's set for the mean weights, its expected return and the optimum's."""

    mean: Array  # (*B, L)
    value: Value  # f
    star: Array  # (*B, K) A*
    expected: Array  # (*B,) f(A*, w̄)
    optimum: Array  # (*B,) f(A^opt, w̄)

    def holds(self, episode: Episode) -> bool:
        """True if the episode has the same means, and the same value function."""
        if self.value != episode.value:
            return False
        if self.mean is episode.mean:
            return True
        is_equal = self.mean == episode.mean
        return bool(is_equal.all())


def _reference(episode: Episode, oracle: Oracle, exact: Oracle) -> _Reference:
    mean = episode.mean
    value = episode.value
    if not is_tensor(mean):
        mean = mean.copy()  # a world may change its own

    star = oracle(mean)
    expected = value(star, mean)
    optimum = expected if exact is oracle else value(exact(mean), mean)
    return _Reference(mean, value, star, expected, optimum)


def _returns(episode: Episode, reference: _Reference) -> list[Array]:
    """The entries of one episode in the arrays of a trace, in their order."""
    return [
        episode.value(episode.A, episode.mean),
        episode.w.sum(-1),
        reference.expected,
        episode.value(reference.star, episode.weights),
        reference.optimum,
    ]


# --- all replicates -------------------------------------------------------------------------------


class Run(NamedTuple):
    """A setup with a number of replicates and their seed."""

    setup: Setup
    replicates: int
    seed: int


class ReplicateKey(NamedTuple):
    """One replicate of one of several runs."""

    run: int
    replicate: int


def longest_first(replicates: Sequence[int], costs: Sequence[float]) -> list[ReplicateKey]:
    """All replicates of several runs, longest first, so that all workers finish at about the same
    time.

    Args:
        replicates: the number of each run.
        costs: the time that one of them takes, in any unit.

    >>> keys = longest_first([1, 2], [1.0, 5.0])
    >>> [tuple(key) for key in keys]
    [(1, 0), (1, 1), (0, 0)]
    """
    by_cost = np.argsort(np.negative(costs), kind="stable")
    keys = []
    for run in by_cost.tolist():
        keys += [ReplicateKey(run, i) for i in range(replicates[run])]
    return keys


def traces(
    runs: Sequence[Run],
    engine: Engine,
    *,
    costs: Sequence[float] | None = None,
    on_result: Callable[[int], Any] = lambda run: None,
) -> Iterator[tuple[int, Trace]]:
    """The index of each run and its trace, as soon as the last of its replicates has arrived; all
    runs share the workers.

    Args:
        runs: the runs to make.
        engine: runs the replicates.
        costs: the time that a replicate of each run takes, in any unit; equal by default.
        on_result: called with the index of the run of each replicate when it arrives.
    """
    equal_costs = [0.0] * len(runs)
    keys = longest_first([run.replicates for run in runs], costs or equal_costs)
    setups = [engine.put(run.setup) for run in runs]
    calls = [(setups[k], _replicate_seed(runs[k].seed, i)) for k, i in keys]
    results: list[dict[int, Result]] = [{} for _ in runs]
    with closing(engine.map(replicate, calls)) as arriving:
        for number, result in arriving:
            k, i = keys[number]
            run = runs[k]
            results[k][i] = result
            on_result(k)
            if len(results[k]) < run.replicates:
                continue
            in_order = [results[k].pop(i) for i in range(run.replicates)]
            yield k, _build_trace(run, in_order, engine.settings)


def _build_trace(run: Run, results: Sequence[Result], settings: Mapping[str, Any]) -> Trace:
    setup = run.setup
    returns = np.concatenate([result.returns for result in results], axis=2)
    gap = results[0].gap

    own_settings = {"replicates": run.replicates, "seed": run.seed, "versions": versions()}
    return Trace(
        learners=tuple(setup.learners),
        **dict(zip(ARRAYS, returns, strict=True)),
        gap=gap,
        exact=setup.exact is not None or gap == 0,
        settings=setup.settings | own_settings | dict(settings),
    )


def replicate_seeds(seed: int, replicates: int) -> list[np.random.SeedSequence]:
    """One seed per replicate: SeedSequence(seed).spawn(...)[i], for any number of them."""
    return [_replicate_seed(seed, i) for i in range(replicates)]


def _replicate_seed(seed: int, i: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(i,))


def _run_on_device(
    setup: Setup,
    seeds: Sequence[np.random.SeedSequence],
    name: str,
    chunk: int | None,
    draws: str,
    progress: Progress,
) -> list[Result]:
    """The results of all replicates on a device, a chunk of them at a time."""
    if chunk is not None:
        require_count(chunk=chunk)

    if draws not in ("device", "host"):
        raise ParameterError(f"draws must be 'device' or 'host', got {draws!r}")

    device = lockstep.find_device(name)

    learners = list(setup.learners.values())
    max_size = lockstep.chunk_size(setup.instance, learners, seeds, device, draws)
    n_seeds = len(seeds)
    n_chunks = math.ceil(n_seeds / (chunk or max_size))
    size = math.ceil(n_seeds / n_chunks)  # as few chunks as fit, and of equal size

    def run_chunk(start: int) -> Result:  # a function, so that its tensors are freed at its end
        chunk_seeds = seeds[start : start + size]
        batch = lockstep.stack_instances(setup.instance, chunk_seeds, device, draws)
        return run_learners(batch.problem, batch.world, setup, batch.rng)

    results = []
    # One BLAS thread, as on cores, where the device is the CPU.
    with progress_callback(progress, n_seeds) as advance, threadpool_limits(limits=1):
        for start in range(0, n_seeds, size):
            result = run_chunk(start)
            results.append(result)
            advance(result.returns.shape[2])
    return results

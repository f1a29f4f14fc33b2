"""Many learners on many random instances: on cores, on a cluster, or in lock-step on a device."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.checks import is_whole, require_count
from superarm.contracts import Learner, Oracle, require_learner
from superarm.engine.local import Engine, create_engine
from superarm.engine.progress import Progress, progress_callback
from superarm.engine.ray_nodes import versions
from superarm.errors import ParameterError
from superarm.oracles.base import as_oracle
from superarm.simulation import lockstep
from superarm.simulation.games import Game, Result, play, replicate
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
            `batch(stream)` it also draws those of many replicates at once, on a device.
        learners: by name, or a list of different classes.
        episodes: how many each learner plays per replicate.
        replicates: random instances.
        seed: the trace is a function of this and the other settings.
        workers: joblib's n_jobs; leave it None inside `joblib.parallel_config`. On a cluster, the
            most replicates at a time.
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
        cluster: the address of a Ray cluster, such as "10.0.0.1:6379", where replicates are to be
            played; "ray" starts one on this machine, or takes that which is connected. It needs
            superarm[cluster], and the same versions on all nodes. The trace is the same as here.

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
    game = Game(instance, _named(learners), episodes, None if exact is None else as_oracle(exact))
    run = Run(game, replicates, seed)
    if device is not None:
        if cluster is not None:
            raise ParameterError("give a device or a cluster, not both")
        results = _in_lock_step(game, seeds_of(seed, replicates), device, chunk, draws, progress)
        settings = {"device": str(device), "draws": draws, "versions": versions(device)}
        return _trace(run, results, settings)
    if chunk is not None or draws != "device":
        raise ParameterError("chunk and draws are for a device: give one, such as device='cuda'")
    with (
        create_engine(cluster, workers, replicates) as engine,
        progress_callback(progress, replicates) as finished,
    ):
        ((_, trace),) = traces([run], engine, arrived=lambda _: finished(1))
    return trace


class Run(NamedTuple):
    """So many replicates of a game."""

    game: Game
    replicates: int
    seed: int


class Piece(NamedTuple):
    """One replicate of one of several runs."""

    run: int
    replicate: int


def longest_first(replicates: Sequence[int], costs: Sequence[float]) -> list[Piece]:
    """All replicates of several runs in the order to start them: those that take longest come
    first, so that at the end no worker is busy for long after the others.

    Args:
        replicates: how many each run has.
        costs: how long one of them takes, in any unit.

    >>> longest_first([1, 2], [1.0, 5.0])
    [Piece(run=1, replicate=0), Piece(run=1, replicate=1), Piece(run=0, replicate=0)]
    """
    runs = sorted(range(len(replicates)), key=lambda run: -costs[run])
    return [Piece(run, i) for run in runs for i in range(replicates[run])]


def traces(
    runs: Sequence[Run],
    engine: Engine,
    *,
    costs: Sequence[float] | None = None,
    arrived: Callable[[int], Any] = lambda place: None,
) -> Iterator[tuple[int, Trace]]:
    """The place of each run and its trace, as soon as the last of its replicates has arrived; all
    runs share the workers.

    Args:
        runs: what to play.
        engine: runs the replicates.
        costs: how long a replicate of each run takes, as far as is known.
        arrived: told the place of the run of each replicate when it arrives.
    """
    pieces = longest_first([run.replicates for run in runs], costs or [0.0] * len(runs))
    games = [engine.put(run.game) for run in runs]
    calls = [(games[piece.run], _seed(runs[piece.run].seed, piece.replicate)) for piece in pieces]
    results: list[dict[int, Result]] = [{} for _ in runs]
    with closing(engine.map(replicate, calls)) as done:
        for place, result in done:
            k, i = pieces[place]
            run = runs[k]
            results[k][i] = result
            arrived(k)
            if len(results[k]) == run.replicates:
                in_order = [results[k].pop(i) for i in range(run.replicates)]
                yield k, _trace(run, in_order, engine.settings)


def _trace(run: Run, results: Sequence[Result], more: Mapping[str, Any]) -> Trace:
    game = run.game
    earned = np.concatenate([result.earned for result in results], axis=2)
    gap = results[0].gap
    settings = {"replicates": run.replicates, "seed": run.seed, "versions": versions()}
    return Trace(
        learners=tuple(game.learners),
        **dict(zip(ARRAYS, earned, strict=True)),
        gap=gap,
        exact=game.exact is not None or gap == 0,
        settings=game.settings | settings | dict(more),
    )


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
    return [_seed(seed, i) for i in range(replicates)]


def _seed(seed: int, i: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(i,))


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
    # One BLAS thread, as on cores, where the device is the CPU.
    with progress_callback(progress, len(seeds)) as finished, threadpool_limits(limits=1):
        for first in range(0, len(seeds), size):
            results.append(played(first))
            finished(results[-1].earned.shape[2])
    return results

"""Run learners against environments: `episodes` step by step, `simulate` over learners and
replicates.
"""

import copy
import functools
import importlib.metadata
import itertools
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import joblib
import numpy as np
import scipy
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from superarm.arrays import Array, Features, Rng, is_tensor, spawn, take, to_numpy
from superarm.checks import is_whole, require_count
from superarm.contracts import Adversary, Changing, Environment, Learner, Oracle, Problem, World
from superarm.decide import checked, decide, in_context
from superarm.errors import ParameterError, WeightsError
from superarm.oracles.base import as_oracle
from superarm.simulation import lockstep
from superarm.simulation.trace import ARRAYS, Trace
from superarm.version import __version__

Instance: TypeAlias = Callable[[np.random.Generator], tuple[Problem, World]]
"""Draws the problem and the world of one replicate.

One that says `draws_batches` does so for a batch too, if its generator is a batch of streams on a
device.
"""


class Step(NamedTuple):
    """One episode."""

    t: int  # 1, 2, ...
    A: Array  # (*B, K) the chosen items
    w: Array  # (*B, K) what was observed of them
    weights: Array  # (*B, L) w_t, of all items
    belief: Any  # after the update
    mean: Array  # (*B, L) w̄, in this episode


def episodes(
    learner: Learner[Any], problem: Problem, environment: World, *, rng: Rng, n: int | None = None
) -> Iterator[Step]:
    """Play n episodes (endlessly if n is None), yielding each as it is done.

    The weights w_t are drawn from a stream of their own, so two learners given equal generators
    meet the same weights. A batch of problems plays in lock-step, with one generator an entry. An
    environment may show features of its own, as in contexts, and may differ from episode to
    episode: see `superarm.problem.Changing` and `Adversary`.

    >>> import numpy as np
    >>> from superarm import BernoulliEnvironment, CombLinTS, Problem, TopK, episodes
    >>> problem = Problem(np.eye(3), TopK(1))
    >>> world = BernoulliEnvironment(np.array([0.1, 0.9, 0.2]))
    >>> rng = np.random.default_rng(7)
    >>> chosen = [step.A[0] for step in episodes(CombLinTS(lam=1.0, sigma=0.5), problem, world, rng=rng, n=200)]
    >>> float(np.mean(np.equal(chosen[100:], 1))) > 0.9
    True
    """
    if n is not None:
        require_count(n=n)
    problem = checked(problem)
    nature, mind = spawn(rng, 2)
    show, belief = _shows(environment, rng), learner.init(problem)
    for t in itertools.count(1) if n is None else range(1, n + 1):
        now = show(t, learner, belief, problem)
        shown, mean = in_context(learner, belief, problem, getattr(now, "features", None)), now.mean
        if mean.shape != (*problem.batch, problem.L):
            raise ParameterError(
                f"the environment has mean weights of shape {mean.shape}, "
                f"the problem's features ask for {(*problem.batch, problem.L)}"
            )
        A = decide(learner, belief, shown, mind)
        weights = now.draw(nature)
        if weights.shape != mean.shape:
            raise WeightsError(
                f"the environment drew weights of shape {weights.shape}, not {mean.shape}"
            )
        w = take(weights, A)
        belief = learner.update(belief, shown, A, w)
        yield Step(t, A, w, weights, belief, mean)


def _shows(world: World, rng: Rng) -> Callable[..., Environment]:
    """A function of t, learner, belief and problem: the environment of episode t."""
    if isinstance(world, Adversary):
        coin = spawn(rng, 1)[0]

        def show(t: int, learner: Learner[Any], belief: Any, problem: Problem) -> Environment:
            def choose(features: Features | None) -> Array:
                return decide(learner, belief, in_context(learner, belief, problem, features), coin)

            return world.against(t, choose)

        return show
    if isinstance(world, Changing):
        return lambda t, *_: world.at(t)
    return lambda *_: world


def simulate(
    instance: Instance,
    learners: Mapping[str, Learner[Any]] | Sequence[Learner[Any]],
    *,
    episodes: int,
    replicates: int,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | str = True,
    exact: Oracle | None = None,
    device: str | None = None,
    chunk: int | None = None,
    draws: Literal["device", "host"] = "device",
) -> Trace:
    """Play every learner on the same random instances.

    Replicate i depends on `seed` and i alone: instance, weights and the learners' randomness are
    the same with any number of replicates, workers or other learners beside. `workers` is joblib's
    n_jobs; leave it None inside `joblib.parallel_config`. `progress` shows a bar with the time
    left, under a text if one is given. `exact` is an exact oracle for A^opt where the problem's own
    is approximate.

    With a `device`, such as "cuda", replicates play in lock-step on it, by PyTorch; `chunk` at a
    time, by default as many as fit in its memory. Replicate i is again a function of `seed` and i
    alone, but of numbers drawn on the device, which are not the CPU's. With `draws="host"` they
    are, and the traces agree but for rounding, which scales that are "auto" can make much of where
    the evidence is flat; this is slower where there are many items.

    >>> from superarm import CombLinTS, RandomChoice, simulate
    >>> from superarm.studies.longest_path import LongestPath
    >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
    >>> trace = simulate(LongestPath(m=3, d=4), learners, episodes=30, replicates=4, progress=False)
    >>> bool((trace.regret("CombLinTS")[:, -1] < trace.regret("RandomChoice")[:, -1]).all())
    True
    """
    require_count(episodes=episodes, replicates=replicates)
    if not (is_whole(seed) and seed >= 0):
        raise ParameterError(f"seed must be a whole number, 0 or more, got {seed!r}")
    if workers == 0:
        raise ParameterError(
            "workers must not be 0: give a number of processes, or -1 for one a core"
        )
    named = _named(learners)
    exact = None if exact is None else as_oracle(exact)
    text = progress if isinstance(progress, str) else "simulate"
    bar = functools.partial(
        tqdm, total=replicates, desc=text, unit="replicate", disable=not progress
    )
    settings = _settings(instance, named, episodes, replicates, seed, exact)
    if device is not None:
        results = _in_lock_step(
            instance, named, episodes, seeds_of(seed, replicates), exact, device, chunk, draws, bar
        )
        settings |= {"device": str(device), "draws": draws, "versions": versions(device)}
    elif chunk is not None or draws != "device":
        raise ParameterError("chunk and draws are for a device: give one, such as device='cuda'")
    else:
        results = _in_workers(instance, named, episodes, replicates, seed, exact, workers, bar)
    return Trace(
        learners=tuple(named),
        **{name: np.concatenate([getattr(r, name) for r in results], axis=1) for name in ARRAYS},
        gap=results[0].gap,
        exact=exact is not None or results[0].gap == 0,
        settings=settings,
    )


def _settings(
    instance: Instance,
    learners: Mapping[str, Learner[Any]],
    episodes: int,
    replicates: int,
    seed: int,
    exact: Oracle | None,
) -> dict[str, Any]:
    """What a result is a function of, and the versions that made it."""
    return {
        "episodes": episodes,
        "replicates": replicates,
        "seed": seed,
        "instance": getattr(instance, "__qualname__", repr(instance)),
        "exact": None if exact is None else repr(exact),
        "learners": {name: repr(learner) for name, learner in learners.items()},
        "versions": versions(),
    }


def versions(device: str | None = None) -> dict[str, str]:
    """Of superarm and what its numbers depend on."""
    torch = {} if device is None else {"torch": importlib.metadata.version("torch")}
    return {
        "superarm": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        **torch,
    }


def _named(
    learners: Mapping[str, Learner[Any]] | Sequence[Learner[Any]],
) -> dict[str, Learner[Any]]:
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
    return named


class Result(NamedTuple):
    """What learners and oracles earned, for one replicate or those of a batch."""

    replicate: int
    expected: Array  # (learners, replicates, episodes)
    realized: Array
    oracle_expected: Array
    oracle_realized: Array
    optimum_expected: Array
    gap: float | None


def _in_workers(
    instance: Instance,
    learners: Mapping[str, Learner[Any]],
    n: int,
    replicates: int,
    seed: int,
    exact: Oracle | None,
    workers: int | None,
    bar: Callable[..., Any],
) -> list[Result]:
    """Each replicate on its own, in as many processes as there are workers."""
    jobs = (
        joblib.delayed(_replicate)(i, instance, learners, n, seed, exact, os.getpid())
        for i in range(replicates)
    )
    # One BLAS thread: workers do not fight over cores, and rounding is the same with any number of them.
    with threadpool_limits(limits=1):
        done = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)
        return sorted(bar(done), key=lambda r: r.replicate)


def _replicate(
    i: int,
    instance: Instance,
    learners: Mapping[str, Learner[Any]],
    n: int,
    seed: int,
    exact: Oracle | None,
    parent: int,
) -> Result:
    with threadpool_limits(limits=None if os.getpid() == parent else 1):
        rng = np.random.default_rng(
            np.random.SeedSequence(seed, spawn_key=(i,))
        )  # SeedSequence(seed).spawn(...)[i]
        problem, environment = instance(rng)
        problem = problem._replace(Phi=to_numpy(problem.Phi)) if is_tensor(problem.Phi) else problem
        if problem.batch:
            raise ParameterError(
                f"simulate plays one problem a replicate, got a batch {problem.batch}: use episodes"
            )
        return play(problem, environment, learners, n, rng, exact)._replace(replicate=i)


def seeds_of(seed: int, replicates: int) -> list[np.random.SeedSequence]:
    """One for each replicate."""
    return [np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(replicates)]


def play(
    problem: Problem,
    environment: World,
    learners: Mapping[str, Learner[Any]],
    n: int,
    rng: Rng,
    exact: Oracle | None = None,
) -> Result:
    """What the learners earn in n episodes, on one problem or a batch of them."""
    problem = checked(problem)
    exact = None if exact is None else checked(problem._replace(oracle=exact)).oracle

    adversary, changing = isinstance(environment, Adversary), isinstance(environment, Changing)
    # A*, f(A*, w̄) and f(A^opt, w̄) of learner j and episode t, if they differ
    best: dict[tuple[int, ...], tuple[Array, Array, Array]] = {}

    def earned(j: int, step: Step) -> list[Array]:
        key = (j, step.t) if adversary else (step.t,) if changing else ()
        if key not in best:
            star = problem.oracle(step.mean)
            optimum = star if exact is None else exact(step.mean)
            best[key] = star, take(step.mean, star).sum(-1), take(step.mean, optimum).sum(-1)
        star, *of_best = best[key]
        realized = step.w.sum(-1), take(step.weights, star).sum(-1)
        return [take(step.mean, step.A).sum(-1), *of_best, *realized]

    runs = [
        [
            earned(j, step)
            for step in episodes(learner, problem, environment, rng=copy.deepcopy(rng), n=n)
        ]
        for j, learner in enumerate(learners.values())
    ]
    # (learners, episodes, 5, *B) -> (5, learners, replicates, episodes)
    values: Array = np.array([[[to_numpy(x) for x in row] for row in run] for run in runs])
    values = values.reshape(len(runs), n, 5, -1).transpose(2, 0, 3, 1)
    expected, oracle_expected, optimum_expected, realized, oracle_realized = values
    return Result(
        0,
        expected,
        realized,
        oracle_expected,
        oracle_realized,
        optimum_expected,
        problem.oracle.gap,
    )


def _in_lock_step(
    instance: Instance,
    learners: Mapping[str, Learner[Any]],
    n: int,
    seeds: Sequence[np.random.SeedSequence],
    exact: Oracle | None,
    name: str,
    chunk: int | None,
    draws: str,
    bar: Callable[..., Any],
) -> list[Result]:
    """All replicates on a device, a chunk of them at a time."""
    require_count(**({} if chunk is None else {"chunk": chunk}))
    if draws not in ("device", "host"):
        raise ParameterError(f"draws must be 'device' or 'host', got {draws!r}")
    device = lockstep.find_device(name)
    for label, learner in learners.items():
        if getattr(learner, "numpy_only", False):
            raise ParameterError(f"{label} runs on the CPU only: leave the device out")
    most = chunk or lockstep.chunk_size(instance, seeds, device, draws)
    size = -(-len(seeds) // -(-len(seeds) // most))  # as few chunks as fit, and alike

    def played(
        first: int,
    ) -> Result:  # a function, so that a chunk's tensors are gone before the next is made
        problem, environment, rng = lockstep.together(
            instance, seeds[first : first + size], device, draws
        )
        return play(problem, environment, learners, n, rng, exact)

    results = []
    with bar() as shown, threadpool_limits(limits=1):  # as above, where the device is the CPU
        for first in range(0, len(seeds), size):
            results.append(played(first))
            shown.update(results[-1].expected.shape[1])
    return results

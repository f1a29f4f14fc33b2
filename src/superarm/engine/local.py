"""Engines, which run independent calls on many workers; the one for the cores of this machine.

An engine maps a function over arguments and returns results as they come, each with its index.
Values that many calls share are shipped once. A call whose worker was killed is made again; an
error in a call ends the rest. BLAS runs on one thread in every worker, so that workers do not
compete for cores, and rounding is the same on any number of them.

    with create_engine(None, workers=2) as engine:
        for i, result in engine.map(function, [(a, b), (c, d)]):
            ...
"""

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Protocol, Self, TypeAlias

from superarm.arrays.compiled import one_blas_thread
from superarm.checks import is_whole
from superarm.engine import ray_nodes
from superarm.engine.exception_transport import picklable_errors
from superarm.engine.progress import compile_messages
from superarm.engine.ray import RayEngine
from superarm.errors import ClusterError, ParameterError

Results: TypeAlias = Generator[tuple[int, Any], None, None]
"""The index and the result of each call, as they come; closing it ends the rest."""


class Engine(Protocol):
    """Workers that make independent calls, and hold objects between calls."""

    def put(self, value: Any) -> Any:
        """A reference to the value, to be used as an argument of calls; it is shipped once."""

    def map(self, function: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> Results:
        """The index and the result of each call, as they come."""

    def create_actor(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """A reference to the object `make(*arguments)`, which lives on a worker; arguments may be
        references. If its worker is killed, it is made again in the same way.
        """

    def call(self, actors: Sequence[Any], method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of a method of each actor, with arguments of its own; it may be called twice
        where a worker or a node is lost.
        """

    @property
    def settings(self) -> dict[str, Any]:
        """The nodes and their versions, for a trace; empty on this machine."""


def create_engine(
    cluster: str | None, workers: int | None = None, n_calls: int | None = None
) -> AbstractContextManager[Engine]:
    """The engine on this machine if `cluster` is None; on a Ray of its own, or the one that is
    connected already, if it is "ray"; else on the Ray cluster at this address.

    Args:
        cluster: None, "ray", "auto" or an address.
        workers: calls at a time at most; None or -1 for one per core.
        n_calls: number of calls, if it is known: there are no more workers than that.

    >>> from superarm.engine.local import create_engine
    >>> with create_engine(None) as engine:
    ...     sorted(engine.map(pow, [(2, 3), (3, 2)]))
    [(0, 8), (1, 9)]
    """
    if workers is not None and not is_whole(workers):
        raise ParameterError(f"workers must be a number of processes, got {workers!r}")
    if workers == 0:
        raise ParameterError(
            "workers must not be 0: give a number of processes, or -1 for one per core"
        )
    if not isinstance(cluster, str | None):
        raise ParameterError(
            f"cluster must be 'ray', 'auto' or an address such as '10.0.0.1:6379', got {cluster!r}"
        )
    if cluster is None:
        return LocalEngine(workers)
    return RayEngine(cluster, workers, n_calls)


class LocalEngine:
    """The cores of this machine, or the backend of `joblib.parallel_config`."""

    settings: dict[str, Any] = {}  # noqa: RUF012  never written to

    def __init__(self, workers: int | None) -> None:
        self.workers = workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def put(self, value: Any) -> Any:
        """The value itself."""
        return value

    def create_actor(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """The object itself."""
        return make(*arguments)

    def call(self, actors: Sequence[Any], method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of a method of each object, one after the other."""
        pairs = zip(actors, calls, strict=True)
        with one_blas_thread():
            return [getattr(actor, method)(*arguments) for actor, arguments in pairs]

    def map(self, function: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> Results:
        """The index and the result of each call, as they come; if a worker is killed, new ones make
        the calls that are left.
        """
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        waiting = dict(enumerate(calls))
        failures = 0
        workers = min(joblib.effective_n_jobs(self.workers), len(waiting))
        while waiting:
            try:
                with closing(self._results(function, waiting, workers)) as results:
                    for i, result in results:
                        del waiting[i]
                        failures = 0
                        yield i, result
            except TerminatedWorkerError as error:
                failures += 1
                if failures > ray_nodes.RETRIES:
                    raise ClusterError(
                        f"workers were killed {failures} times, and nothing was done in between: "
                        f"is there enough memory for them? ({error})"
                    ) from error

    def _results(
        self, function: Callable[..., Any], calls: dict[int, Sequence[Any]], workers: int
    ) -> Results:
        import joblib

        backend, _ = joblib.parallel.get_active_backend()
        is_lazy = getattr(backend, "supports_return_generator", False)
        parallel = joblib.Parallel(
            n_jobs=workers,
            return_as="generator_unordered" if is_lazy else "list",
        )
        task = joblib.delayed(_run_call)
        tasks = [task(os.getpid(), i, function, arguments) for i, arguments in calls.items()]
        with one_blas_thread():
            results = parallel(tasks)
            try:
                for result in results:  # noqa: UP028  `yield from` would close it, with a warning
                    yield result
            finally:
                if is_lazy:
                    with warnings.catch_warnings(action="ignore"):  # of calls that are given up
                        results.close()


def _run_call(
    caller_pid: int, i: int, function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[int, Any]:
    """The index and the result of a call, for the process that asks for it."""
    is_worker = os.getpid() != caller_pid
    transport = picklable_errors() if is_worker else nullcontext()
    with transport, one_blas_thread(), compile_messages(is_worker=is_worker, is_first=i == 0):
        return i, function(*arguments)

"""Where pieces of work run: on the cores of this machine, or on a Ray cluster.

An engine maps a function over arguments and hands back results as they come, each with its place.
What many calls share is shipped once. A piece whose worker was killed runs again; an error in a
piece ends the rest. BLAS works on one thread in every piece, so that workers do not fight over
cores, and rounding is the same on any number of them.

    with engine(None, workers=2) as local:
        for i, result in local.map(function, [(a, b), (c, d)]):
            ...
"""

import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Protocol, Self, TypeAlias

from threadpoolctl import threadpool_limits

from superarm.arrays.compiled import one_blas_thread
from superarm.checks import is_whole
from superarm.engine import ray_nodes
from superarm.engine.chunking import Piece, Played, Shared, Tasks, play
from superarm.engine.exception_transport import for_another_process
from superarm.engine.progress import speaking
from superarm.errors import ClusterError, ParameterError

FRESH = 1.0
"""Seconds for which a look at how many cores the cluster has is good enough."""

Results: TypeAlias = Generator[tuple[int, Any], None, None]
"""The place of each call among all, and its result, as they come; to close them ends the rest."""


class Engine(Protocol):
    """What runs pieces of work."""

    def share(self, thing: Any) -> Any:
        """What stands for the thing among the arguments of a call; it is shipped once."""

    def map(self, function: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> Results:
        """The place of each call among all, and its result, as they come."""

    def place(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """What stands for the thing that `make(*arguments)` returns, wherever it lives; arguments
        may be shared. If its worker is killed, it is made again in the same way.
        """

    def ask(self, places: Sequence[Any], method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """What a method of each of the things returns, each for its own call; it may be called
        twice where a worker or a node is lost.
        """

    @property
    def settings(self) -> dict[str, Any]:
        """What a trace says about where it was made; empty on this machine."""


def engine(
    cluster: str | None, workers: int | None = None, pieces: int | None = None
) -> AbstractContextManager[Engine]:
    """The engine on this machine if `cluster` is None; a Ray of its own, or the one that is
    connected already, if it is "ray"; else that of the Ray cluster at this address.

    Args:
        cluster: where to work.
        workers: pieces at a time at most; None or -1 for one per core.
        pieces: how many there will be, if that is known: there are no more workers than that.

    >>> from superarm.engine.local import engine
    >>> with engine(None) as local:
    ...     sorted(local.map(pow, [(2, 3), (3, 2)]))
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
    return Local(workers) if cluster is None else Ray(cluster, workers, pieces)


# --- this machine ---------------------------------------------------------------------------------


class Local:
    """The cores of this machine, or what `joblib.parallel_config` says."""

    settings: dict[str, Any] = {}  # noqa: RUF012  never written to

    def __init__(self, workers: int | None) -> None:
        self.workers = workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def share(self, thing: Any) -> Any:
        """The thing itself."""
        return thing

    def place(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """The thing itself."""
        return make(*arguments)

    def ask(self, places: Sequence[Any], method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """What a method of each of the things returns, one after the other."""
        pairs = zip(places, calls, strict=True)
        with one_blas_thread():
            return [getattr(thing, method)(*call) for thing, call in pairs]

    def map(self, function: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> Results:
        """The place of each call among all, and its result, as they come; if a worker is killed,
        what is left goes to new ones.
        """
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left = dict(enumerate(calls))
        lost = 0
        workers = min(joblib.effective_n_jobs(self.workers), len(left))
        while left:
            try:
                with closing(self._results(function, left, workers)) as results:
                    for i, result in results:
                        del left[i]
                        lost = 0
                        yield i, result
            except TerminatedWorkerError as error:
                lost += 1
                if lost > ray_nodes.RETRIES:
                    raise ClusterError(
                        f"workers were killed {lost} times, and nothing was done in between: "
                        f"is there enough memory for them? ({error})"
                    ) from error

    def _results(
        self, function: Callable[..., Any], calls: dict[int, Sequence[Any]], workers: int
    ) -> Results:
        import joblib

        backend, _ = joblib.parallel.get_active_backend()
        as_they_come = getattr(backend, "supports_return_generator", False)
        parallel = joblib.Parallel(
            n_jobs=workers,
            return_as="generator_unordered" if as_they_come else "list",
        )
        piece = joblib.delayed(_piece)
        pieces = [piece(os.getpid(), i, function, call) for i, call in calls.items()]
        with one_blas_thread():
            results = parallel(pieces)
            try:
                for result in results:  # noqa: UP028  `yield from` would close it, with a warning
                    yield result
            finally:
                if as_they_come:
                    with warnings.catch_warnings(action="ignore"):  # of what is given up
                        results.close()


def _piece(home: int, i: int, function: Callable[..., Any], call: Sequence[Any]) -> tuple[int, Any]:
    """The place and the result of a call, for the process that asks for it."""
    away = os.getpid() != home
    sending = for_another_process() if away else nullcontext()
    with sending, one_blas_thread(), speaking(for_another=away, first=i == 0):
        return i, function(*call)


# --- a cluster ------------------------------------------------------------------------------------


Present: TypeAlias = tuple[str, str, int]
"""The node and the job of a connection, which only together tell it from others, and the process
that has it."""


class _Connection:
    """The one connection to Ray that a process has: who opened it, and how many use it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ours: Present | None = None  # the one that was opened here
        self.users = 0


_connection = _Connection()


class Ray:
    """A Ray cluster. It is connected to when the engine is entered, and its nodes are checked: they
    must have the same versions as this machine.
    """

    def __init__(self, address: str, workers: int | None, pieces: int | None = None) -> None:
        self.address = address
        self.workers = None if workers is None or workers < 0 else workers
        self.pieces = pieces
        self.ray = ray_nodes.import_ray()
        self.settings: dict[str, Any] = {}
        self.kept: list[Any] = []
        self.used: Present | None = None  # the connection, while this engine uses it
        self.cores = 1
        self.looked = -math.inf

    def __enter__(self) -> Self:
        with _connection.lock:
            if self.ray.is_initialized():
                self._require_connected()
            else:
                self._connect()
                _connection.ours = self._present()
                _connection.users = 0
            _connection.users += 1
            self.used = self._present()
        try:
            found = ray_nodes.checked_nodes(self.ray)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.settings = {"cluster": {"ray": self.ray.__version__, "nodes": found}}
        return self

    def __exit__(self, *error: object) -> None:
        self.kept.clear()
        with _connection.lock:
            if self.used is None or self.used != self._present():
                return  # left before, or somebody else has ended the connection
            self.used = None
            _connection.users -= 1
            if _connection.ours == self._present() and not _connection.users:
                self.ray.shutdown()
                _connection.ours = None

    def _present(self) -> Present | None:
        """The present connection; None if there is none."""
        if not self.ray.is_initialized():
            return None
        context = self.ray.get_runtime_context()
        return context.get_node_id(), context.get_job_id(), os.getpid()

    def _require_open(self) -> None:
        """Refuse to go on without the connection: Ray would start a cluster of its own, or look for
        what is in one cluster in another.
        """
        _require_own(self.used)
        if self.used is None or self.used != self._present():
            raise ClusterError("the connection to Ray was ended: make this anew, or load it")

    def _connect(self) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        if self.address == "ray":
            wanted = [self.workers or os.cpu_count() or 1, self.pieces or math.inf]
            options |= {"address": "local", "num_cpus": min(wanted), "include_dashboard": False}
            options |= {"logging_level": "error"}  # it warns of how it was started
        else:
            ray_nodes.require_reachable(self.address)
            options |= {"address": self.address}
        try:
            self.ray.init(**options)
        except (RuntimeError, ValueError, OSError, self.ray.exceptions.RayError) as error:
            hint = ""
            if "AuthenticationError" in repr(error) + str(error.__cause__):
                hint = (
                    "; it asks for a token: set RAY_AUTH_MODE=token, and give the head's token as "
                    "RAY_AUTH_TOKEN or in ~/.ray/auth_token"
                )
            raise ClusterError(
                f"no Ray cluster could be used at {self.address!r}: {error}{hint}"
            ) from error

    def _require_connected(self) -> None:
        """Refuse an address of another cluster than the one this process is connected to."""
        _require_own(_connection.ours)
        if self.address in ("ray", "auto"):
            return
        client = self.address.startswith("ray://")
        if client and self.ray.util.client.ray.is_connected():
            return  # Ray does not tell the address of its client
        ray_nodes.require_reachable(self.address)
        connected = self.ray.get_runtime_context().gcs_address
        here = self.ray.util.get_node_ip_address()
        if client or ray_nodes.resolved(self.address, here) != ray_nodes.resolved(connected, here):
            raise ClusterError(
                f"this process is connected to the Ray at {connected}, not to {self.address}: call "
                "ray.shutdown() first, or give cluster='ray' to use the one it is connected to"
            )

    def share(self, thing: Any) -> Any:
        """A reference to the thing, which is put into the cluster's memory."""
        self._require_open()
        return self.ray.put(thing)

    def place(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """An actor that has made the thing for itself."""
        actor = self.ray.remote(
            max_restarts=-1, max_task_retries=ray_nodes.RETRIES, scheduling_strategy="SPREAD"
        )(_Placed)
        is_shared = self.ray.ObjectRef
        kept = [one if isinstance(one, is_shared) else self.share(one) for one in arguments]
        self.kept.append(kept)  # as long as the actor may be made again
        return actor.remote(ray_nodes.versions(), make, *kept)

    def ask(self, places: Sequence[Any], method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """What a method of each of the things returns, all at the same time. Those that cannot be
        reached are asked again, until Ray has made them anew on another node: so a method may be
        called twice.
        """
        self._require_open()
        pairs = list(zip(places, calls, strict=True))
        asked = [one.ask.remote(method, *call) for one, call in pairs]
        end = time.monotonic() + ray_nodes.LOST * ray_nodes.RETRIES
        while True:
            try:
                found: list[Any] = ray_nodes.fetched(self.ray, asked)
                return found
            except ClusterError:
                again = ray_nodes.unreachable(self.ray, asked)
                if not again or time.monotonic() >= end:
                    raise
            time.sleep(ray_nodes.PAUSE)
            for i in again:
                one, call = pairs[i]
                asked[i] = one.ask.remote(method, *call)

    def map(self, function: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> Results:
        """The place of each call among all, and its result, as they come; short ones several at a
        time.
        """
        self._require_open()
        several = self.ray.remote(max_retries=0)(_on_nodes(function, ray_nodes.versions()))
        alone = several.options(max_retries=ray_nodes.RETRIES)
        tasks = Tasks(calls)
        running: dict[Any, list[Piece]] = {}
        while tasks or running:
            ahead = self._ahead()
            while tasks and len(running) < ahead:
                task = tasks.take(ahead)
                remote = alone if len(task) == 1 else several
                running[self._sent(remote, task)] = task
            self.ray.wait(list(running), num_returns=1)
            done, _ = self.ray.wait(list(running), num_returns=len(running), timeout=0)
            for reference in done:
                task = running.pop(reference)
                try:
                    played = ray_nodes.fetched(self.ray, reference)
                except ClusterError:
                    if len(task) == 1:
                        raise
                    tasks.lose(task)
                else:
                    yield from tasks.done(task, played)

    def _sent(self, remote: Any, task: Sequence[Piece]) -> Any:
        """A reference to what will come of a task. What its calls share goes beside them, once."""
        shared: dict[Any, Shared] = {}
        calls = []
        for _, call in task:
            arguments = list(call)
            for at, x in enumerate(call):
                if isinstance(x, self.ray.ObjectRef):
                    arguments[at] = shared.setdefault(x, Shared(len(shared)))
            calls.append(arguments)
        return remote.remote(calls, *shared)

    def _ahead(self) -> int:
        """How many tasks the cluster is to have at a time: twice as many as it has cores at the
        moment, so that a worker keeps its core from one piece to the next.

        Tasks whose results nobody wants any more end by themselves: to cancel them may end this
        process too (a bug of Ray 2.60).
        """
        now = time.monotonic()
        if now >= self.looked + FRESH:
            self.cores = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            self.looked = now
        if self.workers is not None and self.workers < self.cores:
            return self.workers
        return 2 * self.cores


def _require_own(connection: Present | None) -> None:
    """Refuse a connection that another process has opened: this one would wait for ever."""
    if connection is not None and connection[-1] != os.getpid():
        raise ClusterError(
            "this process was forked from one that is connected to Ray, and cannot use Ray: start "
            "it in another way, such as multiprocessing.get_context('spawn')"
        )


def _on_nodes(function: Callable[..., Any], expected: dict[str, str]) -> Callable[..., Any]:
    """The function as nodes run it. They keep it, where an argument would be unpacked each time."""

    def task(calls: Sequence[Sequence[Any]], *shared: Any) -> Played:
        with ray_nodes.naming_the_node():
            # it may have joined after the check
            ray_nodes.require_same(ray_nodes.versions(), expected, "this node")
            with one_blas_thread():
                return play(function, calls, shared)

    return task


class _Placed:
    """Something that lives on a node, which must have the expected versions."""

    def __init__(self, expected: dict[str, str], make: Callable[..., Any], *arguments: Any) -> None:
        threadpool_limits(limits=1)
        self.expected = expected
        self.found = ray_nodes.versions()
        self.thing = make(*arguments)

    def ask(self, method: str, *call: Any) -> Any:
        with ray_nodes.naming_the_node():
            # it may have joined after the check; an error in the constructor would lose its words
            ray_nodes.require_same(self.found, self.expected, "this node")
            return getattr(self.thing, method)(*call)

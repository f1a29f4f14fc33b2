"""The engine on a Ray cluster: calls as tasks, and objects as actors that nodes hold."""

import math
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Self, TypeAlias

from threadpoolctl import threadpool_limits

from superarm.arrays.compiled import one_blas_thread
from superarm.engine import ray_nodes
from superarm.engine.chunking import Call, ChunkQueue, ChunkResult, SharedArgument, run_chunk
from superarm.errors import ClusterError

CORES_LIFETIME = 1.0
"""Seconds for which the number of cores of the cluster is not asked for again."""

ConnectionId: TypeAlias = tuple[str, str, int]
"""Node and job of a connection, which only together tell it from others, and its process."""


class _SharedConnection:
    """The one connection to Ray of this process, and the number of engines that use it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.opened: ConnectionId | None = None  # the one that was opened here
        self.n_users = 0


_connection = _SharedConnection()


class RayEngine:
    """A Ray cluster. The engine connects when it is entered, and checks the nodes: they must have
    the same versions as this machine.
    """

    def __init__(self, address: str, workers: int | None, n_calls: int | None = None) -> None:
        self.address = address
        self.workers = None if workers is None or workers < 0 else workers
        self.n_calls = n_calls
        self.ray = ray_nodes.import_ray()
        self.settings: dict[str, Any] = {}
        self.actor_arguments: list[Any] = []
        self.connection: ConnectionId | None = None  # while this engine is entered
        self.cores = 1
        self.checked_at = -math.inf

    def __enter__(self) -> Self:
        with _connection.lock:
            if self.ray.is_initialized():
                self._require_connected()
            else:
                self._connect()
                _connection.opened = self._connection_id()
                _connection.n_users = 0
            _connection.n_users += 1
            self.connection = self._connection_id()
        try:
            nodes = ray_nodes.node_versions(self.ray)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.settings = {"cluster": {"ray": self.ray.__version__, "nodes": nodes}}
        return self

    def __exit__(self, *error: object) -> None:
        self.actor_arguments.clear()
        with _connection.lock:
            if self.connection is None or self.connection != self._connection_id():
                return  # left before, or somebody else has ended the connection
            self.connection = None
            _connection.n_users -= 1
            if _connection.opened == self._connection_id() and not _connection.n_users:
                self.ray.shutdown()
                _connection.opened = None

    def _connection_id(self) -> ConnectionId | None:
        """The present connection; None if there is none."""
        if not self.ray.is_initialized():
            return None
        context = self.ray.get_runtime_context()
        node = context.get_node_id()
        job = context.get_job_id()
        return node, job, os.getpid()

    def _require_open(self) -> None:
        """Refuse to go on without the connection: Ray would start a cluster of its own, or look for
        references of one cluster in another.
        """
        _require_own(self.connection)
        if self.connection is None or self.connection != self._connection_id():
            raise ClusterError(
                "the Ray connection was closed: create the object again, or load it from a file"
            )

    def _connect(self) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        if self.address == "ray":
            workers = self.workers or os.cpu_count() or 1
            options["address"] = "local"
            options["num_cpus"] = min(workers, self.n_calls or math.inf)
            options["include_dashboard"] = False
            options["logging_level"] = "error"  # it warns of how it was started
        else:
            ray_nodes.require_reachable(self.address)
            options["address"] = self.address
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
        _require_own(_connection.opened)
        if self.address in ("ray", "auto"):
            return
        is_client = self.address.startswith("ray://")
        if is_client and self.ray.util.client.ray.is_connected():
            return  # Ray does not tell the address of its client
        ray_nodes.require_reachable(self.address)
        connected = self.ray.get_runtime_context().gcs_address
        here = self.ray.util.get_node_ip_address()
        target = ray_nodes.resolve_address(self.address, here)
        if is_client or target != ray_nodes.resolve_address(connected, here):
            raise ClusterError(
                f"this process is connected to the Ray at {connected}, not to {self.address}: call "
                "ray.shutdown() first, or give cluster='ray' to use the one it is connected to"
            )

    def put(self, value: Any) -> Any:
        """A reference to the value in the cluster's memory."""
        self._require_open()
        return self.ray.put(value)

    def create_actor(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """A reference to an actor that holds the object `make(*arguments)`."""
        options = {
            "max_restarts": -1,
            "max_task_retries": ray_nodes.RETRIES,
            "scheduling_strategy": "SPREAD",
        }
        actor_class = self.ray.remote(**options)(Actor)
        references = [self._as_reference(x) for x in arguments]
        self.actor_arguments.append(references)  # as long as the actor may be made again
        return actor_class.remote(ray_nodes.versions(), make, *references)

    def _as_reference(self, value: Any) -> Any:
        is_reference = isinstance(value, self.ray.ObjectRef)
        return value if is_reference else self.put(value)

    def call(self, actors: Sequence[Any], method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of a method of each actor, all at the same time. Ray restarts unreachable
        actors on another node, where they are called again: so a method may be called twice.
        """
        self._require_open()

        pairs = list(zip(actors, calls, strict=True))
        references = [actor.call.remote(method, *arguments) for actor, arguments in pairs]

        deadline = time.monotonic() + ray_nodes.RECOVERY_SECONDS * ray_nodes.RETRIES
        while True:
            try:
                results: list[Any] = ray_nodes.fetch(self.ray, references)
                return results
            except ClusterError:
                lost = ray_nodes.unreachable_actors(self.ray, references)
                if not lost or time.monotonic() >= deadline:
                    raise

            time.sleep(ray_nodes.POLL_SECONDS)
            for i in lost:
                actor, arguments = pairs[i]
                references[i] = actor.call.remote(method, *arguments)

    def map(
        self, function: Callable[..., Any], calls: Iterable[Sequence[Any]]
    ) -> Generator[tuple[int, Any], None, None]:
        """The index and the result of each call, as they come; short calls share a task."""
        self._require_open()
        many = self.ray.remote(max_retries=0)(_chunk_task(function, ray_nodes.versions()))
        single = many.options(max_retries=ray_nodes.RETRIES)

        queue = ChunkQueue(calls)
        running: dict[Any, list[Call]] = {}
        while queue or running:
            n_tasks = self._n_tasks()
            while queue and len(running) < n_tasks:
                chunk = queue.take(n_tasks)
                task = single if len(chunk) == 1 else many
                running[self._submit(task, chunk)] = chunk

            self.ray.wait(list(running), num_returns=1)

            finished, _ = self.ray.wait(list(running), num_returns=len(running), timeout=0)
            for reference in finished:
                chunk = running.pop(reference)
                try:
                    result = ray_nodes.fetch(self.ray, reference)
                except ClusterError:
                    if len(chunk) == 1:
                        raise
                    queue.requeue(chunk)
                else:
                    yield from queue.complete(chunk, result)

    def _submit(self, task: Any, chunk: Sequence[Call]) -> Any:
        """A reference to the result of a chunk. References among the arguments are sent once."""
        shared: dict[Any, SharedArgument] = {}
        calls = []
        for call in chunk:
            arguments = list(call.arguments)
            for i, x in enumerate(call.arguments):
                if isinstance(x, self.ray.ObjectRef):
                    arguments[i] = shared.setdefault(x, SharedArgument(len(shared)))
            calls.append(arguments)
        return task.remote(calls, *shared)

    def _n_tasks(self) -> int:
        """The number of tasks to have in the cluster at a time: twice as many as it has cores at
        the moment, so that a worker keeps its core from one task to the next.

        Tasks whose results nobody needs any more end by themselves: to cancel them may end this
        process too (a bug of Ray 2.60).
        """
        seconds = time.monotonic()
        if seconds >= self.checked_at + CORES_LIFETIME:
            resources = self.ray.cluster_resources()
            self.cores = max(1, int(resources.get("CPU", 1)))
            self.checked_at = seconds
        if self.workers is not None and self.workers < self.cores:
            return self.workers
        return 2 * self.cores


def _require_own(connection: ConnectionId | None) -> None:
    """Refuse a connection that another process has opened: this one would wait for ever."""
    if connection is not None and connection[-1] != os.getpid():
        raise ClusterError(
            "this process was forked from one that is connected to Ray, and cannot use Ray: start "
            "it in another way, such as multiprocessing.get_context('spawn')"
        )


def _chunk_task(function: Callable[..., Any], expected: dict[str, str]) -> Callable[..., Any]:
    """The function as a task of Ray. Nodes cache it; an argument would be unpickled each time."""

    def task(calls: Sequence[Sequence[Any]], *shared: Any) -> ChunkResult:
        with ray_nodes.annotated_errors():
            # it may have joined after the check
            ray_nodes.require_same(ray_nodes.versions(), expected, "this node")
            with one_blas_thread():
                return run_chunk(function, calls, shared)

    return task


class Actor:
    """An object that lives on a node, which must have the expected versions."""

    def __init__(self, expected: dict[str, str], make: Callable[..., Any], *arguments: Any) -> None:
        threadpool_limits(limits=1)
        self.expected = expected
        self.versions = ray_nodes.versions()
        self.value = make(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the object."""
        with ray_nodes.annotated_errors():
            # it may have joined after the check; an error in the constructor would lose its message
            ray_nodes.require_same(self.versions, self.expected, "this node")
            return getattr(self.value, method)(*arguments)

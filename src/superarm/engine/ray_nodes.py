"""Nodes of a Ray cluster: their addresses, their versions, and errors that come from them."""

import importlib.metadata
import os
import platform
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy

from superarm.engine.exception_transport import picklable_errors
from superarm.errors import ClusterError, ParameterError
from superarm.version import __version__

RETRIES = 5
"""Times that a call may lose its worker; on one machine, times that all workers may be lost before
one call is done."""
CONNECT_TIMEOUT = 5.0
"""Seconds to wait for an address to answer."""
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first bytes of a client in HTTP/2: these words, and a frame of no settings."""
VERSIONS_TIMEOUT = 120.0
"""Seconds to wait for the versions of all nodes."""
RECOVERY_SECONDS = 12.0
"""Seconds per retry to wait for an actor of a lost node: Ray needs some 15 to notice, and then
makes it again elsewhere."""
POLL_SECONDS = 1.0
"""Seconds between two calls of an actor that cannot be reached."""
NOT_IMPORTED = "The remote function failed to import on the worker"
"""Message of an error of Ray's own that is not a `RayError`."""


def versions(device: str | None = None) -> dict[str, str]:
    """The versions of superarm and of the packages that its numbers depend on."""
    packages = {
        "superarm": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": importlib.metadata.version("numba"),
        "python": platform.python_version(),
    }
    if device is not None:
        packages["torch"] = importlib.metadata.version("torch")
    return packages


@contextmanager
def annotated_errors() -> Iterator[None]:
    """On a node: raise errors with a note that names the node and the process."""
    with picklable_errors():
        try:
            yield
        except (Exception, SystemExit) as error:
            from ray.util import get_node_ip_address

            where = f"{get_node_ip_address()} ({platform.node()})"
            error.add_note(f"on node {where} of the Ray cluster, in process {os.getpid()}")
            raise


def import_ray() -> Any:
    """The package ray, imported; a ClusterError if it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise ClusterError(
            "work on a cluster needs Ray: pip install 'superarm[cluster]'"
        ) from error
    return ray


def require_reachable(address: str) -> None:
    """Refuse an address where nothing answers: Ray would try for minutes."""
    if address == "auto":  # the cluster that this machine is a node of
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise ParameterError(
            f"cluster must be 'ray', 'auto' or an address such as '10.0.0.1:6379', got {address!r}"
        )
    try:
        connection = socket.create_connection((_without_brackets(host), int(port)), CONNECT_TIMEOUT)
    except (OSError, OverflowError, UnicodeError) as error:  # the last for what cannot be a name
        raise ClusterError(
            f"nothing answers at {address} ({error}): is Ray started there, with "
            "`ray start --head --port=...`, and may this machine reach it?"
        ) from error
    with connection:
        if not _speaks_grpc(connection):
            raise ClusterError(
                f"what answers at {address} is not Ray: give the port of `ray start --head`"
            )


def _speaks_grpc(connection: socket.socket) -> bool:
    """True if the other side speaks HTTP/2, as Ray does: it begins with its settings."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":  # then it waits for a certificate
        return True
    try:
        connection.sendall(HTTP2_PREFACE)
        answer = connection.recv(9)
    except OSError:
        return False
    return answer[3:4] == b"\x04"


def resolve_address(address: str, here: str) -> tuple[str, str]:
    """The IP address and the port; the loopback's address is that of this machine, `here`."""
    host, _, port = address.rpartition(":")
    host = _without_brackets(host)
    is_ipv6 = ":" in host
    ip = host if is_ipv6 else socket.gethostbyname(host)
    if ip == "::1" or ip.startswith("127."):
        ip = here
    return ip, port


def _without_brackets(host: str) -> str:
    """A host without the brackets around an IPv6 address."""
    return host.removeprefix("[").removesuffix("]")


def node_versions(ray: Any) -> dict[str, dict[str, str]]:
    """The versions on each node by its address; refused if one differs from this machine."""
    nodes = _request_versions(ray)
    ready, late = ray.wait(list(nodes), num_returns=len(nodes), timeout=VERSIONS_TIMEOUT)
    if late:
        raise ClusterError(f"node {_node_name(nodes[late[0]])} of the Ray cluster does not answer")
    by_name = {}
    for reference in ready:
        node = nodes[reference]
        name = _node_name(node)
        try:
            by_name[name] = fetch(ray, reference)
        except ClusterError as error:
            if _is_alive(ray, node):
                raise ClusterError(f"node {name} of the Ray cluster fails: {error}") from error
            continue  # Ray did not know yet that it was lost
        require_same(by_name[name], versions(), f"node {name}")
    return by_name


def _request_versions(ray: Any) -> dict[Any, dict[str, Any]]:
    """Each living node, by a reference to its versions."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=RETRIES)(_version_task())
    nodes = {}
    for node in ray.nodes():
        if node["Alive"]:
            strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            reference = task.options(scheduling_strategy=strategy).remote()
            nodes[reference] = node
    return nodes


def _node_name(node: dict[str, Any]) -> str:
    """The address and the name of a node."""
    return f"{node['NodeManagerAddress']} ({node['NodeManagerHostname']})"


def _is_alive(ray: Any, node: dict[str, Any]) -> bool:
    """True if Ray still lists a node as alive."""
    living = {other["NodeID"] for other in ray.nodes() if other["Alive"]}
    return node["NodeID"] in living


def _version_task() -> Callable[[], dict[str, str]]:
    """A function that returns the versions where it runs. It travels as code: a node without
    superarm could not import it.
    """

    def installed_versions() -> dict[str, str]:
        import importlib
        import importlib.metadata
        import platform

        packages = {"python": platform.python_version()}
        try:  # without importing it, which takes long
            packages["numba"] = importlib.metadata.version("numba")
        except ImportError as error:
            packages["numba"] = f"cannot be found: {error}"
        for name, module in (
            ("superarm", "superarm.version"),
            ("numpy", "numpy"),
            ("scipy", "scipy"),
        ):
            try:
                packages[name] = importlib.import_module(module).__version__
            except ImportError as error:
                packages[name] = f"cannot be imported: {error}"
        return packages

    return installed_versions


def require_same(actual: dict[str, str], expected: dict[str, str], node: str) -> None:
    """Refuse versions that differ from those of this machine."""
    for name, version in expected.items():
        if actual.get(name) != version:
            raise ClusterError(
                f"{node} has {name} {actual.get(name)} and this machine {version}: results would "
                "not be the same; install the same versions on all nodes"
            )


def fetch(ray: Any, references: Any) -> Any:
    """The values of references. An error in a call is raised as it was on its node, from one with
    the traceback there.
    """
    try:
        return ray.get(references)
    except ray.exceptions.RayTaskError as error:
        if _is_from_call(ray, error.cause):
            raise error.cause from error.with_traceback(None)
        _require_modules(error)
        raise ClusterError(str(error)) from error
    except ray.exceptions.RayError as error:
        _require_modules(error)
        raise ClusterError(
            f"the Ray cluster gave up on a piece of work, after {RETRIES} retries: {error}"
        ) from error


def _is_from_call(ray: Any, cause: Any) -> bool:
    """True if an error was raised by the call itself, not by Ray."""
    if isinstance(cause, ray.exceptions.RayError):
        return False
    is_error = isinstance(cause, Exception | SystemExit)
    return is_error and NOT_IMPORTED not in str(cause)


def _require_modules(error: Exception) -> None:
    """Raise an error that names the module, if Ray failed because a node lacks one."""
    missing = re.search(r"ModuleNotFoundError: No module named '([^']+)'", str(error))
    if missing:
        raise ClusterError(
            f"module {missing[1]!r} cannot be imported on a node of the Ray cluster: install it on "
            "all nodes, or give runtime_env to ray.init"
        ) from None


def unreachable_actors(ray: Any, references: Sequence[Any]) -> list[int]:
    """The indices of the references whose actors could not be reached."""
    indices = []
    for i, reference in enumerate(references):
        try:
            ray.get(reference)
        except ray.exceptions.ActorUnavailableError:
            indices.append(i)
        except (Exception, SystemExit):  # to be raised by `fetch`
            continue
    return indices

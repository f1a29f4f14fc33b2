"""What the nodes of a Ray cluster must have, how they are asked, and how their errors come back."""

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

from superarm.engine.exception_transport import for_another_process
from superarm.errors import ClusterError, ParameterError
from superarm.version import __version__

RETRIES = 5
"""How often a piece of work may lose its worker; on one machine, how often all workers may be lost
before one piece is done."""
PATIENCE = 5.0
"""Seconds to wait for an address to answer."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client begins in HTTP/2: with these words, and a frame of no settings."""
ANSWER = 120.0
"""Seconds to wait for all nodes to say what they have installed."""
LOST = 12.0
"""Seconds per retry to wait for what lived on a node that was lost: Ray needs some 15 to notice,
and then makes it again elsewhere."""
PAUSE = 1.0
"""Seconds between two questions to what cannot be reached."""
NOT_IMPORTED = "The remote function failed to import on the worker"
"""What Ray says in an error of its own that is not a `RayError`."""


def versions(device: str | None = None) -> dict[str, str]:
    """The versions of superarm and of what its numbers depend on."""
    found = {
        "superarm": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": importlib.metadata.version("numba"),
        "python": platform.python_version(),
    }
    if device is not None:
        found["torch"] = importlib.metadata.version("torch")
    return found


@contextmanager
def naming_the_node() -> Iterator[None]:
    """On a node: errors go back with a note that says where they come from."""
    with for_another_process():
        try:
            yield
        except (Exception, SystemExit) as error:
            from ray.util import get_node_ip_address

            where = f"{get_node_ip_address()} ({platform.node()})"
            error.add_note(f"on node {where} of the Ray cluster, in process {os.getpid()}")
            raise


def import_ray() -> Any:
    """Ray, if it is installed."""
    try:
        import ray
    except ImportError as error:
        raise ClusterError(
            "work on a cluster needs Ray: pip install 'superarm[cluster]'"
        ) from error
    return ray


def require_reachable(address: str) -> None:
    """Refuse an address that nothing answers at: Ray would try for minutes."""
    if address == "auto":  # the cluster that this machine is a node of
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise ParameterError(
            f"cluster must be 'ray', 'auto' or an address such as '10.0.0.1:6379', got {address!r}"
        )
    try:
        connection = socket.create_connection((_bare(host), int(port)), PATIENCE)
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
    """Whether the other side speaks HTTP/2, as Ray does: it begins with its settings."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":  # then it waits for a certificate
        return True
    try:
        connection.sendall(PREFACE)
        answer = connection.recv(9)
    except OSError:
        return False
    return answer[3:4] == b"\x04"


def resolved(address: str, here: str) -> tuple[str, str]:
    """The IP address and the port; the loopback's address is that of this machine, `here`."""
    host, _, port = address.rpartition(":")
    host = _bare(host)
    found = host if ":" in host else socket.gethostbyname(host)
    return here if found == "::1" or found.startswith("127.") else found, port


def _bare(host: str) -> str:
    """A host without the brackets that an IPv6 address has before a port."""
    return host.removeprefix("[").removesuffix("]")


def checked_nodes(ray: Any) -> dict[str, dict[str, str]]:
    """The versions on each node by its address; refused if one differs from this machine."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(num_cpus=0, max_retries=RETRIES)(_installed())
    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked[look.options(scheduling_strategy=here).remote()] = node
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER)
    if silent:
        raise ClusterError(f"node {_named(asked[silent[0]])} of the Ray cluster does not answer")
    found = {}
    for reference in answered:
        name = _named(asked[reference])
        try:
            found[name] = fetched(ray, reference)
        except ClusterError as error:
            if _is_alive(ray, asked[reference]):
                raise ClusterError(f"node {name} of the Ray cluster fails: {error}") from error
            continue  # Ray did not know yet that it was lost
        require_same(found[name], versions(), f"node {name}")
    return found


def _named(node: dict[str, Any]) -> str:
    """The address and the name of a node."""
    return f"{node['NodeManagerAddress']} ({node['NodeManagerHostname']})"


def _is_alive(ray: Any, node: dict[str, Any]) -> bool:
    """Whether a node is alive by now."""
    return any(each["NodeID"] == node["NodeID"] and each["Alive"] for each in ray.nodes())


def _installed() -> Callable[[], dict[str, str]]:
    """A function that says what is installed where it runs. It travels as code: a node without
    superarm could not import it.
    """

    def installed() -> dict[str, str]:
        import importlib
        import importlib.metadata
        import platform

        found = {"python": platform.python_version()}
        try:  # without importing it, which takes long
            found["numba"] = importlib.metadata.version("numba")
        except ImportError as error:
            found["numba"] = f"cannot be found: {error}"
        for name, module in (
            ("superarm", "superarm.version"),
            ("numpy", "numpy"),
            ("scipy", "scipy"),
        ):
            try:
                found[name] = importlib.import_module(module).__version__
            except ImportError as error:
                found[name] = f"cannot be imported: {error}"
        return found

    return installed


def require_same(found: dict[str, str], expected: dict[str, str], where: str) -> None:
    """Refuse versions that differ from those of this machine."""
    for name, version in expected.items():
        if found.get(name) != version:
            raise ClusterError(
                f"{where} has {name} {found.get(name)} and this machine {version}: results would "
                "not be the same; install the same versions on all nodes"
            )


def fetched(ray: Any, references: Any) -> Any:
    """What references stand for. An error in a piece of work is raised as it was on its node, from
    one that tells in which lines there.
    """
    try:
        return ray.get(references)
    except ray.exceptions.RayTaskError as error:
        if _is_users(ray, error.cause):
            raise error.cause from error.with_traceback(None)
        _require_modules(error)
        raise ClusterError(str(error)) from error
    except ray.exceptions.RayError as error:
        _require_modules(error)
        raise ClusterError(
            f"the Ray cluster gave up on a piece of work, after {RETRIES} retries: {error}"
        ) from error


def _is_users(ray: Any, cause: Any) -> bool:
    """Whether an error was raised by the piece of work itself, not by Ray."""
    if isinstance(cause, ray.exceptions.RayError):
        return False
    return isinstance(cause, Exception | SystemExit) and NOT_IMPORTED not in str(cause)


def _require_modules(error: Exception) -> None:
    """Say it plainly if Ray failed because a node lacks a module."""
    lacking = re.search(r"ModuleNotFoundError: No module named '([^']+)'", str(error))
    if lacking:
        raise ClusterError(
            f"module {lacking[1]!r} cannot be imported on a node of the Ray cluster: install it on "
            "all nodes, or give runtime_env to ray.init"
        ) from None


def unreachable(ray: Any, references: Sequence[Any]) -> list[int]:
    """The places of the references whose actors could not be reached."""
    found = []
    for i, reference in enumerate(references):
        try:
            ray.get(reference)
        except ray.exceptions.ActorUnavailableError:
            found.append(i)
        except (Exception, SystemExit):  # to be raised by `fetched`
            continue
    return found

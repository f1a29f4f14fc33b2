"""Threads that share an agent over shards, or a population: their calls wait for each other."""

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Lock:
    """Lets one thread in at a time, which may enter again. A copy is a lock of its own.

    >>> import copy
    >>> from superarm.cluster.locks import Lock
    >>> lock = Lock()
    >>> with lock, lock, copy.deepcopy(lock):
    ...     print("in")
    in
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()


class Locked(Protocol):
    """What has a lock."""

    _lock: Lock


Owner = TypeVar("Owner", bound=Locked)


def one_at_a_time(
    method: Callable[Concatenate[Owner, Given], Found],
) -> Callable[Concatenate[Owner, Given], Found]:
    """The method, with the lock of its object held."""

    @functools.wraps(method)
    def alone(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone

"""What keeps the changes of an agent over shards, or of a population, whole: calls of several
threads wait for each other, and Ctrl-C waits for what must not end halfway.
"""

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")

MADE = "the change of this call was made before the interrupt: do not repeat the call"


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


# --- Ctrl-C ---------------------------------------------------------------------------------------


@contextmanager
def after_the_change() -> Iterator[None]:
    """What a call does once its change is made: a KeyboardInterrupt says so in a note."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note(MADE)
        raise


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Lets Ctrl-C wait until all of a change is made, in the main thread, which alone hears it.

    >>> import signal
    >>> from superarm.cluster.locks import held_interrupts
    >>> try:
    ...     with held_interrupts():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("made")
    ... except KeyboardInterrupt as error:
    ...     print(*error.__notes__)
    made
    the change of this call was made before the interrupt: do not repeat the call
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and callable(before)):
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda *given: came.append(given))
    made = False
    try:
        yield
        made = True
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            with after_the_change() if made else nullcontext():
                before(*came[0])

"""What keeps the changes of an agent over shards, or of a population, whole: calls of several
threads wait for each other, and Ctrl-C waits for what must not end halfway.
"""

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")

MADE = "the change of this call was made before the interrupt: do not repeat the call"


class Lock:
    """Lets one thread in at a time, which may enter again. A copy is a lock of its own.

    >>> import copy
    >>> from superarm.cluster.locks import Lock
    >>> lock = Lock()
    >>> with lock.held, lock.held, copy.deepcopy(lock).held:
    ...     print("in")
    in
    """

    def __init__(self) -> None:
        # for `with` itself, as Ctrl-C could end an `__exit__` in Python before it lets go
        self.held = threading.RLock()

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
        with self._lock.held:
            return method(self, *args, **kwargs)

    return alone


# --- Ctrl-C ---------------------------------------------------------------------------------------


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Lets Ctrl-C wait until all of this is done, in the main thread, which alone hears it.

    >>> import signal
    >>> from superarm.cluster.locks import held_interrupts
    >>> try:
    ...     with held_interrupts():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("done")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    done
    interrupted
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and callable(before)):
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda *given: came.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


class Counting(Protocol):
    """What counts the changes that were made."""

    made: int


class Changing(Locked, Protocol):
    """What changes, and has a lock."""

    @property
    def _shards(self) -> Counting: ...


Changed = TypeVar("Changed", bound=Changing)


def one_change_at_a_time(
    method: Callable[Concatenate[Changed, Given], Found],
) -> Callable[Concatenate[Changed, Given], Found]:
    """The method, with the lock of its object held. If Ctrl-C comes when the change is made, the
    KeyboardInterrupt says so in a note.
    """

    @functools.wraps(method)
    def alone(self: Changed, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        is_made = False
        try:
            with self._lock.held:
                before = self._shards.made
                try:
                    return method(self, *args, **kwargs)
                finally:
                    is_made = self._shards.made > before
        except KeyboardInterrupt as error:
            if is_made:
                error.add_note(MADE)
            raise

    return alone

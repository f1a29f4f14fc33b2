"""BLAS on one thread, where pieces of work are so small that threads would wait for each other."""

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside: list[Any] = []  # what ends the limit, once for each that is inside


@functools.lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """The thread pools of the process. To find them takes a millisecond, so it is done again only
    where more modules were imported, which may have brought others.
    """
    return ThreadpoolController()


def _limited() -> Any:
    pools = _pools(len(sys.modules))
    return pools.limit(limits=1, user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS work on one thread, for all threads of the process, until the last of those that
    want it has left.

    Example:
        >>> import numpy as np
        >>> with one_blas_thread():
        ...     np.eye(2) @ np.ones(2)
        array([1., 1.])
    """
    with _lock:
        limit = _inside[0] if _inside else _limited()
        _inside.append(limit)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                limit.restore_original_limits()

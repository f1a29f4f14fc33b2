"""Kernels that Numba compiles on first use. Importing Numba takes longer than importing all of
superarm, so it waits until then.
"""

import functools
import threading
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

prange = range
"""In a kernel: Numba's parallel range."""

MANY = 2**18
"""Numbers from which it is worth to wait for all cores: where other processes keep these busy, that
takes longer than a pass over fewer numbers."""

# Numba's fallback threading layer must not be entered by two threads at once
_one_parallel_call = threading.Lock()


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function, compiled without the GIL on its first call and cached on disk for the next
    process.

    It may call other compiled functions by their names. If it loops with `prange` over the rows of
    its first argument, and these hold `MANY` numbers, it runs on all cores.
    """
    assert isinstance(function, types.FunctionType)
    scope = function.__globals__
    code = function.__code__

    @functools.cache
    def kernel(parallel: bool = False) -> Callable[..., Any]:
        import numba

        inner = {
            name: scope[name].kernel()
            for name in code.co_names
            if hasattr(scope.get(name), "kernel")
        }
        source = types.FunctionType(code, scope | inner | {"prange": numba.prange})
        # Numba's cache tells functions apart by their name, not by how they were compiled
        suffix = "_parallel" if parallel else ""
        source.__qualname__ = function.__qualname__ + suffix
        compile_ = functools.partial(numba.njit, nogil=True, parallel=parallel)
        try:
            jitted: Callable[..., Any] = compile_(cache=True)(source)
        except RuntimeError:  # no folder to cache in can be written
            jitted = compile_()(source)
        return jitted

    by_rows = "prange" in code.co_names

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # the first argument of a kernel with prange is an array, which ParamSpec cannot say
        if by_rows and len(args[0]) > 1 and args[0].size >= MANY:  # type: ignore
            with _one_parallel_call:
                result: T = kernel(parallel=True)(*args, **kwargs)
        else:
            result = kernel()(*args, **kwargs)
        return result

    # functions take attributes, which their type does not know
    call.kernel = kernel  # type: ignore[attr-defined]
    return call

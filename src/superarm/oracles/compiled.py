"""Kernels compiled by numba on first use. Importing numba takes longer than all of superarm, so only then."""

import functools
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function, compiled without the GIL on its first call and cached on disk for the next process.

    It may call other compiled functions of its module.
    """

    @functools.cache
    def kernel() -> Callable[..., Any]:
        import numba

        assert isinstance(function, types.FunctionType)
        scope, code = function.__globals__, function.__code__
        inner = {name: scope[name].kernel() for name in code.co_names if hasattr(scope.get(name), "kernel")}
        unwrapped = types.FunctionType(code, scope | inner, function.__name__)
        jitted: Callable[..., Any] = numba.njit(cache=True, nogil=True)(unwrapped)
        return jitted

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        result: T = kernel()(*args, **kwargs)
        return result

    call.kernel = kernel  # type: ignore[attr-defined]
    return call

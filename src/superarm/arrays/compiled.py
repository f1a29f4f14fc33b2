"""Kernels that Numba compiles on first use, and BLAS on one thread. Importing Numba takes longer
than importing all of superarm, so it waits until then.
"""

import contextlib
import contextvars
import functools
import gc
import logging
import secrets
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")

prange = range
"""In a kernel: Numba's parallel range."""

ENOUGH_FOR_ALL_CORES = 2**18
"""Entries of a kernel's first argument from which on it runs on all cores. Fewer take about a
millisecond on one; on all they take half of it, but 20 ms where another process is busy."""

SLOW = 2.0
"""Seconds of compiling after which a message says what takes so long."""

# Numba's fallback threading layer must not be entered by two threads at once
_one_parallel_call = threading.Lock()
# threads that need the same kernel must not compile one each; it may need others
_one_compilation = threading.RLock()
_expected = contextvars.ContextVar("expected", default="no")


@functools.cache
def _numba() -> Any:
    """Numba, told to number the functions it compiles as no other process does.

    Compiled code is named by its function and that number, which Numba counts from 1 in each
    process. So codes that two processes had put into the cache could have one name, and a third
    that loads both ran one in place of the other: sorting where an order was asked for, which hung.
    """
    import numba
    from numba.core.bytecode import FunctionIdentity

    identities: Any = FunctionIdentity
    identities._unique_ids = iter(functools.partial(secrets.randbits, 64), None)
    return numba


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function, compiled without the GIL on its first call and cached on disk for the next
    process.

    It may call other compiled functions by their names. If it loops with `prange` over the rows of
    its first argument, and these are large enough together, it runs on all cores.
    """
    return cast(Callable[P, T], Kernel(function, fastmath=False))


def compiled_fastmath(function: Callable[P, T]) -> Callable[P, T]:
    """Like `compiled`, but allows reassociation and fused multiply-add, so results differ in the
    last digits between machines. Kernels of this kind that it calls are inlined.
    """
    return cast(Callable[P, T], Kernel(function, fastmath=True))


BITCODE_VERSIONS = ("0.68.",)
"""Versions of Numba with which `arrays.bitcode` was tested; with others, parts of kernels are
compiled as Numba does, which takes longer.
"""


class Kernel:
    """A function compiled on its first call: once for one core and, if it loops with `prange`, once
    for all.
    """

    def __init__(self, function: Callable[..., Any], *, fastmath: bool) -> None:
        assert isinstance(function, types.FunctionType)
        functools.update_wrapper(self, function)
        self._function = function
        self._fastmath = fastmath
        self._is_parallel = "prange" in function.__code__.co_names
        self._on_one_core: Callable[..., Any] = self._first_call
        self._on_all_cores: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """The function's result, on all cores where that pays."""
        if self._is_parallel and self._runs_on_all_cores(args):
            return self._call_on_all_cores(args)
        return self._on_one_core(*args)

    def _first_call(self, *args: Any) -> Any:
        """The function's result on one core; later calls find it compiled."""
        self._on_one_core = self._prepare(args, parallel=False)
        return self._on_one_core(*args)

    def _runs_on_all_cores(self, args: tuple[Any, ...]) -> bool:
        if _expected.get() == "all":
            self._on_all_cores = self._prepare(args, parallel=True)
        return _worth_all_cores(args[0])

    def _call_on_all_cores(self, args: tuple[Any, ...]) -> Any:
        if self._on_all_cores is None:
            self._on_all_cores = self._prepare(args, parallel=True)
        with _one_parallel_call:
            return self._on_all_cores(*args)

    def _prepare(self, args: tuple[Any, ...], *, parallel: bool) -> Callable[..., Any]:
        """The kernel, compiled for arguments like these."""
        jitted = self.kernel(parallel)
        _compile(jitted, args)
        return jitted

    def kernel(self, parallel: bool = False) -> Callable[..., Any]:
        """Numba's dispatcher of the function."""
        with _one_compilation:
            return self._jitted(parallel, is_part=False)

    def part(self) -> Callable[..., Any]:
        """The kernel as others contain it: neither called from Python nor cached by itself."""
        with _one_compilation:
            return self._jitted(False, is_part=True)

    @functools.cache  # noqa: B019  kernels live as long as their modules
    def _jitted(self, parallel: bool, *, is_part: bool) -> Callable[..., Any]:
        numba = _numba()
        compile_ = functools.partial(
            numba.njit,
            nogil=True,
            parallel=parallel,
            fastmath={"reassoc", "contract"} if self._fastmath else set(),
            error_model="numpy" if self._fastmath else "python",
            forceinline=is_part and self._fastmath,
            no_cpython_wrapper=is_part,
            no_cfunc_wrapper=True,
        )
        if is_part and numba.__version__.startswith(BITCODE_VERSIONS):
            from superarm.arrays.bitcode import BitcodeCompiler

            compile_ = functools.partial(compile_, pipeline_class=BitcodeCompiler)
        source = self._source(parallel)
        try:
            jitted: Callable[..., Any] = compile_(cache=not is_part)(source)
        except RuntimeError:  # no folder to cache in can be written
            jitted = compile_()(source)
        _unliteral_signatures(jitted)
        return jitted

    def _source(self, parallel: bool) -> types.FunctionType:
        """The function with the kernels that it calls as its globals."""
        scope = self._function.__globals__
        code = self._function.__code__
        parts = {
            name: scope[name].part()
            for name in code.co_names
            if isinstance(scope.get(name), Kernel)
        }
        source = types.FunctionType(code, scope | parts | {"prange": _numba().prange})
        # Numba's cache tells functions apart by their name, not by how they were compiled
        suffix = "_parallel" if parallel else ""
        source.__qualname__ = self._function.__qualname__ + suffix
        return source


def for_kernels(x: Any) -> Any:
    """An array as kernels take it, contiguous and writable, or else a copy that is: Numba would
    compile them again for other kinds.

    >>> import numpy as np
    >>> from superarm.arrays.compiled import for_kernels
    >>> for_kernels(np.broadcast_to(1.0, 3)).flags.writeable
    True
    """
    x = np.ascontiguousarray(x)
    return x if x.flags.writeable else x.copy()


def _unliteral_signatures(jitted: Any) -> None:
    """Let a kernel be called with a constant by others as with any number: Numba would compile it,
    and all that it calls, once for each constant.
    """
    if not hasattr(jitted, "get_call_template"):  # where NUMBA_DISABLE_JIT leaves functions
        return
    unliteral = _numba().types.unliteral
    template = jitted.get_call_template
    jitted.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)


def _worth_all_cores(rows: Any) -> bool:
    """True if an array is worth the work of all cores, where there are several to use."""
    if len(rows) < 2 or rows.size < ENOUGH_FOR_ALL_CORES:
        return False
    return bool(_numba().config.NUMBA_NUM_THREADS > 1)


def _compile(jitted: Any, args: tuple[Any, ...]) -> None:
    """Compile a kernel for arguments like these unless it has been compiled, or load it from the
    cache.
    """
    if getattr(jitted, "overloads", True):  # without it where NUMBA_DISABLE_JIT leaves functions
        return
    kinds = tuple(map(jitted.typeof_pyval, args))
    with _logging_if_slow(), _without_garbage_collection():
        jitted.compile(kinds)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Collect no garbage: while compiling, which leaves little of it, searches for it take a tenth
    of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def expect_compilation(*, everything: bool = False) -> Iterator[None]:
    """Within, compiling is expected and no message says so. With `everything`, kernels that may run
    on all cores are compiled for one core and for all.
    """
    token = _expected.set("all" if everything else "some")
    try:
        yield
    finally:
        _expected.reset(token)


@contextlib.contextmanager
def _logging_if_slow() -> Iterator[None]:
    """Say after two seconds that something is being compiled, while it is."""
    if _expected.get() != "no":
        yield
        return
    timer = threading.Timer(SLOW, _log_compilation)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@functools.cache  # once in a process
def _log_compilation() -> None:
    # a log record: a warning would be an error where warnings are, and the call goes well
    logging.getLogger("superarm").warning(
        "superarm compiles what the first call needs, which takes some seconds; later processes "
        "load it from Numba's cache. superarm.warm_up(oracle, learner), or the command superarm "
        "compile, does it ahead."
    )


# --- threads of BLAS ----------------------------------------------------------------------------

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


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for all threads of the process, until the last `with` block ends.

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

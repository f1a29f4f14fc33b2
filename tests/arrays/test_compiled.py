import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from superarm.arrays.compiled import (
    ENOUGH_FOR_ALL_CORES,
    compiled,
    expect_compilation,
    for_kernels,
    one_blas_thread,
    prange,
)


@compiled
def double(x: int) -> int:
    return 2 * x


@compiled
def double_and_one(x: int) -> int:
    return double(x) + 1


def test_a_kernel_may_call_another():
    assert double_and_one(20) == 41
    assert double_and_one.__name__ == "double_and_one"


@compiled
def shifted(x: int, by: int) -> int:
    return x + by


@compiled
def shifted_twice(x: int) -> int:
    left = 0
    for _ in range(2):
        left = shifted(left, -1)
    return shifted(x, 5) + left


def test_parts_have_no_machine_code_of_their_own():
    import numba

    part = double.part()
    part.compile((numba.int64,))
    (overload,) = part.overloads.values()
    assert overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name) == 0


def test_garbage_is_collected_again_after_compiling():
    import gc

    @compiled
    def triple(x: int) -> int:
        return 3 * x

    assert triple(4) == 12
    assert gc.isenabled()


def test_a_kernel_is_compiled_once_for_all_constants():
    from numba import int64

    assert shifted_twice(10) == 13
    shifted_twice.part().compile((int64,))  # what is called above may come from the cache
    assert len(shifted.part().overloads) == 1


@pytest.mark.parametrize("rows", [np.ones((3, 4)).T, np.broadcast_to(1.0, (4, 3))])
def test_kernels_get_arrays_of_one_kind(rows):
    given = for_kernels(rows)
    assert given.flags.c_contiguous and given.flags.writeable
    np.testing.assert_array_equal(given, rows)
    assert for_kernels(given) is given


@compiled
def row_sums(rows):
    n = len(rows)
    sums = np.empty(n)
    for i in prange(n):
        sums[i] = rows[i].sum()
    return sums


def test_only_large_batches_run_on_all_cores():
    """Where other processes keep a core busy, all cores took 20 ms for 4 x 20 numbers."""
    few = np.ones((4, 20))
    assert row_sums(few).tolist() == [20.0] * 4
    one_row = np.ones((1, ENOUGH_FOR_ALL_CORES))
    assert row_sums(one_row).tolist() == [ENOUGH_FOR_ALL_CORES]
    on_all_cores = row_sums.kernel(parallel=True)
    assert not on_all_cores.overloads
    many = np.ones((2, ENOUGH_FOR_ALL_CORES // 2))
    assert row_sums(many).tolist() == [ENOUGH_FOR_ALL_CORES / 2] * 2
    assert on_all_cores.overloads


def test_kernels_compile_where_nothing_can_be_cached(monkeypatch):
    import numba

    njit = numba.njit

    def no_cache(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **options)

    monkeypatch.setattr(numba, "njit", no_cache)

    @compiled
    def triple(x: int) -> int:
        return 3 * x

    assert triple(4) == 12


def test_importing_superarm_imports_neither_numba_nor_matplotlib():
    heavy = ("numba", "matplotlib", "scipy.optimize")
    code = f"import sys, superarm; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ahead_everything_is_compiled_for_all_cores_too():
    @compiled
    def doubled(rows: np.ndarray) -> np.ndarray:
        twice = np.empty(len(rows))
        for b in prange(len(rows)):
            twice[b] = 2.0 * rows[b, 0]
        return twice

    rows = np.ones((3, 1))
    doubled(rows)
    assert not doubled.kernel(parallel=True).overloads
    with expect_compilation(everything=True):
        assert doubled(rows).tolist() == [2.0, 2.0, 2.0]
    assert doubled.kernel(parallel=True).overloads


def test_threads_that_need_a_kernel_share_it():
    @compiled
    def triple(x: int) -> int:
        return 3 * x

    with ThreadPoolExecutor(4) as pool:
        kernels = list(pool.map(lambda _: triple.kernel(), range(8)))
        assert list(pool.map(triple, range(8))) == list(range(0, 24, 3))
    assert len({id(kernel) for kernel in kernels}) == 1


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_until_the_last_has_left():
    before = threads()
    entered = threading.Event()
    leave = threading.Event()

    def stay():
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=stay)
    with one_blas_thread():
        other.start()
        entered.wait(10)
        assert set(threads()) == {1}
    assert set(threads()) == {1}  # the other is still inside
    leave.set()
    other.join()
    assert threads() == before


def test_what_raises_leaves_too():
    before = threads()
    try:
        with one_blas_thread():
            raise ValueError("no")
    except ValueError:
        pass
    assert threads() == before

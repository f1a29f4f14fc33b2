import subprocess
import sys

import numpy as np

from superarm.arrays.compiled import ENOUGH_FOR_ALL_CORES, compiled, prange


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
    variants = row_sums.kernel.cache_info
    assert variants().currsize == 1
    many = np.ones((2, ENOUGH_FOR_ALL_CORES // 2))
    assert row_sums(many).tolist() == [ENOUGH_FOR_ALL_CORES / 2] * 2
    assert variants().currsize == 2


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

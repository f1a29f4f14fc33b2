import subprocess
import sys

from superarm.arrays.compiled import compiled


@compiled
def double(x: int) -> int:
    return 2 * x


@compiled
def double_and_one(x: int) -> int:
    return double(x) + 1


def test_a_kernel_may_call_another():
    assert double_and_one(20) == 41
    assert double_and_one.__name__ == "double_and_one"


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

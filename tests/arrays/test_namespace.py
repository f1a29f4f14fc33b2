import numpy as np
import pytest

from superarm.arrays import matvec
from superarm.arrays.namespace import MANY, batched_matvec, is_worth_kernel


def many(d, dtype=np.float64):
    rng = np.random.default_rng(d)
    L = 50
    n = -(-MANY // (L * d))
    M = rng.standard_normal((n, L, d)).astype(dtype)
    return M, rng.standard_normal((n, d))


@pytest.mark.parametrize("d", [1, 7, 20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_matrix_times_its_vector(d, dtype):
    M, v = many(d, dtype)
    exact = (M.astype(np.longdouble) * v.astype(dtype)[:, None]).sum(-1)
    assert is_worth_kernel(M, v)
    found = matvec(M, v)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, rtol=0, atol=100 * np.finfo(dtype).eps)


def test_other_layouts_and_shapes_are_not_its_own():
    M, v = many(20)
    expected = batched_matvec(M, v)
    in_fortran_order = np.asfortranarray(M)
    assert not is_worth_kernel(in_fortran_order, v)
    assert not is_worth_kernel(M[:1], v[:1])
    assert not is_worth_kernel(M, v[0])
    np.testing.assert_allclose(matvec(in_fortran_order, v), expected, atol=1e-13)
    np.testing.assert_array_equal(matvec(M, np.asfortranarray(v)), expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(bad):
    M, v = many(20)
    M[3, 4, 5] = bad
    v[3, 5] = 0.0
    shown = ~np.isfinite(matvec(M, v))
    assert np.argwhere(shown).tolist() == [[3, 4]]

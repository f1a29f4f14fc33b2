"""What is written once on the array-API standard gives the same numbers for every kind of array."""

import importlib

import numpy as np
import pytest

from superarm import arrays
from superarm.arrays import matvec
from superarm.arrays.namespace import (
    KERNEL_MIN_NUMBERS,
    backend,
    batched_matvec,
    is_worth_kernel,
)

RNG = np.random.default_rng(0)


def upper(*batch, d=5):
    return np.triu(RNG.standard_normal((*batch, d, d)), 1) + 3 * np.eye(d)


def with_gap(x, value):
    y = x.copy()
    y.flat[x.size // 2] = value
    return y


ROWS = RNG.standard_normal((2, 3, 6, 4))
SINGLE = ROWS.astype(np.float32)
WEIGHTS = RNG.standard_normal((2, 3, 6))
NONE = np.zeros((2, 0))
STEEP = np.array([1.0, 2.0])[:, None, None] * np.diag([1.0, 4.0, 9.0])
CASES = [
    ("as_float64", (SINGLE,)),
    ("as_float64", (np.arange(3),)),
    ("all_finite", (ROWS,)),
    ("all_finite", (NONE,)),
    ("all_finite", (np.arange(3),)),
    *(("all_finite", (with_gap(ROWS, x),)) for x in (np.nan, np.inf, -np.inf)),
    ("below_infinity", (NONE,)),
    *(("below_infinity", (with_gap(ROWS, x),)) for x in (0.0, np.nan, np.inf, -np.inf)),
    ("log", (abs(ROWS),)),
    ("log", (abs(SINGLE),)),
    ("matvec", (ROWS, ROWS[..., 0, :])),
    ("matvec", (SINGLE, ROWS[..., 0, :])),
    ("nonzero_rows", (ROWS * (WEIGHTS > 0)[..., None],)),
    ("is_ill_conditioned", (STEEP, 8.9)),
    ("is_ill_conditioned", (STEEP, 9.0)),
    ("log_det", (upper(2, 3),)),
]
ON_BACKENDS = [
    ("take", (WEIGHTS, np.array([[[0, 5, -1]] * 3] * 2))),
    ("product_row_norms", (ROWS, ROWS[..., :2, :])),
    ("product_row_norms", (SINGLE, ROWS[..., :2, :])),
    ("posterior_row_norms", (upper(2, 3), ROWS)),
    ("posterior_row_norms", (upper(2, 3), SINGLE)),
    ("diagonal", (WEIGHTS,)),
    ("qr_downdate", (upper(2, 3), 0.1 * upper(2, 3))),
]


def as_numpy(x):
    return x.numpy() if arrays.is_tensor(x) else np.asarray(x)


def assert_same_numbers(name, arguments, kind):
    """The same dtype and shape, and the same numbers to 1e-12 (1e-6 in float32)."""
    converted = [kind(x) if isinstance(x, np.ndarray) else x for x in arguments]
    function = getattr(arrays, name)
    found = function(*converted)
    expected = function(*arguments)
    if isinstance(expected, bool | float):
        assert type(found) is type(expected)
    else:
        assert type(found) is type(converted[0])
    found, expected = as_numpy(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    rounding = 1e-6 if expected.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=[name for name, _ in CASES])
def test_the_standards_strictest_arrays_give_numpys_numbers(name, arguments):
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    assert_same_numbers(name, arguments, strict.asarray)


@pytest.mark.parametrize(
    ("name", "arguments"),
    CASES + ON_BACKENDS,
    ids=[name for name, _ in CASES + ON_BACKENDS],
)
def test_tensors_give_numpys_numbers(name, arguments):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    assert_same_numbers(name, arguments, torch.tensor)


def test_backends_reduce_as_the_standard_says():
    """Over all axes unless told otherwise, which NumPy's ufuncs alone would not."""
    x = np.arange(6.0).reshape(2, 3)
    kinds = [np.asarray]
    for module, make in (("array_api_strict", "asarray"), ("torch", "tensor")):
        if importlib.util.find_spec(module):
            kinds.append(getattr(importlib.import_module(module), make))
    for kind in kinds:
        y = kind(x)
        xp = backend(y)
        assert (float(xp.max(y)), float(xp.min(y))) == (5.0, 0.0)
        assert (bool(xp.all(y < 3)), bool(xp.any(y < 3))) == (False, True)
        np.testing.assert_array_equal(as_numpy(xp.max(y, axis=-1)), [2.0, 5.0])
        np.testing.assert_array_equal(as_numpy(xp.any(y > 4, axis=0)), [False, False, True])


def test_integer_features_keep_the_fractions_of_theta():
    theta = np.array([0.25, -0.5, 0.75])
    for dtype in (int, bool, np.float64):
        np.testing.assert_array_equal(arrays.matvec(np.eye(3, dtype=dtype), theta), theta)
    assert arrays.matvec(np.eye(3, dtype=np.float32), theta).dtype == np.float32


def many(d, dtype=np.float64):
    rng = np.random.default_rng(d)
    L = 50
    n = -(-KERNEL_MIN_NUMBERS // (L * d))
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

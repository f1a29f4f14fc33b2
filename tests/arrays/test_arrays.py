"""What is written once on the array-API standard gives the same numbers for every kind of array."""

import importlib

import numpy as np
import pytest

from superarm import arrays
from superarm.arrays.types import namespace
from superarm.errors import NumericalError

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
    ("flatnonzero", (np.array([0.0, 2.0, 0.0, -1.0]),)),
    ("log", (abs(ROWS),)),
    ("log", (abs(SINGLE),)),
    ("matvec", (ROWS, ROWS[..., 0, :])),
    ("matvec", (SINGLE, ROWS[..., 0, :])),
    ("nonzero_rows", (ROWS * (WEIGHTS > 0)[..., None],)),
    ("fingerprint_probe", (ROWS,)),
    ("fingerprint_probe", (SINGLE * 0,)),
    ("is_ill_conditioned", (STEEP, 8.9)),
    ("is_ill_conditioned", (STEEP, 9.0)),
    ("log_det", (upper(2, 3),)),
]
ON_BACKENDS = [
    ("take", (WEIGHTS, np.array([[[0, 5, -1]] * 3] * 2))),
    ("probe", (ROWS, ROWS[..., 0, :])),
    ("probe", (SINGLE, ROWS[..., 0, :])),
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


def test_namespaces_reduce_as_the_standard_says():
    """Over all axes unless told otherwise, which NumPy's ufuncs alone would not."""
    x = np.arange(6.0).reshape(2, 3)
    kinds = [np.asarray]
    for module, make in (("array_api_strict", "asarray"), ("torch", "tensor")):
        if importlib.util.find_spec(module):
            kinds.append(getattr(importlib.import_module(module), make))
    for kind in kinds:
        y = kind(x)
        xp = namespace(y)
        assert (float(xp.max(y)), float(xp.min(y))) == (5.0, 0.0)
        assert (bool(xp.all(y < 3)), bool(xp.any(y < 3))) == (False, True)
        np.testing.assert_array_equal(as_numpy(xp.max(y, axis=-1)), [2.0, 5.0])
        np.testing.assert_array_equal(as_numpy(xp.any(y > 4, axis=0)), [False, False, True])


def test_integer_features_keep_the_fractions_of_theta():
    theta = np.array([0.25, -0.5, 0.75])
    for dtype in (int, bool, np.float64):
        np.testing.assert_array_equal(arrays.matvec(np.eye(3, dtype=dtype), theta), theta)
    assert arrays.matvec(np.eye(3, dtype=np.float32), theta).dtype == np.float32


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_shrinkage_is_what_rows_take_from_the_covariance(batch):
    rng = np.random.default_rng(1)
    factor, X = upper(*batch), rng.standard_normal((*batch, 3, 4))
    R = factor[..., :4, :4]
    U = arrays.covariance_downdate(factor, X)
    before = np.linalg.inv(R.mT @ R)
    after = np.linalg.inv(R.mT @ R + X.mT @ X)
    np.testing.assert_allclose(before - U.mT @ U, after, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_downdate_undoes_an_update(batch):
    factor, rows = upper(*batch), 0.3 * upper(*batch)
    updated = arrays.qr_stack(factor, rows)
    np.testing.assert_allclose(arrays.qr_downdate(updated, rows), factor, atol=1e-12)


def test_a_downdate_refuses_what_float64_cannot_hold():
    factor = np.diag([1.0, 1e200])
    with pytest.raises(NumericalError, match="beliefs are too large to merge"):
        arrays.qr_downdate(factor, 0.1 * np.eye(2))


def test_parts_of_the_features_are_put_together():
    """More rows than fit into a part."""
    Phi = np.random.default_rng(0).standard_normal((2, 9000, 40))
    direction = np.ones((2, 40))
    np.testing.assert_allclose(arrays.probe(Phi, direction), Phi.sum(-1), atol=1e-12)

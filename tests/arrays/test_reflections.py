"""Triangles of many rows beside LAPACK's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import arrays
from superarm.arrays.reflections import LANES, ROWS, WIDEST, new_block, reflect_rows
from superarm.errors import NumericalError


def made(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(n), rng.random(n) < 0.8


def triangle_of(rows):
    """LAPACK's, with positive diagonal."""
    R = np.zeros((rows.shape[1],) * 2)
    found = np.linalg.qr(rows, mode="r")
    R[: len(found)] = found
    return R * np.where(np.diagonal(R) < 0, -1.0, 1.0)[:, None]


def assert_same(found, expected):
    """Up to rounding, which columns that are nearly dependent amplify."""
    size = np.maximum(np.abs(expected).max(0), 1e-300)  # of each column
    amplified = np.linalg.cond(expected / size)
    assert (np.abs(found - expected) <= 1e-14 * amplified * size).all()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1, 2, LANES, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 5]),
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_rows_below_a_factor_make_the_triangle_of_both(n, d, each, seed):
    Phi, w, present = made(n, d, seed)
    rng = np.random.default_rng(seed)
    Phi *= 10.0 ** rng.integers(-4, 5, d)
    root = rng.uniform(0.1, 3.0, n) if each else 1.7
    start = triangle_of(rng.standard_normal((d + 3, d + 1)))
    rows = np.reshape(root, (-1, 1)) * np.column_stack([Phi, w])
    found = arrays.factor_of_rows(Phi, w, root, present, start)
    assert_same(found, triangle_of(np.vstack([start, rows[present]])))


def test_zero_columns_and_rows_that_are_all_missing_change_nothing():
    Phi, w, present = made(300, 4)
    Phi[:, 2] = 0.0
    found = arrays.factor_of_rows(Phi, w, 1.0, present)
    assert (found[:, 2] == 0.0).all()
    start = triangle_of(made(9, 5)[0])
    assert (arrays.factor_of_rows(Phi, w, 1.0, present & False, start) == start).all()


@pytest.mark.parametrize("size", [1e-200, 1e-150, 1e150, 1e200])
def test_numbers_whose_squares_leave_the_range_are_left_to_lapack(size):
    Phi, w, present = made(400, 3)
    Phi[:, 1] *= size
    taken = reflect_rows(-np.zeros((4, 4)), Phi, w, np.ones(1), present, new_block(4))
    assert not taken
    found = arrays.factor_of_rows(Phi, w, 1.0, present)
    unit = np.array([1.0, size, 1.0, 1.0])
    Phi[:, 1] /= size
    assert_same(found / unit, triangle_of(np.column_stack([Phi, w])[present]))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_what_is_not_finite_is_refused(value):
    Phi, w, present = made(400, 3)
    Phi[:, 1] = value
    with pytest.raises(NumericalError, match="not finite"):
        arrays.factor_of_rows(Phi, w, 1.0, present)


def test_more_columns_than_blocks_are_made_for():
    d = WIDEST + 1
    Phi, w, present = made(2 * d, d)
    found = arrays.factor_of_rows(Phi, w, 1.0, present)
    assert_same(found, triangle_of(np.column_stack([Phi, w])[present]))


def test_any_kind_of_rows_is_taken():
    Phi, w, present = made(5000, 20)
    Phi = Phi.astype(np.float32).astype(np.float64)
    expected = arrays.factor_of_rows(Phi, w, 1.0, present)
    locked = Phi.copy()
    locked.flags.writeable = False
    twice = np.repeat(Phi, 2, axis=0)[::2]
    for given_rows in (locked, Phi.astype(np.float32)):
        found = arrays.factor_of_rows(given_rows, w, 1.0, present)
        np.testing.assert_array_equal(found, expected)
    for given_rows in (np.asfortranarray(Phi), twice):
        assert_same(arrays.factor_of_rows(given_rows, w, 1.0, present), expected)

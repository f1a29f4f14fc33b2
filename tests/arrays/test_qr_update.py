"""Rows added to triangular factors, beside NumPy's triangles, LAPACK's and 80 digits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import arrays
from superarm.arrays.householder import LANES, MAX_COLUMNS, ROWS
from superarm.errors import FeaturesError, NumericalError


def triangle_of(rows):
    """NumPy's, with positive diagonal."""
    R = np.zeros((rows.shape[1],) * 2)
    found = np.linalg.qr(rows, mode="r")
    R[: len(found)] = found
    return R * np.where(np.diagonal(R) < 0, -1.0, 1.0)[:, None]


def assert_same(found, expected):
    """Up to rounding, which columns that are nearly dependent amplify."""
    size = np.maximum(np.abs(expected).max(0), 1e-300)  # of each column
    amplified = np.linalg.cond(expected / size)
    assert (np.abs(found - expected) <= 1e-14 * amplified * size).all()


def made(n, d, seed=0):
    """Rows of which a fifth are padding, and their weights."""
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((n, d))
    present = rng.random(n) < 0.8
    Phi[~present] = 0.0
    return Phi, rng.standard_normal(n), present


@settings(max_examples=60)
@given(
    st.sampled_from([1, 2, LANES, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 5]),
    st.integers(1, 12),
    st.sampled_from(["one", "one per row"]),
    st.sampled_from([0.0, 0.2]),
    st.integers(0, 2**32 - 1),
)
def test_rows_below_a_factor_make_the_triangle_of_both(n, d, scales, missing, seed):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-4, 5, d)
    present = rng.random(n) >= missing
    Phi[~present] = 0.0
    w = rng.standard_normal(n)
    noise = rng.uniform(0.1, 3.0, n) if scales == "one per row" else 1.7
    start = triangle_of(rng.standard_normal((d + 3, d + 1)))
    before = start.copy()
    rows = np.column_stack([Phi, w]) / np.reshape(noise, (-1, 1))
    found = arrays.qr_append(start, Phi, w, noise)
    assert_same(found.factor, triangle_of(np.vstack([start, rows[present]])))
    assert found.n_rows == present.sum()
    logs = np.log(np.broadcast_to(noise, n)[present])
    np.testing.assert_allclose(found.log_noise, logs.sum(), rtol=1e-13, atol=1e-13 * n)
    np.testing.assert_array_equal(start, before)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("K", [0, 1, 4, 40])
def test_stacked_rows_are_the_cholesky_factor_of_the_sum(batch, K):
    rng = np.random.default_rng(2)
    factor = np.triu(rng.standard_normal((*batch, 20, 20)), 1) + 3 * np.eye(20)
    rows = rng.standard_normal((*batch, K, 20))
    rows[rng.random((*batch, K)) < 0.3] = 0.0
    before = factor.copy()
    updated = arrays.qr_stack(factor, rows)
    gram = factor.mT @ factor + rows.mT @ rows
    np.testing.assert_allclose(updated, np.linalg.cholesky(gram).mT, atol=1e-11)
    np.testing.assert_array_equal(factor, before)


@pytest.mark.parametrize(("batch", "K", "d"), [((), 9000, 20), ((2,), 5000, 20), ((3,), 0, 4)])
def test_entries_of_a_batch_are_what_they_are_alone(batch, K, d):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((*batch, K, d))
    w = rng.standard_normal((*batch, K))
    noise = rng.uniform(0.5, 2.0, (*batch, K))
    start = np.broadcast_to(np.eye(d + 1), (*batch, d + 1, d + 1))
    found = arrays.qr_append(start, Phi, w, noise)
    for b in np.ndindex(batch):
        rows = np.column_stack([Phi[b], w[b]]) / noise[b][:, None]
        assert_same(found.factor[b], triangle_of(np.vstack([start[b], rows])))
        alone = arrays.qr_append(start[b], Phi[b], w[b], noise[b])
        for x, y in zip(alone, found, strict=True):
            np.testing.assert_array_equal(x, y[b])


def test_scales_of_a_batch_may_be_one_for_all_or_for_each():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((3, 5, 2))
    w = rng.standard_normal((3, 5))
    start = np.zeros((3, 3, 3))
    expected = arrays.qr_append(start, Phi, w, np.full((3, 5), 2.0))
    for noise in (2.0, np.full((3, 1), 2.0), np.full((1, 5), 2.0)):
        found = arrays.qr_append(start, Phi, w, noise)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)


def test_zero_columns_stay_and_padding_changes_nothing():
    Phi, w, _ = made(300, 4)
    Phi[:, 2] = 0.0
    found = arrays.qr_append(np.zeros((5, 5)), Phi, w, 1.0)
    assert (found.factor[:, 2] == 0.0).all()
    start = triangle_of(made(9, 5)[0])
    nothing = arrays.qr_append(start, 0 * Phi, w, 1.0)
    np.testing.assert_array_equal(nothing.factor, start)
    assert nothing.n_rows == nothing.log_noise == 0.0


@pytest.mark.parametrize("size", [1e-200, 1e-150, 1e150, 1e200])
@pytest.mark.parametrize("K", [3, 400])
def test_numbers_whose_squares_leave_the_range_are_left_to_lapack(size, K):
    Phi = np.random.default_rng(0).standard_normal((3, K, 3))
    w = np.random.default_rng(1).standard_normal((3, K))
    large = Phi.copy()
    large[1, :, 1] *= size  # of one of three entries
    found = arrays.qr_append(np.zeros((3, 4, 4)), large, w, 2.0)
    for b in range(3):
        unit = np.array([1.0, size if b == 1 else 1.0, 1.0, 1.0])
        rows = np.column_stack([Phi[b], w[b]]) / 2.0
        R = triangle_of(rows)[:, :3]  # the last column is not determined where K < 4
        assert_same((found.factor[b] / unit)[:, :3], R)
    np.testing.assert_array_equal(found.n_rows, K)
    np.testing.assert_allclose(found.log_noise, K * np.log(2.0))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
@pytest.mark.parametrize("K", [1, 400])
def test_what_is_not_finite_is_refused(value, K):
    Phi, w, _ = made(K, 3)
    Phi[:, 1] = value
    with pytest.raises(NumericalError, match="not finite"):
        arrays.qr_append(np.zeros((4, 4)), Phi, w, 1e-3)
    with pytest.raises(NumericalError, match="float64"):
        arrays.qr_stack(np.eye(2), np.array([[np.inf, 0.0]]))


def test_more_columns_than_blocks_are_made_for():
    d = MAX_COLUMNS + 1
    Phi, w, present = made(2 * d, d)
    found = arrays.qr_append(np.zeros((d + 1, d + 1)), Phi, w, 1.0)
    assert_same(found.factor, triangle_of(np.column_stack([Phi, w])[present]))
    assert found.n_rows == present.sum()


def test_any_kind_of_rows_is_taken():
    Phi, w, _ = made(5000, 20)
    Phi = Phi.astype(np.float32).astype(np.float64)
    start = np.zeros((21, 21))
    expected = arrays.qr_append(start, Phi, w, 1.0)
    locked = Phi.copy()
    locked.flags.writeable = False
    twice = np.repeat(Phi, 2, axis=0)[::2]
    for given_rows in (locked, Phi.astype(np.float32), np.asfortranarray(Phi), twice):
        found = arrays.qr_append(start, given_rows, w, 1.0)
        assert_same(found.factor, expected.factor)
        assert found.n_rows == expected.n_rows


def test_nothing_is_lost_beside_80_digits():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((1500, 3)) * 10.0 ** rng.integers(-3, 4, 3)
    Phi[:, 1] += 1e7  # as an uncentred date
    w = rng.standard_normal(1500)
    with mpmath.workdps(80):
        rows = mpmath.matrix(np.column_stack([Phi, w]).tolist())
        exact = mpmath.cholesky(rows.T * rows).T
    expected = np.array(exact.tolist(), dtype=float)
    for given_rows in (Phi, np.asfortranarray(Phi)):
        found = arrays.qr_append(np.zeros((4, 4)), given_rows, w, 1.0).factor
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(np.diagonal(found), np.diagonal(expected), rtol=1e-8)


@pytest.mark.parametrize(
    ("factor", "Phi", "w", "noise"),
    [
        (np.eye(5), np.ones((3, 40)), np.ones(3), 1.0),
        (np.eye(5), np.ones((3, 2)), np.ones(3), 1.0),
        (np.eye(3), np.ones((3, 2)), np.ones(4), 1.0),
        (np.eye(3), np.ones((3, 2)), np.ones(3), np.ones(2)),
        (np.eye(3), np.ones((3, 2)), np.ones(3), np.ones((3, 1))),
        (np.zeros((2, 3, 3)), np.ones((3, 2)), np.ones(3), 1.0),
    ],
)
def test_shapes_that_do_not_fit_are_refused_before_any_kernel_runs(factor, Phi, w, noise):
    with pytest.raises(FeaturesError, match=r"asks for feature rows|do not go with"):
        arrays.qr_append(factor, Phi, w, noise)
    with pytest.raises(FeaturesError, match="do not go with"):
        arrays.qr_stack(factor, Phi)


def upper(rng, *batch, d=5):
    return np.triu(rng.standard_normal((*batch, d, d)), 1) + 3 * np.eye(d)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_downdate_undoes_an_update(batch):
    rng = np.random.default_rng(0)
    factor, rows = upper(rng, *batch), 0.3 * upper(rng, *batch)
    updated = arrays.qr_stack(factor, rows)
    np.testing.assert_allclose(arrays.qr_downdate(updated, rows), factor, atol=1e-12)


def test_a_downdate_refuses_what_float64_cannot_hold():
    factor = np.diag([1.0, 1e200])
    with pytest.raises(NumericalError, match="beliefs are too large to merge"):
        arrays.qr_downdate(factor, 0.1 * np.eye(2))

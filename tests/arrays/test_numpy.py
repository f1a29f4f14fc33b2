import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superarm import arrays
from superarm.errors import NumericalError, ParameterError


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_gathers_and_scatters_agree_with_loops(batch):
    rng = np.random.default_rng(0)
    Phi, v = rng.standard_normal((*batch, 5, 2)), rng.standard_normal((*batch, 5))
    A = rng.permuted(np.broadcast_to(np.arange(-1, 3), (*batch, 4)), axis=-1)
    x = rng.standard_normal(A.shape)
    rows, taken, added = arrays.take_rows(Phi, A), arrays.take(v, A), arrays.add_at(v, A, x)
    for b in np.ndindex(batch):
        total = v[b].copy()
        for k, e in enumerate(A[b]):
            np.testing.assert_array_equal(rows[b][k], Phi[b][e] if e >= 0 else 0)
            assert taken[b][k] == (v[b][e] if e >= 0 else 0)
            if e >= 0:
                total[e] += x[b][k]
        np.testing.assert_array_equal(added[b], total)


def test_generators_of_a_batch_draw_as_each_does_alone():
    seeds = np.random.SeedSequence(3).spawn(4)
    a, b = np.full((4, 5), 2.0), np.full((4, 5), 3.0)
    for draw, parameters in ((arrays.normal, [a]), (arrays.uniform, [a]), (arrays.beta, [a, b])):
        together = draw([np.random.default_rng(s) for s in seeds], *parameters)
        for i, s in enumerate(seeds):
            np.testing.assert_array_equal(
                together[i], draw(np.random.default_rng(s), *(p[i] for p in parameters))
            )


def test_a_batch_needs_one_generator_per_entry():
    with pytest.raises(ParameterError, match="a batch of 3 needs one generator per entry, got 1"):
        arrays.normal([np.random.default_rng(0)], np.zeros((3, 2)))


def test_spawned_streams_of_a_batch_are_those_of_its_generators():
    seeds = np.random.SeedSequence(0).spawn(2)
    first, second = arrays.spawn([np.random.default_rng(s) for s in seeds], 2)
    x, y = arrays.spawn(np.random.default_rng(seeds[1]), 2)
    draws = [first[1].random(), second[1].random()]
    assert draws == [x.random(), y.random()]
    assert draws[0] != draws[1]


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_solves_against_dense_algebra(batch):
    rng = np.random.default_rng(1)
    d = 4
    factor = np.triu(rng.standard_normal((*batch, d + 1, d + 1))) + 3 * np.eye(d + 1)
    R = factor[..., :d, :d]
    b, Phi = rng.standard_normal((*batch, d)), rng.standard_normal((*batch, 6, d))
    np.testing.assert_allclose(arrays.matvec(R, arrays.solve(factor, b)), b, atol=1e-12)
    np.testing.assert_allclose(arrays.solve_rows(factor, Phi) @ R, Phi, atol=1e-12)
    np.testing.assert_allclose(arrays.row_norms(Phi), np.linalg.norm(Phi, axis=-1))
    np.testing.assert_allclose(arrays.log_det(factor), np.linalg.slogdet(factor)[1])


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("K", [0, 1, 4, 40])
def test_qr_update_is_the_cholesky_factor_of_the_sum(batch, K):
    rng = np.random.default_rng(2)
    factor = np.triu(rng.standard_normal((*batch, 20, 20))) + 3 * np.eye(20)
    rows, present = rng.standard_normal((*batch, K, 20)), rng.random((*batch, K)) < 0.7
    before = factor.copy()
    updated = arrays.qr_update(factor, rows, present)
    kept = rows * present[..., None]
    gram = factor.swapaxes(-1, -2) @ factor + kept.swapaxes(-1, -2) @ kept
    np.testing.assert_allclose(updated, np.linalg.cholesky(gram).swapaxes(-1, -2), atol=1e-11)
    np.testing.assert_array_equal(factor, before)


def test_qr_update_refuses_what_float64_cannot_hold():
    with pytest.raises(NumericalError, match="float64"):
        arrays.qr_update(np.eye(2), np.array([[np.inf, 0.0]]), np.array([True]))


def random_rows(batch, K, d, seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((*batch, K, d)) * 10.0 ** rng.integers(-3, 4, d)
    present = rng.random((*batch, K)) < 0.9
    return Phi, rng.standard_normal((*batch, K)), rng.uniform(0.1, 3.0, (*batch, K)), present


@pytest.mark.parametrize(("batch", "K", "d"), [((), 9000, 20), ((2,), 5000, 20), ((3,), 0, 4)])
def test_many_rows_come_in_blocks_and_make_the_factor_of_all(batch, K, d):
    Phi, w, root, present = random_rows(batch, K, d)
    rows = root[..., None] * np.concatenate([Phi, w[..., None]], -1)
    start = np.zeros((*batch, d + 1, d + 1)) + np.eye(d + 1)
    found = arrays.qr_update(start, rows, present)
    alone = arrays.factor_of_rows(Phi, w, root, present)
    for b in np.ndindex(batch):
        kept = rows[b][present[b]]
        for factor, stacked in ((found, np.vstack([start[b], kept])), (alone, kept)):
            expected = np.zeros((d + 1, d + 1))
            R = np.linalg.qr(stacked, mode="r")
            expected[: len(R)] = R * np.sign(np.diagonal(R))[:, None]
            size = np.abs(expected).max(0)  # of each column
            assert (np.abs(factor[b] - expected) <= 1e-14 * np.maximum(size, 1.0)).all()


def test_blocks_lose_nothing_beside_80_digits():
    mpmath = pytest.importorskip("mpmath")
    Phi, w, root, present = random_rows((), 1500, 3)
    present[:] = True
    Phi[:, 1] += 1e7  # as an uncentred date
    root = 1.0
    with mpmath.workdps(80):
        rows = mpmath.matrix(np.column_stack([Phi, w]).tolist())
        exact = mpmath.cholesky(rows.T * rows).T
    expected = np.array(exact.tolist(), dtype=float)
    for part in (2**16, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("superarm.arrays.numpy.PART", part)
            found = arrays.factor_of_rows(Phi, w, root, present)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(np.diagonal(found), np.diagonal(expected), rtol=1e-8)


def test_shared_rows_are_taken_without_a_copy_for_each():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((1000, 20))
    A = rng.integers(0, 1000, (300, 10))
    tracemalloc.start()
    rows = arrays.take_rows(arrays.repeated(Phi, 300), A)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(rows, Phi[A])
    assert peak < 2 * rows.nbytes


@given(st.floats(0, 1), st.integers(0, 10**6))
def test_hashed_uniform_is_pure_and_in_range(w, count):
    keys = np.array([3, 4]), np.array([count, count]), np.array([w, w])
    u = arrays.hashed_uniform(*keys)
    assert ((u >= 0) & (u < 1)).all()
    np.testing.assert_array_equal(u, arrays.hashed_uniform(*keys))


def test_hashed_uniform_is_uniform_and_uncorrelated():
    items, counts = np.meshgrid(np.arange(200), np.arange(200))
    u = arrays.hashed_uniform(items, counts, np.full(items.shape, 0.5))
    histogram = np.histogram(u, bins=20, range=(0, 1))[0]
    # chi-square with 19 degrees of freedom: above 50 with probability 1e-4
    assert ((histogram - 2000) ** 2 / 2000).sum() < 50
    # correlation of 39,800 neighbouring pairs: standard error 0.005
    assert abs(np.corrcoef(u[:, 1:].ravel(), u[:, :-1].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(u[1:].ravel(), u[:-1].ravel())[0, 1]) < 0.02

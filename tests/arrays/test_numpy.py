import numpy as np
import pytest

from superarm import arrays
from superarm.errors import ParameterError
from support import peak_memory


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
    np.testing.assert_allclose(arrays.matvec(R, arrays.solve_factor(factor, b)), b, atol=1e-12)
    np.testing.assert_allclose(arrays.solve_rows(factor, Phi) @ R, Phi, atol=1e-12)
    np.testing.assert_allclose(arrays.row_norms(Phi), np.linalg.norm(Phi, axis=-1))
    np.testing.assert_allclose(arrays.log_det(factor), np.linalg.slogdet(factor)[1])


def test_shared_rows_are_taken_without_a_copy_for_each():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((1000, 20))
    A = rng.integers(0, 1000, (300, 10))
    repeated = arrays.broadcast(Phi, 300)
    rows = arrays.take_rows(repeated, A)
    np.testing.assert_array_equal(rows, Phi[A])
    assert peak_memory(lambda: arrays.take_rows(repeated, A)) < 2 * rows.nbytes

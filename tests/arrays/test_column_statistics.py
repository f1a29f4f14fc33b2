import numpy as np
import pytest

from superarm import arrays
from superarm.arrays import add_rows, merge_column_statistics, summarize_columns


def literal(Phi):
    """The definition, column by column."""
    Phi = np.asarray(Phi, np.float64)
    return np.stack(
        [(Phi != 0).sum(-2), (Phi**2).sum(-2), Phi.min(-2), Phi.max(-2)],
        axis=-2,
    )


def some(shape, dtype=np.float64):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.4] = 0
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(1, 1), (7, 3), (2000, 3), (1100, 700), (4, 300, 5), (2, 3, 9, 2)]
)
def test_statistics_are_those_of_the_definition(shape, dtype):
    Phi = some(shape, dtype)
    for same in (Phi, np.asfortranarray(Phi)):
        found = summarize_columns(same)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, literal(Phi), rtol=1e-12)


def test_shared_features_are_looked_at_once():
    Phi = some((50, 4))
    shared = arrays.broadcast(Phi, 3)
    np.testing.assert_array_equal(summarize_columns(shared), np.stack([summarize_columns(Phi)] * 3))


def test_parts_make_the_whole(monkeypatch):
    Phi = some((50, 4))
    whole = summarize_columns(Phi)
    monkeypatch.setattr("superarm.arrays.numpy.CHUNK_NUMBERS", 28)
    np.testing.assert_allclose(summarize_columns(Phi), whole, rtol=1e-14)
    np.testing.assert_allclose(
        merge_column_statistics(summarize_columns(Phi[:20]), summarize_columns(Phi[20:])),
        whole,
        rtol=1e-14,
    )


@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_are_formed_a_part_at_a_time(batch, monkeypatch):
    monkeypatch.setattr("superarm.arrays.numpy.CHUNK_NUMBERS", 40)
    product = arrays.Product(some((23, 2)), some((*batch, 2, 5)))
    np.testing.assert_allclose(summarize_columns(product), literal(product), rtol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_statistics_of_a_selection_are_those_of_what_it_stands_for(batch):
    B = arrays.ColumnSelection(4, np.array([3, 0, 0, 1, 3]), some((*batch, 5)))
    product = arrays.Product(some((23, 4)), B)
    np.testing.assert_allclose(summarize_columns(product), literal(product), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_have_the_statistics_of_their_numbers(dtype):
    torch = pytest.importorskip("torch")
    Phi = some((3, 20, 4), dtype)
    found = summarize_columns(torch.tensor(Phi))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), literal(Phi), rtol=1e-12)


def test_no_rows_change_nothing():
    for batch in ((), (2,), (0,)):
        stats = summarize_columns(np.ones((*batch, 5, 3)))
        nothing = np.empty((*batch, 0, 3))
        np.testing.assert_array_equal(add_rows(stats, nothing, np.empty((*batch, 0), bool)), stats)


@pytest.mark.parametrize("K", [1, 15, 16, 17, 1000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_rows_are_counted_as_one_by_one(K, order):
    rng = np.random.default_rng(K)
    rows = np.asarray(rng.standard_normal((2, K, 5)).round(1), order=order)
    start = arrays.summarize_columns(rng.standard_normal((2, 4, 5)))
    found = arrays.add_rows(start, rows, np.ones((2, K)))
    expected = arrays.merge_column_statistics(start, arrays.summarize_columns(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_array_equal(found[:, [0, 2, 3]], expected[:, [0, 2, 3]])

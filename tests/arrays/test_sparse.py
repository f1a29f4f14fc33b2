import numpy as np
import pytest
import scipy.sparse

from superarm import arrays
from superarm.arrays import sparse
from superarm.beliefs.cached_std import choose_probe, project_rows
from superarm.checks import as_features, check_features
from superarm.errors import FeaturesError

L, D = 40, 7


def some(density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((L, D))
    return scipy.sparse.csr_array(np.where(rng.random((L, D)) < density, x, 0.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.5, 1.0])
def test_sparse_rows_give_what_dense_rows_give(density, dtype, monkeypatch):
    monkeypatch.setattr("superarm.arrays.numpy.CHUNK_NUMBERS", 50)
    Phi = as_features(some(density).astype(dtype))
    filled = Phi.toarray()
    rng = np.random.default_rng(1)
    theta = rng.standard_normal(D)
    factor = np.triu(rng.standard_normal((D + 1, D + 1)), 1) + 3 * np.eye(D + 1)
    A = np.array([3, -1, 0, 39])
    tolerance = {"rtol": 1e-12, "atol": 1e-12}
    if dtype == np.float32:
        tolerance = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(arrays.matvec(Phi, theta), arrays.matvec(filled, theta), **tolerance)
    assert arrays.matvec(Phi, theta).dtype == dtype
    np.testing.assert_array_equal(arrays.take_rows(Phi, A), arrays.take_rows(filled, A))
    np.testing.assert_array_equal(
        arrays.take_rows(Phi, A.reshape(2, 2)), arrays.take_rows(Phi, A).reshape(2, 2, D)
    )
    np.testing.assert_allclose(
        arrays.posterior_row_norms(factor, Phi),
        arrays.posterior_row_norms(factor, filled),
        **tolerance,
    )
    U = rng.standard_normal((3, D))
    np.testing.assert_allclose(
        arrays.product_row_norms(Phi, U), arrays.product_row_norms(filled, U), **tolerance
    )
    np.testing.assert_allclose(
        arrays.summarize_columns(Phi), arrays.summarize_columns(filled), rtol=1e-12
    )
    direction = choose_probe(Phi)
    np.testing.assert_array_equal(direction, choose_probe(filled))
    np.testing.assert_allclose(
        project_rows(Phi, direction), project_rows(filled, direction), rtol=1e-12, atol=1e-12
    )


def test_sparse_rows_are_told_from_others():
    assert arrays.is_sparse(some())
    assert arrays.is_sparse(scipy.sparse.csr_matrix(some()))
    assert not arrays.is_sparse(np.eye(2))
    assert not arrays.is_sparse(arrays.Product(np.eye(2), np.eye(2)))
    assert not arrays.is_sparse([[1.0]])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_any_format_becomes_rows(form):
    given = some().asformat(form)
    Phi = as_features(given)
    assert Phi.format == "csr"
    assert isinstance(Phi, scipy.sparse.sparray)
    np.testing.assert_array_equal(Phi.toarray(), some().toarray())
    np.testing.assert_array_equal(check_features(given), some().toarray())


def test_rows_in_order_are_used_as_they_are():
    given = some()
    assert np.shares_memory(as_features(given).data, given.data)
    small = some().astype(np.float32)
    assert as_features(small).dtype == np.float32


def test_duplicates_are_summed_without_overflow_and_zeros_are_zeros():
    entries = np.array([100, 100, 1, 0], np.int8), ([0, 0, 1, 2], [1, 1, 0, 0])
    for form in ("coo", "csr"):
        given = scipy.sparse.coo_array(entries, shape=(3, 2))
        if form == "csr":  # unsorted, with a duplicate and a zero that is kept
            given = scipy.sparse.csr_array(
                (np.array([100, 100, 1, 0], np.int8), [1, 1, 0, 0], [0, 2, 3, 4]), shape=(3, 2)
            )
        Phi = as_features(given)
        np.testing.assert_array_equal(Phi.toarray(), [[0, 200], [1, 0], [0, 0]])
        assert arrays.summarize_columns(Phi).tolist() == [[1, 1], [1, 40000], [0, 0], [1, 200]]
    assert given.nnz == 4  # what was given stays as it was


def test_sums_of_duplicates_must_be_finite():
    given = scipy.sparse.coo_array(([1e308, 1e308], ([1, 1], [2, 2])), shape=(3, 4))
    with (
        np.errstate(over="ignore"),
        pytest.raises(FeaturesError, match="feature 2 of item 1 is inf"),
    ):
        as_features(given)


def with_index(index):
    Phi = some()
    Phi.indices[3] = index
    return Phi


def with_value(value):
    Phi = scipy.sparse.csr_array(np.eye(3))
    Phi.data[1] = value
    return Phi


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (with_value(np.nan), "feature 1 of item 1 is nan"),
        (with_value(-np.inf), "feature 1 of item 1 is -inf"),
        (with_index(D), "must be numbers, one row per item"),
        (with_index(-1), "must be numbers, one row per item"),
        (some().astype(complex), "complex"),
        (scipy.sparse.csr_array((0, 3)), "at least one item"),
        (scipy.sparse.coo_array(np.ones(3)), "must be 2-D"),
    ],
)
def test_what_is_no_rows_is_refused(features, message):
    with pytest.raises(FeaturesError, match=message):
        as_features(features)


def test_the_shape_must_fit():
    with pytest.raises(FeaturesError, match=r"shape \(40, 8\)"):
        as_features(some(), (L, 8))


def test_rows_are_joined_and_packed():
    Phi = as_features(some())
    more = some(seed=1)
    for added in (more, more.toarray()):
        both = sparse.joined_rows(Phi, added)
        np.testing.assert_array_equal(both.toarray(), np.vstack([Phi.toarray(), more.toarray()]))
    np.testing.assert_array_equal(
        sparse.with_ones(Phi).toarray(), np.column_stack([np.ones(L), Phi.toarray()])
    )
    back = sparse.unpacked(sparse.packed(Phi))
    np.testing.assert_array_equal(back.toarray(), Phi.toarray())

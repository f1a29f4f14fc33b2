import subprocess
import sys

import numpy as np
import pytest

from superarm import arrays


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_features_of_two_are_those_of_either_entry_by_entry(batch):
    rng = np.random.default_rng(0)
    left, other = rng.standard_normal((2, 5, 2))
    x, y, z = (arrays.Product(Y, rng.standard_normal((*batch, 2, 4))) for Y in (left, left, other))
    first = rng.random(batch) < 0.5
    for b, expected in ((y, arrays.Product), (z, np.ndarray), (np.asarray(y), np.ndarray)):
        found = arrays.where_features(first, x, b)
        assert isinstance(found, expected)
        assert found.shape == x.shape
        for i in np.ndindex(batch):
            np.testing.assert_allclose(np.asarray(found)[i], np.asarray(x if first[i] else b)[i])


def test_products_have_the_shape_and_the_rows_of_what_they_stand_for():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((5, 2)), rng.standard_normal((3, 2, 4))
    single = arrays.Product(left, right[0])
    assert single.shape == (5, 4)
    np.testing.assert_array_equal(np.asarray(single), left @ right[0])
    np.testing.assert_array_equal(np.asarray(single[1:3]), left[1:3] @ right[0])
    shared = arrays.Product(left, right)
    assert shared.shape == (3, 5, 4)
    np.testing.assert_array_equal(np.asarray(shared[1]), left @ right[1])
    own = arrays.Product(np.stack([left, 2 * left, 3 * left]), right)
    np.testing.assert_array_equal(np.asarray(own[2]), 3 * left @ right[2])
    assert arrays.is_product(own)
    assert not arrays.is_product(np.asarray(own))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_give_what_their_rows_give(batch):
    rng = np.random.default_rng(1)
    product = arrays.Product(rng.standard_normal((5, 3)), rng.standard_normal((*batch, 3, 4)))
    Phi = np.asarray(product)
    theta, A = rng.standard_normal((*batch, 4)), rng.integers(-1, 5, (*batch, 2))
    factor = np.triu(rng.standard_normal((*batch, 5, 5)), 1) + 3 * np.eye(5)
    for function, before, after in (
        (arrays.matvec, (), (theta,)),
        (arrays.take_rows, (), (A,)),
        (arrays.posterior_row_norms, (factor,), ()),
    ):
        found, expected = (function(*before, x, *after) for x in (product, Phi))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert isinstance(arrays.full((2,), 1.0, product), np.ndarray)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_selection_is_the_matrix_it_stands_for(batch):
    rng = np.random.default_rng(2)
    source = np.array([1, 0, 2, 1, 1])  # nothing is chosen of column 3
    B = arrays.ColumnSelection(4, source, rng.standard_normal((*batch, 5)))
    formed = np.asarray(B)
    assert B.shape == formed.shape == (*batch, 4, 5)
    assert B.ndim == formed.ndim
    assert (formed != 0).sum() == B.scale.size
    Y = rng.standard_normal((6, 4))
    theta = rng.standard_normal((*batch, 5))
    A = rng.integers(-1, 6, (*batch, 2))
    np.testing.assert_allclose(Y @ B, Y @ formed, rtol=1e-14)
    np.testing.assert_allclose(B.matvec(theta), arrays.matvec(formed, theta), atol=1e-14)
    lazy = arrays.Product(Y, B)
    Phi = Y @ formed
    np.testing.assert_allclose(arrays.matvec(lazy, theta), arrays.matvec(Phi, theta), atol=1e-12)
    np.testing.assert_allclose(arrays.take_rows(lazy, A), arrays.take_rows(Phi, A), atol=1e-14)
    if batch:
        np.testing.assert_array_equal(np.asarray(lazy[1]), np.asarray(lazy)[1])


def test_asking_for_tensors_does_not_import_torch():
    code = (
        "import sys, numpy as np; from superarm import arrays; x = np.ones(3); "
        "assert not arrays.is_tensor(x); arrays.take(x, np.array([0])); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_kernels_take_as_it_is():
    locked = np.zeros((3, 2))
    locked.flags.writeable = False
    swapped = np.zeros((3, 2), np.dtype(np.float64).newbyteorder())
    assert arrays.is_contiguous_float64(np.zeros((3, 2)))
    for other in (locked, swapped, np.zeros((3, 2), order="F"), np.zeros((3, 2), int)):
        assert not arrays.is_contiguous_float64(other)

"""Posterior stds beside the inverse matrix of NumPy."""

import numpy as np
import pytest

from superarm.arrays import ColumnSelection, Product, broadcast, numpy, posterior_row_norms
from superarm.arrays.posterior_std import _share_items, is_ill_conditioned

D = 4
L = 7
N = 50
RNG = np.random.default_rng(0)
R = np.triu(RNG.standard_normal((D, D))) + 3 * np.eye(D)
PHI = RNG.standard_normal((N, L, D))


def stds(R, Phi):
    covariance = np.linalg.inv(R.T @ R)
    return np.sqrt(np.einsum("...d,de,...e->...", Phi, covariance, Phi))


def test_one_user_a_batch_and_users_with_a_common_factor():
    shared = broadcast(R, N)
    np.testing.assert_allclose(posterior_row_norms(R, PHI[0]), stds(R, PHI[0]), rtol=1e-12)
    np.testing.assert_allclose(posterior_row_norms(shared, PHI), stds(R, PHI), rtol=1e-12)
    np.testing.assert_allclose(posterior_row_norms(shared.copy(), PHI), stds(R, PHI), rtol=1e-12)


def test_rows_in_chunks(monkeypatch):
    monkeypatch.setattr(numpy, "CHUNK_NUMBERS", 3 * D)
    np.testing.assert_allclose(posterior_row_norms(R, PHI[0]), stds(R, PHI[0]), rtol=1e-12)


@pytest.mark.parametrize("n_users", [2, N])
def test_products_of_common_items_and_contexts(n_users):
    """Item features of length 2 are selected twice, with two factors per user."""
    rng = np.random.default_rng(1)
    items = broadcast(rng.standard_normal((L, 2)), n_users)
    scale = rng.standard_normal((n_users, 2)).repeat(2, axis=-1)
    B = ColumnSelection(2, np.array([0, 1, 0, 1]), scale)
    Phi = Product(items, B)
    factor = broadcast(R, n_users)
    assert _share_items(factor, Phi) == (n_users == N)
    np.testing.assert_allclose(
        posterior_row_norms(factor, Phi), stds(R, np.asarray(Phi)), rtol=1e-10
    )


def test_a_factor_with_a_small_diagonal_is_ill_conditioned():
    steep = np.diag([1.0, 1e-4])
    assert is_ill_conditioned(steep, 1e3)
    assert not is_ill_conditioned(steep, 1e5)

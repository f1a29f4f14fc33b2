import numpy as np
import pytest

from superarm.arrays import summarize_columns
from superarm.beliefs.coefficient_prior import CoefficientPrior, merge_with_catalogue


def intercept(Phi):
    return CoefficientPrior.from_columns(summarize_columns(Phi)).intercept


def prior_std(Phi):
    prior = CoefficientPrior.from_columns(summarize_columns(Phi))
    return prior.std(np.array(2.0), np.array(10.0))


def test_the_first_constant_column_is_the_level():
    Phi = np.array([[0.0, 2.0, 3.0, 1.0], [0.0, 2.0, 3.0, 5.0]])
    assert intercept(Phi).tolist() == [False, True, False, False]
    batch = np.stack([Phi, Phi[:, ::-1]])
    assert intercept(batch)[1].tolist() == [False, True, False, False]


def test_prior_stds_are_in_the_units_of_the_columns():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((50, 3)) * (rng.random((50, 3)) < 0.3)
    units = np.array([1e-6, 1.0, 1e9])
    stds = prior_std(Phi)
    for j in range(3):
        entries = Phi[:, j][Phi[:, j] != 0]
        assert stds[j] == pytest.approx(2.0 / np.sqrt((entries**2).mean()))
    scaled = prior_std(Phi * units)
    np.testing.assert_allclose(scaled * units, stds, rtol=1e-12)


def test_a_column_of_zeros_has_a_prior_too():
    stds = prior_std(np.zeros((3, 2)))
    assert stds.tolist() == [2.0, 2.0]


def test_merged_statistics_count_the_catalogue_once():
    rng = np.random.default_rng(1)
    catalogue, a, b = rng.standard_normal((3, 7, 2))
    of = [summarize_columns(np.concatenate([catalogue, rows])) for rows in (a, b)]
    both = merge_with_catalogue(*of, summarize_columns(catalogue))
    np.testing.assert_allclose(
        both, summarize_columns(np.concatenate([catalogue, a, b])), rtol=1e-12
    )
    nothing = merge_with_catalogue(
        of[0], summarize_columns(catalogue), summarize_columns(catalogue)
    )
    np.testing.assert_array_equal(nothing, of[0])

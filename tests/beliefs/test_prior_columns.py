import numpy as np
import pytest

from superarm import Feedback, Problem, TopK, gaussian
from superarm.arrays import summarize_columns
from superarm.beliefs.columns import is_level, merge_with_catalogue, prior_stds
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel


def test_the_first_constant_column_is_the_level():
    Phi = np.array([[0.0, 2.0, 3.0, 1.0], [0.0, 2.0, 3.0, 5.0]])
    assert is_level(summarize_columns(Phi)).tolist() == [False, True, False, False]
    batch = np.stack([Phi, Phi[:, ::-1]])
    assert is_level(summarize_columns(batch))[1].tolist() == [False, True, False, False]


def test_prior_stds_are_in_the_units_of_the_columns():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((50, 3)) * (rng.random((50, 3)) < 0.3)
    units = np.array([1e-6, 1.0, 1e9])
    stds = prior_stds(summarize_columns(Phi), np.array(2.0), np.array(10.0))
    for j in range(3):
        entries = Phi[:, j][Phi[:, j] != 0]
        assert stds[j] == pytest.approx(2.0 / np.sqrt((entries**2).mean()))
    scaled = prior_stds(summarize_columns(Phi * units), np.array(2.0), np.array(10.0))
    np.testing.assert_allclose(scaled * units, stds, rtol=1e-12)


def test_a_column_of_zeros_has_a_prior_too():
    stds = prior_stds(summarize_columns(np.zeros((3, 2))), np.array(2.0), np.array(10.0))
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


def test_what_was_learned_stays_as_columns_change():
    """Rows 1,000 times as large as the catalogue's change the prior, and all rows still count."""
    rng = np.random.default_rng(2)
    problem = Problem(rng.standard_normal((20, 3)), TopK(2))
    model = EmpiricalBayesModel(known={})
    belief = model.prior(problem)
    rows = rng.standard_normal((16, 5, 3)) * np.where(np.arange(16) < 8, 1.0, 1e3)[:, None, None]
    w = rows @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal((16, 5))
    for phi, seen in zip(rows, w, strict=True):
        belief = model.learn(belief, problem, Feedback(np.full(5, -1), phi, seen, 1.0))
    start = gaussian.prior(3, belief.spread)
    whole = gaussian.condition(start, rows.reshape(-1, 3), w.ravel(), float(belief.sigma))
    np.testing.assert_allclose(belief.factor, whole.factor, rtol=1e-9, atol=1e-9)
    every = np.concatenate([problem.Phi, rows.reshape(-1, 3)])
    np.testing.assert_allclose(belief.spread, belief.lam / np.sqrt((every**2).mean(0)), rtol=1e-9)

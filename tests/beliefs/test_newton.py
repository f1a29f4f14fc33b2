"""The search for λ and σ beside SciPy's, and its derivatives beside 30 digits."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from superarm.beliefs.hyperparameters import LOG_RANGES, estimate_lam_sigma
from superarm.beliefs.marginal_likelihood import SufficientStatistics, statistics_of_rows
from superarm.beliefs.newton import PRIOR_WIDTH, minimize_penalized, objective, penalized

LAM_RANGE = LOG_RANGES["lam"]
SIGMA_RANGE = LOG_RANGES["sigma"]


def random_statistics(seed):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, 20))
    D = 10.0 ** rng.uniform(-1.5, 1.5, r)
    y = 10.0 ** rng.uniform(-1.5, 1.5, r)
    n_rows = float(r + rng.integers(0, 500))
    return SufficientStatistics(n_rows, D, y, 10.0 ** rng.uniform(-3, 3), 0.0, 0.0)


def objective_in_digits(mp, log_lam, log_sigma, statistics):
    """As the docstring of `beliefs.marginal_likelihood` has it."""
    lam2 = mp.exp(2 * log_lam)
    sigma2 = mp.exp(2 * log_sigma)
    n_residual = statistics.n_rows - len(statistics.D)
    twice = n_residual * mp.log(sigma2) + statistics.residual_ss / sigma2
    for D, y in zip(statistics.D, statistics.y, strict=True):
        total = sigma2 + lam2 * mp.mpf(D) ** 2
        twice += mp.log(total) + mp.mpf(y) ** 2 / total
    return twice / 2


def prior_in_digits(mp, log_lam, log_sigma):
    variance = 2 * PRIOR_WIDTH**2
    return mp.log(1 + log_lam**2 / variance) + mp.log(1 + log_sigma**2 / variance)


@pytest.mark.parametrize("seed", range(5))
def test_derivatives_are_those_of_30_digits(seed):
    mp = pytest.importorskip("mpmath")
    statistics = random_statistics(seed)
    x = np.random.default_rng(seed).uniform(-2, 2, 2)
    orders = [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]

    def without_prior(log_lam, log_sigma):
        return objective_in_digits(mp, log_lam, log_sigma, statistics)

    def with_prior(log_lam, log_sigma):
        prior = prior_in_digits(mp, log_lam, log_sigma)
        return without_prior(log_lam, log_sigma) + prior

    for function, reference in ((objective, without_prior), (penalized, with_prior)):
        with mp.workdps(30):
            digits = tuple(map(mp.mpf, x))
            expected = [mp.diff(reference, digits, order) for order in orders]
        np.testing.assert_allclose(
            function(*x, statistics), np.array(expected, dtype=float), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("free", ["both", "lam", "sigma"])
def test_no_search_of_scipys_finds_a_smaller_value(seed, free):
    statistics = random_statistics(seed)
    lam_range = (0.3, 0.3) if free == "sigma" else LAM_RANGE
    sigma_range = (-0.7, -0.7) if free == "lam" else SIGMA_RANGE
    log_lam, log_sigma = minimize_penalized(lam_range, sigma_range, statistics)
    assert lam_range[0] <= log_lam <= lam_range[1]
    assert sigma_range[0] <= log_sigma <= sigma_range[1]
    smallest = penalized(log_lam, log_sigma, statistics).value
    rng = np.random.default_rng(seed)
    bounds = np.array([lam_range, sigma_range])
    for start in rng.uniform(-8, 4, (6, 2)):
        other = minimize(
            lambda x: penalized(*x, statistics).value,
            np.clip(start, *bounds.T),
            bounds=bounds,
        )
        assert smallest <= other.fun + 1e-9 * abs(other.fun)


def test_hyperparameters_at_the_ends_of_their_range_stay_there():
    statistics = SufficientStatistics(1e6 + 1, np.ones(1), np.ones(1), 1e40, 0.0, 0.0)
    x = minimize_penalized(LAM_RANGE, SIGMA_RANGE, statistics)
    assert x[1] == SIGMA_RANGE[1]
    assert math.isfinite(penalized(*x, statistics).value)


def test_weights_that_features_explain_to_the_last_digit():
    rows = np.eye(3)[[0, 1, 2, 0, 1]]
    joined = np.column_stack([rows, rows @ [1.0, 2.0, 3.0]])
    optimum = estimate_lam_sigma(statistics_of_rows(joined, 5.0))
    assert 0 < optimum.sigma < 1e-6
    assert math.isfinite(optimum.lam)

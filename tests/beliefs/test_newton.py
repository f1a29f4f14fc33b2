"""The search for λ and σ beside SciPy's, and its derivatives beside 30 digits."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from superarm.beliefs.hyperparameters import RANGES, WEAK, maximize
from superarm.beliefs.marginal_likelihood import summary_of_rows
from superarm.beliefs.newton import Weights, best_of_grid, descend, point

LOW, HIGH = np.array(RANGES)[:2].T.copy()
BOTH = np.array([True, True])


def some_weights(seed):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, 20))
    D2 = 10.0 ** rng.uniform(-3, 3, r)
    y2 = 10.0 ** rng.uniform(-3, 3, r)
    rows = float(r + rng.integers(0, 500))
    return Weights(D2, y2, rows - r, rows, 10.0 ** rng.uniform(-3, 3), 2 * WEAK**2)


def value_at(mp, log_lam, log_sigma, of):
    """As the docstring of `beliefs.marginal_likelihood` has it, and the prior."""
    lam2 = mp.exp(2 * log_lam)
    sigma2 = mp.exp(2 * log_sigma)
    twice = of.free * mp.log(sigma2) + of.residual / sigma2
    for D2, y2 in zip(of.D2, of.y2, strict=True):
        total = sigma2 + lam2 * mp.mpf(D2)
        twice += mp.log(total) + y2 / total
    prior = mp.log(1 + log_lam**2 / of.wide) + mp.log(1 + log_sigma**2 / of.wide)
    return twice / 2 + prior


@pytest.mark.parametrize("seed", range(5))
def test_derivatives_are_those_of_30_digits(seed):
    mp = pytest.importorskip("mpmath")
    of = some_weights(seed)
    x = np.random.default_rng(seed).uniform(-2, 2, 2)
    found = point(x, BOTH, of)
    orders = [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]
    with mp.workdps(30):
        at = tuple(map(mp.mpf, x))
        expected = [mp.diff(lambda a, s: value_at(mp, a, s, of), at, n) for n in orders]
    np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("free", [(True, True), (True, False), (False, True)])
def test_no_search_of_scipys_finds_less(seed, free):
    of = some_weights(seed)
    free = np.array(free)
    x = np.array([0.3, -0.7])
    low = np.where(free, LOW, -np.inf)
    high = np.where(free, HIGH, np.inf)
    best_of_grid(x, free, low, high, of)
    descend(x, free, low, high, of)
    assert (x[~free] == np.array([0.3, -0.7])[~free]).all()

    def filled(part):
        whole = x.copy()
        whole[free] = part
        return whole

    found = point(x, free, of).value
    rng = np.random.default_rng(seed)
    for start in rng.uniform(-8, 4, (6, int(free.sum()))):
        other = minimize(
            lambda part: point(filled(part), free, of).value,
            start,
            bounds=np.stack([LOW, HIGH], -1)[free],
        )
        assert found <= other.fun + 1e-9 * abs(other.fun)


def test_scales_at_the_ends_of_their_range_stay_there():
    of = Weights(np.array([1.0]), np.array([1.0]), 1e6, 1e6 + 1, 1e40, 2 * WEAK**2)
    x = np.zeros(2)
    best_of_grid(x, BOTH, LOW, HIGH, of)
    descend(x, BOTH, LOW, HIGH, of)
    assert x[1] == HIGH[1]
    assert math.isfinite(point(x, BOTH, of).value)


def test_weights_that_features_explain_to_the_last_digit():
    rows = np.eye(3)[[0, 1, 2, 0, 1]]
    found = maximize(summary_of_rows(np.column_stack([rows, rows @ [1.0, 2.0, 3.0]]), 5.0), tau=0.0)
    assert 0 < found.sigma < 1e-6
    assert math.isfinite(found.lam)

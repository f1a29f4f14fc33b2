import numpy as np
import pytest
from scipy import stats

from superarm.arrays.normals import fill_normal


def draws(n, seed=1):
    z = np.empty(n)
    fill_normal(z, np.uint64(seed))
    return z


def test_the_distribution_is_normal():
    z = draws(2_000_000)
    assert stats.kstest(z, "norm").pvalue > 0.01
    n = len(z)
    # standard errors of the first four moments of n normals
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - moment) < 4 * np.sqrt(variance / n)


@pytest.mark.parametrize("bound", [2.0, 3.0, 3.6541528853610088, 4.0, 4.5])
def test_the_tails_are_as_heavy_as_they_should_be(bound):
    """Also beyond 3.65, where the layers end and the tail has a draw of its own."""
    z, p = draws(4_000_000, seed=2), stats.norm.sf(bound)
    for tail in (z > bound, z < -bound):
        assert abs(tail.sum() - len(z) * p) < 4 * np.sqrt(len(z) * p)


def test_draws_are_independent_within_and_between_seeds():
    z, other = draws(500_000, seed=3), draws(500_000, seed=4)
    for a, b in ((z[1:], z[:-1]), (z[2:], z[:-2]), (np.abs(z[1:]), np.abs(z[:-1])), (z, other)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(len(z))


def test_a_seed_gives_the_same_draws_however_many():
    np.testing.assert_array_equal(draws(100), draws(1000)[:100])
    assert (draws(100) != draws(100, seed=2)).all()

import numpy as np
import pytest

from superarm.checks import centered_statistics, require_unit
from superarm.errors import WeightsError


def test_centered_statistics_are_those_of_the_weights():
    w = np.random.default_rng(0).standard_normal((4, 50))
    statistics = centered_statistics(np.full(4, 50), w.sum(1), (w**2).sum(1))
    np.testing.assert_allclose(statistics.w, w.mean(1))
    np.testing.assert_allclose(statistics.residual_ss, 50 * w.var(1))


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ((["a"], [1.0], [1.0]), "statistics must be numbers"),
        (([1.0, 2.0], [1.0], [1.0]), "of one shape"),
        (([0.0], [1.0], [1.0]), "at least one observation"),
        (([1.0], [np.nan], [1.0]), "must be finite"),
        (([2.0], [4.0], [7.0]), "no observations have these statistics"),
        (([1.0], [2.0], [5.0]), "no observations have these statistics"),
    ],
)
def test_impossible_statistics(statistics, message):
    with pytest.raises(WeightsError, match=message):
        centered_statistics(*statistics)


def test_rounding_leaves_no_negative_sum_of_squares():
    statistics = centered_statistics([3], [0.3], [0.03 - 1e-12])
    assert statistics.residual_ss.tolist() == [0.0]


def test_weights_beyond_the_unit_interval():
    present = np.array([True, False])
    means = np.array([0.5, 3.0])
    require_unit(means, 1.0, 0.0, present)  # single weights are checked elsewhere
    require_unit(means, np.array([2.0, 2.0]), np.array([0.5, 0.0]), present)
    with pytest.raises(WeightsError, match=r"beyond \[0, 1\]"):
        require_unit(means, np.array([2.0, 2.0]), np.array([0.6, 0.0]), present)

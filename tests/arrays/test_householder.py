"""What the kernel says of entries that it cannot take; what it makes of others is in
`test_qr_update`.
"""

import numpy as np
import pytest

from superarm.arrays.householder import update_factors


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e-200, 1e200])
@pytest.mark.parametrize("column", [0, 1, 2, 3])
def test_the_entry_whose_squares_leave_the_range_is_named(value, column):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 4))
    rows[10:20, column] = value
    F = np.zeros((12, 4))
    sums = np.zeros(6)
    arguments = (F, rows, np.empty(0), np.ones(3), sums)
    assert update_factors(*arguments, 0) == 1
    assert update_factors(*arguments, 2) == 3
    np.testing.assert_array_equal(sums[:3], [10.0, 0.0, 10.0])


def test_tiny_numbers_whose_squares_vanish_are_not_taken_for_zeros():
    rows = np.array([[1e-170, 1.0]])
    assert update_factors(np.eye(2), rows, np.empty(0), np.ones(1), np.zeros(2), 0) == 0

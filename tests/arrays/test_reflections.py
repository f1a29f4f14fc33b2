"""What the kernel says of entries that it cannot take; what it makes of others is in
`test_added`.
"""

import numpy as np
import pytest

from superarm.arrays.reflections import reflect_rows


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e-200, 1e200])
@pytest.mark.parametrize("column", [0, 1, 2, 3])
def test_the_entry_whose_squares_leave_the_range_is_named(value, column):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 10, 4))
    rows[1, :, column] = value
    F = np.zeros((3, 4, 4))
    start = np.zeros((3, 4, 4))
    tally = np.zeros((2, 3))
    alone = (np.empty((3, 0)), np.ones((3, 1)), tally)
    assert reflect_rows(F, start, rows, *alone, 0) == 1
    assert reflect_rows(F, start, rows, *alone, 2) == 3
    np.testing.assert_array_equal(tally[0], [10.0, 0.0, 10.0])


def test_tiny_numbers_whose_squares_vanish_are_not_taken_for_zeros():
    start = np.eye(2)[None].copy()
    rows = np.array([[[1e-170, 1.0]]])
    alone = (np.empty((1, 0)), np.ones((1, 1)), np.zeros((2, 1)))
    assert reflect_rows(np.empty((1, 2, 2)), start, rows, *alone, 0) == 0

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from superarm.arrays import are_finite, is_plain


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 5))),
    arrays(np.float64, st.integers(1, 40)),
)
def test_all_numbers_are_finite_or_not(rows, w):
    assert are_finite(rows, w) == (np.isfinite(rows).all() and np.isfinite(w).all())


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 5e-324, 0.0])
def test_the_largest_and_least_numbers_are_finite(value):
    assert are_finite(np.full((9, 3), value), np.full(9, value))


def test_what_kernels_take_as_it_is():
    locked = np.zeros((3, 2))
    locked.flags.writeable = False
    swapped = np.zeros((3, 2), np.dtype(np.float64).newbyteorder())
    assert is_plain(np.zeros((3, 2)))
    for other in (locked, swapped, np.zeros((3, 2), order="F"), np.zeros((3, 2), int)):
        assert not is_plain(other)

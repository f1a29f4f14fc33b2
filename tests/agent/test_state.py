import numpy as np
import pytest
from scipy.sparse import csr_array

from superarm.agent.state import State, is_single
from superarm.arrays.types import Product


def test_another_belief_changes_nothing_else():
    state = State(*(object() for _ in State._fields))
    assert state.believing("other") == state._replace(belief="other")


ONES = np.ones((2, 2))
SINGLE = ONES.astype(np.float32)


@pytest.mark.parametrize(
    ("Phi", "expected"),
    [
        (ONES, False),
        (SINGLE, True),
        (csr_array(ONES), False),
        (csr_array(SINGLE), True),
        (Product(ONES, ONES), False),
        (Product(SINGLE, ONES), True),
        (Product(ONES, SINGLE), True),
    ],
)
def test_features_that_are_float32(Phi, expected):
    assert is_single(Phi) is expected

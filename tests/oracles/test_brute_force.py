import numpy as np
import pytest

from superarm import brute_force
from superarm.errors import InfeasibleError, ItemsError, WeightsError
from superarm.testing import check_oracle


def test_contract():
    family = [(0, 1), (2,), (1, 3, 4), ()]
    check_oracle(brute_force(family), 5, family=family)
    check_oracle(brute_force([(4,), (2, 3)]), 5, family=[(4,), (2, 3)])


def test_first_of_equals():
    assert brute_force([[2], [0, 1]])(np.array([1.0, 1.0, 2.0])).tolist() == [2, -1]


def test_refusals():
    with pytest.raises(InfeasibleError, match="at least one feasible set"):
        brute_force([])
    with pytest.raises(ItemsError, match=r"\[1, 1\], which is no set of items: item 1 is repeated"):
        brute_force([[1, 1]])
    with pytest.raises(ItemsError, match="must be integers"):
        brute_force([[0.5, 1.7]])
    with pytest.raises(ItemsError, match="item -2 is not"):
        brute_force([[-2]])
    with pytest.raises(WeightsError, match="4 weights"):
        brute_force([[3]])(np.zeros(3))
    with pytest.raises(InfeasibleError, match="brute_force over 1 sets"):
        brute_force([[0]])(np.array([-np.inf]))

import numpy as np
import pandas as pd
import pytest

from superarm.agent.feedback import by_item, check_feedback, check_importance, in_order
from superarm.errors import ParameterError, WeightsError


def test_weights_become_floats():
    w = check_feedback([True, 2, 3.5], 3, "item")
    assert w.dtype == np.float64
    assert w.tolist() == [1.0, 2.0, 3.5]


@pytest.mark.parametrize(
    "weights", [[1.0], [[1.0, 2.0]], 1.0, ["1", "2"], [1.0, None], [1.0, np.nan], [1.0, np.inf]]
)
def test_bad_weights(weights):
    with pytest.raises(WeightsError, match=r"weights must be|weight at position 1"):
        check_feedback(weights, 2, "item")


def test_importance_is_one_number_or_one_each():
    w = np.zeros(2)
    assert check_importance(2, w).tolist() == [2.0, 2.0]
    assert check_importance([0.5, 1e12], w).tolist() == [0.5, 1e12]
    for bad in (0.0, [1.0], [1.0, -1.0], 1e13, "much"):
        with pytest.raises(ParameterError, match="importance must be"):
            check_importance(bad, w)


def test_only_a_series_with_an_index_of_its_own_is_put_in_order():
    items = ["b", "a"]
    assert in_order([1.0, 2.0], items) == [1.0, 2.0]
    assert in_order(None, items) is None
    assert in_order(pd.Series([1.0, 2.0], index=["a", "b"]), items) == [2.0, 1.0]
    assert in_order(pd.Series([1.0, 2.0]), items).tolist() == [1.0, 2.0]
    assert in_order({"a": 1.0, "b": 2.0}, items) == [2.0, 1.0]
    with pytest.raises(WeightsError, match="for each, and for no other"):
        in_order(pd.Series([1.0], index=["a"]), items)
    with pytest.raises(WeightsError, match="each once"):
        by_item(pd.Series([1.0, 2.0], index=["a", "a"]))

import numpy as np
import pandas as pd
import pytest

from superarm.checks import (
    check_feedback,
    check_importance,
    check_weights,
    fault_of_set,
    positive_each,
    require_count,
    require_positive,
)
from superarm.errors import ParameterError, WeightsError


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, 1j])
def test_require_positive(value):
    with pytest.raises(ParameterError, match="lam must be a positive, finite number"):
        require_positive(sigma=1.0, lam=value)


def test_numpy_numbers_are_numbers():
    require_positive(lam=np.float32(1), sigma=np.int64(2))
    require_count(k=np.int64(3))


@pytest.mark.parametrize("value", [0, -3, 2.0, "2", None, True])
def test_require_count(value):
    with pytest.raises(ParameterError, match="episodes must be a whole number of at least 1"):
        require_count(episodes=value)


def test_weights_become_floats():
    w = check_feedback([True, 2, 3.5], 3, "item")
    assert w.dtype == np.float64
    assert w.tolist() == [1.0, 2.0, 3.5]


@pytest.mark.parametrize(
    "weights", [[1.0], [[1.0, 2.0]], 1.0, ["1", "2"], [1.0, None], [1.0, np.nan], [1.0, np.inf]]
)
def test_bad_feedback(weights):
    with pytest.raises(WeightsError, match=r"weights must be|weight at position 1"):
        check_feedback(weights, 2, "item")


def test_importance_is_one_number_or_one_each():
    w = np.zeros(2)
    assert check_importance(2, w).tolist() == [2.0, 2.0]
    assert check_importance([0.5, 1e12], w).tolist() == [0.5, 1e12]
    for bad in (0.0, [1.0], [1.0, -1.0], 1e13, "much"):
        with pytest.raises(ParameterError, match="importance must be"):
            check_importance(bad, w)


def test_one_positive_number_or_one_each():
    assert positive_each("alpha", np.float32(0.5)) == 0.5
    assert positive_each("alpha", np.array([1, 2])) == (1.0, 2.0)
    with pytest.raises(ParameterError, match="alpha must be a positive, finite number, got -1"):
        positive_each("alpha", -1)
    with pytest.raises(ParameterError, match="but item 1 has 0"):
        positive_each("alpha", [1.0, 0.0])
    for bad in ({"a": 1.0}, pd.Series([1.0]), [], [[1.0]], ["1"], "12", None):
        with pytest.raises(ParameterError, match="one per item in their order, got"):
            positive_each("alpha", bad)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.0, np.nan, np.inf], "item 1 is nan"),
        ([[0.0, 0.0, 0.0], [0.0, 0.0, np.inf]], "item 2 is inf"),
        ([0.0, 0.0], r"3 weights, one per item, got shape \(2,\)"),
        (1.0, r"got shape \(\)"),
        (["1", "2", "3"], "weights must be numbers"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(WeightsError, match=message):
        check_weights(weights, 3)


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([0, 2, 1], None),
        ([], None),
        ([0, 3], "item 3 is not one of the items 0..2"),
        ([-1], "item -1 is not one of the items 0..2"),
        ([1, 0, 1], "item 1 is repeated"),
        ([0.0], "items must be integers, got float64"),
        ([True], "items must be integers, got bool"),
        ([[0]], r"items must be a flat list, got shape (1, 1)"),
    ],
)
def test_fault_of_set(items, fault):
    assert fault_of_set(np.array(items), 3) == fault

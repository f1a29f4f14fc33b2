import numpy as np
import pandas as pd
import pytest

from superarm.checks import are_plain_feedback, check_features
from superarm.errors import FeaturesError


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, np.nan]], "feature 1 of item 0 is nan"),
        ([[1.0, 0.0], [np.inf, 0.0]], "feature 0 of item 1 is inf"),
        ([1.0, 2.0], r"must have shape \(items, features\)"),
        (np.zeros((0, 3)), "at least one item"),
        ([["1", "2"]], "must be numbers"),
        ([[1.0j]], "must be numbers"),
        ([[1.0], [1.0, 2.0]], "must be numbers"),
    ],
)
def test_bad_features(features, message):
    with pytest.raises(FeaturesError, match=message):
        check_features(features)
    with pytest.raises(
        FeaturesError, match=r"must have shape \(3, 2\) \(items, features\), got \(3, 4\)"
    ):
        check_features(np.zeros((3, 4)), shape=(3, 2))


def test_strided_features_are_made_contiguous_and_others_kept():
    strided = np.zeros((6, 8))[:, ::2]
    assert check_features(strided).flags.c_contiguous
    for kept in (np.zeros((6, 4)), np.zeros((6, 4), order="F")):
        assert check_features(kept) is kept


@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        (np.ones((3, 2), int), np.ones(3)),
        (np.ones((3, 2)), np.ones(3, np.float32)),
        (np.ones((3, 2)), np.ones((3, 1))),
        (np.ones((3, 2)), np.float64(1.0)),
        (np.ones((3, 2)), np.ones(2)),
        (np.ones((3, 3)), np.ones(3)),
        (np.ones((0, 2)), np.ones(0)),
        (np.ones((3, 2)), np.array([1.0, np.nan, 1.0])),
        (np.full((3, 2), np.inf), np.ones(3)),
        (np.ma.masked_equal(np.eye(3)[:, :2], 0.0), np.ones(3)),
        (pd.DataFrame(np.ones((3, 2))), np.ones(3)),
    ],
)
def test_what_must_be_converted_or_refused_is_no_plain_feedback(rows, weights):
    assert are_plain_feedback(np.ones((3, 2)), np.ones(3), 2)
    assert not are_plain_feedback(rows, weights, 2)

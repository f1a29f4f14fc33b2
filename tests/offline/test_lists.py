"""Logs by id, as data frames, and as flat lists: the same as by position, or refused."""

import numpy as np
import pandas as pd
import pytest

from superarm.errors import FeaturesError, ItemsError, MaskError, WeightsError
from superarm.offline import Log

SONGS = pd.DataFrame({"tempo": [0.1, 0.2, 0.3]}, index=["abba", "bowie", "cher"])
BY_ID = [["cher", "abba"], ["bowie"]]
CLICKS = [[0.0, 1.0], [1.0]]
CHANCES = [[0.3, 0.9], [0.5]]


def assert_same(log, other):
    for one, two in zip(log[:3], other[:3], strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(log.Phi[0], other.Phi[0])


def test_items_by_their_ids():
    by_position = Log.of([[2, 0], [1]], CLICKS, CHANCES, SONGS.to_numpy())
    by_index = Log.of(BY_ID, CLICKS, CHANCES, SONGS)
    assert by_index.ids.tolist() == ["abba", "bowie", "cher"]
    assert by_position.ids is None
    assert_same(by_index, by_position)
    assert_same(Log.of(BY_ID, CLICKS, CHANCES, SONGS.to_numpy(), ids=SONGS.index), by_position)
    turned = Log.of(BY_ID, CLICKS, CHANCES, SONGS.iloc[::-1], ids=SONGS.index)
    assert_same(turned, by_position)
    numbers = Log.of([[30, 10], [20]], CLICKS, CHANCES, SONGS.to_numpy(), ids=[10, 20, 30])
    assert_same(numbers, by_position)
    assert by_index.part([1]).ids.tolist() == by_index.ids.tolist()


def test_weights_and_propensities_by_item():
    clicks = [{"abba": 1.0, "cher": 0.0}, pd.Series([1.0], index=["bowie"])]
    chances = [pd.Series([0.9, 0.3], index=["abba", "cher"]), {"bowie": 0.5}]
    log = Log.of(BY_ID, clicks, chances, SONGS)
    assert_same(log, Log.of(BY_ID, CLICKS, CHANCES, SONGS))
    with pytest.raises(WeightsError, match="decision 1: weights are of"):
        Log.of(BY_ID, [clicks[0], {"abba": 1.0}], CHANCES, SONGS)


def test_one_item_per_decision_in_flat_lists():
    flat = Log.of(["cher", "abba"], [0, 1], [0.3, 0.9], SONGS)
    assert_same(flat, Log.of([["cher"], ["abba"]], [[0.0], [1.0]], [[0.3], [0.9]], SONGS))
    arrays = Log.of(np.array([2, 0]), np.array([False, True]), (0.3, 0.9), SONGS.to_numpy())
    assert_same(arrays, flat)


def test_columns_of_a_data_frame():
    shown = pd.DataFrame({"song": ["cher", "abba"], "click": [0, 1], "p": [0.3, 0.9]}, index=[7, 3])
    log = Log.of(shown["song"], shown["click"], shown["p"], SONGS)
    assert_same(log, Log.of(["cher", "abba"], [0, 1], [0.3, 0.9], SONGS))
    with pytest.raises(ItemsError, match="items and weights have different indexes"):
        Log.of(shown["song"], shown["click"].sort_index(), shown["p"], SONGS)


def test_wide_data_frames_pad_with_none():
    songs = pd.DataFrame({"first": ["cher", "bowie"], "second": ["abba", None]})
    clicks = pd.DataFrame({"first": [0.0, 1.0], "second": [1.0, np.nan]})
    chances = pd.DataFrame({"first": [0.3, 0.5], "second": [0.9, np.nan]})
    log = Log.of(songs, clicks, chances, SONGS)
    assert_same(log, Log.of(BY_ID, CLICKS, CHANCES, SONGS))


def test_a_data_frame_per_decision():
    warm = SONGS + 1.0
    log = Log.of(BY_ID, CLICKS, CHANCES, [SONGS, warm.iloc[[1, 2, 0]]])
    np.testing.assert_array_equal(log.Phi[1], warm.to_numpy())
    with pytest.raises(FeaturesError, match="decision 1: its data frame must have the rows"):
        Log.of(BY_ID, CLICKS, CHANCES, [SONGS, warm.iloc[:2]])
    with pytest.raises(FeaturesError, match="decision 1: its data frame must have the rows"):
        Log.of(BY_ID, CLICKS, CHANCES, [SONGS, warm.rename(columns={"tempo": "mood"})])


def test_available_by_id():
    mask = np.array([[True, False, True], [True, True, True]])
    everyone = set(SONGS.index)
    series = pd.Series([True, True, True], index=["cher", "abba", "bowie"])
    for available, expected in (
        ([{"abba", "cher"}, everyone], mask),
        (everyone, np.ones((2, 3), bool)),
        (series, np.ones((2, 3), bool)),
        (pd.DataFrame(mask[:, ::-1], columns=["cher", "bowie", "abba"]), mask),
    ):
        log = Log.of(BY_ID, CLICKS, CHANCES, SONGS, available=available)
        np.testing.assert_array_equal(log.available, expected)
    with pytest.raises(MaskError, match="decision 1: item bowie was chosen, but"):
        Log.of(BY_ID, CLICKS, CHANCES, SONGS, available={"abba", "cher"})
    with pytest.raises(MaskError, match="available must name each of the 3 items once"):
        Log.of(BY_ID, CLICKS, CHANCES, SONGS, available=series.iloc[:2])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([["cher", "nobody"], ["abba"]], "decision 0: item 'nobody' is not one of the 3 items; "),
        ([["cher", "cher"], ["abba"]], "decision 0: item 'cher' is repeated; items must be ids"),
        ([["cher", 0], ["abba"]], "decision 0: items must be a flat list of text, as the ids are"),
        ([[2, 0], [1]], "decision 0: items must be a flat list of text, as the ids are; got 0"),
        ([["cher", "abba"], "bowie"], "decision 1: items are a single value, but those of"),
        ([[["cher"], ["abba"]], ["bowie"]], "decision 0: items must be a flat list, got"),
        ([[None, None], [None]], "the log holds no items"),
    ],
)
def test_ids_that_are_refused(items, message):
    with pytest.raises(ItemsError, match=message):
        Log.of(items, CLICKS, CHANCES, SONGS)


def test_ids_of_another_number_of_items_are_refused():
    with pytest.raises(ItemsError, match="3 rows of features need as many ids, got 2"):
        Log.of(BY_ID, CLICKS, CHANCES, SONGS.to_numpy(), ids=["abba", "bowie"])
    with pytest.raises(ItemsError, match="item 'a' is there twice"):
        Log.of(BY_ID, CLICKS, CHANCES, SONGS.to_numpy(), ids=["a", "b", "a"])
    with pytest.raises(ItemsError, match="all whole numbers, all text"):
        Log.of(BY_ID, CLICKS, CHANCES, SONGS.to_numpy(), ids=["a", 1, "b"])

"""The best set of all items from the candidates of each part: the same items in the same order."""

import itertools
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import Knapsack, LaminarMatroid, Matroid, PartitionMatroid, Quota, Slate, TopK
from superarm.errors import InfeasibleError, ItemsError, OracleError, WeightsError

GROUPS = np.random.default_rng(0).integers(0, 3, 40)
NESTED = [range(0, 30, 2), range(0, 12, 2), [14, 20, 22], [1, 3, 5, 7, 9], [31, 33, 39]]


def is_forest(edges):
    """Whether edges, the 45 pairs of ten points less five, close no circle."""
    tree = list(range(10))
    for e in edges:
        a, b = (tree[point] for point in PAIRS[e])
        if a == b:
            return False
        tree = [b if x == a else x for x in tree]
    return True


PAIRS = list(itertools.combinations(range(10), 2))[:40]
ORACLES = [
    TopK(5),
    TopK(5, at_most=True),
    Slate(3, examination=[0.5, 1.0, 0.3]),
    Quota(GROUPS, {0: 2, 1: 3, 2: 0}),
    Quota(GROUPS, total=6, minimum={0: 1}, maximum={1: 2}),
    Quota(GROUPS, total=6, maximum={1: 2}),
    PartitionMatroid(GROUPS, {0: 2, 1: 1, 2: 4}),
    PartitionMatroid(GROUPS, {0: 2, 1: 1, 2: 4}, bases=False),
    LaminarMatroid(40, sets=NESTED, capacities=[4, 2, 2, 1, 0]),
    LaminarMatroid(40, sets=NESTED, capacities=[4, 2, 2, 1, 0], bases=False),
    LaminarMatroid(40, sets=[range(40), range(20), range(5, 15)], capacities=[6, 4, 2]),
    Matroid(40, is_forest),
    Matroid(40, is_forest, bases=False),
]


def by_parts(oracle, w, cuts):
    parts = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, len(w)], strict=True)]
    return oracle.merged([oracle.part(part).candidates(w[part]) for part in parts])


@given(
    st.sampled_from(ORACLES),
    st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, 2.0]), min_size=40, max_size=40),
    st.lists(st.integers(0, 40), max_size=5),
)
@settings(max_examples=300)
def test_parts_make_the_whole_with_its_ties(oracle, weights, cuts):
    """Few different weights, so that nearly all are tied."""
    w = np.array(weights)
    try:
        whole = oracle(w)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            by_parts(oracle, w, sorted(cuts))
        return
    np.testing.assert_array_equal(by_parts(oracle, w, sorted(cuts)), whole)


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
def test_parts_that_are_not_runs_in_any_order(oracle):
    rng = np.random.default_rng(1)
    for _ in range(50):
        w = rng.integers(-2, 3, 40).astype(float)
        places = [np.flatnonzero(rng.integers(0, 3, 40) == 0)]
        places.append(np.setdiff1d(np.arange(40), places[0]))
        parts = [pickle.loads(pickle.dumps(oracle.part(items))) for items in places]
        found = [part.candidates(w[items]) for part, items in zip(parts, places, strict=True)]
        np.testing.assert_array_equal(oracle.merged(found[::-1]), oracle(w))


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
def test_parts_of_which_no_item_is_available(oracle):
    w = np.full(40, -np.inf)
    try:
        whole = oracle(w)
    except InfeasibleError as error:
        with pytest.raises(InfeasibleError, match=re.escape(str(error))):
            by_parts(oracle, w, [20])
        return
    np.testing.assert_array_equal(by_parts(oracle, w, [20]), whole)


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
def test_candidates_are_few(oracle):
    part = oracle.part(slice(0, 40))
    found = part.candidates(np.random.default_rng(0).random(40))
    most = 2 * oracle.K + 4
    assert len(found.w) == len(found.items) <= most
    assert (np.diff(found.items) > 0).all()


def test_weights_of_a_part_are_checked():
    with pytest.raises(WeightsError, match="the weight of item 12 is inf"):
        TopK(2).part(slice(10, 13)).candidates(np.array([0.0, 0.1, np.inf]))
    for oracle in ORACLES[-5:]:
        with pytest.raises(WeightsError, match="the weight of item 12 is nan"):
            oracle.part(slice(10, 13)).candidates(np.array([0.0, 0.1, np.nan]))
    with pytest.raises(WeightsError, match="must be numbers"):
        TopK(2).part(slice(10, 13)).candidates(np.array(["a", "b", "c"]))


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
@pytest.mark.parametrize("items", [slice(10, 13), slice(None, 3), np.array([3, 5, 39])], ids=str)
def test_a_part_needs_as_many_weights_as_it_has_items(oracle, items):
    part = oracle.part(items)
    for n in (0, 2, 4, 100):
        with pytest.raises(WeightsError, match=rf"needs 3 weights, .* got shape \({n},\)"):
            part.candidates(np.ones(n))
    for shape in ((2, 3), (1, 3)):
        with pytest.raises(WeightsError, match="one row of weights at a time, got shape"):
            part.candidates(np.ones(shape))
    part.candidates(np.ones(3))


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
@pytest.mark.parametrize(
    ("items", "says"),
    [
        (slice(0, 40, 2), "one after the other"),
        (slice(-5, None), "one after the other"),
        (slice(0, -1), "one after the other"),
        (np.arange(40) < 3, "list of the numbers"),
        ([0.0, 1.0], "list of the numbers"),
        (np.ones((2, 2), int), "list of the numbers"),
        ([-1, 2], "increasing order"),
        ([3, 2], "increasing order"),
        ([2, 2], "increasing order"),
    ],
    ids=str,
)
def test_items_that_are_no_part_are_refused(oracle, items, says):
    with pytest.raises(ItemsError, match=says):
        oracle.part(items)
    if oracle.L is not None:
        with pytest.raises(ItemsError, match="the 40 items in increasing order"):
            oracle.part([3, 40])
    assert not len(oracle.part([]).items)
    oracle.part([3, 5]).candidates(np.ones(2))


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
def test_a_part_may_go_on_to_the_last_item(oracle):
    w = np.random.default_rng(0).random(40)
    first = oracle.part(slice(0, 35)).candidates(w[:35])
    open_slices = [slice(35, None)] if oracle.L is None else [slice(35, None), slice(35, 100)]
    for items in open_slices:
        last = oracle.part(items).candidates(w[35:])
        np.testing.assert_array_equal(oracle.merged([first, last]), oracle(w))


@pytest.mark.parametrize("items", [slice(35, None), slice(35, 100), slice(40, None)], ids=str)
def test_where_an_oracle_knows_its_items_a_part_ends_where_they_do(items):
    for oracle in ORACLES:
        if oracle.L is not None:
            with pytest.raises(WeightsError, match=r"needs [05] weights"):
                oracle.part(items).candidates(np.ones(6))


def test_ties_of_nested_sets_go_to_the_lowest_index():
    """As the greedy algorithm has it, from which the test of independence is independent."""
    inner, outer = range(5, 15), range(20)

    def independent(items):
        in_inner = sum(e in inner for e in items)
        in_outer = sum(e in outer for e in items)
        return in_inner <= 2 and in_outer <= 4 and len(items) <= 6

    greedy = Matroid(25, independent)
    laminar = LaminarMatroid(25, sets=[range(25), outer, inner], capacities=[6, 4, 2])
    rng = np.random.default_rng(3)
    for _ in range(200):
        w = rng.integers(0, 3, 25).astype(float)
        np.testing.assert_array_equal(laminar(w), np.sort(greedy(w)))


def test_others_say_that_they_cannot():
    oracle = Knapsack(np.ones(4), 2.0)
    assert oracle.part(slice(0, 2)) is None
    with pytest.raises(OracleError, match="cannot be solved by parts"):
        oracle.merged([])

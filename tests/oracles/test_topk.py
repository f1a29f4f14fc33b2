import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import Quota, TopK
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.testing import check_oracle

weights = st.lists(
    st.one_of(st.floats(-1e6, 1e6), st.integers(-2, 2).map(float), st.just(-np.inf)),
    min_size=1,
    max_size=9,
)


def test_contract():
    for k in (1, 3, 6):
        check_oracle(TopK(k), 6, family=itertools.combinations(range(6), k))
    subsets = [s for size in range(4) for s in itertools.combinations(range(6), size)]
    check_oracle(TopK(3, at_most=True), 6, family=subsets)
    for counts in ({"a": 2, "b": 1}, {"a": 0, "b": 3}, {"a": 3, "b": 3}):
        family = [
            (*a, *b)
            for a in itertools.combinations((0, 2, 4), counts["a"])
            for b in itertools.combinations((1, 3, 5), counts["b"])
        ]
        check_oracle(Quota(list("ababab"), counts), 6, family=family)


@settings(max_examples=200)
@given(weights, st.integers(1, 9))
def test_ties_go_to_the_lowest_index(w, k):
    w = np.array(w)
    available = int((w > -np.inf).sum())
    if available < k:
        with pytest.raises(InfeasibleError, match=rf"TopK\(k={k}, at_most=False\)"):
            TopK(k)(w)
        return
    assert TopK(k)(w).tolist() == np.argsort(-w, kind="stable")[:k].tolist()


@settings(max_examples=200)
@given(weights, st.integers(1, 9))
def test_at_most_k_skips_what_is_not_positive(w, k):
    w = np.array(w)
    expected = [e for e in np.argsort(-w, kind="stable")[:k] if w[e] > 0]
    assert TopK(k, at_most=True)(w).tolist() == expected + [-1] * (k - len(expected))


def test_more_items_than_there_are():
    with pytest.raises(InfeasibleError, match="more items than the 3 there are"):
        TopK(5)(np.zeros(3))
    assert TopK(5, at_most=True)(np.ones(3)).tolist() == [0, 1, 2, -1, -1]


def test_labels_may_be_of_any_type():
    assert Quota([1, "a", None, 1], {1: 1, "a": 1, None: 1})(np.arange(4.0)).tolist() == [3, 1, 2]
    pairs = [("x", 1), ("x", 2), ("x", 1)]
    assert Quota(pairs, {("x", 1): 1, ("x", 2): 1})(np.arange(3.0)).tolist() == [2, 1]
    mixed = np.array(["f", None, "f"], dtype=object)
    assert Quota(mixed, {"f": 1, None: 1})(np.arange(3.0)).tolist() == [2, 1]


def test_an_upper_bound_on_an_empty_group_does_not_matter():
    assert Quota([0, 0, 1], total=2, maximum={0: 1, 2: 3})(np.arange(3.0)).tolist() == [1, 2]


def test_large_ground_sets_against_sorting():
    rng = np.random.default_rng(0)
    w = rng.integers(0, 5000, 100_000).astype(float)
    assert TopK(100)(w).tolist() == np.argsort(-w, kind="stable")[:100].tolist()
    women = rng.random(100_000) < 0.33
    A = Quota(women, {True: 50, False: 50})(w)
    for group, chosen in ((False, A[:50]), (True, A[50:])):
        members = np.flatnonzero(women == group)
        assert chosen.tolist() == members[np.argsort(-w[members], kind="stable")[:50]].tolist()


@pytest.mark.parametrize("available", [1.0, 0.1])
def test_many_items_with_ties_against_sorting(available):
    rng = np.random.default_rng(0)
    for _ in range(200):
        L = rng.integers(256, 700)
        k = rng.integers(2, 64)
        w = np.round(rng.standard_normal(L) * rng.integers(1, 9))
        w[rng.random(L) > available] = -np.inf
        order = np.argsort(-w, kind="stable")[:k]
        positive = order[w[order] > 0].tolist()
        assert TopK(k, at_most=True)(w).tolist() == positive + [-1] * (k - len(positive))
        if (w > -np.inf).sum() >= k:
            assert TopK(k)(w).tolist() == order.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 200, 299])
def test_bad_weights_among_many_items(bad, place):
    w = np.random.default_rng(0).standard_normal(300)
    w[place] = bad
    with pytest.raises(WeightsError, match=str(place)):
        TopK(10)(w)


def test_weights_may_be_strided_or_integers():
    w = np.arange(20)[::2]
    assert TopK(2)(w).tolist() == [9, 8]
    assert TopK(2)(np.arange(20.0).reshape(10, 2).T).tolist() == [[9, 8], [9, 8]]


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_topk_refuses_k(k):
    with pytest.raises(ParameterError, match="k must be a whole number of at least 1"):
        TopK(k)


@pytest.mark.parametrize(
    ("groups", "counts", "error", "message"),
    [
        (["f", "m"], {"f": 1}, ParameterError, "missing: 'm'"),
        (["f", "m"], {"f": 2, "m": 1}, InfeasibleError, "group 'f' has 1 items, fewer than its 2"),
        (
            ["f", "m"],
            {"f": 1, "m": 1, "x": 1},
            ParameterError,
            "count names group 'x', which has no items",
        ),
        (
            ["f", "m"],
            {"f": -1, "m": 1},
            ParameterError,
            "count of group 'f' must be a whole number",
        ),
        (
            ["f", "m"],
            {"f": 0.5, "m": 1},
            ParameterError,
            "count of group 'f' must be a whole number",
        ),
        ([], {}, ParameterError, "group of each item"),
        (np.array([["f"]]), {"f": 1}, ParameterError, "group of each item"),
        (["f", "m"], [1, 1], ParameterError, "count must be given for each group"),
    ],
)
def test_quota_refuses(groups, counts, error, message):
    with pytest.raises(error, match=message):
        Quota(groups, counts)


def test_quota_refuses_a_wrong_number_of_weights_and_bad_weights_in_unused_groups():
    oracle = Quota([0, 0, 1], {0: 1, 1: 0})
    with pytest.raises(WeightsError, match="3 weights, one per item"):
        oracle(np.zeros(4))
    with pytest.raises(WeightsError, match="item 2 is inf"):
        oracle(np.array([0.0, 0.0, np.inf]))
    assert repr(oracle) == "Quota(3 items in 2 groups, total=1)"


def test_quota_with_a_total_under_the_contract():
    family = [s for s in itertools.combinations(range(6), 3) if 1 <= sum(e % 2 for e in s) <= 2]
    check_oracle(Quota([0, 1] * 3, total=3, minimum={1: 1}, maximum={1: 2}), 6, family=family)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ParameterError, "either counts, or a total"),
        ({"counts": {0: 1, 1: 1}, "total": 2}, ParameterError, "either counts, or a total"),
        ({"counts": {0: 1, 1: 1}, "minimum": {0: 1}}, ParameterError, "either counts, or a total"),
        ({"total": 1.5}, ParameterError, "total must be a whole number"),
        ({"total": 5}, InfeasibleError, "the total is 5, but the groups allow 0 to 4 items"),
        ({"total": 1, "minimum": {0: 2}}, InfeasibleError, "the groups allow 2 to 4 items"),
        (
            {"total": 3, "minimum": {0: 2}, "maximum": {0: 1}},
            InfeasibleError,
            "a minimum of 2 above its maximum of 1",
        ),
        ({"total": 3, "minimum": {0: 3}}, InfeasibleError, "group 0 has 2 items, fewer than its 3"),
        (
            {"total": 3, "minimum": {7: 1}},
            ParameterError,
            "minimum names group 7, which has no items",
        ),
    ],
)
def test_quota_with_a_total_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        Quota([0, 1, 0, 1], **arguments)


def test_a_large_batch_runs_in_parallel_and_equals_its_rows():
    W = np.random.default_rng(3).standard_normal((600, 500))
    quota = Quota(np.arange(500) % 3, total=20, maximum={0: 5})
    for oracle in (TopK(10), quota):
        np.testing.assert_array_equal(oracle(W), np.stack([oracle(w) for w in W]))

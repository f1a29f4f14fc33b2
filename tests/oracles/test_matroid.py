import itertools

import numpy as np
import pytest

from superarm import LaminarMatroid, Matroid, PartitionMatroid
from superarm.errors import ItemsError, ParameterError, WeightsError
from superarm.testing import check_oracle


def subsets(L):
    return [s for k in range(L + 1) for s in itertools.combinations(range(L), k)]


def independent_sets(L, sets, capacities):
    return [
        s
        for s in subsets(L)
        if all(len(set(s) & set(a)) <= k for a, k in zip(sets, capacities, strict=True))
    ]


def bases(family):
    rank = max(map(len, family))
    return [s for s in family if len(s) == rank]


def test_contract():
    sets, capacities = [[0, 1], [0, 1, 2, 3]], [1, 2]
    family = independent_sets(6, sets, capacities)
    check_oracle(LaminarMatroid(6, sets=sets, capacities=capacities), 6, family=bases(family))
    check_oracle(LaminarMatroid(6, sets=sets, capacities=capacities, bases=False), 6, family=family)
    groups, caps = [0, 0, 0, 1, 1], {0: 2, 1: 9}
    family = independent_sets(5, [[0, 1, 2], [3, 4]], [2, 9])
    check_oracle(PartitionMatroid(groups, caps), 5, family=bases(family))
    check_oracle(PartitionMatroid(groups, caps, bases=False), 5, family=family)
    check_oracle(
        Matroid(5, lambda items: len(items) <= 3), 5, family=itertools.combinations(range(5), 3)
    )


def test_a_large_laminar_family_against_sorting_and_greedy():
    rng = np.random.default_rng(0)
    L = 20_000
    city, country = rng.integers(0, 300, L), np.arange(300) % 10
    sets = [np.flatnonzero(city == c) for c in range(300)] + [
        np.flatnonzero(country[city] == c) for c in range(10)
    ]
    sets.append(np.arange(L))
    capacities = [3] * 300 + [40] * 10 + [250]
    w = rng.standard_normal(L)
    left = dict(enumerate(capacities))
    chosen = []
    for e in np.argsort(-w, kind="stable"):
        holders = [city[e], 300 + country[city[e]], 310]
        if all(left[s] for s in holders):
            chosen.append(int(e))
            for s in holders:
                left[s] -= 1
    oracle = LaminarMatroid(L, sets=sets, capacities=capacities)
    assert oracle(w).tolist() == sorted(chosen)
    W = rng.standard_normal((14, L))  # enough for all cores
    np.testing.assert_array_equal(oracle(W), np.stack([oracle(w) for w in W]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"L": 0, "sets": [], "capacities": []}, ParameterError, "L must be a whole number"),
        (
            {"sets": [[0, 1]], "capacities": []},
            ParameterError,
            "1 sets need as many capacities, got 0",
        ),
        (
            {"sets": [[0, 1], [1, 2]], "capacities": [1, 1]},
            ParameterError,
            "set 0 and set 1 overlap",
        ),
        (
            {"sets": [[0, 9]], "capacities": [1]},
            ItemsError,
            "set 0: item 9 is not one of the items",
        ),
        ({"sets": [[0, 0]], "capacities": [1]}, ItemsError, "set 0: item 0 is repeated"),
        ({"sets": [[]], "capacities": [1]}, ItemsError, "set 0 is empty"),
        (
            {"sets": [[0]], "capacities": [-1]},
            ParameterError,
            "capacity of set 0 must be a whole number",
        ),
    ],
)
def test_laminar_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        LaminarMatroid(**{"L": 4, **arguments})


def test_a_group_without_items_may_have_a_capacity():
    assert PartitionMatroid([0, 0, 1], {0: 1, 1: 1, 2: 1})(np.arange(3.0)).tolist() == [1, 2]


def test_partition_refuses():
    with pytest.raises(ParameterError, match="capacity must name every group; missing: 'b'"):
        PartitionMatroid(["a", "b"], {"a": 1})
    with pytest.raises(ParameterError, match="capacity of group 'a' must be a whole number"):
        PartitionMatroid(["a"], {"a": -1})
    with pytest.raises(WeightsError, match="2 weights"):
        PartitionMatroid(["a", "b"], {"a": 1, "b": 1})(np.zeros(3))
    assert (
        repr(PartitionMatroid(["a", "b"], {"a": 1, "b": 1}))
        == "PartitionMatroid(2 items in 2 groups, bases)"
    )


def test_matroid_refuses():
    with pytest.raises(ParameterError, match="the empty set must be independent"):
        Matroid(3, lambda items: False)
    with pytest.raises(ParameterError, match="L must be"):
        Matroid(0, lambda items: True)
    with pytest.raises(WeightsError, match="3 weights"):
        Matroid(3, lambda items: True)(np.zeros(4))


def test_a_matroid_is_asked_until_its_rank_is_reached():
    asked = []

    def at_most_three(items):
        asked.append(items)
        return len(items) <= 3

    oracle = Matroid(1000, at_most_three)
    del asked[:]
    w = np.random.default_rng(0).random(1000)
    assert oracle(w).tolist() == np.argsort(-w)[:3].tolist()
    assert len(asked) == 3


def test_what_is_no_matroid_is_refused_by_name():
    price = np.array([3.0, 1.0, 1.0, 1.0])

    def affordable(items):
        return price[items].sum() <= 3.0

    with pytest.raises(
        ParameterError, match=r"no matroid: neither \[0\] nor \[3, 2, 1\] can be ext"
    ):
        Matroid(4, affordable)
    with pytest.raises(
        ParameterError, match=r"no matroid: \[0, 1, 2\] is independent, but its part"
    ):
        Matroid(3, lambda items: items == [0, 1, 2][: len(items)])


def test_what_shows_late_to_be_no_matroid_is_refused_by_name():
    """One pair of 40 items blocks all others, which no order that is tried before begins with."""

    def independent(items):
        blocked = {17, 23} <= set(items)
        return len(items) <= (2 if blocked else 3)

    oracle = Matroid(40, independent)
    w = np.zeros(40)
    assert len(oracle(w)) == 3
    w[[17, 23]] = 1.0
    with pytest.raises(ParameterError, match=r"this is no matroid: neither .* nor \[17, 23\] can"):
        oracle(w)


@pytest.mark.parametrize("kind", [set, frozenset, tuple, np.array, dict.fromkeys])
def test_laminar_families_of_sets(kind):
    w = np.random.default_rng(0).random(6)
    lists = [[0, 1], [0, 1, 2, 3]]
    oracle = LaminarMatroid(6, sets=[kind(items) for items in lists], capacities=[1, 2])
    expected = LaminarMatroid(6, sets=lists, capacities=[1, 2])
    assert oracle(w).tolist() == expected(w).tolist()
    assert LaminarMatroid(6, sets=[range(4)], capacities=[2]).K == 4

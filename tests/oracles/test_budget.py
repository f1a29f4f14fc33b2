import itertools

import numpy as np
import pandas as pd
import pytest

from superarm import Agent, Budget, CombLinTS, Knapsack, Milp
from superarm.errors import ParameterError, WeightsError
from superarm.testing import check_oracle


def value(w, A):
    return w[A[A >= 0]].sum()


def subsets(costs, budget, groups, most, max_items=None):
    """Every feasible set as a row of 0 and 1, where costs that round to the budget fit it."""
    X = np.array(list(itertools.product([0, 1], repeat=len(costs))))
    fits = np.array(costs) @ X.T <= budget * (1 + 1e-12)
    for g, m in most.items():
        fits &= X[:, np.array(groups) == g].sum(axis=1) <= m
    if max_items is not None:
        fits &= X.sum(axis=1) <= max_items
    return X[fits]


def constraints(costs, groups, labels):
    """The rows of Milp: the costs, and the members of each group."""
    return np.vstack([costs, [groups == g for g in labels]]).astype(float)


@pytest.mark.parametrize("max_items", [None, 1, 2])
@pytest.mark.parametrize(
    ("costs", "budget"),
    [([3.0, 1.0, 2.0, 2.0, 5.0, 0.0], 5), ([0.1, 0.2, 0.3, 0.15, 0.7, 0.25], 0.6)],
)
def test_contract(costs, budget, max_items):
    groups = ["a", "b", "a", "b", "a", "c"]
    most = {"a": 1, "b": 2}
    oracle = Budget(costs, budget, groups=groups, maximum=most, max_items=max_items)
    assert oracle.gap == 0
    sets = subsets(costs, budget, groups, most, max_items)
    check_oracle(oracle, 6, family=[np.flatnonzero(x) for x in sets])


@pytest.mark.parametrize("kind", ["normal", "follow the price", "equal to the price", "whole"])
@pytest.mark.parametrize("effort", [1, 500_000])
def test_larger_ones_against_highs(kind, effort):
    rng = np.random.default_rng(0)
    for n, labels, each, most in ((30, 4, 2, 6), (60, 20, 1, 9), (150, 10, 3, 12)):
        c = rng.uniform(1, 10, n)
        if kind == "whole":
            c = np.ceil(c)
        w = {
            "normal": rng.standard_normal(n) + 0.5,
            "follow the price": 1 + c + 0.1 * rng.standard_normal(n),
            "equal to the price": c,
            "whole": c + rng.integers(0, 3, n),
        }[kind]
        groups = rng.integers(0, labels, n)
        budget = 3.0 * most
        A, gap = Budget(
            c, budget, groups=groups, maximum=each, max_items=most, effort=effort
        ).solve_with_gap(w)
        rows = constraints(c, groups, range(labels))
        exact = Milp(rows, np.r_[budget, [each] * labels], max_items=most, gap=1e-3)
        best = value(w, exact(w))
        chosen = A[A >= 0]
        assert c[chosen].sum() <= budget * (1 + 1e-11)
        assert len(chosen) <= most
        assert np.bincount(groups[chosen]).max() <= each
        assert value(w, A) >= (1 - gap) * best * (1 - 1e-11)
        assert value(w, A) <= best * (1 + 2e-3)
        assert gap < 0.05


@pytest.mark.parametrize(("labels", "each", "most"), [(10, 3, 12), (200, 2, 50), (500, 5, 300)])
def test_ten_thousand_items_lack_less_than_a_thousandth(labels, each, most):
    rng = np.random.default_rng(0)
    for follows, noise in ((0.0, 1.0), (0.5, 1.0), (1.0, 0.1), (1.0, 0.0)):
        c = rng.uniform(1, 10, 10_000)
        w = follows * c + noise * 10 * rng.random(10_000)
        groups = rng.integers(0, labels, 10_000)
        oracle = Budget(c, 3.0 * most, groups=groups, maximum=each, max_items=most)
        assert oracle.gap is None
        A, gap = oracle.solve_with_gap(w)
        chosen = A[A >= 0]
        assert c[chosen].sum() <= 3.0 * most * (1 + 1e-11)
        assert np.bincount(groups[chosen]).max() <= each
        assert gap < 1e-3
        np.testing.assert_array_equal(oracle(w), A)


def test_without_limits_it_is_a_knapsack():
    rng = np.random.default_rng(0)
    c = rng.integers(1, 20, 40).astype(float)
    W = rng.standard_normal((2, 3, 40))
    for max_items in (None, 6):
        found = Budget(c, 90, groups=np.zeros(40), maximum=40, max_items=max_items)
        knapsack = Knapsack(c, 90, max_items=max_items)
        assert found.K == knapsack.K
        np.testing.assert_array_equal(found(W), knapsack(W))


def test_degenerate_sizes():
    w = np.array([1.0, 2.0, 3.0])
    groups = ["a", "a", "b"]
    assert Budget([1, 2, 3], 0, groups=groups, maximum=1)(w).shape == (0,)
    assert Budget([1, 2, 3], 9, groups=groups, maximum=0)(w).shape == (0,)
    assert Budget([1, 2, 3], 9, groups=groups, maximum={"a": 0})(w).tolist() == [2]
    assert Budget([1, 2, 3], 9, groups=groups, maximum=1)(w).tolist() == [1, 2]
    assert Budget([0, 0, 0], 0, groups=groups, maximum=2)(w).tolist() == [0, 1, 2]
    assert Budget([1, 2, 3], 9, groups=groups, maximum=2)(np.empty((0, 3))).shape == (0, 3)
    assert Budget([1, 2, 3], 9, groups=groups, maximum=2)(-w).tolist() == [-1, -1, -1]
    oracle = Budget([1, 2, 3], 9, groups=groups, maximum=2, max_items=2)
    assert repr(oracle) == "Budget(3 items in 2 groups, budget=9, at most 2)"


def test_costs_and_groups_by_id_in_any_order():
    rng = np.random.default_rng(0)
    ids = [f"item {i}" for i in range(12)]
    fee = pd.Series(rng.uniform(1, 10, 12), index=ids)
    topic = pd.Series(rng.choice(["a", "b", "c"], 12), index=ids).sample(frac=1, random_state=0)
    frame = pd.DataFrame(rng.standard_normal((12, 3)), index=ids)
    oracle = Budget(fee.sample(frac=1, random_state=1), 20.0, groups=topic, maximum=1)
    agent = Agent(CombLinTS(), features=frame, oracle=oracle, seed=0)
    for _ in range(20):
        chosen = agent.choose()
        assert fee[chosen].sum() <= 20
        assert topic[chosen].is_unique
        agent.observe(chosen, rng.random(len(chosen)))


def test_bad_weights_are_refused():
    oracle = Budget([1.0, 9.0, 1.0], 2.0, groups=[0, 0, 1], maximum=1)
    for bad in (np.nan, np.inf):
        with pytest.raises(WeightsError, match=f"item 1 is {bad}"):
            oracle(np.array([1.0, bad, 1.0]))
        with pytest.raises(WeightsError, match=f"item 1 is {bad}"):
            oracle.solve_with_gap(np.array([1.0, bad, 1.0]))
    with pytest.raises(WeightsError, match="3 weights, one per item"):
        oracle(np.zeros(4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs": [1.0, -2.0]}, "costs must be finite and not negative: item 1 costs -2.0"),
        ({"costs": [1.0]}, "costs and groups must have one entry per item, got 1 and 2"),
        ({"budget": -1.0}, "budget must be a finite number, 0 or more, got -1.0"),
        ({"groups": []}, "groups must name the group of each item"),
        ({"groups": {"x": "a", "y": "b"}}, "costs and groups must name the same items"),
        (
            {"costs": {"x": 1.0, "y": 2.0}, "groups": {"x": "a", "z": "b"}},
            "costs and groups must name the same items",
        ),
        ({"maximum": -1}, "maximum of group 'a' must be a whole number, 0 or more, got -1"),
        ({"maximum": {"a": 0.5}}, "maximum of group 'a' must be a whole number"),
        ({"max_items": 0}, "max_items must be a whole number of at least 1"),
        ({"effort": 0}, "effort must be a whole number of at least 1"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    settings = {"costs": [1.0, 2.0], "budget": 2.0, "groups": ["a", "b"], "maximum": 1} | changes
    with pytest.raises(ParameterError, match=message):
        Budget(**settings)

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import Knapsack, Milp
from superarm.errors import ParameterError, WeightsError
from superarm.oracles import core, knapsack
from superarm.testing import check_oracle


def value(w, A):
    return w[A[A >= 0]].sum()


def family(costs, budget, max_items=None):
    """Every feasible set, where costs that round to the budget fit it."""
    sizes = range(min(len(costs), len(costs) if max_items is None else max_items) + 1)
    subsets = itertools.chain(*(itertools.combinations(range(len(costs)), size) for size in sizes))
    return [s for s in subsets if sum(costs[e] for e in s) <= budget * (1 + 1e-12)]


def best_by_cost(w, c, budget, max_items=None):
    """The textbook dynamic program over whole costs: best[k, b] with at most k items of total cost
    at most b."""
    best = np.zeros((1 if max_items is None else max_items + 1, budget + 1))
    with_it, without = (best, best) if max_items is None else (best[1:], best[:-1])
    for we, ce in zip(w, c.astype(int), strict=True):
        if ce <= budget:
            with_it[:, ce:] = np.maximum(with_it[:, ce:], without[:, : budget + 1 - ce] + we)
    return best[-1, -1]


@pytest.mark.parametrize("max_items", [None, 1, 2, 6])
@pytest.mark.parametrize(
    ("costs", "budget"),
    [([3.0, 1.0, 2.0, 2.0, 5.0, 0.0], 5), ([0.1, 0.2, 0.3, 0.15, 0.7, 0.25], 0.6)],
)
def test_contract(costs, budget, max_items):
    for gap in (0.0, 0.3):
        oracle = Knapsack(costs, budget, max_items=max_items, gap=gap)
        check_oracle(oracle, 6, family=family(costs, budget, max_items))
        assert oracle.gap == gap


def test_the_search_is_compiled_once():
    """Whatever the arrays and numbers given are like."""
    costs = np.array([3.0, 1.0, 2.0])
    weights = np.array([0.5, 0.1, 0.9])
    weights.flags.writeable = False
    for c in (costs, np.repeat(costs, 2)[::2], np.array([3, 1, 2], np.int32), [3, 1, 2]):
        for budget in (5, 5.0, np.int64(5)):
            assert Knapsack(c, budget, gap=0)(weights).tolist() == [0, 2]
            assert Knapsack(c, budget).solve_with_gap(weights)[0].tolist() == [0, 2]
    assert len(core.solve.kernel().overloads) == 1


@settings(max_examples=200)
@given(st.integers(1, 60), st.integers(0, 10**6), st.integers(0, 20), st.booleans())
def test_strongly_correlated_weights_against_dynamic_programming(n, seed, constant, capped):
    rng = np.random.default_rng(seed)
    c = rng.integers(1, 100, n).astype(float)
    budget = int(rng.random() * c.sum())
    max_items = int(rng.integers(1, n + 1)) if capped else n
    A = Knapsack(c, budget, max_items=max_items)(c + constant)
    assert c[A[A >= 0]].sum() <= budget and (A >= 0).sum() <= max_items
    assert value(c + constant, A) == best_by_cost(c + constant, c, budget, max_items)


@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("max_items", [None, 40])
def test_larger_ones_against_dynamic_programming(n, max_items):
    rng = np.random.default_rng(n)
    c = rng.integers(1, 50, n).astype(float)
    for w in (
        rng.random(n),
        c + 5,
        np.maximum(c + rng.integers(-5, 6, n), 1),
        c,
        c + 0.1 * rng.random(n),
    ):
        A = Knapsack(c, 2000, max_items=max_items)(w)
        assert c[A[A >= 0]].sum() <= 2000
        assert value(w, A) == pytest.approx(best_by_cost(w, c, 2000, max_items), rel=1e-11)


@pytest.mark.parametrize("max_items", [None, 12])
def test_real_costs_against_highs(max_items):
    rng = np.random.default_rng(3)
    for n in (5, 40, 100):
        c, W = rng.random(n), rng.standard_normal((5, n)) + 0.5
        A = Knapsack(c, 0.3 * c.sum(), max_items=max_items)(W)
        B = Milp(c[None], [0.3 * c.sum()], max_items=max_items)(W)
        for w, a, b in zip(W, A, B, strict=True):
            assert c[a[a >= 0]].sum() <= 0.3 * c.sum() * (1 + 1e-11)
            assert value(w, a) == pytest.approx(value(w, b), rel=1e-11)


@pytest.mark.parametrize("gap", [0.01, 0.1, 0.5])
def test_gap_is_kept(gap):
    rng = np.random.default_rng(0)
    stopped = 0
    for trial in range(200):
        n = int(rng.integers(1, 80))
        c = rng.random(n) if trial % 2 else rng.integers(0, 30, n).astype(float)
        w = rng.random(n) * 10.0 ** rng.integers(-4, 4) if trial % 6 else c + 0.1
        max_items = None if trial % 5 else int(rng.integers(1, n + 1))
        budget = rng.random() * c.sum()
        best = value(w, Knapsack(c, budget, max_items=max_items)(w))
        found = value(w, Knapsack(c, budget, max_items=max_items, gap=gap)(w))
        assert found >= (1 - gap) * best
        stopped += found < best * (1 - 1e-9)
    assert stopped


def linear_bound(w, c, budget):
    """The bound of linear programming: the best by weight per cost, the last one in part."""
    order = np.argsort(-w / c)
    whole = np.searchsorted(np.cumsum(c[order]), budget)
    left = budget - c[order[:whole]].sum()
    last = order[whole]
    return w[order[:whole]].sum() + left * w[last] / c[last]


def priced(n, seed):
    """Prices, and weights that depend on little but the price."""
    rng = np.random.default_rng(seed)
    c = rng.uniform(1, 10, n)
    fixed = rng.choice([0.0, 0.3, 5.0])
    noise = rng.choice([0.0, 1e-6, 1e-3, 1e-2])
    return c, fixed + rng.uniform(0.5, 2) * c + noise * rng.standard_normal(n)


@pytest.mark.parametrize(("n", "draws"), [(50, 12), (100, 12), (1000, 12), (10_000, 6)])
def test_weights_that_follow_the_price_end_within_the_limit(n, draws):
    gaps = []
    for seed in range(draws):
        c, w = priced(n, [n, seed])
        A, gap = Knapsack(c, 0.3 * c.sum()).solve_with_gap(w)
        chosen = A[A >= 0]
        assert c[chosen].sum() <= 0.3 * c.sum() * (1 + 1e-11)
        assert gap <= 1 - w[chosen].sum() / linear_bound(w, c, 0.3 * c.sum()) + 1e-11
        gaps.append(float(gap))
    assert np.median(gaps) < 1e-4
    assert max(gaps) < 1e-2
    assert max(gaps) > 0  # some were too hard


def test_gaps_come_in_the_shape_of_the_batch_and_are_zero_where_proven():
    rng = np.random.default_rng(0)
    c = rng.uniform(1, 10, 60)
    W = np.stack([c, rng.random(60), 2 * c, rng.random(60)]).reshape(2, 2, 60)
    oracle = Knapsack(c, 100.0, effort=20_000)
    A, gap = oracle.solve_with_gap(W)
    np.testing.assert_array_equal(A, oracle(W))
    assert gap.shape == (2, 2)
    assert (gap[:, 0] > 0).all()
    assert (gap[:, 1] == 0).all()


def test_the_promise_is_what_no_weights_can_break():
    prices = np.random.default_rng(0).uniform(1, 10, 40)
    assert Knapsack(prices, 50.0).gap == 0.5
    assert Knapsack(prices, 50.0, effort=None).gap == 0
    assert Knapsack(prices, 50.0, effort=None, time_limit=1.0).gap == 0.5
    assert Knapsack(prices[:15], 20.0).gap == 0
    assert Knapsack(np.ceil(prices), 50.0).gap == 0
    assert Knapsack(np.ceil(prices), 50.0, gap=0.1).gap == 0.1
    assert Knapsack(np.ceil(prices), 50.0, effort=1000).gap == 0.5


@pytest.mark.parametrize("max_items", [None, 5, 40])
def test_the_promise_holds_where_the_effort_just_suffices(max_items):
    """The hardest weights for whole costs: as many states as there are totals."""
    rng = np.random.default_rng(0)
    for n in (10, 30, 60):
        c = rng.integers(1, 12, n).astype(float)
        for budget in (0.3, 0.6):
            steps = 1
            while Knapsack(c, budget * c.sum(), max_items=max_items, effort=steps).gap:
                steps *= 2
            oracle = Knapsack(c, budget * c.sum(), max_items=max_items, effort=steps)
            for w in (c, c + 0.1, c + 1e-3 * rng.random(n), rng.random(n)):
                _, gap = oracle.solve_with_gap(w)
                assert gap == 0


def test_a_set_is_found_where_rounding_hides_the_best_price():
    """The prices choose too much by a rounding error, and the search is over before that is
    mended."""
    rng = np.random.default_rng(10_000)
    c = rng.uniform(1, 10, 10_000)
    w = 1.2 * c + 1e-6 * rng.standard_normal(10_000)
    for effort in (1, 1000):
        for part in (0.1, 0.3, 0.7):
            A, gap = Knapsack(c, part * c.sum(), effort=effort).solve_with_gap(w)
            chosen = A[A >= 0]
            assert w[chosen].sum() >= (1 - 1e-3) * linear_bound(w, c, part * c.sum())
            assert gap < 1e-3


@pytest.mark.parametrize("max_items", [None, 7])
def test_highs_takes_over_what_is_too_hard(monkeypatch, max_items):
    rng = np.random.default_rng(1)
    c = rng.random(30)
    W = rng.random((6, 30)) - 0.2
    expected, proven = Knapsack(c, 4.0, max_items=max_items).solve_with_gap(W)
    assert not proven.any()
    monkeypatch.setattr(knapsack, "EFFORT", 1)
    sizes = []
    search = Milp.search
    monkeypatch.setattr(Milp, "search", lambda highs, w: sizes.append(highs.L) or search(highs, w))
    for limits in ({"effort": None}, {"effort": 1, "time_limit": 60.0}):
        oracle = Knapsack(c, 4.0, max_items=max_items, **limits)
        found, gap = oracle.solve_with_gap(W)
        np.testing.assert_array_equal(found, expected)
        assert not gap.any()
    assert 0 < max(sizes) < 20  # the core alone


def test_with_a_time_limit_the_set_is_no_worse_than_without(capfd):
    rng = np.random.default_rng(2)
    c = rng.random(200)
    w = c + 0.1
    found = Knapsack(c, 40.0, effort=1000)(w)
    oracle = Knapsack(c, 40.0, effort=1000, time_limit=0.05)
    A, gap = oracle.solve_with_gap(w)
    assert c[A[A >= 0]].sum() <= 40 * (1 + 1e-11)
    assert value(w, A) >= value(w, found)
    assert 0 <= gap < 1e-3
    assert Knapsack(c, 40.0, time_limit=1e-9)(w).shape == (oracle.K,)
    assert capfd.readouterr() == ("", "")


def test_degenerate_sizes():
    w = np.array([1.0, 2.0, 3.0])
    assert Knapsack([1, 2, 3], 0)(w).shape == (0,)
    assert Knapsack([0, 2, 0], 0)(w).tolist() == [0, 2]
    assert Knapsack([1, 2, 3], 100)(w).tolist() == [0, 1, 2]
    assert Knapsack([1, 2, 3], 100, max_items=2)(w).tolist() == [1, 2]
    assert Knapsack([7.0], 7.0)(np.array([[0.5], [-0.5], [-np.inf]])).tolist() == [[0], [-1], [-1]]
    assert Knapsack([7.0], 6.9)(np.array([0.5])).shape == (0,)
    assert Knapsack([0.1] * 10, 1.0)(np.ones(10)).tolist() == list(range(10))
    assert Knapsack([2**52, 1, 2**51], 2**52)(np.array([3.0, 1.0, 1.0])).tolist() == [0, -1]
    assert Knapsack([1, 2], 3)(np.empty((0, 2))).shape == (0, 2)


def test_batches_strides_and_repr():
    oracle = Knapsack([3, 1, 2, 2], 5, max_items=3)
    W = np.random.default_rng(0).standard_normal((2, 3, 4))
    assert oracle(W).shape == (2, 3, 3)
    np.testing.assert_array_equal(oracle(W)[1, 2], oracle(W[1, 2]))
    np.testing.assert_array_equal(oracle(np.asfortranarray(W)), oracle(W))
    assert repr(oracle) == "Knapsack(4 items, budget=5, max_items=3)"
    assert repr(Knapsack([1.0], 2.5)) == "Knapsack(1 items, budget=2.5)"


def test_bad_weights_are_refused():
    oracle = Knapsack([1.0, 9.0, 1.0], 2.0)
    for bad in (np.nan, np.inf):
        with pytest.raises(WeightsError, match=f"item 1 is {bad}"):
            oracle(np.array([1.0, bad, 1.0]))
    with pytest.raises(WeightsError, match="3 weights, one per item"):
        oracle(np.zeros(4))


@pytest.mark.parametrize(
    ("costs", "budget", "settings", "message"),
    [
        ([1.0, -2.0], 1.0, {}, "costs must be finite and not negative: item 1 costs -2.0"),
        ([1.0, np.nan], 1.0, {}, "item 1 costs nan"),
        ([np.inf, 1.0], 1.0, {}, "item 0 costs inf"),
        ([], 1.0, {}, "one per item"),
        ([[1.0]], 1.0, {}, r"got shape \(1, 1\)"),
        (["a"], 1.0, {}, "costs must be numbers"),
        ([1.0], -1.0, {}, "budget must be a finite number, 0 or more, got -1.0"),
        ([1.0], np.nan, {}, "budget must be a finite number"),
        ([1.0], np.inf, {}, "budget must be a finite number"),
        ([1.0], 1.0, {"max_items": 0}, "max_items must be a whole number of at least 1"),
        ([1.0], 1.0, {"gap": 1.0}, "gap must be at least 0 and less than 1, got 1.0"),
        ([1.0], 1.0, {"gap": -0.1}, "gap must be"),
        ([1.0], 1.0, {"effort": 0}, "effort must be a whole number of at least 1"),
        ([1.0], 1.0, {"time_limit": 0.0}, "time_limit must be a positive, finite number"),
    ],
)
def test_bad_parameters_are_refused(costs, budget, settings, message):
    with pytest.raises(ParameterError, match=message):
        Knapsack(costs, budget, **settings)

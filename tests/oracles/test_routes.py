import functools
import itertools
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import Agent, CombLinTS, Orienteering, VehicleRoutes, minimize
from superarm.errors import InfeasibleError, ItemsError, ParameterError, WeightsError
from superarm.testing import check_oracle


def between(x):
    return np.hypot(*(x[:, None] - x[None]).T)


def length(d, stops):
    """The length of the trip from place 0 to items in this order, and back."""
    places = [0, *(e + 1 for e in stops), 0]
    return sum(d[i, j] for i, j in itertools.pairwise(places))


def trips(d, most):
    """Every set of stops that fits into some trip."""
    n = len(d) - 1
    return [
        s
        for k in range(n + 1)
        for s in itertools.combinations(range(n), k)
        if min(length(d, order) for order in itertools.permutations(s)) <= most * (1 + 1e-12)
    ]


def one_way(rng, n):
    """Whole lengths of shortest ways that differ by direction."""
    d = rng.integers(1, 10, (n + 1, n + 1)).astype(float)
    np.fill_diagonal(d, 0)
    for k in range(n + 1):
        d = np.minimum(d, d[:, [k]] + d[[k]])
    return d, float(rng.integers(5, 40))


PLACES = {
    "plane": lambda rng, n: (between(rng.random((n + 1, 2))), rng.uniform(0.5, 3)),
    "one way": one_way,
    "tenths": lambda rng, n: (
        0.1 * np.abs(np.subtract.outer(*(2 * [rng.integers(0, 9, n + 1)]))),
        0.1 * rng.integers(3, 18),
    ),
}
WEIGHTS = {
    "positive": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.standard_normal(n),
    "ties": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "mixed": lambda rng, n: rng.random(n) * 10.0 ** rng.uniform(-9, 0, n),
    "masked": lambda rng, n: np.where(rng.random(n) < 0.3, -np.inf, rng.random(n)),
}


@pytest.mark.parametrize("kind", PLACES)
def test_orienteering_contract(kind):
    d, most = PLACES[kind](np.random.default_rng(1), 5)
    oracle = Orienteering(d, most, iterations=20)
    check_oracle(oracle, 5, family=trips(d, most), trials=30)
    check_oracle(minimize(oracle), 5, family=trips(d, most), trials=30)


@pytest.mark.parametrize("kind", PLACES)
def test_small_trips_fit_and_are_within_a_thousandth_of_the_best(kind):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = 1 + seed
        d, most = PLACES[kind](rng, n)
        oracle = Orienteering(d, most)
        family = trips(d, most)
        for weights in WEIGHTS.values():
            w = weights(rng, n)
            A = oracle(w)
            A = A[A >= 0]
            assert length(d, A) <= most * (1 + 1e-12)
            best = max(w[list(s)].sum() for s in family)
            assert w[A].sum() >= 0.999 * best


def test_eight_stops():
    rng = np.random.default_rng(8)
    d = between(rng.random((9, 2)))
    w = rng.random(8)
    A = Orienteering(d, 2.0)(w)
    A = A[A >= 0]
    assert 4 <= len(A) < 8
    assert w[A].sum() == pytest.approx(max(w[list(s)].sum() for s in trips(d, 2.0)))


@settings(max_examples=25)
@given(
    st.integers(1, 25),
    st.integers(0, 10**6),
    st.sampled_from([*PLACES]),
    st.sampled_from([*WEIGHTS]),
)
def test_trips_are_never_too_long_and_nothing_more_fits(n, seed, places, kind):
    rng = np.random.default_rng(seed)
    d, most = PLACES[places](rng, n)
    w = WEIGHTS[kind](rng, n)
    oracle = Orienteering(d, most, iterations=20)
    A = oracle(w)
    np.testing.assert_array_equal(oracle(w), A)
    A = A[A >= 0].tolist()
    assert (w[A] > 0).all()
    assert length(d, A) <= most * (1 + 1e-12)
    for e in set(np.flatnonzero(w > 0)) - set(A):
        longer = [length(d, [*A[:at], e, *A[at:]]) for at in range(len(A) + 1)]
        assert min(longer) > most * (1 - 1e-8)


def test_what_all_fits_is_all_visited():
    """Stops that pay next to nothing are worth the way, if there is room for it."""
    d = between(np.random.default_rng(0).random((8, 2)))
    w = np.array([1.0, 1e-15, 1e-9, 1e-6, 1e-300, 1e-3, 2.0])
    assert set(Orienteering(d, 20.0)(w).tolist()) == set(range(7))


def test_no_way_back_is_needed_where_it_is_zero():
    line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    line[:, 0] = 0
    assert Orienteering(line, 3.0)(np.ones(4)).tolist() == [0, 1, 2, -1]


def test_distances_go_by_id_in_a_data_frame():
    names = ["depot", "a", "b", "c"]
    d = pd.DataFrame(between(np.array([[0, 0], [1, 0], [2, 0], [-1, 0]])), names, names)
    oracle = Orienteering(d, 4.0)
    assert oracle.ids == ["a", "b", "c"]
    agent = Agent(CombLinTS(), features=np.eye(3), items=["c", "b", "a"], oracle=oracle, seed=0)
    assert set(agent.choose()) <= {"a", "b", "c"}
    agent.learn(np.eye(3), [-1.0, 5.0, 5.0])
    assert set(agent.choose()) == {"a", "b"}
    with pytest.raises(ParameterError, match="the same places, in the same order"):
        Orienteering(d[["a", "depot", "b", "c"]], 4.0)


@functools.cache
def splits(stops):
    """Every way to split stops into routes in an order."""
    if not stops:
        return [()]
    first, *rest = stops
    return [
        (order, *others)
        for k in range(len(rest) + 1)
        for beside in itertools.combinations(rest, k)
        for others in splits(tuple(s for s in rest if s not in beside))
        for order in itertools.permutations((first, *beside))
    ]


def plans(oracle):
    """Every feasible set of arcs."""
    number = {tuple(arc): e for e, arc in enumerate(oracle.items.tolist())}
    room = np.sort(oracle.capacities)[::-1]
    sets = []
    for routes in splits(tuple(range(1, len(oracle.demands) + 1))):
        loads = np.sort([oracle.demands[np.array(route) - 1].sum() for route in routes])[::-1]
        if len(routes) <= len(room) and (loads <= room[: len(loads)] * (1 + 1e-12)).all():
            ways = [itertools.pairwise((0, *route, 0)) for route in routes]
            sets.append([number[arc] for way in ways for arc in way])
    return sets


@pytest.mark.parametrize(
    ("demands", "capacities"),
    [([2, 1, 1, 2], [3, 3]), ([0.1, 0.2, 0.3], [0.3, 0.3]), ([1.5], [2, 9]), ([0, 0, 0], [1])],
)
def test_vehicle_routes_contract(demands, capacities):
    oracle = VehicleRoutes(demands, capacities, iterations=20)
    check_oracle(oracle, oracle.L, family=plans(oracle), trials=40)
    check_oracle(minimize(oracle), oracle.L, family=plans(oracle), trials=20)


ARC_WEIGHTS = {
    "normal": lambda rng, L: rng.standard_normal(L),
    "costs": lambda rng, L: -rng.random(L),
    "ties": lambda rng, L: rng.integers(-2, 3, L).astype(float),
    "large": lambda rng, L: 1e300 * rng.standard_normal(L),
    "masked": lambda rng, L: np.where(rng.random(L) < 0.3, -np.inf, rng.standard_normal(L)),
}


@pytest.mark.parametrize("kind", ARC_WEIGHTS)
def test_small_routes_are_brute_force(kind):
    cases = [([2, 3, 1, 2], [5, 5]), ([1, 1, 1, 1, 1], [3, 2, 2]), ([0.5, 0.25, 0.3], [0.8, 0.55])]
    for seed in range(4):
        for demands, capacities in cases:
            oracle = VehicleRoutes(demands, capacities, iterations=100)
            w = ARC_WEIGHTS[kind](np.random.default_rng(seed), oracle.L)
            possible = [s for s in plans(oracle) if (w[s] > -np.inf).all()]
            if not possible:
                with pytest.raises(InfeasibleError):
                    oracle(w)
                continue
            A = oracle(w)
            A = A[A >= 0]
            assert sorted(A) in [sorted(s) for s in possible]
            best = max(w[s].sum() for s in possible)
            assert w[A].sum() == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_routes_list_the_stops_of_a_set_in_any_order():
    oracle = VehicleRoutes([1] * 7, [3, 3, 3])
    w = np.random.default_rng(0).standard_normal(oracle.L)
    A = oracle(w)
    assert oracle.K == 10
    routes = oracle.routes(A)
    assert sorted(stop for route in routes for stop in route) == list(range(1, 8))
    assert max(map(len, routes)) <= 3
    assert sorted(oracle.routes(A[::-1])) == sorted(routes)


@pytest.mark.parametrize("items", [[], [0], [0, 3], [0, 2, 3, 5], [0, 0], [0, 6], [0.5], [0, 3, 5]])
def test_items_that_are_no_routes_are_refused(items):
    oracle = VehicleRoutes([1, 1], [1, 1])
    assert oracle.items.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert oracle.routes([0, 3, 4, -1]) == [[1, 2]]
    with pytest.raises(ItemsError):
        oracle.routes(items)


def test_seeds_and_iterations_are_counted_not_timed():
    d = between(np.random.default_rng(0).random((41, 2)))
    w = np.random.default_rng(1).random(40)
    found = {tuple(Orienteering(d, 3.0, iterations=5, seed=seed)(w)) for seed in range(4)}
    assert len(found) > 1
    assert {tuple(Orienteering(d, 3.0, iterations=5)(w)) for _ in range(3)} <= found


def test_routes_that_cannot_be_packed_are_infeasible():
    oracle = VehicleRoutes([2, 2, 2], [3, 3], iterations=20)
    with pytest.raises(InfeasibleError, match=r"VehicleRoutes\(3 stops, 2 vehicles\): no feasible"):
        oracle(np.zeros(12))


def test_without_pyvrp_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvrp", None)
    with pytest.raises(ParameterError, match=r"Orienteering needs PyVRP: pip install 'superarm\[r"):
        Orienteering(1 - np.eye(3), 2.0)
    with pytest.raises(ParameterError, match="VehicleRoutes needs PyVRP"):
        VehicleRoutes([1], [1])


def test_weights_are_refused():
    with pytest.raises(WeightsError, match="2 weights, one per item"):
        Orienteering(1 - np.eye(3), 2.0)(np.zeros(3))
    with pytest.raises(WeightsError, match="item 1 is nan"):
        VehicleRoutes([1], [1])(np.array([0.0, np.nan]))


@pytest.mark.parametrize(
    ("distances", "most", "options", "message"),
    [
        (np.ones((2, 3)), 1.0, {}, r"\(n \+ 1, n \+ 1\) with the depot first, got shape \(2, 3\)"),
        ([[0.0]], 1.0, {}, "with the depot first"),
        ([["a"]], 1.0, {}, "a matrix of numbers"),
        ([[0, -1], [1, 0]], 1.0, {}, "from 0 to 1 it is -1"),
        ([[0, 1], [np.nan, 0]], 1.0, {}, "from 1 to 0 it is nan"),
        (np.ones((2, 2)), 1.0, {}, "from a place to itself must be 0"),
        (1 - np.eye(2), 0.0, {}, "max_length must be a positive"),
        (1 - np.eye(2), 1.0, {"iterations": 0}, "iterations must be a whole number of at least 1"),
        (1 - np.eye(2), 1.0, {"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_places_are_refused(distances, most, options, message):
    with pytest.raises(ParameterError, match=message):
        Orienteering(distances, most, **options)


@pytest.mark.parametrize(
    ("demands", "capacities", "message"),
    [
        ([1, 5], [4, 3], "no vehicle can serve stop 2: its demand is 5.0, and the largest cap"),
        ([2, 2, 2], [3, 2], "the demands come to 6.0, the capacities of all vehicles only to 5.0"),
        ([], [1], "demands must be a list of numbers, one per stop"),
        ([1], 1, "capacities must be a list of numbers, one per vehicle"),
        ([1], [0], "capacities must be positive"),
        (["a"], [1], "demands must be numbers"),
        ([-1], [1], "not negative: number 0 is -1"),
        ([1], [np.inf], "capacities must be finite"),
        (pd.Series([1, 2]), [3], "not by id"),
    ],
)
def test_bad_demands_are_refused(demands, capacities, message):
    with pytest.raises(ParameterError, match=message):
        VehicleRoutes(demands, capacities)

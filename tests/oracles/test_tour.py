import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import Tour
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.testing import check_oracle


@functools.cache
def tours(n):
    """Every tour of n cities, each once: ((n-1)!/2, n) edges."""
    edge = {tuple(pair): e for e, pair in enumerate(Tour(n).items.tolist())}
    return np.array(
        [
            [edge[tuple(sorted(pair))] for pair in itertools.pairwise((0, *order, 0))]
            for order in itertools.permutations(range(1, n))
            if order[0] < order[-1]
        ]
    )


def lengths(x):
    """Minus the lengths of the edges between cities (n, 2)."""
    i, j = Tour(len(x)).items.T
    return -np.hypot(*(x[i] - x[j]).T)


def euclidean(rng, n):
    return lengths(rng.random((n, 2)))


def clustered(rng, n):
    centres = rng.random((3, 2))
    return centres[rng.integers(3, size=n)] + rng.normal(0, 0.003, (n, 2))


def coincident(rng, n):
    places = rng.random((max(4, n // 20), 2))
    return places[rng.integers(len(places), size=n)]


def drilled(rng, n):
    holes = rng.permutation(5 * 5)[:n]
    return np.stack(np.divmod(holes, 5), axis=-1).astype(float)


def shortest(x):
    """The length of the shortest tour, by the dynamic program of Bellman, Held and Karp."""
    n = len(x)
    distances = np.hypot(*(x[:, None] - x[None]).T)
    way = np.full((2 ** (n - 1), n - 1), np.inf)  # through a set of cities, to one of them
    for a in range(n - 1):
        way[1 << a, a] = distances[n - 1, a]
    for visited in range(1, 2 ** (n - 1)):
        for a in range(n - 1):
            if not visited >> a & 1:
                way[visited | 1 << a, a] = (way[visited] + distances[: n - 1, a]).min()
    return (way[-1] + distances[n - 1, : n - 1]).min()


def masked(rng, n):
    """Random weights of a random tour and of a few more edges."""
    kept = rng.random(Tour(n).L) < rng.choice([0.0, 0.1, 0.3])
    kept[tours(n)[rng.integers(len(tours(n)))]] = True
    return np.where(kept, rng.standard_normal(Tour(n).L), -np.inf)


KINDS = {
    "euclidean": euclidean,
    "normal": lambda rng, n: rng.standard_normal(Tour(n).L),
    "negative": lambda rng, n: -rng.random(Tour(n).L),
    "ties": lambda rng, n: rng.integers(-2, 3, Tour(n).L).astype(float),
    "outliers": lambda rng, n: rng.standard_normal(Tour(n).L) - 1e6 * (rng.random(Tour(n).L) < 0.3),
    "masked": masked,
}


def assert_tour(n, A):
    """Each city is entered by one edge and left by the next, beginning with city 0."""
    assert A.shape == (n,)
    city, seen = 0, []
    for i, j in Tour(n).items[A].tolist():
        assert city in (i, j)
        seen.append(city)
        city = i + j - city
    assert city == 0
    assert sorted(seen) == list(range(n))


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_contract(n):
    check_oracle(Tour(n), Tour(n).L, family=tours(n).tolist(), trials=200)


@pytest.mark.parametrize("kind", KINDS)
def test_small_tours_are_brute_force(kind):
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 4 + seed % 5
        w = KINDS[kind](rng, n)
        A = Tour(n)(w)
        assert_tour(n, A)
        assert w[A].sum() == pytest.approx(w[tours(n)].sum(-1).max(), rel=1e-12, abs=1e-9), (
            n,
            seed,
        )


@settings(max_examples=100)
@given(
    st.integers(3, 60),
    st.integers(0, 10**6),
    st.sampled_from(["euclidean", "normal", "ties", "outliers"]),
)
def test_always_a_tour_and_always_the_same(n, seed, kind):
    w = KINDS[kind](np.random.default_rng(seed), n)
    A = Tour(n, kicks=2)(w)
    assert_tour(n, A)
    np.testing.assert_array_equal(Tour(n, kicks=2)(w), A)


@settings(max_examples=50)
@given(st.integers(4, 30), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_generator_draws_other_kicks_but_still_tours(n, seed, other):
    w = KINDS["normal"](np.random.default_rng(seed), n)
    A = Tour(n, kicks=1)(w, rng=np.random.default_rng(other))
    assert_tour(n, A)
    np.testing.assert_array_equal(Tour(n, kicks=1)(w, rng=np.random.default_rng(other)), A)


def test_kicks_are_fresh_from_a_generator_and_fixed_by_the_seed():
    n = 200
    w = euclidean(np.random.default_rng(0), n)
    rng = np.random.default_rng(1)
    assert len({tuple(Tour(n, kicks=1)(w, rng=rng)) for _ in range(5)}) > 1
    assert len({tuple(Tour(n, kicks=1, seed=seed)(w)) for seed in range(5)}) > 1
    assert len({tuple(A) for A in Tour(n, kicks=1)(np.stack([w] * 5), rng=rng)}) > 1
    # the legacy global state is what must stay as it is
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    Tour(n)(w)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_batches_are_rows():
    w = np.random.default_rng(0).standard_normal((2, 3, Tour(20).L))
    A = Tour(20)(w)
    assert A.shape == (2, 3, 20)
    for at in np.ndindex(2, 3):
        np.testing.assert_array_equal(A[at], Tour(20)(w[at]))
    assert Tour(20)(w[:0]).shape == (0, 3, 20)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1e-300, 0.0), (1e300, 0.0), (1e308, 0.0), (1.0, 1e6)]
)
def test_units_do_not_matter(scale, shift):
    w = euclidean(np.random.default_rng(0), 12)
    assert set(Tour(12)(scale * w + shift)) == set(Tour(12)(w))


def test_200_cities_are_within_a_percent_of_ten_times_the_budget():
    # over 20 instances the mean shortfall is 0.04 %, the standard deviation of one 0.12 %, the
    # largest 0.54 %
    for seed in range(3):
        w = euclidean(np.random.default_rng(seed), 200)
        best = max(w[Tour(200, kicks=10 * Tour(200).kicks)(w)].sum(), w[Tour(200)(w)].sum())
        assert w[Tour(200)(w)].sum() >= 1.01 * best


@pytest.mark.parametrize("kind", [clustered, coincident, drilled])
def test_stops_that_are_no_random_points_are_solved_exactly(kind):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = kind(rng, 8 + seed % 4)
        w = lengths(x)
        assert -w[Tour(len(x))(w)].sum() == pytest.approx(shortest(x), rel=1e-9), seed


def test_coincident_stops_are_within_a_percent_of_the_best():
    # the shortest tour of the places, since staying in one costs nothing
    for n in (60, 200, 240):
        for seed in range(4):
            x = coincident(np.random.default_rng(seed), n)
            places = np.unique(x, axis=0)
            w = lengths(x)
            assert -w[Tour(n)(w)].sum() <= 1.01 * shortest(places), (n, seed)


def test_clusters_on_a_circle_are_visited_along_it():
    # the shortest tour of points in convex position is their polygon
    for seed in range(5):
        rng = np.random.default_rng(seed)
        angle = np.sort(rng.integers(12, size=300) * np.pi / 6 + rng.normal(0, 0.002, 300))
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        polygon = np.hypot(*(circle - np.roll(circle, 1, axis=0)).T).sum()
        w = lengths(rng.permutation(circle))
        assert -w[Tour(300)(w)].sum() == pytest.approx(polygon, rel=1e-9), seed


def test_a_lattice_is_visited_by_steps_of_one():
    x = np.stack(np.divmod(np.arange(196), 14), axis=-1).astype(float)
    w = lengths(np.random.default_rng(0).permutation(x))
    assert -w[Tour(196)(w)].sum() == pytest.approx(196, rel=1e-12)


def test_more_restarts_are_never_worse():
    for seed in range(10):
        w = KINDS["normal"](np.random.default_rng(seed), 40)
        values = [w[Tour(40, kicks=1, restarts=restarts)(w)].sum() for restarts in (1, 2, 5)]
        assert values == sorted(values)


def test_masks_of_larger_tours():
    n = 40
    for seed in range(10):
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)
        table = np.full((n, n), -np.inf)
        table[order, np.roll(order, 1)] = 0.0
        i, j = Tour(n).items.T
        w = np.maximum(table[i, j], table[j, i])
        w[rng.random(len(w)) < 0.2] = 1.0
        A = Tour(n)(w)
        assert_tour(n, A)
        assert (w[A] > -np.inf).all()


def test_no_tour():
    with pytest.raises(InfeasibleError, match=r"Tour\(n_cities=5, .*no feasible set"):
        Tour(5)(np.full(10, -np.inf))
    i, j = Tour(6).items.T
    w = np.where((i < 3) == (j < 3), 1.0, -np.inf)  # two triangles, no way from one to the other
    with pytest.raises(InfeasibleError, match="no feasible set"):
        Tour(6)(w)
    with pytest.raises(InfeasibleError, match="no feasible set"):
        Tour(6)(np.stack([np.zeros(15), w]))


def test_items_are_the_edges():
    oracle = Tour(4)
    assert oracle.items.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert (oracle.L, oracle.K, oracle.gap) == (6, 4, None)
    assert set(Tour(3)(np.zeros(3))) == {0, 1, 2}


def test_bad_weights_are_refused():
    with pytest.raises(WeightsError, match="10 weights, one per item"):
        Tour(5)(np.zeros(9))
    for bad in (np.nan, np.inf):
        w = np.zeros(10)
        w[7] = bad
        with pytest.raises(WeightsError, match=f"item 7 is {bad}"):
            Tour(5)(w)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_cities": 2}, "at least 3 cities, got n_cities=2"),
        ({"n_cities": 2.5}, "n_cities must be a whole number"),
        ({"n_cities": 5, "kicks": 0}, "kicks must be a whole number of at least 1, got 0"),
        ({"n_cities": 5, "restarts": 0}, "restarts must be a whole number of at least 1, got 0"),
        ({"n_cities": 5, "seed": -1}, "seed must be a whole number, 0 or more, got -1"),
        ({"n_cities": 5, "seed": None}, "seed must be a whole number, 0 or more, got None"),
    ],
)
def test_constructor_refuses(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Tour(**arguments)

import itertools
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linear_sum_assignment, milp

from superarm import Assignment, BipartiteMatching
from superarm.errors import ParameterError, WeightsError
from superarm.oracles import matching
from superarm.oracles.bipartite import heaviest_matchings
from superarm.testing import check_oracle
from support import peak_memory

SQUARE = list(itertools.product(range(2), range(2)))


@pytest.fixture(params=["scipy", "lapx"])
def solver(request, monkeypatch):
    """Each of the solvers an `Assignment` may use."""
    if request.param == "scipy":
        monkeypatch.setitem(sys.modules, "lap", None)
    else:
        pytest.importorskip("lap")
    matching._solver.cache_clear()
    yield request.param
    matching._solver.cache_clear()


def assignments(n_rows, n_cols):
    """All perfect matchings."""
    if n_rows <= n_cols:
        return [
            [i * n_cols + j for i, j in enumerate(p)]
            for p in itertools.permutations(range(n_cols), n_rows)
        ]
    return [
        sorted(i * n_cols + j for j, i in enumerate(p))
        for p in itertools.permutations(range(n_rows), n_cols)
    ]


def matchings(edges, left_capacity, right_capacity):
    """All sets of edges within the capacities, which are given for each node."""
    found = [()]
    for e in range(len(edges)):
        found += [(*s, e) for s in found]
    ends = np.array(edges, int).reshape(-1, 2)

    def fits(s):
        left, right = (np.bincount(side, minlength=9) for side in ends[list(s)].T)
        return (left[: len(left_capacity)] <= left_capacity).all() and (
            right[: len(right_capacity)] <= right_capacity
        ).all()

    return [s for s in found if fits(s)]


def random_weights(rng, shape, masked, ties):
    w = rng.integers(-2, 4, shape).astype(float) if ties else rng.standard_normal(shape)
    w[rng.random(shape) < masked] = -np.inf
    return w


def value(w, A):
    return w[A[A >= 0]].sum()


AT_ONCE = -(10**6)  # so that bids come first on any graph


def matched(oracle, w, patience):
    """What the oracle chooses if bids prepare the search for paths after so much patience."""
    graph = oracle._item, oracle._both, oracle._near, oracle._far
    return heaviest_matchings(w[None], *graph, oracle.K, patience)[0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 3), (3, 2), (3, 3)])
def test_contract_of_assignment(solver, shape):
    check_oracle(Assignment(*shape), shape[0] * shape[1], family=assignments(*shape))


@pytest.mark.parametrize("shape", [(60, 60), (30, 80), (80, 30)])
@pytest.mark.parametrize("kind", ["normal", "integers", "masked", "shifted", "rank one"])
def test_larger_assignments_against_scipy(solver, shape, kind):
    rng = np.random.default_rng(0)
    W = {
        "normal": rng.standard_normal(shape),
        "integers": rng.integers(0, 5, shape).astype(float),
        "masked": np.where(rng.random(shape) < 0.7, -np.inf, rng.random(shape)),
        "shifted": rng.standard_normal(shape) + 1e9,
        "rank one": np.outer(rng.random(shape[0]), rng.random(shape[1])),
    }[kind]
    A = Assignment(*shape)(W.ravel())
    assert len(set(A // shape[1])) == len(set(A % shape[1])) == min(shape) == len(A)
    assert (np.diff(A // shape[1]) > 0).all()
    assert W.ravel()[A].sum() == pytest.approx(
        W[linear_sum_assignment(W, maximize=True)].sum(), rel=1e-12
    )


def test_contested_assignments_go_to_scipy(monkeypatch):
    """On low-rank weights lapx takes up to ten times as long."""
    lap = pytest.importorskip("lap")
    asked = []
    lapjvr = lap.lapjvr
    monkeypatch.setattr(lap, "lapjvr", lambda c, **o: asked.append(c.shape) or lapjvr(c, **o))
    matching._solver.cache_clear()
    rng = np.random.default_rng(0)
    for shape in ((60, 200), (200, 60)):
        product = np.outer(rng.random(shape[0]), rng.random(shape[1]))
        Assignment(*shape)(product.ravel())
        assert asked == []
        Assignment(*shape)(rng.random(shape).ravel())
        assert asked.pop() == shape
    matching._solver.cache_clear()


@pytest.mark.parametrize("penalty", [0.0, 1e9, 1e300, np.inf])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_contested_assignments_are_not_rounded_by_penalties(solver, penalty, share):
    """Costs are centred only where that rounds nothing; against the matrix of small weights."""
    rng = np.random.default_rng(0)
    n = 60
    small = np.outer(rng.random(n), rng.random(n))
    bad = rng.random((n, n)) < share
    bad[np.arange(n), rng.permutation(n)] = False
    closed = np.where(bad, -np.inf, small)
    best = closed[linear_sum_assignment(closed, maximize=True)].sum()
    w = np.where(bad, small - penalty, small) if penalty else closed
    A = Assignment(n, n)(w.ravel())
    assert closed.ravel()[A].sum() == pytest.approx(best, rel=1e-12)


def test_batches_of_assignments(solver):
    W = random_weights(np.random.default_rng(0), (2, 3, 20), 0.1, False)
    oracle = Assignment(4, 5)
    assert oracle(W).shape == (2, 3, oracle.K) == (2, 3, 4)
    for b in np.ndindex(2, 3):
        assert oracle(W)[b].tolist() == oracle(W[b]).tolist()
    assert oracle(np.empty((0, 20))).shape == (0, 4)


def test_assignment_refuses():
    with pytest.raises(ParameterError, match="n_rows must be a whole number of at least 1, got 0"):
        Assignment(0, 2)
    with pytest.raises(
        ParameterError, match=r"n_cols must be a whole number of at least 1, got 2\.5"
    ):
        Assignment(2, 2.5)
    with pytest.raises(WeightsError, match="6 weights, one per item"):
        Assignment(2, 3)(np.zeros((2, 3)))
    with pytest.raises(WeightsError, match="item 4 is inf"):
        Assignment(2, 3)(np.array([0.0, 0.0, 0.0, 0.0, np.inf, 0.0]))


@pytest.mark.parametrize(
    ("edges", "left", "right"),
    [
        ([(0, 0)], [1], [1]),
        (SQUARE, [1, 1], [1, 1]),
        ([(1, 0), (0, 1), (2, 0), (0, 0), (2, 1)], [1, 1, 1], [1, 1]),
        ([(1, 0), (0, 1), (2, 0), (0, 0), (2, 1)], [2, 1, 1], [1, 2]),
        (SQUARE, [2, 0], [1, 1]),
        (SQUARE, [2, 2], [2, 2]),
        ([(0, 0), (0, 0), (0, 1), (1, 1)], [1, 1], [1, 1]),
        ([(0, 0), (0, 0), (0, 1), (1, 1)], [2, 1], [2, 1]),
    ],
)
def test_contract_of_bipartite_matching(edges, left, right):
    oracle = BipartiteMatching(edges, left_capacity=left, right_capacity=right)
    check_oracle(oracle, len(edges), family=matchings(edges, left, right))


@settings(max_examples=500)
@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.booleans(),
    st.integers(1, 3),
    st.booleans(),
)
def test_bipartite_matching_is_brute_force(n_left, n_right, seed, masked, ties, most, parallel):
    rng = np.random.default_rng(seed)
    pairs = list(itertools.product(range(n_left), range(n_right)))
    if parallel:
        pairs += pairs
    edges = [pairs[i] for i in rng.permutation(len(pairs))[: rng.integers(1, 9)]]
    left, right = (rng.integers(min(most - 1, 1), most + 1, n) for n in (n_left, n_right))
    w = random_weights(rng, len(edges), masked, ties)
    oracle = BipartiteMatching(edges, n_left, n_right, left_capacity=left, right_capacity=right)
    family = matchings(edges, left, right)
    for patience in (matching.PATIENCE, AT_ONCE):
        A = matched(oracle, w, patience)
        chosen = A[A >= 0]
        assert max(map(len, family)) <= oracle.K == len(A)
        assert tuple(chosen) in family
        assert (w[chosen] > 0).all()
        assert value(w, A) == pytest.approx(max(w[list(s)].sum() for s in family), abs=1e-12)


@pytest.mark.parametrize("kind", ["normal", "uniform", "integers", "ones", "features"])
@pytest.mark.parametrize(("left", "right"), [(1, 1), (1, 3), (4, 2), ("random", "random")])
def test_larger_matchings_against_milp(kind, left, right):
    rng = np.random.default_rng(0)
    n_left, n_right, E = 60, 50, 500
    u, v = np.divmod(rng.choice(n_left * n_right, E, replace=False), n_right)
    F, G = rng.standard_normal((n_left, 3)), rng.standard_normal((n_right, 3))
    w = {
        "normal": rng.standard_normal(E),
        "uniform": rng.random(E),
        "integers": rng.integers(1, 6, E).astype(float),
        "ones": np.ones(E),
        "features": (F[u] * G[v]).sum(1),
    }[kind]
    left, right = (
        rng.integers(0, 4, n) if c == "random" else c for c, n in ((left, n_left), (right, n_right))
    )
    oracle = BipartiteMatching(
        np.c_[u, v], n_left, n_right, left_capacity=left, right_capacity=right
    )
    A = oracle(w)
    chosen = A[A >= 0]
    assert value(w, matched(oracle, w, AT_ONCE)) == pytest.approx(value(w, A), rel=1e-12)
    assert (np.bincount(u[chosen], minlength=n_left) <= left).all()
    assert (np.bincount(v[chosen], minlength=n_right) <= right).all()
    limits = np.r_[np.broadcast_to(left, n_left), np.broadcast_to(right, n_right)]
    incidence = np.r_[np.arange(n_left)[:, None] == u, np.arange(n_right)[:, None] == v].astype(
        float
    )
    # the incidence matrix of a bipartite graph is totally unimodular: the linear program has whole
    # vertices
    best = milp(-w, constraints=LinearConstraint(incidence, ub=limits), bounds=(0, 1))
    assert value(w, A) == pytest.approx(-best.fun, rel=1e-9)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("capacity", [1, 20])
def test_contested_matchings_are_prepared_by_bids(rank, capacity):
    """2,000 users who all like the same of 100 rooms best: the same value as by paths alone."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(2000), 8)
    rooms = rng.integers(0, 100, len(users))
    w = (rng.random((2000, rank))[users] * rng.random((100, rank))[rooms]).sum(1)
    oracle = BipartiteMatching(np.c_[users, rooms], right_capacity=capacity)
    A = oracle(w)
    assert (np.bincount(users[A[A >= 0]]) <= 1).all()
    assert (np.bincount(rooms[A[A >= 0]]) <= capacity).all()
    by_paths = matched(oracle, w, 10**9)
    by_bids = matched(oracle, w, AT_ONCE)
    assert value(w, A) == pytest.approx(value(w, by_paths), rel=1e-12)
    assert value(w, A) == pytest.approx(value(w, by_bids), rel=1e-12)


def test_unit_capacities_against_networkx():
    import networkx as nx

    rng = np.random.default_rng(1)
    edges = np.unique(rng.integers(0, 30, (200, 2)), axis=0)
    w = rng.standard_normal(len(edges))
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        (("l", u), ("r", v), x) for (u, v), x in zip(edges.tolist(), w, strict=True)
    )
    best = sum(graph.edges[pair]["weight"] for pair in nx.max_weight_matching(graph))
    assert value(w, BipartiteMatching(edges)(w)) == pytest.approx(best, abs=1e-9)


def test_batches_of_matchings_and_strided_weights():
    rng = np.random.default_rng(0)
    oracle = BipartiteMatching(list(itertools.product(range(4), range(5))), left_capacity=2)
    W = random_weights(rng, (2, 3, 20), 0.1, False)
    assert oracle(W).shape == (2, 3, oracle.K) == (2, 3, 5)
    for b in np.ndindex(2, 3):
        assert oracle(W)[b].tolist() == oracle(W[b]).tolist()
    assert oracle(np.repeat(W, 2, axis=-1)[..., ::2]).tolist() == oracle(W).tolist()
    assert oracle(np.empty((0, 20))).shape == (0, 5)


def test_capacity_bounds_K_and_no_edges_give_the_empty_matching():
    assert BipartiteMatching(SQUARE).K == 2
    assert BipartiteMatching(SQUARE, left_capacity=9, right_capacity=9).K == 4
    assert BipartiteMatching(SQUARE, 7, 8, left_capacity=0).K == 0
    oracle = BipartiteMatching([], 2, 2)
    assert (oracle.K, oracle.gap, oracle.items) == (0, 0.0, [])
    assert oracle(np.empty((3, 0))).shape == (3, 0)


def test_from_networkx():
    import networkx as nx

    graph = nx.Graph([("tea", "ann"), ("bob", "tea"), ("ann", "rum")])
    oracle = BipartiteMatching.from_networkx(graph, ["bob", "ann"])
    assert oracle.items == [("ann", "tea"), ("bob", "tea"), ("ann", "rum")]
    assert [oracle.items[e] for e in oracle(np.array([3.0, 2.0, 2.0]))] == [
        ("bob", "tea"),
        ("ann", "rum"),
    ]
    both = BipartiteMatching.from_networkx(
        graph, ["bob", "ann"], left_capacity=[1, 2], right_capacity=2
    )
    assert sorted(both(np.ones(3))) == [0, 1, 2]
    with pytest.raises(ParameterError, match=r"edge 0, \('tea', 'ann'\), must join a node in left"):
        BipartiteMatching.from_networkx(graph, ["tea", "ann", "bob"])
    with pytest.raises(ParameterError, match="must join a node in left"):
        BipartiteMatching.from_networkx(graph, ["bob"])


def test_from_a_multigraph():
    import networkx as nx

    graph = nx.MultiGraph([("tea", "ann"), ("ann", "tea"), ("bob", "tea")])
    oracle = BipartiteMatching.from_networkx(graph, ["bob", "ann"])
    assert oracle.items == [("ann", "tea", 0), ("ann", "tea", 1), ("bob", "tea", 0)]
    assert oracle(np.array([1.0, 3.0, 2.0])).tolist() == [1]


def test_nodes_are_any_whole_numbers_and_take_no_room():
    """An array per node up to the largest would take gigabytes."""
    edges = [(500_000_000, -7), (3, 400_000_000), (500_000_000, 400_000_000)]
    w = np.array([1.0, 2.0, 3.0])
    made = partial(BipartiteMatching, edges, right_capacity=[1, 2])
    wide = partial(BipartiteMatching, np.abs(edges), 10**9, 10**9)
    assert peak_memory(lambda: (made()(w), wide()(w))) < 2**20
    oracle = made()
    assert oracle(w).tolist() == [1, 2]
    assert wide()(w).tolist() == [0, 1]
    assert oracle.items == edges
    assert repr(oracle) == "BipartiteMatching(2 + 2 nodes, 3 edges)"


@pytest.mark.parametrize("n_left", [40, 4])
def test_units_come_in_from_the_side_that_has_fewer(n_left):
    """Each takes a search of its own, so 40 nodes that compete for 4 must not come in themselves.
    The matching is the same either way."""
    edges = np.array(list(itertools.product(range(n_left), range(44 - n_left))))
    w = np.random.default_rng(0).random(len(edges))
    oracle = BipartiteMatching(edges)
    swapped = BipartiteMatching(edges[:, ::-1])
    assert oracle._far.first == swapped._far.first == 4
    assert oracle(w).tolist() == swapped(w).tolist()


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        ([(0, 1, 2)], {}, r"pairs of node numbers, \(E, 2\), got int64 of shape \(1, 3\)"),
        ([(0, 1), (2, 0)], {"n_left": 2}, r"edge 1, \(2, 0\), has its left node outside 0..1"),
        ([(0, 1), (-1, 0)], {"n_left": 1}, r"edge 1, \(-1, 0\), has its left node outside 0..0"),
        ([(0, 1), (1, 2)], {"n_right": 2}, r"edge 1, \(1, 2\), has its right node outside 0..1"),
        ([], {}, "n_left must be a whole number of at least 1, got 0"),
        (
            SQUARE,
            {"left_capacity": -1},
            "left_capacity must be a whole number, 0 or more, .* got -1",
        ),
        (
            SQUARE,
            {"left_capacity": 1.5},
            "left_capacity must be a whole number, 0 or more, .* got 1.5",
        ),
        (
            SQUARE,
            {"right_capacity": [1, 2, 3]},
            r"right_capacity .* one for each of 2 nodes, got \[1, 2, 3\]",
        ),
        (
            SQUARE,
            {"right_capacity": [1, -2]},
            r"right_capacity must be a whole number, 0 or more, .* got \[1, -2\]",
        ),
    ],
)
def test_refused_graphs(edges, options, message):
    with pytest.raises(ParameterError, match=message):
        BipartiteMatching(edges, **options)


def test_refused_weights():
    oracle = BipartiteMatching(SQUARE)
    with pytest.raises(WeightsError, match="item 1 is nan"):
        oracle(np.array([0.0, np.nan, 0.0, 0.0]))
    with pytest.raises(WeightsError, match="4 weights, one per item"):
        oracle(np.zeros(5))
    assert repr(oracle) == "BipartiteMatching(2 + 2 nodes, 4 edges)"

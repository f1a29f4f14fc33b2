import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import SpanningTree
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.testing import check_oracle
from support import peak_memory

TRIANGLE = [(0, 1), (1, 2), (2, 0)]


def kruskal(edges, n, items):
    """Those of the items, in their order, that close no cycle."""
    part, kept = list(range(n)), []
    for e in items:
        u, v = (part[x] for x in edges[e])
        if u != v:
            part = [u if p == v else p for p in part]
            kept.append(int(e))
    return kept


def forests(edges, n):
    """All sets of edges without a cycle."""
    sets = (s for k in range(n) for s in itertools.combinations(range(len(edges)), k))
    return [s for s in sets if len(kruskal(edges, n, s)) == len(s)]


def trees(edges, n):
    return [s for s in forests(edges, n) if len(s) == n - 1]


def random_edges(rng, n, density, extra=0):
    """A random graph in random order, each edge in a random direction; connected if density is 1.
    Extra edges may repeat others or lead from a node to itself."""
    pairs = [
        p[:: rng.choice([1, -1])]
        for p in itertools.combinations(range(n), 2)
        if rng.random() < density
    ]
    pairs += [tuple(p) for p in rng.integers(0, n, (extra, 2)).tolist()]
    return [pairs[i] for i in rng.permutation(len(pairs))]


def random_weights(rng, shape, masked, ties):
    w = rng.integers(-2, 3, shape).astype(float) if ties else rng.standard_normal(shape)
    w[rng.random(shape) < masked] = -np.inf
    return w


@pytest.mark.parametrize(
    ("edges", "n"),
    [
        ([(0, 1)], 2),
        (TRIANGLE, 3),
        (list(itertools.combinations(range(4), 2)), 4),
        ([(2, 0), (1, 2), (3, 1)], 4),
        ([(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)], 3),
    ],
)
def test_contract(edges, n):
    check_oracle(SpanningTree(edges, n), len(edges), family=trees(edges, n))
    check_oracle(SpanningTree(edges, n + 1, forest=True), len(edges), family=forests(edges, n))


@settings(max_examples=200)
@given(
    st.integers(2, 5),
    st.integers(0, 10**6),
    st.sampled_from([0.4, 0.7, 1.0]),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.booleans(),
    st.sampled_from([0, 3]),
)
def test_ties_go_to_the_lowest_index(n, seed, density, masked, ties, extra):
    """As if edges were added one by one, the best first."""
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, n, density, extra if n < 5 else 0)
    w = random_weights(rng, len(edges), masked, ties)
    best_first = np.argsort(-w, kind="stable")

    forest = SpanningTree(edges, n, forest=True)
    A = forest(w)
    chosen = A[A >= 0]
    spans = len(A) == n - 1
    assert forest.K == len(kruskal(edges, n, range(len(edges)))) == len(A)
    assert chosen.tolist() == sorted(kruskal(edges, n, [e for e in best_first if w[e] > 0]))

    if not spans:
        with pytest.raises(InfeasibleError, match=r"no path joins node|no edge has node"):
            SpanningTree(edges, n)
        return
    tree = SpanningTree(edges, n)
    best = sorted(kruskal(edges, n, best_first))
    if w[best].min() == -np.inf:
        with pytest.raises(
            InfeasibleError,
            match=rf"SpanningTree\({n} nodes, {len(edges)} edges\): no feasible set",
        ):
            tree(w)
        return
    assert tree(w).tolist() == best


@pytest.mark.parametrize("forest", [False, True])
@pytest.mark.parametrize(("n", "density"), [(40, 1.0), (80, 0.3), (400, 0.02), (60, 0.9)])
def test_larger_graphs_against_networkx(n, density, forest):
    import networkx as nx

    rng = np.random.default_rng(n)
    edges = [*itertools.pairwise(range(n)), *random_edges(rng, n, density)]
    edges = list({frozenset(pair): pair for pair in edges}.values())
    oracle = SpanningTree(edges, n, forest=forest)
    for ties, masked in ((False, 0.0), (True, 0.0), (False, 0.01)):
        w = random_weights(rng, len(edges), masked, ties)
        w[: n - 1] = np.maximum(w[: n - 1], -5.0)  # a path that keeps the graph connected
        graph = nx.Graph()
        graph.add_weighted_edges_from(
            (*pair, x) for pair, x in zip(edges, w, strict=True) if x > (0 if forest else -np.inf)
        )
        best = nx.maximum_spanning_tree(graph).size(weight="weight")
        A = oracle(w)
        A = A[A >= 0]
        assert w[A].sum() == pytest.approx(best, abs=1e-9)
        assert len(kruskal(edges, n, A)) == len(A)


@pytest.mark.parametrize("weak", ["clusters", "a star of the lightest"])
def test_edges_below_the_bar_complete_the_tree(weak):
    n, rng = 60, np.random.default_rng(0)
    edges = list(itertools.combinations(range(n), 2))
    u, v = np.transpose(edges)
    w = rng.random(len(edges)) + (u % 3 == v % 3 if weak == "clusters" else -2.0 * (u == 0))
    assert SpanningTree(edges)(w).tolist() == sorted(
        kruskal(edges, n, np.argsort(-w, kind="stable"))
    )


def test_weights_of_zero_do_not_vanish_and_large_ones_do_not_overflow():
    assert SpanningTree(TRIANGLE)(np.zeros(3)).tolist() == [0, 1]
    assert SpanningTree(TRIANGLE, forest=True)(np.zeros(3)).tolist() == [-1, -1]
    lowest = np.finfo(float).min
    assert SpanningTree(TRIANGLE)(np.array([lowest, lowest, 1e308])).tolist() == [0, 2]


def test_one_node_has_the_empty_tree():
    oracle = SpanningTree([], 1)
    assert (oracle.K, oracle.gap, oracle.items) == (0, 0.0, [])
    assert oracle(np.empty((3, 0))).shape == (3, 0)
    assert SpanningTree(np.empty((0, 2), int), 4, forest=True).K == 0


def test_batches_and_strided_weights():
    rng = np.random.default_rng(0)
    edges = list(itertools.combinations(range(7), 2))
    oracle = SpanningTree(np.array(edges))
    W = random_weights(rng, (2, 3, 21), 0.1, False)
    assert oracle(W).shape == (2, 3, 6)
    for b in np.ndindex(2, 3):
        assert oracle(W)[b].tolist() == oracle(W[b]).tolist()
    assert oracle(np.repeat(W, 2, axis=-1)[..., ::2]).tolist() == oracle(W).tolist()
    assert oracle(np.empty((0, 21))).shape == (0, 6)


def test_from_networkx():
    import networkx as nx

    graph = nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", (1, 2))])
    oracle = SpanningTree.from_networkx(graph)
    assert oracle.items == list(graph.edges)
    w = dict(zip(oracle.items, [1.0, 2.0, 3.0, -1.0], strict=True))
    assert [oracle.items[e] for e in oracle(np.array(list(w.values())))] == [
        e for e in w if w[e] != 1.0
    ]
    graph.add_node("alone")
    assert SpanningTree.from_networkx(graph, forest=True).K == 3
    with pytest.raises(InfeasibleError, match="no edge has node 4"):
        SpanningTree.from_networkx(graph)


def test_from_a_multigraph():
    import networkx as nx

    twice = nx.MultiGraph([("a", "b"), ("b", "a"), ("b", "b"), ("b", "c")])
    oracle = SpanningTree.from_networkx(twice)
    assert oracle.items == [("a", "b", 0), ("a", "b", 1), ("b", "b", 0), ("b", "c", 0)]
    assert oracle(np.array([0.1, 0.3, 9.0, -1.0])).tolist() == [1, 3]
    assert oracle(np.zeros(4)).tolist() == [0, 3]


def test_nodes_are_any_whole_numbers_and_take_no_room():
    """An array per node up to the largest would take gigabytes."""
    edges = [(-7, 500_000_000), (500_000_001, -7), (500_000_000, 500_000_001)]
    oracle = SpanningTree(edges)
    assert oracle.items == edges
    assert repr(oracle) == "SpanningTree(3 nodes, 3 edges)"
    forest = partial(SpanningTree, np.abs(edges), 10**9, forest=True)
    assert peak_memory(lambda: (oracle(np.zeros(3)), forest()(np.zeros(3)))) < 2**20
    assert oracle(np.array([0.3, -0.2, -0.1])).tolist() == [0, 2]
    assert forest()(np.array([0.3, 0.2, 0.1])).tolist() == [0, 1]
    with pytest.raises(InfeasibleError, match="no edge has node 0"):
        SpanningTree(np.abs(edges), 10**9)
    far = 2**64 - 1
    assert SpanningTree(np.array([[0, far]], np.uint64)).items == [(0, far)]


@pytest.mark.parametrize(
    ("edges", "n", "error", "message"),
    [
        (
            [(0, 1, 2)],
            None,
            ParameterError,
            r"pairs of node numbers, \(E, 2\), got int64 of shape \(1, 3\)",
        ),
        (
            [0, 1],
            None,
            ParameterError,
            r"pairs of node numbers, \(E, 2\), got int64 of shape \(2,\)",
        ),
        (
            [(0.0, 1.0)],
            None,
            ParameterError,
            r"pairs of node numbers, \(E, 2\), got float64 of shape \(1, 2\)",
        ),
        ([(0, 1), (1, 3)], 3, ParameterError, r"edge 1, \(1, 3\), has a node outside 0..2"),
        ([(0, 1), (1, -1)], 3, ParameterError, r"edge 1, \(1, -1\), has a node outside 0..2"),
        ([], None, ParameterError, "n_nodes must be a whole number of at least 1, got 0"),
        ([(0, 1)], 2.0, ParameterError, "n_nodes must be a whole number of at least 1, got 2.0"),
        (
            [(0, 1), (2, 3)],
            None,
            InfeasibleError,
            "no path joins node 0 with node 2; forest=True allows that",
        ),
    ],
)
def test_refused_graphs(edges, n, error, message):
    with pytest.raises(error, match=message):
        SpanningTree(edges, n)


def test_refused_weights():
    oracle = SpanningTree(TRIANGLE, forest=True)
    with pytest.raises(WeightsError, match="item 1 is nan"):
        oracle(np.array([0.0, np.nan, 0.0]))
    with pytest.raises(WeightsError, match="item 2 is inf"):
        oracle(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, np.inf]]))
    with pytest.raises(WeightsError, match="3 weights, one per item"):
        oracle(np.zeros(4))
    assert repr(oracle) == "SpanningTree(3 nodes, 3 edges, forest=True)"

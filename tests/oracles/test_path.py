from functools import partial

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from superarm import Agent, CombLinTS, DagPath, GridPath, ShortestPath, minimize
from superarm.arrays.compiled import ENOUGH_FOR_ALL_CORES
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.oracles.path import cheapest_paths
from superarm.testing import check_oracle
from support import peak_memory


def random_network(rng, N):
    """Edges of a random directed graph, cycles included, and all its simple paths from node 0 to
    node N-1."""
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j and rng.random() < 0.5]

    def walks(nodes):
        if nodes[-1] == N - 1:
            yield []
            return
        for e, (i, j) in enumerate(pairs):
            if i == nodes[-1] and j not in nodes:
                yield from ([e, *rest] for rest in walks([*nodes, j]))

    return pairs, list(walks([0]))


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]
DIAMOND_PATHS = [(0, 2), (1, 3), (4,)]


def test_paths_through_networks_under_the_contract():
    check_oracle(DagPath(DIAMOND, 0, 3), 5, family=DIAMOND_PATHS)
    check_oracle(ShortestPath(DIAMOND, 0, 3), 5, family=DIAMOND_PATHS, domain=lambda w: -abs(w))


PARALLEL = [(0, 1), (0, 1), (1, 1), (1, 2), (1, 2), (0, 2)]
PARALLEL_PATHS = [(0, 3), (0, 4), (1, 3), (1, 4), (5,)]


def test_parallel_edges_and_self_loops_under_the_contract():
    check_oracle(DagPath(PARALLEL, 0, 2), 6, family=PARALLEL_PATHS)
    check_oracle(ShortestPath(PARALLEL, 0, 2), 6, family=PARALLEL_PATHS, domain=lambda w: -abs(w))


@pytest.mark.parametrize("Path", [DagPath, ShortestPath])
def test_of_parallel_edges_the_best_is_used_and_the_first_of_equal_ones(Path):
    oracle = Path(PARALLEL, 0, 2)
    assert oracle(np.array([-2.0, -1.0, 0.0, -1.0, -2.0, -9.0])).tolist() == [1, 3]
    assert oracle(np.array([-1.0, -1.0, 0.0, -1.0, -1.0, -9.0])).tolist() == [0, 3]
    assert oracle(np.array([-np.inf, -1.0, 0.0, -np.inf, -1.0, -9.0])).tolist() == [1, 4]


@pytest.mark.parametrize("Path", [DagPath, ShortestPath])
def test_nodes_are_any_whole_numbers_and_take_no_room(Path):
    """An array per node up to the largest would take gigabytes."""
    edges = [(500_000_000, -3), (-3, 499_999_999)]
    made = partial(Path, edges, 500_000_000, 499_999_999)
    assert peak_memory(lambda: made()(np.array([-1.0, -2.0]))) < 2**20
    oracle = made()
    assert oracle(np.array([-1.0, -2.0])).tolist() == [0, 1]
    assert oracle.items == edges
    far = 2**64 - 1
    assert Path(np.array([[0, far]], np.uint64), 0, far).items == [(0, far)]
    with pytest.raises(InfeasibleError, match="no path leads from source 499999999 to target -3"):
        Path(edges, 499_999_999, -3)


def test_beyond_the_target_nothing_is_looked_at():
    """A kernel that went on would find its way to the target again, by a cost below zero."""
    oracle = ShortestPath([(0, 1), (1, 2), (2, 3), (3, 1)], 0, 2)
    w = np.array([[-1.0, -1.0, 9.0, 9.0]])
    A, size = cheapest_paths(w, oracle._roads, oracle._source, oracle._target, oracle.K)
    assert size.tolist() == [2]
    assert A[0, :2].tolist() == [0, 1]


def test_shortest_paths_against_scipy_alone_in_a_batch_and_on_all_cores():
    rng = np.random.default_rng(0)
    N = 300
    pairs = np.concatenate(
        [rng.integers(0, N, (2000, 2)), np.c_[np.arange(N), np.roll(np.arange(N), -1)]]
    )
    oracle = ShortestPath(pairs, 0, N // 2)
    W = -rng.random((ENOUGH_FOR_ALL_CORES // len(pairs) + 1, len(pairs)))
    A = oracle(W)
    np.testing.assert_array_equal(A[:5], np.stack([oracle(w) for w in W[:5]]))
    for w, items in zip(W[::20], A[::20], strict=True):
        least = np.full((N, N), np.inf)
        np.minimum.at(least, tuple(pairs.T), -w)
        matrix = csr_array(np.where(np.isinf(least), 0.0, least))
        best = dijkstra(matrix, indices=0)[N // 2]
        path = pairs[items[items >= 0]]
        assert (path[1:, 0] == path[:-1, 1]).all()
        assert (path[0, 0], path[-1, 1]) == (0, N // 2)
        assert -w[items[items >= 0]].sum() == pytest.approx(best, rel=1e-12)


def test_dag_path_on_a_grid_is_grid_path():
    grid = GridPath(12)
    edges = grid.edges[:, :, 0] * 13 + grid.edges[:, :, 1]
    dag = DagPath(edges, 0, 168)
    W = np.random.default_rng(0).standard_normal((900, grid.L))  # enough for all cores
    np.testing.assert_array_equal(dag(W), grid(W))
    np.testing.assert_array_equal(dag(W), np.stack([dag(w) for w in W]))


def test_edges_off_every_path_are_never_used_but_still_checked():
    oracle = DagPath([(0, 1), (1, 2), (1, 3), (4, 2)], 0, 2)
    assert oracle(np.array([-1.0, -1.0, 9.0, 9.0])).tolist() == [0, 1]
    with pytest.raises(WeightsError, match="item 3 is nan"):
        oracle(np.array([0.0, 0.0, 0.0, np.nan]))


@pytest.mark.parametrize("Path", [DagPath, ShortestPath])
def test_networkx_graphs(Path):
    graph = networkx.DiGraph([("home", "park"), ("park", "work"), ("home", "work")])
    oracle = Path.from_networkx(graph, "home", "work")
    A = oracle(np.array([-1.0, -3.0, -2.0]))
    assert [oracle.items[e] for e in A if e >= 0] == [("home", "park"), ("park", "work")] or A[
        0
    ] == 1
    assert set(oracle.items) == set(graph.edges)
    cost = dict(zip(oracle.items, (1.0, 2.0, 3.0), strict=True))
    networkx.set_edge_attributes(graph, cost, "cost")
    best = networkx.shortest_path_length(graph, "home", "work", weight="cost")
    w = -np.array([cost[item] for item in oracle.items])
    A = oracle(w)
    assert -w[A[A >= 0]].sum() == best


@pytest.mark.parametrize("Path", [DagPath, ShortestPath])
def test_networkx_graphs_with_parallel_edges(Path):
    graph = networkx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "b"), ("b", "c")])
    oracle = Path.from_networkx(graph, "a", "c")
    assert oracle.items == [("a", "b", 0), ("a", "b", 1), ("b", "b", 0), ("b", "c", 0)]
    assert oracle(np.array([-2.0, -1.0, 0.0, -1.0])).tolist()[:2] == [1, 3]
    graph.add_node("z")
    with pytest.raises(InfeasibleError, match="no edge of the graph has the target 'z'"):
        Path.from_networkx(graph, "a", "z")


@pytest.mark.parametrize("Path", [DagPath, ShortestPath])
@pytest.mark.parametrize(
    ("edges", "ends", "error", "message"),
    [
        ([(0, 1), (2, 1)], (0, 2), InfeasibleError, "no path leads from source 0 to target 2"),
        ([(0, 1)], (0, 5), ParameterError, "the target 5 is not one of the nodes: no edge"),
        ([(0, 1)], (1, 1), ParameterError, "source and target are the same node, 1"),
        ([(0.5, 1.0)], (0, 1), ParameterError, "pairs of node numbers"),
        ([(0, 1, 2)], (0, 1), ParameterError, "pairs of node numbers"),
        ([], (0, 1), ParameterError, "is not one of the nodes"),
        ([(0, 1), (1,)], (0, 1), ParameterError, "pairs of node numbers"),
        (3, (0, 1), ParameterError, "pairs of node numbers"),
        ([(0, 1)], (0.5, 1), ParameterError, "the source 0.5 is not one of the nodes"),
        ([(0, 1)], ("0", 1), ParameterError, "the source '0' is not one of the nodes"),
    ],
)
def test_networks_are_validated(Path, edges, ends, error, message):
    with pytest.raises(error, match=message):
        Path(edges, *ends)


@pytest.mark.parametrize("Path", [DagPath, ShortestPath])
def test_networkx_graphs_are_checked(Path):
    with pytest.raises(ParameterError, match="paths need a directed graph"):
        Path.from_networkx(networkx.Graph([("a", "b")]), "a", "b")
    with pytest.raises(ParameterError, match="the target 'z' is not a node of the graph"):
        Path.from_networkx(networkx.DiGraph([("a", "b")]), "a", "z")


def test_a_cycle_is_refused():
    with pytest.raises(ParameterError, match="cycle through or before node"):
        DagPath([(0, 1), (1, 2), (2, 1), (2, 3)], 0, 3)


def test_positive_weights_are_no_costs():
    message = r"item 1 has weight 0\.5: weights are minus costs .* pass clip=True to count negative"
    with pytest.raises(WeightsError, match=message):
        ShortestPath(DIAMOND, 0, 3)(np.array([0.0, 0.5, 0.0, 0.0, 0.0]))
    with pytest.raises(ParameterError, match="clip must be True or False, got 1"):
        ShortestPath(DIAMOND, 0, 3, clip=1)
    assert repr(ShortestPath(DIAMOND, 0, 3)) == "ShortestPath(5 edges, 4 nodes)"
    assert repr(DagPath(DIAMOND, 0, 3)) == "DagPath(5 edges, at most 2 per path)"
    assert (
        repr(ShortestPath(DIAMOND, 0, 3, clip=True)) == "ShortestPath(5 edges, 4 nodes, clip=True)"
    )


@settings(max_examples=100)
@given(st.integers(0, 10**9), st.integers(3, 5))
def test_clipped_costs_are_costs_of_zero(seed, N):
    """Of any sign, against all paths, with roads closed; batches and costs too."""
    rng = np.random.default_rng(seed)
    edges, paths = random_network(rng, N)
    if not paths:
        return
    oracle = ShortestPath(edges, 0, N - 1, clip=True)
    W = rng.standard_normal((3, len(edges)))
    W[rng.random(W.shape) < 0.1] = -np.inf
    clipped = np.minimum(W, 0.0)
    open_paths = [max(row[path].sum() for path in paths) > -np.inf for row in clipped]
    W = W[open_paths]
    clipped = clipped[open_paths]
    A = oracle(W)
    np.testing.assert_array_equal(A, ShortestPath(edges, 0, N - 1)(clipped))
    costs = np.where(np.isneginf(W), W, -W)
    np.testing.assert_array_equal(A, minimize(oracle)(costs))
    for items, row in zip(A, clipped, strict=True):
        best = max(row[path].sum() for path in paths)
        assert row[items[items >= 0]].sum() == pytest.approx(best, abs=1e-12)


def test_clipping_under_the_contract():
    """It is exact for costs, which are not negative; others are refused as everywhere."""
    oracle = ShortestPath(DIAMOND, 0, 3, clip=True)
    assert oracle.gap == minimize(oracle).gap == 0
    check_oracle(oracle, 5, family=DIAMOND_PATHS, domain=lambda w: np.minimum(w, 0.0))
    check_oracle(minimize(oracle), 5, family=DIAMOND_PATHS, domain=positive_costs)


def positive_costs(w):
    return np.where(np.isneginf(w), w, np.abs(w))


def test_thompson_sampling_of_costs_never_stops():
    """20 runs of 60 routes. Without clipping each of them met a negative cost."""
    graph = networkx.DiGraph([(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 4), (2, 4)])
    oracle = minimize(ShortestPath.from_networkx(graph, 0, 4, clip=True))
    cost = np.array([1.0, 0.6, 0.5, 0.2, 0.9, 1.5, 0.4])
    best = cost[oracle(cost)[:3]].sum()
    taken = []
    for seed in range(20):
        agent = Agent(CombLinTS(lam=1.0, sigma=0.2), features=np.eye(7), oracle=oracle, seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(60):
            route = agent.choose()
            agent.observe(route, cost[route] + 0.2 * rng.standard_normal(len(route)))
        taken.append(cost[agent.choose()].sum())
    assert np.mean(taken) == pytest.approx(best, rel=0.05)

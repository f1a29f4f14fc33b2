import itertools

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import Agent, CombLinTS, SpanningTree, minimize, network_flow, steiner_tree
from superarm.errors import InfeasibleError, ParameterError
from superarm.testing import check_oracle

EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 4), (4, 4)]


def subsets(L):
    return [s for k in range(L + 1) for s in itertools.combinations(range(L), k)]


def connecting(edges, terminals):
    """Every set of edges that connects the terminals."""
    sets = []
    for s in subsets(len(edges)):
        graph = nx.Graph([edges[e] for e in s])
        graph.add_nodes_from(terminals)
        if set(terminals) <= nx.node_connected_component(graph, terminals[0]):
            sets.append(s)
    return sets


def carrying(arcs, supply, capacity):
    """Every set of arcs along which the maximum flow from all supplies is all that is asked for."""
    asked = -sum(amount for amount in supply.values() if amount < 0)
    sets = []
    for s in subsets(len(arcs)):
        graph = nx.DiGraph()
        graph.add_nodes_from(["in", "out"])
        for node, amount in supply.items():
            pair = ("in", node) if amount > 0 else (node, "out")
            graph.add_edge(*pair, capacity=abs(amount))
        for e in s:
            graph.add_edge(*arcs[e], capacity=capacity[e])
        if nx.maximum_flow_value(graph, "in", "out") == asked:
            sets.append(s)
    return sets


@pytest.mark.parametrize("terminals", [[0, 3, 4], [4, 1, 2, 0, 3]])
def test_steiner_contract(terminals):
    oracle = steiner_tree(EDGES, terminals)
    assert oracle.gap == 0
    assert oracle.items == EDGES
    check_oracle(oracle, 7, family=connecting(EDGES, terminals), trials=14)
    check_oracle(minimize(oracle), 7, family=connecting(EDGES, terminals), trials=10)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_the_cheapest_edges_that_connect_are_a_tree(seed, T):
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(6, 9, seed=seed)
    edges = list(graph.edges)
    terminals = [int(node) for node in rng.choice(sorted({n for e in edges for n in e}), T, False)]
    cost = rng.uniform(0.1, 1, 9)
    oracle = minimize(steiner_tree(edges, terminals))
    family = connecting(edges, terminals)
    if not family:
        with pytest.raises(InfeasibleError):
            oracle(cost)
        return
    A = oracle(cost)
    A = A[A >= 0]
    assert nx.is_tree(nx.Graph([edges[e] for e in A]))
    assert cost[A].sum() == pytest.approx(min(cost[list(s)].sum() for s in family))


def test_all_nodes_are_connected_by_a_spanning_tree():
    graph = nx.random_geometric_graph(20, 0.4, seed=1)
    assert nx.is_connected(graph)
    cost = np.random.default_rng(0).random(graph.number_of_edges())
    A = minimize(steiner_tree(graph.edges, graph.nodes))(cost)
    best = minimize(SpanningTree.from_networkx(graph))(cost)
    assert set(A[A >= 0]) == set(best)


def test_two_terminals_are_connected_by_a_shortest_path():
    graph = nx.grid_2d_graph(5, 5)
    cost = np.random.default_rng(0).random(40)
    for edge, c in zip(graph.edges, cost, strict=True):
        graph.edges[edge]["weight"] = c
    A = minimize(steiner_tree(graph.edges, [(0, 0), (4, 3)]))(cost)
    shortest = nx.shortest_path_length(graph, (0, 0), (4, 3), weight="weight")
    assert cost[A[A >= 0]].sum() == pytest.approx(shortest)


ARCS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 1), (2, 4), (3, 4)]


@pytest.mark.parametrize(
    ("supply", "capacity"),
    [
        ({0: 2, 4: -2}, 1),
        ({0: 3, 4: -2, 3: -1}, [2, 2, 1, 2, 2, 2, 1, 2]),
        ({0: 2, 1: 2, 4: -3}, {arc: 1 + sum(arc) % 3 for arc in reversed(ARCS)}),
        ({0: 1.5, 4: -1.5}, None),
        ({0: 1}, None),
    ],
)
def test_flow_contract(supply, capacity):
    oracle = network_flow(ARCS, supply, capacity=capacity)
    each = 100 if capacity is None else capacity
    each = [each[a] for a in ARCS] if isinstance(each, dict) else np.broadcast_to(each, 8).tolist()
    check_oracle(oracle, 8, family=carrying(ARCS, supply, each), trials=14)


def test_unit_flows_are_minimum_cost_flows():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        graph = nx.gnm_random_graph(12, 45, seed=seed, directed=True)
        cost = rng.integers(1, 50, 45)
        for arc, c in zip(graph.edges, cost.tolist(), strict=True):
            graph.edges[arc].update(weight=c, capacity=1)
        graph.nodes[0]["demand"] = -2
        graph.nodes[1]["demand"] = 2
        try:
            least = nx.min_cost_flow_cost(graph)
        except nx.NetworkXUnfeasible:
            continue
        A = minimize(network_flow(graph.edges, {0: 2, 1: -2}, capacity=1))(cost)
        assert cost[A[A >= 0]].sum() == least


def test_arcs_are_used_together_where_that_is_cheaper():
    """Two units take one road that is paid once, where its capacity allows it."""
    arcs = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("a", "b")]
    cost = np.array([1.0, 3.0, 2.0, 1.5, 0.2])
    supply = pd.Series({"s": 2.0, "t": -2.0})
    assert minimize(network_flow(arcs, supply))(cost).tolist() == [0, 3, 4, -1, -1]
    narrow = minimize(network_flow(arcs, supply, capacity=1))
    assert narrow(cost).tolist() == [0, 1, 2, 3, -1]
    with pytest.raises(InfeasibleError):
        network_flow(arcs, supply, capacity=0.9)(cost)


def test_an_agent_aligns_its_items_with_the_edges():
    edges = [("a", "b"), ("b", "c"), ("a", "c")]
    for oracle in (steiner_tree(edges, ["a", "c"]), network_flow(edges, {"a": 1, "c": -1})):
        items = [("a", "c"), ("a", "b"), ("b", "c")]
        agent = Agent(CombLinTS(), features=np.eye(3), items=items, oracle=minimize(oracle), seed=0)
        agent.learn(np.eye(3), [9.0, 1.0, 1.0])
        agent.learn(np.eye(3), [9.0, 1.0, 1.0])
        assert set(agent.choose()) == {("a", "b"), ("b", "c")}


@pytest.mark.parametrize(
    ("edges", "terminals", "message"),
    [
        ([], [0, 1], "edges must be pairs of nodes, at least one"),
        ([(0,)], [0, 1], "edges must be pairs of nodes"),
        ([3], [0, 1], "edges must be pairs of nodes"),
        ([([], 1)], [0, 1], "edges must be pairs of nodes"),
        ([(0, 1)], [0, 2], "terminal 2 is at no edge"),
        ([(0, 1)], [0, 0], r"at least two nodes are to be connected, got terminals \[0\]"),
    ],
)
def test_bad_trees_are_refused(edges, terminals, message):
    with pytest.raises(ParameterError, match=message):
        steiner_tree(edges, terminals)


@pytest.mark.parametrize(
    ("supply", "capacity", "message"),
    [
        ({0: 1, 9: -1}, None, "supply names node 9, which is at no arc"),
        ({0: 1, 4: -2}, None, "2.0 is asked for, but only 1.0 supplied"),
        ({0: np.nan}, None, "the supply of node 0 must be finite, got nan"),
        ({0: 1, 4: -1}, [1, 2], "capacity must be a number, or 8, one per arc"),
        ({0: 1, 4: -1}, -1, "not negative"),
        ({0: 1, 4: -1}, "a", "capacity must be numbers"),
        ({0: 1, 4: -1}, {(0, 1): 2}, "arcs and capacity must name the same"),
    ],
)
def test_bad_flows_are_refused(supply, capacity, message):
    with pytest.raises(ParameterError, match=message):
        network_flow(ARCS, supply, capacity=capacity)

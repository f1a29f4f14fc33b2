import itertools

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from superarm import Knapsack, Milp, TopK, brute_force
from superarm.errors import InfeasibleError, OracleError, ParameterError, WeightsError
from superarm.oracles import milp
from superarm.oracles.highs import Answer
from superarm.testing import check_oracle


def value(w, A):
    return w[A[A >= 0]].sum()


def family(A, b):
    L = np.shape(A)[1]
    X = np.array(list(itertools.product([0, 1], repeat=L)))
    return [
        np.flatnonzero(x).tolist() for x in X[(X @ np.transpose(A) <= np.asarray(b) + 1e-12).all(1)]
    ]


@pytest.mark.parametrize(
    ("A", "b"),
    [
        ([[3, 2, 2, 1, 1], [1, 0, 1, 0, -1]], [4, 0]),
        ([[-1.5, -1, -0.5, 0, 0], [1, 1, 1, 1, 1]], [-1, 3]),
    ],
)
def test_contract(A, b):
    check_oracle(Milp(A, b), 5, family=family(A, b), trials=30)
    check_oracle(Milp(sparse.csr_matrix(A), b, gap=0.2), 5, family=family(A, b), trials=30)


def test_the_bound_of_a_set_worth_next_to_nothing_is_rounded():
    """As the largest weight is: one item must be chosen, and one costs far more than the other."""
    A = [[-1.1, 0.4, -0.9], [1.3, 0.15, -0.57], [-1.2, -1.2, 0.2]]
    W = [[-0.149610888, -x, -np.inf] for x in 1e-7 * np.random.default_rng(0).random(200)]
    A, gap = Milp(A, [1.4, 1.35, -0.1]).solve_with_gap(np.array(W))
    assert (A[:, 0] == 1).all()
    assert not gap.any()


def test_one_row_is_a_knapsack():
    rng = np.random.default_rng(0)
    c = rng.random(60)
    W = rng.standard_normal((4, 60)) * 1e-4
    for max_items in (None, 5):
        A, B = (
            Milp(c[None], [9.0], max_items=max_items)(W),
            Knapsack(c, 9.0, max_items=max_items)(W),
        )
        for w, a, b in zip(W, A, B, strict=True):
            assert a[a >= 0].tolist() == b[b >= 0].tolist(), w


def test_two_inequalities_are_an_equality():
    W = np.random.default_rng(1).standard_normal((3, 2, 12))
    ones = np.ones(12)
    A = Milp([ones, -ones], [4, -4], max_items=4)(W)
    assert A.shape == (3, 2, 4)
    np.testing.assert_array_equal(A, np.sort(TopK(4)(W)))
    one_of_each_half = sparse.coo_array(np.kron(np.eye(2), np.ones(6)))
    W = np.abs(W)
    A = Milp(one_of_each_half, [1, 1], max_items=2)(W)
    np.testing.assert_array_equal(
        A, np.stack([W[..., :6].argmax(-1), 6 + W[..., 6:].argmax(-1)], -1)
    )


@pytest.mark.parametrize("gap", [0.1])
def test_gap_is_kept(gap):
    rng = np.random.default_rng(0)
    for _ in range(60):
        A, w = rng.random((3, 15)), rng.random(15) * 10.0 ** rng.integers(-5, 5)
        b = 0.4 * A.sum(1)
        assert value(w, Milp(A, b, gap=gap)(w)) >= (1 - gap) * value(w, Milp(A, b)(w)) * (1 - 1e-12)
    assert Milp(A, b, gap=gap).gap == gap


def test_small_coefficients_count_as_much_as_large_ones():
    c = np.array([3.0, 2.0, 2.0])
    for scale in (1e-300, 1e-9, 1.0, 1e9):
        assert Milp([c * scale], [4 * scale])(np.array([3.5, 2.0, 2.0])).tolist() == [1, 2, -1]
        assert Milp([c * scale], [3.9999 * scale])(np.array([3.5, 2.0, 2.0])).tolist() == [
            0,
            -1,
            -1,
        ]


def test_points_that_miss_a_constraint_are_cut_off(monkeypatch):
    near = 4 - 1e-9  # HiGHS lets items 1 and 2 pass
    w = np.array([3.5, 2.0, 2.0])
    assert Milp([[3.0, 2.0, 2.0]], [near])(w).tolist() == [0, -1, -1]
    missing = Answer(np.array([0.0, 1.0, 1.0]), 4.0, feasible=True)
    monkeypatch.setattr(milp, "maximize", lambda *_, **__: missing)
    with pytest.raises(OracleError, match="miss a constraint"):
        Milp([[3.0, 2.0, 2.0]], [near])(w)


def conflicts(L, seed=0):
    """Items of which some pairs exclude each other, and their weights."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, L, (2 * L, 2)))
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    rows = np.repeat(np.arange(len(pairs)), 2)
    A = sparse.csc_array((np.ones(2 * len(pairs)), (rows, pairs.ravel())), (len(pairs), L))
    return A, np.ones(len(pairs)), rng.random(L)


def greedily(A, b, w):
    """The largest weights first, as far as they fit."""
    used = np.zeros(len(b))
    total = 0.0
    for e in np.argsort(-w):
        column = A[:, [e]].toarray().ravel()
        if (used + column <= b).all():
            used += column
            total += w[e]
    return total


def test_after_a_time_limit_the_set_is_at_least_that_of_greedy(capfd):
    A, b, w = conflicts(3000)
    oracle = Milp(A, b, time_limit=1e-9)
    assert oracle.gap is None
    items, gap = oracle.solve_with_gap(w)
    chosen = items[items >= 0]
    x = np.zeros(3000)
    x[chosen] = 1
    assert (A @ x <= b).all()
    assert value(w, items) >= greedily(A, b, w)
    assert 0 < gap < 1
    assert (1 - gap) * w.sum() <= value(w, items) * (1 + 1e-12)
    assert capfd.readouterr() == ("", "")


def test_greedy_counts_use_where_weights_alone_mislead():
    w = np.array([1.0, 0.9, 0.9, 0.9, -np.inf])
    costs = [[3.0, 1.0, 1.0, 1.0, 0.1]]
    assert Milp(costs, [3.0], time_limit=1e-9)(w).tolist() == [1, 2, 3, -1, -1]


def test_time_limit_without_a_set(monkeypatch):
    """Where no item at all is infeasible, only HiGHS can find a set."""
    nothing = Answer(None, np.inf, feasible=True)
    monkeypatch.setattr(milp, "maximize", lambda *_, **__: nothing)
    with pytest.raises(OracleError, match=r"no set found with time_limit=0.5"):
        Milp([[-1.0, -1.0]], [-1.0], time_limit=0.5)(np.ones(2))


def test_a_time_limit_that_is_not_reached_changes_nothing():
    rng = np.random.default_rng(0)
    A = rng.random((3, 30))
    W = rng.standard_normal((4, 30))
    found, gap = Milp(A, [3.0, 4.0, 5.0], time_limit=60.0).solve_with_gap(W)
    np.testing.assert_array_equal(found, Milp(A, [3.0, 4.0, 5.0])(W))
    assert gap.tolist() == [0, 0, 0, 0]


def test_gaps_of_weights_below_zero():
    must = Milp([[-1.0, -1.0]], [-1.0])
    items, gap = must.solve_with_gap(np.array([[-2.0, -3.0], [2.0, -3.0]]))
    assert items.tolist() == [[0, -1], [0, -1]]
    assert gap.tolist() == [0, 0]


def test_weights_are_refused():
    oracle = Milp([[1.0, 1.0]], [1.0])
    for bad in (np.nan, np.inf):
        with pytest.raises(WeightsError, match=f"item 1 is {bad}"):
            oracle(np.array([0.0, bad]))
    with pytest.raises(WeightsError, match="2 weights, one per item"):
        oracle(np.zeros(3))


@pytest.mark.parametrize(
    ("A", "b", "settings", "message"),
    [
        ([[1.0, np.nan]], [1.0], {}, "A must be finite: constraint 0, item 1 is nan"),
        (
            sparse.csc_array([[1.0, 0.0], [0.0, -np.inf]]),
            [1.0, 1.0],
            {},
            "constraint 1, item 1 is -inf",
        ),
        ([[1.0], [1.0]], [1.0, np.inf], {}, "b must be finite: constraint 1 is inf"),
        ([[1.0, 2.0]], [1.0, 2.0], {}, r"got \(1, 2\) and \(2,\)"),
        (np.zeros((0, 2)), [], {}, r"got \(0, 2\) and \(0,\)"),
        ([1.0, 2.0], [1.0], {}, "A and b must be numeric, A a matrix"),
        ([["a"]], [1.0], {}, "A and b must be numeric"),
        ([[1.0]], ["a"], {}, "A and b must be numeric"),
        ([[1.0]], [1.0], {"max_items": 0}, "max_items must be a whole number of at least 1"),
        ([[1.0]], [1.0], {"gap": 1.0}, "gap must be at least 0 and less than 1, got 1.0"),
        ([[1.0]], [1.0], {"time_limit": -1.0}, "time_limit must be a positive, finite number"),
    ],
)
def test_bad_parameters_are_refused(A, b, settings, message):
    with pytest.raises(ParameterError, match=message):
        Milp(A, b, **settings)


def excluded(L, pairs, most=None):
    most = L if most is None else most
    return [
        s
        for k in range(most + 1)
        for s in itertools.combinations(range(L), k)
        if not any(a in s and b in s for a, b in pairs)
    ]


def test_conflicts_exclude_each_other():
    pairs = [(0, 1), (1, 2), (4, 3)]
    anything = np.ones((1, 5))
    check_oracle(Milp(anything, [5], conflicts=pairs), 5, family=excluded(5, pairs), trials=30)
    two = Milp(anything, [5], conflicts=np.array(pairs), max_items=2)
    check_oracle(two, 5, family=excluded(5, pairs, 2), trials=30)
    assert two.K == 2
    rng = np.random.default_rng(0)
    for _ in range(20):
        pairs = [p for p in itertools.combinations(range(9), 2) if rng.random() < 0.3]
        w = rng.standard_normal(9)
        best = value(w, brute_force(excluded(9, pairs))(w))
        limited = Milp(np.ones((1, 9)), [9], conflicts=pairs, time_limit=60.0)
        assert value(w, limited(w)) == pytest.approx(best)


def test_conflicts_go_by_id_in_a_data_frame():
    costs = pd.DataFrame([[1.0, 1.0, 1.0]], columns=["a", "b", "c"])
    oracle = Milp(costs, [3.0], conflicts=[("a", "c")])
    assert oracle(np.array([0.1, 0.2, 0.3])).tolist() == [1, 2, -1]
    for pair in [("a", "d"), (0, 1), ("a", "b", "c"), ("a", "a"), "a", 3]:
        with pytest.raises(ParameterError, match="conflicts must be pairs"):
            Milp(costs, [3.0], conflicts=[pair])


@pytest.mark.parametrize("pair", [(0, 3), (-1, 0), (1, 1), (0, 0.5), (0,), (0, 1, 2), 7])
def test_conflicts_that_are_none_are_refused(pair):
    with pytest.raises(ParameterError, match="conflicts must be pairs"):
        Milp(np.ones((1, 3)), [3], conflicts=[pair])


EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 4)]


def steiner(edges, terminals, nodes):
    """Edges that connect the first terminal with the others: a flow of 1 to each fits."""
    root, *others = terminals
    B = np.zeros((nodes, len(edges)))
    for e, (u, v) in enumerate(edges):
        B[u, e] = -1
        B[v, e] = 1
    E = np.eye(len(edges))
    T = len(others)
    inner = np.arange(nodes) != root
    arrives = np.kron(np.eye(T), np.hstack([-B, B])[inner])
    asked = np.concatenate([-(np.arange(nodes) == t)[inner].astype(float) for t in others])
    along = np.kron(np.eye(T), np.hstack([E, E]))
    A = np.block(
        [
            [np.zeros((len(asked), len(edges))), arrives],
            [-np.kron(np.ones((T, 1)), E), along],
        ]
    )
    return A, np.append(asked, np.zeros(T * len(edges))), 2 * T * len(edges)


def connecting(edges, terminals):
    sets = []
    for k in range(len(edges) + 1):
        for s in itertools.combinations(range(len(edges)), k):
            graph = nx.Graph([edges[e] for e in s])
            graph.add_nodes_from(terminals)
            if set(terminals) <= nx.node_connected_component(graph, terminals[0]):
                sets.append(s)
    return sets


def test_helpers_are_flows_that_connect():
    terminals = [0, 3, 4]
    A, b, helpers = steiner(EDGES, terminals, 5)
    oracle = Milp(A, b, helpers=helpers)
    assert oracle.L == oracle.K == 6
    assert repr(oracle) == f"Milp({len(b)} constraints, 6 items, {helpers} helpers)"
    check_oracle(oracle, 6, family=connecting(EDGES, terminals), trials=30)
    few = Milp(A, b, helpers=helpers, max_items=3, conflicts=[(0, 1)], time_limit=60.0)
    sets = [s for s in connecting(EDGES, terminals) if len(s) <= 3 and not {0, 1} <= set(s)]
    check_oracle(few, 6, family=sets, trials=30)


def test_helpers_that_only_a_tolerance_allows_are_none():
    """HiGHS takes x = 1e-7 for 0, and 1e7 times that for 1: a flow through a closed edge."""
    A = [[0.0, 0.0, -1.0], [-1e7, 0.0, 1.0]]  # y >= 1, y <= 1e7 x_0
    oracle = Milp(A, [-1.0, 0.0], helpers=1)
    assert oracle(np.array([-1.0, 1.0])).tolist() == [0, 1]
    with pytest.raises(InfeasibleError):
        oracle(np.array([-np.inf, 1.0]))


def test_helpers_in_a_data_frame_are_no_items():
    A = pd.DataFrame([[1.0, 1.0, -1.0], [0.0, 0.0, 1.0]], columns=["a", "b", "spent"])
    oracle = Milp(A, [0.0, 1.5], helpers=1)
    assert oracle.ids == ["a", "b"]
    assert oracle(np.array([0.4, 0.5])).tolist() == [1, -1]
    with pytest.raises(ParameterError, match="A has 3 columns, too few for 3 helpers"):
        Milp(A, [0.0, 1.5], helpers=3)
    with pytest.raises(ParameterError, match="helpers must be a whole number"):
        Milp(A, [0.0, 1.5], helpers=-1)

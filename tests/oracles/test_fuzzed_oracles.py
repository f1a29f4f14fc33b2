"""Every oracle but `Tour`, which is not exact, against brute force, on hundreds of small random
problems, or as many as SUPERARM_FUZZ says.

A problem is an oracle, and all sets that it may choose as rows of 0 and 1, X (F, L), found without
it. Each problem is solved for several weights at once, with ties, negative weights and items that
may not be chosen.
"""

import functools
import itertools
import os
import zlib

import numpy as np
import pytest

from superarm import (
    Assignment,
    BipartiteMatching,
    Budget,
    DagPath,
    GridPath,
    GroupLimits,
    Intervals,
    Knapsack,
    LaminarMatroid,
    Matroid,
    Milp,
    PartitionMatroid,
    Quota,
    ShortestPath,
    Slate,
    SpanningTree,
    TopK,
)
from superarm.agent.ahead import compiled_oracles
from superarm.errors import InfeasibleError

COUNT = int(os.environ.get("SUPERARM_FUZZ", "500"))
ROWS = 5  # weights for each problem
MOST = 7  # items


@functools.cache
def subsets(L):
    """All sets of L items, (2^L, L)."""
    return np.array(list(itertools.product([0, 1], repeat=L)))


def as_rows(sets, L):
    """Sets of items as rows of 0 and 1."""
    X = np.zeros((len(sets), L), int)
    for x, items in zip(X, sets, strict=True):
        x[list(items)] = 1
    return X


def largest(X):
    size = X.sum(1)
    return X[size == size.max()]


def some_costs(rng, L):
    kinds = [
        rng.random(L),
        rng.integers(0, 5, L).astype(float),
        rng.choice([0.1, 0.2, 0.3], L),
        rng.lognormal(0, 2, L),
    ]
    return kinds[rng.integers(len(kinds))]


def some_labels(rng, L):
    return rng.integers(0, 3, L)


def number_of(X, labels, g):
    """How many items of the group each set has."""
    return X[:, labels == g].sum(1)


def top_k(rng):
    L = int(rng.integers(1, MOST + 1))
    k = int(rng.integers(1, L + 1))
    at_most = bool(rng.integers(2))
    size = subsets(L).sum(1)
    return TopK(k, at_most=at_most), subsets(L)[size <= k if at_most else size == k]


def quota(rng):
    labels = some_labels(rng, rng.integers(1, MOST + 1))
    X = subsets(len(labels))
    sizes = {g: int((labels == g).sum()) for g in set(labels.tolist())}
    if rng.random() < 0.5:
        counts = {g: int(rng.integers(0, n + 1)) for g, n in sizes.items()}
        fits = [number_of(X, labels, g) == n for g, n in counts.items()]
        return Quota(labels, counts), X[np.all(fits, axis=0)]

    most = {g: int(rng.integers(0, n + 1)) for g, n in sizes.items()}
    least = {g: int(rng.integers(0, n + 1)) for g, n in most.items() if rng.random() < 0.5}
    total = int(rng.integers(sum(least.values()), sum(most.values()) + 1))
    fits = [number_of(X, labels, g) <= n for g, n in most.items()]
    fits += [number_of(X, labels, g) >= n for g, n in least.items()]
    fits += [X.sum(1) == total]
    oracle = Quota(labels, total=total, minimum=least, maximum=most)
    return oracle, X[np.all(fits, axis=0)]


def partition_matroid(rng):
    labels = some_labels(rng, rng.integers(1, MOST + 1))
    capacities = {g: int(rng.integers(0, 4)) for g in set(labels.tolist())}
    bases = bool(rng.integers(2))
    X = subsets(len(labels))
    X = X[np.all([number_of(X, labels, g) <= n for g, n in capacities.items()], axis=0)]
    return PartitionMatroid(labels, capacities, bases=bases), largest(X) if bases else X


def laminar_matroid(rng):
    """Split the items again and again; keep some of the parts."""
    L = int(rng.integers(1, MOST + 1))
    sets = []
    parts = [rng.permutation(L)]
    while parts:
        part = parts.pop()
        if rng.random() < 0.7:
            sets.append(part)
        if len(part) > 1 and rng.random() < 0.8:
            parts += np.split(part, [rng.integers(1, len(part))])
    capacities = rng.integers(0, 4, len(sets)).tolist()
    bases = bool(rng.integers(2))
    X = subsets(L)
    for part, n in zip(sets, capacities, strict=True):
        X = X[X[:, part].sum(1) <= n]
    oracle = LaminarMatroid(L, sets=sets, capacities=capacities, bases=bases)
    return oracle, largest(X) if bases else X


def independent(X, vectors):
    """The sets X of columns (d, L) that do not depend on each other."""
    rank = np.linalg.matrix_rank(vectors * X[:, None, :])
    return X[rank == X.sum(1)]


def matroid(rng):
    L = int(rng.integers(1, 6))
    vectors = rng.integers(-1, 2, (3, L))
    bases = bool(rng.integers(2))
    X = independent(subsets(L), vectors)
    sets = {tuple(np.flatnonzero(x)) for x in X}
    oracle = Matroid(L, lambda items: tuple(sorted(items)) in sets, bases=bases)
    return oracle, largest(X) if bases else X


def spanning_tree(rng):
    """A forest is a set of edges whose columns of the incidence matrix are independent."""
    n = int(rng.integers(2, 6))
    path = list(itertools.pairwise(rng.permutation(n)))
    more = rng.integers(0, n, (rng.integers(0, MOST + 1 - len(path)), 2))
    edges = rng.permutation([*path, *more])
    incidence = np.zeros((n, len(edges)))
    for e, (u, v) in enumerate(edges):
        incidence[u, e] += 1
        incidence[v, e] -= 1
    forest = bool(rng.integers(2))
    X = independent(subsets(len(edges)), incidence)
    return SpanningTree(edges, n, forest=forest), X if forest else largest(X)


def paths(edges, source, target):
    """All paths that visit no node twice."""

    def walks(nodes):
        if nodes[-1] == target:
            yield []
            return
        for e, (u, v) in enumerate(edges):
            if u == nodes[-1] and v not in nodes:
                yield from ([e, *rest] for rest in walks([*nodes, v]))

    return as_rows(list(walks([source])), len(edges))


def some_edges(rng, pairs, loops):
    """Some of the pairs, one of them twice, and edges from nodes to themselves, in any order."""
    some = [pair for pair in pairs if rng.random() < 0.6]
    edges = [*some, pairs[rng.integers(len(pairs))], *loops]
    return [edges[e] for e in rng.permutation(len(edges))]


def dag_path(rng):
    N = int(rng.integers(2, 6))
    name = rng.permutation(N).tolist()
    pairs = list(itertools.combinations(name, 2))
    edges = some_edges(rng, pairs, [*itertools.pairwise(name), (name[0],) * 2])
    return DagPath(edges, name[0], name[-1]), paths(edges, name[0], name[-1])


def shortest_path(rng):
    N = int(rng.integers(2, 5))
    pairs = list(itertools.permutations(range(N), 2))
    edges = some_edges(rng, pairs, [*itertools.pairwise(range(N)), (0, 0)])
    return ShortestPath(edges, 0, N - 1), paths(edges, 0, N - 1)


def grid_path(rng):
    oracle = GridPath(int(rng.integers(1, 4)))
    edges = [tuple(map(tuple, edge)) for edge in oracle.edges.tolist()]
    return oracle, paths(edges, (0, 0), (oracle.m, oracle.m))


def assignment(rng):
    n_rows, n_cols = rng.integers(1, 4, 2).tolist()
    cell = np.arange(n_rows * n_cols).reshape(n_rows, n_cols)
    wide = cell if n_rows <= n_cols else cell.T
    columns = itertools.permutations(range(wide.shape[1]), len(wide))
    sets = [wide[range(len(wide)), column] for column in columns]
    return Assignment(n_rows, n_cols), as_rows(sets, cell.size)


def bipartite_matching(rng):
    n_left, n_right = rng.integers(1, 5, 2).tolist()
    L = int(rng.integers(1, MOST + 1))
    u = rng.integers(0, n_left, L)
    v = rng.integers(0, n_right, L)
    left = rng.integers(0, 3, n_left)
    right = rng.integers(0, 3, n_right)
    X = subsets(L)
    fits = [number_of(X, u, i) <= n for i, n in enumerate(left)]
    fits += [number_of(X, v, j) <= n for j, n in enumerate(right)]
    capacities = {"left_capacity": left, "right_capacity": right}
    oracle = BipartiteMatching(np.c_[u, v], n_left, n_right, **capacities)
    return oracle, X[np.all(fits, axis=0)]


def within(X, costs, budget):
    """The sets whose costs come to the budget at most, up to rounding."""
    return X[X @ costs <= budget * (1 + 1e-12)]


def knapsack(rng):
    costs = some_costs(rng, rng.integers(1, 11))
    L = len(costs)
    budget = rng.uniform(0, 1.2) * costs.sum()
    max_items = int(rng.integers(1, L + 1))
    effort = [1, 10, 100, 1_000_000][rng.integers(4)]
    X = within(subsets(L), costs, budget)
    if rng.random() < 0.5:
        return Knapsack(costs, budget, effort=effort), X
    oracle = Knapsack(costs, budget, max_items=max_items, effort=effort)
    return oracle, X[X.sum(1) <= max_items]


def budget(rng):
    costs = some_costs(rng, rng.integers(1, 11))
    L = len(costs)
    labels = some_labels(rng, L)
    most = {g: int(rng.integers(0, 4)) for g in set(labels.tolist())}
    limit = rng.uniform(0, 1.2) * costs.sum()
    max_items = int(rng.integers(1, L + 1))
    effort = [1, 10, 100, 500_000][rng.integers(4)]
    oracle = Budget(costs, limit, groups=labels, maximum=most, max_items=max_items, effort=effort)
    X = within(subsets(L), costs, limit)
    fits = [number_of(X, labels, g) <= n for g, n in most.items()]
    return oracle, X[np.all([*fits, X.sum(1) <= max_items], axis=0)]


def group_limits(rng):
    L = int(rng.integers(1, MOST + 1))
    G = int(rng.integers(1, 5))
    member = rng.integers(0, 2, (G, L))
    limits = rng.integers(0, 3, G)
    max_items = int(rng.integers(1, L + 1))
    groups = [set(np.flatnonzero(column)) for column in member.T]
    oracle = GroupLimits(groups, dict(enumerate(limits.tolist())), max_items=max_items)
    X = subsets(L)
    return oracle, X[(limits >= X @ member.T).all(1) & (X.sum(1) <= max_items)]


def intervals(rng):
    L = int(rng.integers(1, MOST + 1))
    whole = rng.random() < 0.5
    start = rng.integers(0, 8, L) if whole else 8 * rng.random(L)
    end = start + (rng.integers(1, 4, L) if whole else 3 * rng.random(L) + 1e-9)
    X = subsets(L)
    for a, b in itertools.combinations(range(L), 2):
        if start[a] < end[b] and start[b] < end[a]:
            X = X[X[:, a] + X[:, b] < 2]
    if rng.random() < 0.5:
        return Intervals(start, end), X
    max_items = int(rng.integers(1, L + 1))
    return Intervals(start, end, max_items=max_items), X[X.sum(1) <= max_items]


def milp(rng):
    L = int(rng.integers(1, MOST + 1))
    shape = rng.integers(1, 4), L
    A = rng.standard_normal(shape) if rng.random() < 0.5 else rng.integers(-3, 6, shape)
    x = subsets(L)[rng.integers(2**L)]  # so that there is a set
    b = A @ x + rng.integers(0, 4, len(A))
    X = subsets(L)
    return Milp(A, b), X[(b + 1e-12 >= X @ A.T).all(1)]


PROBLEMS = {
    "Assignment": assignment,
    "BipartiteMatching": bipartite_matching,
    "Budget": budget,
    "DagPath": dag_path,
    "GridPath": grid_path,
    "GroupLimits": group_limits,
    "Intervals": intervals,
    "Knapsack": knapsack,
    "LaminarMatroid": laminar_matroid,
    "Matroid": matroid,
    "Milp": milp,
    "PartitionMatroid": partition_matroid,
    "Quota": quota,
    "ShortestPath": shortest_path,
    "SpanningTree": spanning_tree,
    "TopK": top_k,
}


def test_every_oracle_with_kernels_has_problems():
    heuristic = {"Tour"}
    assert set(compiled_oracles()) - heuristic <= set(PROBLEMS)


# whose K may be more than any set has, as that is hard to find
ROOMY = ("BipartiteMatching", "GroupLimits", "Milp", "ShortestPath")


def some_weights(rng, L, costs=None):
    """Weights (ROWS, L): of many scales, tied, of one sign, equal, or near the costs; some items
    may not be chosen.
    """
    kinds = [
        rng.standard_normal(L),
        rng.standard_normal(L) * 10.0 ** rng.uniform(-9, 0, L),
        rng.integers(-2, 4, L).astype(float),
        rng.random(L),
        -rng.random(L),
        np.full(L, rng.choice([-1.0, 0.0, 1.0])),
    ]
    if costs is not None:
        near = rng.uniform(0.5, 2) * costs + rng.choice([0.0, 1.0])
        kinds += [near, near + rng.integers(0, 3, L), near + 0.1 * rng.random(L)]
    W = np.array([kinds[rng.integers(len(kinds))] for _ in range(ROWS)])
    W *= rng.choice([1.0, 1e-9, 1e9])
    W[rng.random(W.shape) < rng.choice([0.0, 0.2, 0.5])] = -np.inf
    return W


def values(X, W):
    """What the sets X (F, L) are worth for weights (n, L): (n, F)."""
    closed = -np.inf == W
    worth = np.where(closed, 0.0, W) @ X.T
    worth[closed @ X.T > 0] = -np.inf
    return worth


def solved(oracle, W):
    """The sets that an oracle chooses as rows of 0 and 1, and the gap that it promises for each."""
    if hasattr(oracle, "solve_with_gap"):
        A, gap = oracle.solve_with_gap(W)
        np.testing.assert_array_equal(A, oracle(W))
        if oracle.gap is not None:
            assert oracle.gap > 0 or not gap.any()
            gap = np.minimum(gap, oracle.gap)
    else:
        A = oracle(W)
        gap = np.zeros(len(W))
        assert oracle.gap == 0
    assert A.shape == (len(W), oracle.K)
    sets = [items[items >= 0] for items in A]
    x = as_rows(sets, W.shape[1])
    assert (x.sum(1) == (A >= 0).sum(1)).all()  # no item twice
    return x, gap


def generator(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


@pytest.mark.parametrize("name", PROBLEMS)
def test_oracles_are_brute_force(name):
    rng = generator(name)
    exact = 0
    for _ in range(COUNT // ROWS):
        oracle, X = PROBLEMS[name](rng)
        L = X.shape[1]
        assert oracle.L in (L, None)
        assert X.sum(1).max() == oracle.K or name in ROOMY
        W = some_weights(rng, L, getattr(oracle, "costs", None))
        if name == "ShortestPath":
            W = -np.abs(W)
        best = values(X, W).max(1)
        for w in W[best == -np.inf]:
            with pytest.raises(InfeasibleError, match="no feasible set"):
                oracle(w)
        W = W[best > -np.inf]
        best = best[best > -np.inf]

        x, gap = solved(oracle, W)
        allowed = (x[:, None] == X).all(-1).any(-1)
        assert allowed.all(), (oracle, W, x)
        if not X.sum(1).min() and name != "Milp":  # where no item at all is feasible
            assert (W[x > 0] > 0).all(), (oracle, W, x)
        found = values(x, W).diagonal()
        scale = np.abs(np.where(-np.inf == W, 0.0, W)).max(1, initial=0)
        enough = found >= (1 - gap) * best - 1e-11 * scale
        assert enough.all(), (oracle, W, x)
        exact += (gap == 0).sum()
    assert exact > COUNT // 2


def test_slates_are_brute_force():
    """Slates are ordered: what an item is worth depends on its position."""
    rng = generator("Slate")
    for _ in range(COUNT // ROWS):
        L = int(rng.integers(1, 6))
        k = int(rng.integers(1, min(L, 3) + 1))
        examination = rng.choice([0.01, 0.5, 0.5, 1.0, rng.random() + 0.001], k)
        examination = np.minimum(examination, 1.0)
        slates = np.array(list(itertools.permutations(range(L), k)))
        slate = Slate(k, examination=examination)
        W = some_weights(rng, L)
        for w in W:
            best = (w[slates] @ examination).max()
            if best == -np.inf:
                with pytest.raises(InfeasibleError, match="no feasible set"):
                    slate(w)
                continue
            scale = np.abs(w[w > -np.inf]).max()
            assert w[slate(w)] @ examination >= best - 1e-11 * scale

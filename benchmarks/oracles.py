"""Milliseconds per solve of every oracle, and the ratio to a named reference, measured in one run.

Each repeat takes fresh weights, as learning does, and runs the oracle and its references one after
the other; the table shows medians. "read" is np.max over the weights: the least any solver must do.
References that are not installed are named and left out (pip install "superarm[bench]" brings
them). Run: make bench
"""

import argparse
import importlib.util
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, min_weight_full_bipartite_matching, minimum_spanning_tree
from threadpoolctl import threadpool_limits

from superarm import (
    Assignment,
    BipartiteMatching,
    DagPath,
    GridPath,
    Knapsack,
    LaminarMatroid,
    Quota,
    ShortestPath,
    SpanningTree,
    TopK,
)
from superarm.arrays import Array
from superarm.arrays.compiled import compiled

Solver = Callable[[Array], Any]


class Case(NamedTuple):
    """An oracle, weights for it, and references with the largest ratio to them that is asked
    for.
    """

    name: str
    oracle: Solver
    weights: list[Array]
    references: dict[str, tuple[Solver, float]]
    repeats: int


def fresh(L: int, how: Callable[[tuple[int, int]], Array], n: int = 8) -> list[Array]:
    return list(how((n, L)))


RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal
UNIFORM = RNG.random


def selection() -> Iterator[Case]:
    million = fresh(1_000_000, NORMAL)
    yield Case("TopK 100 of 1e6", TopK(100), million, {"read": (np.max, 3.5)}, 40)
    sex = RNG.random(1_000_000) < 0.33
    yield Case(
        "Quota 50+50 of 1e6", Quota(sex, {True: 50, False: 50}), million, {"read": (np.max, 10)}, 40
    )


@compiled
def _greedy(order: Array, level: Array, room: Array) -> int:
    """Take the items in order while every set around them has room."""
    room = room.copy()
    taken = 0
    for e in order:
        if room[level[0, e]] > 0 and room[level[1, e]] > 0 and room[level[2, e]] > 0:
            taken += 1
            for s in level[:, e]:
                room[s] -= 1
    return taken


def matroids() -> Iterator[Case]:
    L = 100_000
    city = RNG.integers(0, 1000, L)
    level = np.stack([city, 1000 + city % 20, np.full(L, 1020)])
    capacities = [10] * 1000 + [200] * 20 + [1000]
    sets = [np.flatnonzero(level[i] == s) for i in range(3) for s in np.unique(level[i])]
    oracle = LaminarMatroid(L, sets=sets, capacities=capacities)

    def sort_and_take(w: Array) -> int:
        return _greedy(np.argsort(-w), level, np.array(capacities))

    yield Case(
        "Laminar 1e5, 3 levels", oracle, fresh(L, NORMAL), {"argsort": (sort_and_take, 0.6)}, 40
    )


def grid_pairs(m: int) -> Array:
    edges = GridPath(m).edges
    pairs: Array = edges[:, :, 0] * (m + 1) + edges[:, :, 1]
    return pairs


def scipy_dijkstra(m: int) -> Solver:
    pairs = grid_pairs(m)
    N = (m + 1) ** 2
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    frame = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(N, N))

    def solve(w: Array) -> Any:
        costs = csr_array((w.max() - w[order], frame.indices, frame.indptr), shape=(N, N))
        return dijkstra(costs, indices=0, return_predecessors=True)

    return solve


def paths() -> Iterator[Case]:
    for m in (30, 250):
        grid = GridPath(m)
        weights = fresh(grid.L, NORMAL, 32)
        asked = (4, 0.03, 0.1) if m == 250 else (np.inf,) * 3
        dijkstra_of = scipy_dijkstra(m)
        references: dict[str, tuple[Solver, float]] = {
            "read": (np.max, asked[0]),
            "SciPy Dijkstra": (dijkstra_of, asked[1]),
        }
        yield Case(f"GridPath m={m}", grid, weights, references, 60)
        dag = DagPath(grid_pairs(m), 0, (m + 1) ** 2 - 1)
        yield Case(f"DagPath m={m}", dag, weights, {"SciPy Dijkstra": (dijkstra_of, asked[2])}, 60)
    yield from roads(100)
    many = fresh(200 * grid.L, NORMAL, 2)
    yield Case(
        "200 x GridPath m=250",
        lambda w: grid(w.reshape(200, -1)),
        many,
        {"read": (np.max, np.inf)},
        6,
    )


def roads(m: int) -> Iterator[Case]:
    """Streets both ways between m x m crossings, to the far corner and to one nearby."""
    one_way = grid_pairs(m - 1)
    pairs = np.concatenate([one_way, one_way[:, ::-1]])
    N = m * m
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    frame = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(N, N))

    def scipy(w: Array) -> Any:
        costs = csr_array((-w[order], frame.indices, frame.indptr), shape=(N, N))
        return dijkstra(costs, indices=0, return_predecessors=True)

    weights = [-w for w in fresh(len(pairs), UNIFORM)]
    for name, target, limit in (("far", N - 1, 1.0), ("near", 5 * m + 5, 0.1)):
        oracle = ShortestPath(pairs, 0, target)
        yield Case(
            f"ShortestPath {name} of {N:,}", oracle, weights, {"SciPy Dijkstra": (scipy, limit)}, 40
        )


def scipy_tree(pairs: Array, N: int) -> Solver:
    low = pairs.min(1)
    high = pairs.max(1)
    order = np.lexsort((high, low))
    frame = csr_array((np.ones(len(pairs)), (low, high)), shape=(N, N))

    def solve(w: Array) -> Any:  # positive costs, because SciPy drops edges of weight zero
        return minimum_spanning_tree(
            csr_array((w.max() + 1 - w[order], frame.indices, frame.indptr), shape=(N, N))
        )

    return solve


def trees() -> Iterator[Case]:
    complete = np.stack(np.triu_indices(1000, 1), axis=1)
    ring = np.stack([np.arange(10_000), (np.arange(10_000) + 1) % 10_000], axis=1)
    sparse = np.unique(
        np.sort(np.concatenate([ring, RNG.integers(0, 10_000, (60_000, 2))]), axis=1), axis=0
    )
    sparse = sparse[sparse[:, 0] < sparse[:, 1]]
    graphs = {"complete 1,000": (complete, 1000, 0.1), "sparse 70k edges": (sparse, 10_000, 0.45)}
    graphs["grid 125k edges"] = (grid_pairs(250), 251**2, 0.45)
    for name, (pairs, N, limit) in graphs.items():
        oracle = SpanningTree(pairs, N)
        yield Case(
            f"SpanningTree {name}",
            oracle,
            fresh(len(pairs), NORMAL),
            {"SciPy": (scipy_tree(pairs, N), limit)},
            12,
        )


def matchings() -> Iterator[Case]:
    n = 1000
    limit = 0.5 if importlib.util.find_spec("lap") else 1.05
    reference = {"SciPy": (lambda w: linear_sum_assignment(w.reshape(n, n), maximize=True), limit)}
    yield Case(
        "Assignment 1,000 x 1,000", Assignment(n, n), fresh(n * n, UNIFORM, 4), reference, 12
    )
    half = 5000
    keys = np.unique(RNG.integers(0, half * half, 110_000))
    pairs = np.stack([keys // half, keys % half], axis=1)
    # a column of its own for each row to stay free on
    dummies = np.stack([np.arange(half), half + np.arange(half)], axis=1)
    order = np.lexsort(np.concatenate([pairs, dummies]).T[::-1])
    both = np.concatenate([pairs, dummies])[order]

    def with_dummies(w: Array) -> Any:
        value = (
            np.concatenate([np.maximum(w, 0), np.zeros(half)])[order] + 1
        )  # positive, because SciPy drops zeros
        matrix = csr_array((value, (both[:, 0], both[:, 1])), shape=(half, 2 * half))
        return min_weight_full_bipartite_matching(matrix, maximize=True)

    reference = {"SciPy with dummy columns": (with_dummies, 0.3)}
    oracle = BipartiteMatching(pairs, half, half)
    yield Case("BipartiteMatching 110k edges", oracle, fresh(len(pairs), NORMAL, 4), reference, 6)
    yield from contested(pairs)


def low_rank(pairs: Array, rank: int, n: int = 4) -> list[Array]:
    """Weights of pairs that are products of positive features: all want the same."""
    rows, columns = pairs.max(axis=0) + 1
    made = []
    for _ in range(n):
        U = RNG.random((rows, rank))
        V = RNG.random((columns, rank))
        made.append((U[pairs[:, 0]] * V[pairs[:, 1]]).sum(axis=1))
    return made


def min_cost_flow(pairs: Array, capacity: int) -> Solver:
    """OR-Tools, with costs rounded to six digits; who stays free goes past all nodes."""
    from ortools.graph.python import min_cost_flow as flows

    left, right = pairs.max(axis=0) + 1
    source = left + right
    sink = source + 1
    total = int(min(left, capacity * right))

    def solve(w: Array) -> Any:
        flow = flows.SimpleMinCostFlow()
        add = flow.add_arcs_with_capacity_and_unit_cost
        one = np.ones(len(pairs), np.int64)
        add(pairs[:, 0], left + pairs[:, 1], one, (-1e6 * w).astype(np.int64))
        add(np.full(left, source), np.arange(left), one[:left], np.zeros(left, np.int64))
        room = np.full(right, capacity)
        add(left + np.arange(right), np.full(right, sink), room, np.zeros(right, np.int64))
        flow.add_arc_with_capacity_and_unit_cost(source, sink, total, 0)
        flow.set_nodes_supplies(np.array([source, sink]), np.array([total, -total]))
        return flow.solve()

    return solve


def contested(pairs: Array) -> Iterator[Case]:
    """Matchings and assignments where all want the same."""
    user = np.repeat(np.arange(20_000), 10)
    rooms = np.unique(np.stack([user, RNG.integers(0, 200, len(user))], axis=1), axis=0)
    both_ways = {
        "users to rooms": BipartiteMatching(rooms, right_capacity=50),
        "rooms to users": BipartiteMatching(rooms[:, ::-1], left_capacity=50),
    }
    swapped: dict[str, tuple[Solver, float]] = {"swapped": (both_ways["rooms to users"], 1.2)}
    weights = fresh(len(rooms), UNIFORM, 4)
    yield Case("Matching users to rooms", both_ways["users to rooms"], weights, swapped, 6)

    graphs = {"110k edges": (pairs, 1), "users to rooms": (rooms, 50)}
    for rank, (name, (edges, capacity)) in itertools.product((1, 3, 8), graphs.items()):
        references: dict[str, tuple[Solver, float]] = {}
        if importlib.util.find_spec("ortools"):
            references["OR-Tools flow"] = (min_cost_flow(edges, capacity), 1.1)
        oracle = BipartiteMatching(edges, right_capacity=capacity)
        yield Case(f"Matching rank {rank} {name}", oracle, low_rank(edges, rank), references, 4)

    for rank, shape in itertools.product((1, 2, 5), ((1000, 1000), (300, 1000))):
        every = np.stack(np.divmod(np.arange(shape[0] * shape[1]), shape[1]), axis=1)
        yield Case(
            f"Assignment rank {rank} {shape}",
            Assignment(*shape),
            low_rank(every, rank),
            {"SciPy": (_scipy_assignment(shape), 1.2)},
            6,
        )


def _scipy_assignment(shape: tuple[int, int]) -> Solver:
    return lambda w: linear_sum_assignment(w.reshape(shape), maximize=True)


def or_tools_knapsack(costs: Array, budget: float) -> Solver:
    from ortools.algorithms.python import knapsack_solver as ks

    scale = 1_000_000
    integers = [(costs * scale).astype(np.int64).tolist()]

    def solve(w: Array) -> Any:
        solver = ks.KnapsackSolver(
            ks.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER, "knapsack"
        )
        solver.init((w * scale).astype(np.int64).tolist(), integers, [int(budget * scale)])
        return solver.solve()

    return solve


def knapsacks() -> Iterator[Case]:
    for L, repeats in ((1000, 40), (10_000, 8)):
        costs = RNG.random(L)
        budget = float(costs.sum() / 2)
        references: dict[str, tuple[Solver, float]] = {}
        if importlib.util.find_spec("ortools"):
            references["OR-Tools"] = (or_tools_knapsack(costs, budget), 0.2)
        yield Case(
            f"Knapsack {L:,}", Knapsack(costs, budget), fresh(L, UNIFORM), references, repeats
        )


def measure(case: Case) -> dict[str, Any]:
    """Median seconds of the oracle and of each reference, over interleaved repeats."""
    solvers = {
        "superarm": case.oracle,
        **{name: solver for name, (solver, _) in case.references.items()},
    }
    for solver in solvers.values():
        solver(case.weights[0])
    times: dict[str, list[float]] = {name: [] for name in solvers}
    weights = itertools.cycle(case.weights)
    for _ in range(case.repeats):
        for name, solver in solvers.items():
            w = next(weights)  # fresh for each, so that no one finds them in the cache
            start = time.perf_counter()
            solver(w)
            times[name].append(time.perf_counter() - start)
    median = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: median["superarm"] / median[name] for name in case.references}
    limits = {name: limit for name, (_, limit) in case.references.items()}
    return {
        "case": case.name,
        "ms": {k: 1e3 * v for k, v in median.items()},
        "ratio": ratios,
        "at_most": limits,
    }


def report(row: dict[str, Any]) -> None:
    print(f"{row['case']:30}{row['ms']['superarm']:10.3f} ms", end="")
    for name, ratio in row["ratio"].items():
        limit = row["at_most"][name]
        verdict = (
            "" if limit == np.inf else f" (asked: {limit:g}{'' if ratio <= limit else ', MISSED'})"
        )
        print(f"   {ratio:.3g} x {name}{verdict}", end="")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file, too")
    arguments = parser.parse_args()
    missing = [name for name in ("lap", "ortools") if importlib.util.find_spec(name) is None]
    print(f"not installed, so not compared: {', '.join(missing) or 'nothing'}\n")
    rows = []
    with threadpool_limits(limits=1):
        for family in (selection, matroids, paths, trees, matchings, knapsacks):
            for case in family():
                rows.append(measure(case))
                report(rows[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2, default=str))


if __name__ == "__main__":
    main()

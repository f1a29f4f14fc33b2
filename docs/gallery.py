"""Draws docs/images: one picture per oracle, with its structure, the weights and the chosen set
(`make gallery`).
"""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

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
    Orienteering,
    PartitionMatroid,
    Quota,
    ShortestPath,
    SpanningTree,
    TopK,
    Tour,
    VehicleRoutes,
    network_flow,
    steiner_tree,
)
from superarm.arrays import Array

CHOSEN = "#d1495b"
OTHER = "#c9d1d9"
MAP = "YlGnBu"
COLORS = (CHOSEN, "#00798c", "#edae49", "#30638e", "#7a5195")
IMAGES = Path(__file__).parent / "images"


def bars(axes: Axes, w: Array, A: Array, groups: list[str] | None = None) -> None:
    """Weights as bars, the chosen ones in colour; names of groups below."""
    colors = [CHOSEN if e in A else OTHER for e in range(len(w))]
    axes.bar(range(len(w)), w, color=colors, width=0.8)
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.set(ylabel="weight", xlabel="item", xticks=range(len(w)), xticklabels=groups or [])


def network(
    axes: Axes, xy: Array, edges: Array, w: Array, A: Array, *, arrows: bool = False
) -> None:
    """Nodes and edges; colour is weight, and the chosen edges are underlaid."""
    A = A[A >= 0]
    segments = xy[edges]
    axes.add_collection(
        LineCollection(list(segments[A]), colors=CHOSEN, linewidths=7, alpha=0.75, capstyle="round")
    )
    shades = ScalarMappable(Normalize(w.min(), w.max()), MAP)
    axes.add_collection(LineCollection(list(segments), colors=shades.to_rgba(w), linewidths=2))
    if arrows:
        for tail, head in segments:
            axes.annotate(
                "",
                tail + 0.62 * (head - tail),
                tail + 0.5 * (head - tail),
                arrowprops={"arrowstyle": "->"},
            )
    axes.scatter(xy[:, 0], xy[:, 1], s=40, color="white", edgecolor="0.25", zorder=3)
    axes.set_aspect("equal")
    axes.margins(0.06)
    axes.axis("off")
    axes.figure.colorbar(shades, ax=axes, label="weight", shrink=0.8)


def near_pairs(xy: Array, reach: float) -> Array:
    """Pairs of points closer than `reach`."""
    i, j = np.triu_indices(len(xy), 1)
    close = np.linalg.norm(xy[i] - xy[j], axis=1) < reach
    return np.stack([i[close], j[close]], axis=1)


def topk(axes: Axes, rng: np.random.Generator) -> str:
    w = rng.standard_normal(20)
    bars(axes, w, TopK(6)(w))
    return "TopK(6): the six best of twenty"


def quota(axes: Axes, rng: np.random.Generator) -> str:
    groups = list("ffmfmmfmffmfmffmfffm")
    w = rng.random(20)
    bars(axes, w, Quota(groups, {"f": 3, "m": 3})(w), groups)
    return "Quota(groups, {'f': 3, 'm': 3}): the three best of each"


def group_limits(axes: Axes, rng: np.random.Generator) -> str:
    labels = list("abcde")
    groups = [set(rng.choice(labels, rng.integers(1, 4), replace=False)) for _ in range(20)]
    w = rng.random(20)
    A = GroupLimits(groups, 2, max_items=6)(w)
    bars(axes, w, A)
    for y, label in enumerate(labels):
        for e, of in enumerate(groups):
            if label in of:
                color = CHOSEN if e in A else OTHER
                axes.scatter(e, -0.1 - 0.08 * y, s=24, color=color, marker="s")
        axes.text(-1.0, -0.1 - 0.08 * y, label, va="center", ha="right", fontsize=8)
    axes.set(xlabel="item, its groups above", xticks=[], yticks=[0, 0.5, 1], xlim=(-2, 20))
    return "GroupLimits(groups, 2, max_items=6): at most two of each group"


def partition(axes: Axes, rng: np.random.Generator) -> str:
    groups = ["a"] * 6 + ["b"] * 6 + ["c"] * 6
    w = rng.standard_normal(18)
    w[12:] = -np.abs(w[12:])
    bars(axes, w, PartitionMatroid(groups, {"a": 2, "b": 2, "c": 2}, bases=False)(w), groups)
    return "PartitionMatroid: at most two per group, none at a loss"


def laminar(axes: Axes, rng: np.random.Generator) -> str:
    w = rng.random(16)
    sets = [range(4), range(4, 8), range(8), range(8, 16), range(16)]
    capacities = [2, 2, 3, 3, 5]
    bars(axes, w, LaminarMatroid(16, sets=[list(s) for s in sets], capacities=capacities)(w))
    for (first, *_, last), capacity, depth in zip(
        map(list, sets), capacities, (1, 1, 2, 2, 3), strict=True
    ):
        y = -0.09 * depth
        axes.plot([first - 0.4, last + 0.4], [y, y], color="0.3", linewidth=2)
        axes.text(
            (first + last) / 2, y - 0.015, f"at most {capacity}", ha="center", va="top", fontsize=8
        )
    axes.set(xlabel="", ylim=(-0.4, None))
    return "LaminarMatroid: sets within sets"


def matroid(axes: Axes, rng: np.random.Generator) -> str:
    angle = np.array([0.2, 0.2, 0.9, 1.6, 2.3, 2.3])
    w = np.array([0.9, 0.7, 0.8, 0.4, 0.3, 0.6])
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    A = Matroid(6, lambda items: np.linalg.matrix_rank(vectors[items]) == len(items))(w)
    for e, (x, y) in enumerate(w[:, None] * vectors):
        color = CHOSEN if e in A else "0.75"
        axes.annotate(
            "", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2.5}
        )
        axes.text(1.08 * x, 1.08 * y, f"{w[e]:.1f}", ha="center", va="center", fontsize=9)
    axes.set(xlim=(-0.7, 1.1), ylim=(-0.1, 0.8), aspect="equal")
    axes.axis("off")
    return "Matroid: the best basis of the plane; length is weight"


def grid_path(axes: Axes, rng: np.random.Generator) -> str:
    oracle = GridPath(7)
    w = rng.standard_normal(oracle.L)
    ends = oracle.edges.reshape(-1, 2)
    xy = np.array([(c, -r) for r in range(8) for c in range(8)], dtype=float)
    network(axes, xy, (ends[:, 0] * 8 + ends[:, 1]).reshape(-1, 2), w, oracle(w))
    return "GridPath(7): the longest path right and down"


def dag_path(axes: Axes, rng: np.random.Generator) -> str:
    layers = [[0], [1, 2, 3], [4, 5, 6, 7], [8, 9, 10], [11]]
    xy = np.array(
        [
            (1.3 * x, i - len(nodes) / 2)
            for x, nodes in enumerate(layers)
            for i, _ in enumerate(nodes)
        ]
    )
    edges = np.array(
        [(u, v) for a, b in itertools.pairwise(layers) for u in a for v in b if rng.random() < 0.75]
    )
    w = rng.standard_normal(len(edges))
    network(axes, xy, edges, w, DagPath(edges, 0, 11)(w), arrows=True)
    return "DagPath: the longest path from left to right, any sign"


def shortest_path(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((40, 2)) * [1.6, 1]
    one_way = near_pairs(xy, 0.32)
    edges = np.concatenate([one_way, one_way[:, ::-1]])
    cost = np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1) * rng.uniform(1, 2, len(edges))
    source = int(xy.sum(1).argmin())
    target = int(xy.sum(1).argmax())
    network(axes, xy, edges, -cost, ShortestPath(edges, source, target)(-cost))
    return "ShortestPath: the cheapest way across; weight is minus cost"


def spanning_tree(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((35, 2)) * [1.6, 1]
    edges = near_pairs(xy, 0.4)
    w = rng.standard_normal(len(edges))
    network(axes, xy, edges, w, SpanningTree(edges, 35)(w))
    return "SpanningTree: the heaviest edges that connect all nodes"


def assignment(axes: Axes, rng: np.random.Generator) -> str:
    n_rows = 7
    n_cols = 9
    w = rng.random((n_rows, n_cols))
    image = axes.imshow(w, cmap=MAP)
    for e in Assignment(n_rows, n_cols)(w.ravel()):
        i, j = divmod(int(e), n_cols)
        axes.add_patch(
            Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=CHOSEN, linewidth=3)
        )
    axes.set(xlabel="worker", ylabel="job", xticks=[], yticks=[])
    axes.figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
    return "Assignment(7, 9): a worker of its own for each job"


def bipartite(axes: Axes, rng: np.random.Generator) -> str:
    edges = np.array([(i, j) for i in range(6) for j in range(6) if rng.random() < 0.55])
    w = rng.standard_normal(len(edges))
    xy = np.array([(0.0, -i) for i in range(6)] + [(5.0, -j) for j in range(6)])
    network(
        axes, xy, edges + np.array([0, 6]), w, BipartiteMatching(edges, 6, 6, right_capacity=2)(w)
    )
    return "BipartiteMatching: one edge per left node, two per right one"


def knapsack(axes: Axes, rng: np.random.Generator) -> str:
    costs = rng.uniform(1, 10, 60)
    w = rng.uniform(0, 1, 60)
    A = Knapsack(costs, 60.0)(w)
    chosen = np.isin(np.arange(60), A)
    axes.scatter(costs[~chosen], w[~chosen], color=OTHER, edgecolor="0.6")
    label = f"{chosen.sum()} items at {costs[chosen].sum():.2f} of 60"
    axes.scatter(costs[chosen], w[chosen], color=CHOSEN, label=label)
    axes.set(xlabel="cost", ylabel="weight")
    axes.legend(loc="lower right", framealpha=0.9)
    return "Knapsack: the most weight within a budget of 60"


def budget(axes: Axes, rng: np.random.Generator) -> str:
    costs = rng.uniform(1, 10, 90)
    w = 0.05 * costs + rng.uniform(0, 1, 90)
    groups = np.repeat(np.arange(6), 15)
    oracle = Budget(costs, 40.0, groups=groups, maximum=2, max_items=9)
    chosen = np.isin(np.arange(90), oracle(w))
    across = groups + rng.uniform(-0.25, 0.25, 90)
    axes.scatter(across[~chosen], w[~chosen], s=9 * costs[~chosen], color=OTHER, edgecolor="0.6")
    label = f"{chosen.sum()} items at {costs[chosen].sum():.2f} of 40"
    axes.scatter(across[chosen], w[chosen], s=9 * costs[chosen], color=CHOSEN, label=label)
    axes.set(xlabel="group; the size of an item is its cost", ylabel="weight", ylim=(0, 1.8))
    axes.legend(loc="upper right", framealpha=0.9)
    return "Budget: within 40, at most 2 per group and 9 in all"


def milp(axes: Axes, rng: np.random.Generator) -> str:
    A = rng.integers(0, 10, (4, 24))
    b = A.sum(1) // 3
    w = A.mean(0) / 10 + 0.3 * rng.random(24)
    chosen = Milp(A, b)(w)
    chosen = chosen[chosen >= 0]
    image = axes.imshow(A, cmap="Greys", aspect="auto")
    for e in chosen:
        axes.add_patch(
            Rectangle((e - 0.5, -0.5), 1, 4, fill=False, edgecolor=CHOSEN, linewidth=2.5)
        )
    used = A[:, chosen].sum(1)
    axes.set(
        yticks=range(4), yticklabels=[f"{u} of {limit}" for u, limit in zip(used, b, strict=True)]
    )
    axes.set(xlabel="item (column of A), by its weight", ylabel="used")
    axes.set_xticks(range(24), [f"{x:.1f}" for x in w], fontsize=6)
    axes.figure.colorbar(image, ax=axes, label="use of a resource", shrink=0.8)
    return "Milp(A, b): the most weight within four resources"


def connected_places(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((30, 2)) * [1.6, 1]
    edges = near_pairs(xy, 0.45)
    cost = np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1)
    places = np.argsort(xy[:, 0])[[0, 8, 15, 22, 29]]
    network(axes, xy, edges, -cost, steiner_tree(edges, places.tolist())(-cost))
    axes.scatter(xy[places, 0], xy[places, 1], s=90, color="0.25", zorder=4)
    return "steiner_tree(edges, places): the cheapest that connects five"


def flow(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((24, 2)) * [1.6, 1]
    pairs = near_pairs(xy, 0.45)
    arcs = np.where(xy[pairs[:, :1], 0] < xy[pairs[:, 1:], 0], pairs, pairs[:, ::-1])
    cost = np.linalg.norm(xy[arcs[:, 0]] - xy[arcs[:, 1]], axis=1)
    works, *houses = np.argsort(xy[:, 0])[[3, 15, 18, 20, 22]].tolist()
    supply = {works: 4, **dict.fromkeys(houses, -1)}
    network(axes, xy, arcs, -cost, network_flow(arcs, supply, capacity=2)(-cost), arrows=True)
    axes.scatter(xy[works, 0], xy[works, 1], s=110, color="0.25", marker="s", zorder=4)
    axes.scatter(xy[houses, 0], xy[houses, 1], s=90, color="0.25", zorder=4)
    return "network_flow(arcs, supply, capacity=2): four are supplied by one"


def intervals(axes: Axes, rng: np.random.Generator) -> str:
    start = np.sort(rng.uniform(9, 17, 24))
    length = rng.uniform(0.5, 2.5, 24)
    w = rng.random(24)
    chosen = np.isin(np.arange(24), Intervals(start, start + length)(w))
    colors = np.where(chosen, CHOSEN, OTHER)
    axes.barh(range(24), length, left=start, color=colors, height=0.75)
    for e, (begin, weight) in enumerate(zip(start, w, strict=True)):
        axes.text(begin - 0.05, e, f"{weight:.1f}", ha="right", va="center", fontsize=6)
    for time in start[chosen]:
        axes.axvline(time, color=CHOSEN, linewidth=0.6, alpha=0.5)
    axes.set(xlabel="hour", ylabel="item, its weight in front", yticks=[])
    return "Intervals(start, end): the most weight, one at a time"


def tour(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((70, 2)) * [1.6, 1]
    edges = np.stack(np.triu_indices(70, 1), axis=1)
    w = -np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1)
    for start, end in xy[edges[Tour(70)(w)]]:
        axes.plot(*zip(start, end, strict=True), color=CHOSEN, linewidth=2)
    axes.scatter(xy[:, 0], xy[:, 1], s=22, color="white", edgecolor="0.25", zorder=3)
    axes.set_aspect("equal")
    axes.axis("off")
    return "Tour(70): a short way through all cities; weight is minus length"


def orienteering(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((51, 2)) * [1.6, 1]
    xy[0] = [0.8, 0.5]
    w = rng.random(50)
    oracle = Orienteering(np.linalg.norm(xy[:, None] - xy, axis=-1), 3.5)
    A = oracle(w)
    A = A[A >= 0]
    trip = xy[[0, *(A + 1), 0]]
    length = np.linalg.norm(np.diff(trip, axis=0), axis=1).sum()
    chosen = np.isin(np.arange(50), A)
    x, y = xy[1:].T
    axes.plot(*trip.T, color=CHOSEN, linewidth=2)
    axes.scatter(x[~chosen], y[~chosen], s=120 * w[~chosen], color=OTHER, edgecolor="0.6", zorder=3)
    axes.scatter(x[chosen], y[chosen], s=120 * w[chosen], color=CHOSEN, edgecolor="0.25", zorder=3)
    axes.scatter(xy[0, 0], xy[0, 1], s=110, color="0.25", marker="s", zorder=4)
    axes.set_aspect("equal")
    axes.axis("off")
    return f"Orienteering(distances, 3.5): {len(A)} stops that pay, {length:.2f} on the way"


def vehicle_routes(axes: Axes, rng: np.random.Generator) -> str:
    xy = rng.random((41, 2)) * [1.6, 1]
    xy[0] = [0.8, 0.5]
    demands = rng.integers(1, 10, 40)
    oracle = VehicleRoutes(demands, [50] * 5)
    i, j = oracle.items.T
    routes = oracle.routes(oracle(-np.linalg.norm(xy[i] - xy[j], axis=1)))
    for color, route in zip(COLORS, routes, strict=False):
        axes.plot(*xy[[0, *route, 0]].T, color=color, linewidth=2)
    loads = [demands[np.array(route) - 1].sum() for route in routes]
    axes.scatter(xy[1:, 0], xy[1:, 1], s=12 * demands, color="white", edgecolor="0.25", zorder=3)
    axes.scatter(xy[0, 0], xy[0, 1], s=110, color="0.25", marker="s", zorder=4)
    axes.set_aspect("equal")
    axes.axis("off")
    return f"VehicleRoutes(demands, [50] * 5): loads of {', '.join(map(str, loads))}"


PICTURES: dict[str, Callable[[Axes, np.random.Generator], str]] = {
    "topk": topk,
    "quota": quota,
    "group-limits": group_limits,
    "partition-matroid": partition,
    "laminar-matroid": laminar,
    "matroid": matroid,
    "grid-path": grid_path,
    "dag-path": dag_path,
    "shortest-path": shortest_path,
    "spanning-tree": spanning_tree,
    "assignment": assignment,
    "bipartite-matching": bipartite,
    "knapsack": knapsack,
    "budget": budget,
    "milp": milp,
    "steiner-tree": connected_places,
    "network-flow": flow,
    "intervals": intervals,
    "tour": tour,
    "orienteering": orienteering,
    "vehicle-routes": vehicle_routes,
}


def main() -> None:
    """Draw every picture."""
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.set_title(draw(axes, np.random.default_rng(3)), fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(IMAGES / f"{name}.png", dpi=110)
        print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()

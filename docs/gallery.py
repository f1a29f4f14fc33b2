"""Draws docs/images: one picture per oracle, with its structure, the weights and the chosen set, of
the very code that docs/oracles.md shows above it (`make gallery`).
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from superarm import (
    BipartiteMatching,
    Budget,
    DagPath,
    GridPath,
    Intervals,
    Knapsack,
    LaminarMatroid,
    Matroid,
    Milp,
    PartitionMatroid,
    Quota,
    ShortestPath,
    SpanningTree,
    TopK,
    minimize,
    network_flow,
    steiner_tree,
)
from superarm.arrays import Array

CHOSEN = "#d1495b"
OTHER = "#c9d1d9"
MAP = "YlGnBu"
LABEL = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
COLORS = (CHOSEN, "#00798c", "#edae49", "#30638e", "#7a5195")
FOLDER = Path(__file__).parent
IMAGES = FOLDER / "images"


def shown(oracle: str) -> Any:
    """The variables of the first code on the page that makes an oracle."""
    page = (FOLDER / "oracles.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(import numpy.*?)```", page, flags=re.DOTALL)
    code = next(block for block in blocks if re.search(rf"\b{oracle}\(", block))
    variables: dict[str, Any] = {}
    exec(compile(code, oracle, "exec"), variables)
    return SimpleNamespace(**{name: value for name, value in variables.items() if name[0] != "_"})


def bars(axes: Axes, w: Array, A: Array, groups: list[str] | None = None) -> None:
    """Weights as bars, the chosen ones in colour; names of groups below."""
    colors = [CHOSEN if e in A else OTHER for e in range(len(w))]
    axes.bar(range(len(w)), w, color=colors, width=0.8)
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.set(ylabel="weight", xlabel="item", xticks=range(len(w)), xticklabels=groups or [])


def network(
    axes: Axes,
    xy: Array,
    edges: Any,
    w: Array,
    A: Array,
    *,
    arrows: bool = False,
    label: str = "weight",
) -> None:
    """Nodes and edges; colour is weight, and the chosen edges are underlaid."""
    A = A[A >= 0]
    segments = xy[np.asarray(edges)]
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
    if len(edges) < 20:
        for (x, y), weight in zip(segments.mean(axis=1), w, strict=True):
            axes.text(x, y, f"{weight:.1f}", ha="center", va="center", fontsize=9, bbox=LABEL)
    axes.set_aspect("equal")
    axes.margins(0.06)
    axes.axis("off")
    axes.figure.colorbar(shades, ax=axes, label=label, shrink=0.8)


def topk(axes: Axes) -> str:
    page = shown("TopK")
    bars(axes, page.w, TopK(6)(page.w))
    return "TopK(6): the six best of twenty"


def quota(axes: Axes) -> str:
    page = shown("Quota")
    bars(axes, page.w, Quota(page.sex, {"f": 3, "m": 3})(page.w), page.sex)
    return "Quota(sex, {'f': 3, 'm': 3}): the three best of each"


def group_limits(axes: Axes) -> str:
    page = shown("GroupLimits")
    names = [", ".join(sorted(of)) or "none" for of in page.topics]
    bars(axes, page.w, page.items, names)
    return "GroupLimits: one on news, one on berlin, three in all"


def partition(axes: Axes) -> str:
    page = shown("PartitionMatroid")
    groups = ["a", "a", "a", "b", "b", "b"]
    bars(axes, page.w, PartitionMatroid(groups, {"a": 2, "b": 1})(page.w), groups)
    return "PartitionMatroid: two of a, one of b"


def laminar(axes: Axes) -> str:
    page = shown("LaminarMatroid")
    bars(axes, page.w, LaminarMatroid(6, sets=page.nested, capacities=[1, 2])(page.w))
    lowest = min(0.0, page.w.min())
    for depth, (items, capacity) in enumerate(zip(page.nested, (1, 2), strict=True), start=1):
        y = lowest - 0.25 * depth
        axes.plot([items[0] - 0.4, items[-1] + 0.4], [y, y], color="0.3", linewidth=2)
        axes.text(
            np.mean(items), y - 0.03, f"at most {capacity}", ha="center", va="top", fontsize=8
        )
    axes.set(xlabel="", ylim=(lowest - 0.8, None))
    return "LaminarMatroid: sets within sets, and one item beside"


def matroid(axes: Axes) -> str:
    page = shown("Matroid")
    A = Matroid(6, page.independent)(page.w)
    for e, (x, y) in enumerate(page.vectors):
        color = CHOSEN if e in A else "0.7"
        style = {"arrowstyle": "-|>", "color": color, "linewidth": 2.5}
        axes.annotate("", (x, y), (0, 0), arrowprops=style)
        axes.text(1.1 * x, 1.1 * y, f"{page.w[e]:.1f}", ha="center", va="center", fontsize=9)
    reach = 1.25 * np.abs(page.vectors).max(axis=0)
    axes.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]))
    axes.axis("off")
    return "Matroid: the best two vectors that span the plane"


def grid_path(axes: Axes) -> str:
    page = shown("GridPath")
    oracle = GridPath(7)
    ends = oracle.edges.reshape(-1, 2)
    xy = np.array([(c, -r) for r in range(8) for c in range(8)], dtype=float)
    network(axes, xy, (ends[:, 0] * 8 + ends[:, 1]).reshape(-1, 2), page.w, oracle(page.w))
    return "GridPath(7): the longest path right and down"


CROSSING = np.array([[0, 0.5], [1, 1], [1, 0], [2, 1], [2, 0]])
"""Where the five nodes of the small graphs are."""


def dag_path(axes: Axes) -> str:
    page = shown("DagPath")
    A = DagPath(page.edges, source=0, target=4)(page.gain)
    network(axes, CROSSING, page.edges, page.gain, A, arrows=True)
    return "DagPath: the longest path from the left to the lower right"


def shortest_path(axes: Axes) -> str:
    page = shown("ShortestPath")
    A = minimize(ShortestPath(page.edges, source=0, target=4))(page.cost)
    network(axes, CROSSING, page.edges, page.cost, A, arrows=True, label="cost")
    return "ShortestPath: the cheapest way from the left to the lower right"


def spanning_tree(axes: Axes) -> str:
    page = shown("SpanningTree")
    xy = np.array([[0, 1], [0, 0], [1, 0.5], [2, 1], [2, 0]])
    network(axes, xy, page.edges, page.w, SpanningTree(page.edges)(page.w))
    return "SpanningTree: the heaviest edges that connect all nodes"


def assignment(axes: Axes) -> str:
    page = shown("Assignment")
    image = axes.imshow(page.w.reshape(7, 9), cmap=MAP)
    for i, j in zip(page.rows, page.columns, strict=True):
        axes.add_patch(
            Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=CHOSEN, linewidth=3)
        )
    axes.set(xlabel="worker", ylabel="job", xticks=[], yticks=[])
    axes.figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
    return "Assignment(7, 9): a worker of its own for each job"


def bipartite(axes: Axes) -> str:
    page = shown("BipartiteMatching")
    xy = np.array([(0.0, -i) for i in range(3)] + [(3.0, -0.5 - j) for j in range(2)])
    edges = np.array(page.edges) + np.array([0, 3])
    network(axes, xy, edges, page.gain, BipartiteMatching(page.edges, right_capacity=2)(page.gain))
    return "BipartiteMatching: one edge per left node, two per right one"


def knapsack(axes: Axes) -> str:
    page = shown("Knapsack")
    chosen = np.isin(np.arange(30), Knapsack(page.costs, 40.0)(page.w))
    axes.scatter(page.costs[~chosen], page.w[~chosen], color=OTHER, edgecolor="0.6")
    label = f"{chosen.sum()} items at {page.costs[chosen].sum():.2f} of 40"
    axes.scatter(page.costs[chosen], page.w[chosen], color=CHOSEN, label=label)
    axes.set(xlabel="cost", ylabel="weight")
    axes.legend(loc="lower right", framealpha=0.9)
    return "Knapsack(costs, 40): the most weight within a budget"


def budget(axes: Axes) -> str:
    page = shown("Budget")
    groups = ["a", "b", "c"] * 10
    oracle = Budget(page.costs, 40.0, groups=groups, maximum=2, max_items=5)
    chosen = np.isin(np.arange(30), oracle(page.w))
    across = np.arange(30) % 3 + 0.06 * (np.arange(30) // 3 - 4.5)
    sizes = 12 * page.costs
    axes.scatter(across[~chosen], page.w[~chosen], s=sizes[~chosen], color=OTHER, edgecolor="0.6")
    label = f"{chosen.sum()} items at {page.costs[chosen].sum():.2f} of 40"
    axes.scatter(across[chosen], page.w[chosen], s=sizes[chosen], color=CHOSEN, label=label)
    axes.set(xlabel="group; the size of an item is its cost", ylabel="weight", ylim=(0, 1.3))
    axes.set_xticks(range(3), ["a", "b", "c"])
    axes.legend(loc="upper right", framealpha=0.9)
    return "Budget: within 40, at most 2 per group and 5 in all"


def milp(axes: Axes) -> str:
    page = shown("Milp")
    A = np.stack([page.costs, np.ones(30)])
    chosen = Milp(A, [40.0, 5.0])(page.w)
    chosen = chosen[chosen >= 0]
    used = A[:, chosen].sum(axis=1)
    bars(axes, page.w, chosen)
    axes.set(xlabel=f"item; costs add up to {used[0]:.1f} of 40, items to {used[1]:.0f} of 5")
    return "Milp: two linear constraints, on costs and on how many"


STREETS = {"a": (0.0, 0.0), "b": (2.0, 0.0), "c": (1.0, 1.7), "m": (1.0, 0.6)}
"""Where the places of the small town are."""


def town(axes: Axes, page: Any, A: Array, *, arrows: bool) -> None:
    """The streets of the page, with the chosen ones."""
    names = list(STREETS)
    edges = [(names.index(start), names.index(end)) for start, end in page.streets]
    xy = np.array(list(STREETS.values()))
    network(axes, xy, edges, page.cost, A, arrows=arrows, label="cost")
    for name, (x, y) in STREETS.items():
        axes.text(x, y + 0.12, name, ha="center", fontsize=11, zorder=5)
    axes.set_ylim(-0.15, 2.05)


def connected_places(axes: Axes) -> str:
    page = shown("steiner_tree")
    A = minimize(steiner_tree(page.streets, ["a", "b", "c"]))(page.cost)
    town(axes, page, A, arrows=False)
    return "steiner_tree: the cheapest streets that connect a, b and c"


def flow(axes: Axes) -> str:
    page = shown("network_flow")
    A = minimize(network_flow(page.streets, {"a": 3, "m": -2, "c": -1}, capacity=2))(page.cost)
    town(axes, page, A, arrows=True)
    return "network_flow: a supplies two to m and one to c"


def intervals(axes: Axes) -> str:
    page = shown("Intervals")
    chosen = np.isin(np.arange(20), Intervals(page.start, page.end)(page.w))
    order = np.argsort(page.start)
    colors = np.where(chosen, CHOSEN, OTHER)
    for y, e in enumerate(order):
        axes.barh(y, page.end[e] - page.start[e], left=page.start[e], color=colors[e], height=0.75)
        axes.text(page.start[e] - 0.05, y, f"{page.w[e]:.1f}", ha="right", va="center", fontsize=7)
    axes.set(xlabel="hour", ylabel="item, its weight in front", yticks=[])
    return "Intervals(start, end): the most weight, one at a time"


def tour(axes: Axes) -> str:
    page = shown("Tour")
    ends = np.stack([page.i, page.j], axis=1)
    for start, end in page.cities[ends[page.edges]]:
        axes.plot(*zip(start, end, strict=True), color=CHOSEN, linewidth=2)
    places(axes, page.cities, sizes=[22] * 30)
    return "Tour(30): a short way through all cities"


def places(axes: Axes, xy: Array, sizes: Sequence[float], color: Any = "white") -> None:
    """Dots on a map."""
    axes.scatter(xy[:, 0], xy[:, 1], s=sizes, color=color, edgecolor="0.25", zorder=3)
    axes.set_aspect("equal")
    axes.axis("off")


def depot(axes: Axes, xy: Array) -> None:
    """The first place, as a square."""
    axes.scatter(xy[:1, 0], xy[:1, 1], s=110, color="0.25", marker="s", zorder=4)


def orienteering(axes: Axes) -> str:
    page = shown("Orienteering")
    A = page.stops[page.stops >= 0]
    trip = page.xy[[0, *(A + 1), 0]]
    length = np.linalg.norm(np.diff(trip, axis=0), axis=1).sum()
    axes.plot(*trip.T, color=CHOSEN, linewidth=2)
    colors = [CHOSEN if e in A else OTHER for e in range(20)]
    places(axes, page.xy[1:], 120 * page.w, colors)
    depot(axes, page.xy)
    return f"Orienteering(distances, 2.5): {len(A)} stops that pay, {length:.2f} on the way"


def vehicle_routes(axes: Axes) -> str:
    page = shown("VehicleRoutes")
    for color, route in zip(COLORS, page.fleet.routes(page.arcs), strict=False):
        axes.plot(*page.xy[[0, *route, 0]].T, color=color, linewidth=2)
    places(axes, page.xy[1:], [30] * 20)
    depot(axes, page.xy)
    return "VehicleRoutes: three vehicles that can carry 40 each"


PICTURES: dict[str, Callable[[Axes], str]] = {
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
        axes.set_title(draw(axes), fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(IMAGES / f"{name}.png", dpi=110)
        print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()

"""How far tours are above the best known, beside fast-tsp and OR-Tools in the same time.

Instances are generated: uniform, clustered, coincident, drilled (a lattice with holes) and boards
(rows of holes, far apart), with whole distances. Their reference is the best tour of all
contestants, of a run with ten times the kicks, and of three seconds of fast-tsp. With --tsplib
FOLDER those of TSPLIB are added, with up to --largest cities: NAME.tsp files, and a file
`solutions` of lines "NAME : LENGTH", as in github.com/mastqe/tsplib (pip install tsplib95 to read
them).

On each instance superarm comes first, and the others get the time it took. Contestants that are not
installed are left out (pip install fast-tsp ortools). fast-tsp takes distances below 65536, so
longer ones are scaled down for it. Run: python benchmarks/tours.py
"""

import argparse
import importlib
import importlib.util
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from superarm import Tour
from superarm.arrays import Array

Solver = Callable[[Array, float], Array]

SIZES = (50, 100, 200, 500)
SHARP = 1e4  # whole distances, to that part of the width of the plane


class Instance(NamedTuple):
    """Cities to visit."""

    name: str
    distances: Array  # (n, n) whole numbers
    best: float  # length of the best tour known, or inf


def uniform(rng: np.random.Generator, n: int) -> Array:
    return rng.random((n, 2))


def clustered(rng: np.random.Generator, n: int) -> Array:
    centres = rng.random((n // 25, 2))
    which = rng.integers(len(centres), size=n)
    return centres[which] + rng.normal(0, 0.004, (n, 2))


def coincident(rng: np.random.Generator, n: int) -> Array:
    places = rng.random((n // 12, 2))
    return places[rng.integers(len(places), size=n)]


def drilled(rng: np.random.Generator, n: int) -> Array:
    side = int(np.ceil(np.sqrt(1.6 * n)))
    holes = rng.permutation(side**2)[:n]
    return np.stack(np.divmod(holes, side), axis=-1) / side


def boards(rng: np.random.Generator, n: int) -> Array:
    board = rng.integers(6, size=n)
    x = 100 * board + rng.integers(12, size=n)
    y = 10 * rng.integers(n // 20 + 2, size=n)
    return np.stack([x, y], axis=-1) / 600


def generated(seeds: int) -> Iterator[Instance]:
    for make in (uniform, clustered, coincident, drilled, boards):
        for n in SIZES:
            for seed in range(seeds):
                xy = SHARP * make(np.random.default_rng(seed), n)
                distances = np.rint(_lengths(xy))
                yield Instance(f"{make.__name__} {n} {seed}", distances, np.inf)


def _lengths(xy: Array) -> Array:
    difference = xy[:, None] - xy[None]
    lengths: Array = np.hypot(difference[..., 0], difference[..., 1])
    return lengths


def _on_the_earth(xy: Array) -> Array:
    """Distances between degrees and minutes, as TSPLIB defines them."""
    degrees = np.trunc(xy)
    radians = 3.141592 * (degrees + 5 * (xy - degrees) / 3) / 180
    latitude, longitude = radians.T
    q1 = np.cos(longitude[:, None] - longitude)
    q2 = np.cos(latitude[:, None] - latitude)
    q3 = np.cos(latitude[:, None] + latitude)
    angle = np.arccos(np.clip(0.5 * ((1 + q1) * q2 - (1 - q1) * q3), -1, 1))
    distances: Array = np.trunc(6378.388 * angle + 1)
    return distances


def _distances(problem: Any) -> Array:
    """The distances of a problem of TSPLIB: (n, n)."""
    nodes = list(problem.get_nodes())
    kind = problem.edge_weight_type
    if kind == "EXPLICIT":
        distances = np.array([[problem.get_weight(a, b) for b in nodes] for a in nodes], float)
    else:
        xy = np.array([problem.node_coords[node] for node in nodes], float)
        if kind == "GEO":
            distances = _on_the_earth(xy)
        elif kind == "CEIL_2D":
            distances = np.ceil(_lengths(xy))
        elif kind == "ATT":
            distances = np.ceil(_lengths(xy) / np.sqrt(10))
        else:
            distances = np.floor(_lengths(xy) + 0.5)
    np.fill_diagonal(distances, 0)
    return distances


def tsplib(folder: Path, largest: int) -> Iterator[Instance]:
    read = importlib.import_module("tsplib95").load
    lines = (folder / "solutions").read_text()
    for name, best in re.findall(r"^(\w+) *: *(\d+)", lines, re.MULTILINE):
        file = folder / f"{name}.tsp"
        size = re.search(r"DIMENSION *: *(\d+)", file.read_text())
        # linhp318 asks for a path with a fixed edge
        if size and int(size[1]) <= largest and name != "linhp318":
            yield Instance(name, _distances(read(file)), float(best))


def superarm(distances: Array, seconds: float = 0.0, kicks: int = Tour(3).kicks) -> Array:
    n = len(distances)
    oracle = Tour(n, kicks=kicks)
    edges = oracle.items[oracle(-distances[np.triu_indices(n, 1)])]
    lengths: Array = distances[edges[:, 0], edges[:, 1]]
    return lengths


def fast_tsp(distances: Array, seconds: float) -> Array:
    scale = min(1.0, 65535 / distances.max())
    whole = np.rint(scale * distances).astype(np.int64)
    tour = importlib.import_module("fast_tsp").find_tour(whole, seconds)
    lengths: Array = distances[tour, np.roll(tour, 1)]
    return lengths


def or_tools(distances: Array, seconds: float) -> Array:
    routing = importlib.import_module("ortools.constraint_solver.pywrapcp")
    options = importlib.import_module("ortools.constraint_solver.routing_enums_pb2")
    n = len(distances)
    manager = routing.RoutingIndexManager(n, 1, 0)
    model = routing.RoutingModel(manager)
    model.SetArcCostEvaluatorOfAllVehicles(
        model.RegisterTransitMatrix(distances.astype(int).tolist())
    )
    settings = routing.DefaultRoutingSearchParameters()
    settings.first_solution_strategy = options.FirstSolutionStrategy.PATH_CHEAPEST_ARC
    settings.local_search_metaheuristic = options.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    settings.time_limit.FromNanoseconds(int(1e9 * seconds))
    solution = model.SolveWithParameters(settings)
    if solution is None:
        return np.array([np.inf])
    tour = [model.Start(0)]
    while not model.IsEnd(tour[-1]):
        tour.append(solution.Value(model.NextVar(tour[-1])))
    cities = [manager.IndexToNode(index) for index in tour[:-1]]
    lengths: Array = distances[cities, np.roll(cities, 1)]
    return lengths


def contestants() -> dict[str, Solver]:
    found: dict[str, Solver] = {}
    if importlib.util.find_spec("fast_tsp"):
        found["fast-tsp"] = fast_tsp
    if importlib.util.find_spec("ortools"):
        found["OR-Tools"] = or_tools
    return found


def measure(instance: Instance, others: dict[str, Solver]) -> tuple[float, dict[str, float]]:
    """Milliseconds of superarm, and how many percent each is above the best."""
    distances = instance.distances
    start = time.perf_counter()
    lengths = {"superarm": superarm(distances).sum()}
    seconds = time.perf_counter() - start
    for name, solve in others.items():
        lengths[name] = solve(distances, seconds).sum()

    best = instance.best
    if best == np.inf:
        best = min(*lengths.values(), superarm(distances, kicks=10 * Tour(3).kicks).sum())
        if "fast-tsp" in others:
            best = min(best, fast_tsp(distances, 3.0).sum())
    return 1e3 * seconds, {name: 100 * (length / best - 1) for name, length in lengths.items()}


def report(family: str, rows: list[dict[str, float]], ms: list[float]) -> None:
    ours = np.array([row["superarm"] for row in rows])
    print(f"{family}: {len(rows)} instances, median {np.median(ms):.0f} ms")
    for name in rows[0]:
        gaps = np.array([row[name] for row in rows])
        error = gaps.std() / np.sqrt(len(gaps))
        line = f"  {name:10} mean {gaps.mean():.3f} % (± {error:.3f}), worst {gaps.max():.2f} %"
        line += f", best known on {np.mean(gaps < 1e-9):.0%}"
        if name != "superarm":
            line += f"; superarm is not worse on {np.mean(ours <= gaps + 1e-9):.0%}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="instances of each kind and size (3)")
    parser.add_argument("--tsplib", type=Path, help="folder with instances of TSPLIB")
    parser.add_argument("--largest", type=int, default=1084, help="cities of those (1084)")
    arguments = parser.parse_args()

    others = contestants()
    instances = list(generated(arguments.seeds))
    superarm(instances[0].distances)  # compiles
    if arguments.tsplib:
        instances += tsplib(arguments.tsplib, arguments.largest)
    families: dict[str, list[tuple[float, dict[str, float]]]] = {}
    with threadpool_limits(limits=1):
        for instance in instances:
            family = "TSPLIB"
            if instance.best == np.inf:
                family = instance.name.split()[0]
            families.setdefault(family, []).append(measure(instance, others))
    for family, found in families.items():
        report(family, [row for _, row in found], [ms for ms, _ in found])


if __name__ == "__main__":
    main()

"""How far trips and routes are from the best known, beside OR-Tools in the same time.

Places are uniform in the plane, with whole distances. The reference is the best of both, and of
superarm with ten times the iterations. On each instance superarm comes first, and OR-Tools gets the
time it took (pip install ortools). Run: python benchmarks/routes.py
"""

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from superarm import Orienteering, VehicleRoutes
from superarm.arrays import Array

SEEDS = range(8)
SHARP = 1e4  # whole distances, to that part of the width of the plane
SCORE = 1e6  # whole prizes for OR-Tools, of which the largest is worth so many times its distances


class Instance(NamedTuple):
    """Places, the depot first."""

    distances: Array  # (n + 1, n + 1) whole numbers
    prizes: Array  # (n,)
    max_length: int
    demands: Array  # (n,) whole numbers
    capacities: list[int]


def instance(seed: int, n: int) -> Instance:
    rng = np.random.default_rng(seed)
    xy = SHARP * rng.random((n + 1, 2))
    apart = xy[:, None] - xy[None]
    distances = np.rint(np.hypot(apart[..., 0], apart[..., 1]))
    demands = rng.integers(1, 10, n)
    vehicles = int(np.ceil(1.05 * demands.sum() / 25))
    length = int(SHARP * rng.uniform(1, 4))
    return Instance(distances, rng.random(n), length, demands, [25] * vehicles)


def trip(given: Instance, more: int = 1) -> float:
    """What the stops of a trip pay."""
    oracle = Orienteering(given.distances, given.max_length)
    oracle.iterations *= more
    A = oracle(given.prizes)
    return float(given.prizes[A[A >= 0]].sum())


def routes(given: Instance, more: int = 1) -> float:
    """Minus the length of all routes."""
    oracle = VehicleRoutes(given.demands, given.capacities)
    oracle.iterations *= more
    w = -given.distances[~np.eye(len(given.distances), dtype=bool)]
    A = oracle(w)
    return float(w[A[A >= 0]].sum())


class _Model:
    """OR-Tools' model of places and vehicles."""

    def __init__(self, given: Instance, vehicles: int) -> None:
        self.routing = importlib.import_module("ortools.constraint_solver.pywrapcp")
        self.manager = self.routing.RoutingIndexManager(len(given.distances), vehicles, 0)
        self.model = self.routing.RoutingModel(self.manager)
        self.way = self.model.RegisterTransitMatrix(given.distances.astype(int).tolist())
        self.model.SetArcCostEvaluatorOfAllVehicles(self.way)

    def solve(self, vehicles: int, seconds: float) -> list[list[int]] | None:
        """The places of each route, from the depot on; None if there are none."""
        options = importlib.import_module("ortools.constraint_solver.routing_enums_pb2")
        settings = self.routing.DefaultRoutingSearchParameters()
        first = options.FirstSolutionStrategy
        settings.first_solution_strategy = first.PARALLEL_CHEAPEST_INSERTION
        settings.local_search_metaheuristic = options.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
        settings.time_limit.FromNanoseconds(int(1e9 * seconds))
        found = self.model.SolveWithParameters(settings)
        if found is None:
            return None
        return [self._followed(found, vehicle) for vehicle in range(vehicles)]

    def _followed(self, found: Any, vehicle: int) -> list[int]:
        at = self.model.Start(vehicle)
        places = []
        while not self.model.IsEnd(at):
            places.append(self.manager.IndexToNode(at))
            at = found.Value(self.model.NextVar(at))
        return places


def or_tools_trip(given: Instance, seconds: float) -> float:
    one = _Model(given, 1)
    one.model.AddDimension(one.way, 0, given.max_length, True, "length")
    for i, prize in enumerate(given.prizes):
        skipped = int(SCORE * SHARP * prize)
        one.model.AddDisjunction([one.manager.NodeToIndex(i + 1)], skipped)
    found = one.solve(1, seconds)
    return 0.0 if found is None else float(given.prizes[np.array(found[0][1:], int) - 1].sum())


def or_tools_routes(given: Instance, seconds: float) -> float:
    vehicles = len(given.capacities)
    one = _Model(given, vehicles)
    load = one.model.RegisterUnaryTransitVector([0, *given.demands.tolist()])
    one.model.AddDimensionWithVehicleCapacity(load, 0, given.capacities, True, "load")
    found = one.solve(vehicles, seconds)
    if found is None:
        return -np.inf
    return -float(sum(given.distances[route, np.roll(route, -1)].sum() for route in found))


def compare(ours: Callable[..., float], theirs: Callable[[Instance, float], float], n: int) -> None:
    """Print how many percent both are worse than the best known."""
    gaps = []
    ms = []
    for seed in SEEDS:
        given = instance(seed, n)
        start = time.perf_counter()
        found = ours(given)
        seconds = time.perf_counter() - start
        other = theirs(given, seconds)
        best = max(found, other, ours(given, more=10))
        gaps.append([100 * abs(found / best - 1), 100 * abs(other / best - 1)])
        ms.append(1e3 * seconds)
    mean = np.mean(gaps, axis=0)
    error = np.std(gaps, axis=0) / np.sqrt(len(gaps))
    worst = np.max(gaps, axis=0)
    print(f"{ours.__name__} {n}: median {np.median(ms):.0f} ms")
    for i, name in enumerate(("superarm", "OR-Tools")):
        print(f"  {name} {mean[i]:.2f} % (± {error[i]:.2f}), worst {worst[i]:.1f} %", flush=True)


def main() -> None:
    with threadpool_limits(limits=1):
        trip(instance(0, 5))
        for n in (10, 20, 40, 80):
            compare(trip, or_tools_trip, n)
        for n in (10, 20, 40, 80):
            compare(routes, or_tools_routes, n)


if __name__ == "__main__":
    main()

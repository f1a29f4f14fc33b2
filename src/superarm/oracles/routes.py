"""Routes by PyVRP: the stops that pay within a length, and routes of vehicles with capacities.

PyVRP counts in whole numbers, so lengths and loads are counted in small units, and it minimizes:
costs are moved above 0, without changing which routes are the cheapest. Each stop is left once and
entered once, so a constant s may be added for leaving a stop and for entering one.
"""

import itertools
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers, fault_of_set, require_count, require_positive
from superarm.checks.tables import pandas_index, split_labels
from superarm.errors import ItemsError, ParameterError
from superarm.oracles.base import BaseOracle, feasible, require_whole

UNITS = 2**32  # at most, in a length or a capacity
DECIMALS = 6  # with which numbers are counted as they are
EPS = 1e-12  # rounding of sums
COST = 2**30  # of the largest weight
RATIOS = (2**4, 2**6, 2**8, 2**10)  # what the best stop pays, in lengths of the longest trip
PATIENCE = 10  # searches, while every one ends with an arc that is not available


class Orienteering(BaseOracle):
    """Stops on a trip from a depot and back that is at most `max_length` long.

    Args:
        distances: how far it is from each place to each other, (n + 1, n + 1), where place 0 is the
            depot and item e is place e + 1; both ways may differ. A data frame has the ids of the
            places as its rows and columns, the depot first, and an agent aligns its items with the
            others.
        max_length: how long the trip may be.
        iterations: steps of each of the four searches per weight vector.
        seed: what the searches draw from.

    Stops are returned in the order of the visit. Those whose weight is not positive are left out,
    so that no stop at all is a feasible set. No way should be longer than a detour: give the
    lengths of shortest ways. The time spent at a stop can be part of the ways to it, and if no way
    back is needed, it is 0 long.

    PyVRP searches, which `pip install 'superarm[routes]'` installs. It finds no proof, so the gap
    is None: trips among 20 stops are nearly always the best, those among 40 lack some thousandths
    of it, among 80 two hundredths; more `iterations` find more. They are counted, not timed, so the
    same weights have the same answer. Distances with at most six decimals are added up exactly,
    others are rounded up to 2e-10 of `max_length`.

    >>> import numpy as np
    >>> from superarm import Orienteering
    >>> place = np.array([0.0, 1.0, 2.0, -3.0])  # along a road, with the depot at 0
    >>> oracle = Orienteering(abs(place[:, None] - place), 6.0)
    >>> oracle(np.array([0.3, 0.4, 0.6]))
    array([ 1,  0, -1])
    """

    def __init__(
        self,
        distances: Any,
        max_length: float,
        *,
        iterations: int = 200,
        seed: int = 0,
    ) -> None:
        require_positive(max_length=max_length)
        require_count(iterations=iterations)
        require_whole(seed, "seed")
        _pyvrp(type(self).__name__)
        d, self.ids = _distances(distances)
        self.max_length = max_length
        self.iterations = iterations
        self.seed = seed
        self.L = len(d) - 1
        self.K = self.L
        self._distance, limits = _in_units(d, np.array([float(max_length)]))
        self._limit = int(limits[0])

    def __repr__(self) -> str:
        return f"Orienteering({self.L} stops, max_length={self.max_length})"

    def solve_row(self, w: Array) -> Array:
        """The best stops found for the weights (L,), in the order of the visit."""
        paying = np.flatnonzero(w > 0)
        if not len(paying):
            return paying
        best: list[int] = []
        for search, ratio in enumerate(RATIOS):
            trip = self._trip(w, paying, ratio, self.seed + search)
            trip = self._filled(w, paying, trip)
            if w[trip].sum() > w[best].sum():
                best = trip
        return np.array(best, np.int64)

    def _trip(self, w: Array, paying: Array, ratio: int, seed: int) -> list[int]:
        """A trip to some of the stops that pay something, where the best one pays as much as
        `ratio` of the longest trips cost.
        """
        vrp = _pyvrp(type(self).__name__)
        places = np.append(0, paying + 1)
        share = w[paying] / w[paying].max()
        prize = np.maximum(np.round(share * ratio * self._limit), 1)
        found = _search(
            vrp,
            self._distance[np.ix_(places, places)],
            [vrp.Client(i + 1, prize=int(p), required=False) for i, p in enumerate(prize)],
            [vrp.VehicleType(max_distance=self._limit)],
            self.iterations,
            seed,
        )
        return [int(paying[stop - 1]) for route in found for stop in route]

    def _filled(self, w: Array, paying: Array, trip: list[int]) -> list[int]:
        """The trip with the stops that can still be put between two others, the best first."""
        d = self._distance
        places = [0, *(e + 1 for e in trip), 0]
        length = sum(d[i, j] for i, j in itertools.pairwise(places))
        for e in paying[np.argsort(-w[paying], kind="stable")]:
            if e + 1 in places:
                continue
            before = np.array(places[:-1])
            after = np.array(places[1:])
            longer = d[before, e + 1] + d[e + 1, after] - d[before, after]
            at = int(longer.argmin())
            if length + longer[at] <= self._limit:
                length += longer[at]
                places.insert(at + 1, int(e) + 1)
        return [place - 1 for place in places[1:-1]]


class VehicleRoutes(BaseOracle):
    """Routes of vehicles that leave a depot, visit each of n stops once, and return: the
    capacitated vehicle routing problem, with the most weight.

    Args:
        demands: what each stop takes of a vehicle, (n,), in the order of the stops 1, 2, ...
        capacities: what each vehicle holds, one number per vehicle. Vehicles may stay at the depot.
        iterations: steps of the search per weight vector.
        seed: what the search draws from.

    The items are the n(n+1) arcs (i, j) from a place to another one, in the order of `items`; place
    0 is the depot. Arcs and not edges, as a route to one stop goes there and back. The set has as
    many arcs as there are stops and routes, one route after the other; `routes` lists their stops.
    Weights may have any sign; for costs, pass their negative, or use `minimize`.

    PyVRP searches, which `pip install 'superarm[routes]'` installs. It finds no proof, so the gap
    is None: routes to 20 stops are nearly always the best, those to 40 cost half a percent more, to
    80 one percent; more `iterations` find better ones. They are counted, not timed, so the same
    weights have the same answer. Where capacities are scarce or many arcs are not available, it may
    raise `InfeasibleError` though routes exist. Demands with at most six decimals are added up
    exactly, others are rounded up to 2e-10 of the largest capacity.

    >>> import numpy as np
    >>> from superarm import VehicleRoutes
    >>> oracle = VehicleRoutes([2, 2, 1], capacities=[3, 3])
    >>> place = np.array([0.0, 1.0, -1.0, -2.0])  # along a road
    >>> i, j = oracle.items.T
    >>> A = oracle(-abs(place[i] - place[j]))
    >>> oracle.items[A].tolist()
    [[0, 1], [1, 0], [0, 2], [2, 3], [3, 0]]
    >>> oracle.routes(A)
    [[1], [2, 3]]
    """

    def __init__(
        self,
        demands: Any,
        capacities: Any,
        *,
        iterations: int = 300,
        seed: int = 0,
    ) -> None:
        require_count(iterations=iterations)
        require_whole(seed, "seed")
        _pyvrp(type(self).__name__)
        self.demands = _numbers(demands, "demands", "stop")
        self.capacities = _numbers(capacities, "capacities", "vehicle")
        if not self.capacities.all():
            raise ParameterError(
                "capacities must be positive: leave out vehicles that hold nothing"
            )
        self.iterations = iterations
        self.seed = seed
        n = len(self.demands)
        self.L = n * (n + 1)
        self.K = n + min(n, len(self.capacities))
        self._load, self._capacity = _in_units(self.demands, self.capacities)
        self._refuse_too_much()

    def __repr__(self) -> str:
        return f"VehicleRoutes({len(self.demands)} stops, {len(self.capacities)} vehicles)"

    def _refuse_too_much(self) -> None:
        """Raise if no vehicle can serve a stop, or all vehicles cannot serve all stops."""
        if (self._load > self._capacity.max()).any():
            e = int((self._load > self._capacity.max()).argmax())
            raise ParameterError(
                f"no vehicle can serve stop {e + 1}: its demand is {self.demands[e]}, and the "
                f"largest capacity {self.capacities.max()}"
            )
        if self._load.sum() > self._capacity.sum():
            raise ParameterError(
                f"the demands come to {self.demands.sum()}, the capacities of all vehicles only to "
                f"{self.capacities.sum()}"
            )

    @property
    def items(self) -> Array:
        """The places that each arc leads from and to, (L, 2)."""
        apart = ~np.eye(len(self.demands) + 1, dtype=bool)
        return np.argwhere(apart)

    def routes(self, items: Any) -> list[list[int]]:
        """The stops of each route, in the order of the visit, of a set of items in any order.

        Returns:
            per vehicle a list of stops.
        """
        chosen = np.asarray(items, None if len(items) else np.int64)
        chosen = chosen[chosen != -1]
        fault = fault_of_set(chosen, self.L)
        if fault is not None:
            raise ItemsError(fault)
        arcs = self.items[chosen].tolist()
        after = {i: j for i, j in arcs if i}
        found = [_followed(j, after) for i, j in arcs if not i]
        if sum(map(len, found)) != len(self.demands) or len(arcs) != len(self.demands) + len(found):
            raise ItemsError("these items are not the arcs of routes that visit each stop once")
        return found

    def solve_row(self, w: Array) -> Array:
        """The best routes found for the weights (L,): an item per arc, along the routes."""
        costs = self._costs(w)
        for search in range(PATIENCE):
            found = self._arcs(costs, self.seed + search)
            complete = len(found) > 0 and bool((w[found] > -np.inf).all())
            if complete:
                break
        feasible(complete, self)
        return found

    def _costs(self, w: Array) -> Array:
        """Costs (n + 1, n + 1) in whole numbers from 0 on; an arc that is not available costs more
        than any routes without one.
        """
        available = w > -np.inf
        scale = np.abs(w[available]).max(initial=5e-324)
        paid = np.where(available, -w, 0.0) / scale
        shift = max(0.0, -paid.min())
        stops = (self.items > 0).sum(axis=-1)  # it leaves, and it enters
        counted = np.round(COST * (paid + shift * stops))
        counted[~available] = 3.0 * COST * (self.K + 1)
        n = len(self.demands) + 1
        costs = np.zeros((n, n), np.int64)
        costs[~np.eye(n, dtype=bool)] = counted
        return costs

    def _arcs(self, costs: Array, seed: int) -> Array:
        """The arcs of the best routes found, by the first stop of each; none if none were found."""
        vrp = _pyvrp(type(self).__name__)
        capacities, vehicles = np.unique(self._capacity, return_counts=True)
        found = _search(
            vrp,
            costs,
            [vrp.Client(i + 1, delivery=[load]) for i, load in enumerate(self._load.tolist())],
            [
                vrp.VehicleType(number, capacity=[capacity])
                for number, capacity in zip(vehicles.tolist(), capacities.tolist(), strict=True)
            ],
            self.iterations,
            seed,
        )
        n = len(self.demands)
        ways = [way for route in sorted(found) for way in itertools.pairwise([0, *route, 0])]
        i, j = np.array(ways, np.int64).reshape(-1, 2).T
        arcs: Array = i * n + j - (j > i)
        return arcs


def _followed(stop: int, after: dict[int, int]) -> list[int]:
    """The stops from the first one on, as long as another one comes after; they are taken out of
    `after`.
    """
    route = []
    while stop:
        route.append(stop)
        stop = after.pop(stop, 0)
    return route


def _pyvrp(name: str) -> Any:
    """PyVRP, or an error that says how to get it."""
    try:
        import pyvrp
    except ImportError as error:
        raise ParameterError(f"{name} needs PyVRP: pip install 'superarm[routes]'") from error
    return pyvrp


def _search(
    vrp: Any,
    distance: Array,
    stops: list[Any],
    vehicles: list[Any],
    iterations: int,
    seed: int,
) -> list[list[int]]:
    """The stops, from 1 on, of each route that PyVRP finds; no route if it finds none that are
    feasible.
    """
    from pyvrp.stop import MaxIterations

    data = vrp.ProblemData(
        [vrp.Location(0, 0)] * len(distance),
        stops,
        [vrp.Depot(0)],
        vehicles,
        [distance],
        [np.zeros_like(distance)],
    )
    # penalties stay as they are: changed ones find nothing better here, and warn
    penalty = vrp.PenaltyParams(solutions_between_updates=iterations + 1)
    best = vrp.solve(
        data,
        MaxIterations(iterations),
        seed=seed,
        collect_stats=False,
        params=vrp.SolveParams(penalty=penalty),
    ).best
    if not best.is_feasible():
        return []
    return [[visit.idx + 1 for visit in route if visit.is_client()] for route in best.routes()]


def _in_units(values: Array, limits: Array) -> tuple[Array, Array]:
    """Values and the limits of their sums in whole units, so fine that the largest limit has up to
    UNITS of them. Values of a few decimals are exact, others rounded up; those above all limits
    stay above.
    """
    most = limits.max()
    within = values <= most * (1 + EPS)
    small = values[within]
    for scale in 10.0 ** np.arange(DECIMALS + 1):
        near = np.round(small * scale)
        exact = (np.abs(small * scale - near) <= EPS * near).all()
        if exact and 1 <= most * scale <= UNITS:
            finer = UNITS // int(most * scale)
            count = near * finer
            allowed = np.floor(limits * scale * (1 + EPS)) * finer
            break
    else:
        count = np.ceil(small / most * UNITS)
        allowed = np.floor(limits / most * UNITS)
    whole = np.full(values.shape, 2 * UNITS)
    whole[within] = count
    return whole, allowed.astype(np.int64)


def _numbers(values: Any, name: str, per: str) -> Array:
    """Numbers (n,), finite and not negative."""
    listed, ids = split_labels(values, ParameterError)
    if ids is not None:
        raise ParameterError(f"{name} go by the order of each {per}, not by id: give a list")
    try:
        given = as_numbers(listed)
    except ValueError as error:
        raise ParameterError(f"{name} must be numbers, one per {per} ({error})") from error
    if given.ndim != 1 or not len(given):
        raise ParameterError(
            f"{name} must be a list of numbers, one per {per}, got shape {given.shape}"
        )
    sound = (given >= 0) & (given < np.inf)
    if not sound.all():
        bad = int(sound.argmin())
        raise ParameterError(
            f"{name} must be finite and not negative: number {bad} is {given[bad]}"
        )
    return given


def _distances(distances: Any) -> tuple[Array, list[Any] | None]:
    """Distances (n + 1, n + 1), finite and not negative, and the ids of the stops if they have
    any.
    """
    ids = None
    index = pandas_index(distances)
    if index is not None:
        ids = index.tolist()
        if list(getattr(distances, "columns", ())) != ids:
            raise ParameterError(
                "the rows and columns of distances must be the same places, in the same order"
            )
        distances = distances.to_numpy()
    try:
        d = as_numbers(distances)
    except ValueError as error:
        raise ParameterError(f"distances must be a matrix of numbers ({error})") from error
    if d.ndim != 2 or d.shape[0] != d.shape[1] or len(d) < 2:
        raise ParameterError(
            "distances must be from each place to each other, (n + 1, n + 1) with the depot first, "
            f"got shape {d.shape}"
        )
    sound = (d >= 0) & (d < np.inf)
    if not sound.all():
        i, j = np.argwhere(~sound)[0].tolist()
        raise ParameterError(
            f"distances must be finite and not negative: from {i} to {j} it is {d[i, j]}"
        )
    if np.diagonal(d).any():
        raise ParameterError("distances from a place to itself must be 0")
    return d, None if ids is None else ids[1:]

"""Tours through all cities, by local search."""

from dataclasses import dataclass, field

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, for_kernels
from superarm.checks import check_weights, require_count
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, feasible, require_whole
from superarm.oracles.lin_kernighan import Map, local_search

NEAR = 8  # cities that an edge may lead to from each
SPREAD = 5  # of them chosen in all directions, at most
SMALL = 50  # cities: kicks are counted for so many more, as few cities need more of them each
PATIENCE = 10  # times the starts, while every tour found uses an edge that is not available


def _costs(w: Array, n: int) -> Array:
    """Costs (n, n) for the weights (L,): in [0, 2] where available, and else more than any tour
    that is.
    """
    available = w > -np.inf
    weights = w[available]
    scale = np.abs(weights).max(initial=5e-324)
    paid = np.full(len(w), 2.0 * n + 1.0)
    paid[available] = weights.max(initial=-scale) / scale - weights / scale
    cost = np.zeros((n, n))
    cost[np.triu_indices(n, 1)] = paid
    return cost + cost.T


@compiled
def _next_free(a: int, cost: Array, free: Array) -> int:
    """The nearest city to a that is free, or -1; ties go to the lowest index."""
    found = -1
    low = np.inf
    for b in range(len(cost)):
        if free[b] and cost[a, b] < low:
            low = cost[a, b]
            found = b
    return found


@compiled
def _candidates(cost: Array) -> Array:
    """NEAR cities for each, nearest first: up to SPREAD in all directions, and the nearest.

    A city is in the direction of one chosen before if it is nearer to that one.
    """
    n = len(cost)
    K = min(NEAR, n - 1)
    near = np.empty((n, K), np.int32)
    for a in range(n):
        apart = np.ones(n, np.bool_)
        left = np.ones(n, np.bool_)
        apart[a] = False
        left[a] = False
        for k in range(K):
            c = -1
            if k < SPREAD:
                c = _next_free(a, cost, apart)
            if c < 0:
                c = _next_free(a, cost, left)
            left[c] = False
            apart[c] = False
            if k + 1 < SPREAD:
                for b in range(n):
                    same = cost[c, b] == cost[a, b] and cost[a, b] == cost[a, c]
                    if cost[c, b] < cost[a, b] or same:
                        apart[b] = False

            place = k
            while place and cost[a, near[a, place - 1]] > cost[a, c]:
                near[a, place] = near[a, place - 1]
                place -= 1
            near[a, place] = c
    return near


@compiled
def _nearest_neighbours(start: int, cost: Array) -> Array:
    """The tour that goes on to the nearest city not yet visited: (n,)."""
    n = len(cost)
    tour = np.empty(n, np.int32)
    unvisited = np.ones(n, np.bool_)
    city = start
    for i in range(n):
        tour[i] = city
        unvisited[city] = False
        nearest = city
        for other in range(n):
            if unvisited[other] and (nearest == city or cost[city, other] < cost[city, nearest]):
                nearest = other
        city = nearest
    return tour


def _atlas(cost: Array) -> Map:
    """What edges cost, and which of them to look at."""
    return Map(cost, _candidates(cost), 1e-13 * float(cost.max()))


def _search(cost: Array, state: Array, kicks: int) -> tuple[float, Array]:
    """The length of the best tour found, and that tour (n,).

    No chain moves all cities of one place, for the edges between them cost nothing. So the places
    get a tour first, and their share of the kicks.
    """
    n = len(cost)
    first = (cost == 0).argmax(axis=0)
    same = (cost == cost[first]).all(axis=1)
    places, place = np.unique(np.where(same, first, np.arange(n)), return_inverse=True)
    if len(places) == n:
        start = _nearest_neighbours(int(state[0] % np.uint64(n)), cost)
    else:
        share = kicks * len(places) // n
        kicks -= share
        order = np.arange(len(places))
        if len(places) > 3:
            _, order = _search(cost[np.ix_(places, places)], state, share)
        rank = np.argsort(order)
        start = np.argsort(rank[place], kind="stable").astype(np.int32)
    return local_search(start, state, kicks, _atlas(cost))


def _edges(tour: Array) -> Array:
    """The edges of a tour, from city 0 on, towards the lower one of those beside it."""
    n = len(tour)
    a = np.roll(tour, -np.argmin(tour)).astype(np.int64)
    if a[-1] < a[1]:
        a[1:] = a[:0:-1].copy()
    b = np.roll(a, -1)
    i = np.minimum(a, b)
    j = np.maximum(a, b)
    edges: Array = i * (2 * n - i - 1) // 2 + j - i - 1
    return edges


def _tour(w: Array, kicks: int, restarts: int, state: Array, edges: Array) -> bool:
    """Fill in the edges (n,) of the best tour found; returns whether all are available."""
    n = len(edges)
    cost = _costs(w, n)
    ways = (cost <= 2 * n).sum(axis=0) - 1
    if ways.min() < 2:
        return False
    best = np.inf
    for search in range(PATIENCE * restarts):
        if search >= restarts and best <= 2 * n:
            break
        length, tour = _search(cost, state, kicks)
        if length < best:
            best = length
            edges[:] = _edges(tour)
    return best <= 2 * n


@dataclass(frozen=True)
class Tour(BaseOracle):
    """Tours that visit each of n cities once and return: the travelling salesman's problem, with
    the most weight.

    The items are the n(n-1)/2 edges (i, j) with i < j, in the order of `items`. A tour has n of
    them and is returned from city 0 on, towards the lower one of the two beside it. For costs, pass
    their negative.

    It is a heuristic: Lin-Kernighan chains of exchanges, then `kicks` random changes for each city
    (and for 50 more), each followed by more chains and taken back if much is lost; the best of
    `restarts` such searches is returned. Cities in the same place are visited together first. Where
    many edges are not available, it may raise `InfeasibleError` though a tour exists.

    The kicks are drawn from `seed`, so that the same weights always give the same tour. Called with
    a generator `rng`, it draws fresh ones.

    Args:
        n_cities: how many cities, 3 or more.
        kicks: random changes per city.
        restarts: how many searches, of which the best counts.
        seed: what the kicks are drawn from.

    >>> import numpy as np
    >>> from superarm import Tour
    >>> oracle = Tour(5)
    >>> x, y = np.array([[0, 0], [2, 2], [0, 2], [2, 0], [1, 3]]).T
    >>> i, j = oracle.items.T
    >>> A = oracle(-np.hypot(x[i] - x[j], y[i] - y[j]))
    >>> oracle.items[A].tolist()
    [[0, 2], [2, 4], [1, 4], [1, 3], [0, 3]]
    """

    gap = None
    n_cities: int
    kicks: int = field(default=2, kw_only=True)
    restarts: int = field(default=1, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        require_count(
            n_cities=self.n_cities,
            kicks=self.kicks,
            restarts=self.restarts,
        )
        if self.n_cities < 3:
            raise ParameterError(f"a tour needs at least 3 cities, got n_cities={self.n_cities}")
        require_whole(self.seed, "seed")

    @property
    def L(self) -> int:
        """Number of edges."""
        return self.n_cities * (self.n_cities - 1) // 2

    @property
    def K(self) -> int:
        """The number of edges of a tour."""
        return self.n_cities

    @property
    def items(self) -> Array:
        """The two cities of each edge, the lower first, (L, 2)."""
        return np.stack(np.triu_indices(self.n_cities, 1), axis=-1)

    def __call__(self, w: Array, /, *, rng: np.random.Generator | None = None) -> Array:
        """The best tour found for the weights (*B, L): (*B, n_cities); with `rng`, by fresh
        kicks.
        """
        if rng is None:
            return super().__call__(w)
        w = check_weights(w, self.L)
        rows = for_kernels(w.reshape(-1, self.L))
        seeds = rng.integers(2**64, size=len(rows), dtype=np.uint64)
        return self.solve(rows, seeds).reshape(*w.shape[:-1], self.K)

    def solve(self, rows: Array, seeds: Array | None = None) -> Array:
        """The best tour found for each row of weights (n, L): (n, n_cities); seeds are one per
        row.
        """
        if seeds is None:
            sequence = np.random.SeedSequence(self.seed)
            seed = sequence.generate_state(1, np.uint64)
            seeds = np.repeat(seed, len(rows))
        n = self.n_cities
        kicks = self.kicks * (n + SMALL)
        A = np.empty((len(rows), n), np.int64)
        for row in range(len(rows)):
            state = seeds[row : row + 1].copy()
            found = _tour(rows[row], kicks, self.restarts, state, A[row])
            feasible(found, self)
        return A

"""Tours through all cities, by local search.

t1, t2, ...   the cities of a Lin-Kernighan chain, as in their paper (1973): edges t1 t2, t3 t4,
              ... leave the tour, and t2 t3, t4 t5, ... enter it
tour, pos     the cities in their order around the tour, and the place of each city in it
cost, near    cost of the edge between two cities (n, n); for each city its nearest ones, nearest
              first (n, NEAR)
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.arrays.normals import next_bits
from superarm.checks import check_weights, require_count
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, feasible, require_whole

NEAR = 7  # cities considered as the next one of a chain
DEPTH = 6  # edges exchanged by a chain, at most
REACH = 30  # cities in each of the two segments that a kick swaps, at most
HEAT = 0.05  # of the first kicks, in mean edges of the tour they change
PATIENCE = 10  # times the starts, while every tour found uses an edge that is not available


class _Path(NamedTuple):
    """A tour through all n cities."""

    tour: Array  # (n,) the cities in their order
    pos: Array  # (n,) the place of each city


class _Map(NamedTuple):
    """What edges cost."""

    cost: Array  # (n, n)
    near: Array  # (n, NEAR) the nearest cities of each


class _Queue(NamedTuple):
    """Cities from which a chain may start."""

    stack: Array  # (n,)
    waiting: Array  # (n,) whether each city is on the stack


@compiled
def _draw(state: Array, n: int) -> int:
    """A whole number below n, from the stream of bits that goes on from `state`."""
    state[0], bits = next_bits(state[0])
    return int(np.int64(bits >> np.uint64(2)) % n)


@compiled
def _beside(a: int, ahead: bool, path: _Path) -> int:
    """The city after a, or before it."""
    tour, pos = path
    place = pos[a] - 1
    if ahead:
        place += 2 - len(tour)  # below 0 it counts from the end
    city: int = tour[place]
    return city


@compiled
def _exchange(a: int, b: int, c: int, path: _Path) -> None:
    """Replace the edges ab and cd by ac and bd, where b follows a as d follows c, on either way
    around.
    """
    tour, pos = path
    n = len(tour)
    i = pos[b]
    j = pos[c]
    if _beside(a, True, path) != b:
        i, j = j, i
    length = (j - i) % n + 1
    if 2 * length > n:  # the rest of the tour, reversed, makes the same tour
        last = (i - 1) % n
        i = (j + 1) % n
        j = last
        length = n - length
    for _ in range(length // 2):
        tour[i], tour[j] = tour[j], tour[i]
        pos[tour[i]] = i
        pos[tour[j]] = j
        i = i + 1 if i + 1 < n else 0
        j = j - 1 if j > 0 else n - 1


@compiled
def _chain(t1: int, ahead: bool, path: _Path, atlas: _Map, ends: Array) -> tuple[float, int]:
    """One Lin-Kernighan chain, cut where it gains most: the gain and the number m of exchanges,
    with cities ends[:m].

    Each exchange makes a tour t1 t4 ... t2 t3 of t1 t2 ... t4 t3; then t4 takes the part of t2.
    """
    cost, near = atlas
    t2 = _beside(t1, ahead, path)
    gain = removed = cost[t1, t2]  # the gain is that of the path left without the edge t1 t2
    best = 0.0
    kept = m = 0
    while m < len(ends):
        ahead = _beside(t1, True, path) == t2
        step = -np.inf
        t3 = t4 = -1
        for y in near[t2]:
            if cost[t2, y] >= gain:
                break
            z = _beside(y, not ahead, path)
            fresh = y != t1 and z != t2
            for k in range(m):  # an edge that has just entered may not leave
                a = ends[k, 0]
                b = ends[k, 1]
                fresh &= (y != a or z != b) and (z != a or y != b)
            longer = cost[z, y] - cost[t2, y]
            if fresh and longer > step:
                step = longer
                t3 = y
                t4 = z
        if t3 < 0:
            break

        _exchange(t1, t2, t4, path)
        ends[m] = (t2, t3, t4)
        m += 1
        gain += step
        removed += cost[t3, t4]
        t2 = t4
        closed = gain - cost[t1, t2]
        # more than rounding, or the search might go in circles
        if closed > best + 1e-13 * removed:
            best = closed
            kept = m

    for k in range(m - 1, kept - 1, -1):
        _exchange(t1, ends[k, 2], ends[k, 0], path)
    return best, kept


@compiled
def _push(city: int, queue: _Queue, size: int) -> int:
    """Let a city wait unless it does already; returns how many wait."""
    if not queue.waiting[city]:
        queue.waiting[city] = True
        queue.stack[size] = city
        size += 1
    return size


@compiled
def _descend(queue: _Queue, size: int, path: _Path, atlas: _Map) -> float:
    """Improve the tour by chains that start at the waiting cities and at those of every
    improvement; returns what is gained.
    """
    total = 0.0
    ends: Array = np.empty((DEPTH, 3), np.int64)
    while size:
        size -= 1
        t1 = queue.stack[size]
        queue.waiting[t1] = False
        for ahead in (True, False):
            gain, m = _chain(t1, ahead, path, atlas, ends)
            if m:
                total += gain
                size = _push(t1, queue, size)
                for city in ends[:m].ravel():
                    size = _push(city, queue, size)
    return total


@compiled
def _kick(state: Array, queue: _Queue, path: _Path, cost: Array) -> tuple[float, int]:
    """Swap two random neighbouring segments and let their ends wait; returns what it costs, and how
    many wait.

    a [b ... c] [d ... e] f becomes a [d ... e] [b ... c] f.
    """
    tour = path.tour
    n = len(tour)
    reach = min(REACH, (n - 2) // 2)
    i = _draw(state, n)
    j = i + 1 + _draw(state, reach)
    k = j + 1 + _draw(state, reach)
    a = tour[i]
    b = tour[(i + 1) % n]
    c = tour[j % n]
    d = tour[(j + 1) % n]
    e = tour[k % n]
    f = tour[(k + 1) % n]
    _exchange(a, b, e, path)
    _exchange(a, e, d, path)
    _exchange(e, c, b, path)
    size = 0
    for city in (a, b, c, d, e, f):
        size = _push(city, queue, size)
    paid = cost[a, d] + cost[e, b] + cost[c, f] - cost[a, b] - cost[c, d] - cost[e, f]
    return paid, size


@compiled
def _local_search(state: Array, kicks: int, atlas: _Map) -> tuple[float, Array]:
    """The length of the best tour reached from a random one, and that tour (n,).

    A kick that lost x stays with probability exp(-x / heat), with a heat that falls to 0.
    """
    cost = atlas.cost
    n = len(cost)
    tour = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = _draw(state, i + 1)
        tour[i], tour[j] = tour[j], tour[i]

    pos = np.empty(n, np.int64)
    for i in range(n):
        pos[tour[i]] = i
    path = _Path(tour, pos)
    queue = _Queue(tour.copy(), np.ones(n, np.bool_))
    _descend(queue, n, path, atlas)
    last_tour = tour.copy()
    last_pos = pos.copy()
    best_tour = tour.copy()

    length = 0.0
    for i in range(n):
        length += cost[tour[i - 1], tour[i]]

    gained = most = 0.0
    for k in range(kicks if n > 3 else 0):
        paid, size = _kick(state, queue, path, cost)
        gain = _descend(queue, size, path, atlas) - paid

        # taken back if the loss is unlikely at this heat
        heat = HEAT * length / n * (1 - k / kicks)
        u = (1 + _draw(state, 2**30)) / 2**30
        if gain < heat * np.log(u):
            tour[:] = last_tour
            pos[:] = last_pos
            continue

        last_tour[:] = tour
        last_pos[:] = pos
        gained += gain
        if gained > most:
            most = gained
            best_tour[:] = tour
    return length - most, best_tour


@compiled
def _costs(w: Array, n: int) -> Array:
    """Costs (n, n) for the weights (L,): in [0, 2] where available, and else more than any tour
    that is.
    """
    available = w > -np.inf
    sizes = np.abs(np.where(available, w, 0.0))
    scale = max(5e-324, sizes.max())
    paid = np.where(available, w.max() / scale - w / scale, 2.0 * n + 1.0)
    cost = np.zeros((n, n))
    e = 0
    for i in range(n):
        for j in range(i + 1, n):
            cost[i, j] = paid[e]
            cost[j, i] = paid[e]
            e += 1
    return cost


@compiled
def _nearest(cost: Array) -> Array:
    """The NEAR nearest cities of each, nearest first; ties go to the lowest index."""
    n = len(cost)
    K = min(NEAR, n - 1)
    near = np.empty((n, K), np.int64)
    for a in range(n):
        order = np.argsort(cost[a], kind="mergesort")
        near[a] = order[order != a][:K]
    return near


@compiled
def _tours(w: Array, n: int, kicks: int, restarts: int, seeds: Array) -> tuple[Array, bool]:
    """For each row of w (rows, L): the edges of the best tour found; and whether all of them are
    available.
    """
    A = np.empty((len(w), n), np.int64)
    for row in range(len(w)):
        cost = _costs(w[row], n)
        near = _nearest(cost)
        for a in range(n):
            if cost[a, near[a, 1]] > 2 * n:
                return A, False
        state = seeds[row : row + 1].copy()
        best = np.inf
        tour = near[0]
        for start in range(PATIENCE * restarts):
            if start >= restarts and best <= 2 * n:
                break
            total, found = _local_search(state, kicks, _Map(cost, near))
            if total < best:
                best = total
                tour = found
        if best > 2 * n:
            return A, False
        origin = np.argmin(tour)
        for k in range(n):
            a = tour[(origin + k) % n]
            b = tour[(origin + k + 1) % n]
            i = min(a, b)
            j = max(a, b)
            A[row, k] = i * (2 * n - i - 1) // 2 + j - i - 1
    return A, True


@dataclass(frozen=True)
class Tour(BaseOracle):
    """Tours that visit each of n cities once and return: the travelling salesman's problem, with
    the most weight.

    The items are the n(n-1)/2 edges (i, j) with i < j, in the order of `items`. A tour has n of
    them and is returned from city 0 on. For costs, pass their negative.

    It is a heuristic: Lin-Kernighan chains of exchanges from a random tour, then `kicks` random
    changes per city, each followed by more chains and taken back if much is lost; the best of
    `restarts` such searches is returned. Where many edges are not available, it may raise
    `InfeasibleError` though a tour exists.

    The kicks are drawn from `seed`, so that the same weights always give the same tour. Called with
    a generator `rng`, it draws fresh ones.

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
    kicks: int = field(default=15, kw_only=True)
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
        """The two cities of each edge, the lower first: (L, 2)."""
        return np.stack(np.triu_indices(self.n_cities, 1), axis=-1)

    def __call__(self, w: Array, /, *, rng: np.random.Generator | None = None) -> Array:
        """The best tour found for the weights (*B, L): (*B, n_cities); with `rng`, by fresh
        kicks.
        """
        if rng is None:
            return super().__call__(w)
        w = check_weights(w, self.L)
        rows = np.ascontiguousarray(w.reshape(-1, self.L))
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
        A, found = _tours(
            rows,
            self.n_cities,
            self.kicks * self.n_cities,
            self.restarts,
            seeds,
        )
        feasible(found, self)
        return A

"""Short tours through all cities, by Lin-Kernighan chains and random kicks.

A tour is cut between two neighbouring cities, t1 and t2, into a path from t2 to t1. A chain takes
more edges out and puts others in, so that a path to t1 remains, until an edge from its new first
city to t1 closes it to a shorter tour. The tour itself stays as it is until then: a chain is a list
of parts of the path, which shows how they would follow each other.

t1, t2, ...   the cities of a chain, as in the paper of Lin and Kernighan (1973): edges t1 t2,
              t3 t4, ... leave the tour, and t2 t3, t4 t5, ... enter it
r3, r4, ...   their ranks: how many steps they are from t2 on the path as it was cut, where t1 has
              rank n-1
parts         (m, 2): ranks of the first and the last city of each part, in their new order
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.arrays.random import GOLDEN, mix

# Numba counts the references to all arrays of a kernel in each call of it, which takes longer than
# most chains, unless its loops have no `break` and call no kernel with a loop of its own. So
# `_first_edges`, the one that is called most, is one kernel.

PARTS = 9  # of a chain, at most
FAR = 100  # cities in each of the three parts that the first kicks exchange, at most
CLOSE = 5  # in those of the last ones: long parts take long to mend, and leave less to gain
HEAT = 0.05  # of the first kicks, in mean edges of the tour they change


class Path(NamedTuple):
    """A tour through all n cities."""

    tour: Array  # (n,) the cities in their order
    pos: Array  # (n,) the place of each city


class Map(NamedTuple):
    """What edges cost."""

    cost: Array  # (n, n)
    near: Array  # (n, K) for each city, those that an edge may lead to, nearest first
    tiny: float  # gains up to this are rounding


class Cut(NamedTuple):
    """Where a tour is cut into a path."""

    first: int  # the place of t2
    ahead: int  # 1 if t1 is the city before t2 in the tour, -1 if it is the one after


class Queue(NamedTuple):
    """Cities from which a chain may start."""

    stack: Array  # (n + 1,) one place is spare
    waiting: Array  # (n,) whether each city is on the stack


@compiled
def _draw(state: Array, n: int) -> int:
    """A whole number below n, from the next 64 bits of SplitMix64."""
    bits = mix(state[0])
    state[0] += np.uint64(GOLDEN)
    return int(np.int64(bits >> np.uint64(2)) % n)


@compiled
def _rank(city: int, cut: Cut, path: Path) -> int:
    """How far a city is along the path."""
    n = len(path.pos)
    rank: int = (path.pos[city] - cut.first) * cut.ahead
    if rank < 0:
        rank += n
    return rank


@compiled
def _city(rank: int, cut: Cut, path: Path) -> int:
    """The city of a rank."""
    n = len(path.tour)
    place = cut.first + cut.ahead * rank
    if place < 0:
        place += n
    elif place >= n:
        place -= n
    city: int = path.tour[place]
    return city


@compiled
def _note(side: int, r3: int, turn: int, r5: int, move: Array) -> None:
    """Write an exchange down: t4 is beside t3 and t6 beside t5, before (-1) or after (1); a turn of
    0 stands for two edges only.
    """
    move[0] = side
    move[1] = r3
    move[2] = turn
    move[3] = r5


@compiled
def _leaves_a_path(side: int, turn: int, r3: int, r5: int, n: int) -> bool:
    """Whether a path to t1 remains after an exchange of three edges."""
    if side > 0:
        return r5 < r3 and r5 + turn >= 0
    if r5 > r3:
        return turn < 0 and r5 < n - 1
    return turn > 0 and r5 < r3 - 2


@compiled
def _first_edges(t1: int, cut: Cut, path: Path, atlas: Map, move: Array) -> float:
    """The first exchange of two or three edges that makes a shorter tour, or else that of three
    which gains most: into `move`, with side 0 if there is none. Returns its gain.

    The gain is that of the path, without the edge from t4 or t6 to t1 that would close it.
    """
    cost = atlas.cost
    near = atlas.near
    n, K = near.shape
    t2 = _city(0, cut, path)
    before = cost[t1, t2]
    best = -np.inf
    closes = False
    _note(0, 0, 0, 0, move)
    i = 0
    while i < K and cost[t2, near[t2, i]] < before and not closes:
        t3 = near[t2, i]
        i += 1
        r3 = _rank(t3, cut, path)
        if r3 == 1 or r3 == n - 1:
            continue
        for side in (-1, 1):
            t4 = _city(r3 + side, cut, path)
            gain = before - cost[t2, t3] + cost[t3, t4]
            if side < 0 and gain - cost[t4, t1] > atlas.tiny:
                best = gain
                closes = True
                _note(side, r3, 0, 0, move)
            j = 0
            while j < K and cost[t4, near[t4, j]] < gain and not closes:
                t5 = near[t4, j]
                j += 1
                r5 = _rank(t5, cut, path)
                for turn in (-1, 1):
                    if closes or not _leaves_a_path(side, turn, r3, r5, n):
                        continue
                    t6 = _city(r5 + turn, cut, path)
                    opened = gain - cost[t4, t5] + cost[t5, t6]
                    closes = opened - cost[t6, t1] > atlas.tiny
                    if closes or opened > best:
                        best = opened
                        _note(side, r3, turn, r5, move)
    return best


@compiled
def _parts_of(move: Array, n: int, parts: Array) -> int:
    """The parts of the path that an exchange of two or three edges makes; returns how many, 0 if
    there is none.
    """
    side = move[0]
    r3 = move[1]
    turn = move[2]
    r5 = move[3]
    r4 = r3 + side
    r6 = r5 + turn
    if not side:
        return 0
    if not turn:
        parts[0, 0] = r4
        parts[0, 1] = 0
        parts[1, 0] = r3
        parts[1, 1] = n - 1
        return 2

    if side < 0 and turn < 0:
        middle = (r3, 0, r4, r5)
    elif side < 0:
        middle = (r4, r5, 0, r3)
    elif turn < 0:
        middle = (0, r3, r5, r4)
    else:
        middle = (r3, 0, r5, r4)
    parts[0, 0] = r6
    parts[0, 1] = middle[0]
    parts[1, 0] = middle[1]
    parts[1, 1] = middle[2]
    parts[2, 0] = middle[3]
    parts[2, 1] = n - 1
    return 3


@compiled
def _part(rank: int, parts: Array) -> int:
    """Which part the city of a rank is in."""
    k = 0
    while (rank - parts[k, 0]) * (rank - parts[k, 1]) > 0:
        k += 1
    return k


@compiled
def _split(k: int, before: int, rank: int, m: int, parts: Array) -> None:
    """Cut part k between two neighbouring ranks, and turn all around that is before the cut."""
    for i in range(m, k, -1):
        parts[i, 0] = parts[i - 1, 0]
        parts[i, 1] = parts[i - 1, 1]
    parts[k, 1] = before
    parts[k + 1, 0] = rank
    i = 0
    while i <= k:
        start = parts[i, 0]
        end = parts[i, 1]
        parts[i, 0] = parts[k, 1]
        parts[i, 1] = parts[k, 0]
        parts[k, 0] = end
        parts[k, 1] = start
        i += 1
        k -= 1


@compiled
def _next_edge(gain: float, m: int, cut: Cut, path: Path, atlas: Map, parts: Array) -> float:
    """Exchange one more edge of the path, that which gains most; returns the gain of the path then,
    which is negative if no edge can be exchanged.
    """
    cost = atlas.cost
    near = atlas.near
    n = len(cost)
    front = parts[0, 0]
    city = _city(front, cut, path)
    best = -np.inf
    chosen = 0
    into = 0
    k = 0
    while k < near.shape[1] and cost[city, near[city, k]] < gain:
        other = near[city, k]
        k += 1
        rank = _rank(other, cut, path)
        part = _part(rank, parts)
        # an edge between two parts has just entered and may not leave
        if rank == parts[part, 0] or rank == n - 1:
            continue
        before = rank - 1
        if parts[part, 0] > rank:
            before = rank + 1
        longer = cost[other, _city(before, cut, path)] - cost[city, other]
        if before != front and longer > best:
            best = longer
            chosen = rank
            into = part
    # with no edge to exchange this spoils the parts of a chain that is given up
    before = chosen - 1
    if parts[into, 0] > chosen:
        before = chosen + 1
    _split(into, before, chosen, m, parts)
    return gain + best


@compiled
def _push(city: int, queue: Queue, size: int) -> int:
    """Let a city wait unless it does already; returns how many wait."""
    queue.stack[size] = city
    size += not queue.waiting[city]
    queue.waiting[city] = True
    return size


@compiled
def _rearrange(
    parts: Array, m: int, cut: Cut, path: Path, queue: Queue, size: int, spare: Array
) -> int:
    """Let the parts follow each other in their new order, and their ends wait; returns how many
    wait. The longest part stays where it is.
    """
    for k in range(m):
        size = _push(_city(parts[k, 0], cut, path), queue, size)
        size = _push(_city(parts[k, 1], cut, path), queue, size)

    n = len(path.tour)
    stays = 0
    for k in range(m):
        if abs(parts[k, 1] - parts[k, 0]) > abs(parts[stays, 1] - parts[stays, 0]):
            stays = k
    onward = 1
    if parts[stays, 1] < parts[stays, 0]:
        onward = -1

    moved = 0
    for i in range(1, m):
        k = (stays + onward * i) % m
        start = parts[k, 0]
        end = parts[k, 1]
        if onward < 0:
            start, end = end, start
        step = 1
        if end < start:
            step = -1
        for rank in range(start, end + step, step):
            spare[moved] = _city(rank, cut, path)
            moved += 1

    end = max(parts[stays, 0], parts[stays, 1])
    place: int = path.pos[_city(end, cut, path)]
    for i in range(moved):
        place += cut.ahead
        if place == n:
            place = 0
        elif place < 0:
            place = n - 1
        path.tour[place] = spare[i]
        path.pos[spare[i]] = place
    return size


@compiled
def _descend(
    queue: Queue, size: int, path: Path, atlas: Map, move: Array, parts: Array, spare: Array
) -> float:
    """Improve the tour by chains that start at the waiting cities and at the ends of what they
    rearrange; returns what is gained.
    """
    cost = atlas.cost
    n = len(cost)
    total = 0.0
    while size:
        size -= 1
        t1 = queue.stack[size]
        queue.waiting[t1] = False
        for ahead in (1, -1):
            cut = Cut((path.pos[t1] + ahead) % n, ahead)
            gain = _first_edges(t1, cut, path, atlas, move)
            m = _parts_of(move, n, parts)
            closed = gain - cost[_city(parts[0, 0], cut, path), t1]
            while closed <= atlas.tiny and m < len(parts) and gain > 0.0:
                gain = _next_edge(gain, m, cut, path, atlas, parts)
                m += 1
                closed = gain - cost[_city(parts[0, 0], cut, path), t1]
            if closed > atlas.tiny:
                total += closed
                size = _rearrange(parts, m, cut, path, queue, size, spare)
    return total


@compiled
def _kick(state: Array, n: int, reach: int, parts: Array) -> Cut:
    """Three random parts that follow each other, in the other order: the double bridge of Martin,
    Otto and Felten (1991), which no chain makes. Each has at most `reach` cities.
    """
    reach = min(reach, (n - 1) // 3)
    first = _draw(state, n)
    a = 1 + _draw(state, reach)
    b = a + 1 + _draw(state, reach)
    c = b + 1 + _draw(state, reach)
    parts[0, 0] = b
    parts[0, 1] = c - 1
    parts[1, 0] = a
    parts[1, 1] = b - 1
    parts[2, 0] = 0
    parts[2, 1] = a - 1
    parts[3, 0] = c
    parts[3, 1] = n - 1
    return Cut(first, 1)


@compiled
def _longer(parts: Array, m: int, cut: Cut, path: Path, cost: Array) -> float:
    """How much longer the tour becomes if the parts follow each other in their new order."""
    n = len(cost)
    total = 0.0
    for k in range(m):
        start = parts[k, 0]
        end = parts[(k - 1) % m, 1]
        low = min(start, parts[k, 1])
        enters = cost[_city(end, cut, path), _city(start, cut, path)]
        leaves = cost[_city((low - 1) % n, cut, path), _city(low, cut, path)]
        total += enters - leaves
    return total


@compiled
def _copy(source: Path, target: Path) -> None:
    """Make one tour the same as another."""
    for i in range(len(source.tour)):
        target.tour[i] = source.tour[i]
        target.pos[i] = source.pos[i]


@compiled
def local_search(start: Array, state: Array, kicks: int, atlas: Map) -> tuple[float, Array]:
    """The length of the best tour found from a start (n,) and random bits, and that tour (n,).

    A kick that lost x stays with probability exp(-x / heat), with a heat that falls to 0.
    """
    cost = atlas.cost
    n = len(cost)
    tour = start.copy()
    pos = np.empty(n, np.int32)
    stack = np.zeros(n + 1, np.int32)
    for i in range(n):
        pos[tour[i]] = i
        stack[i] = tour[i]
    path = Path(tour, pos)
    queue = Queue(stack, np.ones(n, np.bool_))
    move = np.zeros(4, np.int64)
    parts = np.zeros((PARTS, 2), np.int64)
    spare = np.empty(n, np.int32)
    _descend(queue, n, path, atlas, move, parts, spare)
    last = Path(tour.copy(), pos.copy())
    best = Path(tour.copy(), pos.copy())

    length = 0.0
    for i in range(n):
        length += cost[tour[i - 1], tour[i]]

    gained = 0.0
    most = 0.0
    for k in range(kicks if n > 4 else 0):
        left = 1 - k / kicks
        cut = _kick(state, n, CLOSE + int((FAR - CLOSE) * left), parts)
        paid = _longer(parts, 4, cut, path, cost)
        size = _rearrange(parts, 4, cut, path, queue, 0, spare)
        gain = _descend(queue, size, path, atlas, move, parts, spare) - paid

        # taken back if the loss is unlikely at this heat
        heat = HEAT * length / n * left
        u = (1 + _draw(state, 2**30)) / 2**30
        if gain < heat * np.log(u):
            _copy(last, path)
            continue

        _copy(path, last)
        gained += gain
        if gained > most + atlas.tiny:
            most = gained
            _copy(path, best)
    return length - most, best.tour

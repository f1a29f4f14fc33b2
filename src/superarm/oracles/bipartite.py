"""Heaviest matchings of a bipartite graph with capacities, compiled.

code        shape    meaning
w           (E,)     weights
both        (E,)     the sum of the two nodes of each edge: less one of them, it is the other
near, far            the side whose nodes ask for edges, and the other side
price       (N,)     what a unit of capacity of each node is worth, 0 or more
load        (N,)     how many edges of each node are chosen
slot        (E,)     the slot of each chosen edge, -1 where it is free
chosen      (S,)     the edge in each slot; those of a far node are side by side

A matching is best if price_i + price_j >= w_k for each free edge k = (i, j) and <= for each chosen
one, and if all nodes with a price are full. These differences are the lengths of arcs: near to far
along free edges, far to near along chosen ones. `_complete` makes the near nodes full from any such
prices, by a shortest path for each unit, and that for both sides is the solution. Where many want
the same, paths get long; there `_bid` finds prices first that are right up to a small number.
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.oracles.heaps import pop, push

ROUNDS = 5
"""Rounds of bids, each a fifth as coarse as the one before."""
PER_ROUND = 40
"""How often the bids of a round may look at all edges: more would be a war of bids."""


class Half(NamedTuple):
    """The nodes of one side: node first + i is its i-th. Nodes are numbered over both sides."""

    first: int
    start: Array  # (n + 1,) the edges of its i-th node are edge[start[i]] to edge[start[i+1]]
    edge: Array  # (E,)
    room: Array  # (n + 1,) the slots of its i-th node are room[i] to room[i+1]: its capacity


class _Matching(NamedTuple):
    """The chosen edges, and the prices that prove them best."""

    price: Array  # (N,)
    load: Array  # (N,)
    slot: Array  # (E,)
    chosen: Array  # (S,)


class _Work(NamedTuple):
    """What the search for a path writes to, and the bids."""

    distance: Array  # (N,) from where the path starts; inf for nodes not reached yet
    via: Array  # (N,) the edge to each node
    reached: Array  # (N,) the nodes in the order they were reached
    length: Array  # (E + 1,) a heap of distances
    node: Array  # (E + 1,) the nodes they belong to


@compiled
def _is_of(half: Half, x: int) -> bool:
    """Whether node x is on this side."""
    return 0 <= x - half.first < len(half.start) - 1


@compiled
def _wants(half: Half, x: int, matching: _Matching) -> bool:
    """Whether node x has a price but is not full."""
    i = x - half.first
    capacity = half.room[i + 1] - half.room[i]
    wants: bool = matching.price[x] > 0.0 and matching.load[x] < capacity
    return wants


@compiled
def _seat(both: Array, near: Half, far: Half, matching: _Matching) -> None:
    """Put the chosen edges into the slots of the far side, and count the loads."""
    load = matching.load
    for x in range(len(load)):
        load[x] = 0
    for i in range(len(near.start) - 1):
        x = near.first + i
        for t in range(near.start[i], near.start[i + 1]):
            k = near.edge[t]
            if matching.slot[k] < 0:
                continue
            y = both[k] - x
            s = far.room[y - far.first] + load[y]
            matching.slot[k] = s
            matching.chosen[s] = k
            load[x] += 1
            load[y] += 1


@compiled
def _search(
    i: int,
    w: Array,
    both: Array,
    near: Half,
    far: Half,
    matching: _Matching,
    work: _Work,
) -> tuple[int, float, int, int]:
    """The shortest path for another unit of near node i: its end, its length, how many nodes were
    reached, and how many edges were looked at.

    It ends at a far node with capacity to spare, or at a near node that gives up a unit, such as i
    itself.
    """
    price, load, slot, chosen = matching
    distance, via, reached, length, node = work
    end = i
    best = price[i]
    distance[i] = 0.0
    reached[0] = i
    n = 1
    size = 0
    looked = 0
    # the nearest of the nodes found since the last pop need not enter the heap
    next_d = 0.0
    next_x = i
    while True:
        if size > 0 and length[0] < next_d:
            d = length[0]
            x = node[0]
            size = pop(length, node, size)
        else:
            d = next_d
            x = next_x
            next_d = np.inf
        if d >= best:
            return end, best, n, looked
        if d > distance[x]:
            continue

        forward = _is_of(near, x)
        if forward:
            lo = near.start[x - near.first]
            hi = near.start[x - near.first + 1]
            if d + price[x] < best:
                end = x
                best = d + price[x]
        else:
            lo = far.room[x - far.first]
            hi = lo + load[x]
        looked += hi - lo
        for at in range(lo, hi):
            k = near.edge[at] if forward else chosen[at]
            y = both[k] - x
            slack = price[x] + price[y] - w[k]
            further = d + max(slack if forward else -slack, 0.0)  # below zero is rounding
            if further >= min(best, distance[y]) or (forward and slot[k] >= 0):
                continue
            if distance[y] == np.inf:
                reached[n] = y
                n += 1
            distance[y] = further
            via[y] = k
            if forward and far.room[y - far.first] + load[y] < far.room[y - far.first + 1]:
                end = y
                best = further
                continue
            if further < next_d:
                next_d, further = further, next_d
                next_x, y = y, next_x
            if further < np.inf:
                size = push(length, node, size, further, y)


@compiled
def _settle(near: Half, matching: _Matching, work: _Work, best: float, n: int) -> None:
    """Change the prices of the n nodes reached so that the path of length `best` costs nothing."""
    distance = work.distance
    for r in range(n):
        x = work.reached[r]
        if distance[x] < best:
            change = best - distance[x]
            matching.price[x] += -change if _is_of(near, x) else change
        distance[x] = np.inf


@compiled
def _augment(
    i: int, end: int, both: Array, near: Half, far: Half, matching: _Matching, via: Array
) -> None:
    """Choose the free edges and free the chosen ones on the path from i to its end."""
    load = matching.load
    slot = matching.slot
    x = end
    s = -1
    is_near = _is_of(near, x)
    load[i] += 1
    if is_near:
        load[x] -= 1
    else:
        s = far.room[x - far.first] + load[x]
        load[x] += 1
    while x != i:
        k = via[x]
        if is_near:
            s = slot[k]
            slot[k] = -1
        else:
            matching.chosen[s] = k
            slot[k] = s
        x = both[k] - x
        is_near = not is_near


@compiled
def _complete(
    w: Array,
    both: Array,
    near: Half,
    far: Half,
    matching: _Matching,
    work: _Work,
    most: float,
) -> bool:
    """Make the near nodes full that have a price, or let their price fall to zero; False if that
    would take looking at many more than so many edges, by what the first ones took.
    """
    looked = 0
    n_near = len(near.start) - 1
    for i in range(n_near):
        x = near.first + i
        while _wants(near, x, matching):
            end, best, n, seen = _search(x, w, both, near, far, matching, work)
            _settle(near, matching, work, best, n)
            _augment(x, end, both, near, far, matching, work.via)
            looked += seen
            if looked > len(w) + most * (i + 1) / n_near:
                return False
    return True


@compiled
def _keep_best(w: Array, both: Array, near: Half, matching: _Matching) -> None:
    """Let the price of each near node be what its best free edge leaves, and free those chosen
    edges that leave less.
    """
    price = matching.price
    slot = matching.slot
    for i in range(len(near.start) - 1):
        x = near.first + i
        best = 0.0
        for t in range(near.start[i], near.start[i + 1]):
            k = near.edge[t]
            if slot[k] < 0:
                best = max(best, w[k] - price[both[k] - x])
        price[x] = best
        for t in range(near.start[i], near.start[i + 1]):
            k = near.edge[t]
            if w[k] - price[both[k] - x] < best:
                slot[k] = -1


@compiled
def _offer(k: int, x: int, w: Array, both: Array, far: Half, matching: _Matching) -> int:
    """Offer edge k of near node x to its far node, which keeps the best and raises its price to
    what the next one leaves. Returns the near node that loses an edge for it, -1 if none does.
    """
    price, load, slot, chosen = matching
    y = both[k] - x
    lo = far.room[y - far.first]
    hi = far.room[y - far.first + 1]
    s = lo + load[y]
    if s < hi:
        load[y] += 1
        load[x] += 1
        slot[k] = s
        chosen[s] = k
        return -1

    worst = -1
    least = w[k] - price[x]
    second = np.inf
    for s in range(lo, hi):
        left = w[chosen[s]] - price[both[chosen[s]] - y]
        if left < least:
            second = least
            least = left
            worst = s
        else:
            second = min(second, left)
    price[y] = max(price[y], second)
    if worst < 0:
        return -1
    loser: int = both[chosen[worst]] - y
    slot[chosen[worst]] = -1
    slot[k] = worst
    chosen[worst] = k
    load[loser] -= 1
    load[x] += 1
    return loser


@compiled
def _bid(
    w: Array,
    both: Array,
    near: Half,
    far: Half,
    matching: _Matching,
    queue: Array,
    step: float,
) -> None:
    """Let the near nodes that want edges bid for them, up to a difference of `step`: who gets none
    lowers its price.
    """
    price = matching.price
    load = matching.load
    slot = matching.slot
    size = len(queue)
    count = 0
    for i in range(len(near.start) - 1):
        if _wants(near, near.first + i, matching):
            queue[count] = near.first + i
            count += 1

    most = PER_ROUND * len(w)
    looked = 0
    head = 0
    while count > 0 and looked < most:
        x = queue[head]
        head = (head + 1) % size
        count -= 1
        i = x - near.first
        while _wants(near, x, matching) and looked < most:
            looked += near.start[i + 1] - near.start[i]
            best = 0.0  # what the best edge that is not bid for leaves
            for t in range(near.start[i], near.start[i + 1]):
                k = near.edge[t]
                left = w[k] - price[both[k] - x]
                if slot[k] >= 0:
                    continue
                if left <= price[x]:
                    best = max(best, left)
                    continue
                loser = _offer(k, x, w, both, far, matching)
                if loser >= 0 and loser != x and load[loser] + 1 == _capacity(near, loser):
                    queue[(head + count) % size] = loser
                    count += 1
                if not _wants(near, x, matching):
                    break
            if _wants(near, x, matching):
                price[x] = max(0.0, best - step)


@compiled
def _capacity(half: Half, x: int) -> int:
    """The capacity of node x."""
    i = x - half.first
    capacity: int = half.room[i + 1] - half.room[i]
    return capacity


@compiled
def _prepare(
    w: Array, both: Array, left: Half, right: Half, matching: _Matching, queue: Array
) -> None:
    """Find prices that are nearly right, in rounds of bids from both sides."""
    step = 0.0
    for k in range(len(w)):
        step = max(step, w[k])
    for _ in range(ROUNDS):
        step *= 0.2
        _keep_best(w, both, left, matching)
        _seat(both, left, right, matching)
        _bid(w, both, left, right, matching, queue, step)
        _seat(both, right, left, matching)
        _bid(w, both, right, left, matching, queue, step)
    _keep_best(w, both, left, matching)
    _seat(both, left, right, matching)


@compiled
def heaviest_matchings(
    W: Array,
    item: Array,
    both: Array,
    left: Half,
    right: Half,
    K: int,
    patience: int,
) -> Array:
    """The items of a heaviest matching for each row of W (n, L), ascending, -1 pads.

    Edge k is item[k]. Bids prepare the paths where these would look at all edges more often than
    `patience` says.
    """
    E = len(item)
    N = right.first + len(right.start) - 1
    A = np.full((len(W), K), -1)
    w = np.empty(E)
    is_chosen = np.zeros(W.shape[1], np.bool_)
    price = np.empty(N)
    nodes = np.empty((4, N), np.int64)
    slot = np.empty(E, np.int64)
    chosen = np.empty(max(left.room[-1], right.room[-1]), np.int64)
    heap = np.empty(E + 1, np.int64)
    matching = _Matching(price, nodes[0], slot, chosen)
    work = _Work(np.full(N, np.inf), nodes[1], nodes[2], np.empty(E + 1), heap)
    for b in range(len(W)):
        for k in range(E):
            w[k] = W[b, item[k]]
            slot[k] = -1
        for x in range(N):
            price[x] = 0.0

        _keep_best(w, both, left, matching)
        _seat(both, left, right, matching)
        if not _complete(w, both, left, right, matching, work, 1.0 * patience * E):
            _prepare(w, both, left, right, matching, nodes[3])
            _complete(w, both, left, right, matching, work, np.inf)
            _seat(both, right, left, matching)
            _complete(w, both, right, left, matching, work, np.inf)

        for k in range(E):
            is_chosen[item[k]] = slot[k] >= 0
        size = 0
        for e in range(W.shape[1]):
            if is_chosen[e]:
                A[b, size] = e
                size += 1
    return A

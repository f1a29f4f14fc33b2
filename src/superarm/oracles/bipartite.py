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
the same, paths get long; there bids find prices first that are right up to a small number.
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.oracles.bids import Half, Matching, keep_best, prepare, seat, wants
from superarm.oracles.heaps import pop, push


class _Work(NamedTuple):
    """What the search for a path writes to."""

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
def _search(
    i: int,
    w: Array,
    both: Array,
    near: Half,
    far: Half,
    matching: Matching,
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
def _settle(near: Half, matching: Matching, work: _Work, best: float, n: int) -> None:
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
    i: int, end: int, both: Array, near: Half, far: Half, matching: Matching, via: Array
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
    matching: Matching,
    work: _Work,
    most: float,
) -> bool:
    """Make the near nodes full that have a price, or let their price fall to zero; False if that
    would take looking at many more than so many edges, by what the first ones took: the paths of a
    share f of them take f^3 of all at most.
    """
    looked = 0
    n_near = len(near.start) - 1
    for i in range(n_near):
        x = near.first + i
        while wants(near, x, matching):
            end, best, n, seen = _search(x, w, both, near, far, matching, work)
            _settle(near, matching, work, best, n)
            _augment(x, end, both, near, far, matching, work.via)
            looked += seen
            if looked > len(w) + most * ((i + 1) / n_near) ** 3:
                return False
    return True


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
    right_worth = np.empty(E)
    is_chosen = np.zeros(W.shape[1], np.bool_)
    price = np.empty(N)
    nodes = np.empty((4, N), np.int64)
    slot = np.empty(E, np.int64)
    chosen = np.empty(max(left.room[-1], right.room[-1]), np.int64)
    heap = np.empty(E + 1, np.int64)
    matching = Matching(price, nodes[0], slot, chosen)
    work = _Work(np.full(N, np.inf), nodes[1], nodes[2], np.empty(E + 1), heap)
    for b in range(len(W)):
        for k in range(E):
            w[k] = W[b, item[k]]
            slot[k] = -1
        for x in range(N):
            price[x] = 0.0

        keep_best(w, left, matching)
        seat(left, right, matching)
        if not _complete(w, both, left, right, matching, work, 1.0 * patience * E):
            for t in range(E):
                right_worth[t] = w[right.edge[t]]
            prepare(w, right_worth, both, left, right, matching, nodes[3])
            keep_best(right_worth, right, matching)
            seat(right, left, matching)
            _complete(w, both, right, left, matching, work, np.inf)
            seat(left, right, matching)
            _complete(w, both, left, right, matching, work, np.inf)

        for k in range(E):
            is_chosen[item[k]] = slot[k] >= 0
        size = 0
        for e in range(W.shape[1]):
            if is_chosen[e]:
                A[b, size] = e
                size += 1
    return A

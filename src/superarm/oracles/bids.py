"""Prices of matchings by bids, right up to a small number, compiled.

code        shape    meaning
w           (E,)     weights
both        (E,)     the sum of the two nodes of each edge: less one of them, it is the other
near, far            the side whose nodes ask for edges, and the other side
worth       (E,)     weights, in the order of the near side
price       (N,)     what a unit of capacity of each node is worth, 0 or more
load        (N,)     how many edges of each node are chosen
slot        (E,)     the slot of each chosen edge, -1 where it is free
chosen      (S,)     the edge in each slot; those of a far node are side by side

An edge leaves its weight less the price of one of its nodes to the other one. A near node that
wants edges lowers its price below what the best free one leaves, and offers it; a full far node
takes the offer if one of its edges leaves less, and gives that one up. So its slots are a heap
while bids last.
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled

# Numba counts the references to all arrays of a kernel in each call of it, which takes longer than
# an offer, unless its loops have no `break`. So `_bid` is one kernel.

ROUNDS = 5
"""Rounds of bids, each a fifth as coarse as the one before."""
PER_ROUND = 6
"""How often the bids of a round may look at all edges, at least: more would be a war of bids."""
RIVALS = 4
"""Edges of a node for each look more, where nodes have many: they are outbid as often."""


class Half(NamedTuple):
    """The nodes of one side: node first + i is its i-th. Nodes are numbered over both sides."""

    first: int
    start: Array  # (n + 1,) the edges of its i-th node are edge[start[i]] to edge[start[i+1]]
    edge: Array  # (E,)
    other: Array  # (E,) the node of the other side, of each of these edges
    room: Array  # (n + 1,) the slots of its i-th node are room[i] to room[i+1]: its capacity


class Matching(NamedTuple):
    """The chosen edges, and the prices that prove them best."""

    price: Array  # (N,)
    load: Array  # (N,)
    slot: Array  # (E,)
    chosen: Array  # (S,)


@compiled
def capacity(half: Half, x: int) -> int:
    """The capacity of node x."""
    i = x - half.first
    units: int = half.room[i + 1] - half.room[i]
    return units


@compiled
def wants(half: Half, x: int, matching: Matching) -> bool:
    """Whether node x has a price but is not full."""
    does: bool = (matching.price[x] > 0.0) & (matching.load[x] < capacity(half, x))
    return does


@compiled
def seat(near: Half, far: Half, matching: Matching) -> None:
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
            y = near.other[t]
            s = far.room[y - far.first] + load[y]
            matching.slot[k] = s
            matching.chosen[s] = k
            load[x] += 1
            load[y] += 1


@compiled
def keep_best(worth: Array, near: Half, matching: Matching) -> None:
    """Let the price of each near node be what its best free edge leaves, and free those chosen
    edges that leave less.
    """
    price = matching.price
    slot = matching.slot
    for i in range(len(near.start) - 1):
        x = near.first + i
        best = 0.0
        for t in range(near.start[i], near.start[i + 1]):
            left = worth[t] - price[near.other[t]]
            if left > best and slot[near.edge[t]] < 0:
                best = left
        price[x] = best
        for t in range(near.start[i], near.start[i + 1]):
            if worth[t] - price[near.other[t]] < best:
                slot[near.edge[t]] = -1


@compiled
def _sink(lo: int, hi: int, left: float, k: int, bid: Array, chosen: Array) -> None:
    """Put edge k, which leaves so much, in the place of the least one of the heap in slots lo to
    hi.
    """
    at = lo
    child = lo + 1
    while child < hi:
        if child + 1 < hi:
            child += bid[child + 1] < bid[child]
        if bid[child] >= left:
            child = hi
            continue
        bid[at] = bid[child]
        chosen[at] = chosen[child]
        at = child
        child = 2 * at - lo + 1
    bid[at] = left
    chosen[at] = k


@compiled
def _open(worth: Array, near: Half, far: Half, matching: Matching, bid: Array) -> None:
    """Put the chosen edges into the heaps of the far side, by what they leave, and count the loads.
    The slots that stay empty come first.
    """
    price, load, slot, chosen = matching
    for x in range(len(load)):
        load[x] = 0
    for s in range(len(bid)):
        bid[s] = -np.inf
        chosen[s] = -1
    for i in range(len(near.start) - 1):
        x = near.first + i
        for t in range(near.start[i], near.start[i + 1]):
            k = near.edge[t]
            if slot[k] >= 0:
                y = near.other[t]
                j = y - far.first
                _sink(far.room[j], far.room[j + 1], worth[t] - price[x], k, bid, chosen)
                load[x] += 1
                load[y] += 1


@compiled
def _offer(k: int, x: int, w: Array, both: Array, far: Half, matching: Matching, bid: Array) -> int:
    """Offer edge k of near node x to its far node, which keeps the best, with a price of what the
    least of them leaves if it is full. Returns the near node that loses an edge for it, or -1.
    """
    price, load, slot, chosen = matching
    y = both[k] - x
    lo = far.room[y - far.first]
    hi = far.room[y - far.first + 1]
    left = w[k] - price[x]
    worst = chosen[lo]
    loser = -1
    if worst < 0:
        load[y] += 1
    else:
        # edges leave more when their near node has lowered its price since
        least = w[worst] - price[both[worst] - y]
        while least > bid[lo]:
            _sink(lo, hi, least, worst, bid, chosen)
            worst = chosen[lo]
            least = w[worst] - price[both[worst] - y]
        if left <= least:
            price[y] = max(price[y], least)
            return -1
        loser = both[worst] - y
        load[loser] -= 1
        slot[worst] = -1
    load[x] += 1
    slot[k] = lo
    _sink(lo, hi, left, k, bid, chosen)
    price[y] = max(price[y], bid[lo])
    return loser


@compiled
def _bid(
    w: Array,
    worth: Array,
    both: Array,
    near: Half,
    far: Half,
    matching: Matching,
    queue: Array,
    bid: Array,
    step: float,
    most: int,
) -> None:
    """Let the near nodes that want edges bid for them, up to a difference of `step`: who gets none
    lowers its price. It ends early when `most` edges were looked at.
    """
    price, load, slot, _ = matching
    _open(worth, near, far, matching, bid)
    count = 0
    for x in range(near.first, near.first + len(near.start) - 1):
        if wants(near, x, matching):
            queue[count] = x
            count += 1
    looked = 0
    head = 0
    while count > 0 and looked < most:
        x = queue[head]
        head += 1
        if head == len(queue):
            head = 0
        count -= 1
        units = capacity(near, x)
        while price[x] > 0.0 and load[x] < units and looked < most:
            t = near.start[x - near.first]
            end = near.start[x - near.first + 1]
            looked += end - t
            best = 0.0  # what the best edge leaves that stays free
            while t < end and load[x] < units:
                k = near.edge[t]
                left = worth[t] - price[near.other[t]]
                if left >= price[x] and slot[k] < 0:
                    loser = _offer(k, x, w, both, far, matching, bid)
                    left = worth[t] - price[near.other[t]]
                    if loser >= 0 and load[loser] + 1 == capacity(near, loser) and loser != x:
                        queue[(head + count) % len(queue)] = loser
                        count += 1
                if left > best and slot[k] < 0:
                    best = left
                t += 1
            if load[x] < units:
                price[x] = max(0.0, best - step)


@compiled
def prepare(
    w: Array,
    right_worth: Array,
    both: Array,
    left: Half,
    right: Half,
    matching: Matching,
    queue: Array,
) -> None:
    """Find prices that are nearly right, in rounds of bids from both sides. Edges are in the order
    of the left side.
    """
    bid = np.empty(len(matching.chosen))
    nodes = max(len(left.start), len(right.start)) - 1
    most = len(w) * max(PER_ROUND, len(w) // (RIVALS * nodes))
    step = 0.0
    for k in range(len(w)):
        step = max(step, w[k])
    for _ in range(ROUNDS):
        step *= 0.2
        keep_best(w, left, matching)
        _bid(w, w, both, left, right, matching, queue, bid, step, most)
        _bid(w, right_worth, both, right, left, matching, queue, bid, step, most)

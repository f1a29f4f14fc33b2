"""Matchings: of a dense matrix, and over an edge list with capacities.

code        shape    meaning, in the compiled part
w           (n, E)   weights, one row a problem
price       (N,)     what a unit of capacity of each node is worth, left nodes first; zero where one is to spare
chosen      (S,)     the chosen edges, side by side for each right node, in the slots that are its capacity
slot        (E,)     the slot of each edge, -1 where it is free
fill        (J,)     the next slot of each right node

Prices >= 0 prove a matching best if price_i + price_j >= w_k for each free edge k = (i, j) and <=
for each chosen one. These differences are the lengths of arcs: left to right along free edges,
right to left along chosen ones. Left nodes come in by one unit of capacity at a time, and the
shortest path from there says who makes room.
"""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import check_weights, require_count
from superarm.errors import ParameterError
from superarm.oracles.base import feasible
from superarm.oracles.edges import as_pairs, is_repeated, refuse_pairs
from superarm.oracles.rows import by_row

Arrays: TypeAlias = tuple[Array, ...]


@functools.cache
def _solver() -> Callable[[Array], Any]:
    """The fastest exact solver at hand: from a cost matrix to rows, ascending, and their columns;
    +inf is forbidden.
    """
    try:
        # an optional extra without types
        from lap import lapjvr  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from scipy.optimize import linear_sum_assignment

        # SciPy brings no types
        return linear_sum_assignment  # type: ignore[no-any-return]
    return functools.partial(lapjvr, extend_cost=True, return_cost=False)


@dataclass(frozen=True)
class Assignment:
    """Perfect matchings of a matrix: a column of its own for each row, or a row for each column if
    those are fewer.

    Item i * n_cols + j pairs row i with column j; items come in the order of rows. SciPy solves it,
    or `lapx` where it is installed; among equally good matchings they may differ.

    >>> import numpy as np
    >>> from superarm import Assignment
    >>> oracle = Assignment(2, 3)
    >>> oracle(np.array([[5.0, 6.0, 1.0], [3.0, 7.0, -np.inf]]).ravel())
    array([0, 4])
    """

    n_rows: int
    n_cols: int
    gap = 0.0

    def __post_init__(self) -> None:
        require_count(n_rows=self.n_rows, n_cols=self.n_cols)

    @property
    def K(self) -> int:
        """The number of pairs."""
        return min(self.n_rows, self.n_cols)

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        return by_row(self._solve, check_weights(w, self.n_rows * self.n_cols), self.K)

    def _solve(self, w: Array) -> Array:
        try:
            rows, columns = _solver()(-w.reshape(self.n_rows, self.n_cols))
        except ValueError:
            feasible(False, self)
        items: Array = rows * self.n_cols + columns
        return items


@compiled
def _push(length: Array, node: Array, size: int, d: float, x: int) -> int:
    """Add (d, x) to the heap length[:size], whose top is the least; returns its new size."""
    i = size
    while i > 0 and d < length[(i - 1) // 2]:
        length[i], node[i] = length[(i - 1) // 2], node[(i - 1) // 2]
        i = (i - 1) // 2
    length[i], node[i] = d, x
    return size + 1


@compiled
def _pop(length: Array, node: Array, size: int) -> int:
    """Remove the top of the heap; returns its new size."""
    size -= 1
    d, x = length[size], node[size]
    i, child = 0, 1
    while child < size:
        if child + 1 < size and length[child + 1] < length[child]:
            child += 1
        if d <= length[child]:
            break
        length[i], node[i] = length[child], node[child]
        i, child = child, 2 * child + 1
    length[i], node[i] = d, x
    return size


@compiled
def _search(i: int, w: Array, graph: Arrays, state: Arrays, work: Arrays) -> tuple[int, float, int]:
    """The shortest path for another unit of left node i: its end, its length, and how many nodes
    were reached.

    It ends at a right node with capacity to spare, or at a left node that gives up a unit, such as
    i itself.
    """
    left, right, start, first = graph
    price, slot, chosen, fill = state
    distance, via, reached, length, node = work
    J0 = len(start) - 1  # the first right node
    end, best = i, price[i]
    distance[i], reached[0], n = 0.0, i, 1
    size, next_d, next_x = (
        0,
        0.0,
        i,
    )  # the nearest of the nodes found since the last pop need not enter the heap
    while True:
        if size > 0 and length[0] < next_d:
            d, x = length[0], node[0]
            size = _pop(length, node, size)
        else:
            d, x, next_d = next_d, next_x, np.inf
        if d >= best:
            return end, best, n
        if d > distance[x]:
            continue
        forward = x < J0
        if forward and d + price[x] < best:
            end, best = x, d + price[x]
        lo, hi = (start[x], start[x + 1]) if forward else (first[x - J0], first[x - J0 + 1])
        for at in range(lo, hi):
            k = at if forward else chosen[at]
            if forward and d + price[x] - w[k] >= best:
                break
            y = right[k] if forward else left[k]
            slack = price[x] + price[y] - w[k]
            further = d + max(slack if forward else -slack, 0.0)  # below zero is rounding
            if further < min(best, distance[y]) and not (forward and slot[k] >= 0):
                if distance[y] == np.inf:
                    reached[n] = y
                    n += 1
                distance[y], via[y] = further, k
                if forward and fill[y - J0] < first[y - J0 + 1]:
                    end, best = y, further
                    continue
                if further < next_d:
                    next_d, next_x, further, y = further, y, next_d, next_x
                if further < np.inf:
                    size = _push(length, node, size, further, y)


@compiled
def _augment(i: int, end: int, graph: Arrays, state: Arrays, via: Array) -> None:
    """Choose the free edges and free the chosen ones on the path from i to its end."""
    left, right, start, _ = graph
    _, slot, chosen, fill = state
    J0 = len(start) - 1
    x, s = end, -1
    if x >= J0:
        s = fill[x - J0]
        fill[x - J0] += 1
    while x != i:
        k = via[x]
        if x < J0:
            s, slot[k] = slot[k], -1
            x = right[k]
        else:
            chosen[s], slot[k] = k, s
            x = left[k]


@compiled
def _match(w: Array, order: Array, graph: Arrays, capacity: Array, K: int) -> Array:
    """The edges of a heaviest matching for each row of w (n, E), ascending, -1 pads.

    `graph` holds the ends of the edges, by left node as `order` says, right nodes numbered after
    the left ones; then where the edges of each left node start, and where the slots of each right
    node start.
    """
    left, unsorted, start, first = graph
    J0, N, E = len(start) - 1, len(start) + len(first) - 2, len(order)
    A = np.full((len(w), K), -1)
    price, slot, chosen = np.empty(N), np.empty(E, np.int64), np.empty(first[-1], np.int64)
    distance, via, reached = np.full(N, np.inf), np.empty(N, np.int64), np.empty(N, np.int64)
    length, node, rank = np.empty(E + 1), np.empty(E + 1, np.int64), np.empty(E, np.int64)
    for b in range(len(w)):
        x = w[b][order]
        for i in range(J0):
            lo, hi = start[i], start[i + 1]
            rank[lo:hi] = lo + np.argsort(-x[lo:hi], kind="mergesort")
        x, right, item = x[rank], unsorted[rank], order[rank]
        price[:], slot[:], fill = 0.0, -1, first[:-1].copy()
        edges = (left, right, start, first)
        state, work = (price, slot, chosen, fill), (distance, via, reached, length, node)
        for i in range(J0):
            for k in range(start[i], start[i + 1]):
                price[i] = max(price[i], x[k] - price[right[k]])
            for _ in range(capacity[i]):
                if price[i] <= 0.0:
                    break
                end, best, n = _search(i, x, edges, state, work)
                for y in reached[:n]:
                    if distance[y] < best:
                        price[y] += (distance[y] - best) if y < J0 else (best - distance[y])
                    distance[y] = np.inf
                _augment(i, end, edges, state, via)
        items = np.sort(item[slot >= 0])
        A[b, : len(items)] = items
    return A


class BipartiteMatching:
    """Matchings of a bipartite graph: at most `left_capacity` and `right_capacity` edges at a node.

    The items are the edges (left node, right node), in the given order; `items` lists them. They
    are returned in ascending order. Nodes may stay free, so edges whose weight is not positive are
    left out, and -1 fills the rest. A capacity is one number for all nodes of a side, or one for
    each.

    >>> import numpy as np
    >>> from superarm import BipartiteMatching
    >>> oracle = BipartiteMatching([(0, 0), (0, 1), (1, 0), (2, 1)], right_capacity=[2, 1])
    >>> oracle(np.array([1.0, 4.0, 2.0, 5.0]))
    array([0, 2, 3])
    >>> oracle(np.array([1.0, 4.0, -2.0, 2.0]))
    array([ 1, -1, -1])
    """

    gap = 0.0

    def __init__(
        self,
        edges: Any,
        n_left: int | None = None,
        n_right: int | None = None,
        *,
        left_capacity: Any = 1,
        right_capacity: Any = 1,
    ) -> None:
        pairs = as_pairs(edges)
        left, right = pairs.T
        n_left = int(left.max(initial=-1)) + 1 if n_left is None else n_left
        n_right = int(right.max(initial=-1)) + 1 if n_right is None else n_right
        require_count(n_left=n_left, n_right=n_right)
        refuse_pairs(
            (left < 0) | (left >= n_left), pairs, f"has its left node outside 0..{n_left - 1}"
        )
        refuse_pairs(
            (right < 0) | (right >= n_right), pairs, f"has its right node outside 0..{n_right - 1}"
        )
        refuse_pairs(is_repeated(pairs), pairs, "repeats an earlier edge")
        self.n_left, self.n_right = n_left, n_right
        self.items: list[tuple[Any, Any]] = list(map(tuple, pairs.tolist()))
        self._capacity = _capacities(left_capacity, left, n_left, "left_capacity")
        slots = _capacities(right_capacity, right, n_right, "right_capacity")
        self._order = np.argsort(left, kind="stable")
        start, first = (
            np.append(0, n.cumsum()) for n in (np.bincount(left, minlength=n_left), slots)
        )
        # unsigned: numba asks of each signed index whether it counts from the end
        self._graph = (
            *(x[self._order].astype(np.uint32) for x in (left, n_left + right)),
            start,
            first,
        )
        self.K = int(min(self._capacity.sum(), slots.sum()))

    @classmethod
    def from_networkx(
        cls, graph: Any, left: Iterable[Any], **capacities: Any
    ) -> "BipartiteMatching":
        """The matchings of a networkx graph; `items` are its own edges, from `left` to the other
        nodes.

        Capacities one a node follow the order of `left`, and on the right that of the graph.
        """
        number = {node: i for i, node in enumerate(dict.fromkeys(left))}
        other = {
            node: j for j, node in enumerate(node for node in graph.nodes if node not in number)
        }
        items = [(a, b) if a in number else (b, a) for a, b in graph.edges()]
        for e, (a, b) in enumerate(items):
            if a not in number or b not in other:
                raise ParameterError(
                    f"edge {e}, {(a, b)}, must join a node in left with one that is not"
                )
        oracle = cls(
            [(number[a], other[b]) for a, b in items], len(number), len(other), **capacities
        )
        oracle.items = items
        return oracle

    def __repr__(self) -> str:
        return f"BipartiteMatching({self.n_left} + {self.n_right} nodes, {len(self.items)} edges)"

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = check_weights(w, len(self.items))
        rows = np.ascontiguousarray(w.reshape(math.prod(w.shape[:-1]), len(self.items)))
        A = _match(rows, self._order, self._graph, self._capacity, self.K)
        return A.reshape(*w.shape[:-1], self.K)


def _capacities(capacity: Any, nodes: Array, n: int, name: str) -> Array:
    """The capacity of each of n nodes, no more than it has edges."""
    given = np.asarray(capacity)
    if (
        not np.issubdtype(given.dtype, np.integer)
        or given.shape not in ((), (n,))
        or (given < 0).any()
    ):
        raise ParameterError(
            f"{name} must be a whole number, 0 or more, or one for each of {n} nodes, got {capacity!r}"
        )
    capacities: Array = np.minimum(given, np.bincount(nodes, minlength=n))
    return capacities

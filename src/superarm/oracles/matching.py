"""Matchings: of a dense matrix, and over an edge list with capacities.

code        shape    meaning, in the compiled part
w           (n, E)   weights, one row per problem
price       (N,)     what a unit of capacity of each node is worth, left nodes first; zero where one
                     is to spare
chosen      (S,)     the chosen edges, side by side for each right node, in the slots that are its
                     capacity
slot        (E,)     the slot of each edge, -1 where it is free
fill        (J,)     the next slot of each right node

Prices >= 0 prove a matching best if price_i + price_j >= w_k for each free edge k = (i, j) and <=
for each chosen one. These differences are the lengths of arcs: left to right along free edges,
right to left along chosen ones. Left nodes come in by one unit of capacity at a time, and the
shortest path from there says who makes room.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import require_count
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, feasible, starts
from superarm.oracles.edges import EdgeOracle, is_repeated, number


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
class Assignment(BaseOracle):
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
        require_count(
            n_rows=self.n_rows,
            n_cols=self.n_cols,
        )

    @property
    def L(self) -> int:
        """The number of entries of the matrix."""
        return self.n_rows * self.n_cols

    @property
    def K(self) -> int:
        """The number of pairs."""
        return min(self.n_rows, self.n_cols)

    def solve_row(self, w: Array) -> Array:
        """The best matching for the weights (L,): K items."""
        try:
            rows, columns = _solver()(-w.reshape(self.n_rows, self.n_cols))
        except ValueError:
            feasible(False, self)
        items: Array = rows * self.n_cols + columns
        return items


class _Graph(NamedTuple):
    """The edges by left node; right nodes are numbered after the left ones."""

    left: Array  # (E,) left node of each edge
    right: Array  # (E,) right node of each edge
    start: Array  # (J0 + 1,) the edges of left node i are start[i] to start[i+1]
    first: Array  # (J + 1,) the slots of right node j are first[j] to first[j+1]


class _Matching(NamedTuple):
    """The chosen edges, and the prices that prove them best."""

    price: Array  # (N,)
    slot: Array  # (E,)
    chosen: Array  # (S,)
    fill: Array  # (J,)


class _Work(NamedTuple):
    """What the search for a path writes to."""

    distance: Array  # (N,) from where the path starts; inf for nodes not reached yet
    via: Array  # (N,) the edge to each node
    reached: Array  # (N,) the nodes in the order they were reached
    length: Array  # (E + 1,) a heap of distances
    node: Array  # (E + 1,) the nodes they belong to


@compiled
def _push(length: Array, node: Array, size: int, d: float, x: int) -> int:
    """Add (d, x) to the heap length[:size], whose top is the least; returns its new size."""
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if d >= length[parent]:
            break
        length[i] = length[parent]
        node[i] = node[parent]
        i = parent
    length[i] = d
    node[i] = x
    return size + 1


@compiled
def _pop(length: Array, node: Array, size: int) -> int:
    """Remove the top of the heap; returns its new size."""
    size -= 1
    d = length[size]
    x = node[size]
    i = 0
    child = 1
    while child < size:
        if child + 1 < size and length[child + 1] < length[child]:
            child += 1
        if d <= length[child]:
            break
        length[i] = length[child]
        node[i] = node[child]
        i = child
        child = 2 * child + 1
    length[i] = d
    node[i] = x
    return size


@compiled
def _search(
    i: int,
    w: Array,
    graph: _Graph,
    matching: _Matching,
    work: _Work,
) -> tuple[int, float, int]:
    """The shortest path for another unit of left node i: its end, its length, and how many nodes
    were reached.

    It ends at a right node with capacity to spare, or at a left node that gives up a unit, such as
    i itself.
    """
    left, right, start, first = graph
    price, slot, chosen, fill = matching
    distance, via, reached, length, node = work
    J0 = len(start) - 1  # the first right node
    end = i
    best = price[i]
    distance[i] = 0.0
    reached[0] = i
    n = 1
    size = 0
    # the nearest of the nodes found since the last pop need not enter the heap
    next_d = 0.0
    next_x = i
    while True:
        if size > 0 and length[0] < next_d:
            d = length[0]
            x = node[0]
            size = _pop(length, node, size)
        else:
            d = next_d
            x = next_x
            next_d = np.inf
        if d >= best:
            return end, best, n
        if d > distance[x]:
            continue

        forward = x < J0
        if forward:
            lo = start[x]
            hi = start[x + 1]
            if d + price[x] < best:
                end = x
                best = d + price[x]
        else:
            lo = first[x - J0]
            hi = first[x - J0 + 1]
        for at in range(lo, hi):
            k = at if forward else chosen[at]
            if forward and d + price[x] - w[k] >= best:
                break
            y = right[k] if forward else left[k]
            slack = price[x] + price[y] - w[k]
            further = d + max(slack if forward else -slack, 0.0)  # below zero is rounding
            if further >= min(best, distance[y]) or (forward and slot[k] >= 0):
                continue
            if distance[y] == np.inf:
                reached[n] = y
                n += 1
            distance[y] = further
            via[y] = k
            if forward and fill[y - J0] < first[y - J0 + 1]:
                end = y
                best = further
                continue
            if further < next_d:
                next_d, further = further, next_d
                next_x, y = y, next_x
            if further < np.inf:
                size = _push(length, node, size, further, y)


@compiled
def _augment(i: int, end: int, graph: _Graph, matching: _Matching, via: Array) -> None:
    """Choose the free edges and free the chosen ones on the path from i to its end."""
    left, right, start, _ = graph
    _, slot, chosen, fill = matching
    J0 = len(start) - 1
    x = end
    s = -1
    if x >= J0:
        s = fill[x - J0]
        fill[x - J0] += 1
    while x != i:
        k = via[x]
        if x < J0:
            s = slot[k]
            slot[k] = -1
            x = right[k]
        else:
            chosen[s] = k
            slot[k] = s
            x = left[k]


@compiled
def _match(w: Array, order: Array, graph: _Graph, capacity: Array, K: int) -> Array:
    """The edges of a heaviest matching for each row of w (n, E), ascending, -1 pads.

    The edges of the graph come by left node, as `order` says.
    """
    start = graph.start
    first = graph.first
    J0 = len(start) - 1
    N = J0 + len(first) - 1
    E = len(order)
    A = np.full((len(w), K), -1)
    distance = np.full(N, np.inf)
    via = np.empty(N, np.int64)
    reached = np.empty(N, np.int64)
    work = _Work(distance, via, reached, np.empty(E + 1), np.empty(E + 1, np.int64))
    rank = np.empty(E, np.int64)
    for b in range(len(w)):
        x = w[b][order]
        for i in range(J0):
            lo = start[i]
            hi = start[i + 1]
            rank[lo:hi] = lo + np.argsort(-x[lo:hi], kind="mergesort")
        x = x[rank]
        right = graph.right[rank]
        edges = _Graph(graph.left, right, start, first)
        price = np.zeros(N)
        slot = np.full(E, -1)
        chosen = np.empty(first[-1], np.int64)
        matching = _Matching(price, slot, chosen, first[:-1].copy())

        for i in range(J0):
            for k in range(start[i], start[i + 1]):
                price[i] = max(price[i], x[k] - price[right[k]])
            for _ in range(capacity[i]):
                if price[i] <= 0.0:
                    break
                end, best, n = _search(i, x, edges, matching, work)
                for y in reached[:n]:
                    if distance[y] < best:
                        price[y] += (distance[y] - best) if y < J0 else (best - distance[y])
                    distance[y] = np.inf
                _augment(i, end, edges, matching, via)
        items = np.sort(order[rank][slot >= 0])
        A[b, : len(items)] = items
    return A


class BipartiteMatching(EdgeOracle):
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

    K: int  # the most edges that the capacities allow

    def __init__(
        self,
        edges: Any,
        n_left: int | None = None,
        n_right: int | None = None,
        *,
        left_capacity: Any = 1,
        right_capacity: Any = 1,
    ) -> None:
        super().__init__(edges)
        left, right = self._pairs.T
        self.n_left = int(left.max(initial=-1)) + 1 if n_left is None else n_left
        self.n_right = int(right.max(initial=-1)) + 1 if n_right is None else n_right
        require_count(n_left=self.n_left, n_right=self.n_right)
        for side, nodes, n in (("left", left, self.n_left), ("right", right, self.n_right)):
            outside = (nodes < 0) | (nodes >= n)
            self._refuse(outside, f"has its {side} node outside 0..{n - 1}")
        self._refuse(is_repeated(self._pairs), "repeats an earlier edge")

        self._order = np.argsort(left, kind="stable")
        degree = np.bincount(left, minlength=self.n_left)
        self._capacity = _capacities(left_capacity, degree, "left_capacity")
        slots = _capacities(
            right_capacity,
            np.bincount(right, minlength=self.n_right),
            "right_capacity",
        )
        # unsigned: numba asks of each signed index whether it counts from the end
        self._graph = _Graph(
            left[self._order].astype(np.uint32),
            (self.n_left + right)[self._order].astype(np.uint32),
            starts(degree),
            starts(slots),
        )
        self.K = int(min(self._capacity.sum(), slots.sum()))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        left: Iterable[Any],
        **capacities: Any,
    ) -> Self:
        """The matchings of a networkx graph; `items` are its own edges, from `left` to the other
        nodes.

        Capacities one per node follow the order of `left`, and on the right that of the graph.
        """
        numbers = number(left)
        others = number(node for node in graph.nodes if node not in numbers)
        items = [(a, b) if a in numbers else (b, a) for a, b in graph.edges()]
        for e, (a, b) in enumerate(items):
            if a not in numbers or b not in others:
                raise ParameterError(
                    f"edge {e}, {(a, b)}, must join a node in left with one that is not"
                )
        return cls._of_nodes(
            items,
            numbers,
            others,
            len(numbers),
            len(others),
            **capacities,
        )

    def __repr__(self) -> str:
        return f"BipartiteMatching({self.n_left} + {self.n_right} nodes, {self.L} edges)"

    def solve(self, rows: Array) -> Array:
        """The edges of a heaviest matching for each row of weights (n, L): (n, K), -1 pads."""
        return _match(
            rows,
            self._order,
            self._graph,
            self._capacity,
            self.K,
        )


def _capacities(capacity: Any, degree: Array, name: str) -> Array:
    """The capacity of each node (n,), no more than it has edges."""
    given = np.asarray(capacity)
    n = len(degree)
    if (
        not np.issubdtype(given.dtype, np.integer)
        or given.shape not in ((), (n,))
        or (given < 0).any()
    ):
        raise ParameterError(
            f"{name} must be a whole number, 0 or more, or one for each of {n} nodes, "
            f"got {capacity!r}"
        )
    capacities: Array = np.minimum(given, degree)
    return capacities

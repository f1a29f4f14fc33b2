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
from superarm.oracles.edges import EdgeOracle, compacted, edges_of, number
from superarm.oracles.heaps import pop, push


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


class _Side(NamedTuple):
    """The nodes of one side."""

    n: int  # all of them
    place: Array  # (E,) the node of each edge, among the M that have one
    capacity: Array  # (M,) no more than a node has edges


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
            size = pop(length, node, size)
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
                size = push(length, node, size, further, y)


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
def _settle(matching: _Matching, work: _Work, best: float, n: int, J0: int) -> None:
    """Change the prices of the n nodes reached so that the path of length `best` costs nothing."""
    distance = work.distance
    for r in range(n):
        y = work.reached[r]
        if distance[y] < best:
            change = best - distance[y]
            matching.price[y] += change if y >= J0 else -change
        distance[y] = np.inf


@compiled
def _match(w: Array, item: Array, graph: _Graph, capacity: Array, K: int) -> Array:
    """The edges of a heaviest matching for each row of w (n, E), ascending, -1 pads.

    The edges of the graph come by left node; `item` says which they are.
    """
    right = graph.right
    start = graph.start
    first = graph.first
    J0 = len(start) - 1
    J = len(first) - 1
    N = J0 + J
    E = len(item)
    A = np.full((len(w), K), -1)
    x = np.empty(E)
    is_chosen = np.empty(E, np.bool_)
    price = np.empty(N)
    distance = np.full(N, np.inf)
    slot = np.empty(E, np.int64)
    places = np.empty((2, N), np.int64)
    chosen = np.empty(first[-1], np.int64)
    fill = np.empty(J, np.int64)
    heap = np.empty(E + 1, np.int64)
    matching = _Matching(price, slot, chosen, fill)
    work = _Work(distance, places[0], places[1], np.empty(E + 1), heap)
    for b in range(len(w)):
        for k in range(E):
            x[k] = w[b, item[k]]
            slot[k] = -1
        for y in range(N):
            price[y] = 0.0
        for j in range(J):
            fill[j] = first[j]

        for i in range(J0):
            for k in range(start[i], start[i + 1]):
                price[i] = max(price[i], x[k] - price[right[k]])
            for _ in range(capacity[i]):
                if price[i] <= 0.0:
                    break
                end, best, n = _search(i, x, graph, matching, work)
                _settle(matching, work, best, n, J0)
                _augment(i, end, graph, matching, work.via)
        for k in range(E):
            is_chosen[item[k]] = slot[k] >= 0
        size = 0
        for e in range(E):
            if is_chosen[e]:
                A[b, size] = e
                size += 1
    return A


class BipartiteMatching(EdgeOracle):
    """Matchings of a bipartite graph: at most `left_capacity` and `right_capacity` edges at a node.

    The items are the edges (left node, right node), in the given order; `items` lists them. Nodes
    are any whole numbers, or 0..n-1 with `n_left` or `n_right`. Items are returned in ascending
    order. Nodes may stay free, so edges whose weight is not positive are left out, and -1 fills the
    rest. A capacity is one number for all nodes of a side, or one for each, by ascending number.
    Parallel edges count one by one, so that two capacities of 2 have room for both.

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
        left = self._side("left", 0, n_left, left_capacity)
        right = self._side("right", 1, n_right, right_capacity)
        self.n_left = left.n
        self.n_right = right.n
        room = (left.capacity.sum(), right.capacity.sum())
        self.K = int(min(room))

        # units come in one by one: from the side that has fewer
        few, many = (left, right) if room[0] <= room[1] else (right, left)
        N = len(few.capacity)
        self._item = np.argsort(few.place, kind="stable")
        self._capacity = few.capacity
        # unsigned: numba asks of each signed index whether it counts from the end
        self._graph = _Graph(
            few.place[self._item].astype(np.uint32),
            (N + many.place)[self._item].astype(np.uint32),
            starts(np.bincount(few.place, minlength=N)),
            starts(many.capacity),
        )

    def _side(self, name: str, column: int, n: int | None, capacity: Any) -> _Side:
        """The nodes of one side."""
        ids = self._pairs[:, column]
        nodes, place = compacted(ids)
        degree = np.bincount(place, minlength=len(nodes))
        if n is None:
            n = len(nodes)
            nodes = np.arange(n)
        else:
            self._refuse((ids < 0) | (ids >= n), f"has its {name} node outside 0..{n - 1}")
        require_count(**{f"n_{name}": n})
        given = _capacities(capacity, n, f"{name}_capacity")
        if given.ndim > 0:
            given = given[nodes]
        return _Side(n, place, np.minimum(given, degree))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        left: Iterable[Any],
        **capacities: Any,
    ) -> Self:
        """The matchings of a networkx graph; `items` are its own edges, from `left` to the other
        nodes: (left, right), or (left, right, key) of a MultiGraph.

        Capacities one per node follow the order of `left`, and on the right that of the graph.
        """
        numbers = number(left)
        others = number(node for node in graph.nodes if node not in numbers)
        items = [(a, b, *key) if a in numbers else (b, a, *key) for a, b, *key in edges_of(graph)]
        for e, (a, b, *_) in enumerate(items):
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
            self._item,
            self._graph,
            self._capacity,
            self.K,
        )


def _capacities(capacity: Any, n: int, name: str) -> Array:
    """The capacity of all nodes, (), or of each of them, (n,)."""
    given = np.asarray(capacity)
    if (
        not np.issubdtype(given.dtype, np.integer)
        or given.shape not in ((), (n,))
        or (given < 0).any()
    ):
        raise ParameterError(
            f"{name} must be a whole number, 0 or more, or one for each of {n} nodes, "
            f"got {capacity!r}"
        )
    return given

"""Paths through networks: longest ones where there are no cycles, and cheapest ones where costs are
not negative.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, prange
from superarm.checks import check_weights, is_whole
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.oracles.base import BaseOracle, feasible, starts
from superarm.oracles.edges import EdgeOracle, compacted, edges_of, number
from superarm.oracles.heaps import pop, push


@compiled
def _trace_back(
    source: int,
    target: int,
    into: Array,
    tail: Array,
    item: Array,
    path: Array,
) -> int:
    """Fill `path` with the items from source to target, given the edge into each node; returns
    their number.
    """
    size = 0
    v = target
    while v != source:
        size += 1
        v = tail[into[v]]

    v = target
    for k in range(size - 1, -1, -1):
        path[k] = item[into[v]]
        v = tail[into[v]]
    return size


@compiled
def _longest_path(w: Array, start: Array, tail: Array, item: Array, path: Array) -> int:
    """Fill `path` with the edges of a longest path and return their number; -1 if there is none.

    Nodes are numbered along the arrows, the source first and the target last; the edges into node v
    are item[start[v]:start[v+1]], and the first of the longest wins.
    """
    N = len(start) - 1
    length = np.full(N, -np.inf)
    into = np.full(N, -1, np.int32)
    length[0] = 0.0
    for v in range(1, N):
        best = -np.inf
        by = -1
        for k in range(start[v], start[v + 1]):
            x = length[tail[k]] + w[item[k]]
            longer = x > best  # without a branch, which would often be mispredicted
            best = x if longer else best
            by = k if longer else by
        length[v] = best
        into[v] = by

    if length[N - 1] == -np.inf:
        return -1
    return _trace_back(0, N - 1, into, tail, item, path)


@compiled
def longest_paths(w: Array, start: Array, tail: Array, item: Array, K: int) -> tuple[Array, Array]:
    """The edges of a longest path from source to target, and how many they are, -1 if there is
    none, for each row of w (n, E).
    """
    n = len(w)
    A = np.full((n, K), -1)
    size = np.empty(n, np.int64)

    for b in prange(n):
        size[b] = _longest_path(
            w[b],
            start,
            tail,
            item,
            A[b],
        )
    return A, size


class Network(NamedTuple):
    """Nodes along the arrows, the source first and the target last, and the edges into each node v:
    start[v] to start[v+1].
    """

    start: Array  # (N + 1,)
    tail: Array  # (E,)
    item: Array  # (E,)


class NetworkOracle(BaseOracle):
    """An oracle over the paths through a network; longest ones on a GPU are found by Triton."""

    network: Any  # a Network, as an attribute or a property

    def solve_tensors(self, rows: Any) -> Any:
        """The edges of a longest path for each row of a tensor (n, L), on its device: (n, K)."""
        from superarm.arrays.torch import fused

        if not fused(rows):
            if rows.is_cpu:  # NumPy can share its memory
                return self.solve_on_host(rows)
            return super().solve_tensors(rows)
        from superarm.oracles.sweep import longest_paths

        if self.checks_weights:
            check_weights(rows)
        A, exists = longest_paths(rows, self)
        feasible(bool(exists.all()), self)
        return A


class _GraphPath(EdgeOracle):
    """Paths from source to target in a directed graph, whose nodes are any whole numbers."""

    def __init__(self, edges: Any, source: int, target: int) -> None:
        from scipy.sparse import csr_array

        super().__init__(edges)
        self._nodes, self._ends = compacted(self._pairs)
        self._source = self._place("source", source)
        self._target = self._place("target", target)
        if source == target:
            raise ParameterError(f"source and target are the same node, {source}")

        N = len(self._nodes)
        self._adjacency = csr_array((np.ones(self.L), tuple(self._ends.T)), shape=(N, N))
        if not _reached(self._adjacency, self._source)[self._target]:
            raise InfeasibleError(f"no path leads from source {source} to target {target}")

    def _place(self, name: str, node: Any) -> int:
        """The place of a node among all of them."""
        if not (is_whole(node) and node in self._nodes):
            raise ParameterError(f"the {name} {node!r} is not one of the nodes: no edge has it")
        return int(np.searchsorted(self._nodes, node))

    @classmethod
    def from_networkx(cls, graph: Any, source: Any, target: Any, **options: Any) -> Self:
        """The paths in a networkx DiGraph, without cycles if `DagPath` is to find them, or in a
        MultiDiGraph; `items` are its own edges, (u, v) or (u, v, key), and options those of the
        oracle.

        Returns:
            the oracle.
        """
        if not graph.is_directed():
            raise ParameterError(
                "paths need a directed graph: graph.to_directed() has each edge both ways"
            )
        numbers = number(graph.nodes)
        for name, node in (("source", source), ("target", target)):
            if node not in numbers:
                raise ParameterError(f"the {name} {node!r} is not a node of the graph")
            if graph.degree(node) == 0:
                raise InfeasibleError(f"no path: no edge of the graph has the {name} {node!r}")
        return cls._of_nodes(
            edges_of(graph),
            numbers,
            numbers,
            numbers[source],
            numbers[target],
            **options,
        )


def _reached(adjacency: Any, node: int) -> Array:
    """Whether a path leads from the node to each of the nodes: (N,)."""
    from scipy.sparse.csgraph import breadth_first_order

    reached = np.zeros(adjacency.shape[0], np.bool_)
    reached[breadth_first_order(adjacency, node, return_predecessors=False)] = True
    return reached


def _along_the_arrows(ends: Array, nodes: Array) -> Array:
    """The places of the nodes in an order in which all edges lead forward."""
    N = len(nodes)
    tail, head = ends.T
    if (tail < head).all():
        return np.arange(N)
    waiting = np.bincount(head, minlength=N)  # edges from nodes that are not in the order yet
    degree = np.bincount(tail, minlength=N)
    by_tail = np.argsort(tail, kind="stable")
    heads = np.split(head[by_tail], np.cumsum(degree))
    order = np.flatnonzero(waiting == 0).tolist()
    for u in order:  # grows while it is read
        for v in heads[u]:
            waiting[v] -= 1
            if waiting[v] == 0:
                order.append(int(v))
    if len(order) < N:
        node = nodes[waiting > 0][0]
        raise ParameterError(
            f"the edges contain a cycle through or before node {node}: DagPath takes any weights, "
            "but no cycles; for costs see ShortestPath"
        )
    return np.array(order)


class DagPath(NetworkOracle, _GraphPath):
    """Longest paths from source to target in a directed graph without cycles; weights of any sign.

    The items are the edges, pairs (tail, head) of whole numbers, in the given order; `items` lists
    them. Of parallel edges a path takes the heaviest, the first if they weigh the same; an edge
    from a node to itself is on no path. A path is returned from source to target.

    >>> import numpy as np
    >>> from superarm import DagPath
    >>> oracle = DagPath([(0, 1), (1, 2), (0, 2)], source=0, target=2)
    >>> oracle(np.array([1.0, 1.0, 1.5]))
    array([0, 1])
    >>> oracle(np.array([1.0, 1.0, 2.5]))
    array([ 2, -1])
    """

    K: int  # the most edges of a path
    network: Network

    def __init__(self, edges: Any, source: int, target: int) -> None:
        super().__init__(edges, source, target)
        tail, head = self._ends.T
        between_two = tail != head
        order = _along_the_arrows(self._ends[between_two], self._nodes)
        ahead = _reached(self._adjacency, self._source)
        behind = _reached(self._adjacency.T.tocsr(), self._target)
        order = order[(ahead & behind)[order]]
        position = np.full(len(self._nodes), -1)
        position[order] = np.arange(len(order))
        tail = position[tail]
        head = position[head]
        used = np.flatnonzero((tail >= 0) & (head >= 0) & between_two)
        item = used[np.argsort(head[used], kind="stable")].astype(np.int32)
        self.network = Network(
            start=np.searchsorted(head[item], np.arange(len(order) + 1)),
            tail=tail[item].astype(np.int32),
            item=item,
        )
        _, size = longest_paths(np.ones((1, self.L)), *self.network, len(order))
        self.K = int(size[0])

    def __repr__(self) -> str:
        return f"DagPath({self.L} edges, at most {self.K} per path)"

    def solve(self, rows: Array) -> Array:
        """The edges of a longest path for each row of weights (n, L): (n, K), -1 pads."""
        A, size = longest_paths(rows, *self.network, self.K)
        feasible(bool((size >= 0).all()), self)
        return A


class _Roads(NamedTuple):
    """The edges from each node u: start[u] to start[u+1]."""

    start: Array  # (N + 1,)
    tail: Array  # (E,)
    head: Array  # (E,)
    item: Array  # (E,)


@compiled
def _cheapest_path(w: Array, roads: _Roads, source: int, target: int, path: Array) -> int:
    """Fill `path` with the edges of a cheapest path and return their number; -1 if there is none.

    Dijkstra's algorithm, which stops at the target.
    """
    start, tail, head, item = roads
    N = len(start) - 1
    cost = np.full(N, np.inf)  # of the best way to each node so far
    into = np.empty(N, np.int64)  # its last edge
    length = np.empty(len(item) + 1)
    node = np.empty(len(item) + 1, np.int64)
    cost[source] = 0.0
    size = push(length, node, 0, 0.0, source)
    while size > 0:
        d = length[0]
        u = node[0]
        if u == target:
            return _trace_back(source, target, into, tail, item, path)
        size = pop(length, node, size)
        if d > cost[u]:
            continue
        for k in range(start[u], start[u + 1]):
            v = head[k]
            further = d - w[item[k]]
            if further < cost[v] and further < cost[target]:
                cost[v] = further
                into[v] = k
                size = push(length, node, size, further, v)
    return -1


@compiled
def cheapest_paths(
    w: Array, roads: _Roads, source: int, target: int, K: int
) -> tuple[Array, Array]:
    """The edges of a cheapest path from source to target, where edges cost -w, and how many they
    are, -1 if there is none, for each row of w (n, E).
    """
    n = len(w)
    A = np.full((n, K), -1)
    size = np.empty(n, np.int64)

    for b in prange(n):
        size[b] = _cheapest_path(
            w[b],
            roads,
            source,
            target,
            A[b],
        )
    return A, size


class ShortestPath(_GraphPath):
    """Cheapest paths from source to target in any directed graph, by Dijkstra's algorithm.

    The items are the edges, pairs (tail, head) of whole numbers, in the given order; `items` lists
    them. Of parallel edges a path takes the cheapest, the first if they cost the same; an edge from
    a node to itself is on no path. Weights are minus the costs and must not be positive;
    `minimize(ShortestPath(...))` takes the costs themselves. A path is returned from source to
    target.

    Args:
        edges: pairs of nodes, which are any whole numbers.
        source: where paths begin.
        target: where they end.
        clip: count a negative cost as zero, where it would be refused. Costs drawn by Thompson
            sampling are negative at times. The path is then a cheapest one of the clipped costs:
            it is for these that `gap` is 0.

    >>> import numpy as np
    >>> from superarm import ShortestPath, minimize
    >>> edges = [(0, 1), (1, 2), (2, 1), (0, 2)]
    >>> oracle = minimize(ShortestPath(edges, source=0, target=2))
    >>> oracle(np.array([1.0, 1.0, 0.0, 3.0]))
    array([0, 1])
    >>> clipping = minimize(ShortestPath(edges, source=0, target=2, clip=True))
    >>> clipping(np.array([1.0, 1.0, -2.0, -0.5]))
    array([ 3, -1])
    """

    K: int  # the most edges of a path without a cycle

    def __init__(self, edges: Any, source: int, target: int, *, clip: bool = False) -> None:
        super().__init__(edges, source, target)
        if not isinstance(clip, bool):
            raise ParameterError(f"clip must be True or False, got {clip!r}")
        N = len(self._nodes)
        self.K = min(self.L, N - 1)
        self._clip = clip

        tail, head = self._ends.T
        item = np.argsort(tail, kind="stable")
        self._roads = _Roads(
            start=starts(np.bincount(tail, minlength=N)),
            tail=tail[item].astype(np.uint32),
            head=head[item].astype(np.uint32),
            item=item.astype(np.uint32),
        )

    def __repr__(self) -> str:
        clip = ", clip=True" if self._clip else ""
        return f"ShortestPath({self.L} edges, {len(self._nodes)} nodes{clip})"

    def solve(self, rows: Array) -> Array:
        """The edges of a cheapest path for each row of weights (n, L): (n, K), -1 pads."""
        if self._clip:
            rows = np.minimum(rows, 0.0)
        if (rows > 0).any():
            row, e = np.argwhere(rows > 0)[0]
            raise WeightsError(
                f"item {e} has weight {rows[row, e]}: weights are minus costs and must not be "
                "positive; pass clip=True to count negative costs as zero, as for Thompson samples"
            )
        A, size = cheapest_paths(
            rows,
            self._roads,
            self._source,
            self._target,
            self.K,
        )
        feasible(bool((size >= 0).all()), self)
        return A

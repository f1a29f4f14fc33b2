"""Paths through networks: longest ones where there are no cycles, and cheapest ones where costs are
not negative.
"""

import itertools
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, prange
from superarm.checks import check_weights, is_whole
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.oracles.base import BaseOracle, feasible
from superarm.oracles.edges import as_pairs, is_repeated, number_nodes, refuse_pairs


@compiled
def _longest_path(w: Array, start: Array, tail: Array, item: Array, path: Array) -> int:
    """Fill `path` with the edges of a longest path, from its end, and return their number; -1 if
    there is none.

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
    size = 0
    v = N - 1
    while v > 0:
        path[size] = item[into[v]]
        size += 1
        v = tail[into[v]]
    return size


@compiled
def longest_paths(w: Array, start: Array, tail: Array, item: Array, K: int) -> tuple[Array, Array]:
    """The edges of a longest path from source to target, and how many they are, -1 if there is
    none, for each row of w (n, E).
    """
    n = len(w)
    A = np.full((n, K), -1)
    size = np.empty(n, np.int64)

    for b in prange(n):
        path = np.empty(K, np.int64)
        size[b] = _longest_path(
            w[b],
            start,
            tail,
            item,
            path,
        )
        if size[b] > 0:
            A[b, : size[b]] = path[: size[b]][::-1]
    return A, size


class Network(NamedTuple):
    """Nodes along the arrows, the source first and the target last, and the edges into each node v:
    start[v] to start[v+1].
    """

    start: Array  # (N + 1,)
    tail: Array  # (E,)
    item: Array  # (E,)


class LongestPath(BaseOracle):
    """An oracle over the paths through a network; longest ones on a GPU are found by Triton."""

    network: Any  # a Network, as an attribute or a property

    def solve_tensors(self, rows: Any) -> Any:
        """The edges of a longest path for each row of a tensor (n, L), on its device: (n, K)."""
        from superarm.arrays.torch import fused

        if rows.is_cpu:  # NumPy can share its memory
            return self.solve_on_host(rows)
        if fused(rows) is None:
            return super().solve_tensors(rows)
        from superarm.oracles.sweep import longest_paths

        if self.checks_weights:
            check_weights(rows)
        A, exists = longest_paths(rows, self)
        feasible(bool(exists.all()), self)
        return A


class _Graph(NamedTuple):
    """A directed graph in which a path leads from source to target."""

    pairs: Array  # (E, 2) tail and head of each edge
    adjacency: Any  # (N, N) as a SciPy matrix
    source: int
    target: int

    @property
    def N(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[0])

    def items(self) -> list[Any]:
        """The edges, as pairs of node numbers."""
        return list(map(tuple, self.pairs.tolist()))


def _checked_graph(edges: Any, source: int, target: int) -> _Graph:
    """The graph with these edges, each refused by number if it makes no sense."""
    from scipy.sparse import csr_array

    pairs = as_pairs(edges)
    refuse_pairs(pairs.min(1) < 0, pairs, "has a negative node")
    refuse_pairs(pairs[:, 0] == pairs[:, 1], pairs, "leads from a node to itself")
    refuse_pairs(is_repeated(pairs), pairs, "is given twice")
    N = int(pairs.max(initial=-1)) + 1

    for name, node in (("source", source), ("target", target)):
        if not (is_whole(node) and 0 <= node < N):
            raise ParameterError(f"the {name} {node!r} is not one of the nodes 0..{N - 1}")
    if source == target:
        raise ParameterError(f"source and target are the same node, {source}")

    adjacency = csr_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(N, N))
    if not _reached(adjacency, source)[target]:
        raise InfeasibleError(f"no path leads from source {source} to target {target}")
    return _Graph(pairs, adjacency, source, target)


def _reached(adjacency: Any, node: int) -> Array:
    """Whether a path leads from the node to each of the nodes: (N,)."""
    from scipy.sparse.csgraph import breadth_first_order

    reached = np.zeros(adjacency.shape[0], np.bool_)
    reached[breadth_first_order(adjacency, node, return_predecessors=False)] = True
    return reached


def _along_the_arrows(pairs: Array, N: int) -> Array:
    """The nodes in an order in which all edges lead forward."""
    tail, head = pairs.T
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
        raise ParameterError(
            f"the edges contain a cycle through or before node {np.flatnonzero(waiting)[0]}"
        )
    return np.array(order)


Path = TypeVar("Path", bound="DagPath | ShortestPath")


def _from_networkx(cls: type[Path], graph: Any, source: Any, target: Any) -> Path:
    """The oracle over the edges of a networkx DiGraph, which are its `items`."""
    if not graph.is_directed():
        raise ParameterError(
            "paths need a directed graph: graph.to_directed() has each edge both ways"
        )
    number, items, pairs = number_nodes(graph)
    for name, node in (("source", source), ("target", target)):
        if node not in number:
            raise ParameterError(f"the {name} {node!r} is not a node of the graph")
    oracle = cls(pairs, number[source], number[target])
    oracle.items = items
    return oracle


class DagPath(LongestPath):
    """Longest paths from source to target in a directed graph without cycles; weights of any sign.

    The items are the edges, pairs (tail, head) of node numbers, in the given order; `items` lists
    them. A path is returned from source to target.

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
    gap = 0.0

    def __init__(self, edges: Any, source: int, target: int) -> None:
        graph = _checked_graph(edges, source, target)
        self.items = graph.items()
        self.L = len(self.items)
        order = _along_the_arrows(graph.pairs, graph.N)
        ahead = _reached(graph.adjacency, source)
        behind = _reached(graph.adjacency.T.tocsr(), target)
        order = order[(ahead & behind)[order]]
        position = np.full(graph.N, -1)
        position[order] = np.arange(len(order))
        tail, head = position[graph.pairs].T
        used = np.flatnonzero((tail >= 0) & (head >= 0))
        item = used[np.argsort(head[used], kind="stable")].astype(np.int32)
        self.network = Network(
            start=np.searchsorted(head[item], np.arange(len(order) + 1)),
            tail=tail[item].astype(np.int32),
            item=item,
        )
        _, size = longest_paths(np.ones((1, self.L)), *self.network, len(order))
        self.K = int(size[0])

    @classmethod
    def from_networkx(cls, graph: Any, source: Any, target: Any) -> Self:
        """The longest paths in a networkx DiGraph without cycles; `items` are its own edges."""
        return _from_networkx(
            cls,
            graph,
            source,
            target,
        )

    def __repr__(self) -> str:
        return f"DagPath({self.L} edges, at most {self.K} per path)"

    def solve(self, rows: Array) -> Array:
        """The edges of a longest path for each row of weights (n, L): (n, K), -1 pads."""
        A, size = longest_paths(rows, *self.network, self.K)
        feasible(bool((size >= 0).all()), self)
        return A


class ShortestPath(BaseOracle):
    """Cheapest paths from source to target in any directed graph, by SciPy's Dijkstra.

    The items are the edges, pairs (tail, head) of node numbers, in the given order; `items` lists
    them. Weights are minus the costs and must not be positive; `minimize(ShortestPath(...))` takes
    the costs themselves. A path is returned from source to target.

    >>> import numpy as np
    >>> from superarm import ShortestPath, minimize
    >>> oracle = minimize(ShortestPath([(0, 1), (1, 2), (2, 1), (0, 2)], source=0, target=2))
    >>> oracle(np.array([1.0, 1.0, 0.0, 3.0]))
    array([0, 1])
    """

    K: int  # the most edges of a path without a cycle
    gap = 0.0

    def __init__(self, edges: Any, source: int, target: int) -> None:
        self._graph = _checked_graph(edges, source, target)
        self.items = self._graph.items()
        self.L = len(self.items)
        N = self._graph.N
        self.K = min(self.L, N - 1)

        # one number per edge; sorted by it, they come in the order of the matrix
        self._key = self._graph.pairs @ [N, 1]
        self._by_key = np.argsort(self._key)

    @classmethod
    def from_networkx(cls, graph: Any, source: Any, target: Any) -> Self:
        """The cheapest paths in a networkx DiGraph; `items` are its own edges."""
        return _from_networkx(
            cls,
            graph,
            source,
            target,
        )

    def __repr__(self) -> str:
        return f"ShortestPath({self.L} edges, {self._graph.N} nodes)"

    def solve(self, rows: Array) -> Array:
        """The edges of a cheapest path for each row of weights (n, L): (n, K), -1 pads."""
        if (rows > 0).any():
            row, e = np.argwhere(rows > 0)[0]
            raise WeightsError(
                f"item {e} has weight {rows[row, e]}: "
                "weights are minus costs and must not be positive"
            )
        return super().solve(rows)

    def solve_row(self, w: Array) -> Array:
        """The edges of a cheapest path for the weights (L,), in their order."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        _, adjacency, source, target = self._graph
        costs = csr_array(
            (-w[self._by_key], adjacency.indices, adjacency.indptr),
            shape=adjacency.shape,
        )
        distance, before = dijkstra(costs, indices=source, return_predecessors=True)
        feasible(bool(distance[target] < np.inf), self)

        nodes = [target]
        while nodes[-1] != source:
            nodes.append(int(before[nodes[-1]]))

        steps = np.array(list(itertools.pairwise(nodes[::-1])))
        keys = steps @ [self._graph.N, 1]
        items: Array = self._by_key[np.searchsorted(self._key, keys, sorter=self._by_key)]
        return items

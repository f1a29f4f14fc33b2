"""Paths through networks: longest ones where there are no cycles, and cheapest ones where costs are
not negative.
"""

import itertools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from superarm.arrays import Array, or_torch
from superarm.arrays.compiled import compiled, prange
from superarm.checks import check_weights, is_whole
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.oracles.base import feasible
from superarm.oracles.edges import as_pairs, is_repeated, numbered, refuse_pairs
from superarm.oracles.rows import by_row


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
        best, by = -np.inf, -1
        for k in range(
            start[v], start[v + 1]
        ):  # without a branch, which would often be mispredicted
            x = length[tail[k]] + w[item[k]]
            longer = x > best
            best, by = x if longer else best, k if longer else by
        length[v], into[v] = best, by
    if length[N - 1] == -np.inf:
        return -1
    size, v = 0, N - 1
    while v > 0:
        path[size] = item[into[v]]
        size += 1
        v = tail[into[v]]
    return size


@compiled
def _longest_paths(w: Array, start: Array, tail: Array, item: Array, K: int) -> tuple[Array, Array]:
    """`_longest_path` for each row of w (n, E), from source to target."""
    n = len(w)
    A, size = np.full((n, K), -1), np.empty(n, np.int64)
    for b in prange(n):
        path = np.empty(K, np.int64)
        size[b] = _longest_path(w[b], start, tail, item, path)
        for i in range(size[b]):
            A[b, i] = path[size[b] - 1 - i]
    return A, size


@dataclass(frozen=True, eq=False)
class Network:
    """Nodes along the arrows, the source first and the target last, and the edges into each, as in
    `_longest_path`.
    """

    start: Array  # (N + 1,)
    tail: Array  # (E,)
    item: Array  # (E,)


@or_torch("superarm.oracles.gpu")
def longest_paths(w: Array, network: Network, K: int) -> tuple[Array, Array]:
    """The edges of a longest path, and how many they are, -1 if there is none, for each row of w
    (n, E).
    """
    return _longest_paths(np.ascontiguousarray(w), network.start, network.tail, network.item, K)


def _check_network(edges: Any, source: int, target: int) -> tuple[Array, Any]:
    """The edges (E, 2) and their adjacency as a SciPy matrix, with a path from source to target."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

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
    adjacency = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(N, N))
    if target not in breadth_first_order(adjacency, source, return_predecessors=False):
        raise InfeasibleError(f"no path leads from source {source} to target {target}")
    return pairs, adjacency


def _along_the_arrows(pairs: Array, N: int) -> Array:
    """The nodes in an order in which all edges lead forward."""
    if (pairs[:, 0] < pairs[:, 1]).all():
        return np.arange(N)
    waiting = np.bincount(pairs[:, 1], minlength=N)
    heads = np.split(
        pairs[np.argsort(pairs[:, 0], kind="stable"), 1],
        np.cumsum(np.bincount(pairs[:, 0], minlength=N)),
    )
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


class _NetworkPath:
    """The part of the paths through a network that does not depend on how they are found."""

    gap = 0.0

    def __init__(self, edges: Any, source: int, target: int) -> None:
        self._pairs, self._adjacency = _check_network(edges, source, target)
        self._ends = (source, target)
        self.items: list[Any] = [tuple(pair) for pair in self._pairs.tolist()]
        self.L = len(self.items)

    @classmethod
    def from_networkx(cls, graph: Any, source: Any, target: Any) -> Self:
        """For a networkx DiGraph; `items` are its own edges."""
        if not graph.is_directed():
            raise ParameterError(
                "paths need a directed graph: graph.to_directed() has each edge both ways"
            )
        number, items, pairs = numbered(graph)
        for name, node in (("source", source), ("target", target)):
            if node not in number:
                raise ParameterError(f"the {name} {node!r} is not a node of the graph")
        oracle = cls(pairs, number[source], number[target])
        oracle.items = items
        return oracle


class DagPath(_NetworkPath):
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

    takes_tensors = True

    def __init__(self, edges: Any, source: int, target: int) -> None:
        from scipy.sparse.csgraph import breadth_first_order

        super().__init__(edges, source, target)
        adjacency, N = self._adjacency, self._adjacency.shape[0]
        reached = np.zeros((2, N), np.bool_)  # from the source, and by going back from the target
        reached[0, breadth_first_order(adjacency, source, return_predecessors=False)] = True
        reached[1, breadth_first_order(adjacency.T.tocsr(), target, return_predecessors=False)] = (
            True
        )
        order = _along_the_arrows(self._pairs, N)
        order = order[(reached[0] & reached[1])[order]]
        position = np.full(N, -1)
        position[order] = np.arange(len(order))
        tail, head = position[self._pairs].T
        used = np.flatnonzero((tail >= 0) & (head >= 0))
        item = used[np.argsort(head[used], kind="stable")].astype(np.int32)
        start = np.searchsorted(head[item], np.arange(len(order) + 1))
        self._network = Network(start, tail[item].astype(np.int32), item)
        steps = np.empty(len(order), np.int64)
        self.K = _longest_path(np.ones(self.L), start, self._network.tail, item, steps)

    def __repr__(self) -> str:
        return f"DagPath({self.L} edges, at most {self.K} a path)"

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = check_weights(w, self.L, tensors=True)
        A, size = longest_paths(w.reshape(-1, self.L), self._network, self.K)
        feasible(bool((size >= 0).all()), self)
        return A.reshape(*w.shape[:-1], self.K)


class ShortestPath(_NetworkPath):
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

    def __init__(self, edges: Any, source: int, target: int) -> None:
        super().__init__(edges, source, target)
        # one number an edge; sorted by it, they come in the order of the matrix
        self._key = self._pairs @ [self._adjacency.shape[0], 1]
        self._by_key = np.argsort(self._key)

    def __repr__(self) -> str:
        return f"ShortestPath({self.L} edges, {self._adjacency.shape[0]} nodes)"

    @property
    def K(self) -> int:
        """The most edges of a path without a cycle."""
        return min(self.L, int(self._adjacency.shape[0]) - 1)

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = check_weights(w, self.L)
        if (w > 0).any():
            at = tuple(np.argwhere(w > 0)[0])
            raise WeightsError(
                f"item {at[-1]} has weight {w[at]}: weights are minus costs and must not be positive"
            )
        return by_row(self._solve, w, self.K)

    def _solve(self, w: Array) -> Array:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        N, (source, target) = self._adjacency.shape[0], self._ends
        costs = csr_array(
            (-w[self._by_key], self._adjacency.indices, self._adjacency.indptr), shape=(N, N)
        )
        distance, before = dijkstra(costs, indices=source, return_predecessors=True)
        feasible(bool(distance[target] < np.inf), self)
        nodes = [target]
        while nodes[-1] != source:
            nodes.append(int(before[nodes[-1]]))
        keys = np.array([u * N + v for v, u in itertools.pairwise(nodes)][::-1])
        items: Array = self._by_key[np.searchsorted(self._key, keys, sorter=self._by_key)]
        return items

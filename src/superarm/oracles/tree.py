"""Spanning trees and forests, by Borůvka's rounds: each component takes its heaviest edge to
another one.

code        shape      meaning, in the compiled part
w           (n, E)     weights, one row a problem
edges       4 x (E,)   weight, two ends and item of each edge, by item
live        4 x (E,)   the same for the edges between components: the ends are their roots
root        (N,)       the node that stands for the component of each node
record      (N,)       weight of the heaviest edge at each root, -inf without one
heaviest    (N,)       its place among the live edges
"""

import math
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import check_weights, require_count
from superarm.errors import InfeasibleError
from superarm.oracles.base import feasible
from superarm.oracles.edges import as_pairs, is_repeated, numbered, refuse_pairs


@compiled
def _contract(
    edges: tuple[Array, ...], m: int, lo: float, hi: float, root: Array, live: tuple[Array, ...]
) -> int:
    """Copy to `live` the first m edges that join two components and weigh in [lo, hi); returns
    their number.
    """
    weight, u, v, item = edges
    live_weight, live_u, live_v, live_item = live
    n = 0
    for i in range(m):
        if lo <= weight[i] < hi:
            a, b = root[u[i]], root[v[i]]
            live_weight[n], live_u[n], live_v[n], live_item[n] = weight[i], a, b, item[i]
            n += a != b  # a branch would often be mispredicted, here and below
    return n


@compiled
def _compare(live: tuple[Array, ...], m: int, record: Array, heaviest: Array) -> None:
    """Find the heaviest live edge at each root; ties go to the lowest index."""
    weight, u, v, _ = live
    for i in range(m):
        x, a, b = weight[i], u[i], v[i]
        best_of_a, best_of_b = x > record[a], x > record[b]
        record[a], heaviest[a] = x if best_of_a else record[a], i if best_of_a else heaviest[a]
        record[b], heaviest[b] = x if best_of_b else record[b], i if best_of_b else heaviest[b]


@compiled
def _join(
    roots: Array,
    live: tuple[Array, ...],
    record: Array,
    heaviest: Array,
    root: Array,
    chosen: Array,
) -> int:
    """Choose the heaviest edge at each root and join the components; returns how many are left,
    first in `roots`.
    """
    _, u, v, item = live
    for r in roots:
        if record[r] > -np.inf:
            i = heaviest[r]
            other = u[i] + v[i] - r
            if (
                heaviest[other] != i or other < r
            ):  # one of the two that take the same edge stays a root
                root[r] = other
                chosen[item[i]] = True
    n = 0
    for r in roots:
        record[r] = -np.inf
        if root[r] == r:
            roots[n] = r
            n += 1
        while root[root[r]] != root[r]:
            root[r] = root[root[r]]
    return n


@compiled
def _bar(w: Array, N: int, least: float) -> float:
    """A weight that so few edges reach, by a sample, that it pays to grow the forest from them
    first.
    """
    degree = len(w) / N
    if degree <= 2:
        return least
    sample = w[:: max(1, len(w) // 2048)]
    at = int(len(sample) * (1 - np.log2(degree) / (2 * degree)))
    bar: float = max(least, np.sort(sample)[at])
    return bar


@compiled
def _forests(w: Array, u: Array, v: Array, items: Array, N: int, K: int, least: float) -> Array:
    """The edges of a heaviest forest among those that weigh at least `least`, for each row of w,
    ascending, -1 pads.

    First come the edges above a bar, then what they left apart: no edge below can replace one
    above.
    """
    E = len(u)
    A = np.empty((len(w), K), np.int64)
    nodes, chosen = np.arange(N, dtype=np.int32), np.empty(E, np.bool_)
    record, heaviest = np.full(N, -np.inf), np.empty(N, np.int32)
    live = (np.empty(E), np.empty(E, np.int32), np.empty(E, np.int32), np.empty(E, np.int32))
    for b in range(len(w)):
        root, roots, left = nodes.copy(), nodes.copy(), N
        chosen[:] = False
        bar = _bar(w[b], N, least)
        for lo, hi in ((bar, np.inf), (least, bar)):
            if left == 1 or lo == hi:
                break
            m = _contract((w[b], u, v, items), E, lo, hi, root, live)
            while m > 0:
                _compare(live, m, record, heaviest)
                left = _join(roots[:left], live, record, heaviest, root, chosen)
                m = _contract(live, m, lo, hi, root, live)
            for x in range(N):
                while root[root[x]] != root[x]:
                    root[x] = root[root[x]]
        found = 0
        for e in range(E):
            if found < K:
                A[b, found] = e
                found += chosen[e]
        A[b, found:] = -1
    return A


class SpanningTree:
    """Spanning trees of an undirected graph, or with `forest` all sets of edges without a cycle.

    The items are the edges, pairs of nodes 0..n_nodes-1, in the given order; `items` lists them.
    They are returned in ascending order, and ties go to the lowest index. A forest leaves out the
    edges whose weight is not positive, and -1 fills the rest.

    >>> import numpy as np
    >>> from superarm import SpanningTree
    >>> triangle = [(0, 1), (1, 2), (2, 0)]
    >>> SpanningTree(triangle)(np.array([0.3, -0.2, -0.1]))
    array([0, 2])
    >>> SpanningTree(triangle, forest=True)(np.array([0.3, -0.2, -0.1]))
    array([ 0, -1])
    """

    gap = 0.0

    def __init__(self, edges: Any, n_nodes: int | None = None, *, forest: bool = False) -> None:
        pairs = as_pairs(edges)
        self.n_nodes = int(pairs.max(initial=-1)) + 1 if n_nodes is None else n_nodes
        require_count(n_nodes=self.n_nodes)
        outside = (pairs.min(1) < 0) | (pairs.max(1) >= self.n_nodes)
        refuse_pairs(outside, pairs, f"has a node outside 0..{self.n_nodes - 1}")
        refuse_pairs(pairs[:, 0] == pairs[:, 1], pairs, "is a loop: it joins a node with itself")
        refuse_pairs(is_repeated(np.sort(pairs)), pairs, "repeats an earlier edge")
        self.forest = forest
        self.items: list[tuple[Any, Any]] = list(map(tuple, pairs.tolist()))
        self._u, self._v = np.ascontiguousarray(pairs.T, np.int32)
        self._e = np.arange(len(pairs), dtype=np.int32)
        self.K = self._rank()
        """The number of edges of a tree, or the most of a forest."""

    @classmethod
    def from_networkx(cls, graph: Any, *, forest: bool = False) -> "SpanningTree":
        """The spanning trees of a networkx graph; `items` are its own edges.

        >>> import networkx as nx
        >>> import numpy as np
        >>> from superarm import SpanningTree
        >>> oracle = SpanningTree.from_networkx(nx.Graph([("ann", "bob"), ("bob", "cid"), ("cid", "ann")]))
        >>> [oracle.items[e] for e in oracle(np.array([0.1, 0.2, 0.3]))]
        [('ann', 'cid'), ('bob', 'cid')]
        """
        number, items, pairs = numbered(graph)
        oracle = cls(pairs, len(number), forest=forest)
        oracle.items = items
        return oracle

    def _rank(self) -> int:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        shape = (self.n_nodes, self.n_nodes)
        parts, part = connected_components(
            coo_array((np.ones(len(self._u)), (self._u, self._v)), shape)
        )
        if parts > 1 and not self.forest:
            raise InfeasibleError(
                f"no tree spans the graph: no path joins node 0 with node {int((part != part[0]).argmax())}; "
                "forest=True allows that"
            )
        return self.n_nodes - int(parts)

    def __repr__(self) -> str:
        return f"SpanningTree({self.n_nodes} nodes, {len(self.items)} edges{', forest=True' * self.forest})"

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = check_weights(w, len(self.items))
        rows = np.ascontiguousarray(w.reshape(math.prod(w.shape[:-1]), len(self.items)))
        least = np.nextafter(0.0, 1.0) if self.forest else np.finfo(np.float64).min
        A = _forests(rows, self._u, self._v, self._e, self.n_nodes, self.K, least)
        feasible(self.forest or bool((A >= 0).all()), self)
        return A.reshape(*w.shape[:-1], self.K)

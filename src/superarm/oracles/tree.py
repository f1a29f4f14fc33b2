"""Spanning trees and forests, by Borůvka's rounds: each component takes its heaviest edge to
another one.

code        shape      meaning, in the compiled part
w           (n, E)     weights, one row per problem
edges                  all edges, by item
live                   the edges between components: the ends are their roots
root        (N,)       the node that stands for the component of each node
"""

from typing import Any, NamedTuple, Self

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import require_count
from superarm.errors import InfeasibleError
from superarm.oracles.base import feasible, is_full
from superarm.oracles.edges import EdgeOracle, compacted, edges_of, number


class _Edges(NamedTuple):
    """Edges between components, or between nodes at first."""

    weight: Array  # (E,)
    u: Array  # (E,) one end: a node, or the root of its component
    v: Array  # (E,) the other end
    item: Array  # (E,)


@compiled
def _contract(edges: _Edges, m: int, lo: float, hi: float, root: Array, live: _Edges) -> int:
    """Copy to `live` the first m edges that join two components and weigh in [lo, hi); returns
    their number.
    """
    n = 0
    for i in range(m):
        x = edges.weight[i]
        if lo <= x < hi:
            a = root[edges.u[i]]
            b = root[edges.v[i]]
            live.weight[n] = x
            live.u[n] = a
            live.v[n] = b
            live.item[n] = edges.item[i]
            n += a != b  # a branch would often be mispredicted, here and below
    return n


@compiled
def _compare(live: _Edges, m: int, record: Array, at: Array) -> None:
    """Find the heaviest of the first m live edges at each root: its weight, and its place among
    them; ties go to the lowest index.
    """
    for i in range(m):
        x = live.weight[i]
        a = live.u[i]
        b = live.v[i]
        best_of_a = x > record[a]
        best_of_b = x > record[b]
        record[a] = x if best_of_a else record[a]
        record[b] = x if best_of_b else record[b]
        at[a] = i if best_of_a else at[a]
        at[b] = i if best_of_b else at[b]


@compiled
def _climb(root: Array, x: int) -> None:
    """Let the root of node x be one that is its own root."""
    while root[root[x]] != root[x]:
        root[x] = root[root[x]]


@compiled
def _join(
    roots: Array,
    live: _Edges,
    record: Array,
    at: Array,
    root: Array,
    chosen: Array,
) -> int:
    """Choose the heaviest edge at each root and join the components; returns how many are left,
    first in `roots`.
    """
    for r in roots:
        if record[r] > -np.inf:
            i = at[r]
            other = live.u[i] + live.v[i] - r
            # one of the two that take the same edge stays a root
            if at[other] != i or other < r:
                root[r] = other
                chosen[live.item[i]] = True
    n = 0
    for r in roots:
        record[r] = -np.inf
        if root[r] == r:
            roots[n] = r
            n += 1
        _climb(root, r)
    return n


@compiled
def _forests(w: Array, ends: Array, bars: Array, N: int, K: int, least: float) -> Array:
    """The edges of a heaviest forest among those that weigh at least `least`, for each row of w,
    ascending, -1 pads.

    First come the edges above a bar, then what they left apart: no edge below can replace one
    above.
    """
    E = ends.shape[1]
    places = np.empty((4, E), np.int32)
    items = places[3]
    A = np.full((len(w), K), -1)
    chosen = np.zeros(E, np.bool_)
    record = np.full(N, -np.inf)
    nodes = np.empty((3, N), np.int32)
    at = nodes[0]
    root = nodes[1]
    roots = nodes[2]
    live = _Edges(np.empty(E), places[0], places[1], places[2])
    for e in range(E):
        items[e] = e

    for b in range(len(w)):
        for x in range(N):
            root[x] = x
            roots[x] = x
        left = N
        edges = _Edges(w[b], ends[0], ends[1], items)
        for lo, hi in ((bars[b], np.inf), (least, bars[b])):
            if left == 1 or lo == hi:
                break
            m = _contract(edges, E, lo, hi, root, live)
            while m > 0:
                _compare(live, m, record, at)
                left = _join(roots[:left], live, record, at, root, chosen)
                m = _contract(live, m, lo, hi, root, live)
            for x in range(N):
                _climb(root, x)

        size = 0
        for e in range(E):
            if chosen[e]:
                chosen[e] = False
                A[b, size] = e
                size += 1
    return A


def _bars(w: Array, N: int, least: float) -> Array:
    """For each row of w (n, E) a weight that so few edges reach, by a sample, that it pays to grow
    the forest from them first: (n,).
    """
    E = w.shape[1]
    degree = E / max(N, 1)
    if degree <= 2:
        return np.full(len(w), least)

    sample = w[:, :: max(1, E // 2048)]
    share = np.log2(degree) / (2 * degree)
    at = int(sample.shape[1] * (1 - share))
    in_place = np.partition(sample, at, axis=-1)
    bars: Array = np.maximum(least, in_place[:, at])
    return bars


class SpanningTree(EdgeOracle):
    """Spanning trees of an undirected graph, or with `forest` all sets of edges without a cycle.

    The items are the edges, pairs of whole numbers, in the given order; `items` lists them. With
    `n_nodes` the nodes are 0..n_nodes-1, and without those that have an edge. Of parallel edges a
    tree takes the heaviest, and it takes none from a node to itself. Items are returned in
    ascending order, and ties go to the lowest index. A forest leaves out the edges whose weight is
    not positive, and -1 fills the rest.

    >>> import numpy as np
    >>> from superarm import SpanningTree
    >>> triangle = [(0, 1), (1, 2), (2, 0)]
    >>> SpanningTree(triangle)(np.array([0.3, -0.2, -0.1]))
    array([0, 2])
    >>> SpanningTree(triangle, forest=True)(np.array([0.3, -0.2, -0.1]))
    array([ 0, -1])
    """

    K: int  # the number of edges of a tree, or the most of a forest
    exchanges = True

    def __init__(self, edges: Any, n_nodes: int | None = None, *, forest: bool = False) -> None:
        super().__init__(edges)
        pairs = self._pairs
        self._nodes, ends = compacted(pairs)
        self.n_nodes = len(self._nodes) if n_nodes is None else n_nodes
        require_count(n_nodes=self.n_nodes)
        if n_nodes is not None:
            outside = (pairs.min(1) < 0) | (pairs.max(1) >= n_nodes)
            self._refuse(outside, f"has a node outside 0..{n_nodes - 1}")
        self.forest = forest
        self._ends = np.ascontiguousarray(ends.T, np.int32)
        self.K = self._rank()

    @classmethod
    def from_networkx(cls, graph: Any, *, forest: bool = False) -> Self:
        """The spanning trees of a networkx graph; `items` are its own edges, (u, v), or
        (u, v, key) of a MultiGraph.

        Returns:
            the oracle.

        >>> import networkx as nx
        >>> import numpy as np
        >>> from superarm import SpanningTree
        >>> friends = nx.Graph([("ann", "bob"), ("bob", "cid"), ("cid", "ann")])
        >>> oracle = SpanningTree.from_networkx(friends)
        >>> [oracle.items[e] for e in oracle(np.array([0.1, 0.2, 0.3]))]
        [('ann', 'cid'), ('bob', 'cid')]
        """
        numbers = number(graph.nodes)
        return cls._of_nodes(
            edges_of(graph),
            numbers,
            numbers,
            len(numbers),
            forest=forest,
        )

    def _rank(self) -> int:
        """The number of edges of a tree, or the most of a forest."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        N = len(self._nodes)
        edges = (np.ones(self.L), tuple(self._ends))
        parts, part = connected_components(coo_array(edges, (N, N)))
        if not self.forest:
            self._require_one_part(part)
        return N - int(parts)

    def _require_one_part(self, part: Array) -> None:
        """Refuse a graph that no tree spans, given the part of each node that has an edge."""
        nodes = self._nodes
        if len(nodes) < self.n_nodes and self.n_nodes > 1:
            lonely = np.setdiff1d(np.arange(len(nodes) + 1), nodes)[0]
            raise InfeasibleError(
                f"no tree spans the graph: no edge has node {lonely}; forest=True allows that"
            )
        apart = nodes[part != part[:1]]
        if len(apart):
            raise InfeasibleError(
                f"no tree spans the graph: no path joins node {nodes[0]} with node {apart[0]}; "
                "forest=True allows that"
            )

    def __repr__(self) -> str:
        kind = ", forest=True" if self.forest else ""
        return f"SpanningTree({self.n_nodes} nodes, {self.L} edges{kind})"

    def solve(self, rows: Array) -> Array:
        """The edges of a heaviest tree or forest for each row of weights (n, L): (n, K), -1
        pads.
        """
        least = np.nextafter(0.0, 1.0) if self.forest else np.finfo(np.float64).min
        N = len(self._nodes)
        A = _forests(
            rows,
            self._ends,
            _bars(rows, N, least),
            N,
            self.K,
            least,
        )
        if not self.forest:
            feasible(is_full(A), self)
        return A

"""Oracles over the edges of a graph, which are checked once."""

from collections.abc import Hashable, Iterable
from typing import Any, Self, TypeAlias

import numpy as np

from superarm.arrays import Array
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle

Numbers: TypeAlias = dict[Hashable, int]
"""The number of each node."""


class EdgeOracle(BaseOracle):
    """An oracle whose items are the edges of a graph; `items` lists them.

    Edges between the same two nodes are items of their own, and so is one from a node to itself.
    """

    items: list[tuple[Any, ...]]
    gap = 0.0

    def __init__(self, edges: Any) -> None:
        self._pairs = _as_pairs(edges)
        self.items = list(map(tuple, self._pairs.tolist()))
        self.L = len(self.items)

    @classmethod
    def _of_nodes(
        cls,
        items: Iterable[tuple[Any, ...]],
        first: Numbers,
        second: Numbers,
        *args: Any,
        **options: Any,
    ) -> Self:
        """The oracle over edges between nodes of any kind, given the numbers of their ends."""
        items = list(items)
        oracle = cls([(first[u], second[v]) for u, v, *_ in items], *args, **options)
        oracle.items = items
        return oracle

    def _refuse(self, bad: Array, why: str) -> None:
        """Raise for the first bad edge, if there is one."""
        if not bad.any():
            return
        e = int(bad.argmax())
        raise ParameterError(f"edge {e}, {self.items[e]}, {why}")


def _as_pairs(edges: Any) -> Array:
    """Edges as integers (E, 2), of the type they were given in."""
    try:
        pairs: Array = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"edges must be pairs of node numbers ({error})") from error

    if pairs.size == 0:
        return np.empty((0, 2), np.int64)

    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ParameterError(
            f"edges must be pairs of node numbers, (E, 2), got {pairs.dtype} of shape {pairs.shape}"
        )
    return pairs


def compacted(nodes: Array) -> tuple[Array, Array]:
    """The different nodes, ascending, and the place of each one among them.

    >>> import numpy as np
    >>> compacted(np.array([[7, 500], [500, -3]]))
    (array([ -3,   7, 500]), array([[1, 2],
           [2, 0]]))
    """
    different, place = np.unique(nodes, return_inverse=True)
    return different, place.reshape(nodes.shape)


def edges_of(graph: Any) -> list[tuple[Any, ...]]:
    """The edges of a networkx graph: (u, v), or (u, v, key) where several may join two nodes."""
    if graph.is_multigraph():
        return list(graph.edges(keys=True))
    return list(graph.edges())


def number(nodes: Iterable[Hashable]) -> Numbers:
    """Numbers for the nodes, in their order; a node that comes again keeps its number."""
    return {node: i for i, node in enumerate(dict.fromkeys(nodes))}

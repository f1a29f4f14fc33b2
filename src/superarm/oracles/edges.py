"""Edge lists: what the graph oracles take, checked once."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.errors import ParameterError


def as_pairs(edges: Any) -> Array:
    """Edges as integers (E, 2)."""
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
    return pairs.astype(np.int64)


def is_repeated(pairs: Array) -> Array:
    """Whether each of the pairs (E, 2) has come before."""
    key = pairs @ [pairs.max(initial=0) + 1, 1]
    _, first = np.unique(
        key,
        return_index=True,
    )
    repeated = np.ones(len(pairs), np.bool_)
    repeated[first] = False
    return repeated


def refuse_pairs(bad: Array, pairs: Array, why: str) -> None:
    """Raise for the first bad edge, if there is one."""
    if not bad.any():
        return
    e = int(bad.argmax())
    edge = tuple(pairs[e].tolist())
    raise ParameterError(f"edge {e}, {edge}, {why}")


class NumberedGraph(NamedTuple):
    """A networkx graph with numbers for its nodes."""

    number: dict[Hashable, int]  # of each node
    items: list[tuple[Hashable, Hashable]]  # its edges
    pairs: Array  # (E, 2) its edges by node number


def number_nodes(graph: Any) -> NumberedGraph:
    """The nodes and edges of a networkx graph, numbered in its own order."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    items = [(u, v) for u, v, *_ in graph.edges]
    pairs = [(number[u], number[v]) for u, v in items]
    return NumberedGraph(number, items, as_pairs(pairs))

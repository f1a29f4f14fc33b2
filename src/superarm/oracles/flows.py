"""Edges that carry flows, as linear constraints for `Milp`: the flows are its helpers.

A set of edges connects a root with terminals if a unit of flow reaches each of them along arcs that
are open, and an edge that is chosen opens one of its two arcs, or parts of both. That is more than
the flows alone ask for, and leaves HiGHS less to search: it takes a tenth of the time or less.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers, is_real
from superarm.checks.tables import align_alike, split_labels
from superarm.errors import ParameterError
from superarm.oracles.edges import Numbers, number
from superarm.oracles.milp import Milp


def steiner_tree(
    edges: Iterable[Sequence[Any]],
    terminals: Iterable[Hashable],
    *,
    gap: float = 0.0,
    time_limit: float | None = None,
) -> Milp:
    """Sets of edges that connect the terminals, through other nodes where these help: for edges
    that cost something, the best is a Steiner tree.

    The items are the edges, as pairs of nodes of any kind, in the given order; `items` lists them.
    `graph.edges` of networkx is such a list. Weights are minus the costs, or `minimize` turns it
    round. An edge at a gain, as a sampled cost below 0, is chosen besides. `gap` and `time_limit`
    are those of `Milp`: the tree is the best one, up to the gap, in some tenths of a second for
    200 edges and 8 terminals.

    Returns:
        an oracle over the edges.

    >>> import numpy as np
    >>> from superarm import minimize, steiner_tree
    >>> edges = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "m"), ("b", "m"), ("c", "m")]
    >>> tree = minimize(steiner_tree(edges, ["a", "b", "c"]))
    >>> tree(np.array([2.0, 2.0, 2.0, 1.1, 1.1, 1.1]))
    array([ 3,  4,  5, -1, -1, -1])
    """
    from scipy import sparse

    items = _pairs(edges, "edges")
    nodes = number(node for edge in items for node in edge[:2])
    root, *others = _terminals(terminals, nodes)
    E = len(items)
    T = len(others)
    into = _incidence(items, nodes)
    elsewhere = np.arange(len(nodes)) != root
    both = sparse.hstack([into, -into], format="csr")  # each edge as two arcs
    reached = sparse.kron(sparse.eye_array(T), -both[elsewhere])
    asked = np.zeros((T, len(nodes)))
    asked[np.arange(T), others] = -1

    # the flow y of each terminal reaches it, along arcs that are open, of edges that are chosen
    opened = sparse.kron(np.ones((T, 1)), -sparse.eye_array(2 * E))
    chosen = -sparse.eye_array(E)
    arcs = sparse.hstack([sparse.eye_array(E), sparse.eye_array(E)])
    A = sparse.block_array(
        [
            [None, None, reached],
            [None, opened, sparse.eye_array(2 * E * T)],
            [chosen, arcs, None],
        ]
    )
    b = np.append(asked[:, elsewhere].ravel(), np.zeros(2 * E * T + E))
    oracle = Milp(A, b, helpers=2 * E * (T + 1), gap=gap, time_limit=time_limit)
    oracle.items = items
    return oracle


def network_flow(
    arcs: Iterable[Sequence[Any]],
    supply: Mapping[Hashable, float],
    *,
    capacity: float | Sequence[float] | Mapping[Any, float] | None = None,
    gap: float = 0.0,
    time_limit: float | None = None,
) -> Milp:
    """Sets of arcs that can carry what nodes supply to where it is asked for.

    What an arc is worth does not depend on how much it carries: a cost is that of using it. Where
    each carries a unit or nothing, as with `capacity=1` and whole supplies, that is the minimum
    cost flow; with two units from one node to another, it is two ways that share no arc. Those take
    HiGHS hundredths of a second for 300 arcs; where arcs are worth sharing, a second and sometimes
    ten.

    Args:
        arcs: pairs (from, to) of nodes of any kind, as `graph.edges` of a networkx DiGraph. They
            are the items, in the given order; `items` lists them.
        supply: what leaves the network at a node, below 0, or enters it there at most, above 0. At
            nodes that are not named, as much leaves as enters.
        capacity: how much an arc can carry: one number, or one per arc, in their order or by arc;
            None for any amount.
        gap: as in `Milp`.
        time_limit: as in `Milp`.

    Returns:
        an oracle over the arcs.

    >>> import numpy as np
    >>> from superarm import minimize, network_flow
    >>> arcs = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    >>> two_ways = minimize(network_flow(arcs, {"a": 2, "d": -2}, capacity=1))
    >>> two_ways(np.array([1.0, 5.0, 5.0, 1.0, 1.0]))
    array([ 0,  1,  2,  3, -1])
    """
    from scipy import sparse

    items = _pairs(arcs, "arcs")
    nodes = number(node for arc in items for node in arc[:2])
    at = _supply(supply, nodes)
    asked = -at[at < 0].sum()
    most = np.minimum(_capacities(capacity, items), asked)
    A = sparse.block_array(
        [
            [None, -_incidence(items, nodes)],  # what leaves less what enters
            [-sparse.diags_array(most), sparse.eye_array(len(items))],
        ]
    )
    b = np.append(at, np.zeros(len(items)))
    oracle = Milp(A, b, helpers=len(items), gap=gap, time_limit=time_limit)
    oracle.items = items
    return oracle


def _pairs(edges: Iterable[Sequence[Any]], name: str) -> list[tuple[Any, ...]]:
    """Edges as tuples that begin with two nodes, checked."""
    listed = edges.tolist() if isinstance(edges, np.ndarray) else edges
    try:
        items = [tuple(edge) for edge in listed]
        pairs = all(len(edge) >= 2 for edge in items)
        hash(tuple(items))
    except TypeError as error:
        raise ParameterError(f"{name} must be pairs of nodes ({error})") from error
    if not items or not pairs:
        raise ParameterError(f"{name} must be pairs of nodes, at least one, got {edges!r:.100}")
    return items


def _incidence(items: list[tuple[Any, ...]], nodes: Numbers) -> Any:
    """What each arc adds to its nodes, (N, E): 1 where it ends, -1 where it starts."""
    from scipy import sparse

    tails = [nodes[edge[0]] for edge in items]
    heads = [nodes[edge[1]] for edge in items]
    signs = np.repeat([-1.0, 1.0], len(items))
    columns = np.tile(np.arange(len(items)), 2)
    return sparse.csr_array((signs, (tails + heads, columns)), (len(nodes), len(items)))


def _terminals(terminals: Iterable[Hashable], nodes: Numbers) -> list[int]:
    """The numbers of the terminals, each once."""
    listed = list(dict.fromkeys(terminals))
    for node in listed:
        if node not in nodes:
            raise ParameterError(f"terminal {node!r} is at no edge")
    if len(listed) < 2:
        raise ParameterError(f"at least two nodes are to be connected, got terminals {listed}")
    return [nodes[node] for node in listed]


def _supply(supply: Mapping[Hashable, float], nodes: Numbers) -> Array:
    """The supply of each node, (N,)."""
    at = np.zeros(len(nodes))
    for node, amount in supply.items():
        if node not in nodes:
            raise ParameterError(f"supply names node {node!r}, which is at no arc")
        if not (is_real(amount) and np.isfinite(amount)):
            raise ParameterError(f"the supply of node {node!r} must be finite, got {amount!r}")
        at[nodes[node]] = amount
    asked = -at[at < 0].sum()
    if at.sum() < -1e-12 * asked:
        raise ParameterError(f"{asked} is asked for, but only {at[at > 0].sum()} supplied")
    return at


def _capacities(capacity: Any, items: list[tuple[Any, ...]]) -> Array:
    """How much each arc can carry, (E,), inf if any amount."""
    n = len(items)
    if capacity is None:
        return np.full(n, np.inf)
    listed, own = split_labels(capacity, ParameterError)
    if own is not None:
        listed = align_alike(capacity, items, "arcs and capacity", ParameterError)
    try:
        given = as_numbers(listed)
    except ValueError as error:
        raise ParameterError(f"capacity must be numbers, one per arc ({error})") from error
    if given.shape not in ((), (n,)) or not (given >= 0).all():
        raise ParameterError(f"capacity must be a number, or {n}, one per arc, and not negative")
    return np.broadcast_to(given, (n,))

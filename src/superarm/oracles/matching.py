"""Matchings: of a dense matrix, and over an edge list with capacities."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from superarm.arrays import Array
from superarm.checks import require_count
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, feasible, starts
from superarm.oracles.bids import Half
from superarm.oracles.bipartite import heaviest_matchings
from superarm.oracles.edges import EdgeOracle, compacted, edges_of, number

PATIENCE = 18
"""How often the search for paths may look at all edges of a graph before bids prepare it."""


CONTESTED = 0.05
"""Favourite columns, as a share of the rows, below which an assignment is contested."""


@functools.cache
def _solver() -> Callable[[Array], Any]:
    """The fastest exact solver at hand: from a cost matrix to rows, ascending, and their columns;
    +inf is forbidden.
    """
    from scipy.optimize import linear_sum_assignment

    try:
        # an optional extra without types
        from lap import lapjvr  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        # SciPy brings no types
        return linear_sum_assignment  # type: ignore[no-any-return]

    def solve(costs: Array) -> Any:
        if _is_contested(costs):
            return linear_sum_assignment(costs)
        return lapjvr(costs, extend_cost=True, return_cost=False)

    return solve


def _centred(costs: Array) -> Array:
    """Costs with the same best assignments, for which there is less contest: each row and column
    less its mean. All are matched in a square, so the mean is paid anyway.
    """
    per_row = costs.mean(axis=1, keepdims=True)
    centred: Array = costs - per_row - (costs - per_row).mean(axis=0)
    return centred


def _is_even(costs: Array) -> bool:
    """Whether means can be subtracted: beside costs that are far larger than others, such as
    penalties, the others would be rounded.
    """
    size = np.abs(costs).ravel()
    low = size.size // 10
    return bool(size.max() <= min(1e4 * np.partition(size, low)[low], 1e250))


def _is_contested(costs: Array) -> bool:
    """Whether nearly all want the same: few columns are the best of some row, as where weights are
    products of few features. There lapx takes up to ten times as long as SciPy.
    """
    few = costs if costs.shape[0] <= costs.shape[1] else costs.T
    favourites = np.unique(few.argmin(axis=1))
    return len(favourites) < CONTESTED * len(few)


@dataclass(frozen=True)
class Assignment(BaseOracle):
    """Perfect matchings of a matrix: a column of its own for each row, or a row for each column if
    those are fewer.

    Item i * n_cols + j pairs row i with column j; items come in the order of rows. SciPy solves it,
    or `lapx` where it is installed; among equally good matchings they may differ.

    Args:
        n_rows: how many rows the matrix has.
        n_cols: how many columns it has.

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
        costs = -w.reshape(self.n_rows, self.n_cols)
        if self.n_rows == self.n_cols and _is_contested(costs) and _is_even(costs):
            costs = _centred(costs)
        try:
            rows, columns = _solver()(costs)
        except ValueError:
            feasible(False, self)
        items: Array = rows * self.n_cols + columns
        return items


class _Side(NamedTuple):
    """The nodes of one side."""

    n: int  # all of them
    place: Array  # (E,) the node of each edge, among the M that have one
    capacity: Array  # (M,) no more than a node has edges


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
        useful = (few.capacity[few.place] > 0) & (many.capacity[many.place] > 0)
        item = np.flatnonzero(useful)
        self._item = item[np.argsort(few.place[item], kind="stable")]
        n = len(few.capacity)
        near = few.place[self._item]
        far = many.place[self._item]
        self._both = near + n + far
        self._near = _half(0, near, n + far, few.capacity)
        self._far = _half(n, far, near, many.capacity)

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

        Returns:
            the oracle.
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
        return heaviest_matchings(
            rows,
            self._item,
            self._both,
            self._near,
            self._far,
            self.K,
            PATIENCE,
        )


def _half(first: int, place: Array, other: Array, capacity: Array) -> Half:
    """One side of the graph, whose first node has this number, for edges to nodes of the other."""
    degree = np.bincount(place, minlength=len(capacity))
    edge = np.argsort(place, kind="stable")
    return Half(first, starts(degree), edge, other[edge], starts(capacity))


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

"""Longest paths across a grid: the paper's synthetic problem."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, prange
from superarm.checks import raise_bad_weight, require_count
from superarm.oracles.base import feasible
from superarm.oracles.path import DagPath, Network, NetworkOracle


@compiled
def _count_unbounded(row: Array) -> int:
    """How many weights are NaN or +inf; apart from the dynamic program, because it runs in vector
    registers.
    """
    n = 0
    for i in range(len(row)):
        n += not row[i] < np.inf
    return n


@compiled
def _one_row(length: Array, right: Array, down: Array, from_left: Array) -> None:
    """Turn the lengths along one row of nodes into those along the next; the right edge wins ties.

    length(r, c) = max(length(r, c-1) + w(right edge), length(r-1, c) + w(down edge))
    """
    here = length[0] + down[0]
    from_left[0] = False
    length[0] = here

    for c in range(1, len(length)):
        by_right = here + right[c - 1]
        by_down = length[c] + down[c]

        here = max(by_right, by_down)
        from_left[c] = by_right >= by_down
        length[c] = here


@compiled
def _two_rows(length: Array, right: Array, down: Array, from_left: Array) -> None:
    """Turn the lengths along one row of nodes into those two rows below; the right edge wins ties.

    The lower row is one node behind the upper one, so that two sums at a time do not wait for each
    other.
    """
    m = right.shape[1]
    upper = length[0] + down[0, 0]
    lower = upper + down[1, 0]
    by_right = upper + right[0, 0]
    by_down = length[1] + down[0, 1]
    upper = max(by_right, by_down)
    from_left[:, 0] = False
    from_left[0, 1] = by_right >= by_down
    length[0] = lower

    for c in range(1, m):
        by_right = upper + right[0, c]
        by_down = length[c + 1] + down[0, c + 1]
        lower_by_right = lower + right[1, c - 1]
        lower_by_down = upper + down[1, c]
        upper = max(by_right, by_down)
        lower = max(lower_by_right, lower_by_down)
        from_left[0, c + 1] = by_right >= by_down
        from_left[1, c] = lower_by_right >= lower_by_down
        length[c] = lower

    by_right = lower + right[1, m - 1]
    by_down = upper + down[1, m]
    from_left[1, m] = by_right >= by_down
    length[m] = max(by_right, by_down)


@compiled
def _longest_grid_path(right: Array, down: Array, edges: Array) -> float:
    """Fill `edges` with a longest path and return its length."""
    m = len(down)
    from_left = np.empty((m + 1, m + 1), np.bool_)
    length = np.zeros(m + 1)  # along a row of nodes
    for c in range(m):
        length[c + 1] = length[c] + right[0, c]
        from_left[0, c + 1] = True

    for r in range(1, m, 2):
        _two_rows(length, right[r : r + 2], down[r - 1 : r + 1], from_left[r : r + 2])
    if m % 2 == 1:
        _one_row(length, right[m], down[m - 1], from_left[m])

    r = c = m
    for k in range(2 * m - 1, -1, -1):
        if from_left[r, c]:
            c -= 1
            edges[k] = r * m + c
        else:
            r -= 1
            edges[k] = m * (m + 1) + r * (m + 1) + c
    longest: float = length[m]
    return longest


@compiled
def longest_grid_paths(w: Array, m: int) -> tuple[Array, Array]:
    """The edges of a longest path, and its length, NaN if a weight is NaN or +inf, for each row of
    w (n, 2m(m+1)).
    """
    n = len(w)
    first_down = m * (m + 1)
    A = np.empty((n, 2 * m), np.int64)
    length = np.empty(n)

    for b in prange(n):
        right = w[b, :first_down]
        down = w[b, first_down:]
        length[b] = _longest_grid_path(
            right.reshape(m + 1, m),
            down.reshape(m, m + 1),
            A[b],
        )
        if _count_unbounded(w[b]) > 0:
            length[b] = np.nan
    return A, length


@dataclass(frozen=True)
class GridPath(NetworkOracle):
    """Longest monotone paths on a grid of (m+1) x (m+1) nodes, from the upper left to the lower
    right corner.

    The items are the edges: first the m(m+1) edges to the right, row by row, then the m(m+1) edges
    down, row by row. A path has 2m of them and is returned from start to end.

    Args:
        m: how many edges a side of the grid has.

    >>> import numpy as np
    >>> from superarm import GridPath
    >>> oracle = GridPath(1)  # edges: 0 and 1 right, above and below; 2 and 3 down, left and right
    >>> oracle(np.array([0.0, 5.0, 1.0, 3.0]))
    array([2, 1])
    """

    m: int
    gap = 0.0
    checks_weights = True

    def __post_init__(self) -> None:
        require_count(m=self.m)

    @property
    def L(self) -> int:
        """Number of edges."""
        return 2 * self.m * (self.m + 1)

    @property
    def K(self) -> int:
        """The number of edges of a path."""
        return 2 * self.m

    @property
    def edges(self) -> Array:
        """Tail and head of each edge as (row, column), in an array (L, 2, 2)."""
        n = self.m + 1
        node = np.moveaxis(np.indices((n, n)), 0, -1)  # (row, column) of each
        right = np.stack([node[:, :-1], node[:, 1:]], axis=2)
        down = np.stack([node[:-1], node[1:]], axis=2)
        return np.concatenate(
            [
                right.reshape(-1, 2, 2),
                down.reshape(-1, 2, 2),
            ]
        )

    @property
    def network(self) -> Network:
        """The grid as a network."""
        ends = self.edges @ [self.m + 1, 1]
        return DagPath(ends, source=0, target=int(ends.max())).network

    def solve(self, rows: Array) -> Array:
        """The edges of a longest path for each row of weights (n, L): (n, 2m)."""
        A, length = longest_grid_paths(rows, self.m)
        if not (length > -np.inf).all():
            if np.isnan(length).any():
                raise_bad_weight(rows)
            feasible(False, self)
        return A

"""Paths."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Array
from superarm.errors import require_count
from superarm.oracles.compiled import compiled, prange
from superarm.problem import as_weights, feasible, refuse_weights


@compiled
def _longest_grid_path(right: Array, down: Array, edges: Array) -> float:
    """Fill `edges` with a longest path and return its length, NaN if a weight is NaN or +inf.

    length(r, c) = max(length(r, c-1) + w(right edge), length(r-1, c) + w(down edge)); the right edge wins ties.
    """
    m = len(down)
    length = np.empty(m + 1)  # of the row of nodes being filled
    from_left = np.empty((m + 1, m + 1), np.bool_)
    valid = True
    length[0] = 0.0
    for c in range(m):
        valid &= right[0, c] < np.inf
        length[c + 1] = length[c] + right[0, c]
        from_left[0, c + 1] = True
    for r in range(1, m + 1):
        valid &= down[r - 1, 0] < np.inf
        length[0] += down[r - 1, 0]
        from_left[r, 0] = False
        for c in range(m):
            valid &= (right[r, c] < np.inf) & (down[r - 1, c + 1] < np.inf)
            by_right, by_down = length[c] + right[r, c], length[c + 1] + down[r - 1, c + 1]
            from_left[r, c + 1] = by_right >= by_down
            length[c + 1] = max(by_right, by_down)
    r = c = m
    for k in range(2 * m - 1, -1, -1):
        if from_left[r, c]:
            c -= 1
            edges[k] = r * m + c
        else:
            r -= 1
            edges[k] = m * (m + 1) + r * (m + 1) + c
    return length[m] if valid else np.nan


@compiled
def _longest_grid_paths(w: Array, m: int) -> tuple[Array, Array]:
    """The edges of a longest path, and its length, for each row of w (n, 2m(m+1))."""
    n = len(w)
    A = np.empty((n, 2 * m), np.int64)
    length = np.empty(n)
    for b in prange(n):
        right = w[b, : m * (m + 1)].reshape(m + 1, m)
        down = w[b, m * (m + 1) :].reshape(m, m + 1)
        length[b] = _longest_grid_path(right, down, A[b])
    return A, length


def _check_lengths(length: Array, w: Array, oracle: object) -> None:
    """Refuse weights that made a length NaN, and problems where no path is left."""
    if np.isnan(length).any():
        refuse_weights(w)
    feasible(bool((length > -np.inf).all()), oracle)


@dataclass(frozen=True)
class GridPath:
    """Longest monotone paths on a grid of (m+1) x (m+1) nodes, from the upper left to the lower right corner.

    The items are the edges: first the m(m+1) edges to the right, row by row, then the m(m+1) edges down, row by row.
    A path has 2m of them and is returned from start to end.

    >>> import numpy as np
    >>> from superarm import GridPath
    >>> oracle = GridPath(1)  # edges: 0 right above, 1 right below, 2 down on the left, 3 down on the right
    >>> oracle(np.array([0.0, 5.0, 1.0, 3.0]))
    array([2, 1])
    """

    m: int

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
    def gap(self) -> float:
        """Exact."""
        return 0.0

    @property
    def edges(self) -> Array:
        """Tail and head of each edge as (row, column): (L, 2, 2)."""
        m = self.m
        right = [((r, c), (r, c + 1)) for r in range(m + 1) for c in range(m)]
        down = [((r, c), (r + 1, c)) for r in range(m) for c in range(m + 1)]
        return np.array(right + down)

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = as_weights(w, self.L)
        A, length = _longest_grid_paths(np.ascontiguousarray(w.reshape(-1, self.L)), self.m)
        _check_lengths(length, w, self)
        return A.reshape(*w.shape[:-1], self.K)

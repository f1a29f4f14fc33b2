"""From one weight vector to batches of them."""

from collections.abc import Callable

import numpy as np

from superarm.arrays import Array


def by_row(solve: Callable[[Array], Array], w: Array, K: int) -> Array:
    """`solve` for each weight vector of w (*B, L), padded with -1 to (*B, K)."""
    rows = w.reshape(-1, w.shape[-1])
    A = np.full((len(rows), K), -1)
    for out, row in zip(A, rows, strict=True):
        items = solve(row)
        out[: len(items)] = items
    return A.reshape(*w.shape[:-1], K)

"""Answers with what they are proven to lack."""

import math
from collections.abc import Callable
from typing import Any

from superarm.arrays import Array, as_like, to_numpy
from superarm.arrays.compiled import for_kernels
from superarm.checks import check_weights

ROUNDING = 1e-11  # a smaller share is none


def lacking(value: float, bound: float, scale: float = 0.0) -> float:
    """The share of the best that a set may lack, where no set is worth more than the bound, which
    is rounded as numbers of this scale are.

    >>> from superarm.oracles.gaps import lacking
    >>> lacking(3.0, 4.0), lacking(4.0, 4.0), lacking(-2.0, -1.0)
    (0.25, 0.0, inf)
    >>> lacking(-1e-7, -1e-7 + 1e-17, scale=0.1)
    0.0
    """
    if bound - value <= ROUNDING * max(abs(bound), scale):
        return 0.0
    if not 0 < bound < math.inf:
        return math.inf
    return 1 - value / bound


def with_gaps(
    solve: Callable[[Array], tuple[Array, Array]], w: Any, L: int | None
) -> tuple[Array, Array]:
    """The items (*B, K) and gaps (*B,) for weights (*B, L), from a function of rows (n, L)."""
    w = check_weights(w, L)
    batch = tuple(w.shape[:-1])
    rows = for_kernels(to_numpy(w)).reshape(math.prod(batch), w.shape[-1])
    A, gap = solve(rows)
    items = A.reshape(*batch, A.shape[-1])
    return as_like(w, items), gap.reshape(batch)

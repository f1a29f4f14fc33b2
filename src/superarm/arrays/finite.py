"""Whether numbers are finite."""

import numpy as np

from superarm.arrays.compiled import compiled_fastmath
from superarm.arrays.types import Array

FLOAT64 = np.dtype(np.float64)


def is_plain(x: Array) -> bool:
    """Whether kernels take an array as it is.

    >>> is_plain(np.zeros(3)), is_plain(np.zeros(3, np.float32)), is_plain(np.zeros(6)[::2])
    (True, False, False)
    """
    return x.dtype == FLOAT64 and x.flags.carray


@compiled_fastmath
def are_finite(rows: Array, w: Array) -> bool:
    """Whether all numbers are finite, of two plain arrays: (n, d), (n,).

    >>> are_finite(np.ones((2, 3)), np.array([1.0, np.nan]))
    False
    """
    total = 0.0  # of zeros: 0 ∞ is NaN, and so is each sum with it
    flat = rows.reshape(-1)
    for i in range(len(flat)):
        total += 0.0 * flat[i]
    for i in range(len(w)):
        total += 0.0 * w[i]
    return total == 0.0

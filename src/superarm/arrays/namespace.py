"""Many matrices times a vector each, as the features of many users are scored.

NumPy calls BLAS for each matrix, which spends a third of the time on rows as short as these. This
kernel is as fast as memory is read.
"""

import numpy as np

from superarm.arrays.compiled import compiled_fastmath
from superarm.arrays.types import Array

MANY = 2**18
"""Numbers in all matrices for which a kernel is worth being compiled."""


def is_worth_kernel(M: Array, v: Array) -> bool:
    """Whether these are matrices and vectors that `batched_matvec` takes, and large enough for
    it.
    """
    if type(M) is not np.ndarray or M.ndim != 3 or M.size < MANY:
        return False
    n, _, d = M.shape
    return M.flags.c_contiguous and v.shape == (n, d)


@compiled_fastmath
def batched_matvec(M: Array, v: Array) -> Array:
    """Each matrix times its vector: (n, L, d), (n, d) -> (n, L), all in C order."""
    n, L, d = M.shape
    out = np.empty((n, L), M.dtype)
    for i in range(n):
        for e in range(L):
            total = M.dtype.type(0)
            for j in range(d):
                total += M[i, e, j] * v[i, j]
            out[i, e] = total
    return out

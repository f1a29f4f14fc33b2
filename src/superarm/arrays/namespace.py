"""Functions that work on arrays of every library: those of the array-API standard, and what it
leaves out (LAPACK, gather and scatter, scores of many users).

`backend(x)` has all of them under the same names for the library of x: NumPy, Torch, or SciPy's
sparse rows. Functions that differ from library to library are one-line calls of it here.

Shapes carry a leading batch `*B` (a single run has `B = ()`), and `-1` in `A` pads sets of fewer
than K items.

    v       (*B, L)         one number per item
    Phi     (*B, L, d)      one row per item
    A       (*B, K) int     items
    factor  (*B, D, D)      upper triangular; R is its leading d x d block
"""

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from superarm.arrays.compiled import compiled_fastmath
from superarm.arrays.numpy import BACKEND as NUMPY
from superarm.arrays.types import (
    Array,
    ColumnSelection,
    Features,
    Product,
    is_product,
    is_selection,
    is_sparse,
    is_tensor,
    unbroadcast,
)

SMALL_ARRAY = 512
"""Numbers up to which one pass over them costs less than a quick look first."""
KERNEL_MIN_NUMBERS = 2**18
"""Numbers in all matrices for which a kernel is worth being compiled."""


class Backend(Protocol):
    """Functions and types of the array-API standard, and the functions of `arrays.numpy`."""

    float32: Any
    float64: Any
    linalg: Any
    rows_per_chunk: Callable[..., int]

    def __getattr__(self, name: str) -> Callable[..., Array]:
        """The function of this name."""
        ...


@functools.cache
def _imported(module: str) -> Any:
    return importlib.import_module(f"superarm.arrays.{module}")


def sparse_arrays() -> Any:
    """`arrays.sparse`, which imports SciPy's sparse arrays."""
    return _imported("sparse")


def torch_arrays() -> Any:
    """`arrays.torch`, which imports Torch."""
    return _imported("torch")


def backend(x: Any) -> Backend:
    """The functions for arrays of the library of x.

    Example:
        >>> import numpy as np
        >>> x = np.array([1.0, -2.0])
        >>> float(backend(x).max(x))
        1.0
    """
    functions: Backend = NUMPY
    if type(x) is np.ndarray:  # first, as this is on the way of every small decision
        return functions
    if is_tensor(x):
        functions = torch_arrays().BACKEND
    elif is_sparse(x):
        functions = sparse_arrays().BACKEND
    elif hasattr(x, "__array_namespace__") and not isinstance(x, np.generic):
        functions = x.__array_namespace__()
    return functions


# --- conversions and checks -----------------------------------------------------------------------


def to_numpy(x: Any) -> Array:
    """The same numbers in a NumPy array."""
    return backend(x).to_numpy(x)


def as_like(like: Features, x: Array) -> Array:
    """The numbers of x in an array of the library of `like`, on the same device."""
    return backend(like).as_like(like, x)


def as_float64(x: Array) -> Array:
    """The same numbers in float64."""
    xp = backend(x)
    return xp.astype(x, xp.float64, copy=False)


def full(shape: Sequence[int], value: Array | float, like: Features | None = None) -> Array:
    """One value, or the values of an array repeated to fill the shape, in an array of the library
    of `like`.
    """
    return backend(value if like is None else like).full(shape, value, like)


def broadcast(x: Array, n: int) -> Array:
    """The same array as n entries of a batch, which share its memory: (*S) -> (n, *S).

    Example:
        >>> import numpy as np
        >>> broadcast(np.array([1.0, 2.0]), 2)
        array([[1., 2.],
               [1., 2.]])
    """
    if type(x) is np.ndarray and x.flags.c_contiguous:  # NumPy's own takes three times as long
        repeated = np.ndarray((n, *x.shape), x.dtype, x, strides=(0, *x.strides))
        repeated.flags.writeable = False
        return repeated
    return backend(x).broadcast_to(x, (n, *x.shape))


def all_finite(x: Array) -> bool:
    """True if these are floating point numbers, and all finite."""
    xp = backend(x)
    if not xp.isdtype(x.dtype, "real floating"):
        return False
    if 0 in x.shape:
        return True
    # both are NaN as soon as one of the numbers is
    is_inside = (xp.min(x) > -math.inf) & (xp.max(x) < math.inf)
    return bool(is_inside)


def below_infinity(x: Array) -> bool:
    """True if none of the numbers is NaN or +inf."""
    if 0 in x.shape:
        return True
    # NaN as soon as one of the numbers is
    return bool(backend(x).max(x) < math.inf)


# --- numbers --------------------------------------------------------------------------------------


def where(condition: Array, x: Array | float, y: Array | float) -> Array:
    """X where the condition holds, y elsewhere; Python numbers count as float64."""
    return backend(condition).where(condition, x, y)


def log(x: Array | float) -> Array:
    """The natural logarithm, elementwise, in float64."""
    xp = backend(x)
    return xp.log(xp.asarray(x, dtype=xp.float64))


def sigmoid(x: Array) -> Array:
    """1/(1 + exp(-x)), elementwise, without overflow."""
    return backend(x).sigmoid(x)


def log_sigmoid(x: Array) -> Array:
    """The logarithm of `sigmoid`, exact far out in both tails."""
    return backend(x).log_sigmoid(x)


# --- gather and scatter ---------------------------------------------------------------------------


def take_rows(Phi: Features, A: Array) -> Array:
    """The rows of the chosen items, zero where A pads: (*B, L, d), (*B, K) -> (*B, K, d).

    Example:
        >>> take_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1]))
        array([[3., 4.],
               [0., 0.]])
    """
    if is_product(Phi):
        rows: Array = take_rows(_left_per_entry(Phi.left, A), A) @ Phi.right
        return rows
    return backend(Phi).take_rows(Phi, A)


def _left_per_entry(left: Array, A: Array) -> Array:
    """The left side of a product, repeated for each entry of a batch if it is shared."""
    if is_sparse(left):
        return left
    return np.broadcast_to(left, A.shape[:-1] + left.shape[-2:])


def take(v: Array, A: Array) -> Array:
    """The numbers of the chosen items, zero where A pads: (*B, L), (*B, K) -> (*B, K)."""
    return take_rows(v[..., None], A)[..., 0]


def add_at(v: Array, A: Array, x: Array) -> Array:
    """A copy of v with x added at the chosen items: (*B, L), (*B, K), (*B, K) -> (*B, L).

    Example:
        >>> add_at(np.zeros(3), np.array([2, 0, -1]), np.array([0.5, 1.0, 9.0]))
        array([1. , 0. , 0.5])
    """
    return backend(v).add_at(v, A, x)


# --- rows -----------------------------------------------------------------------------------------


def row_norms(M: Array) -> Array:
    """The Euclidean norm of each row: (*B, L, d) -> (*B, L)."""
    return backend(M).row_norms(M)


def rows_per_chunk(Phi: Features) -> int:
    """Number of feature rows to work on at a time."""
    return backend(Phi).rows_per_chunk(Phi)


def nonzero_rows(M: Array) -> Array:
    """True for each row with an entry other than zero: (*B, K, d) -> (*B, K) bool."""
    if isinstance(M, np.ndarray) and M.size > SMALL_ARRAY and _is_clearly_nonzero(M):
        return np.ones(M.shape[:-1], np.bool_)
    return backend(M).any(M, axis=-1)


def _is_clearly_nonzero(M: Array) -> bool:
    """True if a quick look tells that no row is zero: at the first column, or at sums of squares,
    which may be zero for tiny numbers too.
    """
    if M[..., 0].all():
        return True
    squares = np.einsum("...kd,...kd->...k", M, M)
    return bool(squares.all())


def with_column(M: Array, v: Array, scale: Array | float) -> Array:
    """[M v] / scale, as rows for `qr_stack`, which refuses what overflows:
    (*B, K, d), (*B, K) -> (*B, K, d+1).
    """
    rows = backend(M).concat([M, v[..., None]], axis=-1)
    # on a GPU never by one number: that is as if times its reciprocal, which rounds twice
    scales = full(v.shape, scale, v) if is_tensor(v) else np.asarray(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        return rows / scales[..., None]


def where_features(condition: Array, x: Features, y: Features) -> Features:
    """The features x of the entries for which the condition (*B) holds, y of the others:
    (*B, L, d).
    """
    holds = condition[..., None, None]
    if is_product(x) and is_product(y) and x.left is y.left:
        return Product(x.left, np.where(holds, x.right, y.right))
    return np.where(holds, x, y)


def matvec(M: Features | ColumnSelection, v: Array) -> Array:
    """Matrix times vector, batched, in float32 if the matrix is: (*B, L, d), (*B, d) -> (*B, L).

    Example:
        >>> Phi = Product(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> matvec(Phi, np.array([1.0, 1.0]))
        array([3., 7.])
    """
    if is_product(M):
        return matvec(M.left, matvec(M.right, v))
    if is_selection(M):
        return M.matvec(v)
    xp = backend(M)
    if M.dtype == xp.float32:
        v = xp.astype(v, xp.float32)
    if is_sparse(M):
        product: Array = M @ v.T
        return product.T
    shared = unbroadcast(M)
    if shared is not None:
        return v @ shared.T
    if is_worth_kernel(M, v):
        return batched_matvec(M, np.ascontiguousarray(v))
    product = M @ v[..., None]
    return product[..., 0]


def is_worth_kernel(M: Array, v: Array) -> bool:
    """True if these are matrices and vectors that `batched_matvec` takes, and large enough for
    it.
    """
    if type(M) is not np.ndarray or M.ndim != 3 or M.size < KERNEL_MIN_NUMBERS:
        return False
    n, _, d = M.shape
    return M.flags.c_contiguous and v.shape == (n, d)


@compiled_fastmath
def batched_matvec(M: Array, v: Array) -> Array:
    """Each matrix times its vector: (n, L, d), (n, d) -> (n, L), all in C order.

    For 64 users x 6,000 items x 20 features 2.5 times as fast as NumPy, which calls BLAS for each
    matrix (benchmarks/users.py).
    """
    n, L, d = M.shape
    out = np.empty((n, L), M.dtype)
    for i in range(n):
        for e in range(L):
            total = M.dtype.type(0)
            for j in range(d):
                total += M[i, e, j] * v[i, j]
            out[i, e] = total
    return out


# --- triangular factors ---------------------------------------------------------------------------


def solve_rows(factor: Array, Phi: Array, transposed: bool = False) -> Array:
    """X with X R = Phi, or X Rᵀ = Phi, one row per item: (*B, D, D), (*B, L, d) -> (*B, L, d)."""
    return backend(factor).solve_rows(factor, Phi, transposed)


def triangle(A: Array) -> Array:
    """R with RᵀR = AᵀA, upper triangular: (*B, M, N) -> (*B, N, N)."""
    return backend(A).triangle(A)

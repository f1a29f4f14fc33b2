"""Kinds of arrays: NumPy's, Torch's tensors, SciPy's sparse rows, and products that are never
multiplied out.

Nothing here imports Torch or SciPy's sparse arrays: such arrays exist only once the caller has
imported them.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from superarm.arrays.random import Stream

Array: TypeAlias = npt.NDArray[Any]
Rng: TypeAlias = "np.random.Generator | Stream | Sequence[Any]"
"""One generator, or one per entry of the leading dimension: replicate i then draws the same alone
and in a batch. A `Stream` has a key per entry."""


@dataclass(frozen=True, eq=False)
class ColumnSelection:
    """A matrix B with one entry per column, never formed: column j of Y B is column source_j of Y,
    times scale_j.

    Example:
        >>> import numpy as np
        >>> B = ColumnSelection(2, np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
        >>> np.asarray(B)
        array([[1., 0., 3.],
               [0., 2., 0.]])
        >>> np.array([[10.0, 20.0]]) @ B
        array([[10., 40., 30.]])
        >>> B.matvec(np.ones(3))
        array([4., 2.])
    """

    n_columns: int  # to choose from
    source: Array  # (d,) int
    scale: Array  # (*B, d)

    __array_ufunc__ = None  # so that Y @ B asks `__rmatmul__`

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of B: (*B, k, d)."""
        *batch, d = self.scale.shape
        k = self.n_columns
        return (*batch, k, d)

    @property
    def ndim(self) -> int:
        """Number of axes of B."""
        return self.scale.ndim + 1

    def __getitem__(self, key: Any) -> "ColumnSelection":
        """One entry or a slice along the first axis of a batch."""
        return ColumnSelection(
            self.n_columns,
            self.source,
            self.scale[key],
        )

    def __rmatmul__(self, Y: Array) -> Array:
        """Y B: (*B, n, k) -> (*B, n, d)."""
        columns: Array = Y[..., self.source]
        scale = self.scale[..., None, :]
        return columns * scale

    def matvec(self, v: Array) -> Array:
        """B v: (*B, d) -> (*B, k)."""
        k = self.n_columns
        terms = self.scale * v
        batch = terms.shape[:-1]
        n = math.prod(batch)
        first = k * np.arange(n)
        bins = first[:, None] + self.source
        sums = np.bincount(
            bins.reshape(-1),
            terms.reshape(-1),
            n * k,
        )
        return sums.reshape(*batch, k)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """B, formed."""
        B = np.zeros(self.shape)
        d = len(self.source)
        column = np.arange(d)
        B[..., self.source, column] = self.scale
        return np.asarray(B, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Product:
    """Feature rows Φ = Y B that are never multiplied out, such as the rows φ_{x,e} = Bᵀy_e that a
    context x makes of the features y_e of each item.

    Example:
        >>> import numpy as np
        >>> Phi = Product(np.eye(3), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        >>> Phi.shape
        (3, 2)
        >>> np.asarray(Phi[1:])
        array([[3., 4.],
               [5., 6.]])
    """

    left: Array  # (*B, L, k) or (L, k)
    right: Array | ColumnSelection  # (*B, k, d)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of Φ: (*B, L, d)."""
        return (
            *self.right.shape[:-2],
            self.left.shape[-2],
            self.right.shape[-1],
        )

    def __getitem__(self, key: Any) -> "Product":
        """One entry or a slice along the first axis: of the batch, or of the rows of a single
        product.
        """
        single = self.right.ndim == 2
        shared = self.left.ndim == 2 and not single
        return Product(
            self.left if shared else self.left[key],
            self.right if single else self.right[key],
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Φ, multiplied out."""
        Phi: Array = self.left @ self.right
        return np.asarray(Phi, dtype=dtype)


Features: TypeAlias = Array | Product
"""The feature rows of all items: (*B, L, d); also a tensor, or SciPy's CSR rows (L, d)."""


def is_product(x: object) -> "TypeIs[Product]":
    """True for features that are kept as a product."""
    return isinstance(x, Product)


def is_selection(x: object) -> "TypeIs[ColumnSelection]":
    """True for a matrix with one entry per column, never formed."""
    return isinstance(x, ColumnSelection)


def is_tensor(x: object) -> bool:
    """True for a Torch tensor."""
    if type(x) is np.ndarray:  # first, as this is on the way of every small decision
        return False
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", ())  # () while Torch is being imported
    return isinstance(x, tensor)


def is_sparse(x: object) -> bool:
    """True for rows in one of SciPy's sparse formats."""
    if type(x) is np.ndarray:
        return False
    sparse = sys.modules.get("scipy.sparse")
    issparse = getattr(sparse, "issparse", None)  # None while SciPy is being imported
    if issparse is None:
        return False
    return bool(issparse(x))


FLOAT64 = np.dtype(np.float64)


def is_contiguous_float64(x: Array) -> bool:
    """True for an array that kernels accept without a copy: float64, writable and in C order.

    >>> is_contiguous_float64(np.zeros(3)), is_contiguous_float64(np.zeros(6)[::2])
    (True, False)
    """
    return x.dtype == FLOAT64 and x.flags.carray


def unbroadcast(M: Array) -> Array | None:
    """The matrix (m, d) that was `broadcast` to a batch (*B, m, d); None if entries may differ.

    Example:
        >>> import numpy as np
        >>> unbroadcast(np.broadcast_to(np.eye(2), (1000, 2, 2))).shape
        (2, 2)
        >>> unbroadcast(np.zeros((1000, 2, 2))) is None
        True
    """
    batch = M.ndim - 2
    if type(M) is not np.ndarray or batch < 1:
        return None
    if any(M.strides[:batch]):
        return None
    shared: Array = M[(0,) * batch]
    return shared

"""The one seam between array backends: everything the algorithms need beyond plain array operators.

A function that meets a Torch tensor is its namesake in `torch_arrays`.

Shapes carry a leading batch `*B` (a single run has `B = ()`), and `-1` in `A` pads sets of fewer
than K items.

    v       (*B, L)         a number an item
    Phi     (*B, L, d)      a row an item
    A       (*B, K) int     items
    factor  (*B, D, D)      upper triangular; R is its leading d x d block
"""

import functools
import importlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dtpqrt, dtrtrs
from scipy.special import expit, log_expit

from superarm.errors import NumericalError, ParameterError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array: TypeAlias = npt.NDArray[Any]
Rng: TypeAlias = np.random.Generator | Sequence[np.random.Generator]
"""One generator, or one for each entry of the leading dimension: replicate i then draws alike alone
or in a batch."""


@dataclass(frozen=True, eq=False)
class Product:
    """Feature rows Φ = Y B that are never formed: as where a context x turns item features y_e into
    φ_{x,e} = Bᵀy_e.
    """

    left: Array  # (*B, L, k) or (L, k)
    right: Array  # (*B, k, d)

    @property
    def shape(self) -> tuple[int, ...]:
        """As of Φ: (*B, L, d)."""
        return (*self.right.shape[:-2], self.left.shape[-2], self.right.shape[-1])

    def __getitem__(self, key: Any) -> "Product":
        """Along the first axis: an entry of a batch, or rows of a single product."""
        if self.right.ndim == 2:
            return Product(self.left[key], self.right)
        return Product(self.left if self.left.ndim == 2 else self.left[key], self.right[key])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Φ itself, for those who ask for an array."""
        Phi: Array = np.asarray(self.left @ self.right, dtype=dtype)
        return Phi


Features: TypeAlias = Array | Product
"""The rows of all items: (*B, L, d)."""

Function = TypeVar("Function", bound=Callable[..., Any])


def is_tensor(x: object) -> bool:
    """Whether it is a Torch tensor. Asking does not import Torch."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)  # None while Torch is being imported
    return kind is not None and isinstance(x, kind)


def or_torch(module: str) -> Callable[[Function], Function]:
    """For a function that gives way to its namesake in `module` where an argument is a tensor, or
    draws them.

    Arguments go by position: this is on the way of every small decision.
    """
    modules = sys.modules

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            if "torch" in modules:
                tensor = getattr(
                    modules["torch"], "Tensor", ()
                )  # nothing yet while Torch is being imported
                for x in args:
                    if isinstance(x, tensor) or hasattr(x, "draws_tensors"):
                        return getattr(importlib.import_module(module), function.__name__)(*args)
            return function(*args)

        return cast(Function, call)

    return decorate


_or_torch = or_torch("superarm.arrays.torch")


def is_product(Phi: Features) -> "TypeIs[Product]":
    """Whether features are a product that is never formed."""
    return isinstance(Phi, Product)


def to_array(Phi: Features) -> Array:
    """The rows themselves: a product is multiplied out."""
    return np.asarray(Phi)


@_or_torch
def matvec(M: Features, v: Array) -> Array:
    """Matrix times vector, batched, in float32 if the matrix is: (*B, L, d), (*B, d) -> (*B, L)."""
    if isinstance(M, Product):
        return matvec(M.left, matvec(M.right, v))
    product: Array = M @ (v.astype(np.float32) if M.dtype == np.float32 else v)[..., None]
    return product[..., 0]


@_or_torch
def double(x: Array) -> Array:
    """In float64."""
    return x.astype(np.float64, copy=False)


@_or_torch
def row_norms(M: Array) -> Array:
    """Euclidean norm of each row: (*B, L, d) -> (*B, L)."""
    norms: Array = np.sqrt(np.einsum("...ld,...ld->...l", M, M))
    return norms


@_or_torch
def nonzero_rows(M: Array) -> Array:
    """Whether each row has an entry that is not zero: (*B, K, d) -> (*B, K) bool."""
    return np.asarray(M.any(axis=-1))


@_or_torch
def joined(M: Array, v: Array, scale: Array | float) -> Array:
    """[M v] / scale, as rows for `qr_update`, which refuses what overflows: (*B, K, d), (*B, K) ->
    (*B, K, d+1).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows: Array = np.concatenate([M, v[..., None]], axis=-1) / np.asarray(scale)[..., None]
    return rows


@_or_torch
def full(shape: tuple[int, ...], value: Array | float, like: Features | None = None) -> Array:
    """One value, or the values of an array repeated to fill the shape, in an array of the kind of
    `like`.
    """
    return np.full(shape, value)


@_or_torch
def log(x: Array | float) -> Array:
    """Natural logarithm, elementwise."""
    y: Array = np.log(x, dtype=np.float64)
    return y


@_or_torch
def sigmoid(x: Array) -> Array:
    """1/(1 + exp(-x)), elementwise, without overflow."""
    p: Array = expit(x)
    return p


@_or_torch
def log_sigmoid(x: Array) -> Array:
    """The logarithm of `sigmoid`, exact far out in both tails."""
    p: Array = log_expit(x)
    return p


@_or_torch
def where(condition: Array, x: Array | float, y: Array | float) -> Array:
    """X where the condition holds, y elsewhere."""
    return np.where(condition, x, y)


@_or_torch
def max_abs(x: Array) -> float:
    """The largest absolute value, 0 if there is none."""
    return float(abs(x).max(initial=0.0))


@_or_torch
def all_finite(x: Array) -> bool:
    """Whether all are floating point numbers, and finite."""
    return bool(x.dtype.kind == "f" and np.isfinite(x).all())


@_or_torch
def below_infinity(x: Array) -> bool:
    """Whether none is NaN or +inf."""
    return bool(x.max(initial=-np.inf) < np.inf)  # NaN or +inf as soon as one is


@_or_torch
def to_numpy(x: Any) -> Array:
    """As a NumPy array."""
    return np.asarray(x)


@_or_torch
def as_like(like: Features, x: Array) -> Array:
    """X as an array of the kind of `like`, where that is."""
    return x


def where_features(condition: Array, x: Features, y: Features) -> Features:
    """The features x of the entries for which the condition (*B) holds, y of the others: (*B, L,
    d).
    """
    of = condition[..., None, None]
    if isinstance(x, Product) and isinstance(y, Product) and x.left is y.left:
        return Product(x.left, np.where(of, x.right, y.right))
    return np.where(of, np.asarray(x), np.asarray(y))


@_or_torch
def flatnonzero(x: Array) -> Array:
    """Where a flat array is not zero."""
    return np.flatnonzero(x)


# --- gather and scatter ---------------------------------------------------------------------------------------


def _flat(A: Array, L: int) -> Array:
    """Items as rows of the batch laid end to end."""
    batch = A.shape[:-1]
    return A + np.arange(0, L * math.prod(batch), L).reshape(*batch, 1)


@_or_torch
def take_rows(Phi: Features, A: Array) -> Array:
    """The rows of the chosen items, zero where A pads: (*B, L, d), (*B, K) -> (*B, K, d)."""
    if isinstance(Phi, Product):
        left = np.broadcast_to(Phi.left, (*A.shape[:-1], *Phi.left.shape[-2:]))
        product: Array = take_rows(left, A) @ Phi.right
        return product
    L, d = Phi.shape[-2:]
    rows: Array = Phi.reshape(math.prod(Phi.shape[:-1]), d)[_flat(A, L)]
    rows[A < 0] = 0
    return rows


@_or_torch
def take(v: Array, A: Array) -> Array:
    """The numbers of the chosen items, zero where A pads: (*B, L), (*B, K) -> (*B, K)."""
    return take_rows(v[..., None], A)[..., 0]


@_or_torch
def add_at(v: Array, A: Array, x: Array) -> Array:
    """A copy of v with x added at the chosen items: (*B, L), (*B, K), (*B, K) -> (*B, L)."""
    out = v.copy()
    chosen = A >= 0
    np.add.at(out.reshape(-1), _flat(A, v.shape[-1])[chosen], np.broadcast_to(x, A.shape)[chosen])
    return out


# --- draws ----------------------------------------------------------------------------------------------------


def _draw(rng: Rng, draw: Callable[..., Array], *parameters: Array) -> Array:
    if isinstance(rng, np.random.Generator):
        return draw(rng, *parameters)
    if len(rng) != len(parameters[0]):
        raise ParameterError(
            f"a batch of {len(parameters[0])} needs a generator an entry, got {len(rng)}"
        )
    return np.stack([draw(g, *p) for g, *p in zip(rng, *parameters, strict=True)])


@_or_torch
def normal(rng: Rng, like: Array) -> Array:
    """Independent N(0, 1), in the shape of `like`."""
    return _draw(rng, lambda g, x: g.standard_normal(x.shape), like)


@_or_torch
def uniform(rng: Rng, like: Array) -> Array:
    """Independent uniforms on [0, 1), in the shape of `like`."""
    return _draw(rng, lambda g, x: g.random(x.shape), like)


@_or_torch
def beta(rng: Rng, a: Array, b: Array) -> Array:
    """Independent Beta(a, b)."""
    return _draw(rng, lambda g, a, b: g.beta(a, b), a, b)


def seeds(rng: Rng, like: Array) -> Array:
    """A random 64-bit seed for a kernel, in the shape of `like`."""
    return _draw(rng, lambda g, x: g.integers(2**64, size=np.shape(x), dtype=np.uint64), like)


@_or_torch
def spawn(rng: Rng, n: int) -> list[Rng]:
    """N independent streams, each shaped like `rng`.

    Seeded by draws, because Generator.spawn counts children on a SeedSequence that the caller may
    use again.
    """
    if isinstance(rng, np.random.Generator):
        return [np.random.default_rng(rng.integers(2**63, size=4)) for _ in range(n)]
    return list(zip(*(spawn(g, n) for g in rng), strict=True))


@_or_torch
def hashed_uniform(*keys: Array) -> Array:
    """Uniforms on [0, 1) that are a pure function of the keys' bits (SplitMix64, a round a key)."""
    h = np.zeros(1, np.uint64)
    for key in keys:
        h = (h ^ np.ascontiguousarray(key, np.float64).view(np.uint64)) + np.uint64(
            0x9E3779B97F4A7C15
        )
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h = h ^ (h >> np.uint64(31))
    return (h >> np.uint64(11)) * 2.0**-53


# --- triangular factors ---------------------------------------------------------------------------------------
# LAPACK wants Fortran order, so each D x D slice is kept as the transpose of a C-ordered one: no copies on the way in.


@_or_torch
def scaled_identity(
    scale: Array | float, d: int, D: int, batch: tuple[int, ...], like: Features | None = None
) -> Array:
    """A D x D matrix an entry, zero but for `scale` (*B) on the first d places of the diagonal:
    (*B, D, D).
    """
    out = np.zeros((*batch, D, D))
    np.einsum("...ii->...i", out)[..., :d] = np.asarray(scale)[..., None]
    return out.swapaxes(-1, -2)


@_or_torch
def is_steep(R: Array, ratio: float) -> Array:
    """Whether the largest entry on the diagonal exceeds the least by more than the ratio: (*B, d,
    d) -> (*B,) bool.
    """
    diagonal = R.diagonal(axis1=-2, axis2=-1)
    return np.asarray(diagonal.max(-1) > ratio * diagonal.min(-1))


@_or_torch
def log_det(R: Array) -> Array:
    """Log det of an upper triangle with positive diagonal: (*B, d, d) -> (*B,)."""
    total: Array = np.log(R.diagonal(axis1=-2, axis2=-1)).sum(-1)
    return total


def _slices(factor: Array) -> Array:
    D = factor.shape[-1]
    return factor.swapaxes(-1, -2).reshape(-1, D, D)


@_or_torch
def solve(factor: Array, b: Array) -> Array:
    """X with R x = b, where R is the leading block of `factor` of b's length: (*B, D, D), (*B, d)
    -> (*B, d).
    """
    d = b.shape[-1]
    x = np.empty(b.shape)
    for out, F, rhs in zip(x.reshape(-1, d), _slices(factor), b.reshape(-1, d), strict=True):
        out[:] = dtrtrs(F[:d].T, rhs)[0]
    return x


@_or_torch
def solve_rows(factor: Array, Phi: Array) -> Array:
    """X with X R = Phi, a row an item: (*B, D, D), (*B, L, d) -> (*B, L, d)."""
    L, d = Phi.shape[-2:]
    Phi = np.broadcast_to(Phi, (*factor.shape[:-2], L, d))
    X = [
        dtrtrs(F[:d].T, rows.T, trans=1)[0].T
        for F, rows in zip(_slices(factor), Phi.reshape(-1, L, d), strict=True)
    ]
    return X[0].reshape(Phi.shape) if len(X) == 1 else np.stack(X).reshape(Phi.shape)


@_or_torch
def solved_row_norms(factor: Array, Phi: Features) -> Array:
    """The norms of the rows of `solve_rows`, a part at a time that stays in the cache: (*B, L).

    Of a product Y B they are those of Y X with X R = B, and with Xᵀ = QT those of Y Tᵀ.
    """
    if isinstance(Phi, Product):
        T: Array = np.asarray(
            np.linalg.qr(solve_rows(factor, Phi.right).swapaxes(-1, -2), mode="r")
        )
        return product_norms(Phi.left, T)
    return _by_parts(Phi, lambda rows: row_norms(solve_rows(factor, rows)))


@_or_torch
def probe_direction(Phi: Array) -> Array:
    """A direction with a share of every column, of no simple relation to one another: (*B, L, d) ->
    (*B, d).
    """
    max_abs = np.abs(Phi).max(axis=-2).astype(np.float64)
    direction: Array = np.cos(np.arange(1.0, Phi.shape[-1] + 1) ** 2) / np.where(
        max_abs > 0, max_abs, 1.0
    )
    return direction


@_or_torch
def probe(Phi: Array, direction: Array) -> Array:
    """The part of each row along the direction, in float64: (*B, L, d), (*B, d) -> (*B, L)."""
    return _by_parts(Phi, lambda rows: (rows @ direction[..., None])[..., 0])


@_or_torch
def product_norms(Phi: Array, U: Array) -> Array:
    """The norms of the rows of ΦUᵀ, likewise: (*B, L, d), (*B, K, d) -> (*B, L)."""
    return _by_parts(Phi, lambda rows: row_norms(rows @ U.swapaxes(-1, -2)))


def _by_parts(Phi: Array, function: Callable[[Array], Array]) -> Array:
    """A function of feature rows with a number a row, a quarter of a million entries at a time:
    (*B, L).
    """
    L, d = Phi.shape[-2:]
    step = max(1, 2**18 // d)
    parts = [function(Phi[..., start : start + step, :]) for start in range(0, L, step)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


@_or_torch
def shrinkage(factor: Array, rows: Array) -> Array:
    """U with Σ - UᵀU the covariance (RᵀR)⁻¹ = Σ after rows are added to R: (*B, D, D), (*B, K, d)
    -> (*B, K, d).

    Σ' = Σ - ΣXᵀ(I + XΣXᵀ)⁻¹XΣ, with V = XR⁻¹ and I + VVᵀ = CCᵀ:  U = C⁻¹V R⁻ᵀ.
    """
    K, d = rows.shape[-2:]
    U = np.empty(rows.shape)
    for out, F, X in zip(U.reshape(-1, K, d), _slices(factor), rows.reshape(-1, K, d), strict=True):
        V = dtrtrs(F[:d].T, X.T, trans=1)[0].T
        Ct: Array = np.asarray(
            np.linalg.qr(np.vstack([np.eye(K), V.T]), mode="r")
        )  # Cholesky of I + VVᵀ could fail
        out[:] = dtrtrs(F[:d].T, dtrtrs(Ct, V, trans=1)[0].T)[0].T
    return U


def qr_downdate(factor: Array, rows: Array) -> Array:
    """The triangular factor of `factor` without `rows`, which are at most half of it: (*B, D, D)
    both.

    With R = [S s; 0 r] and rows = [V v; 0 u], X = V S⁻¹ and C the Cholesky factor of I - XᵀX, whose
    eigenvalues are at least a half: SᵀS - VᵀV = (CS)ᵀ(CS). With e = Vθ - v, what θ misses the rows
    by once they are gone, r² becomes r² - u² - ‖e‖² + ‖Xᵀe‖². So nothing large is ever subtracted
    from what is large.
    """
    S, s, V, v = (
        factor[..., :-1, :-1],
        factor[..., :-1, -1],
        rows[..., :-1, :-1],
        rows[..., :-1, -1],
    )
    Xt = solve_rows(factor, V).swapaxes(-1, -2)
    Ct = np.linalg.cholesky(np.eye(S.shape[-1]) - Xt @ Xt.swapaxes(-1, -2))  # Cᵀ, lower
    out = np.zeros_like(factor.swapaxes(-1, -2), order="C").swapaxes(-1, -2)
    out[..., :-1, :-1] = np.triu(Ct.swapaxes(-1, -2) @ S)
    z = np.linalg.solve(Ct, (s - matvec(Xt, v))[..., None])
    out[..., :-1, -1] = z[..., 0]
    e = matvec(Xt.swapaxes(-1, -2), np.linalg.solve(Ct.swapaxes(-1, -2), z)[..., 0]) - v
    with np.errstate(over="ignore", invalid="ignore"):
        r2 = (
            factor[..., -1, -1] ** 2
            - rows[..., -1, -1] ** 2
            - (e**2).sum(-1)
            + (matvec(Xt, e) ** 2).sum(-1)
        )
    out[..., -1, -1] = np.sqrt(
        np.where(r2 < 0, 0.0, r2)
    )  # of a sum of squares: below 0 by rounding only
    if not np.isfinite(out).all():
        raise NumericalError(
            "beliefs are too large to merge: their squares leave the range of float64"
        )
    return out


@_or_torch
def qr_update(factor: Array, rows: Array, present: Array) -> Array:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows that are
    present (LAPACK tpqrt).

    (*B, D, D), (*B, K, D), (*B, K) bool -> (*B, D, D)
    """
    K, D = rows.shape[-2:]
    # A Householder reflection flips the sign of the diagonal it meets: from -R it comes out positive.
    out = np.negative(factor.swapaxes(-1, -2), order="C")
    slices = out.reshape(-1, D, D)
    n = len(slices)
    for F, B, keep in zip(slices, rows.reshape(n, K, D), present.reshape(n, K), strict=True):
        B = B.T[:, keep].T  # in Fortran order
        if len(B):
            dtpqrt(0, min(16, D), F.T, B, overwrite_a=1, overwrite_b=1)
    diagonal = out.diagonal(axis1=-2, axis2=-1)
    if not math.isfinite(diagonal.sum()):
        raise NumericalError(
            "features or weights, divided by sigma, are not finite or leave the range of float64"
        )
    if not (diagonal > 0).all():
        out *= np.where(np.signbit(diagonal), -1.0, 1.0)[..., None, :]
    return out.swapaxes(-1, -2)

"""The one seam between kinds of arrays: everything the algorithms need beyond plain array
operators.

What the array-API standard covers is written once, here, on a namespace `xp` of the standard's
functions. `arrays.numpy` and `arrays.torch` hold the rest: LAPACK, hashes, gather and
scatter; `arrays.draws` holds the random draws.

Shapes carry a leading batch `*B` (a single run has `B = ()`), and `-1` in `A` pads sets of fewer
than K items.

    v       (*B, L)         one number per item
    Phi     (*B, L, d)      one row per item
    A       (*B, K) int     items
    factor  (*B, D, D)      upper triangular; R is its leading d x d block
"""

import math

import numpy as np

from superarm.arrays.qr_update import (
    UpdatedFactor as UpdatedFactor,
    qr_append as qr_append,
    refuse_rows as refuse_rows,
    qr_stack as qr_stack,
)
from superarm.arrays.column_statistics import (
    summarize_columns as summarize_columns,
    merge_column_statistics as merge_column_statistics,
    column_scales as column_scales,
    add_rows as add_rows,
)
from superarm.arrays.namespace import is_worth_kernel, batched_matvec
from superarm.arrays.counters import Counter as Counter
from superarm.arrays.draws import (
    beta as beta,
    is_counter as is_counter,
    item_normal as item_normal,
    normal as normal,
    seeds as seeds,
    spawn as spawn,
    uniform as uniform,
)
from superarm.arrays.finite import are_finite as are_finite, is_plain as is_plain
from superarm.arrays.types import (
    Array as Array,
    Features as Features,
    Product as Product,
    Rng as Rng,
    ColumnSelection as ColumnSelection,
    is_product as is_product,
    is_selection as is_selection,
    is_sparse as is_sparse,
    is_tensor as is_tensor,
    namespace,
    unbroadcast as unbroadcast,
    broadcast as broadcast,
    sparse_arrays as sparse_arrays,
)
from superarm.arrays.posterior_std import (
    by_parts,
    is_ill_conditioned as is_ill_conditioned,
    product_row_norms as product_row_norms,
    posterior_row_norms as posterior_row_norms,
)
from superarm.arrays.numpy import (
    add_at as add_at,
    as_like as as_like,
    full as full,
    hashed_uniform as hashed_uniform,
    log_sigmoid as log_sigmoid,
    row_norms as row_norms,
    sigmoid as sigmoid,
    solve_rows as solve_rows,
    take_rows as take_rows,
    to_numpy as to_numpy,
    triangle,
    where as where,
)
from superarm.errors import NumericalError

# --- conversions and checks -----------------------------------------------------------------------


def as_float64(x: Array) -> Array:
    """The same numbers in float64."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def all_finite(x: Array) -> bool:
    """Whether these are floating point numbers, and all finite."""
    xp = namespace(x)
    if not xp.isdtype(x.dtype, "real floating"):
        return False
    if 0 in x.shape:
        return True
    # both are NaN as soon as one of the numbers is
    inside = (xp.min(x) > -math.inf) & (xp.max(x) < math.inf)
    return bool(inside)


def below_infinity(x: Array) -> bool:
    """Whether none of the numbers is NaN or +inf."""
    if 0 in x.shape:
        return True
    # NaN as soon as one of the numbers is
    return bool(namespace(x).max(x) < math.inf)


def flatnonzero(x: Array) -> Array:
    """The places at which a flat array is not zero: (L,) -> (n,) int."""
    places: Array = namespace(x).nonzero(x)[0]
    return places


# --- rows -----------------------------------------------------------------------------------------


def take(v: Array, A: Array) -> Array:
    """The numbers of the chosen items, zero where A pads: (*B, L), (*B, K) -> (*B, K)."""
    return take_rows(
        v[..., None],
        A,
    )[..., 0]


def log(x: Array | float) -> Array:
    """The natural logarithm, elementwise, in float64."""
    xp = namespace(x)
    return xp.log(xp.asarray(x, dtype=xp.float64))


def matvec(M: Features | ColumnSelection, v: Array) -> Array:
    """Matrix times vector, batched, in float32 if the matrix is: (*B, L, d), (*B, d) -> (*B, L).

    Example:
        >>> Phi = Product(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> matvec(Phi, np.array([1.0, 1.0]))
        array([3., 7.])
    """
    if is_product(M):
        return matvec(
            M.left,
            matvec(M.right, v),
        )
    if is_selection(M):
        return M.times(v)
    xp = namespace(M)
    if M.dtype == xp.float32:
        v = xp.astype(v, xp.float32)
    if is_sparse(M):
        of_rows: Array = M @ v.T
        return of_rows.T
    one = unbroadcast(M)
    if one is not None:
        return v @ one.T
    if is_worth_kernel(M, v):
        return batched_matvec(M, np.ascontiguousarray(v))
    product: Array = M @ v[..., None]
    return product[..., 0]


FEW = 512
"""Numbers up to which one pass over them costs less than a quick look first."""


def nonzero_rows(M: Array) -> Array:
    """Whether each row has an entry other than zero: (*B, K, d) -> (*B, K) bool."""
    if isinstance(M, np.ndarray) and M.size > FEW and _clearly_nonzero(M):
        return np.ones(M.shape[:-1], np.bool_)
    return namespace(M).any(M, axis=-1)


def _clearly_nonzero(M: Array) -> bool:
    """Whether a quick look tells that no row is zero: at the first column, or at sums of squares,
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
    rows = namespace(M).concat(
        [M, v[..., None]],
        axis=-1,
    )
    # on a GPU never by one number: that is as if times its reciprocal, which rounds twice
    scales = full(v.shape, scale, v) if is_tensor(v) else np.asarray(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        return rows / scales[..., None]


def entry_of(Phi: Features, b: tuple[int, ...]) -> Features:
    """The features of one entry of a batch; of a single run, whose only entry is (), all of them.

    Sparse rows of older versions of SciPy know no index ().
    """
    return Phi[b] if b else Phi


def where_features(condition: Array, x: Features, y: Features) -> Features:
    """The features x of the entries for which the condition (*B) holds, y of the others:
    (*B, L, d).
    """
    holds = condition[..., None, None]
    if is_product(x) and is_product(y) and x.left is y.left:
        return Product(
            x.left,
            np.where(holds, x.right, y.right),
        )
    return np.where(
        holds,
        x,
        y,
    )


def solve(factor: Array, b: Array) -> Array:
    """X with R x = b, where R is the leading block of `factor` of b's length:
    (*B, D, D), (*B, d) -> (*B, d).
    """
    x = solve_rows(factor, b[..., None, :], True)
    return x[..., 0, :]


def probe(Phi: Array, direction: Array) -> Array:
    """The part of each row along the direction, in float64: (*B, L, d), (*B, d) -> (*B, L)."""
    if is_sparse(Phi):
        return Phi @ direction
    xp = namespace(Phi)
    return by_parts(
        Phi,
        lambda rows: xp.matmul(rows, direction[..., None])[..., 0],
    )


def _extremes(Phi: Array) -> tuple[Array, Array]:
    """The least and the largest entry of each column: (*B, L, d) -> (*B, d) twice."""
    if is_sparse(Phi):
        _, _, least, most = summarize_columns(Phi)
        return least, most
    xp = namespace(Phi)
    return xp.min(Phi, axis=-2), xp.max(Phi, axis=-2)


def fingerprint_probe(Phi: Array) -> Array:
    """A direction with a share of every column, of no simple relation to one another:
    (*B, L, d) -> (*B, d).
    """
    least, most = _extremes(Phi)
    xp = namespace(least)
    widest = xp.maximum(most, -least)
    scale = xp.where(
        widest > 0,
        as_float64(widest),
        1.0,
    )
    column = xp.arange(
        1.0,
        Phi.shape[-1] + 1,
        dtype=xp.float64,
        device=least.device,
    )
    return xp.cos(column**2) / scale


# --- triangular factors ---------------------------------------------------------------------------


def diagonal(values: Array) -> Array:
    """Matrices that are zero but for the values on their diagonals: (*B, d) -> (*B, d, d)."""
    xp = namespace(values)
    place = xp.arange(
        values.shape[-1],
        device=values.device,
    )
    return xp.where(
        place[:, None] == place,
        values[..., None],
        0.0,
    )


def log_det(R: Array) -> Array:
    """Log det of an upper triangle with positive diagonal: (*B, d, d) -> (*B,)."""
    xp = namespace(R)
    diagonal = xp.linalg.diagonal(R)
    return xp.sum(
        xp.log(diagonal),
        axis=-1,
    )


def covariance_downdate(factor: Array, rows: Array) -> Array:
    """U with Σ - UᵀU the covariance (RᵀR)⁻¹ = Σ after rows are added to R:
    (*B, D, D), (*B, K, d) -> (*B, K, d).

    Σ' = Σ - ΣXᵀ(I + XΣXᵀ)⁻¹XΣ, with V = XR⁻¹ and I + VVᵀ = CCᵀ:  U = C⁻¹V R⁻ᵀ.
    """
    K = rows.shape[-2]
    V = solve_rows(factor, rows)
    identity = diagonal(full((*V.shape[:-2], K), 1.0, V))
    # Cᵀ is made triangular, because the Cholesky factorization of I + VVᵀ could fail
    stacked = namespace(V).concat(
        [identity, V.mT],
        axis=-2,
    )
    Ct = triangle(stacked)
    W = solve_rows(Ct, V.mT).mT
    return solve_rows(factor, W, True)


def qr_downdate(factor: Array, rows: Array) -> Array:
    """The triangular factor of `factor` without `rows`, which are at most half of it:
    (*B, D, D) both.

    With R = [S s; 0 r] and rows = [V v; 0 u], X = V S⁻¹ and C the Cholesky factor of I - XᵀX, whose
    eigenvalues are at least a half: SᵀS - VᵀV = (CS)ᵀ(CS). With e = Vθ - v, what θ misses the rows
    by once they are gone, r² becomes r² - u² - ‖e‖² + ‖Xᵀe‖². So nothing large is ever subtracted
    from what is large.
    """
    xp = namespace(factor)
    S = factor[..., :-1, :-1]
    s = factor[..., :-1, -1]
    V = rows[..., :-1, :-1]
    v = rows[..., :-1, -1]
    Xt = solve_rows(factor, V).mT
    d = S.shape[-1]
    identity = diagonal(full((d,), 1.0, factor))
    Ct = xp.linalg.cholesky(identity - Xt @ Xt.mT)  # Cᵀ, lower
    rest = s - matvec(Xt, v)
    z = xp.linalg.solve(Ct, rest[..., None])
    S_theta = xp.linalg.solve(Ct.mT, z)
    e = (Xt.mT @ S_theta)[..., 0] - v
    with np.errstate(over="ignore", invalid="ignore"):
        r2 = (
            factor[..., -1, -1] ** 2
            - rows[..., -1, -1] ** 2
            - xp.sum(e**2, axis=-1)
            + xp.sum(matvec(Xt, e) ** 2, axis=-1)
        )
    out = xp.zeros_like(factor.mT).mT
    out[..., :-1, :-1] = xp.triu(Ct.mT @ S)
    out[..., :-1, -1] = z[..., 0]
    # of a sum of squares: below 0 by rounding only
    out[..., -1, -1] = xp.sqrt(xp.where(r2 < 0, 0.0, r2))
    if not all_finite(out):
        raise NumericalError(
            "beliefs are too large to merge: their squares leave the range of float64"
        )
    return out

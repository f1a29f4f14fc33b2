"""What the columns of features hold, read a part of the rows at a time.

Phi     (*B, L, d)      one row per item
stats   (*B, 4, d)      per column: how many entries are not zero, the sum of their squares,
                        and the least and the largest of all entries
"""

import functools
import math

import numpy as np

from superarm.arrays.compiled import compiled, for_kernels
from superarm.arrays.namespace import backend, rows_per_chunk, torch_arrays
from superarm.arrays.types import (
    Array,
    ColumnSelection,
    Features,
    is_product,
    is_selection,
    is_sparse,
    is_tensor,
    unbroadcast,
)

SIDE = 16
"""Rows that a kernel counts side by side."""
FOLD = 512
"""Numbers to a row from which NumPy takes the extremes of columns at full speed."""


def summarize_columns(Phi: Features) -> Array:
    """Per column: how many entries are not zero, the sum of their squares, and the least and the
    largest of all entries, in float64: (*B, L, d) -> (*B, 4, d).

    Example:
        >>> import numpy as np
        >>> summarize_columns(np.array([[1.0, 0.0], [1.0, -2.0], [1.0, 3.0]]))
        array([[ 3.,  2.],
               [ 3., 13.],
               [ 1., -2.],
               [ 1.,  3.]])
    """
    if is_sparse(Phi):
        return backend(Phi).summarize_columns(Phi)
    if is_product(Phi) and is_selection(Phi.right):
        return _of_selection(summarize_columns(Phi.left), Phi.right)
    one = None if is_product(Phi) or 0 in Phi.shape else unbroadcast(Phi)
    if one is not None:
        shape = (*Phi.shape[:-2], 4, Phi.shape[-1])
        return np.full(shape, summarize_columns(one))
    L = Phi.shape[-2]
    step = rows_per_chunk(Phi)
    stats = []
    for start in range(0, L, step):
        rows = _formed(Phi, start, start + step)
        stats.append(stats_of_rows(rows))
    return functools.reduce(merge_column_statistics, stats)


def _of_selection(stats: Array, B: ColumnSelection) -> Array:
    """The statistics of Y B from those of Y: (*B, 4, k) -> (*B, 4, d)."""
    count, squares, least, most = np.moveaxis(stats[..., B.source], -2, 0)
    ends = (least * B.scale, most * B.scale)
    of_product = [
        count * (B.scale != 0),
        squares * B.scale**2,
        np.minimum(*ends),
        np.maximum(*ends),
    ]
    return np.stack(of_product, axis=-2)


def _formed(Phi: Features, start: int, stop: int) -> Array:
    """Some of the rows, multiplied out."""
    if not is_product(Phi):
        return Phi[..., start:stop, :]
    left = Phi.left[..., start:stop, :]
    rows: Array = left @ Phi.right
    return rows


def merge_column_statistics(stats: Array, more: Array) -> Array:
    """The statistics of the rows behind both: (*B, 4, d) both.

    Example:
        >>> import numpy as np
        >>> Phi = np.array([[1.0, 0.0], [1.0, -2.0], [1.0, 3.0]])
        >>> both = merge_column_statistics(summarize_columns(Phi[:1]), summarize_columns(Phi[1:]))
        >>> bool((both == summarize_columns(Phi)).all())
        True
    """
    xp = backend(stats)
    sums = stats[..., :2, :] + more[..., :2, :]
    least = xp.minimum(stats[..., 2, :], more[..., 2, :])
    most = xp.maximum(stats[..., 3, :], more[..., 3, :])
    return xp.concat(
        [sums, least[..., None, :], most[..., None, :]],
        axis=-2,
    )


def add_rows(stats: Array, rows: Array, times: Array) -> Array:
    """The statistics with a few more rows, each of which was there so many times; 0 is padding:
    (*B, 4, d), (*B, K, d), (*B, K) -> (*B, 4, d).

    Example:
        >>> import numpy as np
        >>> stats = summarize_columns(np.array([[1.0], [3.0]]))
        >>> rows = np.array([[-2.0], [0.0]])
        >>> add_rows(stats, rows, np.array([1.0, 0.0])).ravel()
        array([ 3., 14., -2.,  3.])
    """
    if is_tensor(stats):
        return backend(stats).add_rows(stats, rows, times)
    out = stats.copy()
    *batch, K, d = rows.shape
    n = math.prod(batch)  # with -1 in its place, no rows at all could not be reshaped
    _count_rows(
        out.reshape(n, 4, d),
        for_kernels(rows).reshape(n, K, d),
        times.reshape(n, K),
    )
    return out


@compiled
def _count_rows(stats: Array, rows: Array, times: Array) -> None:
    # compiled, as in NumPy's many passes this would take as long as the update of a belief
    for b in range(len(rows)):
        done = 0
        if (times[b] == 1).all():
            done = _count_single(stats[b], rows[b])
        for k in range(done, rows.shape[1]):
            v = times[b, k]
            if v == 0:
                continue
            for j in range(rows.shape[2]):
                x = rows[b, k, j]
                stats[b, 0, j] += v * (x != 0)
                stats[b, 1, j] += v * (x * x)
                stats[b, 2, j] = min(stats[b, 2, j], x)
                stats[b, 3, j] = max(stats[b, 3, j], x)


@compiled
def _count_single(stats: Array, rows: Array) -> int:
    """Count rows that were there once each, and return how many were counted: some at the end are
    left. SIDE rows are laid side by side, as vector registers are long and rows are short.
    """
    K, d = rows.shape
    wide = SIDE * d
    parts = K // SIDE
    sums = np.zeros((2, wide))
    ends = np.empty((2, wide))
    for i in range(wide):
        ends[0, i] = np.inf
        ends[1, i] = -np.inf
    flat = rows.reshape(K * d)
    for part in range(parts):
        some = flat[part * wide : (part + 1) * wide]
        for i in range(wide):
            x = some[i]
            sums[0, i] += x != 0
            sums[1, i] += x * x
            ends[0, i] = min(ends[0, i], x)
            ends[1, i] = max(ends[1, i], x)
    for i in range(wide):
        j = i % d
        stats[0, j] += sums[0, i]
        stats[1, j] += sums[1, i]
        stats[2, j] = min(stats[2, j], ends[0, i])
        stats[3, j] = max(stats[3, j], ends[1, i])
    counted: int = parts * SIDE
    return counted


def column_scales(stats: Array) -> tuple[Array, Array]:
    """The size of a typical entry of each column, and whether it is the first that is constant and
    not zero: (*B, 4, d) -> (*B, d) twice.

    That size is the root mean square of the entries that are not zero; 1 if there are none.

    Example:
        >>> sizes, is_first = column_scales(summarize_columns(np.array([[3.0, 1.0], [0.0, 1.0]])))
        >>> sizes, is_first
        (array([3., 1.]), array([False,  True]))
    """
    if is_tensor(stats):
        scales: tuple[Array, Array] = torch_arrays().column_scales(stats)
        return scales
    *batch, _, d = stats.shape
    sizes = np.empty((*batch, d))
    is_first = np.empty((*batch, d), np.bool_)
    n = math.prod(batch)
    _size_up(
        for_kernels(stats).reshape(n, 4, d),
        sizes.reshape(n, d),
        is_first.reshape(n, d),
    )
    return sizes, is_first


@compiled
def _size_up(stats: Array, sizes: Array, is_first: Array) -> None:
    # compiled, as NumPy's many passes would take a tenth of the time in which scales are found
    for b in range(len(stats)):
        found = False
        for j in range(stats.shape[2]):
            least = stats[b, 2, j]
            constant = least == stats[b, 3, j] and least != 0
            is_first[b, j] = constant and not found
            found = found or constant
            size = 1.0
            if is_first[b, j]:
                size = abs(least)
            elif stats[b, 0, j] > 0:
                size = math.sqrt(stats[b, 1, j] / stats[b, 0, j])
            sizes[b, j] = size


def stats_of_rows(rows: Array) -> Array:
    """The statistics of at most 2²⁴ rows, all at once: (*B, n, d) -> (*B, 4, d)."""
    if is_tensor(rows):
        return backend(rows).stats_of_rows(rows)
    n = rows.shape[-2]
    ones = np.ones(n, np.float32)  # which counts as exactly, at half the cost
    present = (rows != 0).astype(np.float32)
    squares = np.einsum("...ld,...ld->...d", rows, rows, dtype=np.float64)
    stats = [
        ones @ present,
        squares,
        _extreme(np.minimum, rows),
        _extreme(np.maximum, rows),
    ]
    return np.stack(stats, axis=-2)


def _extreme(ufunc: np.ufunc, rows: Array) -> Array:
    """The least or the largest entry of each column: (*B, n, d) -> (*B, d).

    Several rows are laid side by side, as NumPy is slow where rows are short.
    """
    *batch, n, d = rows.shape
    side = FOLD // max(d, 1)
    if side > 1 and n >= 2 * side:
        rest = n % side
        few = rows[..., :rest, :]
        many = rows[..., rest:, :]
        wide = many.reshape(
            *batch,
            n // side,
            side * d,
        )
        of_many = ufunc.reduce(wide, axis=-2)
        rows = np.concatenate(
            [few, of_many.reshape(*batch, side, d)],
            axis=-2,
        )
    return np.asarray(
        ufunc.reduce(rows, axis=-2),
    )

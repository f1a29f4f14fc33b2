"""Sparse feature rows, SciPy's CSR: each function does what its namesake for dense features does,
without filling more rows than it must.

Imported when the first sparse features are met, as SciPy's sparse arrays take a while to import.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse

from superarm.arrays.numpy import BACKEND as NUMPY
from superarm.arrays.types import Array

FIELDS = ("data", "indices", "indptr", "shape")
"""Arrays that CSR rows consist of."""


def as_rows(x: Any) -> Array:
    """Any sparse matrix as CSR rows of float32 or float64, sorted and with duplicates summed.

    What is so already is used as it is. Indices that point outside, or numbers that are not real,
    raise a ValueError.
    """
    if x.ndim != 2:
        raise ValueError(f"sparse features must be 2-D, (items, features), got shape {x.shape}")
    if x.dtype.kind not in "biuf":
        raise ValueError(f"got {x.dtype}")
    if hasattr(x, "check_format"):  # a wrong index would be a wrong address
        x.check_format(full_check=True)
    # before duplicates are summed, as small integers would overflow
    floats = x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    rows = scipy.sparse.csr_array(floats)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    canonical: Array = rows
    return canonical


def from_entries(
    x: Sequence[float],
    row: Sequence[int],
    column: Sequence[int],
    shape: tuple[int, ...],
) -> Array:
    """Rows with x added at these places."""
    places = (row, column)
    values = np.asarray(x, np.float64)
    entries = scipy.sparse.coo_array(
        (values, places),
        shape=shape,
    )
    return as_rows(entries)


def bad_entry(Phi: Any) -> tuple[int, int, float] | None:
    """The row, the column and the value of the first entry that is not finite; None if all are."""
    finite = np.isfinite(Phi.data)
    if finite.all():
        return None
    at = finite.argmin()
    rows_begun = np.searchsorted(
        Phi.indptr,
        at,
        side="right",
    )
    column = Phi.indices[at]
    value = Phi.data[at]
    return int(rows_begun) - 1, int(column), float(value)


def take_rows(Phi: Any, A: Array) -> Array:
    """The rows of the chosen items, filled, zero where A pads: (L, d), (*B, K) -> (*B, K, d)."""
    d = Phi.shape[1]
    chosen = np.maximum(A, 0)
    flat = Phi[chosen.reshape(-1)]
    rows: Array = flat.toarray()
    rows = rows.reshape(*A.shape, d)
    rows[A < 0] = 0
    return rows


def summarize_columns(Phi: Any) -> Array:
    """The statistics of `arrays.summarize_columns`, of CSR rows: (L, d) -> (4, d)."""
    L, d = Phi.shape
    x = Phi.data.astype(np.float64, copy=False)
    column = Phi.indices.astype(np.intp)  # once, not in each call below
    stored = np.bincount(column, minlength=d)
    filled = stored == L  # in all other columns some entries are zero
    least = np.where(filled, np.inf, 0.0)
    most = np.where(filled, -np.inf, 0.0)
    np.minimum.at(least, column, x)
    np.maximum.at(most, column, x)
    stats = [
        np.bincount(column, x != 0, d),
        np.bincount(column, x**2, d),
        least,
        most,
    ]
    return np.stack(stats)


def joined_rows(Phi: Any, more: Any) -> Array:
    """The rows of both, one below the other, in the dtype of the first; the others may be dense."""
    below = scipy.sparse.csr_array(
        more,
        dtype=Phi.dtype,
    )
    both = scipy.sparse.vstack(
        [Phi, below],
        format="csr",
    )
    return as_rows(both)


def with_rows(Phi: Any, places: Array, rows: Any) -> Array:
    """A copy with other rows at these places."""
    changed = Phi.tolil()
    changed[places] = rows
    return as_rows(changed)


def with_ones(Phi: Any) -> Array:
    """The rows with a column of ones before the others."""
    L = Phi.shape[0]
    ones = np.ones(
        (L, 1),
        Phi.dtype,
    )
    wider = scipy.sparse.hstack(
        [ones, Phi],
        format="csr",
    )
    return as_rows(wider)


def packed(Phi: Any) -> dict[str, Array]:
    """The arrays that CSR rows are made of, by `FIELDS`."""
    return {
        "data": Phi.data,
        "indices": Phi.indices,
        "indptr": Phi.indptr,
        "shape": np.array(Phi.shape),
    }


def unpacked(arrays: Mapping[str, Array]) -> Array:
    """The rows that `packed` took apart; what cannot be any raises a ValueError."""
    data = arrays["data"]
    indices = arrays["indices"]
    indptr = arrays["indptr"]
    entries = indptr[-1]
    if not len(data) == len(indices) == entries:
        raise ValueError(f"there are {len(data)} numbers for {entries} entries")
    rows = scipy.sparse.csr_array(
        (data, indices, indptr),
        shape=arrays["shape"],
    )
    return as_rows(rows)


BACKEND: Any = SimpleNamespace(**vars(NUMPY) | globals())
"""NumPy's functions, with those above in their place."""

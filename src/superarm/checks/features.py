"""Features from the caller: arrays, tensors, sparse rows and products, finite and of the right
shape.
"""

import math
from typing import Any

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    all_finite,
    is_contiguous_float64,
    is_product,
    is_selection,
    is_sparse,
    is_tensor,
    sparse_arrays,
)
from superarm.checks.numbers import as_array, as_numbers, sum_of_squares_is_finite
from superarm.errors import FeaturesError

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
CHUNK_NUMBERS = 2**13
"""Numbers of the features that are checked at a time: they fit the cache, and BLAS uses one
thread.
"""


def as_features(features: Any, shape: tuple[int, ...] | None = None) -> Features:
    """Features as a finite array, tensor, sparse rows (CSR) or `Product`. The left side of a
    product was checked when it was made.
    """
    if is_tensor(features):
        return _check_tensor(features, shape)
    if is_sparse(features):
        return _check_sparse(features, shape)
    if not is_product(features):
        return check_features(features, shape)
    _check_shape(features, shape)
    B = features.right
    numbers = B.scale[None] if is_selection(B) else B
    _check_finite(numbers)
    return features


def check_features(features: Any, shape: tuple[int, ...] | None = None) -> Array:
    """Features as a finite float array (*B, L, d), of the given shape if one is given.

    Arrays of float32 or float64 are used without a copy, in either order and also memory-mapped.
    Strided views are copied, so that products round the same after a reload. Sparse rows are
    filled.
    """
    if is_sparse(features):
        rows: Any = _check_sparse(features, shape)
        features = rows.toarray()
    try:
        array = as_array(features)
        Phi = array if array.dtype in FLOATS else as_numbers(array)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error
    _check_shape(Phi, shape)
    _check_finite(Phi)
    return Phi if Phi.flags.forc else np.ascontiguousarray(Phi)


def _check_tensor(Phi: Array, shape: tuple[int, ...] | None) -> Array:
    """Features as a tensor, checked on its device."""
    _check_shape(Phi, shape)
    if not all_finite(Phi):
        raise FeaturesError("features must be finite numbers of a floating point type")
    return Phi


def _check_sparse(features: Any, shape: tuple[int, ...] | None) -> Array:
    """Features as finite sparse rows."""
    sparse = sparse_arrays()
    try:
        Phi: Array = sparse.as_rows(features)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error
    _check_shape(Phi, shape)
    bad_entry = sparse.bad_entry(Phi)
    if bad_entry:
        item, feature, value = bad_entry
        raise FeaturesError(f"features must be finite: feature {feature} of item {item} is {value}")
    return Phi


def _check_shape(Phi: Features, shape: tuple[int, ...] | None) -> None:
    if shape is not None and Phi.shape != shape:
        raise FeaturesError(f"features must have shape {shape} (items, features), got {Phi.shape}")
    if len(Phi.shape) < 2 or Phi.shape[-2] == 0:
        raise FeaturesError(
            f"features must have shape (items, features) with at least one item, got {Phi.shape}"
        )


def _check_finite(Phi: Array) -> None:
    """Refuse NaN and infinity, a chunk at a time: a catalogue larger than memory passes."""
    if Phi.size <= CHUNK_NUMBERS and sum_of_squares_is_finite(Phi):
        return

    n = len(Phi)
    step = max(1, CHUNK_NUMBERS * n // max(Phi.size, 1))
    for start in range(0, n, step):
        stop = start + step
        chunk = Phi[start:stop]
        if sum_of_squares_is_finite(chunk):
            continue
        is_finite = np.isfinite(chunk)

        if not is_finite.all():
            first, *rest = np.unravel_index(is_finite.argmin(), is_finite.shape)
            position = (start + first, *rest)
            item, feature = position[-2:]
            raise FeaturesError(
                f"features must be finite: feature {feature} of item {item} is {Phi[position]}"
            )


def are_plain_feedback(rows: Any, weights: Any, d: int) -> bool:
    """True if these are n finite feature rows (n, d) and weights (n,) that need no conversion.

    >>> are_plain_feedback(np.ones((3, 2)), np.ones(3), 2)
    True
    >>> are_plain_feedback(np.ones((3, 2)), [1, 1, 1], 2)
    False
    """
    if not type(rows) is type(weights) is np.ndarray:
        return False
    n = len(weights) if weights.ndim == 1 else 0
    if n == 0 or rows.shape != (n, d):
        return False
    if not (is_contiguous_float64(rows) and is_contiguous_float64(weights)):
        return False
    # as in `sum_of_squares_is_finite`, without a call for each
    return math.isfinite(np.vdot(rows, rows) + np.vdot(weights, weights))

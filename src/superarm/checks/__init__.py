"""Input, checked: numbers, features, weights and items, each refused with what would be right."""

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    all_finite,
    are_finite,
    as_float64,
    below_infinity,
    is_plain,
    is_product,
    is_selection,
    is_sparse,
    is_tensor,
    sparse_arrays,
    to_numpy,
)
from superarm.errors import FeaturesError, ParameterError, WeightsError

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
PART = 2**13
"""Numbers in a part of the features that stays in the cache; BLAS uses one thread for so few."""


def require_positive(**parameters: float) -> None:
    """Refuse the first parameter that is not a positive, finite number.

    >>> require_positive(lam=1.0, sigma=-0.3)
    Traceback (most recent call last):
    superarm.errors.ParameterError: sigma must be a positive, finite number, got -0.3
    """
    for name, value in parameters.items():
        if not (is_real(value) and 0 < value < float("inf")):
            raise ParameterError(f"{name} must be a positive, finite number, got {value!r}")


def positive_each(name: str, values: Any) -> float | tuple[float, ...]:
    """One positive, finite number as a float, or a flat list of them as a tuple of floats.

    >>> positive_each("alpha", 2), positive_each("alpha", [1, 3])
    (2.0, (1.0, 3.0))
    """
    if is_real(values):
        require_positive(**{name: values})
        return float(values)
    by_name = isinstance(values, Mapping) or hasattr(values, "to_numpy")
    try:
        each = as_numbers([] if by_name else values)
    except ValueError:
        each = np.empty(0)
    if each.ndim != 1 or not each.size:
        raise ParameterError(
            f"{name} must be a number, or a flat list or array of one per item in their order, "
            f"got {values!r:.100}"
        )
    fits = (each > 0) & (each < np.inf)
    if not fits.all():
        at = fits.argmin()
        raise ParameterError(
            f"{name} must be positive, finite numbers: that of item {at} is {each[at]}"
        )
    return tuple(each.tolist())


def is_real(value: object) -> bool:
    """Whether it is a number of Python's or NumPy's, other than a complex one.

    >>> is_real(0.5), is_real("0.5"), is_real(1j)
    (True, False, False)
    """
    return isinstance(value, float | numbers.Real)  # the first is much the faster to tell


def is_whole(value: object) -> bool:
    """Whether it is an integer of Python's or NumPy's; truth values are not.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def require_count(**parameters: int) -> None:
    """Refuse the first parameter that is not a whole number of at least 1.

    >>> require_count(replicates=0)
    Traceback (most recent call last):
    superarm.errors.ParameterError: replicates must be a whole number of at least 1, got 0
    """
    for name, value in parameters.items():
        if not (is_whole(value) and value >= 1):
            raise ParameterError(f"{name} must be a whole number of at least 1, got {value!r}")


def require_unmasked(values: Any) -> Any:
    """The values as they are; those of NumPy's masked arrays only if none is masked, as their
    numbers are not meant. Else a ValueError.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        at = np.argwhere(np.ma.getmaskarray(values))[0]
        raise ValueError(f"entry {', '.join(map(str, at))} is masked: fill it or leave it out")
    return values


def as_numbers(values: Any) -> Array:
    """Real numbers as a float array; text, complex numbers, ragged lists and masked entries are
    refused with a ValueError.
    """
    given = as_array(values)
    if given.dtype == FLOATS[0]:
        return given
    if given.dtype.kind not in "biuf":
        raise ValueError(f"got {given.dtype}")
    return given.astype(np.float64)


def as_array(values: Any) -> Array:
    """The values in an array of NumPy's; those of a masked array only if none is masked."""
    if type(values) is np.ndarray:  # first, as this is on the way of all feedback
        return values
    return to_numpy(values) if is_tensor(values) else np.asarray(require_unmasked(values))


def as_features(features: Any, shape: tuple[int, ...] | None = None) -> Features:
    """Features as a finite array, tensor, sparse rows (CSR) or `Product` (whose left side was
    checked when made).
    """
    if is_tensor(features):
        return _check_tensor(features, shape)
    if is_sparse(features):
        return _check_sparse(features, shape)
    if not is_product(features):
        return check_features(features, shape)
    _check_shape(features, shape)
    B = features.right
    _check_finite(B.scale[None] if is_selection(B) else B)
    return features


def check_features(features: Any, shape: tuple[int, ...] | None = None) -> Array:
    """Features as a finite float array (*B, L, d), of the given shape if one is given.

    Arrays of float32 or float64 are used as they are, in either order and also memory-mapped.
    Strided views are copied, so that products round as they will after a reload. Sparse rows are
    filled.
    """
    if is_sparse(features):
        rows: Any = _check_sparse(features, shape)
        features = rows.toarray()
    try:
        given = as_array(features)
        Phi = given if given.dtype in FLOATS else as_numbers(given)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error
    _check_shape(Phi, shape)
    _check_finite(Phi)
    return Phi if Phi.flags.forc else np.ascontiguousarray(Phi)


def _check_tensor(Phi: Array, shape: tuple[int, ...] | None) -> Array:
    """Features in a tensor, checked on its device."""
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
    if bad := sparse.bad_entry(Phi):
        item, feature, value = bad
        raise FeaturesError(f"features must be finite: feature {feature} of item {item} is {value}")
    return Phi


def _check_shape(Phi: Features, shape: tuple[int, ...] | None) -> None:
    if shape is not None and Phi.shape != shape:
        raise FeaturesError(f"features must have shape {shape} (items, features), got {Phi.shape}")
    has_items = len(Phi.shape) >= 2 and Phi.shape[-2] > 0
    if not has_items:
        raise FeaturesError(
            f"features must have shape (items, features) with at least one item, got {Phi.shape}"
        )


def _check_finite(Phi: Array) -> None:
    """A part at a time, which stays in the cache: so a catalogue larger than memory passes."""
    if Phi.size <= PART and sum_of_squares_is_finite(Phi):
        return
    step = max(1, PART * len(Phi) // max(Phi.size, 1))
    for start in range(0, len(Phi), step):
        part = Phi[start : start + step]
        if sum_of_squares_is_finite(part):
            continue
        finite = np.isfinite(part)
        if not finite.all():
            first, *rest = np.unravel_index(finite.argmin(), finite.shape)
            at = (start + first, *rest)
            raise FeaturesError(
                f"features must be finite: feature {at[-1]} of item {at[-2]} is {Phi[at]}"
            )


def sum_of_squares_is_finite(x: Array) -> bool:
    """Whether a quick look tells that all numbers are finite: the sum of their squares is. That of
    large numbers is not.

    >>> sum_of_squares_is_finite(np.array([1.0, -2.0]))
    True
    >>> sum_of_squares_is_finite(np.array([1.0, np.nan]))
    False
    """
    return math.isfinite(np.vdot(x, x))  # which does not warn of an overflow


def as_weights(weights: Any, L: int | None = None) -> Array:
    """Weights as floats (*B, L), of the given length if one is given; tensors stay tensors."""
    try:
        stays = is_tensor(weights) and not weights.is_complex()
        w = as_float64(weights) if stays else as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers ({error})") from error
    if w.ndim == 0 or (L is not None and w.shape[-1] != L):
        wanted = "one weight per item" if L is None else f"{L} weights, one per item"
        raise WeightsError(f"the oracle needs {wanted}, got shape {tuple(w.shape)}")
    return w


def check_weights(weights: Any, L: int | None = None) -> Array:
    """Weights an oracle may maximize: -inf is allowed, NaN and +inf are not."""
    w = as_weights(weights, L)
    if not below_infinity(w):
        raise_bad_weight(w)
    return w


def raise_bad_weight(w: Array, first: int = 0) -> None:
    """Raise for weights, of items from `first` on, that hold NaN or +inf, naming the first item at
    fault.
    """
    w = to_numpy(w)
    bad = np.argwhere(~(w < np.inf))
    at = tuple(bad[0])
    item = first + int(at[-1])
    raise WeightsError(
        f"the weight of item {item} is {w[at]}: weights must be finite, or -inf for 'not available'"
    )


def check_feedback(weights: Any, n: int, what: str) -> Array:
    """Finite weights, n of them, one per `what`."""
    try:
        w = as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers, one for each {what} ({error})") from error
    if w.shape != (n,):
        raise WeightsError(f"weights must be {n} numbers, one for each {what}, got shape {w.shape}")
    if sum_of_squares_is_finite(w):
        return w
    finite = np.isfinite(w)
    if not finite.all():
        at = finite.argmin()
        raise WeightsError(
            f"the weight at position {at} is {w[at]}: weights must be finite; "
            "leave out what is unknown"
        )
    return w


def are_plain_feedback(rows: Any, weights: Any, d: int) -> bool:
    """Whether these are rows (n, d) of finite features and as many finite weights, in arrays that
    need not be converted. Others may be right too, once they are.

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
    return is_plain(rows) and is_plain(weights) and are_finite(rows, weights)


def check_importance(importance: Any, w: Array) -> Array:
    """How often each of the weights w counts, as one number per weight."""
    try:
        v = as_numbers(importance)
    except ValueError as error:
        raise ParameterError(f"importance must be positive numbers, or one ({error})") from error
    if v.shape not in ((), w.shape) or not ((v > 0) & (v <= 1e12)).all():
        raise ParameterError(
            f"importance must be {len(w)} numbers above 0 and up to 1e12, or one; "
            f"got {importance!r:.200}"
        )
    return np.broadcast_to(v, w.shape)


def first_repeated(values: Iterable[Any]) -> Any:
    """The first of the values that was there before; one must have been."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    raise ValueError("no value is repeated")


def set_fault(items: Array, L: int) -> str | None:
    """What keeps `items` from being a set of items 0..L-1, in words; None if nothing does."""
    if items.ndim != 1:
        return f"items must be a flat list, got shape {items.shape}"
    if items.size == 0:
        return None
    if items.dtype.kind not in "iu":
        return f"items must be integers, got {items.dtype}"
    values = items.tolist()
    if min(values) < 0 or max(values) >= L:
        return (
            f"item {next(e for e in values if not 0 <= e < L)} is not one of the items 0..{L - 1}"
        )
    if len(set(values)) < len(values):
        return f"item {first_repeated(values)} is repeated"
    return None

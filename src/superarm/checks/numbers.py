"""Numbers, weights and sets of items from the caller, converted or refused with an error that says
what is needed.
"""

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from superarm.arrays import Array, as_float64, below_infinity, is_tensor, to_numpy
from superarm.errors import ParameterError, WeightsError


def require_positive(**parameters: float) -> None:
    """Refuse the first parameter that is not a positive, finite number.

    >>> require_positive(lam=1.0, sigma=-0.3)
    Traceback (most recent call last):
    superarm.errors.ParameterError: sigma must be a positive, finite number, got -0.3
    """
    for name, value in parameters.items():
        is_positive = is_real(value) and 0 < value < math.inf
        if not is_positive:
            raise ParameterError(f"{name} must be a positive, finite number, got {value!r}")


def require_scale(name: str, value: Any, shape: tuple[int, ...]) -> None:
    """Refuse a scale that is not a positive number, or an array of them that broadcasts to the
    shape without new axes.

    >>> require_scale("sigma", np.array([0.1, -1.0]), (2,))
    Traceback (most recent call last):
    superarm.errors.ParameterError: sigma must be positive and finite, got -1.0
    """
    if type(value) is float and 0 < value < math.inf:
        return
    if is_real(value) or not hasattr(value, "shape"):
        require_positive(**{name: value})
        return
    same_axes = len(value.shape) == len(shape)
    if not same_axes or any(n not in (1, m) for n, m in zip(value.shape, shape, strict=True)):
        raise ParameterError(f"{name} must be a number or have shape {shape}, got {value.shape}")
    good = (value > 0) & (value < math.inf)
    if not good.all():
        raise ParameterError(f"{name} must be positive and finite, got {value[~good][0]}")


def positive_each(name: str, values: Any) -> float | tuple[float, ...]:
    """Positive, finite numbers: a single one as a float, a flat list as a tuple of floats.

    >>> positive_each("alpha", 2), positive_each("alpha", [1, 3])
    (2.0, (1.0, 3.0))
    """
    if is_real(values):
        require_positive(**{name: values})
        return float(values)
    has_labels = isinstance(values, Mapping) or hasattr(values, "to_numpy")
    try:
        x = as_numbers([] if has_labels else values)
    except ValueError:
        x = np.empty(0)
    if x.ndim != 1 or not x.size:
        raise ParameterError(
            f"{name} must be a number, or a flat list or array of one per item in their order, "
            f"got {values!r:.100}"
        )
    is_valid = (x > 0) & (x < np.inf)
    if not is_valid.all():
        item = is_valid.argmin()
        raise ParameterError(
            f"{name} must be positive, finite numbers, but item {item} has {x[item]}"
        )
    return tuple(x.tolist())


def is_real(value: object) -> bool:
    """True for a real number of Python's or NumPy's.

    >>> is_real(0.5), is_real("0.5"), is_real(1j)
    (True, False, False)
    """
    return isinstance(value, float | numbers.Real)  # the first is much faster


def is_whole(value: object) -> bool:
    """True for an integer of Python's or NumPy's, but not for a boolean.

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
        is_count = is_whole(value) and value >= 1
        if not is_count:
            raise ParameterError(f"{name} must be a whole number of at least 1, got {value!r}")


def require_unmasked(values: Any) -> Any:
    """The values unchanged; a ValueError if they are a masked array with masked entries."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        mask = np.ma.getmaskarray(values)
        positions = np.argwhere(mask)
        position = positions[0]
        text = ", ".join(map(str, position))
        raise ValueError(f"entry {text} is masked: fill it or leave it out")
    return values


def as_numbers(values: Any) -> Array:
    """Real numbers as a float array; a ValueError for text, complex numbers, ragged lists and
    masked entries.
    """
    array = as_array(values)
    if array.dtype == np.float64:
        return array
    if array.dtype.kind not in "biuf":
        raise ValueError(f"got {array.dtype}")
    return array.astype(np.float64)


def as_array(values: Any) -> Array:
    """The values as a NumPy array; a ValueError if entries are masked."""
    if type(values) is np.ndarray:  # first, as all feedback comes through here
        return values
    if is_tensor(values):
        return to_numpy(values)
    return np.asarray(require_unmasked(values))


def sum_of_squares_is_finite(x: Array) -> bool:
    """True if the sum of the squares is finite, and so all numbers are. Large finite numbers
    overflow it: False proves nothing.

    >>> sum_of_squares_is_finite(np.array([1.0, -2.0]))
    True
    >>> sum_of_squares_is_finite(np.array([1.0, np.nan]))
    False
    """
    total = np.vdot(x, x)  # without a warning if it overflows
    return math.isfinite(total)


def as_weights(weights: Any, L: int | None = None) -> Array:
    """Weights as floats (*B, L), of the given length if one is given; tensors stay tensors."""
    try:
        is_real_tensor = is_tensor(weights) and not weights.is_complex()
        w = as_float64(weights) if is_real_tensor else as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers ({error})") from error
    if w.ndim == 0 or (L is not None and w.shape[-1] != L):
        expected = "one weight per item" if L is None else f"{L} weights, one per item"
        raise WeightsError(f"the oracle needs {expected}, got shape {tuple(w.shape)}")
    return w


def check_weights(weights: Any, L: int | None = None) -> Array:
    """Weights an oracle may maximize: -inf is allowed, NaN and +inf are not."""
    w = as_weights(weights, L)
    if not below_infinity(w):
        raise_bad_weight(w)
    return w


def raise_bad_weight(w: Array, first: int = 0) -> None:
    """Raise the error that names the first NaN or +inf in weights of items from `first` on."""
    w = to_numpy(w)
    bad_positions = np.argwhere(~(w < np.inf))
    position = tuple(bad_positions[0])
    item = first + int(position[-1])
    raise WeightsError(
        f"the weight of item {item} is {w[position]}: "
        "weights must be finite, or -inf for 'not available'"
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
    is_finite = np.isfinite(w)
    if not is_finite.all():
        position = is_finite.argmin()
        raise WeightsError(
            f"the weight at position {position} is {w[position]}: weights must be finite; "
            "leave out what is unknown"
        )
    return w


def check_importance(importance: Any, w: Array) -> Array:
    """Importance weights, one per weight in w: up to 1e12, or a single one for all."""
    try:
        v = as_numbers(importance)
    except ValueError as error:
        raise ParameterError(f"importance must be positive numbers, or one ({error})") from error
    is_valid = (v > 0) & (v <= 1e12)
    if v.shape not in ((), w.shape) or not is_valid.all():
        raise ParameterError(
            f"importance must be {len(w)} numbers above 0 and up to 1e12, or one; "
            f"got {importance!r:.200}"
        )
    return np.broadcast_to(v, w.shape)


def first_repeated(values: Iterable[Any]) -> Any:
    """The first value that equals an earlier one; a ValueError if there is none."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    raise ValueError("no value is repeated")


def fault_of_set(items: Array, L: int) -> str | None:
    """The reason why `items` is not a set of items 0..L-1, in words; None if it is one."""
    if items.ndim != 1:
        return f"items must be a flat list, got shape {items.shape}"
    if items.size == 0:
        return None
    if items.dtype.kind not in "iu":
        return f"items must be integers, got {items.dtype}"

    values = items.tolist()
    if min(values) < 0 or max(values) >= L:
        unknown = next(e for e in values if not 0 <= e < L)
        return f"item {unknown} is not one of the items 0..{L - 1}"

    if len(set(values)) < len(values):
        return f"item {first_repeated(values)} is repeated"
    return None

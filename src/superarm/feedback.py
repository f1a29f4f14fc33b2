"""What comes back, checked before anything is learned from it."""

from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.errors import ParameterError, WeightsError
from superarm.problem import as_numbers


def check_feedback(weights: Any, n: int, what: str) -> Array:
    """Finite weights, n of them, one for each `what`."""
    try:
        w = as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers, one for each {what} ({error})") from error
    if w.shape != (n,):
        raise WeightsError(f"weights must be {n} numbers, one for each {what}, got shape {w.shape}")
    finite = np.isfinite(w)
    if not finite.all():
        at = int(finite.argmin())
        raise WeightsError(f"the weight at position {at} is {w[at]}: weights must be finite; leave out what is unknown")
    return w


def check_importance(importance: Any, w: Array) -> Array:
    """How often each of the weights w counts."""
    try:
        v = as_numbers(importance)
    except ValueError as error:
        raise ParameterError(f"importance must be positive numbers, or one ({error})") from error
    if v.shape not in ((), w.shape) or not ((v > 0) & (v <= 1e12)).all():
        raise ParameterError(
            f"importance must be {len(w)} numbers above 0 and up to 1e12, or one; got {importance!r:.200}"
        )
    return np.broadcast_to(v, w.shape)

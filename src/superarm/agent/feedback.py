"""What comes back, checked before anything is learned from it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from superarm.agent.catalogue import index_of
from superarm.arrays import Array
from superarm.checks import as_numbers
from superarm.errors import ParameterError, WeightsError


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
        raise WeightsError(
            f"the weight at position {at} is {w[at]}: weights must be finite; leave out what is unknown"
        )
    return w


def by_item(values: Any) -> Mapping[Any, Any] | None:
    """A mapping from items, or a pandas Series with an index of items, as a mapping; None for
    anything else.

    An index of 0, 1, 2, ... is the one a series has that was given none.
    """
    if isinstance(values, Mapping):
        return values
    index = index_of(values)
    if index is None or index.tolist() == list(range(len(values))):
        return None
    if not index.is_unique:
        raise WeightsError("a series must have the items as its index, each once")
    return dict(zip(index.tolist(), values.tolist(), strict=True))


def in_order(values: Any, items: list[Any]) -> Any:
    """Values by item in the order of the items; anything else, in their order already, as it is."""
    mapping = by_item(values)
    if mapping is None:
        return values
    if mapping.keys() != set(items):
        raise WeightsError(
            "what is given by item must be given for these items: for each, and for no other"
        )
    return [mapping[item] for item in items]


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

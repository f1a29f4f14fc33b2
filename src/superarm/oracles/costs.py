"""Costs of items and a budget for them, checked."""

from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers, is_real
from superarm.errors import ParameterError
from superarm.oracles.prices import EPS

_EXACT = 2.0**53  # integers below add up without rounding


def require_budget(budget: Any) -> None:
    """Refuse a budget that is no finite number of at least 0."""
    if not (is_real(budget) and 0 <= budget < np.inf):
        raise ParameterError(f"budget must be a finite number, 0 or more, got {budget!r}")


def checked_costs(costs: Any) -> Array:
    """Costs as numbers (L,), finite and not negative."""
    try:
        c = as_numbers(costs)
    except ValueError as error:
        raise ParameterError(f"costs must be numbers, one per item ({error})") from error
    if c.ndim != 1 or not len(c):
        raise ParameterError(f"costs must be a list of numbers, one per item, got shape {c.shape}")

    sound = (c >= 0) & (c < np.inf)
    if not sound.all():
        bad = int(sound.argmin())
        raise ParameterError(f"costs must be finite and not negative: item {bad} costs {c[bad]}")
    return np.array(c)  # a copy: the owner may change theirs


def unit_of(costs: Array) -> int:
    """The largest whole number of which all costs are multiples; 0 if they are not whole."""
    whole = (costs == np.floor(costs)).all()
    if not whole or costs.sum() >= _EXACT:
        return 0
    common = np.gcd.reduce(costs.astype(np.int64))
    return max(1, int(common))


def limit_of(budget: float, unit: int) -> float:
    """What the costs of a set may come to in floating point."""
    if not unit:
        return float(budget * (1 + EPS))
    return float(budget // unit * unit)

"""Means with their intervals, from sums."""

import math

from scipy.special import stdtrit

from superarm.service.dashboard.shapes import Interval

LEVEL = 0.95
ROUNDING = 1e-13
"""The share of a sum of squares that its rounding may be."""


def interval(n: int, total: float, squares: float) -> Interval | None:
    """The mean of n values, from their sum and the sum of their squares, and Student's interval of
    it; None if there are no values.

    Bounds are None where the values tell nothing of their spread: of one value, or if all are
    alike.

    >>> from superarm.service.dashboard.spread import interval
    >>> found = interval(4, 8.0, 24.0)
    >>> round(found.low, 3), found.value, round(found.high, 3)
    (-0.598, 2.0, 4.598)
    """
    if n < 1 or not math.isfinite(total):
        return None
    mean = total / n
    alone = Interval(value=mean, low=None, high=None, n=n)
    if n < 2 or not math.isfinite(squares):
        return alone
    apart = squares - total * mean
    if apart <= ROUNDING * n * squares:  # they are alike, as far as can be told
        return alone
    se = math.sqrt(apart / (n - 1) / n)
    width = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * se
    return Interval(value=mean, low=mean - width, high=mean + width, n=n)

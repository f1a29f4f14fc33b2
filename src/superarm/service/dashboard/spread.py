"""Means with their intervals, from sums."""

import math

from scipy.special import ndtri, stdtrit

from superarm.service.dashboard.shapes import Interval

LEVEL = 0.95
ROUNDING = 1e-13
"""The share of a sum of squares that its rounding may be."""


def interval(n: int, total: float, squares: float, *, binary: bool = False) -> Interval | None:
    """The mean of n values, from their sum and the sum of their squares, and an interval of it;
    None if there are no values.

    The interval is Wilson's where all values are 0 or 1: it stays within [0, 1]. Else it is
    Student's. Bounds are None where the values tell nothing of their spread: of one value, or if
    all are alike.

    Args:
        n: how many values there are.
        total: their sum.
        squares: the sum of their squares.
        binary: whether such values are known to be 0 or 1. Then zeros alone have bounds too, and so
            have ones alone.

    >>> from superarm.service.dashboard.spread import interval
    >>> found = interval(4, 8.0, 24.0)
    >>> round(found.low, 3), found.value, round(found.high, 3)
    (-0.598, 2.0, 4.598)
    >>> found = interval(4, 1.0, 1.0)
    >>> round(found.low, 3), found.value, round(found.high, 3)
    (0.046, 0.25, 0.699)
    """
    if n < 1 or not math.isfinite(total):
        return None
    mean = total / n
    alone = Interval(value=mean, low=None, high=None, n=n)
    if squares == total and (binary or 0 < total < n):
        return _wilson(n, mean)
    if n < 2 or not math.isfinite(squares):
        return alone
    apart = squares - total * mean
    if apart <= ROUNDING * n * squares:  # they are alike, as far as can be told
        return alone
    se = math.sqrt(apart / (n - 1) / n)
    width = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * se
    return Interval(value=mean, low=mean - width, high=mean + width, n=n)


def _wilson(n: int, p: float) -> Interval:
    """All q with |p - q| <= z √(q(1 - q)/n): the shares that n values do not speak against."""
    z = float(ndtri((1 + LEVEL) / 2))
    center = p + z * z / (2 * n)
    width = z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    scale = 1 + z * z / n
    low = max(0.0, (center - width) / scale)  # rounding may go a little beyond
    high = min(1.0, (center + width) / scale)
    return Interval(value=p, low=low, high=high, n=n)

"""Sufficient statistics of repeated observations: n, Σ w and Σ w²."""

from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.checks.numbers import as_numbers, is_real
from superarm.errors import WeightsError

MAX_RELATIVE_ROUNDING = 1e-9
"""Largest relative rounding error of Σ w² that is tolerated."""


class CenteredStatistics(NamedTuple):
    """Mean, number and sum of squares around the mean of repeated observations."""

    w: Array  # (*B, K) the mean w̄
    n: Array  # (*B, K)
    residual_ss: Array  # (*B, K) Σ (w - w̄)²


def centered_statistics(n: Any, total: Any, squares: Any) -> CenteredStatistics:
    """Statistics n, Σ w and Σ w² around their means; refused if no observations can have them.

    >>> centered_statistics([2], [4.0], [10.0])  # of 1 and 3
    CenteredStatistics(w=array([2.]), n=array([2.]), residual_ss=array([2.]))
    """
    try:
        n, total, squares = map(as_numbers, (n, total, squares))
    except ValueError as error:
        raise WeightsError(f"statistics must be numbers: n, sum, squares ({error})") from error
    if not n.shape == total.shape == squares.shape:
        raise WeightsError(
            "statistics need n, sum and squares of one shape, got "
            f"{n.shape}, {total.shape} and {squares.shape}"
        )

    finite = np.isfinite(n) & np.isfinite(total) & np.isfinite(squares)
    if not (finite & (n >= 1)).all():
        raise WeightsError("statistics must be finite, and each of at least one observation")

    mean = total / n
    residual_ss = squares - total * mean

    slack = MAX_RELATIVE_ROUNDING * squares
    is_impossible = (residual_ss < -slack) | ((n == 1) & (residual_ss > slack))
    if is_impossible.any():
        raise WeightsError(
            "no observations have these statistics: squares, the sum of w², must be at least "
            "sum²/n, and equal to it where n is 1"
        )
    return CenteredStatistics(mean, n, np.where(n > 1, residual_ss.clip(0.0), 0.0))


def require_unit(
    w: Array, n_observations: Array | float, residual_ss: Array | float, present: Array
) -> None:
    """Refuse means of observations that cannot all lie in [0, 1], where Σ w² is at most Σ w."""
    if is_real(n_observations):
        return
    squares = residual_ss + n_observations * w**2
    max_squares = (1 + MAX_RELATIVE_ROUNDING) * n_observations * w
    is_beyond = present & (squares > max_squares)
    if is_beyond.any():
        raise WeightsError(
            "these statistics are of weights beyond [0, 1], as squares is above sum: rescale them"
        )

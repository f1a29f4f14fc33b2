"""How large the coefficients of the columns of features may be, where λ is "auto".

A column of seconds and a column of 0 and 1 have coefficients of different size. So the prior std of
a coefficient is λ divided by the root mean square of the non-zero entries of its column: units do
not matter. The first constant column stands for the level of all weights, which may be far from
what they vary by: it has a wide prior of its own.

    columns    (*B, 4, d)    what columns hold, as of `arrays.summarize_columns`
"""

from typing import NamedTuple

from superarm.arrays import Array, column_scales, merge_column_statistics, where

LEVEL = 10.0
"""The prior std of the level of the weights, relative to their root mean square; and that of
log-odds."""


def is_level(columns: Array) -> Array:
    """Whether a column is the first that is constant and not zero: (*B, 4, d) -> (*B, d) bool."""
    _, is_first = column_scales(columns)
    return is_first


class Sizes(NamedTuple):
    """What a coefficient is relative to."""

    typical: Array  # (*B, d) the size of a typical entry of its column
    constant: Array  # (*B, d) whether its column stands for the level of all weights

    def stds(self, lam: Array, level: Array) -> Array:
        """The prior std of each coefficient: (*B,), (*B,) -> (*B, d)."""
        wanted = where(self.constant, level[..., None], lam[..., None])
        each: Array = wanted / self.typical
        return each


def sizes(columns: Array) -> Sizes:
    """The sizes of columns that hold this: (*B, 4, d)."""
    return Sizes(*column_scales(columns))


def equal_sizes(columns: Array) -> Sizes:
    """Sizes of 1 of all columns: (*B, 4, d)."""
    ones = 0 * columns[..., 0, :] + 1
    return Sizes(ones, ones < 0)


def prior_stds(columns: Array, lam: Array, level: Array, *, equal: bool = False) -> Array:
    """The prior std of each coefficient: (*B, 4, d), (*B,), (*B,) -> (*B, d).

    Args:
        columns: what the columns hold.
        lam: the prior std of what a typical non-zero entry adds to a weight.
        level: the prior std of what the constant column adds.
        equal: whether λ was given, and is that of every coefficient.

    >>> import numpy as np
    >>> from superarm.arrays import summarize_columns
    >>> from superarm.beliefs.columns import prior_stds
    >>> seconds = np.array([0.0, 3e8, 4e8])
    >>> columns = summarize_columns(np.column_stack([np.ones(3), seconds]))
    >>> prior_stds(columns, lam=np.array(2.0), level=np.array(10.0))
    array([1.00000000e+01, 5.65685425e-09])
    """
    of = equal_sizes(columns) if equal else sizes(columns)
    return of.stds(lam, level)


def merge_with_catalogue(columns: Array, other: Array, catalogue: Array) -> Array:
    """The statistics of the rows behind two beliefs about one catalogue: (*B, 4, d) each.

    Both have counted the catalogue; here it counts once.
    """
    sums = other[..., :2, :] - catalogue[..., :2, :]
    more = where(sums[..., :1, :] > 0, sums, 0.0)
    both = merge_column_statistics(columns, other)
    both[..., :2, :] = columns[..., :2, :] + more
    return both

"""Prior stds of the coefficients of features, where λ is chosen by the marginal likelihood.

A column of seconds and a column of 0 and 1 have coefficients of different size. So the prior std of
a coefficient is λ over the root mean square of the nonzero entries of its column: units do not
matter. The first constant column is the intercept: the level of all weights, which may be far from
what they vary by, has a wide prior of its own.

    column_statistics   (*B, 4, d)   by `arrays.summarize_columns`
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array, column_scales, merge_column_statistics, where

INTERCEPT_STD = 10.0
"""Prior std of the level of the weights, relative to their root mean square; and of log-odds."""


class CoefficientPrior(NamedTuple):
    """Prior stds of the coefficients, given λ.

    >>> import numpy as np
    >>> from superarm.arrays import summarize_columns
    >>> from superarm.beliefs.coefficient_prior import CoefficientPrior
    >>> seconds = np.array([0.0, 3e8, 4e8])
    >>> columns = summarize_columns(np.column_stack([np.ones(3), seconds]))
    >>> prior = CoefficientPrior.from_columns(columns)
    >>> prior.std(lam=np.array(2.0), intercept_std=np.array(10.0))
    array([1.00000000e+01, 5.65685425e-09])
    """

    column_scale: Array  # (*B, d) root mean square of the nonzero entries of each column
    intercept: Array  # (*B, d) bool, True for the first constant column

    @classmethod
    def from_columns(
        cls, column_statistics: Array, *, isotropic: bool = False
    ) -> "CoefficientPrior":
        """The prior for columns with these statistics, (*B, 4, d).

        Args:
            column_statistics: computed by `summarize_columns`.
            isotropic: True where λ is the prior std of every coefficient.
        """
        if isotropic:
            ones = 0 * column_statistics[..., 0, :] + 1
            return cls(ones, ones < 0)
        return cls(*column_scales(column_statistics))

    def std(self, lam: Array, intercept_std: Array) -> Array:
        """Prior std of each coefficient: (*B,), (*B,) -> (*B, d)."""
        effect = where(
            self.intercept,
            intercept_std[..., None],
            lam[..., None],
        )
        std: Array = effect / self.column_scale
        return std

    @property
    def intercept_column(self) -> int | None:
        """Number of the intercept of a single belief; None without one."""
        if not self.intercept.any():
            return None
        return int(self.intercept.argmax())


def merge_with_catalogue(columns: Array, other: Array, catalogue: Array) -> Array:
    """Column statistics of the rows behind two beliefs about one catalogue: (*B, 4, d) each.

    Both have counted the catalogue; here it counts once.
    """
    n_and_squares = np.s_[..., :2, :]
    new = other[n_and_squares] - catalogue[n_and_squares]
    has_rows = new[..., :1, :] > 0
    new = where(has_rows, new, 0.0)
    both = merge_column_statistics(columns, other)
    both[n_and_squares] = columns[n_and_squares] + new
    return both

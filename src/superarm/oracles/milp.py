"""Sets of items under any linear constraints, by HiGHS through SciPy."""

import time
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import check_weights, require_count, require_positive
from superarm.errors import OracleError, ParameterError
from superarm.oracles.base import feasible
from superarm.oracles.rows import by_row

_INFEASIBLE = 2  # the status of scipy.optimize.milp
_ROUNDING = 1e-12  # in a constraint, relative to the sizes of its terms
_MAX_CUTS = 100


class Milp:
    """Sets of items x in {0,1}^L that satisfy A x <= b.

    A is an array or a SciPy sparse matrix, a row a constraint and a column an item; an equality is
    two inequalities. `max_items` is one more constraint and bounds K, which is the number of all
    items without it. Items are returned in increasing order.

    With `gap`, the search stops as soon as its set is proven to be worth (1 - gap) of the best, for
    weights that are not negative. With `time_limit`, in seconds a weight vector, it also stops then
    with the best set found; nothing is known about that one, so the oracle's gap is None. Exact
    means up to HiGHS's tolerances, which the weights are scaled for: about 1e-12 of the largest
    weight. A x <= b is checked, and holds up to rounding.

    >>> import numpy as np
    >>> from superarm import Milp
    >>> oracle = Milp([[3, 2, 2, 1], [1, 0, 1, 0]], [4, 1])  # a budget of 4; not both of the items 0 and 2
    >>> oracle(np.array([3.5, 2.0, 1.5, 1.0]))
    array([ 0,  3, -1, -1])
    """

    def __init__(
        self,
        A: Any,
        b: Any,
        *,
        max_items: int | None = None,
        gap: float = 0.0,
        time_limit: float | None = None,
    ) -> None:
        check_limits(max_items, gap, time_limit)
        self._A, self._b = _constraints(A, b, max_items)
        self.L = int(self._A.shape[1])
        self.K = self.L if max_items is None else min(max_items, self.L)
        self.gap = gap if time_limit is None else None
        self.time_limit = time_limit
        self._relative_gap = gap / (1 - gap)  # HiGHS's is (bound - value) / value

    def __repr__(self) -> str:
        return f"Milp({len(self._b)} constraints, {self.L} items)"

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        return by_row(self._solve, check_weights(w, self.L), self.K)

    def _solve(self, w: Array) -> Array:
        """HiGHS lets a point miss a constraint by 1e-6: cut such points off until one misses
        none.
        """
        from scipy.optimize import LinearConstraint

        constraints = [LinearConstraint(self._A, -np.inf, self._b)]
        stop = None if self.time_limit is None else time.monotonic() + self.time_limit
        for _ in range(_MAX_CUTS):
            x = self._highs(w, constraints, stop)
            if (self._A @ x - self._b <= _ROUNDING * (abs(self._A) @ x + abs(self._b))).all():
                return np.flatnonzero(x)
            constraints.append(LinearConstraint(2 * x - 1, -np.inf, x.sum() - 1))
        raise OracleError(
            f"{self}: HiGHS found only sets that miss a constraint by its tolerance of 1e-6"
        )

    def _highs(self, w: Array, constraints: list[Any], stop: float | None) -> Array:
        from scipy.optimize import Bounds, milp

        options = {"mip_rel_gap": self._relative_gap}
        if stop is not None:
            options["time_limit"] = max(stop - time.monotonic(), 0.0)
        found = milp(
            -_scaled(np.where(w > -np.inf, w, 0.0)),
            integrality=1,
            bounds=Bounds(0, (w > -np.inf).astype(float)),
            constraints=constraints,
            options=options,
        )
        feasible(found.status != _INFEASIBLE, self)
        if found.x is None:
            raise OracleError(
                f"{self}: no set found with time_limit={self.time_limit}, HiGHS says: {found.message}"
            )
        x: Array = np.round(found.x)
        return x


def check_limits(max_items: int | None, gap: float, time_limit: float | None) -> None:
    """Refuse a number of items, a gap or a time limit that is out of its range."""
    if max_items is not None:
        require_count(max_items=max_items)
    if not 0 <= gap < 1:
        raise ParameterError(f"gap must be at least 0 and less than 1, got {gap!r}")
    if time_limit is not None:
        require_positive(time_limit=time_limit)


def _constraints(A: Any, b: Any, max_items: int | None) -> tuple[Any, Array]:
    """A as a sparse matrix and b, checked; the rows of small numbers scaled up for HiGHS's absolute
    tolerances.
    """
    from scipy import sparse

    try:
        A = sparse.csc_array(A, dtype=np.float64)
        b = np.asarray(b, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"A and b must be numeric, A a matrix and b one number a row of it ({error})"
        ) from error
    if A.ndim != 2 or b.shape != A.shape[:1] or 0 in A.shape:
        raise ParameterError(
            f"A must have shape (constraints, items) and b (constraints,), got {A.shape} and {b.shape}"
        )
    if not np.isfinite(A.data).all():
        row, item, value = next(
            entry for entry in zip(*sparse.find(A), strict=True) if not np.isfinite(entry[2])
        )
        raise ParameterError(f"A must be finite: constraint {row}, item {item} is {value}")
    if not np.isfinite(b).all():
        row = int(np.flatnonzero(~np.isfinite(b))[0])
        raise ParameterError(
            f"b must be finite: constraint {row} is {b[row]}; leave out one that binds nothing"
        )
    if max_items is not None:
        A, b = sparse.vstack([A, np.ones((1, A.shape[1]))], format="csc"), np.append(b, max_items)
    largest = abs(A).max(axis=1).toarray()
    up = np.exp2(np.clip(10 - np.frexp(largest)[1], 0, 1000) * (largest > 0))
    return sparse.csc_array(A.multiply(up[:, None])), b * up


def _scaled(w: Array) -> Array:
    """The weights times a power of 2, the largest near 1e6: HiGHS takes sets within 1e-6 for
    equal.
    """
    scaled: Array = np.ldexp(w, 20 - np.frexp(np.abs(w).max(initial=0.0))[1])
    return scaled

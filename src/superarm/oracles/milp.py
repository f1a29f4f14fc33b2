"""Sets of items under any linear constraints, by HiGHS through SciPy."""

import time
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import require_count, require_positive
from superarm.errors import OracleError, ParameterError
from superarm.oracles.base import BaseOracle, feasible
from superarm.tables import by_item, index_of

_INFEASIBLE = 2  # the status of scipy.optimize.milp
_ROUNDING = 1e-12  # in a constraint, relative to the sizes of its terms
_MAX_CUTS = 100


class Milp(BaseOracle):
    """Sets of items x in {0,1}^L that satisfy A x <= b.

    A is an array, a SciPy sparse matrix or a data frame with one row per constraint and one column
    per item; the columns of a data frame are ids of items, with which an agent aligns its own. An
    equality is two inequalities. `max_items` is one more constraint and bounds K, which is the
    number of all items without it. Items are returned in increasing order.

    With `gap`, the search stops as soon as its set is proven to be worth (1 - gap) of the best, for
    weights that are not negative. With `time_limit`, in seconds per weight vector, it also stops
    then with the best set found; nothing is known about that one, so the oracle's gap is None.
    Exact means up to HiGHS's tolerances, which the weights are scaled for: about 1e-12 of the
    largest weight. A x <= b is checked, and holds up to rounding.

    >>> import numpy as np
    >>> from superarm import Milp
    >>> A = [[3, 2, 2, 1], [1, 0, 1, 0]]  # costs; not both of the items 0 and 2
    >>> oracle = Milp(A, [4, 1])
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
        if hasattr(A, "columns"):
            self.ids = list(A.columns)
            b = _in_order_of(A, b)
        self._A, self._b = _constraints(A, b, max_items)
        self.L = int(self._A.shape[1])
        self.K = self.L if max_items is None else min(max_items, self.L)
        self.gap = gap if time_limit is None else None
        self.time_limit = time_limit
        self._relative_gap = gap / (1 - gap)  # HiGHS's is (bound - value) / value

    def __repr__(self) -> str:
        return f"Milp({len(self._b)} constraints, {self.L} items)"

    def solve_row(self, w: Array) -> Array:
        """The items of the best set for the weights (L,).

        HiGHS lets a point miss a constraint by 1e-6: cut such points off until one misses none.
        """
        from scipy.optimize import LinearConstraint

        stop = None
        if self.time_limit is not None:
            stop = time.monotonic() + self.time_limit
        constraints = [LinearConstraint(self._A, -np.inf, self._b)]

        for _ in range(_MAX_CUTS):
            x = self._highs(w, constraints, stop)
            excess = self._A @ x - self._b
            terms = abs(self._A) @ x + abs(self._b)
            if (excess <= _ROUNDING * terms).all():
                return np.flatnonzero(x)
            constraints.append(LinearConstraint(2 * x - 1, -np.inf, x.sum() - 1))
        raise OracleError(
            f"{self}: HiGHS found only sets that miss a constraint by its tolerance of 1e-6"
        )

    def _highs(self, w: Array, constraints: list[Any], stop: float | None) -> Array:
        from scipy.optimize import Bounds, milp

        available = w > -np.inf
        options = {"mip_rel_gap": self._relative_gap}
        if stop is not None:
            options["time_limit"] = max(stop - time.monotonic(), 0.0)
        found = milp(
            -_scaled(np.where(available, w, 0.0)),
            integrality=1,
            bounds=Bounds(0, available.astype(float)),
            constraints=constraints,
            options=options,
        )
        feasible(found.status != _INFEASIBLE, self)
        if found.x is None:
            raise OracleError(
                f"{self}: no set found with time_limit={self.time_limit}, "
                f"HiGHS says: {found.message}"
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


def _in_order_of(A: Any, b: Any) -> Any:
    """The bounds in the order of the constraints of a data frame, by their names if they have
    any.
    """
    by_name = by_item(b, ParameterError)
    index = index_of(A)
    if by_name is None or index is None:
        return b
    names = index.tolist()
    if by_name.keys() != set(names):
        raise ParameterError("b must have a bound for each row of A, by its name, and no other")
    return [by_name[name] for name in names]


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
            f"A and b must be numeric, A a matrix and b one number per row of it ({error})"
        ) from error

    if A.ndim != 2 or b.shape != A.shape[:1] or 0 in A.shape:
        raise ParameterError(
            "A must have shape (constraints, items) and b (constraints,), "
            f"got {A.shape} and {b.shape}"
        )
    if not np.isfinite(A.data).all():
        rows, items, values = sparse.find(A)
        first = int(np.isfinite(values).argmin())
        raise ParameterError(
            f"A must be finite: constraint {rows[first]}, item {items[first]} is {values[first]}"
        )
    if not np.isfinite(b).all():
        row = int(np.isfinite(b).argmin())
        raise ParameterError(
            f"b must be finite: constraint {row} is {b[row]}; leave out one that binds nothing"
        )

    if max_items is not None:
        A = sparse.vstack([A, np.ones((1, A.shape[1]))], format="csc")
        b = np.append(b, max_items)
    largest = abs(A).max(axis=1).toarray()
    _, exponent = np.frexp(largest)
    up = np.exp2(np.clip(10 - exponent, 0, 1000) * (largest > 0))
    return sparse.csc_array(A.multiply(up[:, None])), b * up


def _scaled(w: Array) -> Array:
    """The weights times a power of 2, the largest near 1e6: HiGHS takes sets within 1e-6 for
    equal.
    """
    largest = np.abs(w).max(initial=0.0)
    _, exponent = np.frexp(largest)
    scaled: Array = np.ldexp(w, 20 - exponent)
    return scaled

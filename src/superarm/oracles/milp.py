"""Sets of items under any linear constraints, by HiGHS."""

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import is_whole, require_count, require_positive, require_unmasked
from superarm.checks.tables import align, as_mapping, pandas_index
from superarm.errors import OracleError, ParameterError
from superarm.oracles.base import BaseOracle, feasible, padded, require_whole
from superarm.oracles.gaps import lacking, with_gaps
from superarm.oracles.highs import Program, maximize

_ROUNDING = 1e-12  # in a constraint, relative to the sizes of its terms
_MAX_CUTS = 100


class Milp(BaseOracle):
    """Sets of items x in {0,1}^L that satisfy A x <= b.

    A is an array, a SciPy sparse matrix or a data frame with one row per constraint and one column
    per item; the columns of a data frame are ids of items, with which an agent aligns its own. An
    equality is two inequalities. `max_items` is one more constraint and bounds K, which is the
    number of all items without it. Items are returned in increasing order.

    `conflicts` are pairs of items that exclude each other, by index, or by id if A is a data frame.
    `helpers` is how many of the last columns of A are no items, but numbers y >= 0 that a set may
    choose as it likes to satisfy A (x, y) <= b, such as flows along edges; a number of any sign is
    the difference of two.

    With `gap`, the search stops as soon as its set is proven to be worth (1 - gap) of the best, for
    weights that are not negative. With `time_limit`, in seconds per weight vector, it also stops
    then with the best set found, which is at least that of adding items greedily where no item at
    all is a feasible set. What is found by then depends on the machine and on what else it does,
    so the same weights may have different answers; nothing is promised, and the oracle's gap is
    None: `solve_with_gap` says for each set how far it is proven to be from the best. Of a large
    problem HiGHS may go on for some seconds, in a thread of its own, before it notices; a process
    that ends waits for it. Exact means up to HiGHS's tolerances, which the weights are scaled for:
    about 1e-12 of the largest weight.
    A x <= b is checked, and holds up to rounding; with helpers, up to 1e-7 of the largest number in
    the rows that have some. Constraints, conflicts among them, can make the best set hard to find:
    among 150 items of which each excludes 15 others at random it takes HiGHS 15 seconds.

    >>> import numpy as np
    >>> from superarm import Milp
    >>> A = [[3, 2, 2, 1], [1, 0, 1, 0]]  # costs; not both of the items 0 and 2
    >>> oracle = Milp(A, [4, 1])
    >>> oracle(np.array([3.5, 2.0, 1.5, 1.0]))
    array([ 0,  3, -1, -1])
    >>> Milp(A, [4, 1], conflicts=[(0, 3)])(np.array([3.5, 2.0, 1.5, 1.0]))
    array([ 0, -1, -1, -1])
    """

    def __init__(
        self,
        A: Any,
        b: Any,
        *,
        max_items: int | None = None,
        conflicts: Iterable[Sequence[Any]] = (),
        helpers: int = 0,
        gap: float = 0.0,
        time_limit: float | None = None,
    ) -> None:
        check_limits(max_items, gap, time_limit)
        require_whole(helpers, "helpers")
        names = None
        if hasattr(A, "columns"):
            names = list(A.columns)
            b = _in_order_of(A, b)
        A, b = _checked(A, b)
        self.L = int(A.shape[1]) - helpers
        if self.L < 1:
            raise ParameterError(f"A has {A.shape[1]} columns, too few for {helpers} helpers")
        self.ids = None if names is None else names[: self.L]
        self.helpers = helpers

        pairs = _pairs(conflicts, self.L, self.ids)
        A, b = _also(A, b, pairs, 1)
        if max_items is not None:
            A, b = _also(A, b, np.ones((1, self.L)), max_items)
        self._A, self._b = _scaled(A, b)
        self.K = self.L if max_items is None else min(max_items, self.L)
        self.gap = gap if time_limit is None else None
        self.time_limit = time_limit
        self._relative_gap = gap / (1 - gap)  # HiGHS's is (bound - value) / value

    def __repr__(self) -> str:
        helpers = f", {self.helpers} helpers" if self.helpers else ""
        return f"Milp({len(self._b)} constraints, {self.L} items{helpers})"

    def solve(self, rows: Array) -> Array:
        """The best set for each row of weights (n, L): (n, K), -1 pads."""
        A, _ = self._solve(rows)
        return A

    def solve_with_gap(self, w: Any) -> tuple[Array, Array]:
        """The best sets found for the weights (*B, L), and for each the share of the best that it
        may lack: items (*B, K), gaps (*B,), inf where nothing is proven.

        Returns:
            items (*B, K) and gaps (*B,).

        >>> from superarm import Milp
        >>> Milp([[3, 2, 2, 1]], [4], time_limit=10.0).solve_with_gap([3.5, 2.0, 1.5, 1.0])
        (array([ 0,  3, -1, -1]), array(0.))
        """
        return with_gaps(self._solve, w, self.L)

    def _solve(self, rows: Array) -> tuple[Array, Array]:
        sets = []
        gap = np.empty(len(rows))
        for b, w in enumerate(rows):
            x, bound = self.search(w)
            items = np.flatnonzero(x)
            largest = np.abs(w[w > -np.inf]).max(initial=0.0)
            gap[b] = lacking(w[items].sum(), bound, largest)
            sets.append(items)
        return padded(sets, self.K), gap

    def search(self, w: Array) -> tuple[Array, float]:
        """The best set x (L,) found for the weights (L,), as 0 and 1, and a bound on what any set
        is worth.

        HiGHS lets a point miss a constraint by 1e-6: cut such points off until one misses none.
        """
        stop = None
        start = None
        if self.time_limit is not None:
            stop = time.monotonic() + self.time_limit
            start = self._greedy(w)
        program = Program(w, self._A, self._b)
        bound = _sum_of_best(w, self.K)

        for _ in range(_MAX_CUTS):
            found = maximize(
                program,
                relative_gap=self._relative_gap,
                start=start,
                seconds=None if stop is None else max(stop - time.monotonic(), 0.0),
            )
            feasible(found.feasible, self)
            bound = min(bound, found.bound)
            if found.x is None or self._fits(found.x):
                return self._better(w, start, found.x), bound
            program = _without(program, found.x)
        raise OracleError(
            f"{self}: HiGHS found only sets that miss a constraint by its tolerance of 1e-6"
        )

    def _fits(self, x: Array) -> bool:
        """Whether a set keeps the constraints, up to rounding; with helpers, whether there are
        numbers for these.
        """
        A = self._A[:, : self.L]
        left = self._b - A @ x
        terms = abs(A) @ x + abs(self._b)
        kept = left >= -_ROUNDING * terms
        if not self.helpers:
            return bool(kept.all())
        y = self._A[:, self.L :]
        alone = np.diff(y.tocsr().indptr) == 0
        return bool(kept[alone].all()) and _has_solution(y, np.where(alone, 0.0, left))

    def _better(self, w: Array, start: Array | None, found: Array | None) -> Array:
        """The better of the set that was there first and the one that was found."""
        sets = [x for x in (start, found) if x is not None]
        if not sets:
            raise OracleError(f"{self}: no set found with time_limit={self.time_limit}")
        return max(sets, key=lambda x: w[x > 0].sum())

    def _greedy(self, w: Array) -> Array | None:
        """A set by adding what fits, by weight or by weight per use of the constraints, whichever
        is better; None if no item at all is no feasible set, or may need helpers.
        """
        if self.helpers or (self._b < 0).any():
            return None
        order = np.argsort(-w, kind="stable")
        by_use = np.argsort(-w / self._use, kind="stable")
        sets = [
            _added(w, each, self._A.indptr, self._A.indices, self._A.data, self._b)
            for each in (order, by_use)
        ]
        return max(sets, key=lambda x: w[x > 0].sum())

    @functools.cached_property
    def _use(self) -> Array:
        """How much of the constraints each item uses, as shares of what they allow, (L,)."""
        allowed = np.maximum(self._b, np.finfo(float).tiny)
        share = self._A.maximum(0).multiply(1 / allowed[:, None])
        use: Array = np.asarray(share.sum(axis=0)).ravel()
        return np.clip(use, 1e-9, 1e300)


@compiled
def _added(w: Array, order: Array, start: Array, row: Array, value: Array, allowed: Array) -> Array:
    """Add to no items those that are worth something and fit, in this order: a set (L,) of 0 and
    1.
    """
    left = allowed.copy()
    x = np.zeros(len(w))
    for e in order:
        fits = w[e] > 0
        for p in range(start[e], start[e + 1]):
            fits &= value[p] <= left[row[p]] or value[p] <= 0
        if not fits:
            continue
        x[e] = 1
        for p in range(start[e], start[e + 1]):
            left[row[p]] -= value[p]
    return x


def _sum_of_best(w: Array, K: int) -> float:
    """What the K best items are worth together."""
    best = np.partition(w, len(w) - K)[len(w) - K :]
    return float(np.maximum(best, 0).sum())


def _without(program: Program, x: Array) -> Program:
    """The program with one more constraint, which only the set x misses."""
    from scipy import sparse

    w, A, b = program
    row = np.zeros((1, A.shape[1]))
    row[0, : len(x)] = 2 * x - 1
    A = sparse.vstack([A, row], format="csc")
    return Program(w, A, np.append(b, x.sum() - 1))


def _has_solution(A: Any, b: Array) -> bool:
    """Whether A y <= b for some y >= 0."""
    from scipy.optimize import linprog

    answer = linprog(np.zeros(A.shape[1]), A_ub=A, b_ub=b, method="highs")
    return bool(answer.status == 0)


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

    def mismatch(missing: list[Any], unknown: list[Any]) -> ParameterError:
        return ParameterError("b must have a bound for each row of A, by its name, and no other")

    bounds = as_mapping(b, ParameterError)
    index = pandas_index(A)
    if bounds is None or index is None:
        return b
    return align(bounds, index.tolist(), mismatch)


def _checked(A: Any, b: Any) -> tuple[Any, Array]:
    """A as a sparse matrix and b, checked."""
    from scipy import sparse

    try:
        A = sparse.csc_array(require_unmasked(A), dtype=np.float64)
        b = np.asarray(require_unmasked(b), dtype=np.float64)
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

    return A, b


def _pairs(conflicts: Iterable[Sequence[Any]], L: int, ids: list[Any] | None) -> Any:
    """One row (L,) per pair of items that exclude each other, with a 1 for each of the two."""
    from scipy import sparse

    place = None if ids is None else {item: e for e, item in enumerate(ids)}
    pairs = []
    for pair in conflicts:
        try:
            a, b = pair if place is None else (place[item] for item in pair)
        except (KeyError, TypeError, ValueError) as error:
            raise ParameterError(
                f"conflicts must be pairs of items, got {pair!r} ({error!r})"
            ) from error
        if not (is_whole(a) and is_whole(b) and 0 <= a < L and 0 <= b < L and a != b):
            raise ParameterError(f"conflicts must be pairs of two of the {L} items, got {pair!r}")
        pairs.append((a, b))

    columns = np.array(pairs, dtype=np.int64).ravel()
    rows = np.repeat(np.arange(len(pairs)), 2)
    return sparse.csc_array((np.ones(len(columns)), (rows, columns)), shape=(len(pairs), L))


def _also(A: Any, b: Array, rows: Any, most: int) -> tuple[Any, Array]:
    """The constraints A and b, and that each of the rows (n, L) of items is `most` at most."""
    from scipy import sparse

    n, L = rows.shape
    without_helpers = sparse.hstack([rows, sparse.csc_array((n, A.shape[1] - L))])
    A = sparse.vstack([A, without_helpers], format="csc")
    return A, np.append(b, np.full(n, most))


def _scaled(A: Any, b: Array) -> tuple[Any, Array]:
    """The constraints, with the rows of small numbers scaled up for HiGHS's absolute tolerances."""
    from scipy import sparse

    largest = abs(A).max(axis=1).toarray()
    _, exponent = np.frexp(largest)
    up = np.exp2(np.clip(10 - exponent, 0, 1000) * (largest > 0))
    return sparse.csc_array(A.multiply(up[:, None])), b * up

"""What all oracles share: a base class that checks, flattens and refuses, plain functions as
oracles, masks, and oracles made from oracles.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from superarm.arrays import Array, Features, Stream, as_like, to_numpy, where
from superarm.arrays.compiled import for_kernels
from superarm.checks import as_weights, check_weights, fault_of_set, is_whole
from superarm.contracts import Oracle
from superarm.errors import InfeasibleError, OracleError, ParameterError
from superarm.oracles.parts import Candidates, Part

RowScores: TypeAlias = Callable[[Features], Array]
"""A function from feature rows (*B, n, d) to their scores (*B, n)."""
CHUNK_ITEMS = 2**17
"""Items that are scored at a time in one pass over a large catalogue."""


class BaseOracle:
    """An oracle of which a subclass says only how to solve: `solve(rows)`, or `solve_row(w)` where
    nothing is gained by solving many rows at once.

    Weights are checked (their length against `L`, NaN and +inf by naming the first item at fault),
    batches are flattened to rows, and tensors are moved to the CPU and back unless the subclass
    has `solve_tensors(rows)`. `superarm.testing.check_oracle` checks what a subclass returns.

    >>> import numpy as np
    >>> from superarm.oracles.base import BaseOracle, feasible
    >>> class Best(BaseOracle):
    ...     K = 1
    ...     gap = 0.0
    ...     def solve(self, rows):
    ...         feasible(bool((rows.max(axis=-1) > -np.inf).all()), self)
    ...         return rows.argmax(axis=-1)[:, None]
    >>> Best()(np.array([[0.1, 0.7], [0.9, 0.3]]))
    array([[1],
           [0]])
    """

    # numbers or None; of type Any so that a subclass may have an attribute or a property
    L: Any = None
    """The number of items it is built for; None if any number will do."""
    ids: Any = None
    """The ids of those items, in their order, if its constraints were given by id. An agent then
    aligns it with its own items."""
    items: Any = None
    """What its items stand for, such as the edges of a graph; None if they are only numbered. An
    agent that has these as ids is aligned by them."""
    K: Any = None
    """The most items it returns; None if unknown."""
    gap: Any = None
    """The paper's γ, with which its sets reach (1 - γ) of the maximum; 0 if exact, None if
    unknown."""

    inner: Any = None
    """The oracle that it is made from; None if it is made from none."""
    by_position: Any = False
    """True if its sets may depend on the positions of items, as those of a function may."""
    exchanges: Any = False
    """Whether a set can be improved by exchanging items one by one, as in a matroid."""
    sense: Any = 1
    """1 if larger weights are better, -1 if they are costs."""

    checks_weights: ClassVar[bool] = False
    """Whether `solve` itself refuses NaN and +inf, so that no pass over the weights comes first."""
    arguments: Any
    """What it was made from, so that a service elsewhere can make it again."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Remember the arguments."""
        oracle = super().__new__(cls)
        object.__setattr__(oracle, "arguments", (given, named))
        return oracle

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L).

        Returns:
            the chosen items, (*B, k) with k <= K, in which -1 pads sets that are smaller.

        Raises:
            WeightsError: for NaN or +inf, or a number of weights that is not L.
            InfeasibleError: if no set of the available items is allowed.
        """
        check = as_weights if self.checks_weights else check_weights
        w = check(w, self.L)
        batch = w.shape[:-1]
        rows = w.reshape(math.prod(batch), w.shape[-1])
        if isinstance(rows, np.ndarray):
            solve = self.solve
            rows = for_kernels(rows)
        else:
            solve = self.solve_tensors
        A = solve(rows)
        return A.reshape(*batch, A.shape[-1])

    def solve(self, rows: Array) -> Array:
        """The best set for each row of weights, here one row at a time.

        `rows` is float64, (n, L) and C-contiguous, and must stay as it is. Returned are the items
        (n, k) as integers, with -1 at the end of rows that have fewer.
        """
        sets = [self.solve_row(w) for w in rows]
        return padded(sets, self.K)

    def solve_row(self, w: Array) -> Array:
        """The best set for the weights (L,): at most K items, without padding."""
        raise OracleError(
            f"{type(self).__name__} needs a method solve(rows), from weights (n, L) to items "
            "(n, K), or solve_row(w), from weights (L,) to items"
        )

    def part(self, items: slice | Array) -> Part | None:
        """What finds the candidates among some of the items, which are in increasing order; None
        where parts cannot be solved apart.
        """
        return None

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best set (K,) of all items, from the candidates among each part of them."""
        raise OracleError(f"{self} cannot be solved by parts")

    @property
    def solves_by_parts(self) -> bool:
        """True if the candidates of each part of the items are enough to find the best set."""
        return self.part(slice(0, 1)) is not None

    def of_user(self, i: int | slice) -> "BaseOracle":
        """The oracle of one of several users, or of some, by their number; the same by default."""
        return self

    def allowed(self, L: int) -> Array:
        """The items that it does not mask, (L,) bool: all by default."""
        return np.ones(L, np.bool_)

    def solve_by_parts(
        self, row_scores: RowScores, Phi: Features, available: Array | None = None
    ) -> Array:
        """The best set (K,) of many items, in one pass that never holds all scores; only where
        `solves_by_parts`.

        Args:
            row_scores: scores of feature rows.
            Phi: feature rows of all items, (L, d).
            available: the items that may be chosen, (L,) bool; all if None.
        """
        return self.merged(self._candidates_of_chunks(row_scores, Phi, available))

    def _candidates_of_chunks(
        self, row_scores: RowScores, Phi: Features, available: Array | None
    ) -> Iterator[Candidates]:
        """The candidates of one chunk of the catalogue after the other."""
        L = Phi.shape[0]
        for start in range(0, L, CHUNK_ITEMS):
            items = slice(start, min(start + CHUNK_ITEMS, L))
            w = row_scores(Phi[items])
            if available is not None:
                w = np.where(available[items], w, -np.inf)
            part = self.part(items)
            if part is not None:
                yield part.candidates(w)

    def solve_tensors(self, rows: Array) -> Array:
        """The best set for each row of a tensor (n, L), as a tensor on its device.

        This one solves on the CPU and says so once; subclasses with kernels for tensors override.
        """
        self._said_where  # noqa: B018  the warning is in the asking
        return self.solve_on_host(rows)

    def solve_on_host(self, rows: Array) -> Array:
        """The best set for each row of a tensor (n, L), found on the CPU, as a tensor on its
        device.
        """
        on_host = for_kernels(to_numpy(rows))
        return as_like(rows, self.solve(on_host))

    @functools.cached_property
    def _said_where(self) -> None:
        """Asked for the first time, it warns that this oracle solves on the CPU."""
        warnings.warn(
            f"{self} solves on the CPU: the weights of each episode are moved there and back",
            stacklevel=4,
        )


def feasible(found: bool, oracle: object) -> None:
    """Raise `InfeasibleError` in the name of `oracle` unless a set was found."""
    if not found:
        raise InfeasibleError(
            f"{oracle}: no feasible set among the items that are available (weight above -inf)"
        )


def require_whole(value: Any, name: str) -> None:
    """Refuse a value that is not a whole number of at least 0, by its name."""
    if not (is_whole(value) and value >= 0):
        raise ParameterError(f"{name} must be a whole number, 0 or more, got {value!r}")


def starts(sizes: Array) -> Array:
    """Where parts of these sizes (n,) start, one after the other, and where the last one ends:
    (n + 1,).
    """
    return np.append(0, np.cumsum(sizes))


def is_full(A: Array) -> bool:
    """Whether no place of A is padding: each row has as many items as it has places."""
    return 0 in A.shape or bool(A.min() >= 0)


def padded(sets: Sequence[Array], K: int | None = None) -> Array:
    """Sets of items as rows (n, K), with -1 behind the shorter ones; K is the longest if None."""
    if K is None:
        K = max(map(len, sets), default=0)

    A = np.full((len(sets), K), -1)
    for row, items in zip(A, sets, strict=True):
        row[: len(items)] = items
    return A


@dataclass(frozen=True)
class CheckedOracle(BaseOracle):
    """Somebody else's function `weights -> items`, or oracle, with each answer checked; made by
    `as_oracle`.
    """

    function: Callable[[Array], Any]
    K: int | None
    gap: float | None
    by_position = True

    @property
    def L(self) -> int | None:
        """The number of items it is built for, if the oracle says so."""
        return getattr(self.function, "L", None)

    @property
    def ids(self) -> Any:
        """The ids of those items, if the oracle says so."""
        return getattr(self.function, "ids", None)

    @property
    def exchanges(self) -> bool:
        """Whether items can be exchanged one by one, if the oracle says so."""
        return getattr(self.function, "exchanges", False)

    @property
    def sense(self) -> int:
        """-1 if the oracle says that weights are costs."""
        return getattr(self.function, "sense", 1)

    def solve(self, rows: Array) -> Array:
        """What the function returns for each row, as wide as the largest set."""
        return padded([self.solve_row(w) for w in rows])

    def solve_row(self, w: Array) -> Array:
        """What the function returns for the weights (L,), checked."""
        items = self._items(w)
        fault = fault_of_set(items, len(w)) or self._broken_promise(items, w)
        if fault is not None:
            raise OracleError(
                f"the oracle {self.function!r} must return a feasible set of items, but: {fault}"
            )
        return items.astype(np.int64)

    def _items(self, w: Array) -> Array:
        """What the function returns, as an array without padding."""
        found = self.function(w.copy())
        try:
            items = np.asarray(sorted(found) if isinstance(found, set | frozenset) else found)
        except ValueError as error:
            raise OracleError(
                f"the oracle {self.function!r} must return a flat list of items ({error})"
            ) from error
        if isinstance(self.function, Oracle):
            items = items[items != -1]  # its padding
        return items

    def _broken_promise(self, items: Array, w: Array) -> str | None:
        """What is wrong with items that are too many or not available, in words."""
        if self.K is not None and len(items) > self.K:
            return f"{len(items)} items where at most K={self.K} are allowed"
        if not items.size:
            return None

        closed = items[np.isneginf(w[items])]
        if not closed.size:
            return None
        if np.isneginf(w).all():
            raise InfeasibleError("no item is available")
        return f"item {closed[0]} is not available (its weight is -inf)"


def as_oracle(
    oracle: Callable[[Array], Any],
    *,
    K: int | None = None,
    gap: float | None = None,
) -> BaseOracle:
    """Any function `weights -> items` as an oracle, with what it returns checked.

    Subclasses of `BaseOracle`, such as superarm's own, are returned as they are. A function, or an
    oracle class of yours, sees one weight vector at a time, with -inf for items that may not be
    chosen. `K` is the most items it returns and `gap` its γ, if known; an object may have them as
    attributes.

    Returns:
        an oracle that checks each answer of the function; a `BaseOracle` as it is.

    >>> import numpy as np
    >>> from superarm import as_oracle
    >>> best = as_oracle(lambda w: [np.argmax(w)], K=1, gap=0.0)
    >>> best(np.array([0.1, 0.7, 0.3]))
    array([1])
    """
    if not callable(oracle):
        raise OracleError(f"an oracle is a function from weights to items, got {oracle!r}")
    if isinstance(oracle, BaseOracle):
        if K is not None or gap is not None:
            raise ParameterError(f"{oracle} has its own K={oracle.K} and gap={oracle.gap}")
        return oracle

    if K is None:
        K = getattr(oracle, "K", None)
    if gap is None:
        gap = getattr(oracle, "gap", None)
    possible_K = K is None or (is_whole(K) and K >= 0)
    possible_gap = gap is None or 0 <= gap < 1
    if not (possible_K and possible_gap):
        raise ParameterError(
            f"K must be a whole number and gap lie in [0, 1), or be None; got K={K}, gap={gap}"
        )
    return CheckedOracle(oracle, K, gap)


@dataclass(frozen=True)
class Around(BaseOracle):
    """An oracle made from another one."""

    oracle: BaseOracle

    def __post_init__(self) -> None:
        object.__setattr__(self, "oracle", as_oracle(self.oracle))

    @property
    def inner(self) -> BaseOracle:
        """The oracle itself."""
        return self.oracle

    @property
    def by_position(self) -> Any:
        """True if the sets of the oracle itself may depend on the positions of items."""
        return self.oracle.by_position

    @property
    def L(self) -> Any:
        """The number of items the oracle itself is built for."""
        return self.oracle.L

    @property
    def ids(self) -> Any:
        """The ids of the items the oracle itself is built for."""
        return self.oracle.ids

    @property
    def items(self) -> Any:
        """What the items of the oracle itself are."""
        return self.oracle.items

    @property
    def K(self) -> Any:
        """The most items the oracle itself returns."""
        return self.oracle.K

    @property
    def exchanges(self) -> Any:
        """Whether items can be exchanged one by one in the sets of the oracle itself."""
        return self.oracle.exchanges

    @property
    def sense(self) -> Any:
        """1 if the oracle itself looks for large weights, -1 if for small ones."""
        return self.oracle.sense


@dataclass(frozen=True, eq=False)
class Masked(Around):
    """An oracle that chooses among the available items only."""

    available: Array  # (*B, L) bool

    @property
    def gap(self) -> Any:
        """The γ of the oracle itself."""
        return self.oracle.gap

    def __call__(self, w: Array, /) -> Array:
        """The best set of available items for the weights (*B, L): items (*B, k), -1 pads."""
        weights = where(as_like(w, self.available), w, -np.inf)
        return self.oracle(weights)

    def of_user(self, i: int | slice) -> BaseOracle:
        """The oracle of one of several users, or of some, by their number; the same for all if
        they share a mask.
        """
        if self.available.ndim == 1:
            return self
        return Masked(self.oracle, self.available[i])

    def allowed(self, L: int) -> Array:
        """The available items, (L,) bool."""
        return self.available & self.oracle.allowed(L)

    @property
    def solves_by_parts(self) -> bool:
        """True if the oracle itself can be solved by parts."""
        return self.oracle.solves_by_parts

    def solve_by_parts(
        self, row_scores: RowScores, Phi: Features, available: Array | None = None
    ) -> Array:
        """As of the oracle itself, among the available items."""
        both = self.available if available is None else self.available & available
        return self.oracle.solve_by_parts(row_scores, Phi, both)


@dataclass(frozen=True)
class _Minimize(Around):
    @property
    def gap(self) -> float | None:
        return 0.0 if self.oracle.gap == 0 else None  # a share of the best says nothing about costs

    @property
    def sense(self) -> int:
        sense: int = -self.oracle.sense
        return sense

    def solve(self, rows: Array) -> Array:
        costs = where(rows == -np.inf, rows, -rows)
        return self.oracle(costs)

    solve_tensors = solve


def minimize(oracle: Oracle) -> BaseOracle:
    """An oracle over the same feasible sets that takes weights as costs and returns the cheapest
    set. -inf still means 'not available'.

    Learners take costs as they are: those that add a bonus to weights subtract it from costs, as
    `sense` is -1. Regret in costs is negative; for the usual sign, observe minus the cost and use
    the oracle itself.

    Returns:
        an oracle that returns the set of the smallest sum of weights.

    >>> import numpy as np
    >>> from superarm import TopK, minimize
    >>> minimize(TopK(2))(np.array([3.0, 1.0, 2.0]))
    array([1, 2])
    """
    return _Minimize(as_oracle(oracle))


@dataclass(frozen=True)
class _WithGap(Around):
    gap: float
    seed: int = 0
    by_position = True

    def solve(self, rows: Array) -> Array:
        L = rows.shape[-1]
        u = Stream(self.seed).uniform((L,))
        shrink = as_like(rows, 1 - self.gap * u)
        return self.oracle(rows * shrink)

    solve_tensors = solve


def with_gap(oracle: Oracle, gamma: float, *, seed: int = 0) -> BaseOracle:
    """An exact oracle made worse on purpose, by a sub-optimality gap γ: for studies of approximate
    oracles.

    It maximizes w'(e) = (1 - γu_e) w(e) with fixed u_e in [0, 1). For weights that are not
    negative, the set A it finds satisfies f(A, w) >= f(A, w') >= f(A*, w') >= (1 - γ) f(A*, w).

    Returns:
        an oracle over the same sets, whose `gap` is γ.

    >>> import numpy as np
    >>> from superarm import TopK, with_gap
    >>> oracle = with_gap(TopK(1), 0.5)
    >>> w = np.linspace(0.6, 1.0, 11)
    >>> bool(0.5 <= w[oracle(w)][0] < 1.0), oracle.gap
    (True, 0.5)
    """
    exact = as_oracle(oracle)
    if not 0 <= gamma < 1:
        raise ParameterError(f"gamma must lie in [0, 1), got {gamma!r}")
    if exact.gap != 0:
        raise ParameterError(
            f"with_gap needs an exact oracle, but the gap of {oracle} is {exact.gap}"
        )
    return _WithGap(exact, gamma, seed)

"""What is to be solved, and who takes part: a problem, its oracle, a learner, a world.

paper           code     shape
E, L            L                        ground set, number of items
𝒜, ORACLE       oracle   (*B, L) -> (*B, K)
Φ, Φ_x          Phi      (*B, L, d)      features, one row an item; in context x
A^t             A        (*B, K) int     chosen items, -1 pads
w̄, w_t          mean, w  (*B, L)         mean weights, weights of episode t
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    Product,
    Rng,
    all_finite,
    below_infinity,
    beside,
    double,
    host,
    is_tensor,
    where,
)
from superarm.errors import FeaturesError, InfeasibleError, OracleError, ParameterError, WeightsError, is_whole


@runtime_checkable
class Oracle(Protocol):
    """Maximizes the sum of weights over the feasible sets.

    Called with weights (*B, L), it returns items (*B, k) with k <= K, padded with -1. `w[e] = -inf` means that e may
    not be chosen; NaN, +inf or a wrong length raise `WeightsError`; no feasible set raises `InfeasibleError`.
    `superarm.testing.check_oracle` checks all of this.
    """

    @property
    def K(self) -> int | None:
        """The most items it returns; None if unknown."""

    @property
    def gap(self) -> float | None:
        """The paper's γ: it reaches (1 - γ) of the maximum. 0 if exact, None if unknown."""

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""


class Problem(NamedTuple):
    """Items with features, and the oracle over their feasible sets.

    >>> import numpy as np
    >>> from superarm import Problem, TopK
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> problem.L, problem.d, problem.batch
    (4, 4, ())
    >>> today = problem._replace(Phi=2 * np.eye(4))  # the features of one call: a context
    """

    Phi: Features  # (*B, L, d)
    oracle: Oracle

    @property
    def L(self) -> int:
        """Number of items."""
        return int(self.Phi.shape[-2])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.Phi.shape[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch shape *B; () for a single run."""
        return self.Phi.shape[:-2]

    def checked(self) -> "Problem":
        """The same problem with its features validated and its oracle wrapped if it is a plain function."""
        Phi, oracle = as_features(self.Phi), as_oracle(self.oracle)
        return Problem(Phi, on_host(oracle) if is_tensor(Phi) and not _takes_tensors(oracle) else oracle)


Belief = TypeVar("Belief", bound=tuple[Any, ...])


class Learner(Protocol[Belief]):
    """An algorithm: hyperparameters and three pure functions of a belief, which is a NamedTuple of arrays.

    `superarm.testing.check_learner` checks the contract.
    """

    def init(self, problem: Problem) -> Belief:
        """The belief before any feedback."""

    def weights(self, belief: Belief, problem: Problem, rng: Rng) -> Array:
        """The weights (*B, L) to hand to the oracle in this episode."""

    def update(self, belief: Belief, problem: Problem, A: Array, w: Array) -> Belief:
        """The belief after the chosen items A showed the weights w, both (*B, K). Where A is -1, w is ignored."""


def require_learner(learner: object) -> None:
    """Refuse what is not a learner, such as its class."""
    if isinstance(learner, type) or not hasattr(learner, "init"):
        raise ParameterError(f"a learner is needed, as CombLinTS(), got {learner!r:.100}")


@runtime_checkable
class RowLearner(Protocol[Belief]):
    """A learner that knows items by their features: it also learns from rows alone, and some may count for more."""

    def update(self, belief: Belief, problem: Problem, A: Array, w: Array, importance: Array | float = 1.0) -> Belief:
        """As of `Learner`; an observation of importance v, a number or (*B, K), counts v times."""

    def learn(self, belief: Belief, problem: Problem, rows: Array, w: Array, importance: Array | float = 1.0) -> Belief:
        """The belief after feature rows (*B, n, d), of no item in particular, showed the weights w (*B, n)."""


class Environment(Protocol):
    """Where the weights come from in a simulation.

    One with an attribute `features`, (*B, L, d) or a `Product`, shows a context: the learner chooses and learns with
    these features, and not with those of the problem.
    """

    @property
    def mean(self) -> Array:
        """The true mean weights w̄ (*B, L)."""

    def draw(self, rng: Rng) -> Array:
        """The weights w_t ~ P of one episode (*B, L)."""


@runtime_checkable
class Changing(Protocol):
    """A world that differs from episode to episode, whatever the learner does: drift, or contexts from outside."""

    def at(self, t: int) -> Environment:
        """The environment of episode t = 1, 2, ...: the same whenever it is asked for."""


Choose: TypeAlias = Callable[[Features | None], Array]
"""What a learner would choose, (*B, K), if it were shown these features (the problem's own if None)."""


@runtime_checkable
class Adversary(Protocol):
    """A world that knows the learner's policy, but not its coin."""

    def against(self, t: int, choose: Choose) -> Environment:
        """The environment of episode t = 1, 2, ...; `choose` draws with a stream of its own, anew in every call."""


World: TypeAlias = Environment | Changing | Adversary
"""What an episode is played in."""


def as_numbers(values: Any) -> Array:
    """Real numbers as a float array; text, complex numbers and ragged lists are refused with a ValueError."""
    given = host(values) if is_tensor(values) else np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"got {given.dtype}")
    return given.astype(np.float64, copy=False)


def as_features(features: Any, shape: tuple[int, ...] | None = None) -> Features:
    """Features by `check_features`, a tensor as it is, or a `Product`, whose left side was checked when it was made."""
    if is_tensor(features):
        return _check_tensor(features, shape)
    if not isinstance(features, Product):
        return check_features(features, shape)
    _check_shape(features, shape)
    _check_finite(features.right)
    return features


def check_features(features: Any, shape: tuple[int, ...] | None = None) -> Array:
    """Features as a finite float array (*B, L, d), of the given shape if one is given.

    Arrays of float32 or float64 are used as they are, in either order and also memory-mapped. Strided views are copied,
    so that products round as they will after a reload.
    """
    try:
        given = host(features) if is_tensor(features) else np.asarray(features)
        Phi = given if given.dtype in (np.float32, np.float64) else as_numbers(given)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row an item ({error})") from error
    _check_shape(Phi, shape)
    _check_finite(Phi)
    return Phi if Phi.flags.forc else np.ascontiguousarray(Phi)


def _check_tensor(Phi: Array, shape: tuple[int, ...] | None) -> Array:
    """The same for a tensor, on its device."""
    _check_shape(Phi, shape)
    if not all_finite(Phi):
        raise FeaturesError("features must be finite numbers of a floating point type")
    return Phi


def _check_shape(Phi: Features, shape: tuple[int, ...] | None) -> None:
    if shape is not None and Phi.shape != shape:
        raise FeaturesError(f"features must have shape {shape} (items, features), got {Phi.shape}")
    if len(Phi.shape) < 2 or Phi.shape[-2] == 0:
        raise FeaturesError(f"features must have shape (items, features) with at least one item, got {Phi.shape}")


def _check_finite(Phi: Array) -> None:
    """A part at a time, so that a catalogue larger than memory passes through."""
    step = max(1, 2**20 * len(Phi) // max(Phi.size, 1))
    for start in range(0, len(Phi), step):
        finite = np.isfinite(Phi[start : start + step])
        if not finite.all():
            first, *rest = np.argwhere(~finite)[0]
            at = (start + int(first), *rest)
            raise FeaturesError(f"features must be finite: feature {at[-1]} of item {at[-2]} is {Phi[at]}")


def as_weights(weights: Any, L: int | None = None, *, tensors: bool = False) -> Array:
    """Weights as floats (*B, L), of the given length if one is given; tensors stay tensors only if asked."""
    try:
        w = double(weights) if tensors and is_tensor(weights) else as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers ({error})") from error
    if w.ndim == 0 or (L is not None and w.shape[-1] != L):
        wanted = "one weight an item" if L is None else f"{L} weights, one an item"
        raise WeightsError(f"the oracle needs {wanted}, got shape {tuple(w.shape)}")
    return w


def check_weights(weights: Any, L: int | None = None, *, tensors: bool = False) -> Array:
    """Weights an oracle may maximize: -inf is allowed, NaN and +inf are not."""
    w = as_weights(weights, L, tensors=tensors)
    if not below_infinity(w):
        refuse_weights(w)
    return w


def refuse_weights(w: Array, first: int = 0) -> None:
    """Raise for weights, of items from `first` on, that hold NaN or +inf, naming the first item at fault."""
    w = host(w)
    at = tuple(np.argwhere(~(w < np.inf))[0])
    item = first + int(at[-1])
    raise WeightsError(f"the weight of item {item} is {w[at]}: weights must be finite, or -inf for 'not available'")


def first_repeated(values: Iterable[Any]) -> Any:
    """The first of the values that was there before; one must have been."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    raise ValueError("no value is repeated")


def find_fault(items: Array, L: int) -> str | None:
    """What keeps `items` from being a set of items 0..L-1, in words; None if nothing does."""
    if items.ndim != 1:
        return f"items must be a flat list, got shape {items.shape}"
    if items.size == 0:
        return None
    if not np.issubdtype(items.dtype, np.integer):
        return f"items must be integers, got {items.dtype}"
    values = items.tolist()
    if min(values) < 0 or max(values) >= L:
        return f"item {next(e for e in values if not 0 <= e < L)} is not one of the items 0..{L - 1}"
    if len(set(values)) < len(values):
        return f"item {first_repeated(values)} is repeated"
    return None


@dataclass(frozen=True)
class CheckedOracle:
    """Somebody else's function `weights -> items`, or oracle, under the oracle contract; made by `as_oracle`."""

    solve: Callable[[Array], Any]
    K: int | None
    gap: float | None

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L), one weight vector at a time."""
        w = check_weights(w)
        sets = [self._checked(row) for row in w.reshape(-1, w.shape[-1])]
        A = np.full((len(sets), max(map(len, sets), default=0)), -1)
        for row, items in zip(A, sets, strict=True):
            row[: len(items)] = items
        return A.reshape(*w.shape[:-1], A.shape[-1])

    def _checked(self, w: Array) -> Array:
        found = self.solve(w.copy())
        try:
            items = np.asarray(sorted(found) if isinstance(found, set | frozenset) else found)
        except ValueError as error:
            raise OracleError(f"the oracle {self.solve!r} must return a flat list of items ({error})") from error
        if isinstance(self.solve, Oracle):
            items = items[items != -1]  # its padding
        fault = find_fault(items, len(w))
        if fault is None and self.K is not None and len(items) > self.K:
            fault = f"{len(items)} items where at most K={self.K} are allowed"
        if fault is None and items.size and np.isneginf(w[items]).any():
            if np.isneginf(w).all():
                raise InfeasibleError("no item is available")
            fault = f"item {items[np.isneginf(w[items])][0]} is not available (its weight is -inf)"
        if fault is not None:
            raise OracleError(f"the oracle {self.solve!r} must return a feasible set of items, but: {fault}")
        return items.astype(np.int64)


def as_oracle(oracle: Callable[[Array], Any], *, K: int | None = None, gap: float | None = None) -> Oracle:
    """Any function `weights -> items` as an oracle, with what it returns checked.

    superarm's own oracles are returned as they are. A function, or an oracle class of yours, sees one weight vector at
    a time, with -inf for items that may not be chosen. `K` is the most items it returns and `gap` its γ, if known; an
    object may have them as attributes.

    >>> import numpy as np
    >>> from superarm import as_oracle
    >>> best = as_oracle(lambda w: [np.argmax(w)], K=1, gap=0.0)
    >>> best(np.array([0.1, 0.7, 0.3]))
    array([1])
    """
    if not callable(oracle):
        raise OracleError(f"an oracle is a function from weights to items, got {oracle!r}")
    if isinstance(oracle, Oracle) and type(oracle).__module__.startswith("superarm."):
        if K is not None or gap is not None:
            raise ParameterError(f"{oracle} has its own K={oracle.K} and gap={oracle.gap}")
        return oracle
    K = getattr(oracle, "K", None) if K is None else K
    gap = getattr(oracle, "gap", None) if gap is None else gap
    if not (K is None or (is_whole(K) and K >= 0)) or not (gap is None or 0 <= gap < 1):
        raise ParameterError(f"K must be a whole number and gap lie in [0, 1), or be None; got K={K}, gap={gap}")
    return CheckedOracle(oracle, K, gap)


@dataclass(frozen=True)
class Around:
    """An oracle around another, whose K and gap it has."""

    oracle: Oracle

    @property
    def K(self) -> int | None:
        """As of the oracle itself."""
        return self.oracle.K

    @property
    def gap(self) -> float | None:
        """As of the oracle itself."""
        return self.oracle.gap


class OnHost(Around):
    """An oracle for tensors that solves on the CPU; made by `on_host`."""

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        return beside(w, self.oracle(host(w)))


def on_host(oracle: Oracle) -> OnHost:
    """For an oracle without kernels for tensors; says so, and Python says it once."""
    warnings.warn(f"{oracle} solves on the CPU: the weights of each episode are moved there and back", stacklevel=2)
    return OnHost(oracle)


def _takes_tensors(oracle: object) -> bool:
    """Whether it solves where the weights are: those around others do if the others do."""
    if isinstance(oracle, OnHost):
        return True
    inner = getattr(oracle, "oracle", None)
    return getattr(oracle, "takes_tensors", False) if inner is None else _takes_tensors(inner)


@dataclass(frozen=True, eq=False)
class Masked(Around):
    """An oracle that chooses among the available items only."""

    available: Array  # (*B, L) bool

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        return self.oracle(where(beside(w, self.available), w, -np.inf))


def feasible(found: bool, oracle: object) -> None:
    """Raise `InfeasibleError` in the name of `oracle` unless a set was found."""
    if not found:
        raise InfeasibleError(f"{oracle}: no feasible set among the items that are available (weight above -inf)")

"""What the head of a catalogue in shards notes, and what it refuses."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers
from superarm.cluster.shards import Added, Fields, State
from superarm.contracts import Learner, require_learner
from superarm.errors import (
    FeaturesError,
    ItemsError,
    OracleError,
    ParameterError,
    WeightsError,
)
from superarm.oracles.base import BaseOracle
from superarm.oracles.selection import GroupedPart


class About(NamedTuple):
    """A belief, and where items are in it."""

    belief: Any
    known: Array  # (M,) the items it is about
    held: Array  # (M, d) their rows
    places: Array  # where the items of a decision are among them; -1 if that does not matter


class Changes:
    """What has changed in a shard since its files were written."""

    def __init__(self) -> None:
        self.version = 0
        self.rows: list[Array] = []
        self.items: list[Array] = []
        self.columns: list[Mapping[str, Array]] = []
        self.removed: list[Array] = []

    def state(self, width: int, part: GroupedPart, fields: Fields) -> State:
        """All of it, with what the oracle knows and what is believed of the items."""
        names = self.columns[0] if self.columns else ()
        columns = {name: np.concatenate([some[name] for some in self.columns]) for name in names}
        rows = joined(self.rows, (0, width))
        added = Added(rows, joined(self.items, (0,)), columns, part)
        return State(self.version, added, joined(self.removed, (0,)), fields)


def rows_at(A: Array, items: Array, rows: Array) -> Array:
    """The rows of the items A among those of others; zeros for -1."""
    order = np.argsort(items)
    places = np.append(order, len(items))[np.searchsorted(items, A, sorter=order)]
    with_padding = np.vstack([rows, np.zeros((1, rows.shape[1]))])
    found: Array = with_padding[np.where(A < 0, len(items), places)]
    return found


def joined(arrays: Sequence[Array], empty: tuple[int, ...]) -> Array:
    """All of the arrays in one; of no arrays, one of this shape."""
    return np.concatenate(arrays) if arrays else np.empty(empty, np.int64)


def require_by_features(learner: Learner) -> None:
    """Refuse a learner that does not know items by their features."""
    require_learner(learner)
    if not learner.model.uses_features:
        raise ParameterError(
            f"{type(learner).__name__} learns about items one by one, without features: it has "
            "nothing to say about the items of a catalogue that is too large for one machine"
        )


def require_parts(oracle: Any, L: int) -> None:
    """Refuse an oracle that cannot be solved by parts, or is for another number of items."""
    by_parts = isinstance(oracle, BaseOracle) and oracle.exchanges and oracle.sense > 0
    if not by_parts or not isinstance(oracle.part(slice(0, 1)), GroupedPart):
        raise OracleError(
            f"{oracle} cannot be solved by parts: use TopK, Quota or PartitionMatroid"
        )
    if oracle.L not in (None, L):
        raise OracleError(
            f"{oracle} is for {oracle.L} items, but there are {L}: give one for all of them"
        )


def as_items(items: Sequence[int] | Array, end: int) -> Array:
    """The numbers of items, each below `end`."""
    numbers = np.asarray(items)
    if not numbers.size:
        return np.empty(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ItemsError(f"items must be a flat list of their numbers, got {items!r:.100}")
    unknown = numbers[(numbers < 0) | (numbers >= end)]
    if len(unknown):
        raise ItemsError(f"there is no item {unknown[0]}: numbers go from 0 to {end - 1}")
    return numbers.astype(np.int64)


def as_contexts(contexts: Any) -> Array:
    """Contexts as finite numbers (n, d_u)."""
    try:
        x = as_numbers(contexts)
    except ValueError as error:
        raise FeaturesError(f"contexts must be numbers, one row per call ({error})") from error
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise FeaturesError(f"contexts must be finite, one row per call, got shape {x.shape}")
    return x


def as_observed(weights: Any, n: int) -> Array:
    """What n items showed, as finite numbers (n,)."""
    try:
        w = as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers, one per item ({error})") from error
    if w.shape != (n,) or not np.isfinite(w).all():
        raise WeightsError(f"weights must be {n} finite numbers, got {weights!r:.100}")
    return w

"""What the head of a catalogue in shards notes, and what it refuses."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers
from superarm.contracts import Learner, require_learner
from superarm.errors import (
    FeaturesError,
    ItemsError,
    OracleError,
    ParameterError,
    WeightsError,
)
from superarm.oracles.base import BaseOracle


class About(NamedTuple):
    """A belief, and where items are in it."""

    belief: Any
    known: Array  # (M,) the items it is about
    held: Array  # (M, d) their rows
    places: Array  # where the items of a decision are among them; -1 if that does not matter


class Later(NamedTuple):
    """Items that were added, in the order of their numbers."""

    rows: Array  # (m, d)
    columns: Mapping[str, Array]  # (m,) each

    def and_then(self, new: "Later") -> "Later":
        """These items, and those behind them."""
        columns = {name: _behind(self.columns.get(name), x) for name, x in new.columns.items()}
        return Later(np.concatenate([self.rows, new.rows]), columns)


def _behind(before: Array | None, new: Array) -> Array:
    return new if before is None else np.concatenate([before, new])


def rows_at(A: Array, items: Array, rows: Array) -> Array:
    """The rows of the items A among those of others; zeros for -1."""
    order = np.argsort(items)
    places = np.append(order, len(items))[np.searchsorted(items, A, sorter=order)]
    with_padding = np.vstack([rows, np.zeros((1, rows.shape[1]))])
    found: Array = with_padding[np.where(A < 0, len(items), places)]
    return found


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
    if not by_parts or oracle.part(slice(0, 1)) is None:
        raise OracleError(
            f"{oracle} cannot be solved by parts: use TopK, Quota, PartitionMatroid, "
            "LaminarMatroid or Matroid"
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

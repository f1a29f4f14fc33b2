"""What the head of a catalogue in shards notes, and what it refuses."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers, check_features, find_fault, require_count
from superarm.cluster.shards import Fields, Found
from superarm.contracts import Learner, Model, Problem, features_stay, require_learner
from superarm.errors import FeaturesError, ItemsError, MaskError, OracleError, ParameterError
from superarm.oracles.base import BaseOracle
from superarm.oracles.parts import Part


class Choice(NamedTuple):
    """One decision: `items`, and `rows`, their features, which the learner learns from."""

    items: Array  # (K,) their numbers, in the oracle's order
    rows: Array  # (K, d) what the learner learns from: their features, in the context if any


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


def problem_of(held: Array, oracle: BaseOracle, contexts: Any, width: int | None) -> Problem:
    """Items with these rows; in a context of ones where there are contexts."""
    if contexts is None or width is None:
        return Problem(held, oracle)
    return Problem(contexts(held)(np.ones(width)), oracle)


def rows_at(A: Array, items: Array, rows: Array) -> Array:
    """The rows of the items A among those of others; zeros for -1."""
    order = np.argsort(items)
    places = np.append(order, len(items))[np.searchsorted(items, A, sorter=order)]
    with_padding = np.vstack([rows, np.zeros((1, rows.shape[1]))])
    found: Array = with_padding[np.where(A < 0, len(items), places)]
    return found


def fields_of(model: Model, belief: Any, known: Array, which: Array) -> Fields:
    """What is believed of some of the known items."""
    per_item = model.per_item if belief is not None else ()
    values = {name: getattr(belief, name)[..., which] for name in per_item}
    return Fields(known[which], values)


def part_of(oracle: BaseOracle, ends: Array, added: Array) -> Part:
    """What the oracle knows of the items of a shard, without their numbers."""
    items = np.append(np.arange(*ends), added) if oracle.L else added
    part = cast(Part, oracle.part(items))
    return part._replace(items=np.empty(0, np.int64))


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
    if numbers.ndim == 1:
        numbers = np.unique(numbers)
    if fault := find_fault(numbers, end):
        raise ItemsError(fault)
    return numbers.astype(np.int64)


def as_contexts(contexts: Any, kind: Any, learner: Learner, width: int | None) -> Array | None:
    """Contexts (n, d_u) of this width for a catalogue of this kind; None if it has none."""
    if (contexts is None) != (kind is None):
        raise FeaturesError(
            "a call has a context if, and only if, the catalogue was made with contexts="
        )
    if contexts is None:
        return None
    if features_stay(learner.model):
        raise FeaturesError(f"{type(learner).__name__} needs contexts=True for contexts")
    try:
        x = as_numbers(contexts)
    except ValueError as error:
        raise FeaturesError(f"contexts must be numbers, one row per call ({error})") from error
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise FeaturesError(f"contexts must be finite, one row per call, got shape {x.shape}")
    if width is not None and x.shape[1] != width:
        raise FeaturesError(f"a context has {width} features, got {x.shape[1]}")
    return x


def as_later(features: Any, columns: Mapping[str, Any], width: int, names: Sequence[str]) -> Later:
    """Items to add, which need so many features and an entry in each of the columns."""
    rows = check_features(features)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise FeaturesError(f"features must have shape (n, {width}), got {rows.shape}")
    given = {name: np.asarray(values) for name, values in columns.items()}
    if set(given) != set(names) or any(len(x) != len(rows) for x in given.values()):
        raise MaskError(f"each item needs an entry in each of the columns {tuple(names)}")
    return Later(rows, given)


def number_of_calls(n: int | None, *lists: Any) -> int:
    """How many calls there are, which n and all lists must agree on; 1 if nothing says."""
    counts = {len(each) for each in lists if each is not None}
    if n is not None:
        require_count(n=n)
        counts.add(n)
    if len(counts) > 1:
        raise ParameterError(f"contexts, exclude and n must be of as many calls, got {counts}")
    return counts.pop() if counts else 1


def rows_found(A: Array, found: Sequence[Found]) -> Array | None:
    """The rows of the items A among what shards found; None if some have sent none."""
    rows = [each.rows for each in found if each.rows is not None]
    if len(rows) < len(found):
        return None
    items = np.concatenate([each.candidates.items for each in found])
    return rows_at(A, items, np.concatenate(rows))

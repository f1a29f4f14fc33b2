"""What the process that asks the shards of a catalogue keeps: the head."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from superarm.arrays import Array
from superarm.cluster.shards import Fields, Found
from superarm.contracts import Model, Problem
from superarm.oracles.base import BaseOracle
from superarm.oracles.parts import Part


class Choice(NamedTuple):
    """One decision: `items`, and `rows`, their features, which the learner learns from. Where fewer
    than K items are chosen, -1 pads the items, and zeros the rows.
    """

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


def places_of(A: Array, items: Array) -> Array:
    """Where the items A are among these, which hold all of them; -1 for -1."""
    order = np.append(np.argsort(items), -1)
    places: Array = order[np.searchsorted(items, A, sorter=order[:-1])]
    return np.where(A < 0, -1, places)


def rows_at(A: Array, items: Array, rows: Array) -> Array:
    """The rows of the items A among those of others; zeros for -1."""
    with_padding = np.vstack([rows, np.zeros((1, rows.shape[1]))])
    found: Array = with_padding[places_of(A, items)]
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


def rows_found(A: Array, found: Sequence[Found]) -> Array | None:
    """The rows of the items A among what shards found; None if some have sent none."""
    rows = [each.rows for each in found if each.rows is not None]
    if len(rows) < len(found):
        return None
    items = np.concatenate([each.candidates.items for each in found])
    return rows_at(A, items, np.concatenate(rows))

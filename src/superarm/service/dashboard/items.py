"""Items: how often each was chosen, what came back, and what is believed of it."""

import functools
import math
import threading
from collections import OrderedDict
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from superarm.agent.state import State
from superarm.arrays import Array, matvec
from superarm.contexts import InContext
from superarm.service.dashboard import tallies
from superarm.service.dashboard.coefficients import coefficients_of
from superarm.service.dashboard.expected import expected, responded
from superarm.service.dashboard.shapes import ItemTallies, ItemTally
from superarm.service.dashboard.spread import interval
from superarm.service.engine import Service
from superarm.service.fold import Folded
from superarm.service.problems import Unfit

SORTS = ("chosen", "mean", "deviation", "predicted", "item")
ORDERS = ("desc", "asc")
REMEMBERED = 4
"""Agents whose counts are remembered in the order of their items."""


class Aligned:
    """What is counted, in the order of the items of an agent.

    Args:
        kept: what is counted, and when it was written.
        catalogue: where in the log the items were changed last.
        state: of the agent.
        before: what was aligned last, to go on from.
    """

    def __init__(
        self,
        kept: tallies.ItemsKept,
        catalogue: int,
        state: State,
        before: "Aligned | None",
    ) -> None:
        columns = kept.columns
        self.version = (kept.position, catalogue)
        self.ids = state.catalogue.ids
        self._items = columns.items
        known = self._known(before)
        new = columns.items[len(known) :]
        found = np.fromiter(map(state.catalogue.get, new), np.int64, len(new))
        places = np.concatenate([known, found])
        self._places = places
        here = places >= 0
        self.chosen = self._filled(columns.column("chosen"), places, here)
        self.weights = self._filled(columns.column("weights"), places, here)
        self.sums = self._filled(columns.column("sums"), places, here)
        self.squares = self._filled(columns.column("squares"), places, here)

    def _known(self, before: "Aligned | None") -> Array:
        """The places of those items that were known: they stay, and others come behind them."""
        nothing = np.empty(0, np.int64)
        if before is None or before.version[1] != self.version[1]:
            return nothing
        n = len(before._items)
        return before._places if self._items[:n] == before._items else nothing

    def _filled(self, column: Array, places: Array, here: Array) -> Array:
        found = np.zeros(len(self.ids), column.dtype)
        found[places[here]] = column[here]
        return found

    def share(self, before: "Aligned | None") -> None:
        """Take over what was made of the same ids."""
        if before is not None and before.version[1] == self.version[1]:
            for name in ("texts", "alphabetical"):
                if name in vars(before):
                    vars(self)[name] = vars(before)[name]

    @functools.cached_property
    def texts(self) -> list[str]:
        """The ids as they are searched for."""
        return [str(item).casefold() for item in self.ids.tolist()]

    @functools.cached_property
    def alphabetical(self) -> Array:
        """The place of each item in the order of the ids."""
        listed = self.ids.tolist()
        order = sorted(range(len(listed)), key=listed.__getitem__)
        found = np.empty(len(order), np.int64)
        found[order] = np.arange(len(order))
        return found

    @functools.cached_property
    def binary(self) -> bool:
        """Whether all weights of all items are 0 or 1, as far as is known: w² = w, and both were
        seen.
        """
        total = float(self.sums.sum())
        return total == float(self.squares.sum()) and 0 < total < int(self.weights.sum())

    @property
    def mean(self) -> Array:
        """The mean weight of each item; NaN where there was no feedback."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Array = self.sums / np.where(self.weights > 0, self.weights, np.nan)
        return found


class _Memory:
    """What was aligned last, by agent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Aligned] = OrderedDict()

    def of(self, service: Service, folded: Folded, state: State) -> Aligned:
        """What is counted of an agent by now."""
        connection = service.database.read()
        agent = folded.created_at
        with self._lock:
            known = self._known.get(agent)
            version = (tallies.items_position(connection, agent), folded.catalogue)
            if known is None or known.version != version:
                before = known
                known = Aligned(tallies.items(connection, agent), folded.catalogue, state, before)
                known.share(before)
                self._known[agent] = known
            self._known.move_to_end(agent)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return known


_memories: WeakKeyDictionary[Service, _Memory] = WeakKeyDictionary()


class Asked(NamedTuple):
    """Which items to show."""

    search: str = ""
    sort: str = "chosen"
    order: str = "desc"
    start: int = 0
    limit: int = 50

    def require(self) -> "Asked":
        """The same, if it can be meant."""
        for field, known in (("sort", SORTS), ("order", ORDERS)):
            value = getattr(self, field)
            if value not in known:
                raise Unfit(f"{field} is one of {', '.join(known)}, got {value!r:.60}", f"/{field}")
        return self


def items(service: Service, name: str, asked: Asked) -> ItemTallies:
    """Items of an agent in the order asked for."""
    folded, state = service.ready(name)
    memory = _memories.setdefault(service, _Memory())
    counts = memory.of(service, folded, state)
    beliefs = _beliefs(state)
    deviation = counts.mean - beliefs.features
    keys = {
        "chosen": counts.chosen,
        "mean": counts.mean,
        "deviation": deviation,
        "predicted": beliefs.predicted,
        "item": counts.alphabetical,
    }
    found = _found(counts, asked.search)
    order = found[_order(np.broadcast_to(keys[asked.sort], len(counts.ids))[found], asked.order)]
    shown = order[asked.start : asked.start + asked.limit]
    return ItemTallies(
        items=[_line(counts, beliefs, deviation, place) for place in shown.tolist()],
        found=len(found),
        total=len(counts.ids),
    )


def _found(counts: Aligned, search: str) -> Array:
    """The places of the items whose id has a text in it."""
    if not search:
        return np.arange(len(counts.ids))
    wanted = search.casefold()
    return np.flatnonzero(np.array([wanted in text for text in counts.texts], np.bool_))


def _order(values: Array, order: str) -> Array:
    """Places by value; those without one are last, and equal ones stay in their order."""
    keys = np.asarray(values, np.float64)
    return np.argsort(-keys if order == "desc" else keys, kind="stable")  # NaN is last in both


class _Beliefs(NamedTuple):
    """What is believed of items; NaN where there is nothing to say without a context."""

    predicted: Array  # (L,) or ()
    features: Array  # (L,) or (), what features alone say


def _beliefs(state: State) -> _Beliefs:
    unknown = np.array(np.nan)
    if isinstance(state.problem.Phi, InContext):
        return _Beliefs(unknown, unknown)
    predicted = expected(state.learner, state.belief, state.problem)
    model: Any = state.learner.model
    theta = coefficients_of(state)
    if theta is None:
        return _Beliefs(predicted, unknown)
    if not model.per_item:
        return _Beliefs(predicted, predicted)
    linear = matvec(state.problem.Phi, theta)
    return _Beliefs(predicted, responded(state.learner, linear))


def _line(counts: Aligned, beliefs: _Beliefs, deviation: Array, place: int) -> ItemTally:
    n = int(counts.weights[place])
    total = float(counts.sums[place])
    mean = interval(n, total, float(counts.squares[place]), binary=counts.binary)
    predicted = beliefs.predicted[place] if beliefs.predicted.ndim else beliefs.predicted
    return ItemTally(
        item=counts.ids[place : place + 1].tolist()[0],
        chosen=int(counts.chosen[place]),
        weights=n,
        mean=None if mean is None else mean.value,
        low=None if mean is None else mean.low,
        high=None if mean is None else mean.high,
        predicted=_number(predicted),
        deviation=_number(deviation[place]),
    )


def _number(value: Any) -> float | None:
    found = float(value)
    return found if math.isfinite(found) else None

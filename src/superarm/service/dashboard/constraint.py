"""A constraint in words, and how often each part of it binds."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from superarm.agent.state import State
from superarm.service.dashboard.shapes import Bound, Constraint
from superarm.service.dashboard.words import constraint_words
from superarm.service.database import Connection
from superarm.service.engine import Service
from superarm.service.events import Id
from superarm.service.fold import Folded

LAST = 500
"""Decisions that are looked at."""
SHOWN = 100
"""Parts of a constraint that are told of: those that bind most."""
LONGEST = 1000
"""Entries of a parameter that are told."""
RECENT = (
    "SELECT body FROM events WHERE agent = ? AND kind = 'decided' AND position > ? "
    "ORDER BY position DESC LIMIT ?"
)
ALL = "items in all"
"""The label of what counts all items."""
CLOSE = 1e-9
"""The share of a budget that sums of costs may be rounded by."""


class Chosen(msgspec.Struct, frozen=True, tag_field="event", tag="decided"):
    """As much of a decision as a constraint is about."""

    items: list[Id]
    oracle: dict[str, Any] | None = None


_chosen = msgspec.msgpack.Decoder(Chosen)


class Limit(NamedTuple):
    """One part of a constraint."""

    label: str
    words: str
    least: float | None
    most: float | None
    needs: float = 1.0  # what is left must be as much for there to be room


class Used(NamedTuple):
    """What one decision uses of each limit, by label, and what one more item would take at least
    of a budget.
    """

    amounts: Mapping[str, float]
    cheapest: float


def constraint(service: Service, name: str) -> Constraint:
    """The constraint of an agent, in words and in numbers."""
    folded = service.view(name)
    spec = folded.oracle or folded.created.oracle
    state = folded.state
    n = 0 if state is None else state.catalogue.n
    chosen = recent(service.database.read(), folded)
    bounds: list[Bound] = []
    if state is not None:
        bounds = _bounds(spec, state, [one.items for one in chosen])
    return Constraint(
        words=constraint_words(spec, n),
        kind=str(spec["kind"]),
        parameters={key: _short(value) for key, value in spec.items() if key != "kind"},
        bounds=bounds,
        decisions=len(chosen),
    )


def _short(value: Any) -> Any:
    """A parameter, unless it has an entry per item of very many: the agent itself has those."""
    if isinstance(value, list | dict) and len(value) > LONGEST:
        return f"{len(value):,} entries"
    return value


def recent(connection: Connection, folded: Folded) -> list[Chosen]:
    """The last decisions under the constraint of now: not those with one of their own."""
    since = 0 if folded.oracle is None else folded.catalogue
    rows = connection.execute(RECENT, (folded.created_at, since, LAST))
    found = [_chosen.decode(body) for (body,) in rows if body is not None]
    return [one for one in found if one.oracle is None]


def _bounds(spec: Mapping[str, Any], state: State, decisions: list[list[Id]]) -> list[Bound]:
    parts = _Parts(spec, state)
    limits = list(parts.limits())
    if not (limits and decisions):
        return []
    used = [parts.used(items) for items in decisions]
    found = [_bound(limit, used) for limit in limits]
    found.sort(key=lambda bound: -bound.binds)
    return found[:SHOWN]


def _bound(limit: Limit, used: list[Used]) -> Bound:
    """How often a limit leaves nothing, and how much of it is used."""
    binds = 0
    share = 0.0
    for one in used:
        amount = one.amounts.get(limit.label, 0.0)
        needs = one.cheapest if limit.label == COSTS else limit.needs
        at_most = limit.most is not None and amount + needs > limit.most * (1 + CLOSE)
        at_least = limit.least is not None and amount <= limit.least
        binds += at_most or at_least
        share += amount / limit.most if limit.most else 0.0
    n = len(used)
    return Bound(
        words=limit.words,
        binds=binds / n,
        used=share / n if limit.most else None,
    )


COSTS = "costs"
"""The label of what a budget is spent on."""


class _Parts:
    """The parts of a constraint, and what sets of items use of them.

    Args:
        spec: the oracle in terms of JSON.
        state: of the agent, for the ids that a list of groups or costs is in the order of.
    """

    def __init__(self, spec: Mapping[str, Any], state: State) -> None:
        self._spec = spec
        self._ids: list[Id] = state.catalogue.ids.tolist()
        known = state.constraints.known
        self._listed = self._ids if known is None else known.ids.tolist()
        self._labels = {item: _labels(of) for item, of in self._per_item("groups").items()}
        self._costs = self._per_item("costs")
        here = [item for item in self._ids if item in self._costs]
        self._cheapest = sorted(here, key=self._costs.__getitem__)

    def _per_item(self, name: str) -> dict[Id, Any]:
        """A parameter with one entry per item, by item."""
        given = self._spec.get(name)
        if isinstance(given, Mapping):
            return {item: given[str(item)] for item in self._ids if str(item) in given}
        if isinstance(given, list):
            return dict(zip(self._listed, given, strict=False))
        return {}

    def limits(self) -> Iterator[Limit]:
        """Each part of the constraint; none if its kind has no parts to tell of."""
        kind = self._spec["kind"]
        if kind in ("TopK", "Slate"):
            k = self._spec["k"]
            yield Limit(ALL, f"{k:,} items", None, k)
        elif kind == "Quota":
            yield from self._quota()
        elif kind == "PartitionMatroid":
            yield from self._at_most("capacities")
        elif kind == "GroupLimits":
            yield from self._at_most("limits")
        elif kind in ("Knapsack", "Budget"):
            budget = self._spec["budget"]
            yield Limit(COSTS, f"costs of at most {budget:,g}", None, budget)
            yield from self._at_most("maximum")
        most = self._spec.get("max_items")
        if most is not None and kind in ("GroupLimits", "Knapsack", "Budget"):
            yield Limit(ALL, f"at most {most:,} items", None, most)

    def _quota(self) -> Iterator[Limit]:
        counts = self._spec.get("counts")
        if counts is not None:
            for label, n in counts.items():
                yield Limit(f"group {label}", f"{n:,} of {label[:60]!r}", None, n)
            return
        total = self._spec["total"]
        yield Limit(ALL, f"{total:,} items", None, total)
        for label, n in (self._spec.get("minimum") or {}).items():
            yield Limit(f"group {label}", f"at least {n:,} of {label[:60]!r}", n, None)
        yield from self._at_most("maximum")

    def _at_most(self, name: str) -> Iterator[Limit]:
        """Limits by group, or the same for each."""
        given = self._spec.get(name)
        if given is None:
            return
        if not isinstance(given, Mapping):
            labels = sorted({label for of in self._labels.values() for label in of})
            given = dict.fromkeys(labels, given)
        for label, n in given.items():
            yield Limit(f"group {label}", f"at most {n:,} of {label[:60]!r}", None, n)

    def used(self, items: list[Id]) -> Used:
        """What a set of items uses of the limits."""
        amounts: Counter[str] = Counter()
        amounts[ALL] = len(items)
        for item in items:
            amounts.update(f"group {label}" for label in self._labels.get(item, ()))
        found: dict[str, float] = dict(amounts)
        cheapest = float("inf")
        if self._costs:
            found[COSTS] = float(sum(self._costs.get(item, 0.0) for item in items))
            chosen = set(items)
            others = (self._costs[item] for item in self._cheapest if item not in chosen)
            cheapest = next(others, cheapest)
        return Used(found, cheapest)


def _labels(of: Any) -> list[str]:
    """The labels of an item, as they are as keys of an object of JSON's."""
    listed = of if isinstance(of, list) else [of]
    return [label if isinstance(label, str) else json.dumps(label) for label in listed]

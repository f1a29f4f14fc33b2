"""What each event of the log adds to the tallies."""

import math
from array import array
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import msgspec

from superarm.service.dashboard.tallies import MINUTE, ItemColumns, Tally
from superarm.service.events import Corrected, Correction, Id, Observed, Seen, chosen

IN_MEMORY = 1_000_000
"""Items of all agents whose counts are in memory between two times that they are written."""
RECENT = 20_000
"""Decisions that are remembered, as feedback on them is likely to come."""


_feedback = msgspec.msgpack.Decoder(Observed | Corrected)


class Event(NamedTuple):
    """A row of the log."""

    position: int
    agent: int
    kind: str
    time: str
    body: bytes | None


class Made(NamedTuple):
    """A decision that was made."""

    seconds: float  # since 1970
    items: list[Id]

    @property
    def minute(self) -> int:
        """When its minute began."""
        whole = math.floor(self.seconds)
        return whole - whole % MINUTE


class Before(NamedTuple):
    """What was known of a decision before an event."""

    known: int  # weights
    earned: float  # their sum


Look = Callable[[int], Event | None]
"""Finds the event at a position; None if it is gone."""
Recall = Callable[[int, int], dict[int, float]]
"""Finds the weights of a decision, by place, that were known before a position."""


def seconds_of(time: str) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()


class Decisions:
    """The decisions that feedback is on: the last ones are remembered, others are looked up.

    Args:
        look: finds an event.
        began: decisions up to this position are not counted, nor is feedback on them.
    """

    def __init__(self, look: Look, began: int) -> None:
        self._look = look
        self._began = began
        self._recent: OrderedDict[int, Made] = OrderedDict()

    def note(self, position: int, made: Made) -> None:
        """Remember a decision."""
        self._recent[position] = made
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def find(self, position: int) -> Made | None:
        """The decision at a position; None if it does not count, or was erased."""
        if position <= self._began:
            return None
        found = self._recent.get(position)
        if found is not None:
            return found
        event = self._look(position)
        if event is None or event.body is None:
            return None
        made = Made(seconds_of(event.time), chosen(event.body).items)
        self.note(position, made)
        return made


class Minutes:
    """What events add to the buckets of time."""

    def __init__(self) -> None:
        self.added: dict[tuple[int, int], Tally] = {}  # by agent, and when the minute begins

    def of(self, agent: int, minute: int) -> Tally:
        """What is added to one minute of one agent."""
        found = self.added.get((agent, minute))
        if found is None:
            found = Tally(delays={}, scales={})
            self.added[agent, minute] = found
        return found

    def decided(self, agent: int, made: Made, explored: bool | None) -> None:
        """A decision."""
        tally = self.of(agent, made.minute)
        tally.decisions += 1
        if explored is not None:
            tally.looked_at += 1
            tally.explored += explored

    def observed(self, agent: int, made: Made, seen: Seen, before: Before) -> None:
        """Feedback on a decision."""
        tally = self.of(agent, made.minute)
        tally.weights += len(seen.places)
        tally.answered += before.known == 0
        _earn(tally, before.earned, before.earned + sum(seen.weights))

    def corrected(self, agent: int, made: Made, before: float, after: float) -> None:
        """Other feedback on a decision, whose return becomes another one."""
        _earn(self.of(agent, made.minute), before, after)


def _earn(tally: Tally, before: float, after: float) -> None:
    """A decision came to something else than it did before."""
    tally.earned += after - before
    tally.squares += after * after - before * before


class ItemCounts:
    """What is counted per item of one agent."""

    def __init__(self, columns: ItemColumns) -> None:
        self._places = {item: i for i, item in enumerate(columns.items)}
        self.chosen = array("q", columns.chosen)
        self.weights = array("q", columns.weights)
        self.sums = array("d", columns.sums)
        self.squares = array("d", columns.squares)

    def place(self, item: Id) -> int:
        """Where an item is."""
        found = self._places.get(item)
        if found is None:
            found = len(self._places)
            self._places[item] = found
            for column in (self.chosen, self.weights, self.sums, self.squares):
                column.append(0)
        return found

    def weigh(self, item: Id, times: int, before: float, after: float) -> None:
        """Count a weight of an item that takes the place of another one."""
        i = self.place(item)
        self.weights[i] += times
        self.sums[i] += after - before
        self.squares[i] += after * after - before * before

    def body(self) -> bytes:
        """All of it, as bytes."""
        found = ItemColumns(
            list(self._places),
            self.chosen.tobytes(),
            self.weights.tobytes(),
            self.sums.tobytes(),
            self.squares.tobytes(),
        )
        return msgspec.msgpack.encode(found)


class ItemsOfAll:
    """What is counted per item, by agent.

    Args:
        load: what is kept of an agent.
    """

    def __init__(self, load: Callable[[int], ItemColumns]) -> None:
        self._load = load
        self._counts: dict[int, ItemCounts] = {}
        self.changed: set[int] = set()

    def of(self, agent: int) -> ItemCounts:
        """The counts of an agent, which will change."""
        self.changed.add(agent)
        found = self._counts.get(agent)
        if found is None:
            found = ItemCounts(self._load(agent))
            self._counts[agent] = found
        return found

    def written(self) -> None:
        """Note that all is kept by now, and let go of it if it takes much memory."""
        self.changed.clear()
        if sum(len(counts.chosen) for counts in self._counts.values()) > IN_MEMORY:
            self._counts.clear()

    def forget(self, agent: int) -> None:
        """Let go of an agent that was removed."""
        self._counts.pop(agent, None)
        self.changed.discard(agent)

    def decided(self, agent: int, made: Made, explored: bool | None) -> None:
        """A decision."""
        counts = self.of(agent)
        for item in made.items:
            counts.chosen[counts.place(item)] += 1

    def observed(self, agent: int, made: Made, seen: Seen, before: Before) -> None:
        """Feedback on a decision."""
        counts = self.of(agent)
        for place, weight in zip(seen.places, seen.weights, strict=True):
            counts.weigh(made.items[place], 1, 0.0, weight)

    def replaced(self, agent: int, item: Id, before: float, after: float) -> None:
        """Another weight of an item than there was."""
        self.of(agent).weigh(item, 0, before, after)


class Counting:
    """Reads events, in their order, into the tallies.

    Args:
        decisions: finds those that feedback is on.
        recall: finds what was known of a decision, where the log does not say so.
    """

    KINDS: ClassVar[frozenset[str]] = frozenset(("decided", "observed", "corrected"))

    def __init__(self, decisions: Decisions, recall: Recall) -> None:
        self._decisions = decisions
        self._recall = recall
        self._at = 0
        self._known: dict[int, dict[int, float]] = {}  # of decisions in the event at that position

    def read(self, event: Event, minutes: Minutes | None, items: ItemsOfAll | None) -> None:
        """Count an event; in buckets of time, per item, or both."""
        parts = [part for part in (minutes, items) if part is not None]
        if event.body is None or event.kind not in self.KINDS:
            return
        if event.kind == "decided":
            decision = chosen(event.body)
            made = Made(seconds_of(event.time), decision.items)
            self._decisions.note(event.position, made)
            for part in parts:
                part.decided(event.agent, made, decision.explored)
            return
        feedback: Any = _feedback.decode(event.body)
        if isinstance(feedback, Observed):
            for seen in feedback.seen:
                self._observe(event, feedback, seen, parts)
        else:
            for one in feedback.corrections:
                self._correct(event, one, minutes, items)

    def _observe(self, event: Event, feedback: Observed, seen: Seen, parts: list[Any]) -> None:
        made = self._decisions.find(seen.decision)
        if made is None:
            return
        before = self._before(event, seen)
        for part in parts:
            part.observed(event.agent, made, seen, before)
        is_first = before.known == 0 and not feedback.by_default
        if is_first and isinstance(parts[0], Minutes):
            tally = parts[0].of(event.agent, made.minute)
            tally.wait(seconds_of(event.time) - made.seconds)

    def _before(self, event: Event, seen: Seen) -> Before:
        if seen.known >= 0:
            return Before(seen.known, seen.earned or 0.0)
        known = self._recalled(event, seen.decision)
        found = Before(len(known), sum(known.values()))
        known.update(zip(seen.places, seen.weights, strict=True))
        return found

    def _recalled(self, event: Event, decision: int) -> dict[int, float]:
        """The weights that are known of a decision by now, in the middle of an event."""
        if event.position != self._at:
            self._at = event.position
            self._known = {}
        if decision not in self._known:
            self._known[decision] = self._recall(decision, event.position)
        return self._known[decision]

    def _correct(
        self,
        event: Event,
        one: Correction,
        minutes: Minutes | None,
        items: ItemsOfAll | None,
    ) -> None:
        made = self._decisions.find(one.decision)
        if made is None:
            return
        before = one.before
        earned = one.earned
        if before is None or earned is None:
            known = self._recalled(event, one.decision)
            before = known.get(one.place, one.weight)
            earned = sum(known.values())
            known[one.place] = one.weight
        if minutes is not None:
            minutes.corrected(event.agent, made, earned, earned + one.weight - before)
        if items is not None:
            items.replaced(event.agent, made.items[one.place], before, one.weight)

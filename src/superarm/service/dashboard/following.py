"""The thread that counts: it follows the log, and writes tallies about once per second.

It works for a small share of the time, so that deciding is not slowed; where it is behind, as after
an upgrade, it catches up in the background.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from superarm.service import log
from superarm.service.dashboard import tallies
from superarm.service.dashboard.counting import (
    Counting,
    Decisions,
    Event,
    ItemsOfAll,
    Minutes,
    seconds_of,
)
from superarm.service.dashboard.tallies import Counted
from superarm.service.database import Connection, Database
from superarm.service.events import Corrected, Observed, decoded
from superarm.service.fold import Folded
from superarm.service.log import Tail
from superarm.service.problems import Unavailable
from superarm.service.worker import Worker

EVERY = 1.0
"""Seconds between looks at the log."""
REST = 10.0
"""After working for some time, as many times that are rested."""
YIELDS = 0.5
"""Seconds for which counting waits for a writer that is busy, at most."""
EVENTS = 1000
"""Events that are counted at once."""
AFTER_FAILURE = 30.0
"""Seconds to wait where counting failed for a reason that may stay."""
PATIENCE = 2.0
"""Seconds that the end of a service waits for what is yet to be counted."""
BYTES_PER_SECOND = 2**16
"""Of what is counted per item, how much is written in a second: all of it is, each time."""
SCALES = ("lam", "sigma", "tau")

NEXT = (
    "SELECT position, agent, kind, time, body FROM events WHERE position > ? AND position <= ? "
    "ORDER BY position LIMIT ?"
)
AT = "SELECT position, agent, kind, time, body FROM events WHERE position = ?"
CORRECTIONS = (
    "SELECT body FROM events WHERE agent = ? AND position > ? AND position < ? "
    "AND kind <> 'decided' AND kind = 'corrected' ORDER BY position"
)

_logger = logging.getLogger("superarm.service")


class Batch(NamedTuple):
    """What some events add, to be written."""

    start: Counted  # what was counted before
    end: Counted
    minutes: Minutes
    removed: list[int]  # agents
    items: dict[int, bytes]  # by agent


class Follower:
    """Counts what is in the log.

    Args:
        database: where the log is.
        writer: who writes to it.
        views: what is believed, by the name of the agent, for its scales.
        leading: whether this server is the one that counts.
    """

    def __init__(
        self,
        database: Database,
        writer: Worker,
        views: Callable[[], Mapping[str, Folded]],
        leading: Callable[[], bool],
    ) -> None:
        self._database = database
        self._writer = writer
        self._views = views
        self._leading = leading
        self._stopping = threading.Event()
        self._state: _State | None = None  # None: to be read from the database
        self._items_due = 0.0
        self._thread = threading.Thread(target=self._run, name="superarm-tallies", daemon=True)

    def start(self) -> None:
        """Begin to count."""
        self._thread.start()

    def stop(self) -> None:
        """End, with all counted that can be in a short time."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause = EVERY
        while not self._stopping.wait(pause):
            self._writer.let_go_first(YIELDS)
            start = time.monotonic()
            is_behind = self._try()
            spent = time.monotonic() - start
            pause = max(REST * spent, 0.0 if is_behind else EVERY)
        self._items_due = 0.0  # whatever the size
        end = time.monotonic() + PATIENCE
        while self._try() and time.monotonic() < end:
            pass

    def _try(self) -> bool:
        """Count some events; returns whether there are more."""
        if not self._leading():
            self._state = None
            return False
        try:
            return self.count()
        except Unavailable as error:
            _logger.debug("counting waits: %s", error)
        except Exception:  # who looks sees old numbers, and nothing else is harmed
            _logger.exception("counting failed and is tried again")
            self._stopping.wait(AFTER_FAILURE)
        self._state = None
        return False

    def flush(self) -> None:
        """Count all that is left, and write it, also what is counted per item."""
        while self.count():
            pass
        self._items_due = 0.0
        self.count()

    def count(self) -> bool:
        """Count the next events; returns whether there are more."""
        connection = self._database.read()
        if self._state is None:
            self._state = _State(connection)
        state = self._state
        end, _ = log.head(connection)
        events = [Event(*row) for row in connection.execute(NEXT, (state.position, end, EVENTS))]
        minutes = Minutes()
        removed = state.read(events, minutes)
        is_behind = state.position < end
        if not is_behind:
            _note_scales(events, minutes, self._views())
        items = self._items_to_write(state)
        if not events and not items:
            return False
        batch = Batch(state.counted, state.reached(bool(items)), minutes, removed, items)
        if not self._writer.submit(lambda tail: _write(tail, batch)).result():
            self._state = None  # another server counts, and is ahead
            return False
        state.counted = batch.end
        if items:
            state.items.written()
        return is_behind

    def _items_to_write(self, state: "_State") -> dict[int, bytes]:
        """What is counted per item and has changed, if it is time to write it."""
        moment = time.monotonic()
        if moment < self._items_due:
            return {}
        found = {agent: state.items.of(agent).body() for agent in list(state.items.changed)}
        size = sum(map(len, found.values()))
        self._items_due = moment + max(EVERY, size / BYTES_PER_SECOND)
        return found


class _State:
    """What the thread knows between two looks at the log."""

    def __init__(self, connection: Connection) -> None:
        self.counted = tallies.counted(connection)
        self.position = self.counted.least
        """All events up to here are read."""
        self.items = ItemsOfAll(lambda agent: tallies.items(connection, agent).columns)

        def look(position: int) -> Event | None:
            found = connection.execute(AT, (position,))
            return Event(*found[0]) if found else None

        decisions = Decisions(look, self.counted.began)
        self._counting = Counting(decisions, lambda at, before: known(connection, at, before))

    def read(self, events: list[Event], minutes: Minutes) -> list[int]:
        """Count events; returns the agents that were removed."""
        removed = []
        for event in events:
            is_new = event.position > self.counted.upto
            self._counting.read(event, minutes if is_new else None, self.items)
            if event.kind == "removed":
                self.items.forget(event.agent)
                removed.append(event.agent)
            self.position = event.position
        return removed

    def reached(self, with_items: bool) -> Counted:
        """What is counted once this is written; without changes, items are counted too."""
        items = self.counted.items
        if with_items or not self.items.changed:
            items = self.position
        return Counted(max(self.counted.upto, self.position), items, self.counted.began)


def _write(tail: Tail, batch: Batch) -> bool:
    """Write what was counted, unless somebody else did; returns whether it was written."""
    tx = tail.tx
    if tallies.counted(tx) != batch.start:
        return False
    there = tallies.agents(tx)
    for (agent, minute), tally in batch.minutes.added.items():
        if agent in there:
            tallies.add(tx, agent, minute, tally)
    for agent, body in batch.items.items():
        if agent in there:
            tallies.keep_items(tx, agent, batch.end.items, body)
    for agent in batch.removed:
        tallies.drop(tx, agent)
    tallies.note_counted(tx, batch.end)
    return True


def known(connection: Connection, decision: int, before: int) -> dict[int, float]:
    """The weights of a decision, by place, that were known before a position: what the events say
    that gave them.
    """
    places = log.seen(connection, decision)
    positions = sorted({x.position for x in places.values() if x.position < before})
    rows = [row for position in positions for row in connection.execute(AT, (position,))]
    found: dict[int, float] = {}
    for row in rows:
        event: Observed = decoded(row[-1])
        for seen in event.seen:
            if seen.decision == decision:
                found.update(zip(seen.places, seen.weights, strict=True))
    if not found:
        return {}
    agent = rows[0][1]
    for (body,) in connection.execute(CORRECTIONS, (agent, positions[0], before)):
        corrected: Corrected = decoded(body)
        for one in corrected.corrections:
            if one.decision == decision:
                found[one.place] = one.weight
    return found


def _note_scales(events: list[Event], minutes: Minutes, views: Mapping[str, Folded]) -> None:
    """Note the scales of now in the last minute of each agent that decided."""
    last = {event.agent: event.time for event in events if event.kind == "decided"}
    for folded in views.values():
        time = last.get(folded.created_at)
        if time is None or folded.state is None:
            continue
        whole = int(seconds_of(time))
        minutes.of(folded.created_at, whole - whole % tallies.MINUTE).scales = scales_of(folded)


def scales_of(folded: Folded) -> dict[str, float]:
    """The scales that an agent learns by: those it chose itself, or those it was given."""
    state: Any = folded.state
    if state is None:
        return {}
    values = state.learner.model.hyperparameters(state.belief)
    return {name: float(values[name]) for name in SCALES if name in values}

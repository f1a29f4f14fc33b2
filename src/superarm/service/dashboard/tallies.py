"""Tallies: how many decisions and how much feedback there was, per minute, per hour and in all, and
per item.

They are a fold over the log for people to look at, so that no page reads the log. Up to where it is
counted is written with what is counted, in one transaction: nothing is counted twice or left out.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from superarm.arrays import Array
from superarm.service import log
from superarm.service.database import Connection
from superarm.service.events import Id

MINUTE = 60
HOUR = 3600
EVER = 0
SPANS = (MINUTE, HOUR, EVER)
"""Seconds of the buckets that are kept; 0 for the one of all time."""
FASTEST = -10
"""The power of two of the shortest delays that are told apart, in seconds."""


class Tally(msgspec.Struct, array_like=True):
    """What is counted of one agent in one bucket of time: that of its decisions.

    >>> from superarm.service.dashboard.tallies import Tally
    >>> one = Tally(decisions=1, delays={2: 1})
    >>> one.add(Tally(decisions=2, delays={2: 1, 3: 1}))
    >>> one.decisions, one.delays
    (3, {2: 2, 3: 1})
    """

    decisions: int = 0
    answered: int = 0  # decisions with feedback
    weights: int = 0
    earned: float = 0.0  # sum of the returns of those
    squares: float = 0.0  # sum of their squares
    delay: float = 0.0  # seconds to the first feedback, added up
    delays: dict[int, int] = {}  # how many took 2^k to 2^(k+1) seconds, by k
    looked_at: int = 0
    explored: int = 0
    scales: dict[str, float] = {}  # those of last

    def add(self, other: "Tally") -> None:
        """Count what another one counts."""
        self.decisions += other.decisions
        self.answered += other.answered
        self.weights += other.weights
        self.earned += other.earned
        self.squares += other.squares
        self.delay += other.delay
        for power, n in other.delays.items():
            self.delays[power] = self.delays.get(power, 0) + n
        self.looked_at += other.looked_at
        self.explored += other.explored
        self.scales.update(other.scales)

    def wait(self, seconds: float) -> None:
        """Count the time to the first feedback on one decision."""
        self.delay += seconds
        power = max(FASTEST, math.frexp(seconds)[1] - 1) if seconds > 0 else FASTEST
        self.delays[power] = self.delays.get(power, 0) + 1

    @property
    def waited(self) -> int:
        """How many delays there are."""
        return sum(self.delays.values())

    @property
    def mean_delay(self) -> float | None:
        """The mean of the delays, in seconds."""
        return self.delay / self.waited if self.delays else None

    @property
    def median_delay(self) -> float | None:
        """About the median of the delays: its power of two is exact."""
        half = self.waited / 2
        before = 0
        for power, n in sorted(self.delays.items()):
            if before + n >= half:
                return float(2.0 ** (power + (half - before) / n))
            before += n
        return None


_tallies = msgspec.msgpack.Decoder(Tally)


class Counted(NamedTuple):
    """Up to which positions of the log everything is counted."""

    upto: int  # in buckets of time
    items: int  # per item
    began: int  # decisions up to here were never counted

    @property
    def least(self) -> int:
        """Up to where all of it is."""
        return min(self.upto, self.items)


def counted(connection: Connection) -> Counted:
    """Up to where the log is counted; from where it begins if nothing is."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'tallied'")
    if not found:
        start = log.base(connection)
        return Counted(start, start, start)
    return Counted(*map(int, found[0][0].split()))


def note_counted(tx: Connection, position: Counted) -> None:
    """Write up to where the log is counted."""
    tx.execute(
        "INSERT INTO meta VALUES ('tallied', ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (" ".join(map(str, position)),),
    )


# --- over time ------------------------------------------------------------------------------------

ONE = "SELECT body FROM tallies WHERE agent = ? AND span = ? AND start = ?"
SOME = (
    "SELECT start, body FROM tallies WHERE agent = ? AND span = ? AND start >= ? AND start < ? "
    "ORDER BY start"
)
FIRST = "SELECT start FROM tallies WHERE agent = ? AND span = ? ORDER BY start LIMIT 1"


def add(tx: Connection, agent: int, minute: int, more: Tally) -> None:
    """Count more in the buckets of a minute."""
    for span in SPANS:
        start = minute - minute % span if span else 0
        known = tx.execute(ONE, (agent, span, start))
        tally = _tallies.decode(known[0][0]) if known else Tally(delays={}, scales={})
        tally.add(more)
        tx.execute(
            "INSERT INTO tallies VALUES (?, ?, ?, ?) "
            "ON CONFLICT (agent, span, start) DO UPDATE SET body = excluded.body",
            (agent, span, start, msgspec.msgpack.encode(tally)),
        )


def between(
    connection: Connection,
    agent: int,
    span: int,
    since: float,
    until: float,
) -> Iterator[tuple[int, Tally]]:
    """The buckets that begin in a range of time, with when they do."""
    rows = connection.execute(SOME, (agent, span, math.ceil(since), math.ceil(until)))
    for start, body in rows:
        yield start, _tallies.decode(body)


def ever(connection: Connection, agent: int) -> Tally:
    """All that was counted of an agent."""
    found = connection.execute(ONE, (agent, EVER, 0))
    return _tallies.decode(found[0][0]) if found else Tally(delays={}, scales={})


def first(connection: Connection, agent: int) -> int | None:
    """When the first minute with a decision began; None if there was none."""
    found = connection.execute(FIRST, (agent, MINUTE))
    return found[0][0] if found else None


def drop(tx: Connection, agent: int) -> None:
    """Throw away what was counted of an agent."""
    tx.execute("DELETE FROM tallies WHERE agent = ?", (agent,))
    tx.execute("DELETE FROM item_tallies WHERE agent = ?", (agent,))


# --- per item -------------------------------------------------------------------------------------


class ItemColumns(msgspec.Struct, array_like=True):
    """What is counted per item, as columns: a row per item that was ever chosen."""

    items: list[Id]
    chosen: bytes  # int64
    weights: bytes  # int64, how often feedback came
    sums: bytes  # float64
    squares: bytes  # float64

    def column(self, name: str) -> Array:
        """One of the columns of numbers."""
        kind = np.int64 if name in ("chosen", "weights") else np.float64
        return np.frombuffer(getattr(self, name), kind)


_columns = msgspec.msgpack.Decoder(ItemColumns)
_no_items = ItemColumns([], b"", b"", b"", b"")
ITEMS = "SELECT position, body FROM item_tallies WHERE agent = ?"
ITEMS_AT = "SELECT position FROM item_tallies WHERE agent = ?"


class ItemsKept(NamedTuple):
    """What is counted per item, and when it was written."""

    position: int
    columns: ItemColumns


def items_position(connection: Connection, agent: int) -> int:
    """When what is counted per item was last written; 0 if it never was."""
    found = connection.execute(ITEMS_AT, (agent,))
    return int(found[0][0]) if found else 0


def items(connection: Connection, agent: int) -> ItemsKept:
    """What is counted per item."""
    found = connection.execute(ITEMS, (agent,))
    if not found:
        return ItemsKept(0, _no_items)
    return ItemsKept(found[0][0], _columns.decode(found[0][1]))


def keep_items(tx: Connection, agent: int, position: int, body: bytes) -> None:
    """Write what is counted per item."""
    tx.execute(
        "INSERT INTO item_tallies VALUES (?, ?, ?) ON CONFLICT (agent) "
        "DO UPDATE SET position = excluded.position, body = excluded.body",
        (agent, position, body),
    )


def agents(tx: Connection) -> set[int]:
    """The agents in service."""
    return set(log.agents(tx).values())

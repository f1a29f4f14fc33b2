"""The append-only log of a service: events in the order in which they were acknowledged.

Each event's digest goes into a chain of hashes, so that a log that was changed or cut is noticed.
"""

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import msgspec

from superarm.agent.decisions import as_time
from superarm.service import events
from superarm.service.database import TOGETHER, Connection, Head, Row, Transaction, insert
from superarm.service.problems import Gone, NotFound, Unavailable

HASH = 16
"""Bytes of a hash."""
PIECE = 2000
"""Bytes to hash at a time: of more, Python lets other threads go first."""
LONG = 2**16
"""Bytes that take so long to hash that they should."""
WHOLE = 2**62
"""A position beyond all others."""


class Entry(NamedTuple):
    """An event, where it is in the log, and when it happened."""

    position: int
    agent: int  # the position where the agent was created
    time: str
    event: Any


class Place(msgspec.Struct, array_like=True):
    """What was observed of one item of a decision."""

    weight: float
    importance: float | None
    position: int  # of the first feedback on it
    by_default: bool = False


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What was observed of a decision of which nothing was known before: its own columns, as there
    is one feedback on most decisions.
    """

    position: int  # of the feedback
    by_default: bool
    places: list[int]
    weights: list[float]
    importance: list[float] | None = None

    def by_place(self) -> dict[int, Place]:
        """The same by place."""
        found = {}
        importance = self.importance or itertools.repeat(None)
        for place, weight, share in zip(self.places, self.weights, importance, strict=False):
            found[place] = Place(weight, share, self.position, self.by_default)
        return found


Known: TypeAlias = dict[int, Place] | Told
"""What was observed of a decision."""

_known = msgspec.msgpack.Decoder(Known)
_encoder = msgspec.msgpack.Encoder()


class Tail:
    """The end of the log, inside a transaction that may append to it.

    All events of a transaction have its time, and no other has: it grows even where a clock is set
    back.
    """

    def __init__(self, tx: Transaction, now: datetime) -> None:
        self._tx = tx
        position, time, chain = tx.head()
        self.position: int = position
        self.time = max(as_time(now), _next(time))
        self.to_learn = False
        """Whether there is anything new that learning is about."""
        self._chain: bytes = chain
        self._start: int = position
        self._appended: list[Row] = []  # events that are written together

    @property
    def tx(self) -> Connection:
        """The transaction, in which all that was appended can be seen."""
        if self._appended:
            insert(self._tx, "events", self._appended)
            self._appended = []
        return self._tx

    @functools.cached_property
    def base(self) -> int:
        """The position before the first event that is kept."""
        return base(self._tx)

    def append(self, agent: int | None, event: events.Event, person: str | None = None) -> int:
        """Write an event; returns its position. An agent that is None begins here."""
        self.position += 1
        body = events.encoded(event)
        digest = hashed(body)
        kind = events.kind_of(event)
        whose = self.position if agent is None else agent
        self._chain = linked(self._chain, (self.position, whose, kind, self.time), digest)
        self._appended.append((self.position, whose, kind, self.time, person, digest, body))
        self.to_learn |= kind != "decided"
        return self.position

    @property
    def appended(self) -> bool:
        """Whether there is anything new."""
        return self.position > self._start

    def finish(self) -> None:
        """Note where the log ends, before the transaction does."""
        if self.appended:
            self._tx.append(self._appended, Head(self.position, self.time, self._chain))
            self._appended = []


def _next(time: str) -> str:
    """The first time after another one."""
    if not time:
        return ""
    return as_time(datetime.fromisoformat(time) + timedelta(microseconds=1))


def hashed(body: bytes) -> bytes:
    """What tells a body from others."""
    if len(body) > LONG:
        return hashlib.blake2b(body, digest_size=HASH).digest()
    found = hashlib.blake2b(digest_size=HASH)
    for start in range(0, len(body), PIECE):
        found.update(body[start : start + PIECE])
    return found.digest()


def linked(chain: bytes, row: Sequence[Any], digest: bytes) -> bytes:
    """The next link of the chain: of all before it, and of this event."""
    words = "\n".join(map(str, row))
    return hashed(chain + words.encode() + digest)


def head(connection: Connection) -> tuple[int, bytes]:
    """The position of the last event, and the hash of the whole log."""
    ((position, chain),) = connection.execute("SELECT position, chain FROM head")
    return position, bytes(chain)


def decision(connection: Connection, position: int) -> Entry:
    """The decision at a position, which must be one."""
    found = connection.execute(
        "SELECT agent, time, body FROM events WHERE position = ? AND kind = 'decided'",
        (position,),
    )
    if not found:
        require_kept(position, base(connection))
        raise NotFound(f"there is no decision at position {position}")
    agent, time, body = found[0]
    if body is None:
        raise NotFound("this decision was erased")
    return Entry(position, agent, time, events.decoded(body))


def decisions(
    connection: Connection,
    positions: Iterable[int],
    decode: Callable[[bytes], Any] = events.decoded,
) -> dict[int, Entry]:
    """The decisions at those of the positions where there is one that was not erased, as `decode`
    reads them.
    """
    found = {}
    rows = _each(
        connection,
        "SELECT position, agent, time, body FROM events "
        "WHERE kind = 'decided' AND body IS NOT NULL AND position IN",
        positions,
    )
    for position, agent, time, body in rows:
        found[position] = Entry(position, agent, time, decode(body))
    return found


def _each(connection: Connection, sql: str, wanted: Iterable[int]) -> Iterator[Row]:
    """The rows whose last column in the SQL is one of those wanted, many at a time."""
    left = list(wanted)
    while left:
        some = left[:TOGETHER]
        left = left[TOGETHER:]
        marks = ", ".join("?" * len(some))
        yield from connection.execute(f"{sql} ({marks})", some)


def folded(
    connection: Connection,
    agent: int,
    after: int,
    upto: int = WHOLE,
) -> Iterator[Entry]:
    """All events of an agent but its decisions, in their order, after one position and up to
    another.
    """
    rows = connection.rows(
        "SELECT position, time, body FROM events "
        "WHERE agent = ? AND position > ? AND position <= ? AND kind <> 'decided' "
        "ORDER BY position",
        (agent, after, upto),
    )
    for position, time, body in rows:
        yield Entry(position, agent, time, events.decoded(body))


def seen(connection: Connection, decision: int) -> dict[int, Place]:
    """What was observed of a decision, by place."""
    return seen_each(connection, [decision])[decision]


def seen_each(connection: Connection, decisions: Iterable[int]) -> dict[int, dict[int, Place]]:
    """What was observed of each of the decisions, by place."""
    found: dict[int, dict[int, Place]] = {decision: {} for decision in decisions}
    sql = "SELECT decision, seen FROM feedback WHERE decision IN"
    for decision, body in _each(connection, sql, found):
        found[decision] = places(body)
    return found


def places(body: bytes) -> dict[int, Place]:
    """What was observed of a decision, by place, from what `note_seen` kept."""
    known: Known = _known.decode(body)
    return known.by_place() if isinstance(known, Told) else known


def note_seen(tx: Connection, known: Mapping[int, Known]) -> None:
    """Remember what was observed of decisions."""
    rows = [(decision, _encoder.encode(seen)) for decision, seen in known.items() if seen]
    insert(
        tx,
        "feedback",
        rows,
        "ON CONFLICT (decision) DO UPDATE SET seen = excluded.seen",
    )


def agents(connection: Connection) -> dict[str, int]:
    """The agents in service, by name."""
    return dict(connection.execute("SELECT name, agent FROM agents"))


class Fault(NamedTuple):
    """Something wrong with a log."""

    position: int
    what: str


def verify(connection: Connection) -> Iterator[Fault]:
    """All that is wrong with a log: events missing, changed, or out of order, or a file in which
    they cannot be found.
    """
    damage = getattr(connection, "damage", list)
    for what in damage():
        yield Fault(0, f"the file is damaged: {what}")
    try:
        yield from _faults(connection)
    except (Unavailable, TypeError, ValueError, OverflowError) as error:  # of values of other types
        yield Fault(0, f"the log cannot be read: {error}")


def _faults(connection: Connection) -> Iterator[Fault]:
    chain = base_chain(connection)
    expected = base(connection) + 1
    erased: set[int] = set()
    missing: set[int] = set()
    rows = connection.rows(
        "SELECT position, agent, kind, time, digest, body FROM events "
        "WHERE position > ? ORDER BY position",
        (expected - 1,),
    )
    for position, agent, kind, time, digest, body in rows:
        if position != expected:
            yield Fault(position, f"event {expected} is missing")
        expected = position + 1
        chain = linked(chain, (position, agent, kind, time), digest)
        if body is None or hashed(body) != digest:
            missing.add(position)
        elif kind == "forgotten":
            event = events.decoded(body)
            erased.update(event.decisions)
            erased.update(event.observed)
    for position in sorted(missing - erased):
        yield Fault(position, "its content was changed")
    end, wanted = head(connection)
    if expected - 1 != end:
        yield Fault(end, f"the log ends at {expected - 1}, not at {end}")
    elif chain != wanted:
        yield Fault(end, "the chain of hashes is broken")


def require_kept(decision: int, base: int) -> None:
    """Refuse a decision of the part of the log that is no longer kept."""
    if 0 < decision <= base:
        raise Gone(
            "this decision is older than what the log keeps since it was compacted: nothing more "
            "can be learned of it",
            "/decision",
        )


def base(connection: Connection) -> int:
    """The position before the first event that is kept."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'base'")
    return int(found[0][0]) if found else 0


def base_chain(connection: Connection) -> bytes:
    """The hash of the events that are no longer kept."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'base chain'")
    return bytes.fromhex(found[0][0]) if found else b""

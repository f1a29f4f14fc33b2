"""Where a service keeps its log: one file of SQLite's, or a Postgres database.

Both speak the same SQL here, with `?` for what is given.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]

TOGETHER = 64
"""Rows that are written, or asked for, in one statement."""
SCHEMA = 1
"""The version of the tables; a database of a newer one is not opened."""

TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS head (
    one BIGINT PRIMARY KEY, position BIGINT NOT NULL, time TEXT NOT NULL, chain {bytes} NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    position BIGINT PRIMARY KEY,
    agent BIGINT NOT NULL,
    kind TEXT NOT NULL,
    time TEXT NOT NULL,
    person TEXT,
    digest {bytes} NOT NULL,
    body {bytes}
);
CREATE INDEX IF NOT EXISTS events_folded ON events (agent, position) WHERE kind <> 'decided';
CREATE INDEX IF NOT EXISTS events_decided ON events (agent, position) WHERE kind = 'decided';
CREATE INDEX IF NOT EXISTS events_people ON events (person, position) WHERE person IS NOT NULL;
CREATE TABLE IF NOT EXISTS agents (
    name TEXT PRIMARY KEY, agent BIGINT NOT NULL, swept BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS feedback (decision BIGINT PRIMARY KEY, seen {bytes} NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    key TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    position BIGINT NOT NULL,
    digest {bytes} NOT NULL,
    reply {bytes} NOT NULL
);
CREATE INDEX IF NOT EXISTS requests_time ON requests (time);
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,
    hash {bytes} NOT NULL,
    scopes TEXT NOT NULL,
    note TEXT NOT NULL,
    created TEXT NOT NULL,
    revoked TEXT
);
CREATE TABLE IF NOT EXISTS snapshots (
    agent BIGINT NOT NULL,
    position BIGINT NOT NULL,
    config {bytes} NOT NULL,
    catalogue BIGINT NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (agent, position)
);
CREATE TABLE IF NOT EXISTS catalogues (
    agent BIGINT NOT NULL,
    position BIGINT NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (agent, position)
);
CREATE TABLE IF NOT EXISTS leader (one BIGINT PRIMARY KEY, epoch BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS tallies (
    agent BIGINT NOT NULL,
    span BIGINT NOT NULL,
    start BIGINT NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (agent, span, start)
);
CREATE TABLE IF NOT EXISTS item_tallies (
    agent BIGINT PRIMARY KEY,
    position BIGINT NOT NULL,
    body {bytes} NOT NULL
);
"""
"""Of these, what begins at `tallies` is counted from the events, and may be dropped."""


def names() -> set[str]:
    """The tables and indexes there are."""
    return set(re.findall(r"IF NOT EXISTS (\w+)", TABLES))


class Connection(Protocol):
    """What SQL is said to."""

    def execute(self, sql: str, given: Sequence[Any] = ()) -> list[Row]:
        """All rows of the answer."""

    def rows(self, sql: str, given: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of the answer, one after the other."""


class Head(NamedTuple):
    """Where a log ends."""

    position: int
    time: str
    chain: bytes  # the hash of all events


class Transaction(Connection, Protocol):
    """What SQL is said to while nobody else writes."""

    def head(self) -> Head:
        """Where the log ends."""

    def append(self, rows: Sequence[Row], head: Head) -> None:
        """Write events, and where the log ends with them."""


def head(connection: Connection) -> Head:
    """Where the log ends."""
    (found,) = connection.execute("SELECT position, time, chain FROM head")
    return Head(*found)


def append(tx: Connection, rows: Sequence[Row], head: Head) -> None:
    """Write events, and where the log ends with them."""
    insert(tx, "events", rows)
    tx.execute("UPDATE head SET position = ?, time = ?, chain = ?", head)


def insert(tx: Connection, table: str, rows: Sequence[Row], end: str = "") -> None:
    """Write rows, many in one statement: between statements other threads may take over."""
    for start in range(0, len(rows), TOGETHER):
        some = rows[start : start + TOGETHER]
        marks = ", ".join("?" * len(some[0]))
        values = ", ".join([f"({marks})"] * len(some))
        flat = [value for row in some for value in row]
        tx.execute(f"INSERT INTO {table} VALUES {values} {end}", flat)


class Database(Protocol):
    """A database with one writer at a time."""

    shared: bool
    """Whether other servers may work on it too, and follow what one of them learns."""

    def transaction(self, *, alone: bool = False) -> AbstractContextManager[Transaction]:
        """Everything in it happens, and is on disk, or nothing does. No other writer is between.

        Args:
            alone: whether no other process should write to the log, as where it is not shared.
        """

    def read(self) -> Connection:
        """A connection of this thread's own, to read by."""

    def lead(self) -> int | None:
        """The epoch in which this server is the one that learns; None if another one is."""

    def size(self) -> int:
        """How many bytes it takes on disk."""

    def close(self) -> None:
        """Let go of everything."""

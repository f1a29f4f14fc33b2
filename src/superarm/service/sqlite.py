"""The log in one file of SQLite's, on disk before anything is acknowledged.

SQLite comes with apsw: the interpreter's own may be one of those that lose commits when a log is
restarted while another connection reads.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from superarm.errors import FileError
from superarm.files.atomic import PathLike
from superarm.service import database
from superarm.service.database import SCHEMA, TABLES, TOGETHER, Head, Row
from superarm.service.database import names as tables_and_indexes
from superarm.service.problems import Unavailable

FILE = "superarm.db"
"""The name of the file in the folder of a service."""
MARK = 0x73617231
"""The application id of the file, by which it is known to be ours: sar1."""
PAGE = 8192
"""Bytes of a page of a new file: a decision is often more than half of SQLite's own 4096, and would
leave the rest of its page empty."""
APPENDED = """
PRAGMA temp_store = MEMORY;
CREATE TEMP VIEW appended AS
    SELECT position, agent, kind, time, person, digest, body, digest AS chain FROM events;
CREATE TEMP TRIGGER append INSTEAD OF INSERT ON appended BEGIN
    SELECT RAISE(ABORT, 'moved') FROM head WHERE position <> NEW.position - 1;
    INSERT INTO events VALUES (
        NEW.position, NEW.agent, NEW.kind, NEW.time, NEW.person, NEW.digest, NEW.body
    );
    UPDATE head SET position = NEW.position, time = NEW.time, chain = NEW.chain;
END;
"""
"""What writes events and where the log ends in one statement, of one connection alone."""
_PATIENCE = 5000
"""Milliseconds to wait for another process that writes."""


class _Connection:
    """A connection that answers with lists."""

    def __init__(self, path: str, options: dict[str, Any], synchronous: str) -> None:
        self.apsw = apsw.Connection(path, **options)
        self.apsw.set_busy_timeout(_PATIENCE)
        try:
            self.execute(f"PRAGMA synchronous = {synchronous}")
            self.execute("PRAGMA fullfsync = ON")  # macOS writes no more than its cache without it
            self.execute("PRAGMA cache_size = -16384")
            self.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        with suppress(apsw.Error):  # all that was acknowledged is on disk already
            self.apsw.close(True)

    def execute(self, sql: str, given: Sequence[Any] = ()) -> list[Row]:
        """All rows of the answer."""
        with _EXPLAINED:
            return list(self.apsw.execute(sql, given))

    def rows(self, sql: str, given: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of the answer, one after the other."""
        with _EXPLAINED:
            yield from self.apsw.execute(sql, given)

    def damage(self) -> list[str]:
        """What is wrong with the file itself."""
        try:
            found = [text for (text,) in self.execute("PRAGMA integrity_check(20)")]
        except Unavailable as error:
            return [error.detail]
        return [] if found == ["ok"] else found


class _Writing:
    """A transaction that begins with the first statement.

    Events alone are written by one statement, which is a transaction in itself: between statements
    other threads take over, each of which takes longer than the statement.

    Args:
        connection: to write by.
        known: where the log ended when this process wrote last; None if that is not known.
    """

    def __init__(self, connection: _Connection, known: Head | None) -> None:
        self._connection = connection
        self._begun = False
        self.known = known

    def head(self) -> Head:
        """Where the log ends."""
        if self.known is None:
            self.known = database.head(self)
        return self.known

    def append(self, rows: Sequence[Row], head: Head) -> None:
        """Write events, and where the log ends with them."""
        if self._begun or len(rows) > TOGETHER:
            database.append(self, rows, head)
        else:
            self._append_at_once(rows, head)
        self.known = head

    def _append_at_once(self, rows: Sequence[Row], head: Head) -> None:
        """Write a few events by a transaction of one statement, if the log ends before them."""
        with_chain = [(*row, head.chain) for row in rows]
        try:
            database.insert(self._connection, "appended", with_chain)
        except apsw.ConstraintError as error:
            raise Moved from error

    def execute(self, sql: str, given: Sequence[Any] = ()) -> list[Row]:
        """All rows of the answer."""
        self._begin()
        return self._connection.execute(sql, given)

    def rows(self, sql: str, given: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of the answer, one after the other."""
        self._begin()
        return self._connection.rows(sql, given)

    def _begin(self) -> None:
        if self._begun:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._begun = True
        if self.known is not None and self.known != database.head(self._connection):
            raise Moved

    def commit(self) -> None:
        """End what was begun: it is on disk."""
        if self._begun:
            self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Undo what was begun."""
        if self._begun:
            with suppress(Unavailable, apsw.Error):  # SQLite may have rolled back by itself
                self._connection.execute("ROLLBACK")


class Moved(Exception):
    """The log does not end where it did: another process has written to it."""


class Sqlite:
    """One file, with one writer at a time and any number of readers.

    Args:
        path: the file; it is made if it is not there.
        synchronous: FULL, or for tests that show what would be lost without it, NORMAL.
        vfs: another way to the disk, for tests that cut the power.

    >>> import tempfile
    >>> from superarm.service.sqlite import Sqlite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Sqlite(folder + "/superarm.db")
    ...     with database.transaction() as tx:
    ...         print(tx.execute("SELECT position FROM head"))
    ...     database.close()
    [(0,)]
    """

    shared = False

    def __init__(
        self,
        path: PathLike,
        *,
        synchronous: str = "FULL",
        vfs: str | None = None,
    ) -> None:
        self.path = Path(path)
        self._options = {} if vfs is None else {"vfs": vfs}
        self._synchronous = synchronous
        self._mine = threading.local()
        self._all: list[_Connection] = []
        self._writing = threading.Lock()
        self._writer = self._connected()
        self._head: Head | None = None  # where the log ended when this process wrote last
        try:
            _prepare(self._writer, self.path)
            self._writer.execute(APPENDED)
        except BaseException:
            self.close()
            raise

    def _connected(self) -> _Connection:
        with _EXPLAINED:
            connection = _Connection(str(self.path), self._options, self._synchronous)
        self._all.append(connection)
        return connection

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[_Writing]:
        """Everything in it happens, and is on disk, or nothing does.

        Args:
            alone: whether no other process should write to the log: then where it ends is
                remembered, and `Moved` is raised if another one did.
        """
        with self._writing:
            writing = _Writing(self._writer, self._head if alone else None)
            self._head = None
            try:
                yield writing
                writing.commit()
            except BaseException:
                writing.roll_back()
                raise
            self._head = writing.known

    def read(self) -> _Connection:
        """A connection of this thread's own, to read by."""
        found: _Connection | None = getattr(self._mine, "connection", None)
        if found is None:
            found = self._connected()
            self._mine.connection = found
        return found

    def lead(self) -> int | None:
        """The epoch in which this process learns: there is but one."""
        return 0

    def clean(self) -> None:
        """Let what was erased be gone from the disk too, as far as those who read now allow it."""
        with self._writing, suppress(Unavailable):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, path: PathLike) -> None:
        """Write all that is committed to another file, while others go on writing."""
        target = apsw.Connection(str(path))
        try:
            # without one transaction that sees the same all the time, every commit of another
            # process would let the copy begin again
            with (
                self.steady() as source,
                _EXPLAINED,
                target.backup("main", source.apsw, "main") as copy,
            ):
                while not copy.done:
                    copy.step(1000)
        finally:
            target.close()

    @contextmanager
    def steady(self) -> Iterator[_Connection]:
        """A connection to read by that sees one moment, whatever others write."""
        connection = self.read()
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT position FROM head")
            yield connection
        finally:
            connection.execute("ROLLBACK")

    def shrink(self) -> None:
        """Give room that is not used back to the disk."""
        with self._writing:
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def size(self) -> int:
        """How many bytes the file has, without the log of what was written last."""
        connection = self.read()
        ((pages,),) = connection.execute("PRAGMA page_count")
        ((each,),) = connection.execute("PRAGMA page_size")
        return int(pages * each)

    def close(self) -> None:
        """Let go of the file."""
        for connection in self._all:
            connection.close()


def _prepare(connection: _Connection, path: Path) -> None:
    """Make the tables; refuse a file that is none of ours, or of a newer version, as it is."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    ((mark,),) = connection.execute("PRAGMA application_id")
    if (names or mark) and mark != MARK:
        raise FileError(f"{path} is not a database of superarm's: give another --data")
    if "meta" in names:
        _refuse_newer(connection, path)
        if tables_and_indexes() <= names and _is_ready(
            connection
        ):  # to read, nobody need wait for a server that writes
            return
    connection.execute(f"PRAGMA page_size = {PAGE}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {MARK}")
    tables = TABLES.format(bytes="BLOB").replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY")
    for statement in tables.split(";"):  # by INTEGER, and no other word, rows are found at once
        if statement.strip():
            connection.execute(statement)
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
    connection.execute("INSERT OR IGNORE INTO head VALUES (1, 0, '', ?)", (b"",))
    connection.execute("COMMIT")


def _is_ready(connection: _Connection) -> bool:
    """Whether the tables are of this version, and the file is used as it should be."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
    return found == [(str(SCHEMA),)] and connection.execute("PRAGMA journal_mode") == [("wal",)]


def _refuse_newer(connection: _Connection, path: Path) -> None:
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
    if found and found[0][0] not in map(str, range(1, SCHEMA + 1)):
        raise FileError(
            f"{path} has tables of version {found[0][0]!r:.60}, this superarm knows {SCHEMA}: "
            "upgrade superarm to open it"
        )


class _Explained:
    """Errors of the disk as what they mean to those who ask. A class, as a generator would take
    longer than many of the statements that it surrounds.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            return
        if isinstance(error, apsw.FullError):
            raise Unavailable("the disk is full: nothing was written; try again later") from error
        if isinstance(error, apsw.NotADBError):
            raise FileError(f"this is not a database of superarm's ({error})") from error
        if isinstance(error, apsw.CorruptError | UnicodeDecodeError):
            raise Unavailable(f"the log is damaged ({error}): restore a backup of it") from error
        if isinstance(error, _PASSING):
            raise Unavailable(f"the log cannot be written or read now ({error})") from error


_EXPLAINED = _Explained()
_PASSING = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.IOError,
    apsw.LockedError,
    apsw.NoMemError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
)
"""Errors after which it may be tried again."""

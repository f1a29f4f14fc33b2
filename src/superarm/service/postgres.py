"""The log in a Postgres database, which any number of servers share.

Whoever writes locks the one row of `head` first: positions have no gaps, and are in the order of
the commits, so that nothing is ever committed behind what was read already.
"""

import functools
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import conninfo, errors

from superarm.errors import FileError, ParameterError
from superarm.service import database
from superarm.service.database import SCHEMA, TABLES, Head, Row
from superarm.service.database import names as tables_and_indexes
from superarm.service.problems import Unavailable

DEFAULTS = {
    "application_name": "superarm",
    "connect_timeout": 5,  # seconds, as all but the last
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
"""What holds for connections, where the URL does not say otherwise."""
SETTINGS = """
SET client_encoding = 'UTF8';
SET lock_timeout = '20s';
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') <> 'remote_apply'
"""
PATIENCE = "SET idle_in_transaction_session_timeout = '15s'"
"""For those who write: a server that hangs in the middle must not keep the others from writing."""
MAKING = 7_263_481
"""The advisory lock of who makes the tables."""
LEADING = 7_263_482
"""The advisory lock of who learns, beside the identity of the table `head`."""

_names = itertools.count()


@functools.lru_cache(maxsize=1000)
def _spoken(sql: str) -> Any:
    """SQL as psycopg takes it."""
    return sql.replace("%", "%%").replace("?", "%s")


class _Session:
    """A connection that is made again when it was lost, unless something would be lost with it."""

    def __init__(self, given: dict[str, Any], settings: str = SETTINGS) -> None:
        self._given = given
        self._settings = settings
        self._psycopg: psycopg.Connection[Row] | None = None
        self._streams = 0
        self.holds = False
        """Whether a transaction or a lock is held."""

    def connection(self) -> psycopg.Connection[Row]:
        """The connection; a new one if there is none, or it was lost."""
        found = self._psycopg
        if found is None or (found.closed and not self._is_busy()):
            found = psycopg.connect(**self._given, autocommit=True)
            settings: Any = self._settings
            found.execute(settings)
            self._psycopg = found
        return found

    def _is_busy(self) -> bool:
        """Whether something would be lost with the connection."""
        return self.holds or self._streams > 0

    def close(self) -> None:
        """Let go of the connection, and with it of all that is held."""
        self.holds = False
        if self._psycopg is not None:
            self._psycopg.close()
            self._psycopg = None

    def execute(self, sql: str, given: Sequence[Any] = ()) -> list[Row]:
        """All rows of the answer."""
        with _explained():
            try:
                return self._answer(sql, given)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if self._is_busy() or not self._is_lost():
                    raise
            return self._answer(sql, given)  # nothing was under way: it is as if asked just now

    def _answer(self, sql: str, given: Sequence[Any]) -> list[Row]:
        cursor = self.connection().cursor(binary=True)
        cursor.execute(_spoken(sql), given)
        return cursor.fetchall() if cursor.description else []

    def _is_lost(self) -> bool:
        return self._psycopg is not None and self._psycopg.closed

    def rows(self, sql: str, given: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of the answer, one after the other, and few at once in memory."""
        if not self._is_busy():
            self.execute("BEGIN ISOLATION LEVEL READ COMMITTED")  # cursors live in transactions
        self._streams += 1
        try:
            with _explained():
                name = f"rows_{next(_names)}"
                with self.connection().cursor(name, binary=True) as cursor:
                    cursor.itersize = 1000
                    cursor.execute(_spoken(sql), given)
                    yield from cursor
        finally:
            self._streams -= 1
            if not self._is_busy() and self._psycopg is not None:
                with suppress(psycopg.Error):  # it is lost, and what it read with it
                    self._psycopg.execute("ROLLBACK")

    def head(self) -> Head:
        """Where the log ends."""
        return database.head(self)

    def append(self, rows: Sequence[Row], head: Head) -> None:
        """Write events, and where the log ends with them."""
        database.append(self, rows, head)

    def begin(self) -> None:
        """Begin to write, alone: all others wait."""
        self.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        self.holds = True
        try:
            self.execute("SELECT position FROM head FOR UPDATE")
        except BaseException:
            self.close()
            raise

    def commit(self) -> None:
        """End what was begun: it is on disk, or it did not happen, or nobody knows."""
        try:
            status = self.connection().execute("COMMIT").statusmessage
        except psycopg.Error as error:
            self.close()
            raise Unavailable(
                "the database was lost in the middle of a commit: it is not known whether this was "
                "written; ask again, with the same idempotency key"
            ) from error
        self.holds = False
        if status != "COMMIT":  # of a transaction that has failed, Postgres says ROLLBACK
            raise Unavailable("nothing was written: try again")

    def roll_back(self) -> None:
        """Undo what was begun."""
        try:
            self.execute("ROLLBACK")
        except (Unavailable, psycopg.Error):  # without its connection, nothing of it is left
            self.close()
        self.holds = False


class Postgres:
    """A database that several servers share; one of them learns.

    Args:
        url: as `postgresql://user:password@host/name`; a pool between that gives connections to
            others after each transaction will not do.
    """

    shared = True

    def __init__(self, url: str) -> None:
        self._given = _read(url)
        self._mine = threading.local()
        self._all: list[_Session] = []
        self._writing = threading.Lock()
        self._writer = self._session(f"{SETTINGS};{PATIENCE}")
        self._leading = self._session(f"{SETTINGS};{PATIENCE}")
        self._epoch: int | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            _prepare(self._writer)
        except psycopg.Error as error:
            raise FileError(f"the database cannot be opened: {error}") from error

    def _session(self, settings: str = SETTINGS) -> _Session:
        found = _Session(self._given, settings)
        self._all.append(found)
        return found

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[_Session]:
        """Everything in it happens, and is on disk, or nothing does."""
        with self._writing:
            writer = self._writer
            writer.begin()
            try:
                yield writer
            except BaseException:
                writer.roll_back()
                raise
            writer.commit()

    def read(self) -> _Session:
        """A connection of this thread's own, to read by."""
        found: _Session | None = getattr(self._mine, "session", None)
        if found is None:
            found = self._session()
            self._mine.session = found
        return found

    def lead(self) -> int | None:
        """The epoch in which this server is the one that learns; None if it is not.

        It leads as long as the connection lives that holds the lock. Each time that somebody takes
        the lock a new epoch begins, so that what one that led before still writes is refused.
        """
        try:
            if self._epoch is None:
                self._epoch = self._taken()
            else:
                self._leading.execute("SELECT 1")
        except Unavailable:
            self._leading.close()
            self._epoch = None
        return self._epoch

    def _taken(self) -> int | None:
        """A new epoch, if nobody else leads."""
        session = self._leading
        sql = "SELECT pg_try_advisory_lock(?, 'head'::regclass::oid::int4)"
        if session.execute(sql, (LEADING,)) != [(True,)]:
            return None
        session.holds = True
        session.begin()
        ((epoch,),) = session.execute(
            "INSERT INTO leader VALUES (1, 1) "
            "ON CONFLICT (one) DO UPDATE SET epoch = leader.epoch + 1 RETURNING epoch"
        )
        session.commit()
        session.holds = True  # the lock, still
        return int(epoch)

    def size(self) -> int:
        """How many bytes the database takes."""
        ((found,),) = self.read().execute("SELECT pg_database_size(current_database())")
        return int(found)

    def close(self) -> None:
        """Let go of all connections, and of the lock."""
        for session in self._all:
            session.close()


def _read(url: str) -> dict[str, Any]:
    """The parameters in a URL, which may hold a password and is not shown."""
    try:
        return {**DEFAULTS, **conninfo.conninfo_to_dict(url)}
    except psycopg.ProgrammingError as error:
        raise ParameterError(
            "the database must be a URL such as postgresql://user@host/name"
        ) from error


# --- the tables -----------------------------------------------------------------------------------


def _prepare(session: _Session) -> None:
    """Make the tables, unless they are there; refuse a database that is none of ours, of a newer
    version, or that would forget in a power cut.
    """
    connection = session.connection()
    _require_care(connection)
    with connection.transaction():
        # of several servers that start at once, one makes the tables
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))
        names = {
            name
            for (name,) in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() UNION ALL "
                "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
            )
        }
        if not names:
            _make(connection)
            connection.execute("INSERT INTO meta VALUES ('schema', %s)", (str(SCHEMA),))
            connection.execute("INSERT INTO head VALUES (1, 0, '', %s)", (b"",))
            return
        if not {"meta", "head", "events", "catalogues"} <= names:
            raise FileError(
                "the database has tables that are not superarm's: give it a database of its own, "
                "or a schema, as postgresql://host/name?options=-csearch_path%3Dsuperarm"
            )
        _require_version(connection)
        if not tables_and_indexes() <= names:
            _make(connection)


def _require_care(connection: Any) -> None:
    """Refuse a server that loses what it acknowledged, or cannot keep all texts."""
    cursor = connection.execute(
        "SELECT current_setting('fsync'), current_setting('server_encoding')"
    )
    fsync, encoding = cursor.fetchone()
    if fsync != "on":
        raise FileError(
            "Postgres runs with fsync = off, and would forget in a power cut: turn it on"
        )
    if encoding != "UTF8":
        raise FileError(f"the database has the encoding {encoding}: make one with UTF8")


def _make(connection: Any) -> None:
    """Make the tables that are missing; texts compare by their bytes, as in SQLite."""
    tables = TABLES.format(bytes="BYTEA").replace("TEXT", 'TEXT COLLATE "C"')
    connection.execute(tables)


def _require_version(connection: Any) -> None:
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    if found is None:
        raise FileError("the database has tables that are not superarm's: give it one of its own")
    if found[0] not in map(str, range(1, SCHEMA + 1)):
        raise FileError(
            f"the database has tables of version {found[0]:.60}, this superarm knows {SCHEMA}: "
            "upgrade superarm to open it"
        )


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of the database as what they mean to those who ask. Postgres' own words, which tell of
    hosts and users, are left to the log of the service.
    """
    try:
        yield
    except errors.DiskFull as error:
        raise Unavailable("the disk is full: nothing was written; try again later") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise _unavailable(error) from error
    except psycopg.InternalError as error:
        if (error.sqlstate or "").startswith("25"):  # read only, or ended while it was idle
            raise _unavailable(error) from error
        raise


def _unavailable(error: psycopg.Error) -> Unavailable:
    kind = type(error).__name__
    return Unavailable(f"the database does not answer now ({kind}): try again later")

"""What is done now and then to the folder of a service: verified, copied, compacted."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from superarm.engine.progress import create_bar
from superarm.errors import FileError, ParameterError
from superarm.files.atomic import sync
from superarm.service import compaction, log, server, snapshots
from superarm.service.database import Connection
from superarm.service.log import Fault
from superarm.service.problems import Unavailable
from superarm.service.sqlite import FILE, Sqlite

SHOWN = 20
"""Faults that are printed."""


@contextmanager
def opened(folder: Path) -> Iterator[Sqlite]:
    """The log in the folder of a service, which must be there already."""
    path = folder / FILE
    if not path.is_file():
        raise FileError(
            f"{folder} is not the folder of a service: there is no {FILE} in it; give the DIR of "
            "superarm serve --data"
        )
    database = Sqlite(path)
    try:
        yield database
    finally:
        database.close()


def progress(rows: Iterable[Any], total: int, *, shown: bool = True) -> Iterator[Any]:
    """Rows, of which a bar in the terminal tells how many are done."""
    with create_bar(transient=True, shown=shown) as line:
        yield from line.track(rows, total=total, description="events")


# --- verified -------------------------------------------------------------------------------------


def verify(folder: Path) -> str:
    """What the log in a folder holds, if nothing is wrong with it; may be asked while a service
    writes to it.
    """
    with opened(folder) as database, database.steady() as connection:
        faults = list(_faults(connection))
        position, chain = log.head(connection)
        first = log.base(connection) + 1
    if faults:
        lines = [f"  event {fault.position}: {fault.what}" for fault in faults[:SHOWN]]
        if len(faults) > SHOWN:
            lines.append(f"  and {len(faults) - SHOWN} more")
        found = "\n".join(lines)
        raise FileError(f"the log in {folder} is damaged:\n{found}\nrestore a backup of it")
    if position < first:
        return f"sound: no events after {position:,}"
    return f"sound: events {first:,} to {position:,}, hash {chain.hex()}"


def _faults(connection: Connection) -> Iterator[Fault]:
    faults = list(log.verify(connection))
    yield from faults
    if not faults:
        yield from _faults_before(connection, log.base(connection))


def _faults_before(connection: Connection, base: int) -> Iterator[Fault]:
    """All that is wrong with what is kept of a compacted beginning."""
    for name, agent in log.agents(connection).items():
        if agent > base:
            continue
        try:
            found = snapshots.newest(connection, agent, base + 1)
        except Unavailable as error:
            yield Fault(base, error.detail)
            continue
        if found is None:
            yield Fault(base, f"what agent {name!r} begins from is missing")
    rows = connection.rows(
        "SELECT position, digest, body FROM events WHERE position <= ? AND body IS NOT NULL",
        (base,),
    )
    for position, digest, body in rows:
        if log.hashed(bytes(body)) != bytes(digest):
            yield Fault(position, "its content was changed")


# --- copied ---------------------------------------------------------------------------------------


def backup(folder: Path, target: Path) -> str:
    """Copy the log in a folder to a file, while a service may write to it. The copy is verified
    and on the disk before it gets its name.
    """
    if target.exists():
        raise FileError(f"{target} is there already: give the path of a new file")
    if not target.parent.is_dir():
        raise FileError(f"there is no folder {target.parent}: make it first")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with opened(folder) as database:
            database.backup(partial)
        found = _verified(partial)
        partial.chmod(0o600)
        sync(partial)
        partial.rename(target)
        sync(target.parent)
    finally:
        for left in ("", "-wal", "-shm", "-journal"):
            partial.with_name(partial.name + left).unlink(missing_ok=True)
    return f"{target}: {found:,} events"


def _verified(path: Path) -> int:
    """The position of the last event of a copy, with which nothing is wrong."""
    database = Sqlite(path)
    try:
        faults = list(_faults(database.read()))
        position, _ = log.head(database.read())
    finally:
        database.close()
    if faults:
        raise FileError(
            f"the copy is damaged at event {faults[0].position}: {faults[0].what}. Run superarm "
            "log verify on the folder itself"
        )
    return position


# --- compacted ------------------------------------------------------------------------------------


def compact(folder: Path, before: str | None) -> str:
    """Drop from the log in a folder what is not needed any more; no service may run on it."""
    moment = None if before is None else compaction.moment_of(before)
    with opened(folder):
        pass  # before a lock is made in a folder that is none of ours
    path = folder / FILE
    size = path.stat().st_size
    with server.alone(folder), opened(folder) as database:
        with database.steady() as connection:
            damaged = any(True for _ in _faults(connection))
            if damaged:
                raise FileError(f"the log in {folder} is damaged: superarm log verify says how")
        found = compaction.compact(database, moment)
    left = path.stat().st_size
    return (
        f"dropped {found.events:,} events, {found.answers:,} answers to old requests and "
        f"{found.snapshots:,} snapshots: {size / 2**20:,.1f} MiB before, {left / 2**20:,.1f} after"
    )


def require_free(path: Path) -> None:
    """Refuse to write where something is already."""
    if path.exists():
        raise ParameterError(f"{path} is there already: give a new path")

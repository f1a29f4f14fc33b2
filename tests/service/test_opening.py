"""Files that are not opened: of another program, of a newer version, in use, or damaged."""

import asyncio
import os
import shutil
import sqlite3

import msgspec
import numpy as np
import pytest
from serving import Server, running_server
from visitors import create

from superarm.errors import FileError, SuperarmError
from superarm.service import agents, decisions, log, snapshots
from superarm.service.engine import Service
from superarm.service.server import alone
from superarm.service.sqlite import FILE, Sqlite
from superarm.service.wire import CreateAgent, Decide, GiveFeedback

FLIPS = int(os.environ.get("SUPERARM_FLIPS", "40"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A file with a log, a snapshot and nothing in a WAL."""
    path = tmp_path_factory.mktemp("kept") / FILE
    service = Service(Sqlite(path))

    async def story():
        await agents.create(service, msgspec.convert(create("counts"), CreateAgent))
        for i in range(60):
            made = await decisions.decide(service, "counts", Decide(user=f"user {i}"), f"key {i}")
            given = GiveFeedback(decision=made.id, weights=[1.0, 0.25, 0.0])
            await decisions.feedback(service, "counts", given)

    asyncio.run(story())
    service.close()
    assert sorted(file.name for file in path.parent.iterdir()) == [FILE]
    return path


@pytest.fixture
def copied(kept, tmp_path):
    path = tmp_path / FILE
    shutil.copy(kept, path)
    return path


def refused_as_it_is(path, match):
    """A file that is not opened, and not touched."""
    before = path.read_bytes()
    with pytest.raises(FileError, match=match):
        Sqlite(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("table", ["songs", "events", "meta"])
def test_a_database_of_another_program_stays_as_it_is(tmp_path, table):
    path = tmp_path / FILE
    other = sqlite3.connect(path)
    other.execute(f"CREATE TABLE {table} (a)")
    other.commit()
    other.close()
    refused_as_it_is(path, "not a database of superarm's")


def test_a_file_that_is_no_database_stays_as_it_is(tmp_path):
    path = tmp_path / FILE
    path.write_text("Dear diary, " * 1000)
    refused_as_it_is(path, "not a database of superarm's")


@pytest.mark.parametrize("version", ["2", "none"])
def test_tables_of_a_newer_version_stay_as_they_are(copied, version):
    other = sqlite3.connect(copied)
    other.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (version,))
    other.commit()
    other.execute("PRAGMA journal_mode = DELETE")
    other.close()
    refused_as_it_is(copied, "upgrade superarm")


def test_a_second_process_is_refused(tmp_path):
    with running_server(tmp_path / "data"):
        second = Server(tmp_path / "data")
        assert second.ended() == 2
        assert "another process serves" in second.words
    with alone(tmp_path / "data"):  # after its end it is free
        pass


# --- damage ---------------------------------------------------------------------------------------


def found_in(path):
    """What is wrong with a file, as whoever starts a service on it is told."""
    try:
        service = Service(Sqlite(path))
    except SuperarmError as error:
        return [error]
    try:
        return list(log.verify(service.database.read()))
    finally:
        service.close()


def changed(path, start, n, rng):
    """Flip bits in some bytes of a file."""
    content = bytearray(path.read_bytes())
    for i in range(start, start + n):
        content[i] ^= int(rng.integers(1, 256))
    path.write_bytes(content)


def test_a_changed_event_is_found(copied):
    """Wherever in its body. Pages may hold old copies of it, so that all are changed."""
    rng = np.random.default_rng(5)
    database = Sqlite(copied)
    rows = database.read().execute("SELECT position, body FROM events ORDER BY position")
    database.close()
    clean = copied.read_bytes()
    for position, body in rows[2::10]:
        at = int(rng.integers(len(body)))
        other = bytearray(body)
        other[at] ^= int(rng.integers(1, 256))
        copied.write_bytes(clean.replace(body, other))
        found = found_in(copied)
        assert found
        if isinstance(found[0], log.Fault):
            assert log.Fault(position, "its content was changed") in found


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("DELETE FROM events WHERE position = 50", "event 50 is missing"),
        ("DELETE FROM events WHERE position > 100", "the log ends at 100"),
        ("UPDATE events SET time = 'then' WHERE position = 50", "the chain of hashes is broken"),
        ("UPDATE events SET kind = 'removed' WHERE position = 50", "the chain of hashes is broken"),
        ("UPDATE events SET body = NULL WHERE position = 50", "its content was changed"),
        ("UPDATE events SET digest = 7 WHERE position = 50", "the log cannot be read"),
        ("UPDATE head SET chain = 'text'", "the log cannot be read"),
    ],
)
def test_verify_finds_what_was_changed(copied, change, what):
    database = Sqlite(copied)
    with database.transaction() as tx:
        tx.execute(change)
    found = [fault.what for fault in log.verify(database.read())]
    database.close()
    assert any(what in one for one in found)


def test_damage_anywhere_is_no_traceback(kept, tmp_path):
    """Random bytes at random places: one of our errors, faults, or no harm to the log."""
    rng = np.random.default_rng(3)
    size = kept.stat().st_size
    noticed = 0
    for i in range(FLIPS):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = folder / FILE
        shutil.copy(kept, path)
        n = int(rng.choice([1, 8, 100, 4096]))
        changed(path, int(rng.integers(100, size - n)), n, rng)
        noticed += bool(found_in(path))
    assert noticed > FLIPS / 6


def test_a_damaged_snapshot_is_passed_over(copied):
    """What is believed is folded from the log then."""
    database = Sqlite(copied)
    service = Service(database)
    expected = service.view("counts").state.belief
    agent = service.view("counts").created_at
    service.close()
    database = Sqlite(copied)
    with database.transaction() as tx:
        ((body,),) = tx.execute("SELECT body FROM snapshots ORDER BY position DESC LIMIT 1")
        tx.execute("UPDATE snapshots SET body = ?", (body[:-1] + bytes([body[-1] ^ 1]),))
    assert snapshots.newest(database.read(), agent, log.WHOLE) is None
    service = Service(database)
    found = service.view("counts").state.belief
    service.close()
    for field, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(field, wanted)

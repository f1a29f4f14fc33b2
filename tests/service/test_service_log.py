"""Events that are written together, and decisions that are read together."""

from contextlib import suppress

import numpy as np
import pytest

from superarm.agent.decisions import now
from superarm.service import log
from superarm.service.database import TOGETHER
from superarm.service.events import Created, Decided, Matrix, Removed
from superarm.service.log import Place, Tail
from superarm.service.sqlite import Moved, Sqlite

ROWS = Matrix.of(np.eye(2))
N = 2 * TOGETHER + 3


@pytest.fixture
def database(tmp_path):
    found = Sqlite(tmp_path / "superarm.db")
    yield found
    found.close()


@pytest.fixture
def agent(database):
    """An agent with many decisions."""
    with database.transaction() as tx:
        tail = Tail(tx, now())
        agent = tail.append(None, Created("news", {}, {}))
        for i in range(N):
            tail.append(agent, Decided(f"{i}", [i], ROWS, seed=i, believed=1))
        tail.finish()
    return agent


def test_what_was_appended_can_be_read_at_once(database):
    with database.transaction() as tx:
        tail = Tail(tx, now())
        agent = tail.append(None, Created("news", {}, {}))
        assert tail.to_learn
        position = tail.append(agent, Decided("token", ["a"], ROWS, seed=7, believed=1))
        assert log.decision(tail.tx, position).event.token == "token"
        tail.append(agent, Removed())
        tail.finish()
    assert log.head(database.read())[0] == 3
    assert not list(log.verify(database.read()))


def test_a_tail_that_raises_leaves_nothing(database, agent):
    before = log.head(database.read())
    with suppress(ZeroDivisionError), database.transaction() as tx:
        tail = Tail(tx, now())
        tail.append(agent, Removed())
        tail.tx.execute("SELECT 1")
        tail.append(agent, Removed())
        raise ZeroDivisionError
    assert log.head(database.read()) == before
    assert not list(log.verify(database.read()))


def test_decisions_alone_are_nothing_to_learn(database, agent):
    with database.transaction() as tx:
        tail = Tail(tx, now())
        tail.append(agent, Decided("token", ["a"], ROWS, seed=7, believed=1))
        assert tail.appended and not tail.to_learn
        tail.append(agent, Removed())
        assert tail.to_learn


def test_decisions_read_together_are_those_read_one_by_one(database, agent):
    with database.transaction() as tx:
        tx.execute("UPDATE events SET body = NULL WHERE position = ?", (agent + 5,))
    connection = database.read()
    wanted = range(agent, agent + N + 10)  # among them the creation, an erased one, and none
    there = set(wanted[1 : N + 1]) - {agent + 5}
    found = log.decisions(connection, wanted)
    assert found == {position: log.decision(connection, position) for position in there}
    assert log.decisions(connection, []) == {}


def test_what_is_known_of_many_decisions(database, agent):
    known = {position: {0: Place(0.5, None, position)} for position in range(2, N, 3)}
    with database.transaction() as tx:
        log.note_seen(tx, known)
        log.note_seen(tx, {})
        log.note_seen(tx, {2: {0: Place(0.25, 2.0, 9, by_default=True)}})
    known[2] = {0: Place(0.25, 2.0, 9, by_default=True)}
    found = log.seen_each(database.read(), range(1, N))
    assert list(found) == list(range(1, N))
    assert {position: places for position, places in found.items() if places} == known
    assert log.seen(database.read(), 2) == known[2]


def append(database, agent, *tokens):
    """Decisions in a transaction of their own; returns where the log ends."""
    with database.transaction(alone=True) as tx:
        tail = Tail(tx, now())
        for token in tokens:
            tail.append(agent, Decided(token, [1], ROWS, seed=1, believed=1), person="ann")
        tail.finish()
    return tail.position


@pytest.mark.parametrize("n", [1, 2, TOGETHER, TOGETHER + 1])
def test_events_alone_are_written_as_those_beside_other_statements(database, agent, n):
    tokens = [f"token {i}" for i in range(n)]
    end = append(database, agent, *tokens)
    with database.transaction() as tx:
        tail = Tail(tx, now())
        tail.tx.execute("SELECT 1")
        for token in tokens:
            tail.append(agent, Decided(token, [1], ROWS, seed=1, believed=1), person="ann")
        tail.finish()
    columns = "agent, kind, person, digest, body"
    sql = f"SELECT {columns} FROM events WHERE position > ? AND position <= ? ORDER BY position"
    alone = database.read().execute(sql, (end - n, end))
    beside = database.read().execute(sql, (end, end + n))
    assert len(alone) == n and alone == beside
    assert log.head(database.read())[0] == end + n
    assert not list(log.verify(database.read()))


def test_a_log_that_another_process_wrote_to(database, agent, tmp_path):
    end = append(database, agent, "first")
    other = Sqlite(tmp_path / "superarm.db")
    assert append(other, agent, "of another") == end + 1
    other.close()
    with pytest.raises(Moved):
        append(database, agent, "too early")
    assert append(database, agent, "again") == end + 2
    tokens = [
        log.decision(database.read(), position).event.token for position in range(end, end + 3)
    ]
    assert tokens == ["first", "of another", "again"]
    assert not list(log.verify(database.read()))


def test_the_same_beside_other_statements(database, agent, tmp_path):
    append(database, agent, "first")
    other = Sqlite(tmp_path / "superarm.db")
    end = append(other, agent, "of another")
    with pytest.raises(Moved), database.transaction(alone=True) as tx:
        Tail(tx, now()).tx.execute("DELETE FROM events")
    append(other, agent, "of another")
    other.close()
    with database.transaction() as tx:
        tx.execute("INSERT INTO meta VALUES ('test', '')")
    assert append(database, agent, "again") == end + 2
    assert not list(log.verify(database.read()))

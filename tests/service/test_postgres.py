"""The log in Postgres: what holds of SQLite's too, and what several servers on it add."""

import asyncio
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import psycopg
import pytest

from postgres import Cluster, programs
from superarm.agent.decisions import now
from superarm.cli import main
from superarm.errors import FileError, ParameterError
from superarm.service import agents, decisions, keys, log, postgres, snapshots
from superarm.service.engine import Limits, Service
from superarm.service.events import Removed
from superarm.service.fold import fold
from superarm.service.postgres import Postgres
from superarm.service.problems import Conflict, NotFound, Unavailable
from superarm.service.sqlite import Sqlite
from superarm.service.wire import ChangeAgent, CreateAgent, Decide, GiveFeedback, Items

pytestmark = pytest.mark.skipif(programs() is None, reason="Postgres is not installed")

NEWS = CreateAgent(
    name="news",
    oracle={"kind": "TopK", "k": 2},
    items=Items(items=["a", "b", "c"], features=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
)


@pytest.fixture(scope="module")
def cluster():
    found = Cluster()
    yield found
    found.close()


@pytest.fixture
def url(cluster):
    return cluster.database()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """How to open one database, any number of times."""
    if request.param == "sqlite":
        return lambda: Sqlite(tmp_path / "superarm.db")
    cluster = request.getfixturevalue("cluster")
    url = cluster.database()
    return lambda: Postgres(url)


@contextmanager
def opened(open_one, n=1):
    found = [open_one() for _ in range(n)]
    try:
        yield found
    finally:
        for one in found:
            one.close()


@contextmanager
def served(url, n=2):
    """Services on one database; the first leads."""
    found = [Service(Postgres(url), limits=Limits(deciders=1)) for _ in range(n)]
    try:
        yield found
    finally:
        for one in found:
            one.close()


def soon(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def belief(service):
    return service.learner.views["news"].state.belief


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def fresh(service):
    """What the log says, folded anew."""
    connection = service.database.read()
    return fold(connection, log.agents(connection)["news"])


def by(service, n=1, weight=1.0):
    """Some decisions with feedback, by one server."""

    async def ask():
        made = [await decisions.decide(service, "news", Decide()) for _ in range(n)]
        for one in made:
            given = GiveFeedback(decision=one.id, weights={one.items[0]: weight})
            await decisions.feedback(service, "news", given)
        return made

    return asyncio.run(ask())


def corrected(service, made, weight):
    given = GiveFeedback(decision=made.id, weights={made.items[0]: weight}, correct=True)
    return asyncio.run(decisions.feedback(service, "news", given))


def ended(url, condition="true"):
    """End other connections to a database, as a failing network does; returns how many."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND " + condition
        ).fetchall()
    return len(rows)


HOLDS_THE_LOCK = "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"


# --- as in SQLite ---------------------------------------------------------------------------------


def test_all_of_a_transaction_or_nothing(place):
    with opened(place, 2) as (one, other):
        with one.transaction() as tx:
            tail = log.Tail(tx, now())
            agent = tail.append(None, Removed())
            tail.finish()
        with suppress(ZeroDivisionError), one.transaction() as tx:
            log.Tail(tx, now()).append(agent, Removed())
            raise ZeroDivisionError
        assert log.head(other.read())[0] == 1
        assert other.read().execute("SELECT position, agent, kind FROM events") == [
            (1, 1, "removed")
        ]


def test_values_come_back_as_they_were(place):
    with opened(place) as (database,):
        given = ("100 % of ü?", "", "t", bytes(range(256)), None)
        with database.transaction() as tx:
            tx.execute(
                "INSERT INTO keys VALUES (?, ?, 'a%b', ?, ?, ?)",
                given[:1] + given[3:4] + given[1:3] + given[4:],
            )
        found = database.read().execute("SELECT id, note, created, hash, revoked FROM keys")
        assert found == [given]
        assert database.read().execute("SELECT scopes FROM keys WHERE scopes LIKE 'a%'") == [
            ("a%b",)
        ]


def test_rows_come_one_by_one_while_others_are_asked_for(place):
    n = 2500
    with opened(place) as (database,):
        with database.transaction() as tx:
            tail = log.Tail(tx, now())
            for _ in range(n):
                tail.append(1, Removed())
            tail.finish()
            assert len(list(tx.rows("SELECT position FROM events"))) == n
        connection = database.read()
        found = []
        for (position,) in connection.rows("SELECT position FROM events ORDER BY position"):
            found.append(position)
            if position % 100 == 0:
                inner = connection.rows("SELECT kind FROM events WHERE position >= ?", (position,))
                assert next(inner) == ("removed",)
            if position == 1100:
                break
        assert found == list(range(1, 1101))
        assert connection.execute("SELECT count(*) FROM events") == [(n,)]
        assert list(log.verify(connection)) == []


def test_appends_of_many_leave_no_gap_and_no_late_one(place):
    """A reader that goes on from the last position it saw must see all of them."""
    n = 40
    with opened(place, 3) as (*writers, reader):

        def write(database):
            for _ in range(n):
                with database.transaction() as tx:
                    tail = log.Tail(tx, now())
                    tail.append(1, Removed())
                    tail.append(1, Removed())
                    tail.finish()

        threads = [threading.Thread(target=write, args=(one,)) for one in writers * 2]
        for thread in threads:
            thread.start()
        seen = []
        alive = True
        while alive:
            alive = any(thread.is_alive() for thread in threads)
            last = seen[-1] if seen else 0
            sql = "SELECT position FROM events WHERE position > ? ORDER BY position"
            seen += [position for (position,) in reader.read().execute(sql, (last,))]
        assert seen == list(range(1, 2 * n * len(threads) + 1))
        assert list(log.verify(reader.read())) == []


def test_keys_are_found_in_both(place):
    with opened(place) as (database,):
        key = keys.create(database, ["decide"])
        assert keys.find(database.read(), key).may("decide")
        keys.revoke(database, keys.listed(database.read())[0].id)
        assert keys.find(database.read(), key) is None


def test_the_same_log_gives_the_same_bits_in_both(url, tmp_path):
    service = Service(Sqlite(tmp_path / "superarm.db"), limits=Limits(deciders=1))
    asyncio.run(agents.create(service, NEWS))
    corrected(service, by(service, 20)[3], 0.25)
    connection = service.database.read()
    with opened(lambda: Postgres(url)) as (database,):
        with database.transaction() as tx:
            for row in connection.execute("SELECT * FROM events"):
                tx.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        agent = log.agents(connection)["news"]
        ours = fold(connection, agent)
        theirs = fold(database.read(), agent)
        assert ours.learned == theirs.learned == 20
        assert same(ours.state.belief, theirs.state.belief)
    service.close()


# --- opened, or refused ---------------------------------------------------------------------------


def test_many_that_start_at_once_make_the_tables_once(url):
    found = []
    threads = [threading.Thread(target=lambda: found.append(Postgres(url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert found[0].read().execute("SELECT position FROM head") == [(0,)]
    for one in found:
        one.close()


def test_a_newer_database_is_refused(url):
    Postgres(url).close()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE meta SET value = '999'")
    with pytest.raises(FileError, match=r"version 999, .* upgrade superarm"):
        Postgres(url)


def test_a_database_of_others_is_refused_and_left_alone(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE events (id INT)")
    with pytest.raises(FileError, match="not superarm's: give it a database of its own, or a sch"):
        Postgres(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA superarm")
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        assert rows.fetchall() == [("events",)]
    Postgres(url + "&options=-csearch_path%3Dsuperarm").close()


def test_a_database_that_cannot_keep_all_texts_is_refused(cluster):
    url = cluster.database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(FileError, match="the encoding LATIN1: make one with UTF8"):
        Postgres(url)


def test_what_cannot_be_reached_is_said_without_the_password(cluster):
    with pytest.raises(FileError, match=r'cannot be opened: .*"nothing" does not exist'):
        Postgres(cluster.url("nothing"))
    with pytest.raises(ParameterError, match="must be a URL such as") as error:
        Postgres("postgres:/user:secret@host/name")
    assert "secret" not in str(error.value)


def test_a_commit_is_on_disk_also_where_the_database_says_off(url):
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with opened(lambda: Postgres(url)) as (database,), database.transaction() as tx:
        assert tx.execute("SHOW synchronous_commit") == [("on",)]


def test_keys_are_made_on_the_command_line(url, capsys):
    assert main(["keys", "create", "--database", url, "--scope", "admin"]) == 0
    key = capsys.readouterr().out.strip()
    with opened(lambda: Postgres(url)) as (database,):
        assert keys.find(database.read(), key).may("admin")


# --- lost connections -----------------------------------------------------------------------------


def test_reading_and_writing_go_on_after_the_connections_are_lost(url):
    with opened(lambda: Postgres(url)) as (database,):
        key = keys.create(database, ["admin"])
        assert database.read().execute("SELECT 1") == [(1,)]
        assert ended(url) == 2
        assert keys.find(database.read(), key) is not None
        keys.create(database, ["admin"])
        assert len(keys.listed(database.read())) == 2


def test_what_was_not_committed_when_the_connection_was_lost_did_not_happen(url):
    with opened(lambda: Postgres(url)) as (database,):

        def write(after):
            with database.transaction() as tx:
                tx.execute("INSERT INTO leader VALUES (7, 7)")
                ended(url)
                after(tx)

        with pytest.raises(Unavailable, match="does not answer"):
            write(lambda tx: tx.execute("INSERT INTO leader VALUES (8, 8)"))
        with pytest.raises(Unavailable, match="not known whether"):
            write(lambda tx: None)
        with database.transaction() as tx:
            assert tx.execute("SELECT * FROM leader") == []


def test_a_server_that_hangs_in_the_middle_keeps_no_other_from_writing(url, monkeypatch):
    monkeypatch.setattr(postgres, "PATIENCE", "SET idle_in_transaction_session_timeout = '100ms'")
    with opened(lambda: Postgres(url), 2) as (hangs, writes):

        def hang():
            with hangs.transaction() as tx:
                tx.execute("INSERT INTO leader VALUES (7, 7)")
                keys.create(writes, ["admin"])  # waits for the lock until it is taken away

        with pytest.raises(Unavailable, match="not known whether"):
            hang()
        assert len(keys.listed(hangs.read())) == 1
        assert hangs.read().execute("SELECT * FROM leader") == []


def test_a_stream_that_is_lost_is_not_taken_for_whole(url):
    with opened(lambda: Postgres(url)) as (database,):
        connection = database.read()
        rows = connection.rows("SELECT * FROM generate_series(1, 5000)")
        assert next(rows) == (1,)
        ended(url)
        with pytest.raises(Unavailable):
            list(rows)
        assert len(list(connection.rows("SELECT * FROM generate_series(1, 5000)"))) == 5000


def test_a_transaction_that_failed_in_silence_is_not_acknowledged(url):
    with opened(lambda: Postgres(url)) as (database,):

        def write():
            with database.transaction() as tx, suppress(psycopg.DataError):
                tx.execute("SELECT 1 / 0")

        with pytest.raises(Unavailable, match="nothing was written"):
            write()
        with database.transaction() as tx:
            assert tx.execute("SELECT position FROM head") == [(0,)]


@pytest.mark.parametrize(
    ("code", "said"),
    [("53100", "the disk is full"), ("57P03", "does not answer"), ("25006", "does not answer")],
)
def test_a_full_disk_and_a_standby_are_unavailable(url, code, said):
    with opened(lambda: Postgres(url)) as (database,):
        with pytest.raises(Unavailable, match=said), database.transaction() as tx:
            tx.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$")
        with database.transaction() as tx:
            assert tx.execute("SELECT 1") == [(1,)]


def test_a_commit_of_which_nobody_knows_is_not_repeated(url, monkeypatch):
    """The connection is lost after the commit, before the answer: who asks again with the same key
    gets what was written.
    """
    with served(url, 1) as (service,):
        asyncio.run(agents.create(service, NEWS))
        service.learner.stop()  # which commits too
        execute = psycopg.Connection.execute
        losses = []

        def lossy(self, query, *given, **options):
            found = execute(self, query, *given, **options)
            if query == "COMMIT" and not losses:
                losses.append(query)
                self.close()
                raise psycopg.OperationalError("lost")
            return found

        async def ask():
            with monkeypatch.context() as patched:
                patched.setattr(psycopg.Connection, "execute", lossy)
                with pytest.raises(Unavailable, match="same idempotency key"):
                    await decisions.decide(service, "news", Decide(), "key")
            return await decisions.decide(service, "news", Decide(), "key")

        made = asyncio.run(ask())
        assert losses == ["COMMIT"]
        rows = service.database.read().execute("SELECT position FROM events WHERE kind = 'decided'")
        ((position,),) = rows
        assert f'"id":"{position}-'.encode() in bytes(made)


def test_a_restart_of_postgres_is_waited_for(cluster, url):
    """Meanwhile it is refused if it would forget in a power cut."""
    with served(url) as (one, other):
        asyncio.run(agents.create(other, NEWS))
        by(other, 3)
        cluster.stop("fast")
        with pytest.raises(Unavailable):
            by(one)
        cluster.start(fsync="off")
        with pytest.raises(FileError, match="fsync = off"):
            Postgres(url)
        cluster.stop("fast")
        cluster.start()
        soon(lambda: one.learner.leading or other.learner.leading)
        soon(lambda: "news" in one.learner.views)
        by(one, 2)
        soon(lambda: same(belief(one), fresh(one).state.belief))
        soon(lambda: same(belief(other), fresh(one).state.belief))
        assert fresh(one).learned == 5


# --- one learns, the others follow ----------------------------------------------------------------


def test_one_leads_until_its_connection_is_lost(url):
    with opened(lambda: Postgres(url), 2) as (one, other):
        assert [one.lead(), other.lead(), one.lead()] == [1, None, 1]
        assert ended(url, HOLDS_THE_LOCK) == 1
        assert soon(other.lead) == 2
        assert [one.lead(), one.lead()] == [None, None]
        other.close()
        assert soon(one.lead) == 3


def test_schemas_of_one_database_have_leaders_of_their_own(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA beside")
    beside = url + "&options=-csearch_path%3Dbeside"
    with opened(lambda: Postgres(url)) as (one,), opened(lambda: Postgres(beside)) as (other,):
        assert [one.lead(), other.lead()] == [1, 1]


def test_snapshots_of_an_earlier_epoch_are_refused(url):
    with served(url, 1) as (service,):
        asyncio.run(agents.create(service, NEWS))
        folded = service.learner.views["news"]

        def kept(epoch):
            work = snapshots.prepared(folded.created_at, folded, service.learner.position, epoch)
            return service.writer.submit(work).result()

        assert [kept(0), kept(1), kept(2), kept(None)] == [False, True, False, False]


def test_what_is_asked_of_a_follower_holds_at_once(url):
    with served(url) as (leader, follower):

        async def visit():
            with pytest.raises(NotFound):
                follower.view("news")
            await agents.create(follower, NEWS)
            made = await decisions.decide(follower, "news", Decide())
            assert len(made.items) == 2
            more = Items(items=["d", "e"], features=[[2.0, 0.0], [0.0, 2.0]])
            assert (await agents.put_items(follower, "news", more)).items == 5
            assert agents.items(follower, "news", 0, 9).total == 5
            change = ChangeAgent(oracle={"kind": "TopK", "k": 4})
            await agents.change(follower, "news", change)
            assert len((await decisions.decide(follower, "news", Decide())).items) == 4
            learner = {"kind": "CombLinTS", "sigma": 0.5}
            await agents.change(follower, "news", ChangeAgent(learner=learner))
            assert follower.view("news").state.learner.sigma == 0.5
            with pytest.raises(Conflict):
                await agents.create(follower, NEWS)
            await agents.remove(follower, "news")
            with pytest.raises(NotFound):
                follower.view("news")
            await agents.create(follower, NEWS)
            assert len((await decisions.decide(follower, "news", Decide())).items) == 2

        asyncio.run(visit())
        assert [leader.learner.leading, follower.learner.leading] == [True, False]
        soon(lambda: leader.view("news"))


def test_an_agent_that_another_server_made_just_now_is_not_denied(url):
    with served(url) as (leader, follower):
        follower.learner.stop()
        asyncio.run(agents.create(leader, NEWS))
        with pytest.raises(Unavailable, match="created just now elsewhere"):
            follower.view("news")


def test_servers_come_to_believe_the_same(url):
    with served(url, 3) as services:
        asyncio.run(agents.create(services[0], NEWS))
        for service in services:
            soon(lambda service=service: "news" in service.learner.views)
        made = [one for service in services for one in by(service, 10, weight=0.5)]
        corrected(services[1], made[0], 0.75)
        corrected(services[2], made[-1], 0.25)
        wanted = fresh(services[0])
        assert wanted.learned == 30
        for service in services:
            soon(lambda service=service: same(belief(service), wanted.state.belief))
        assert [service.learner.leading for service in services] == [True, False, False]


def test_who_takes_over_learns_what_was_not_learned_yet(url):
    """Also what corrects feedback from before the last snapshot."""
    with served(url) as (leader, follower):
        asyncio.run(agents.create(leader, NEWS))
        first = by(leader, 5)
        soon(lambda: "news" in follower.learner.views)
        soon(lambda: follower.learner.views["news"].learned == 5)
        leader.learner.stop()  # it holds the lock, but learns nothing more
        by(follower, 5)
        corrected(follower, first[0], 0.125)
        assert follower.learner.views["news"].learned == 5
        wanted = fresh(leader)
        ended(url, HOLDS_THE_LOCK)
        soon(lambda: follower.learner.leading)
        soon(lambda: same(belief(follower), wanted.state.belief))
        assert follower.learner.views["news"].learned == 10


def test_who_has_lost_the_lock_keeps_no_snapshots(url, monkeypatch):
    with served(url) as (one, other):
        asyncio.run(agents.create(one, NEWS))
        monkeypatch.setattr(one.database, "lead", lambda: 1)  # it knows of nothing
        ended(url, HOLDS_THE_LOCK)
        soon(lambda: other.learner.leading)
        other.learner.stop()
        held = snapshots.positions(other.database.read())
        by(one, 5)
        soon(lambda: one.learner.views["news"].learned == 5)
        one.learner._snapshot(everything=True)
        assert snapshots.positions(other.database.read()) == held


def test_a_follower_never_goes_back(url):
    """Where a correction drops the snapshots, it keeps what it knows until there are newer ones."""
    with served(url) as (leader, follower):
        asyncio.run(agents.create(leader, NEWS))
        made = by(leader, 3)
        soon(lambda: "news" in follower.learner.views)
        soon(lambda: follower.learner.views["news"].learned == 3)
        leader.learner.stop()
        before = follower.learner.views["news"].position
        corrected(leader, made[0], 0.5)
        assert snapshots.positions(leader.database.read()) != {}
        follower.learner.catch_up()
        assert follower.learner.views["news"].position == before

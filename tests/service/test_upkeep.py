"""The folder of a service, verified, exported, copied and compacted."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import numpy as np
import pyarrow.parquet as pq
import pytest

from superarm.agent.decisions import now
from superarm.cli import main
from superarm.errors import FileError, ParameterError
from superarm.service import agents, commits, compaction, decisions, log, snapshots, upkeep
from superarm.service.engine import Service
from superarm.service.events import Removed, decoded
from superarm.service.fold import fold
from superarm.service.problems import Conflict, Gone, NotFound
from superarm.service.server import alone
from superarm.service.sqlite import FILE, Sqlite
from superarm.service.wire import (
    ChangeAgent,
    Context,
    CreateAgent,
    Decide,
    Default,
    GiveFeedback,
    Items,
    RemoveItems,
)
from superarm.service.wire import Seen as Given

TEXT = Items(
    items=["a", "b", "c", "d"],
    features=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.2]],
    names=["tempo", "loud"],
)
NUMBERS = Items(items=[3, 1, 2], features=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


class Visit:
    """What happens to a service, one thing after the other."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.service = Service(Sqlite(folder / FILE), snapshot_every=1e9)

    def do(self, work):
        return asyncio.run(work)

    def create(self, name, items, **given):
        body = CreateAgent(name=name, oracle={"kind": "TopK", "k": 2}, items=items, **given)
        self.do(agents.create(self.service, body))

    def decide(self, name, **given):
        return self.do(decisions.decide(self.service, name, Decide(**given)))

    def observe(self, name, made, weights, *, correct=False):
        if isinstance(weights, dict):
            weights = {str(item): weight for item, weight in weights.items()}
        body = GiveFeedback(decision=made.id, weights=weights, correct=correct)
        return self.do(decisions.feedback(self.service, name, body))

    def close(self):
        self.service.close()


@contextlib.contextmanager
def visiting(folder):
    visit = Visit(folder)
    try:
        yield visit
    finally:
        visit.close()


@pytest.fixture
def folder(tmp_path):
    """A folder with two agents: one in a context, one with whole numbers as ids; some feedback is
    late, corrected, or forgotten."""
    with visiting(tmp_path / "data") as visit:
        visit.create("news", TEXT, context=Context(names=["young", "late"]), half_life="7 d")
        visit.create("numbers", NUMBERS, learner={"kind": "CombTS"})
        late = []
        for i in range(12):
            made = visit.decide("news", context=[1.0, i / 10], user=f"user-{i % 3}", draws=20)
            visit.observe("news", made, {made.items[0]: i / 12})
            late.append(made)
            other = visit.decide("numbers", available=[1, 2, 3])
            visit.observe("numbers", other, [0.25, 0.5])
            if i % 4 == 1:
                visit.observe("news", made, {made.items[0]: 0.9}, correct=True)
            if i == 6:
                more = Items(items=["e"], features=[[0.3, 0.3]], names=["loud", "tempo"])
                visit.do(agents.put_items(visit.service, "news", more))
            if i == 7:
                visit.do(decisions.forget(visit.service, "user-2"))
        for made in late[::3]:
            visit.observe("news", made, {made.items[1]: 0.5})
        visit.observe("news", late[0], {late[0].items[0]: 0.125}, correct=True)
    return tmp_path / "data"


def beliefs(folder, *, snapshot=False):
    """What all agents believe, folded from the log, or from the last snapshots."""
    database = Sqlite(folder / FILE)
    connection = database.read()
    base = log.base(connection)
    found = {}
    for name, agent in log.agents(connection).items():
        start = snapshots.newest(connection, agent, log.WHOLE if snapshot else base + 1)
        folded = fold(connection, agent, start)
        parts = [np.asarray(part).tobytes() for part in folded.state.belief]
        found[name] = (parts, folded.learned, folded.unfit, folded.state.catalogue.ids.tolist())
    database.close()
    return found


def times(folder):
    database = Sqlite(folder / FILE)
    rows = database.read().execute("SELECT time FROM events ORDER BY position")
    database.close()
    return [datetime.fromisoformat(time) for (time,) in rows]


def last_feedback(folder):
    """When the last feedback came, which is late."""
    database = Sqlite(folder / FILE)
    rows = database.read().execute("SELECT max(time) FROM events WHERE kind = 'observed'")
    database.close()
    return datetime.fromisoformat(rows[0][0])


def compacted(folder, before=None):
    database = Sqlite(folder / FILE)
    found = compaction.compact(database, before)
    database.close()
    return found


# --- compacted ------------------------------------------------------------------------------------


def test_a_shortened_log_is_folded_to_the_same_bits(folder, tmp_path):
    """Wherever it is cut, and whatever happens afterwards; compared with the whole log."""
    moments = times(folder)
    before = beliefs(folder)
    for at in range(0, len(moments), 9):
        part = tmp_path / f"cut-{at}"
        shutil.copytree(folder, part)
        found = compacted(part, moments[at])
        assert found.base <= at
        assert upkeep.verify(part).startswith("sound")
        assert beliefs(part) == before
        assert beliefs(part, snapshot=True) == before
    assert found.events > 20


def test_what_happens_after_it_was_shortened_is_learned_as_before(folder, tmp_path, monkeypatch):
    """The same is done, at the same times, to the whole log and to one without its beginning."""
    moments = times(folder)
    later = moments[-1] + timedelta(days=1)
    monkeypatch.setattr("superarm.service.engine.now", lambda: later)
    short = tmp_path / "short"
    shutil.copytree(folder, short)
    base = compacted(short, moments[36]).base
    assert base > 20
    for data in (folder, short):
        with visiting(data) as visit:
            rows = visit.service.database.read().execute(
                "SELECT position, body FROM events WHERE kind = 'decided' AND agent = 1 "
                "AND position > ? AND body IS NOT NULL ORDER BY position",
                (base,),
            )
            made = [commits.made(at, "", decoded(body)) for at, body in rows]
            visit.observe("news", made[0], {made[0].items[0]: 0.75}, correct=True)
            visit.observe("news", made[2], {made[2].items[1]: 0.75})
            visit.do(agents.remove_items(visit.service, "news", RemoveItems(items=["a"])))
    assert beliefs(short) == beliefs(short, snapshot=True) == beliefs(folder)
    assert upkeep.verify(short).startswith("sound")


def test_a_forgotten_user_is_forgotten_in_what_is_kept(folder):
    """Decisions from before that later feedback is on are erased with it."""
    compacted(folder, last_feedback(folder))
    with visiting(folder) as visit:
        read = visit.service.database.read()
        kept = read.execute("SELECT person FROM events WHERE kind = 'decided'")
        assert kept
        learned = visit.service.view("news").learned
        for user in {person for (person,) in kept}:
            assert visit.do(decisions.forget(visit.service, user)).decisions
        visit.do(visit.service.published(log.head(read)[0], "news"))
        assert visit.service.view("news").learned < learned
        assert not read.execute(
            "SELECT 1 FROM events WHERE kind = 'decided' AND body IS NOT NULL AND agent = 1"
        )
    assert upkeep.verify(folder).startswith("sound")
    assert beliefs(folder) == beliefs(folder, snapshot=True)


def test_old_decisions_take_no_feedback_and_old_agents_no_other_learner(folder):
    with visiting(folder) as visit:
        old = visit.decide("numbers")
        half = visit.decide("numbers")
        visit.observe("numbers", half, {half.items[0]: 0.5})
    end = times(folder)[-1]
    with visiting(folder) as visit:
        visit.observe("numbers", half, {half.items[1]: 0.5})
    compacted(folder, end)
    with visiting(folder) as visit:
        state = log.head(visit.service.database.read())
        for made, weights in ((old, [1.0, 1.0]), (half, [1.0, 1.0]), (half, [0.5, 0.5])):
            with pytest.raises(Gone, match="compacted"):
                visit.observe("numbers", made, weights, correct=True)
        with pytest.raises(Gone):
            decisions.decision(visit.service, "numbers", old.id)
        assert decisions.decision(visit.service, "numbers", half.id).id == half.id
        with pytest.raises(NotFound):
            decisions.decision(visit.service, "numbers", "999999-x")
        change = ChangeAgent(learner={"kind": "CombUCB1"})
        with pytest.raises(Conflict, match="create another agent"):
            visit.do(agents.change(visit.service, "numbers", change))
        assert log.head(visit.service.database.read()) == state
        visit.do(
            agents.change(visit.service, "numbers", ChangeAgent(oracle={"kind": "TopK", "k": 1}))
        )
        visit.create("younger", NUMBERS)
        change = ChangeAgent(learner={"kind": "CombUCB1"})
        visit.do(agents.change(visit.service, "younger", change))
        assert len(visit.decide("numbers").items) == 1
    assert beliefs(folder) == beliefs(folder, snapshot=True)


def test_snapshots_that_come_later_keep_the_first(folder):
    moments = times(folder)
    base = compacted(folder, moments[30]).base
    with visiting(folder) as visit:
        for i in range(40):
            made = visit.decide("numbers")
            visit.observe("numbers", made, [0.5, i / 40])
            visit.do(visit.service.published(log.head(visit.service.database.read())[0], "numbers"))
            visit.service.learner._snapshot(everything=True)
        kept = visit.service.database.read().execute(
            "SELECT position FROM snapshots WHERE agent = 3 ORDER BY position"
        )
        assert kept[0] == (base,) and len(kept) > 3
    again = compacted(folder, times(folder)[-5])
    assert again.base > base
    assert beliefs(folder) == beliefs(folder, snapshot=True)
    assert upkeep.verify(folder).startswith("sound")


def test_what_is_yet_to_be_taken_for_granted_is_kept(tmp_path):
    with visiting(tmp_path) as visit:
        visit.create("news", TEXT, default=Default(after="1 h"))
        for _ in range(3):
            visit.decide("news")
    assert compacted(tmp_path, now() + timedelta(days=1)).base == 2
    with visiting(tmp_path) as visit:
        later = now() + timedelta(hours=2)
        visit.service.learner._sweep(later)
    assert compacted(tmp_path, now() + timedelta(days=1)).base == 6
    assert beliefs(tmp_path)["news"][1] == 6


def test_answers_and_room_are_given_back(tmp_path, monkeypatch):
    with visiting(tmp_path) as visit:
        visit.create("news", TEXT)
        for i in range(100):
            visit.do(decisions.decide(visit.service, "news", Decide(user="u" * 200), f"key-{i}"))
    path = tmp_path / FILE
    size = path.stat().st_size
    assert compacted(tmp_path).answers == 0
    monkeypatch.setattr(compaction, "ANSWERED", timedelta(0))
    assert compacted(tmp_path).answers == 100
    assert path.stat().st_size < size
    assert compacted(tmp_path, now()).events == 102
    assert upkeep.verify(tmp_path) == "sound: no events after 102"
    assert path.stat().st_size < 0.7 * size


@pytest.mark.parametrize("text", ["soon", "30", "30 years", "-1d", "2026-13-01", ""])
def test_times_that_are_none_are_refused(text):
    with pytest.raises(ParameterError):
        compaction.moment_of(text)


def test_times_ago_and_dates():
    assert abs(compaction.moment_of("30d") - (now() - timedelta(days=30))) < timedelta(minutes=1)
    assert compaction.moment_of("2026-01-31T12:00+02:00").hour == 12


def test_no_service_may_run_while_it_is_compacted(folder, capsys):
    with alone(folder):
        assert main(["log", "compact", str(folder)]) == 2
    assert "another process serves" in capsys.readouterr().err
    assert main(["log", "compact", str(folder), "--before", "1 d"]) == 0
    assert "dropped 0 events" in capsys.readouterr().out


# --- verified, exported, copied -------------------------------------------------------------------


def test_a_changed_event_is_found(folder, capsys):
    assert main(["log", "verify", str(folder)]) == 0
    assert "sound: events 1 to" in capsys.readouterr().out
    database = Sqlite(folder / FILE)
    with database.transaction() as tx:
        other = "SELECT body FROM events WHERE position = 9"
        tx.execute(f"UPDATE events SET body = ({other}) WHERE position = 7")
    database.close()
    assert main(["log", "verify", str(folder)]) == 2
    assert "event 7: its content was changed" in capsys.readouterr().err
    assert main(["log", "compact", str(folder)]) == 2
    with pytest.raises(FileError, match="damaged"):
        upkeep.backup(folder, folder / "copy.db")
    assert not list(folder.glob("copy*"))


def test_a_changed_decision_before_the_beginning_is_found(folder):
    compacted(folder, last_feedback(folder))
    database = Sqlite(folder / FILE)
    with database.transaction() as tx:
        base = log.base(tx)
        tx.execute("UPDATE events SET body = x'00' WHERE position <= ?", (base,))
        kept = tx.execute("SELECT position FROM events WHERE position <= ?", (base,))
    database.close()
    assert kept
    with pytest.raises(FileError, match=f"event {kept[0][0]}: its content was changed"):
        upkeep.verify(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE snapshots SET body = zeroblob(99) WHERE agent = 1", "begins from is damaged"),
        ("DELETE FROM snapshots WHERE agent = 3", "'numbers' begins from is missing"),
    ],
)
def test_a_changed_beginning_is_found(folder, change, message):
    compacted(folder, last_feedback(folder))
    database = Sqlite(folder / FILE)
    with database.transaction() as tx:
        tx.execute(change)
    database.close()
    with pytest.raises(FileError, match=message):
        upkeep.verify(folder)


@pytest.mark.parametrize("action", ["verify", "export", "compact"])
def test_wrong_folders_are_told_and_left_alone(action, tmp_path, capsys):
    for wrong in (tmp_path / "nowhere", tmp_path):
        assert main(["log", action, str(wrong)]) == 2
        assert "is not the folder of a service" in capsys.readouterr().err
    assert main(["backup", "--data", str(tmp_path), str(tmp_path / "b.db")]) == 2
    assert list(tmp_path.iterdir()) == []


def exported(folder, *options):
    out = folder.parent / "log.jsonl"
    assert main(["log", "export", str(folder), "--out", str(out), *options]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    out.unlink()
    return rows


def test_all_events_as_json_lines(folder, capsys):
    rows = exported(folder)
    assert [row["position"] for row in rows] == list(range(1, len(rows) + 1))
    created, put = rows[:2]
    assert (created["event"], created["agent"], created["half_life"]) == ("created", "news", 604800)
    assert put["features"] == TEXT.features and put["names"] == TEXT.names
    made = next(row for row in rows if row["event"] == "decided" and row.get("draws"))
    assert made["user"] == "user-0" and made["context"] == [1.0, 0.0]
    assert len(made["propensity"]) == len(made["items"]) == len(made["features"]) == 2
    seen = next(row for row in rows if row["event"] == "observed")["feedback"]
    assert seen == [
        {"decision": made["id"], "item": made["items"][0], "weight": 0.0, "importance": None}
    ]
    corrected = [row for row in rows if row["event"] == "corrected"]
    assert corrected[-1]["feedback"][0]["weight"] == 0.125
    erased = [row for row in rows if row.get("erased")]
    at = next(i for i, row in enumerate(rows) if row["event"] == "forgotten")
    assert len(erased) == 2 and not any("user-2" in str(row) for row in rows[:at])
    assert main(["log", "export", str(folder), "--agent", "numbers"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]  # after what was said above
    assert {json.loads(line)["agent"] for line in lines} == {"numbers"}


def test_names_survive_where_the_beginning_does_not(folder):
    compacted(folder, times(folder)[40])
    rows = exported(folder)
    assert {row["agent"] for row in rows} == {"news", "numbers"}
    assert rows[-1]["position"] > rows[0]["position"] + 10


def test_parquet_says_the_same_as_json_lines(folder, monkeypatch):
    monkeypatch.setattr("superarm.service.exporting.BATCH", 5)
    rows = exported(folder)
    out = folder.parent / "tables"
    assert main(["log", "export", str(folder), "--format", "parquet", "--out", str(out)]) == 0
    made = pq.read_table(out / "decisions.parquet").to_pylist()
    wanted = [row for row in rows if row["event"] == "decided" and not row.get("erased")]
    assert len(made) == len(wanted) > 15
    for got, row in zip(made, wanted, strict=True):
        assert got["id"] == row["id"] and got["features"] == row["features"]
        assert got["items"] == [str(item) for item in row["items"]]
        assert got["context"] == row.get("context") and got["propensity"] == row.get("propensity")
        assert got["user"] == row.get("user") and got["agent"] == row["agent"]
        assert got["time"] == datetime.fromisoformat(row["time"])
    weights = pq.read_table(out / "feedback.parquet").to_pylist()
    flat = [one for row in rows for one in row.get("feedback", [])]
    assert [one["weight"] for one in weights] == [one["weight"] for one in flat]
    assert [one["decision"] for one in weights] == [one["decision"] for one in flat]
    assert {one["event"] for one in weights} == {"observed", "corrected"}
    assert sorted(path.name for path in out.iterdir()) == ["decisions.parquet", "feedback.parquet"]


def test_exports_that_cannot_be_are_refused(folder, capsys):
    for options, message in (
        (["--agent", "nobody"], "no agent 'nobody'"),
        (["--out", str(folder)], "is there already"),
        (["--format", "parquet"], "give --out"),
        (["--out", str(folder / "no" / "where")], "No such file"),
    ):
        assert main(["log", "export", str(folder), *options]) == 2
        assert message in capsys.readouterr().err


def test_a_backup_while_others_write(folder, tmp_path):
    """The copy is of one moment, verifies, and can be served."""
    target = tmp_path / "backup.db"
    stopping = threading.Event()
    database = Sqlite(folder / FILE)

    def write():
        while not stopping.is_set():
            with database.transaction() as tx:
                tail = log.Tail(tx, now())
                tail.append(1, Removed())
                tail.finish()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            target.unlink(missing_ok=True)
            said = upkeep.backup(folder, target)
    finally:
        stopping.set()
        writer.join()
        database.close()
    assert said.startswith(f"{target}: ")
    assert not list(tmp_path.glob("*.partial*"))
    assert target.stat().st_mode & 0o777 == 0o600
    restored = tmp_path / "restored"
    restored.mkdir()
    shutil.copy(target, restored / FILE)
    assert upkeep.verify(restored).startswith("sound")
    with pytest.raises(FileError, match="is there already"):
        upkeep.backup(folder, target)
    with pytest.raises(FileError, match="make it first"):
        upkeep.backup(folder, tmp_path / "no" / "backup.db")


def test_help_helps(capsys):
    for command in (["log"], ["log", "verify"], ["log", "export"], ["log", "compact"], ["backup"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        assert ended.value.code == 0
    assert "--before TIME" in (text := capsys.readouterr().out)
    assert "bit by bit" in text and "superarm backup --data" in text


def test_many_decisions_observed_at_once_are_exported_one_by_one(tmp_path):
    with visiting(tmp_path / "data") as visit:
        visit.create("news", TEXT)
        made = [visit.decide("news") for _ in range(2)]
        seen = [Given(decision=one.id, weights=[0.5, 1.0], importance=2.0) for one in made]
        visit.do(decisions.feedback(visit.service, "news", GiveFeedback(feedback=seen)))
    (row,) = [row for row in exported(tmp_path / "data") if row["event"] == "observed"]
    assert [one["decision"] for one in row["feedback"]] == [x.id for x in made for _ in range(2)]
    assert {one["importance"] for one in row["feedback"]} == {2.0}


def test_what_is_exported_is_utf_8_in_any_terminal(tmp_path):
    items = Items(items=["σ", "±", "é", "好"], features=TEXT.features)
    with visiting(tmp_path / "data") as visit:
        visit.create("news", items)
    done = subprocess.run(
        [sys.executable, "-m", "superarm", "log", "export", str(tmp_path / "data")],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert rows[1]["items"] == items.items

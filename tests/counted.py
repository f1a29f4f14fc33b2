"""Logs that are written by hand, and counted in plain Python."""

import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from superarm.service import commits, feedback, log
from superarm.service.dashboard import following, tallies
from superarm.service.dashboard.following import Follower
from superarm.service.events import (
    Corrected,
    Created,
    Decided,
    ItemsPut,
    ItemsRemoved,
    Matrix,
    Observed,
    decoded,
)
from superarm.service.log import Tail
from superarm.service.wire import Seen
from superarm.service.worker import Worker

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
ITEMS = ["a", "b", "c", "d"]


class Book:
    """A log with agents, to which things happen by hand; and somebody who counts.

    Args:
        database: where it is.
        agents: their names.
    """

    def __init__(self, database, agents=("one", "two")):
        self.database = database
        self.clock = START
        self.made = defaultdict(list)  # decisions by agent
        self.agents = {}
        self._writer = Worker("writer", self._commit)
        self.follower = self.another()
        for name in agents:
            put = ItemsPut(list(ITEMS), Matrix.of([[1.0]] * len(ITEMS)))
            event = Created(name=name, learner={"kind": "CombTS"}, oracle={"kind": "TopK", "k": 1})
            self.write(commits.create(event, put))
        self.agents = log.agents(database.read())

    def close(self):
        self._writer.stop()
        self.database.close()

    def another(self):
        """Who counts on from what is written, as after a kill."""
        self.follower = Follower(self.database, self._writer, dict, lambda: True)
        return self.follower

    def _commit(self, jobs):
        for job in jobs:
            with self.database.transaction() as tx:
                tail = Tail(tx, self.clock)
                job.result = job.work(tail)
                tail.finish()
        return jobs

    def write(self, work):
        return self._writer.submit(work).result()

    # --- what happens -----------------------------------------------------------------------------

    def wait(self, seconds):
        self.clock += timedelta(seconds=seconds)

    def decide(self, name, items, explored=None):
        event = Decided(
            token="x",
            items=list(items),
            features=Matrix.of([[1.0]] * len(items)),
            seed=0,
            believed=0,
            explored=explored,
        )
        found = self.write(commits.record_decision(self.agents[name], event))
        self.made[name].append(found)
        return found

    def observe(self, name, *given, correct=True):
        listed = [Seen(decision=made.id, weights=weights) for made, weights in given]
        return self.write(feedback.feedback(self.agents[name], listed, correct=correct))

    def sweep(self, name, weight):
        end = (self.clock + timedelta(days=1)).isoformat()
        while self.write(feedback.sweep(name, self.agents[name], weight, end, most=3)):
            pass

    def change_items(self, name):
        """An item goes, and comes back."""
        for event in (ItemsRemoved(["a"]), ItemsPut(["a"], Matrix.of([[1.0]]))):
            self.write(commits.change(name, self.agents[name], event, log.WHOLE))

    def remove(self, name):
        self.write(commits.remove(name, self.agents[name]))

    def forget_what_was_known(self):
        """Let the log be one of before events said what was known when they came."""
        with self.database.transaction() as tx:
            rows = tx.execute(
                "SELECT position, body FROM events WHERE kind IN ('observed', 'corrected')"
            )
            for position, body in rows:
                old = msgspec.msgpack.decode(body)
                for name, n in (("seen", 4), ("corrections", 5)):
                    if name in old:
                        old[name] = [one[:n] for one in old[name]]
                given = (msgspec.msgpack.encode(old), position)
                tx.execute("UPDATE events SET body = ? WHERE position = ?", given)

    def count(self):
        """Count everything."""
        self.follower.flush()


def counted(connection, agent, span):
    """The tallies of an agent, as they are kept."""
    found = {}
    for start, tally in tallies.between(connection, agent, span, 0, 2**40):
        kept = msgspec.structs.asdict(tally)
        del kept["scales"]
        found[start] = kept
    return found


def counted_items(connection, agent):
    """What is kept per item of an agent."""
    columns = tallies.items(connection, agent).columns
    names = ("chosen", "weights", "sums", "squares")
    rows = zip(*(columns.column(name).tolist() for name in names), strict=True)
    return dict(zip(columns.items, rows, strict=True))


def require_counted(connection):
    """What is kept is what a plain recount of the log finds."""
    end, _ = log.head(connection)
    assert tallies.counted(connection) == (end, end, 0)
    recount = Recount(connection)
    for agent in log.agents(connection).values():
        for span in tallies.SPANS:
            kept = counted(connection, agent, span)
            plain = recount.tallies(agent, span)
            assert kept.keys() == plain.keys()
            for start, tally in kept.items():
                assert tally.pop("delays") == plain[start].pop("delays")
                assert tally == pytest.approx(plain[start], abs=1e-5)  # delays of microseconds
        items = recount.items(agent)
        kept_items = counted_items(connection, agent)
        assert kept_items.keys() == items.keys()
        for item, row in kept_items.items():
            assert row == pytest.approx(items[item], abs=1e-9)


class Recount:
    """The whole log counted in the plainest way: what is known of each decision in the end."""

    def __init__(self, connection):
        self.decisions = {}
        rows = connection.execute("SELECT position, agent, time, body FROM events ORDER BY 1")
        for position, agent, time, body in rows:
            if body is not None:
                self._read(position, agent, datetime.fromisoformat(time), decoded(body))

    def _read(self, position, agent, time, event):
        if isinstance(event, Decided):
            self.decisions[position] = {
                "agent": agent,
                "time": time,
                "items": event.items,
                "explored": event.explored,
                "weights": {},
                "delay": None,
            }
        elif isinstance(event, Observed):
            for seen in event.seen:
                of = self.decisions[seen.decision]
                if not of["weights"] and not event.by_default:
                    of["delay"] = (time - of["time"]).total_seconds()
                of["weights"].update(zip(seen.places, seen.weights, strict=True))
        elif isinstance(event, Corrected):
            for one in event.corrections:
                self.decisions[one.decision]["weights"][one.place] = one.weight

    def tallies(self, agent, span):
        found = {}
        for of in self.decisions.values():
            if of["agent"] != agent:
                continue
            whole = int(of["time"].timestamp())
            start = whole - whole % span if span else 0
            tally = found.setdefault(
                start, msgspec.structs.asdict(tallies.Tally()) | {"delays": {}}
            )
            tally.pop("scales", None)
            tally["decisions"] += 1
            tally["looked_at"] += of["explored"] is not None
            tally["explored"] += bool(of["explored"])
            if of["weights"]:
                earned = sum(of["weights"].values())
                tally["answered"] += 1
                tally["weights"] += len(of["weights"])
                tally["earned"] += earned
                tally["squares"] += earned**2
            if of["delay"] is not None:
                tally["delay"] += of["delay"]
                power = math.floor(math.log2(of["delay"])) if of["delay"] > 0 else -10
                power = max(-10, power)
                tally["delays"][power] = tally["delays"].get(power, 0) + 1
        return found

    def items(self, agent):
        found = {}
        for of in self.decisions.values():
            if of["agent"] != agent:
                continue
            for place, item in enumerate(of["items"]):
                chosen, weights, total, squares = found.get(item, (0, 0, 0.0, 0.0))
                w = of["weights"].get(place)
                if w is not None:
                    weights, total, squares = weights + 1, total + w, squares + w**2
                found[item] = (chosen + 1, weights, total, squares)
        return found


def few_at_once(monkeypatch, n=3):
    """Let few events be counted at once, so that there are many transactions."""
    monkeypatch.setattr(following, "EVENTS", n)

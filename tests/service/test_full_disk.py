"""Disks that are full or fail: what cannot be written is refused, nothing is lost, and the service
goes on by itself.
"""

import asyncio
import threading

import apsw
import httpx
import msgspec
import pytest
from disks import Disk
from visitors import Said, create, faults, require_same_folds

from superarm.service import agents, keys, log
from superarm.service.engine import Service
from superarm.service.events import Removed
from superarm.service.http import application
from superarm.service.problems import Unavailable
from superarm.service.sqlite import FILE, Sqlite
from superarm.service.wire import CreateAgent


class Trouble:
    """A way to fail, that can be switched on and off.

    Args:
        kind: "pages" for a file that may not grow, "write" for a full disk, "sync" for one that
            fails when a transaction ends.
        disk: the disk.
        database: the file on it.
    """

    def __init__(self, kind, disk, database):
        self.kind = kind
        self.disk = disk
        self.writer = database._writer

    def begin(self):
        if self.kind == "pages":
            ((pages,),) = self.writer.execute("PRAGMA page_count")
            self.writer.execute(f"PRAGMA max_page_count = {pages}")
        else:
            self.disk.refuse = self._refuse

    def end(self):
        self.writer.execute("PRAGMA max_page_count = 1000000")
        self.disk.refuse = None

    def _refuse(self, what, path):
        if self.kind == "write" and what == "write":
            raise apsw.FullError("no room")
        if self.kind == "sync" and what == "sync":
            raise apsw.IOError("it cannot be written")


@pytest.mark.parametrize("kind", ["pages", "write", "sync"])
def test_a_disk_in_trouble_refuses_and_recovers(tmp_path, kind):
    disk = Disk(f"troubled {kind}")
    database = Sqlite(tmp_path / FILE, vfs=disk.name)
    key = keys.create(database, ["admin"])
    trouble = Trouble(kind, disk, database)
    service = Service(database, snapshot_every=0.01)
    said = Said()

    async def decide(client):
        return await client.post("/v1/agents/counts/decisions", json={}, timeout=60)

    async def story():
        transport = httpx.ASGITransport(application(service))
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            transport=transport, headers=headers, base_url="http://here"
        ) as client:
            wanted = create("counts") | {"default": None}  # nothing is taken for granted meanwhile
            await agents.create(service, msgspec.convert(wanted, CreateAgent))
            made = (await decide(client)).json()
            trouble.begin()
            while (answer := await decide(client)).status_code == 201:  # what room there is
                note(answer.json())
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.headers["content-type"] == "application/problem+json"
            before = log.head(database.read())
            given = {"decision": made["id"], "weights": [1, 0, 0.5]}
            # more than fits where a decision would not
            others = [{"decision": one, "weights": [1, 0, 0.5]} for one in said.decisions]
            many = {"feedback": [given, *others]}
            refused = await client.post("/v1/agents/counts/feedback", json=many)
            assert refused.status_code == 503
            assert log.head(database.read()) == before
            assert not database._writer.apsw.in_transaction
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/readyz")).status_code == 503
            assert (await client.get("/v1/agents/counts")).status_code == 200
            shown = await client.get(f"/v1/agents/counts/decisions/{made['id']}")
            assert shown.json()["weights"] == []
            trouble.end()
            assert (await client.get("/readyz")).status_code == 200
            note((await decide(client)).json())
            taken = await client.post("/v1/agents/counts/feedback", json=given)
            assert taken.json()["learned"] == 3
            for item, weight in zip(made["items"], given["weights"], strict=True):
                said.weights[made["id"], item] = weight
            note(made)
            await service.published(taken.json()["position"], "counts")
            service.learner._snapshot(everything=True)

    def note(made):
        said.decisions[made["id"]] = made["items"]

    asyncio.run(story())
    service.close()
    disk.unregister()
    database = Sqlite(tmp_path / FILE)
    assert faults(database.read(), said) == []
    require_same_folds(database.read())
    database.close()


def together(service, *works):
    """Works in one transaction: what came of each."""
    begun = threading.Event()
    go_on = threading.Event()

    def hold(tail):
        begun.set()
        go_on.wait()

    service.writer.submit(hold)
    begun.wait()
    jobs = [service.writer.submit(work) for work in works]
    go_on.set()
    return [job.exception() or job.result() for job in jobs]


def appends(tail):
    return tail.append(1, Removed())


def fails(error):
    def work(tail):
        tail.append(1, Removed())
        raise error

    return work


def test_a_work_that_finds_no_room_takes_the_others_with_it(tmp_path):
    """They are answered 503, for SQLite may have undone what they wrote."""
    service = Service(Sqlite(tmp_path / FILE))
    full = Unavailable("no room")
    assert together(service, appends, fails(full), appends) == [full] * 3
    assert log.head(service.database.read()) == (0, b"")
    assert together(service, appends, appends) == [1, 2]
    assert list(log.verify(service.database.read())) == []
    service.close()


def test_a_work_that_fails_leaves_the_others_alone(tmp_path):
    service = Service(Sqlite(tmp_path / FILE))
    error = ZeroDivisionError("a fault of ours")
    assert together(service, appends, fails(error), appends) == [1, error, 2]
    assert list(log.verify(service.database.read())) == []
    service.close()

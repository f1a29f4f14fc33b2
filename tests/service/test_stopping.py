"""SIGTERM and SIGINT under load: what was begun is answered, and a snapshot is kept."""

import asyncio
import json
import signal
import sys
import threading

import httpx
import msgspec
import pytest
from serving import Line, Lost, Server, admin_key
from visitors import AGENTS, Said, Visitor, create, faults, require_same_folds

from superarm.service import agents, decisions, learning, log, snapshots
from superarm.service.engine import Service
from superarm.service.fold import fold
from superarm.service.server import opened
from superarm.service.sqlite import FILE, Sqlite
from superarm.service.wire import CreateAgent, Decide, GiveFeedback

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of systems with signals")


class Closed(Exception):
    """There is no service any more."""


async def visit(visitor):
    try:
        while True:
            await visitor.go_on()
    except Closed:
        return


async def stopped(data, said, number):
    """Let visitors come until a signal; returns the exit code."""
    key = admin_key(data)
    server = Server(data).wait()
    first = Line(server.port, key)
    for name in AGENTS:
        assert (await first.ask("POST", "/v1/agents", create(name)))[0] == 201
    first.close()
    lines = []

    def sender():
        line = Line(server.port, key)
        lines.append(line)

        async def send(path, body, once):
            try:
                status, content = await line.ask("POST", path, body, once)
            except Lost as error:
                raise Closed from error
            return status, json.loads(content)

        return send

    visitors = [Visitor(name, i, sender(), said) for name in AGENTS for i in range(6)]
    tasks = [asyncio.create_task(visit(visitor)) for visitor in visitors]
    await asyncio.sleep(0.3)
    while len(said) <= 20:  # a machine may have other things to do
        await asyncio.sleep(0.01)
    server.signal(number)
    await asyncio.gather(*tasks)
    code = await asyncio.to_thread(server.ended)
    for line in lines:
        line.close()
    return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_when_all_are_answered(tmp_path, number):
    """So all that is in the log was acknowledged, not only the other way round."""
    data = tmp_path / "data"
    said = Said()
    assert asyncio.run(stopped(data, said, number)) == 0
    assert sorted(file.name for file in data.iterdir()) == ["lock", "superarm.db"]
    database = opened(data)
    connection = database.read()
    assert faults(connection, said) == []
    require_same_folds(connection)
    count = "SELECT count(*) FROM events WHERE kind = 'decided'"
    assert connection.execute(count) == [(len(said.decisions),)]
    assert connection.execute("SELECT count(*) FROM requests") == [(len(said.replies),)]
    assert len(said) > 20
    kept = snapshots.positions(connection)
    assert all(kept[agent] > agent + 1 for agent in log.agents(connection).values())
    database.close()


def test_a_long_fold_does_not_hold_up_the_end(tmp_path, monkeypatch):
    """What it would have learned is learned at the next start."""
    begun = threading.Event()
    go_on = threading.Event()

    def slow(*given):
        begun.set()
        go_on.wait()
        return fold(*given)

    service = Service(Sqlite(tmp_path / FILE))
    asyncio.run(agents.create(service, msgspec.convert(create("counts"), CreateAgent)))
    monkeypatch.setattr(learning, "fold", slow)
    monkeypatch.setattr(learning, "PATIENCE", 0.01)

    async def visit():
        made = await decisions.decide(service, "counts", Decide())
        given = GiveFeedback(decision=made.id, weights=[1.0, 0.0, 0.0])
        await decisions.feedback(service, "counts", given)

    asyncio.run(visit())
    begun.wait()
    service.close()
    assert service.learner._thread.is_alive()
    monkeypatch.undo()
    service = Service(Sqlite(tmp_path / FILE))
    assert service.view("counts").learned == 3
    service.close()
    go_on.set()


def test_a_server_ends_while_somebody_looks_on(tmp_path):
    """A stream of events ends at once, and so does the process."""
    data = tmp_path / "data"
    key = admin_key(data)
    server = Server(data).wait()
    seen = threading.Event()

    def look():
        address = f"http://127.0.0.1:{server.port}/v1/live"
        headers = {"authorization": f"Bearer {key}"}
        with httpx.stream("GET", address, headers=headers, timeout=60) as reply:
            for line in reply.iter_lines():
                if line == "event: overview":
                    seen.set()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        assert seen.wait(30)
        server.signal(signal.SIGTERM)
        assert server.ended(25) == 0  # uvicorn itself would wait for 30 seconds
        watcher.join(10)
        assert not watcher.is_alive()
    finally:
        server.kill()

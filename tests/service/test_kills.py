"""kill -9 at random moments under load: nothing acknowledged is lost, nothing is learned twice."""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from serving import Line, Server, admin_key
from visitors import AGENTS, Said, Visitor, belief_bits, create, faults, require_same_folds, still

from counted import require_counted
from superarm import Agent, TopK
from superarm.service import log, snapshots
from superarm.service.dashboard import tallies
from superarm.service.fold import fold
from superarm.service.server import opened

KILLS = int(os.environ.get("SUPERARM_SERVER_KILLS", "25"))
VISITORS = 4  # per agent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of systems with kill -9")


class Street:
    """The way to a service that dies now and then."""

    def __init__(self, data):
        self.data = data
        self.key = admin_key(data)
        self.open = asyncio.Event()
        self.port = None
        self.lines = []

    def line(self):
        """A way to send requests: they wait while there is no service."""
        line = Line(None, self.key)
        self.lines.append(line)

        async def send(path, body, key):
            while not self.open.is_set():
                await self.open.wait()
            if line.port != self.port:
                line.close()
                line.port = self.port
            status, content = await line.ask("POST", path, body, key)
            return status, json.loads(content)

        return send

    async def started(self):
        """A new process; None if it ended before it served."""
        server = Server(self.data, "--snapshot-every", "0.05")
        self.port = await server.opened()
        self.open.set()
        return server

    def kill(self, server):
        self.open.clear()
        server.kill()


async def visit(visitor, until):
    while not until.is_set():
        await visitor.go_on()


async def lived(data, kills, said):
    """Let visitors come to a service that is killed again and again; returns the last one."""
    rng = np.random.default_rng(11)
    street = Street(data)
    server = await street.started()
    line = Line(street.port, street.key)
    for name in AGENTS:
        assert (await line.ask("POST", "/v1/agents", create(name)))[0] == 201
    line.close()
    visitors = [Visitor(name, i, street.line(), said) for name in AGENTS for i in range(VISITORS)]
    until = asyncio.Event()
    tasks = [asyncio.create_task(visit(visitor, until)) for visitor in visitors]
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(0, 0.2))
        street.kill(server)
        while rng.random() < 0.15:  # also while it starts
            early = Server(data)
            await asyncio.sleep(rng.uniform(0, 0.1))
            early.kill()
        server = await street.started()
    await asyncio.sleep(0.2)
    until.set()
    await asyncio.gather(*tasks)
    return street, server, sum(visitor.lost for visitor in visitors)


async def believed(street, name):
    """What the running service believes, and the position up to which it has read the log."""
    line = Line(street.port, street.key)
    position = None
    while True:
        info = json.loads((await line.ask("GET", f"/v1/agents/{name}"))[1])
        if info["position"] == position:
            break
        position = info["position"]
        status, file = await line.ask("GET", f"/v1/agents/{name}/snapshot")
        assert status == 200
    line.close()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        path.write_bytes(file)
        return Agent.load(path, oracle=TopK(3)).belief, position


async def snapshots_of_all(database):
    """Wait until there are snapshots again: a correction drops those of what it changes."""
    connection = database.read()
    agents = set(log.agents(connection).values())
    while agents - snapshots.positions(connection).keys():
        await asyncio.sleep(0.05)


async def counted_by_now(database):
    """Wait until all that happened is in the tallies."""
    connection = database.read()
    while tallies.counted(connection).least < log.head(connection)[0]:
        await asyncio.sleep(0.05)


def test_kills_lose_nothing_and_teach_nothing_twice(tmp_path):
    data = tmp_path / "data"
    said = Said()
    start = time.monotonic()

    async def story():
        street, server, lost = await lived(data, KILLS, said)
        database = opened(data)
        for name, agent in log.agents(database.read()).items():
            belief, position = await believed(street, name)
            folded = fold(database.read(), agent, None, position)
            assert belief_bits(belief) == belief_bits(folded.state.belief)
        await snapshots_of_all(database)
        await counted_by_now(database)
        with still(database) as connection:
            assert faults(connection, said) == []
            require_same_folds(connection)
            require_counted(connection)
            end, _ = log.head(connection)
        street.kill(server)
        for line in street.lines:
            line.close()
        database.close()
        return lost, end

    lost, end = asyncio.run(story())
    assert lost > KILLS  # requests were under way
    print(
        f"{KILLS} kills: {len(said.decisions)} decisions, {len(said.weights)} weights and "
        f"{sum(said.corrections.values())} corrections acknowledged, {lost} requests lost on the "
        f"way, {end} events, {time.monotonic() - start:.0f} s"
    )

"""Everything that is shown, from Postgres: by the server that counts, and by one that follows."""

import asyncio
import time

import pytest

from counted import require_counted
from postgres import Cluster, programs
from superarm.service import agents, decisions, log
from superarm.service.dashboard import following, items, listing, tallies
from superarm.service.dashboard.baselines import baselines
from superarm.service.dashboard.coefficients import coefficients
from superarm.service.dashboard.constraint import constraint
from superarm.service.dashboard.history import history
from superarm.service.dashboard.opened import opened
from superarm.service.dashboard.overview import overview
from superarm.service.dashboard.ranges import range_of
from superarm.service.dashboard.shapes import WhatIf
from superarm.service.dashboard.whatif import what_if
from superarm.service.engine import Service
from superarm.service.postgres import Postgres
from superarm.service.wire import CreateAgent, Decide, GiveFeedback, Items

pytestmark = pytest.mark.skipif(programs() is None, reason="Postgres is not installed")

NEWS = CreateAgent(
    name="news",
    oracle={"kind": "TopK", "k": 2},
    items=Items(items=["a", "b", "c"], features=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
)


async def visit(service, n):
    await agents.create(service, NEWS)
    for i in range(n):
        made = await decisions.decide(service, "news", Decide(draws=20))
        given = GiveFeedback(decision=made.id, weights=[i % 2, 0.5])
        await decisions.feedback(service, "news", given)


def soon(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def is_counted(service):
    connection = service.database.read()
    return tallies.counted(connection).least == log.head(connection)[0]


def shown(service):
    """What all pages show of one agent, as far as it does not depend on the moment."""
    wanted = range_of(None, None, 3600.0)
    page = listing.listed(service, "news", None, 10)
    line = overview(service, wanted).agents[0]
    return {
        "overview": (line.decisions, line.feedback, line.earned, line.answered),
        "history": sum(history(service, "news", wanted, 10).answered),
        "items": items.items(service, "news", items.Asked(sort="item")).items,
        "coefficients": coefficients(service, "news", "", 5).coefficients,
        "constraint": constraint(service, "news").bounds,
        "page": page.decisions,
        "opened": opened(service, "news", page.decisions[0].id).came_back,
        "what if": what_if(service, "news", WhatIf()).decisions,
        "baselines": baselines(service, "news", wanted).decisions,
    }


def test_two_servers_show_the_same(monkeypatch):
    monkeypatch.setattr(following, "EVERY", 0.01)
    cluster = Cluster()
    url = cluster.database()
    services = []
    try:
        services = [Service(Postgres(url)) for _ in range(2)]
        first, second = services
        asyncio.run(visit(first, 30))
        soon(lambda: is_counted(first))
        end = log.head(first.database.read())[0]
        soon(lambda: all("news" in one.learner.views for one in services))
        soon(lambda: all(one.view("news").position >= end for one in services))
        require_counted(first.database.read())
        found = shown(first)
        assert found["overview"][:2] == (30, 60)
        assert found["history"] == 30
        assert len(found["items"]) == 3
        assert found == shown(second)
        assert first.database.size() > 100_000
    finally:
        for one in services:
            one.close()
        cluster.close()

"""How much one request may ask for, and that none is in the way of others."""

import threading
import time

import pytest

from hosted import NEWS, Hosted
from superarm.service import tables
from superarm.service.engine import Limits

LIMITS = Limits(body=20_000, bodies=30_000, items=8, features=6, chosen=3, agents=2)


@pytest.fixture
def host(tmp_path):
    with Hosted(tmp_path, LIMITS) as found:
        found.create()
        yield found
        found.require_sound()


def refused(host, method, path, body, status, field=None, **options):
    before = host.head
    reply = host.ask(method, path, body, **options)
    assert reply.status_code == status, reply.text
    assert host.head == before
    if field is not None:
        assert reply.json()["errors"][0]["pointer"] == field


def test_sizes(host):
    items = "/v1/agents/news/items"
    many = {"items": [f"i{i}" for i in range(9)], "features": [[1.0, 0.0]] * 9}
    refused(host, "PUT", items, many, 413, "/items")
    refused(host, "POST", "/v1/agents/news/decisions", b" " * 20_001, 413)
    four = {"oracle": {"kind": "TopK", "k": 4}}
    refused(host, "PATCH", "/v1/agents/news", four, 413, "/oracle")
    refused(host, "POST", "/v1/agents/news/decisions", four, 413)
    wide = {"items": ["a"], "features": [[1.0] * 7]}
    refused(host, "POST", "/v1/agents", NEWS | {"name": "b", "items": wide}, 413, "/items/features")
    context = {"names": ["u", "v", "w", "x"]}
    refused(
        host, "POST", "/v1/agents", NEWS | {"name": "b", "context": context}, 413, "/items/features"
    )
    host.create(name="b")
    refused(host, "POST", "/v1/agents", NEWS | {"name": "c"}, 413)


@pytest.mark.parametrize(
    ("oracle", "field"),
    [
        ({"kind": "GridPath", "m": 10**12}, "/oracle/m"),
        ({"kind": "SpanningTree", "edges": [[0, 10**12]]}, "/oracle/edges"),
        ({"kind": "BipartiteMatching", "edges": [[0, 0]], "n_left": 10**12}, "/oracle/n_left"),
        ({"kind": "Milp", "A": [[1.0]], "b": [1.0], "helpers": 10**12}, "/oracle/helpers"),
        ({"kind": "Milp", "A": [[1.0]], "b": [1.0], "time_limit": 60.0}, "/oracle/time_limit"),
        ({"kind": "LaminarMatroid", "L": 10**12, "sets": [], "capacities": []}, "/oracle/L"),
    ],
)
def test_numbers_that_would_fill_the_memory(host, oracle, field):
    refused(host, "POST", "/v1/agents/news/decisions", {"oracle": oracle}, 413, field)


def test_large_bodies_at_once(host):
    """Each is allowed, but not all of them together."""
    body = b" " * 15_000
    refused(host, "POST", "/v1/agents/news/decisions", body, 400)
    door = next(
        cell.cell_contents
        for cell in host.app.routes[0].endpoint.__closure__
        if type(cell.cell_contents).__name__ == "Door"
    )
    door._held = 20_000
    refused(host, "POST", "/v1/agents/news/decisions", body, 429)
    assert door._held == 20_000


def test_packed_files(host, monkeypatch):
    monkeypatch.setattr(tables, "UNPACKED", 100)
    headers = {"content-type": tables.PARQUET}
    table = tables_of_zeros()
    refused(host, "PUT", "/v1/agents/news/items", table, 413, headers=headers)


def tables_of_zeros():
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    found = io.BytesIO()
    pq.write_table(pa.table({"item": list(range(1000)), "x": [0.0] * 1000}), found)
    return found.getvalue()


def test_draws_that_take_too_long(host):
    host.decide(draws=1)
    host.service.limits = LIMITS._replace(decide_seconds=0.01)
    for path in ("decisions", "explanations"):
        refused(host, "POST", f"/v1/agents/news/{path}", {"draws": 5000}, 413, "/draws")
    host.service.limits = LIMITS
    assert host.decide(draws=100)["draws"] == 100


def test_an_evaluation_that_would_take_too_long(host, monkeypatch):
    monkeypatch.setattr("superarm.service.evaluation.seconds_of_one", lambda call: 1.0)
    body = {"learner": {"kind": "CombTS"}, "last": 301}
    refused(host, "POST", "/v1/agents/news/evaluations", body, 413, "/last")


def test_quick_decisions_do_not_wait_for_slow_ones(host, monkeypatch):
    """Those that take long wait in a line of their own, from the second on."""
    host.create(name="slow")
    host.decide()
    may_end = threading.Event()
    plain = host.service.ready

    def ready(name):
        if name == "slow":
            may_end.wait(10)
        return plain(name)

    monkeypatch.setattr(host.service, "ready", ready)
    host.service.took("slow", 0.5)
    begun = host.together(*[("POST", "/v1/agents/news/decisions", {})] * 2)
    assert {reply.status_code for reply in begun} == {201}

    async def both():
        slow = [
            host.loop.create_task(host.asking("POST", "/v1/agents/slow/decisions", {}))
            for _ in range(5)
        ]
        quick = await host.asking("POST", "/v1/agents/news/decisions", {})
        waiting = sum(not task.done() for task in slow)
        may_end.set()
        return quick.status_code, waiting, [(await task).status_code for task in slow]

    assert host.loop.run_until_complete(both()) == (201, 5, [201] * 5)


def test_slow_decisions_are_known_by_how_long_they_took(host):
    taken = []
    workers = host.service.slow_deciders
    host.service.took("news", 1.0)
    plain = workers[0].ask
    workers[0].ask = lambda work: (taken.append(time.monotonic()), plain(work))[1]
    host.decide()
    assert len(taken) == 1
    host.decide()  # the first one was quick
    assert len(taken) == 1
    host.service.took("news", 1e-3)
    host.decide(draws=50)
    assert len(taken) == 2

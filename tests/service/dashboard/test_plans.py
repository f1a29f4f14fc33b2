"""What is looked at is found by indexes: no page reads the log."""

import re

import pytest

from counted import Recount
from hosted import NEWS
from shown import counting, settle, visit
from superarm.service import sqlite
from superarm.service.dashboard import following, tallies

SMALL = ("meta", "head", "agents", "keys", "leader", "CONSTANT")
"""Tables with few rows whatever is logged."""
ASKED = (
    ("GET", "/v1/overview", None),
    ("GET", "/v1/overview?since=2020-01-01", None),
    ("GET", "/v1/agents/news/history", None),
    ("GET", "/v1/agents/news/history?since=2001-01-01", None),
    ("GET", "/v1/agents/news/baselines", None),
    ("GET", "/v1/agents/news/coefficients", None),
    ("GET", "/v1/agents/news/tallies?sort=mean", None),
    ("GET", "/v1/agents/news/constraint", None),
    ("GET", "/v1/agents/news/decisions", None),
    ("GET", "/v1/agents/news/decisions?before=40&limit=3", None),
    ("GET", "/v1/agents/news/decisions/{id}/opened", None),
    ("POST", "/v1/agents/news/whatif", {"learner": {"kind": "Greedy"}}),
    ("GET", "/v1/live", None),
    ("GET", "/v1/keys", None),
)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch, counting(folder, patch) as found:
        found.create()
        visit(found, 60, draws=20)
        found.done("PUT", "/v1/agents/news/items", NEWS["items"])
        found.done("PATCH", "/v1/agents/news", {"oracle": {"kind": "TopK", "k": 3}})
        visit(found, 20, draws=20)
        settle(found)
        yield found


def spoken(monkeypatch):
    """All that is asked of SQLite from now on."""
    found = set()
    for name in ("execute", "rows"):
        plain = getattr(sqlite._Connection, name)

        def told(self, sql, given=(), plain=plain):
            found.add(sql)
            return plain(self, sql, given)

        monkeypatch.setattr(sqlite._Connection, name, told)
    return found


def scans(connection, sql):
    """The tables of which a statement reads all rows."""
    given = (None,) * sql.count("?")
    rows = list(connection.apsw.execute(f"EXPLAIN QUERY PLAN {sql}", given))
    alias = dict(re.findall(r"(?:FROM|JOIN) (\w+) (e|f|s|c)\b", sql))
    short = {letter: table for table, letter in alias.items()}
    for *_, detail in rows:
        if detail.startswith("SCAN"):
            table = detail.split()[1]
            yield short.get(table, table)


@pytest.mark.parametrize(("method", "path", "body"), ASKED, ids=lambda x: str(x)[:60])
def test_what_is_shown_is_found_by_an_index(host, monkeypatch, method, path, body):
    made = host.done("GET", "/v1/agents/news/decisions?limit=1")["decisions"][0]
    said = spoken(monkeypatch)
    reply = host.ask(method, path.format(id=made["id"]), body)
    assert reply.is_success, reply.text
    monkeypatch.undo()
    reads = [sql for sql in said if sql.startswith("SELECT")]
    assert reads or "coefficients" in path  # what is believed is in memory
    for sql in reads:
        found = set(scans(host.database.read(), sql)) - set(SMALL)
        assert not found, (sql, found)


def test_what_counts_reads_by_indexes_too(host):
    connection = host.database.read()
    names = (following.NEXT, following.AT, following.CORRECTIONS)
    for sql in (*names, tallies.ONE, tallies.SOME, tallies.FIRST, tallies.ITEMS):
        assert set(scans(connection, sql)) == set(), sql


def test_a_scan_would_be_noticed(host):
    sql = "SELECT e.body FROM events e JOIN feedback f ON f.decision = e.position WHERE e.time = ?"
    assert set(scans(host.database.read(), sql)) & {"events", "feedback"}
    assert Recount(host.database.read()).decisions

"""Overview, history and lists of decisions against a plain recount of the log."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import stats

from counted import ITEMS, Book, Recount
from shown import counting, settle, visit
from superarm.service.dashboard.history import steps
from superarm.service.dashboard.overview import small_curve
from superarm.service.dashboard.ranges import Range, moment, range_of
from superarm.service.dashboard.spread import interval
from superarm.service.problems import Unfit
from superarm.service.sqlite import Sqlite


@pytest.fixture
def host(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as found:
        yield found


def test_nothing_yet(host):
    assert host.done("GET", "/v1/overview")["agents"] == []
    host.create()
    settle(host)
    (line,) = host.done("GET", "/v1/overview")["agents"]
    assert (line["decisions"], line["answered"], line["earned"]) == (0, None, None)
    assert set(line["curve"]) == {None}
    found = host.done("GET", "/v1/agents/news/history")
    assert sum(found["decisions"]) == 0 and set(found["earned"]) == {None}
    assert host.done("GET", "/v1/agents/news/decisions") == {"decisions": [], "before": None}


def test_an_overview(host):
    host.create()
    made = visit(host, 20)
    for _ in range(5):
        host.decide()
    host.settle()
    settle(host)
    found = host.done("GET", "/v1/overview")
    (line,) = found["agents"]
    earned = [sum(one["weights"]) for one in made]
    assert (line["name"], line["items"]) == ("news", 5)
    assert line["constraint"] == "2 of 5 items"
    assert (line["decisions"], line["feedback"]) == (25, 40)
    assert line["answered"] == pytest.approx(20 / 25)
    low, high = stats.t.interval(0.95, 19, np.mean(earned), stats.sem(earned))
    assert line["earned"] == pytest.approx(
        {"value": np.mean(earned), "low": low, "high": high, "n": 20}
    )
    assert 0 < line["delay"] < 10
    assert line["decisions_per_minute"] > 25 / 60
    assert (found["behind"], found["uncounted"]) == (0, 0)
    assert found["storage"] > 10_000
    assert found["events"] == host.head[0]


def test_a_history_is_what_a_recount_finds(tmp_path):
    book = Book(Sqlite(tmp_path / "superarm.db"))
    try:
        rng = np.random.default_rng(0)
        for i in range(200):
            made = book.decide("one", ITEMS[: 1 + i % 4])
            book.wait(float(rng.integers(1, 3000)))
            if i % 3:
                book.observe("one", (made, {made.items[0]: float(rng.normal())}))
        book.count()
        connection = book.database.read()
        agent = book.agents["one"]
        minutes = Recount(connection).tallies(agent, 60)
        start = min(minutes)
        for points in (1, 7, 100, 400):
            wanted = Range(start, max(minutes) + 60.0)
            found = steps(connection, agent, wanted, points)
            assert len(found.start) <= points + 1
            for at, tally in zip(found.start, found.tallies, strict=True):
                inside = [x for s, x in minutes.items() if at <= s < at + found.step]
                assert tally.decisions == sum(x["decisions"] for x in inside)
                assert tally.answered == sum(x["answered"] for x in inside)
                assert tally.earned == pytest.approx(sum(x["earned"] for x in inside))
                assert tally.squares == pytest.approx(sum(x["squares"] for x in inside))
            assert found.total.decisions == 200
    finally:
        book.close()


@pytest.mark.parametrize("points", [1, 40, 400])
@pytest.mark.parametrize("days", [0.001, 0.3, 3, 40, 4000])
def test_steps_are_few(points, days):
    wanted = Range(1e9, 1e9 + days * 86400)
    step = wanted.step(points)
    assert days * 86400 / step <= points
    assert step % 60 == 0


def test_scales_of_a_learner_that_chooses_them(host):
    host.create(learner={"kind": "CombMixTS"})
    visit(host, 10)
    belief = host.settle().state.belief
    settle(host)
    host.decide()
    settle(host)
    found = host.done("GET", "/v1/agents/news/history?points=1")
    for name in ("lam", "sigma", "tau"):
        known = [value for value in found["scales"][name] if value is not None]
        assert known[-1] == pytest.approx(float(getattr(belief, name)))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1769817600", 1769817600.0),
        ("1769817600.5", 1769817600.5),
        ("2026-01-31T00:00:00Z", 1769817600.0),
        ("2026-01-31", 1769817600.0),
        ("2026-01-31T01:00:00+01:00", 1769817600.0),
    ],
)
def test_times(text, seconds):
    assert moment(text, "/since") == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1e400", "١٢", "9" * 40, "0000-01-01", "nan"])
def test_times_that_are_none(host, text):
    with pytest.raises(Unfit) as error:
        range_of(text, None, 60.0)
    assert error.value.field == "/since"
    host.create()
    reply = host.ask("GET", "/v1/agents/news/history", params={"until": text})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["pointer"] == "/until"


def test_a_range_that_ends_before_it_begins(host):
    reply = host.ask("GET", "/v1/overview?since=2026-01-31&until=2026-01-30")
    assert reply.json()["errors"][0]["pointer"] == "/since"


def test_pages_of_decisions(host):
    """All of them, each once, the last ones first; those of others and erased ones are left out."""
    host.create()
    host.create(name="other")
    made = []
    for i in range(23):
        one = host.decide(user=f"user {i}")
        host.decide("other")
        if i % 2:
            host.observe(one, {one["items"][0]: float(i)})
        made.append(one)
    host.done("POST", "/v1/forget", {"user": "user 7"})
    found = []
    before = ""
    while before is not None:
        page = host.done("GET", f"/v1/agents/news/decisions?limit=5{before and '&before='}{before}")
        found += page["decisions"]
        before = page["before"]
    left = [one for i, one in enumerate(made) if i != 7]
    assert [one["id"] for one in found] == [one["id"] for one in reversed(left)]
    assert [one["items"] for one in found] == [one["items"] for one in reversed(left)]
    assert found[0]["weights"] == [None, None] and found[0]["user"]
    assert found[1]["weights"] == [21.0, None]
    assert host.ask("GET", "/v1/agents/news/decisions?before=x").status_code == 422
    assert host.ask("GET", "/v1/agents/nobody/decisions").status_code == 404


def test_intervals():
    """Student's, against SciPy; none of one value, or of values that are alike."""
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 1000):
        x = rng.normal(3, 2, n)
        found = interval(n, x.sum(), (x**2).sum())
        low, high = stats.t.interval(0.95, n - 1, x.mean(), stats.sem(x))
        assert (found.value, found.low, found.high) == pytest.approx((x.mean(), low, high))
    assert interval(0, 0.0, 0.0) is None
    assert interval(1, 3.0, 9.0).low is None
    alike = np.full(7, 0.1)
    assert interval(7, alike.sum(), (alike**2).sum()).low is None
    assert interval(3, math.inf, math.inf) is None
    assert interval(3, 1.0, math.nan).high is None


def test_intervals_of_shares():
    """Wilson's, against SciPy; of zeros alone where nothing else can come."""
    for n, ones in ((2, 1), (3, 2), (10, 1), (1000, 3), (100_000, 99_999)):
        found = interval(n, float(ones), float(ones))
        expected = stats.binomtest(ones, n).proportion_ci(0.95, method="wilson")
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
        assert 0 <= found.low < found.value < found.high <= 1
    for ones in (0, 20):
        assert interval(20, float(ones), float(ones)).low is None
        found = interval(20, float(ones), float(ones), binary=True)
        expected = stats.binomtest(ones, 20).proportion_ci(0.95, method="wilson")
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert interval(2, 1.5, 1.25, binary=True).high > 1  # it was not so after all


def test_a_small_curve_ends_with_the_last_full_step(tmp_path):
    """The step that goes on is left out, unless it is the only one with feedback."""
    book = Book(Sqlite(tmp_path / "superarm.db"))
    start = book.clock.timestamp()
    curves = []
    try:
        for i in range(3):
            made = book.decide("one", ITEMS[:2])
            book.observe("one", (made, {made.items[0]: float(i)}))
            book.wait(60)
            book.count()
            for seconds in (60 * i + 30.0, 60 * i + 60.0):
                wanted = Range(start, start + seconds)
                found = steps(book.database.read(), book.agents["one"], wanted, 60)
                curves.append(small_curve(found, wanted.until))
    finally:
        book.close()
    assert curves == [[0.0], [0.0], [0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0, 2.0]]


def test_the_interval_covers():
    """Of 4,000 samples of 5 normal values, 95 % hold the mean, with a standard error of 0.34 %."""
    x = np.random.default_rng(1).normal(1.0, 3.0, (4000, 5))
    inside = 0
    for row in x:
        found = interval(5, row.sum(), (row**2).sum())
        inside += found.low <= 1.0 <= found.high
    assert abs(inside / 4000 - 0.95) < 3 * 0.0034


def test_how_old_what_is_not_learned_is(host, monkeypatch):
    host.create()
    host.decide()
    before = host.service.learner.position
    monkeypatch.setattr(host.service.learner, "catch_up", lambda: None)
    host.decide()
    found = host.done("GET", "/v1/overview")
    assert found["behind"] == host.head[0] - before > 0
    assert 0 <= found["behind_seconds"] < 60
    assert datetime.fromisoformat(found["time"]).tzinfo == UTC

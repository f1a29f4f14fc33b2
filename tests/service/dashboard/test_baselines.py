"""What a random choice and the first day's policy would have earned."""

from datetime import timedelta

import numpy as np
import pytest

from shown import counting, settle, visit
from superarm.agent import decisions as clock
from superarm.service import log, snapshots
from superarm.service.dashboard import first_day
from superarm.service.dashboard.counting import seconds_of
from superarm.service.dashboard.sampling import position_at
from superarm.service.fold import fold

TRUTH = dict(zip("abcde", [0.9, 0.1, 0.6, 0.3, 0.2], strict=True))
APART = {"items": list("abcde"), "features": np.eye(5).tolist()}
ASK = "/v1/agents/news/baselines"


@pytest.fixture
def host(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def travel(monkeypatch):
    """Let time pass."""
    plain = clock.now
    passed = [timedelta()]
    for place in (
        "superarm.service.engine.now",
        "superarm.service.learning.now",
        "superarm.service.dashboard.baselines.now",
        "superarm.service.dashboard.ranges.now",
    ):
        monkeypatch.setattr(place, lambda: plain() + passed[0])

    def pass_by(**by):
        passed[0] += timedelta(**by)

    return pass_by


def click(host, n, draws=0, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        made = host.decide(draws=draws)
        host.observe(made, [float(rng.random() < TRUTH[item]) for item in made["items"]])


def is_near(interval, truth):
    """True if the truth lies within twice an interval of 95 %, that is 3.9 standard errors, as the
    seeds of a service's decisions differ from run to run."""
    above = 2 * (interval["high"] - interval["value"])
    below = 2 * (interval["value"] - interval["low"])
    return interval["value"] - below <= truth <= interval["value"] + above


def test_nothing_yet(host):
    host.create()
    settle(host)
    found = host.done("GET", ASK)
    assert set(found["random"]) == {None} and set(found["earned"]) == {None}
    assert found["first_day_until"] is None and found["decisions"] == 0


def test_by_the_model(host):
    """The truth of a random choice is within its interval; learning earns more."""
    host.create(items=APART, learner={"kind": "CombLinTS", "lam": 1.0, "sigma": 0.5})
    click(host, 200)
    host.settle()
    settle(host)
    found = host.done("GET", ASK)
    (earned,) = [one for one in found["earned"] if one is not None][-1:]
    (random,) = [one for one in found["random"] if one is not None][-1:]
    assert found["by"] == "model"
    assert any("model" in words for words in found["words"])
    assert is_near(random, 2 * np.mean(list(TRUTH.values())))
    assert earned["value"] > random["high"]
    assert len(found["time"]) <= 12


def test_by_propensities(host):
    """Of a policy that chooses at random itself, doubly robust estimates are possible."""
    host.create(items=APART, learner={"kind": "RandomChoice"})
    click(host, 150, draws=50)
    host.settle()
    settle(host)
    found = host.done("GET", ASK)
    assert found["by"] == "propensities"
    (random,) = [one for one in found["random"] if one is not None][-1:]
    assert is_near(random, 2 * np.mean(list(TRUTH.values())))
    assert any("even if the model is wrong" in words for words in found["words"])


def test_a_young_log_is_compared_with_its_first_tenth(host):
    host.create(items=APART)
    click(host, 100)
    host.settle()
    settle(host)
    folded, state = host.service.ready("news")
    moment = clock.now().timestamp()
    found = first_day.policy(host.service, folded, state, moment)
    connection = host.database.read()
    ninth = connection.execute(
        "SELECT position FROM events WHERE kind = 'decided' ORDER BY position"
    )[8][0]
    then = fold(connection, folded.created_at, None, ninth)
    assert "8 decisions" in found.words
    assert all(np.array_equal(a, b) for a, b in zip(found.belief, then.state.belief, strict=True))
    shown = host.done("GET", ASK)
    assert shown["first_day_until"] == found.time


def test_few_decisions_have_no_first_tenth(host):
    host.create()
    visit(host, 5)
    host.settle()
    settle(host)
    found = host.done("GET", ASK)
    assert set(found["first_day"]) == {None}
    assert any("too few" in words for words in found["words"])


def test_the_snapshot_of_the_first_day(host, travel):
    """After more than a day, it is the last one that was kept within 24 hours."""
    host.create(items=APART)
    click(host, 20)
    early = host.settle()
    host.service.writer.submit(snapshots.prepared(early.created_at, early, early.position)).result()
    travel(hours=30)
    click(host, 30, seed=1)
    late = host.settle()
    settle(host)
    found = first_day.policy(host.service, late, late.state, clock.now().timestamp() + 30 * 3600)
    assert all(np.array_equal(a, b) for a, b in zip(found.belief, early.state.belief, strict=True))
    shown = host.done("GET", f"{ASK}?since={seconds_of(early.began) - 60}")
    assert [one for one in shown["first_day"] if one is not None]
    assert any("first day" in words for words in shown["words"])


def test_without_a_snapshot_the_first_day_is_folded(host, travel):
    host.create(items=APART)
    click(host, 20)
    end = host.head[0]
    travel(hours=30)
    click(host, 5)
    late = host.settle()
    connection = host.database.read()
    with host.database.transaction() as tx:
        tx.execute("DELETE FROM snapshots")
    then = fold(connection, late.created_at, None, end)
    found = first_day.policy(host.service, late, late.state, clock.now().timestamp() + 30 * 3600)
    assert all(np.array_equal(a, b) for a, b in zip(found.belief, then.state.belief, strict=True))


def test_other_items_since_then(host):
    """What was believed is of the items of now: new ones begin as they do."""
    host.create(items=APART, learner={"kind": "CombTS"})
    click(host, 60)
    host.done("DELETE", "/v1/agents/news/items", {"items": ["b"]})
    host.done("PUT", "/v1/agents/news/items", {"items": ["z"], "features": [[0, 0, 0, 0, 1]]})
    host.settle()
    settle(host)
    folded, state = host.service.ready("news")
    found = first_day.policy(host.service, folded, state, clock.now().timestamp())
    ids = state.catalogue.ids.tolist()
    assert len(found.belief.alpha) == 5
    assert found.belief.alpha[ids.index("z")] == 1.0
    shown = host.done("GET", ASK)
    assert shown["random"][-1] is not None


@pytest.mark.parametrize(
    ("learner", "oracle"),
    [
        ({"kind": "CombUCB1"}, {"kind": "TopK", "k": 2}),
        ({"kind": "CombLinTS", "link": "logit"}, {"kind": "TopK", "k": 2, "at_most": True}),
        ({"kind": "CombMixTS"}, {"kind": "Knapsack", "costs": [1, 2, 1, 2, 1], "budget": 3}),
    ],
    ids=lambda spec: spec["kind"],
)
def test_other_learners_and_constraints(host, learner, oracle):
    host.create(items=APART, learner=learner, oracle=oracle)
    for i in range(30):
        made = host.decide(**({"available": ["a", "b", "c"]} if i % 3 else {}))
        host.observe(made, [TRUTH[item] for item in made["items"]])
    host.settle()
    settle(host)
    found = host.done("GET", ASK)
    known = [one for one in found["random"] if one is not None]
    assert bool(known) == (learner["kind"] != "CombUCB1")


def test_positions_by_time(host):
    host.create()
    visit(host, 30)
    connection = host.database.read()
    rows = connection.execute("SELECT position, time FROM events ORDER BY position")
    end = log.head(connection)[0]
    assert position_at(connection, 0.0) == 1
    assert position_at(connection, 4e9) == end + 1
    for position, time in rows[::7]:
        first = min(p for p, t in rows if t >= time)
        assert position_at(connection, seconds_of(time)) in (first, position)
        assert position_at(connection, seconds_of(time) + 1e-4) > position

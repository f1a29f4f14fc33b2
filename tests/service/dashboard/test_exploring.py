"""Whether decisions explore, against the best items by the mean, found by hand."""

import numpy as np
import pytest

from hosted import ROWS, Hosted
from superarm import gaussian
from superarm.service.dashboard import exploring
from superarm.service.events import decoded

LEARNERS = [
    {"kind": "CombLinTS", "lam": 1.0, "sigma": 0.5},
    {"kind": "CombLinTS", "link": "logit"},
    {"kind": "CombMixTS"},
    {"kind": "CombTS"},
    {"kind": "CombGaussianTS", "lam": 1.0, "sigma": 1.0},
    {"kind": "CombUCB1"},
    {"kind": "RandomChoice"},
]


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(exploring, "APART", 0.0)
    with Hosted(tmp_path) as found:
        yield found


def events(host):
    rows = host.database.read().execute("SELECT body FROM events WHERE kind = 'decided'")
    return [decoded(body) for (body,) in rows]


def test_the_greedy_choice_differs_or_not(host):
    """By a linear belief, with fewer items, in every decision."""
    host.create()
    for i in range(60):
        available = [item for item in "abcde" if (i + ord(item)) % 4]
        theta = gaussian.mean(host.settle().state.belief)
        made = host.decide(available=available)
        scores = {item: row @ theta for item, row in zip("abcde", np.array(ROWS), strict=True)}
        best = sorted(available, key=lambda item: (-scores[item], item))[:2]
        event = events(host)[-1]
        assert event.explored == (set(best) != set(made["items"]))
        host.observe(made, dict.fromkeys(made["items"], float(i % 3)))
    kept = {event.explored for event in events(host)}
    assert kept == {True, False}


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: str(learner["kind"]))
def test_all_learners_can_be_looked_at(host, learner):
    host.create(learner=learner)
    for _ in range(5):
        made = host.decide()
        host.observe(made, dict.fromkeys(made["items"], 0.5))
        host.settle()
    assert all(event.explored is not None for event in events(host))


def test_who_never_explores(host):
    host.create(learner={"kind": "Greedy", "lam": 1.0, "sigma": 1.0})
    host.observe(host.decide(), [1.0, 0.5])
    host.settle()
    for _ in range(5):
        host.decide()
    assert [event.explored for event in events(host)[1:]] == [False] * 5


def test_few_are_looked_at(host, monkeypatch):
    """After a look, nobody looks for a while; decisions are the same."""
    monkeypatch.setattr(exploring, "APART", 1e9)
    host.create()
    for _ in range(5):
        host.decide()
    found = [event.explored for event in events(host)]
    assert found[0] is not None
    assert found[1:] == [None] * 4


def test_one_of_many_that_are_decided_together(host):
    host.create()
    host.together(*[("POST", "/v1/agents/news/decisions", {}) for _ in range(40)])
    found = [event.explored for event in events(host)]
    assert len(found) == 40
    assert any(one is not None for one in found)

"""A decision with its reasons, against what was sent and what is believed."""

import numpy as np
import pytest

from hosted import ROWS
from shown import counting, visit
from superarm import gaussian
from superarm.service.dashboard import opened


@pytest.fixture
def host(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as found:
        yield found


def look(host, made):
    return host.done("GET", f"/v1/agents/news/decisions/{made['id']}/opened")


def test_what_was_chosen_and_why(host):
    host.create()
    visit(host, 10)
    made = host.decide(available=["a", "c", "d", "e"])
    folded = host.settle()
    found = look(host, made)
    theta = gaussian.mean(folded.state.belief)
    assert (found["items"], found["candidates"]) == (made["items"], 4)
    assert found["constraint"] == "2 of 4 items"
    assert found["believed"] == made["believed"]
    assert found["explained"] == folded.position
    assert (found["context"], found["earned"]) == (None, None)
    assert [one["item"] for one in found["reasons"]] == made["items"]
    for one in found["reasons"]:
        row = np.array(ROWS["abcde".index(one["item"])])
        assert one["score"] == pytest.approx(row @ theta)
        parts = {"[0]": row[0] * theta[0], "[1]": row[1] * theta[1]}
        assert one["contributions"] == pytest.approx(parts)
    others = {one["item"] for one in found["runners_up"]}
    assert others == {"a", "c", "d", "e"} - set(made["items"])
    chances = [one["chosen"] for one in found["runners_up"]]
    assert chances == sorted(chances, reverse=True)


def test_runners_up_are_chosen_as_often_as_they_say(host):
    """All probabilities add up to the number of items that are chosen."""
    host.create()
    visit(host, 10)
    found = look(host, host.decide())
    chosen = [one["chosen"] for one in found["reasons"] + found["runners_up"]]
    assert sum(chosen) == pytest.approx(2.0)


def test_what_came_back(host):
    host.create()
    made = host.decide(user="ada")
    first, second = made["items"]
    nothing = look(host, made)["came_back"]
    assert [one["weight"] for one in nothing] == [None, None]
    host.observe(made, {first: 1.0})
    (one, other) = look(host, made)["came_back"]
    assert (one["weight"], one["corrected"], one["by_default"]) == (1.0, False, False)
    assert one["delay"] > 0 and one["time"] > made["time"]
    assert other["weight"] is None
    host.observe(made, {first: 3.0, second: 0.5}, correct=True)
    found = look(host, made)
    (one, other) = found["came_back"]
    assert (one["weight"], one["corrected"]) == (3.0, True)
    assert (other["weight"], other["corrected"]) == (0.5, False)
    assert found["earned"] == 3.5


def test_in_a_context(host):
    host.create(context={"names": ["young", "old"]})
    visit(host, 5, context={"young": 1.0, "old": 0.5})
    made = host.decide(context={"young": 1.0, "old": 0.5})
    found = look(host, made)
    assert found["context"] == {"young": 1.0, "old": 0.5}
    assert set(found["reasons"][0]["contributions"]) == {
        "young·[0]",
        "young·[1]",
        "old·[0]",
        "old·[1]",
    }


@pytest.mark.parametrize("kind", ["CombTS", "CombUCB1", "RandomChoice", "CombMixTS"])
def test_other_learners(host, kind):
    host.create(learner={"kind": kind})
    visit(host, 5)
    found = look(host, host.decide())
    assert len(found["reasons"]) == 2 and found["runners_up"]
    assert all(0 <= one["chosen"] <= 1 for one in found["reasons"])


def test_items_that_are_gone_have_no_reasons(host):
    host.create()
    made = host.decide()
    gone, stays = made["items"]
    host.done("DELETE", "/v1/agents/news/items", {"items": [gone]})
    found = look(host, made)
    assert found["items"] == [gone, stays]
    assert [one["item"] for one in found["reasons"]] == [stays]


def test_a_decision_that_could_not_be_made_now(host):
    """It is shown without reasons."""
    host.create()
    made = host.decide(available=["a", "b"])
    host.done("DELETE", "/v1/agents/news/items", {"items": ["a"]})
    found = look(host, made)
    assert found["items"] == made["items"]
    assert found["reasons"] == [] and found["runners_up"] == []


def test_costs_are_better_the_lower(host, monkeypatch):
    """Of items that are equally likely, the runner-up is the cheaper one."""
    monkeypatch.setattr(opened, "DRAWS", 1)
    host.create(
        learner={"kind": "Greedy", "lam": 10.0, "sigma": 0.1},
        oracle={"kind": "TopK", "k": 1, "minimize": True},
        items={"items": list("abcd"), "features": np.eye(4).tolist()},
    )
    for item, cost in zip("abcd", [4.0, 1.0, 3.0, 2.0], strict=True):
        made = host.decide(available=[item])
        host.observe(made, [cost])
    host.settle()
    found = look(host, host.decide())
    assert found["items"] == ["b"]
    assert [one["item"] for one in found["runners_up"]] == ["d", "c", "a"]
    assert found["constraint"] == "1 of 4 items, at the least cost"


def test_decisions_that_are_not_there(host):
    host.create()
    made = host.decide(user="ada")
    for key in ("1-x", "x", "999999-x", made["id"] + "x"):
        assert host.ask("GET", f"/v1/agents/news/decisions/{key}/opened").status_code == 404
    host.done("POST", "/v1/forget", {"user": "ada"})
    assert host.ask("GET", f"/v1/agents/news/decisions/{made['id']}/opened").status_code == 404

"""Items and coefficients as they are shown, against what was sent."""

import numpy as np
import pytest
from scipy import stats

from hosted import ROWS
from shown import counting, settle, visit
from superarm import gaussian


@pytest.fixture
def host(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as found:
        yield found


def ask(host, **query):
    return host.done("GET", "/v1/agents/news/tallies", params=query)


def test_items_with_what_came_back(host):
    host.create()
    made = visit(host, 30)
    made.append(host.decide() | {"weights": []})
    settle(host)
    host.settle()
    found = ask(host)
    assert (found["found"], found["total"]) == (5, 5)
    theta = gaussian.mean(host.service.view("news").state.belief)
    for line in found["items"]:
        chosen = [one for one in made if line["item"] in one["items"]]
        weights = [
            w
            for one in chosen
            for item, w in zip(one["items"], one["weights"], strict=False)
            if item == line["item"]
        ]
        predicted = float(np.array(ROWS["abcde".index(line["item"])]) @ theta)
        assert line["chosen"] == len(chosen)
        assert line["weights"] == len(weights)
        assert line["predicted"] == pytest.approx(predicted)
        if weights:
            assert line["mean"] == pytest.approx(np.mean(weights))
            assert line["deviation"] == pytest.approx(np.mean(weights) - predicted)


def test_shares_of_clicks_stay_between_0_and_1(host):
    """Items that were never clicked, or always, have an interval too, once both were seen."""
    host.create()
    clicks = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 0.0}
    for _ in range(12):
        made = host.decide()
        host.observe(made, [clicks[item] for item in made["items"]])
    settle(host)
    shown = [line for line in ask(host)["items"] if line["weights"]]
    assert {line["mean"] for line in shown} == {0.0, 1.0}
    for line in shown:
        clicked = int(line["mean"] * line["weights"])
        expected = stats.binomtest(clicked, line["weights"]).proportion_ci(0.95, "wilson")
        assert (line["low"], line["high"]) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["chosen", "mean", "deviation", "predicted", "item"])
def test_sorted_in_pages(host, sort, order):
    """Pages put together are all items in their order; those without a value come last."""
    ids = [f"item {i:02}" for i in np.random.default_rng(0).permutation(37)]
    rows = np.random.default_rng(1).normal(size=(37, 2)).tolist()
    host.create(items={"items": ids, "features": rows})
    for i in range(40):
        made = host.decide()
        if i % 2:
            host.observe(made, [float(i % 5), float(i % 7)])
    settle(host)
    host.settle()
    found = []
    for start in range(0, 40, 10):
        found += ask(host, sort=sort, order=order, start=start, limit=10)["items"]
    assert sorted(line["item"] for line in found) == sorted(ids)
    values = [line[sort] for line in found]
    known = [value for value in values if value is not None]
    assert values == sorted(known, reverse=order == "desc") + [None] * (37 - len(known))


def test_searched(host):
    ids = ["Apple pie", "apple tart", "PINEAPPLE", "plum", "<script>alert(1)</script>", "\u202eabc"]
    host.create(items={"items": ids, "features": [[1.0]] * 6})
    settle(host)
    assert {line["item"] for line in ask(host, search="aPPle")["items"]} == set(ids[:3])
    assert [line["item"] for line in ask(host, search="<script>")["items"]] == [ids[4]]
    assert ask(host, search="\u202e")["found"] == 1
    assert ask(host, search="nothing like it") == {"items": [], "found": 0, "total": 6}


def test_items_that_go_and_come_back_keep_their_counts(host):
    host.create()
    visit(host, 20)
    settle(host)
    before = {line["item"]: line for line in ask(host)["items"]}
    host.done("DELETE", "/v1/agents/news/items", {"items": ["a", "c"]})
    settle(host)
    left = {line["item"]: line["chosen"] for line in ask(host)["items"]}
    assert left == {item: before[item]["chosen"] for item in "bde"}
    host.done("PUT", "/v1/agents/news/items", {"items": ["c"], "features": [[1.0, 1.0]]})
    settle(host)
    again = {line["item"]: line["chosen"] for line in ask(host)["items"]}
    assert again == left | {"c": before["c"]["chosen"]}


def test_numbers_as_ids(host):
    host.create(items={"items": [10, 9, 100], "features": [[1.0], [2.0], [3.0]]})
    host.observe(host.decide(), [1.0, 0.0])
    settle(host)
    assert [line["item"] for line in ask(host, sort="item", order="asc")["items"]] == [9, 10, 100]
    assert [line["item"] for line in ask(host, search="10", sort="item")["items"]] == [100, 10]


def test_in_a_context_nothing_is_predicted(host):
    host.create(context={"names": ["young", "old"]})
    visit(host, 5, context={"young": 1.0, "old": 0.0})
    settle(host)
    found = ask(host)["items"]
    assert {line["predicted"] for line in found} == {None}
    assert sum(line["chosen"] for line in found) == 10
    named = host.done("GET", "/v1/agents/news/coefficients")
    assert {one["name"] for one in named["coefficients"]} == {
        "young·[0]",
        "young·[1]",
        "old·[0]",
        "old·[1]",
    }


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "CombMixTS"},
        {"kind": "CombMixTS", "link": "logit"},
        {"kind": "CombTS"},
        {"kind": "CombUCB1"},
    ],
    ids=str,
)
def test_other_learners(host, learner):
    host.create(learner=learner)
    visit(host, 20)
    settle(host)
    host.settle()
    for line in ask(host)["items"]:
        uses_features = "Mix" in learner["kind"]
        assert line["predicted"] is not None
        assert (line["deviation"] is not None) == (uses_features and line["weights"] > 0)
        if "link" in learner or learner["kind"] == "CombTS":
            assert 0 <= line["predicted"] <= 1
    found = host.done("GET", "/v1/agents/news/coefficients")
    assert found["total"] == (2 if uses_features else 0)


def test_bad_queries(host):
    host.create()
    for query in ({"sort": "x"}, {"order": "up"}, {"start": "-1"}, {"search": "a\0"}):
        reply = host.ask("GET", "/v1/agents/news/tallies", params=query)
        assert reply.status_code == 422
    assert host.ask("GET", "/v1/agents/nobody/tallies").status_code == 404
    host.done("POST", "/v1/agents", {"name": "empty", "oracle": {"kind": "TopK", "k": 1}})
    for what in ("tallies", "coefficients", "baselines"):
        assert host.ask("GET", f"/v1/agents/empty/{what}").status_code == 422


def test_coefficients_with_their_errors(host):
    """Those of the belief, the clearest first, and some of them by name."""
    items = {
        "items": list("abcdef"),
        "features": np.random.default_rng(0).normal(size=(6, 3)).tolist(),
        "names": ["warm", "cold", "Warmth of colour"],
    }
    host.create(items=items)
    visit(host, 25)
    belief = host.settle().state.belief
    found = host.done("GET", "/v1/agents/news/coefficients")
    R = belief.factor[:3, :3]
    covariance = np.linalg.inv(R.T @ R)
    clear = []
    for one in found["coefficients"]:
        j = items["names"].index(one["name"])
        assert one["mean"] == pytest.approx(gaussian.mean(belief)[j])
        assert one["std"] == pytest.approx(covariance[j, j] ** 0.5)
        clear.append(abs(one["mean"]) / one["std"])
    assert clear == sorted(clear, reverse=True)
    some = host.done("GET", "/v1/agents/news/coefficients?search=WARM&limit=1")
    assert some["total"] == 2 and len(some["coefficients"]) == 1

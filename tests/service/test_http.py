"""What each address takes and answers."""

import io
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hosted import ITEMS, NEWS, ROWS, Hosted, require_same
from superarm.service import fold, learning, log, metrics, tables


@pytest.fixture
def host(tmp_path):
    with Hosted(tmp_path) as found:
        yield found
        found.require_sound()


def without_items():
    return {name: value for name, value in NEWS.items() if name != "items"}


# --- agents and items -----------------------------------------------------------------------------


def test_an_agent_from_its_creation_to_its_end(host):
    made = host.create()
    assert (made["name"], made["items"], made["features"], made["learned"]) == ("news", 5, 2, 0)
    assert host.done("GET", "/v1/agents") == {"agents": [made]}
    assert host.done("GET", "/v1/agents/news") == made
    assert host.ask("POST", "/v1/agents", NEWS).status_code == 409
    changed = host.done("PATCH", "/v1/agents/news", {"oracle": {"kind": "TopK", "k": 3}})
    assert changed["oracle"]["k"] == 3
    assert len(host.decide()["items"]) == 3
    assert host.ask("DELETE", "/v1/agents/news").status_code == 204
    assert host.ask("GET", "/v1/agents/news").status_code == 404
    assert host.done("GET", "/v1/agents") == {"agents": []}
    assert host.create()["position"] > changed["position"]


def test_items_come_go_and_change(host):
    host.done("POST", "/v1/agents", without_items())
    assert host.ask("POST", "/v1/agents/news/decisions", {}).status_code == 422
    taken = host.done("PUT", "/v1/agents/news/items", ITEMS)
    assert (taken["added"], taken["updated"], taken["items"]) == (5, 0, 5)
    more = {"items": ["e", "f"], "features": [[0.25, 0.75], [1.0, 2.0]]}
    taken = host.done("PUT", "/v1/agents/news/items", more)
    assert (taken["added"], taken["updated"], taken["items"]) == (1, 1, 6)
    gone = host.done("DELETE", "/v1/agents/news/items", {"items": ["a", "b"]})
    assert (gone["removed"], gone["items"]) == (2, 4)
    listed = host.done("GET", "/v1/agents/news/items?start=1&limit=2")
    assert listed["items"] == ["d", "e"]
    assert listed["features"] == [[0.5, 0.0], [0.25, 0.75]]
    assert (listed["total"], listed["next"]) == (4, 3)
    assert host.ask("DELETE", "/v1/agents/news/items", {"items": ["a"]}).status_code == 422
    everything = {"items": ["c", "d", "e", "f"]}
    assert host.ask("DELETE", "/v1/agents/news/items", everything).status_code == 422


def files(ids):
    """The same items in all the forms that are read."""
    columns = {"item": ids, "x": [row[0] for row in ROWS], "y": [row[1] for row in ROWS]}
    table = pa.table(columns)
    parquet = io.BytesIO()
    pq.write_table(table, parquet)
    arrow = io.BytesIO()
    with pa.ipc.new_stream(arrow, table.schema) as stream:
        stream.write_table(table)
    lines = ["item,x,y", *(f"{item},{x},{y}" for item, (x, y) in zip(ids, ROWS, strict=True))]
    body = json.dumps({"items": ids, "features": ROWS, "names": ["x", "y"]})
    return {
        "application/json": body.encode(),
        tables.CSV: "\n".join(lines).encode(),
        tables.PARQUET: parquet.getvalue(),
        tables.ARROW: arrow.getvalue(),
    }


@pytest.mark.parametrize("ids", [list("abcde"), [7, -1, 3, 10, 5]])
def test_all_forms_of_items_mean_the_same(host, ids):
    found = []
    for i, (media, body) in enumerate(files(ids).items()):
        host.done("POST", "/v1/agents", without_items() | {"name": f"a{i}"})
        path = f"/v1/agents/a{i}/items"
        host.done("PUT", path, body, headers={"content-type": media})
        found.append(host.done("GET", path))
    assert found[0]["items"] == ids
    assert found[0]["names"] == ["x", "y"]
    assert all(one == found[0] for one in found)


def test_columns_go_by_their_names(host):
    host.create(items=ITEMS | {"names": ["x", "y"]})
    body = b"y,item,x\n8,z,9\n"
    host.done("PUT", "/v1/agents/news/items", body, headers={"content-type": "text/csv"})
    assert host.done("GET", "/v1/agents/news/items?start=5")["features"] == [[9.0, 8.0]]
    other = {"items": ["q"], "features": [[1.0, 2.0]], "names": ["x", "z"]}
    reply = host.ask("PUT", "/v1/agents/news/items", other)
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["pointer"] == "/names"


def test_ids_that_are_numbers(host):
    oracle = {"kind": "Quota", "groups": {"1": "f", "2": "m", "3": "f"}, "counts": {"f": 1, "m": 1}}
    host.create(items={"items": [1, 2, 3], "features": ROWS[:3]}, oracle=oracle)
    made = host.decide(available=[1, 2])
    assert sorted(made["items"]) == [1, 2]
    taken = host.observe(made, {"2": 1.0, "1": 0.0})
    assert taken["learned"] == 2
    assert host.ask("POST", "/v1/agents/news/decisions", {"available": ["1"]}).status_code == 422


@pytest.mark.parametrize(("kind", "d"), [("outer", 4), ("concatenated", 4)])
def test_contexts_by_name_and_in_order(host, kind, d):
    context = {"kind": kind, "names": ["young", "evening"]}
    made = host.create(context=context)
    assert made["features"] == d
    one = host.decide(context={"evening": 2.0, "young": 1.0})
    other = host.decide(context=[1.0, 2.0])
    shown = [
        host.done("GET", f"/v1/agents/news/decisions/{found['id']}")["context"]
        for found in (one, other)
    ]
    assert shown == [[1.0, 2.0], [1.0, 2.0]]
    host.observe(one, [1.0, 0.0])
    assert host.settle().learned == 2
    for wrong in (None, [1.0], {"young": 1.0}, {"young": 1.0, "late": 2.0}):
        reply = host.ask("POST", "/v1/agents/news/decisions", {"context": wrong})
        assert reply.status_code == 422
        assert reply.json()["errors"][0]["pointer"] == "/context"


# --- decisions ------------------------------------------------------------------------------------


def test_decisions(host):
    host.create()
    assert set(host.decide(available=["d", "e"])["items"]) == {"d", "e"}
    assert len(host.decide(oracle={"kind": "TopK", "k": 4})["items"]) == 4
    made = host.decide(draws=200, user="u1")
    assert len(made["propensity"]) == 2
    assert all(0 < p <= 1 for p in made["propensity"])
    shown = host.done("GET", f"/v1/agents/news/decisions/{made['id']}")
    assert shown["user"] == "u1"
    assert shown["features"] == [ROWS["abcde".index(item)] for item in made["items"]]
    assert shown["weights"] == []


def test_the_same_key_decides_once(host):
    host.create()
    key = {"idempotency-key": "page 1"}
    path = "/v1/agents/news/decisions"
    together = host.together(*[("POST", path, {"user": "u"}, key)] * 8)
    assert {reply.status_code for reply in together} == {201}
    assert len({reply.text for reply in together}) == 1
    assert host.ask("POST", path, {"user": "u"}, headers=key).text == together[0].text
    assert host.ask("POST", path, {"user": "v"}, headers=key).status_code == 422
    position, _ = host.head
    assert position == 3
    given = {"decision": together[0].json()["id"], "weights": [1.0, 0.0]}
    answers = host.together(*[("POST", "/v1/agents/news/feedback", given, key)] * 4)
    assert [reply.json()["learned"] for reply in answers] == [2] * 4


# --- feedback -------------------------------------------------------------------------------------


def test_feedback_comes_in_parts_and_counts_once(host):
    host.create()
    made = host.decide()
    first, second = made["items"]
    assert host.observe(made, {first: 1.0})["learned"] == 1
    for _ in range(3):
        assert host.observe(made, {first: 1.0})["repeated"] == 1
    taken = host.observe(made, [1.0, 0.5])
    assert (taken["learned"], taken["repeated"]) == (1, 1)
    reply = host.ask(
        "POST", "/v1/agents/news/feedback", {"decision": made["id"], "weights": {second: 0.0}}
    )
    assert reply.status_code == 409
    assert reply.json()["errors"][0]["pointer"] == "/weights"
    assert host.settle().learned == 2
    shown = host.done("GET", f"/v1/agents/news/decisions/{made['id']}")["weights"]
    assert [(one["item"], one["weight"]) for one in shown] == [(first, 1.0), (second, 0.5)]


def play(host, name, given):
    """Give feedback on decisions whose items and features do not depend on what is believed."""
    found = []
    for weights, more in given:
        made = host.decide(name, available=["a", "b"])
        assert sorted(made["items"]) == ["a", "b"]
        found.append(made)
        if weights is not None:
            host.observe(made, weights, name, **more)
    return found


def test_a_correction_unlearns_exactly(host):
    """What is believed in the end is, bit by bit, what one believes who never heard the wrong
    values."""
    wrong = [({"a": 5.0, "b": 1.0}, {}), ({"a": 2.0}, {"importance": 3.0}), ({"b": 1.0}, {})]
    right = [({"a": 0.5, "b": 1.0}, {}), ({"a": 1.5}, {"importance": 4.0}), ({"b": 1.0}, {})]
    host.create()
    host.create(name="true")
    made = play(host, "news", wrong)
    play(host, "true", right)
    assert host.observe(made[0], {"a": 0.5}, correct=True)["corrected"] == 1
    host.observe(made[1], {"a": 7.0}, correct=True, importance=4.0)
    assert host.observe(made[1], {"a": 1.5}, correct=True)["corrected"] == 1
    again = host.observe(made[1], {"a": 1.5}, correct=True)
    assert (again["corrected"], again["repeated"]) == (0, 1)
    require_same(host.belief("news"), host.belief("true"))


def test_many_decisions_at_once_are_all_learned_or_none(host):
    host.create()
    made = [host.decide() for _ in range(3)]
    many = [{"decision": one["id"], "weights": [1.0, 0.0]} for one in made]
    head = host.head
    bad = [*many, {"decision": "77-no", "weights": [1.0]}]
    reply = host.ask("POST", "/v1/agents/news/feedback", {"feedback": bad})
    assert reply.status_code == 404
    assert host.head == head
    assert host.feedback(feedback=many)["learned"] == 6
    assert host.feedback(feedback=many)["repeated"] == 6
    assert host.settle().learned == 6


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, monkeypatch):
        self.moment = datetime.now(UTC)
        for module in ("engine", "learning", "agents"):
            monkeypatch.setattr(f"superarm.service.{module}.now", lambda: self.moment)
        monkeypatch.setattr("superarm.agent.decisions.now", lambda: self.moment)

    def pass_by(self, **given):
        self.moment += timedelta(**given)


def swept(host):
    """Let the feedback be taken for granted that is due by now."""
    host.settle()
    host.service.learner._sweep(learning.now())


def test_feedback_that_never_comes(host, monkeypatch):
    clock = Clock(monkeypatch)
    host.create(default={"after": "30 min"})
    host.create(name="true")
    made = play(host, "news", [(None, {}), ({"a": 1.0}, {})])
    clock.pass_by(minutes=29)
    swept(host)
    assert host.settle().learned == 1
    clock.pass_by(minutes=2)
    swept(host)
    assert host.settle().learned == 4
    shown = host.done("GET", f"/v1/agents/news/decisions/{made[1]['id']}")["weights"]
    assert [one["by_default"] for one in sorted(shown, key=lambda one: one["item"])] == [
        False,
        True,
    ]
    late = host.observe(made[0], {"a": 0.75})
    assert late["corrected"] == 1
    assert host.observe(made[0], {"b": 0.0})["repeated"] == 1
    other = {"decision": made[0]["id"], "weights": {"b": 1.0}}
    assert host.ask("POST", "/v1/agents/news/feedback", other).status_code == 409
    true = play(host, "true", [(None, {}), ({"a": 1.0}, {})])
    items = [one["items"] for one in made]
    rest = {item: 0.75 if item == "a" else 0.0 for item in items[0]}
    many = [
        {"decision": true[0]["id"], "weights": rest},
        {"decision": true[1]["id"], "weights": {"b": 0.0}},
    ]
    host.feedback("true", feedback=many)
    one, other = host.belief("news"), host.belief("true")
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-12, err_msg=name)


def test_what_was_learned_fades(host, monkeypatch):
    clock = Clock(monkeypatch)
    host.create(half_life="7 d")
    made = host.decide()
    host.observe(made, [3.0, 3.0])
    host.settle()
    now = host.service.ready("news")[1]
    clock.pass_by(days=700)
    later = host.service.ready("news")[1]
    scores = [state.learner.model.mean(state.belief, state.problem) for state in (now, later)]
    assert np.abs(scores[0]).max() > 0.5
    assert np.abs(scores[1]).max() < 1e-3


def test_another_learner_learns_the_whole_log(host):
    other = {"kind": "CombLinUCB", "lam": 2.0, "sigma": 1.0, "c": 1.0}
    host.create()
    host.create(name="true", learner=other)
    given = [({"a": 1.0, "b": 0.0}, {}), ({"a": 0.5}, {}), ({"b": 1.0}, {"importance": 2.0})]
    play(host, "news", given[:2])
    play(host, "true", given[:2])
    changed = host.done("PATCH", "/v1/agents/news", {"learner": other})
    assert changed["learner"]["kind"] == "CombLinUCB"
    play(host, "news", given[2:])
    play(host, "true", given[2:])
    require_same(host.belief("news"), host.belief("true"))


# --- the right to be forgotten --------------------------------------------------------------------


def test_a_user_is_forgotten(host, tmp_path):
    """Neither id nor weights are left in the file, and what is believed is, bit by bit, what one
    believes who never met that user."""
    secret = 0.123456789123
    user = "user-who-wants-to-go"
    host.create()
    host.create(name="true")
    kept = []
    for i in range(30):
        goes = i % 3 == 0
        made = host.decide(available=["a", "b"], user=user if goes else f"u{i}")
        if goes:
            host.observe(made, {"a": secret, "b": 1.0})
            host.observe(made, {"a": secret / 2}, correct=True)
        else:
            kept.append(made)
            host.observe(made, {"a": 1.0})
        if i == 20:
            host.settle()
            host.service.learner._snapshot(everything=True)
    key = {"idempotency-key": f"for {user}"}
    host.done("POST", "/v1/agents/news/decisions", {"user": user}, headers=key)
    for _ in kept:
        host.observe(host.decide("true", available=["a", "b"]), {"a": 1.0}, "true")
    files = [path for path in tmp_path.iterdir() if path.name.startswith("superarm.db")]
    traces = [
        user.encode(),
        np.array(secret, ">f8").tobytes(),
        np.array(secret / 2, ">f8").tobytes(),
    ]
    before = b"".join(path.read_bytes() for path in files)
    assert all(trace in before for trace in traces)
    assert host.done("POST", "/v1/forget", {"user": user}) == {"decisions": 11, "feedback": 20}
    host.settle("true")
    require_same(host.belief("news"), host.belief("true"))
    after = b"".join(path.read_bytes() for path in files)
    assert not any(trace in after for trace in traces)
    assert host.done("POST", "/v1/forget", {"user": user}) == {"decisions": 0, "feedback": 0}


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["CombLinTS", "CombTS", "CombUCB1"])
def test_items_go_and_change_while_feedback_is_outstanding(host, learner):
    host.create(learner={"kind": learner})
    made = [host.decide(available=["a", "b"]) for _ in range(3)]
    host.observe(made[0], {"a": 1.0, "b": 0.0})
    host.done("DELETE", "/v1/agents/news/items", {"items": ["a"]})
    assert host.observe(made[1], {"a": 1.0, "b": 0.0})["learned"] == 2
    host.done("PUT", "/v1/agents/news/items", {"items": ["b", "a"], "features": [[2.0, 2.0]] * 2})
    assert host.observe(made[2], {"a": 1.0, "b": 0.0})["learned"] == 2
    assert host.settle().unfit == 0
    host.decide()


def test_one_item_and_more_than_there_are(host):
    one = {"items": ["a"], "features": [[1.0]]}
    host.create(oracle={"kind": "TopK", "k": 1}, items=one)
    made = host.decide()
    assert made["items"] == ["a"]
    host.observe(made, [1.0])
    host.create(name="k", items=one)
    assert host.ask("POST", "/v1/agents/k/decisions", {}).status_code == 422


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "CombTS"},
        {"kind": "CombLinTS", "link": "logit"},
        {"kind": "CombMixTS", "link": "logit"},
    ],
)
def test_weights_that_are_no_shares_are_refused_where_shares_are_learned(host, learner):
    host.create(learner=learner)
    made = host.decide()
    body = {"decision": made["id"], "weights": [2.0, 0.0]}
    reply = host.ask("POST", "/v1/agents/news/feedback", body)
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["pointer"] == "/weights"
    host.observe(made, [1.0, 0.0])
    assert host.settle().unfit == 0
    late = {"default": {"after": 60.0, "weight": -1.0}}
    assert host.ask("PATCH", "/v1/agents/news", late).status_code == 422


def test_how_far_learning_is_behind_can_be_seen(host, monkeypatch):
    host.create()
    host.observe(host.decide(), [1.0, 0.0])
    host.settle()
    text = host.ask("GET", "/metrics").text
    assert 'superarm_learned{agent="news"} 2.0' in text
    assert "superarm_behind 0.0" in text
    end, chain = log.head(host.database.read())
    later = SimpleNamespace(head=lambda connection: (end + 3, chain))
    monkeypatch.setattr(metrics, "log", later)
    assert "superarm_behind 3.0" in host.ask("GET", "/metrics").text


def test_feedback_that_cannot_be_computed_with_is_counted_and_left_out(monkeypatch, host):
    """An error of arithmetic in a model must not stop the learning of all that comes after it."""
    host.create()
    plain = fold.learned

    def learned(state, found):
        if any(5.0 in one.w for one in found):
            raise ZeroDivisionError("division by zero")
        return plain(state, found)

    monkeypatch.setattr(fold, "learned", learned)
    made = [host.decide() for _ in range(3)]
    host.observe(made[0], [1.0, 0.0])
    host.observe(made[1], [5.0, 5.0])
    host.observe(made[2], [1.0, 0.0])
    shown = host.settle()
    assert (shown.learned, shown.unfit) == (4, 1)
    host.require_sound()

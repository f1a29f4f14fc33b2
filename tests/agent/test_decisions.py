import dataclasses
import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import (
    Agent,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    CombUCB1,
    Decision,
    Greedy,
    Quota,
    TopK,
)
from superarm.agent import decisions
from superarm.agent.decisions import as_time
from superarm.contexts import Outer
from superarm.errors import (
    DecisionError,
    FeaturesError,
    ItemsError,
    NumericalError,
    OracleError,
    ParameterError,
    WeightsError,
)
from support import FEATURES, NAMES, K, L, make, play, state


def same(a, b):
    return a.to_json() == b.to_json()


def test_a_record_holds_what_was_chosen_from_what_and_when():
    agent = make()
    before = datetime.now(UTC)
    decision = agent.decide()
    assert len(decision.items) == K
    assert all(type(item) is int for item in decision.items)
    np.testing.assert_array_equal(decision.features, FEATURES[list(decision.items)])
    assert before <= datetime.fromisoformat(decision.time) <= datetime.now(UTC)
    assert decision.id != agent.decide().id
    assert decision.propensity is None


def test_the_seed_decides_alike():
    agent = make()
    play(agent, 5)
    decision = agent.decide()
    assert agent.decide(seed=decision.seed).items == decision.items
    assert len({agent.decide().items for _ in range(20)}) > 1
    with pytest.raises(ParameterError, match="seed must be"):
        agent.decide(seed=-1)


def test_decisions_follow_from_the_agents_seed():
    assert [make(seed=3).decide().items for _ in range(2)] == [
        make(seed=3).decide().items for _ in range(2)
    ]
    one, two = make(seed=3), make(seed=3)
    assert [one.decide().items for _ in range(9)] == [two.decide().items for _ in range(9)]


def test_json_round_trip():
    decision = make(CombLinTS()).decide(draws=20)
    back = Decision.from_json(decision.to_json())
    assert same(back, decision)
    assert same(Decision.from_json(decision.to_json().encode()), decision)
    assert same(Decision.from_json(json.loads(decision.to_json())), decision)
    np.testing.assert_array_equal(back.features, decision.features)
    named = Agent(CombTS(), features=np.zeros((L, 0)), items=NAMES, oracle=TopK(2), seed=0).decide()
    assert same(Decision.from_json(named.to_json()), named)
    empty = make(oracle=TopK(2, at_most=True)).decide(available=np.zeros(L, bool))
    assert Decision.from_json(empty.to_json()).items == ()


def test_numbers_may_be_written_otherwise():
    """As by readers whose numbers are all floats: 1.0 becomes 1, and -0.0 becomes 0."""
    features = np.where(np.arange(4) == 0, 1.0, -0.0) * np.ones((L, 4))
    decision = Agent(Greedy(), features=features, oracle=TopK(2), seed=0).decide(draws=3)
    # whole numbers alone: a time may hold "1.0" too
    text = re.sub(r"(?<![\d:])1\.0(?!\d)", "1", decision.to_json()).replace("-0.0", "0")
    assert text != decision.to_json()
    assert Decision.from_json(text).items == decision.items


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("", "a decision is a JSON text"),
        ("{", "a decision is a JSON text"),
        (None, "a decision is a JSON text"),
        (b"\xff\xfe\xfd", "a decision is a JSON text"),
        ("[1, 2]", "a decision is a JSON object"),
        ("{}", "a decision is a JSON object"),
        ({"superarm": "decision"}, "damaged"),
        ({"superarm": "decision", "version": 1}, "damaged .KeyError"),
    ],
)
def test_what_is_no_record(record, message):
    with pytest.raises(DecisionError, match=message):
        Decision.from_json(record)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 99}, "version 99: upgrade"),
        ({"version": "1"}, "damaged"),
        ({"superarm": "agent"}, "a decision is a JSON object"),
        ({"seed": 5}, "checksum"),
        ({"seed": "5"}, "damaged"),
        ({"items": [1, 2, 3]}, "checksum"),
        ({"items": [1, 2]}, "damaged"),
        ({"items": [1, 2, 2.5]}, "damaged"),
        ({"items": None}, "damaged"),
        ({"features": [[1.0] * 4] * 3}, "checksum"),
        ({"features": [[1.0], [1.0, 2.0], [3.0]]}, "damaged"),
        ({"features": "x"}, "damaged"),
        ({"features": [[float("nan")] * 4] * 3}, "damaged"),
        ({"time": "yesterday"}, "damaged"),
        ({"time": 5}, "damaged"),
        ({"propensity": [0.5, 0.5]}, "2 propensities for 3 items"),
        ({"propensity": [0.5, 0.5, 0.0]}, "damaged"),
        ({"propensity": [0.5, 0.5, 1.5]}, "damaged"),
        ({"propensity": "no"}, "damaged"),
        ({"id": 7}, "damaged"),
        ({"check": None}, "checksum"),
    ],
)
def test_damaged_records(changes, message):
    record = json.loads(make(seed=1).decide(draws=5).to_json())
    with pytest.raises(DecisionError, match=message):
        Decision.from_json(json.dumps(record | changes))


@settings(max_examples=300)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_noticed_or_means_the_same(place, byte):
    decision = make(seed=1).decide(draws=3)
    record = decision.to_json().encode()
    place %= len(record)
    changed = record[:place] + bytes([byte]) + record[place + 1 :]
    try:
        back = Decision.from_json(changed)
    except DecisionError:
        return
    assert same(back, decision)


ALL = [
    CombLinTS(lam=1.0, sigma=0.3),
    CombLinTS(),
    CombLinTS(lam=1.0, link="logit"),
    CombLinUCB(lam=1.0, sigma=0.3, c=1.0),
    CombMixTS(),
    CombTS(),
    CombGaussianTS(lam=1.0, sigma=0.3),
    CombUCB1(),
]


@pytest.mark.parametrize("learner", ALL, ids=repr)
def test_observing_a_decision_is_observing_its_items(learner):
    by_record, by_items = make(learner), make(learner)
    for _ in range(10):
        decision = by_record.decide()
        by_record.observe(decision, [1.0, 0.0, 1.0])
        by_items.observe(list(decision.items), [1.0, 0.0, 1.0])
    for a, b in zip(by_record.belief, by_items.belief, strict=True):
        np.testing.assert_array_equal(a, b)


def test_partial_feedback_in_any_order():
    at_once, piecemeal = make(), make()
    decision = at_once.decide()
    a, b, c = decision.items
    at_once.observe(decision, [0.1, 0.2, 0.3])
    piecemeal.observe(decision, {c: 0.3})
    piecemeal.observe(decision, {})
    piecemeal.observe(decision, {b: 0.2, a: 0.1})
    np.testing.assert_allclose(
        at_once.belief.factor, piecemeal.belief.factor, rtol=1e-12, atol=1e-12
    )
    with pytest.raises(DecisionError, match="was observed before"):
        piecemeal.observe(decision, {a: 0.1})


def test_features_of_their_time():
    outer, user = Outer(FEATURES), np.array([1.0, -0.5])
    agent = Agent(CombLinTS(), features=outer(np.ones(2)), oracle=TopK(K), seed=0)
    record = agent.decide(features=outer(user)).to_json()
    late, at_once = (
        Agent(CombLinTS(), features=outer(np.ones(2)), oracle=TopK(K), seed=0) for _ in range(2)
    )
    decision = Decision.from_json(record)
    late.observe(decision, [0.0, 1.0, 0.5])
    at_once.observe(list(decision.items), [0.0, 1.0, 0.5], features=outer(user))
    np.testing.assert_allclose(late.belief.factor, at_once.belief.factor, rtol=1e-12)
    with pytest.raises(FeaturesError, match="has its own features"):
        agent.observe(decision, [0.0, 1.0, 0.5], features=outer(user))


@pytest.mark.parametrize("learner", ALL, ids=repr)
def test_twice_is_once_unless_asked_for(learner):
    agent = make(learner)
    decision = agent.decide()
    agent.observe(decision, [1.0, 0.0, 1.0])
    before = state(agent)
    for weights in ([1.0, 0.0, 1.0], {decision.items[1]: 0.0}):
        with pytest.raises(
            DecisionError, match=r"was observed before: pass again=True to learn it again"
        ):
            agent.observe(decision, weights)
    assert state(agent) == before
    agent.observe(decision, [1.0, 0.0, 1.0], again=True)
    assert state(agent) != before


ELSEWHERE = """
import sys
from superarm import Agent, Decision, TopK
from superarm.errors import DecisionError
agent = Agent.load(sys.argv[1], seed="saved", oracle=TopK(3))
decision = Decision.from_json(sys.stdin.read())
refused = 0
for _ in range(2):
    try:
        agent.observe(decision, {item: 1.0 for item in decision.items[:2]})
    except DecisionError:
        refused += 1
agent.save(sys.argv[1])
print(refused)
"""


def test_a_decision_observed_in_other_processes_late_and_twice_is_learned_once(tmp_path):
    agent, expected = make(), make()
    decision = agent.decide()
    agent.save(tmp_path / "agent.npz")
    said = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, str(tmp_path / "agent.npz")],
            input=decision.to_json(),
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(run.stdout.strip())
    assert said == ["1", "2"]
    expected.observe(list(decision.items[:2]), [1.0, 1.0])
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    np.testing.assert_array_equal(back.belief.factor, expected.belief.factor)
    back.observe(decision, {decision.items[2]: 0.0})  # of which nothing was heard yet


def of_hours(agent, n):
    """Decisions an hour apart."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = [agent.decide() for _ in range(n)]
    for i, decision in enumerate(made):
        object.__setattr__(decision, "time", as_time(start + timedelta(hours=i)))
    return made


def test_what_is_too_old_to_know_is_refused(tmp_path):
    agent = Agent(CombLinTS(), features=FEATURES, oracle=TopK(K), seed=0, remembered=20)
    made = of_hours(agent, 60)
    for decision in made[1:]:
        agent.observe(decision, {decision.items[0]: 1.0})
    assert len(agent.ledger.observed) <= 20
    agent.save(tmp_path / "agent.npz")
    agent = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    assert agent.ledger.limit == 20
    before = state(agent)
    for decision in (made[0], made[1]):
        with pytest.raises(
            DecisionError, match=r"older than those whose feedback is remembered: pass again=True"
        ):
            agent.observe(decision, [1.0, 1.0, 1.0])
    with pytest.raises(DecisionError, match="was observed before"):
        agent.observe(made[-1], [1.0, 1.0, 1.0])
    assert state(agent) == before
    agent.observe(made[-1], {made[-1].items[1]: 1.0})
    agent.observe(made[0], [1.0, 1.0, 1.0], again=True)


def test_the_oldest_decisions_are_forgotten_in_whatever_order_they_were_observed():
    agent = Agent(CombLinTS(), features=FEATURES, oracle=TopK(K), seed=0, remembered=20)
    made = of_hours(agent, 21)
    for decision in reversed(made):
        agent.observe(decision, {decision.items[0]: 1.0})
    assert agent.ledger.observed.keys() == {decision.id for decision in made[3:]}
    assert agent.ledger.before == made[2].time
    with pytest.raises(DecisionError, match="was observed before"):
        agent.observe(made[-1], [1.0, 1.0, 1.0])  # of which was heard first
    with pytest.raises(DecisionError, match="older than those"):
        agent.observe(made[0], [1.0, 1.0, 1.0])  # of which was heard last


@pytest.mark.parametrize("into", ["the one that forgot", "the other"])
def test_merged_agents_refuse_what_either_may_have_forgotten(into):
    learner = CombLinTS(lam=1.0, sigma=0.3)
    forgot, other = (
        Agent(learner, features=FEATURES, oracle=TopK(K), seed=seed, remembered=10)
        for seed in (0, 1)
    )
    made = of_hours(forgot, 12)
    for decision in made[1:]:
        forgot.observe(decision, {decision.items[0]: 1.0})
    assert forgot.ledger.before == made[2].time
    one, two = (forgot, other) if into == "the one that forgot" else (other, forgot)
    one.merge(two)
    for decision in made[:3]:
        with pytest.raises(DecisionError, match="older than those"):
            one.observe(decision, [1.0, 1.0, 1.0])
    one.observe(made[3], {made[3].items[1]: 1.0})


def test_items_that_have_gone_since():
    for learner in (CombLinTS(), CombMixTS(lam=1.0, sigma=0.3, tau=0.2)):
        agent = make(learner)
        decision = agent.decide()
        agent.remove_items([decision.items[0]])
        before = agent.belief
        agent.observe(decision, [1.0, 0.0, 1.0])
        assert not np.array_equal(agent.belief.factor, before.factor)
    agent = make(CombTS())
    decision = agent.decide()
    agent.remove_items([decision.items[0]])
    with pytest.raises(ItemsError, match="is not one of the 11 items"):
        agent.observe(decision, [1.0, 0.0, 1.0])
    agent.observe(decision, dict.fromkeys(decision.items[1:], 1.0))
    assert agent.belief.alpha.sum() == L - 1 + 2


def test_mixed_feedback_on_items_that_have_gone_says_what_loose_rows_say():
    agent, other = (make(CombMixTS(lam=1.0, sigma=0.3, tau=0.2)) for _ in range(2))
    decision = agent.decide()
    for a in (agent, other):
        a.remove_items([decision.items[0]])
    agent.observe(decision, [1.0, 0.0, 1.0], importance=[2.0, 1.0, 3.0])
    other.observe(list(decision.items[1:]), [0.0, 1.0], importance=[1.0, 3.0])
    other.learn(decision.features[:1], [1.0], importance=2.0)
    np.testing.assert_allclose(agent.belief.factor, other.belief.factor, rtol=1e-12)


BAD_FEEDBACK = [
    (lambda a, d: a.observe(d, [1.0]), WeightsError, "3 numbers, one for each item"),
    (lambda a, d: a.observe(d, [1.0, np.nan, 0.0]), WeightsError, "position 1 is nan"),
    (
        lambda a, d: a.observe(d, {"nobody": 1.0}),
        ItemsError,
        "item 'nobody' was not chosen in this decision",
    ),
    (lambda a, d: a.observe(d, {999: 1.0}), ItemsError, "item 999 was not chosen in this decision"),
    (lambda a, d: a.observe(d, {d.items[0]: "x"}), WeightsError, "must be numbers"),
    (lambda a, d: a.observe(d, [1.0] * 3, importance=-1.0), ParameterError, "importance must be"),
    (lambda a, d: a.observe(d, [1.0] * 3, importance=[1.0]), ParameterError, "importance must be"),
    (lambda a, d: a.observe(d.to_json(), [1.0] * 3), ItemsError, "flat list"),
    (lambda a, d: a.decide(draws=-1), ParameterError, "draws must be"),
    (lambda a, d: a.decide(draws=2.5), ParameterError, "draws must be"),
    (lambda a, d: a.decide(oracle=5), OracleError, "an oracle is a function"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_FEEDBACK)
def test_bad_feedback_changes_nothing(call, error, message):
    agent = make()
    play(agent, 3)
    decision = agent.decide()
    before = state(agent)
    with pytest.raises(error, match=message):
        call(agent, decision)
    assert state(agent) == before


def test_decisions_of_other_features():
    decision = Agent(CombLinTS(), features=np.eye(5), oracle=TopK(2), seed=0).decide()
    with pytest.raises(DecisionError, match="items with 5 features, not 4"):
        make().observe(decision, [1.0, 0.0])


def test_propensities_are_those_of_enumeration():
    """θ has two coefficients: count a fine, even grid of directions, as before any feedback all are
    as likely."""
    Phi = np.random.default_rng(0).standard_normal((5, 2))
    oracle = Quota([0, 1, 0, 1, 1], {0: 1, 1: 1})
    agent = Agent(CombLinTS(lam=1.0, sigma=1.0), features=Phi, oracle=oracle, seed=3)
    angle = (np.arange(100_000) + 0.5) / 100_000 * 2 * np.pi
    sets = oracle(np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ Phi.T)
    exact = np.array([(sets == e).any(-1).mean() for e in range(5)])
    m = 2000
    for _ in range(5):
        decision = agent.decide(draws=m)
        p = exact[list(decision.items)]
        assert (
            np.abs(np.array(decision.propensity) - p) <= 3 * np.sqrt(p * (1 - p) / m) + 1 / m
        ).all()


def test_inverse_propensities_are_nearly_unbiased():
    """E[1{chosen}/p̂] = 1 - (1-p)^{m+1}: of few draws already, 1/p̂ is right on average."""
    Phi = np.random.default_rng(1).standard_normal((4, 2))
    agent, m, n = (
        Agent(CombLinTS(lam=1.0, sigma=1.0), features=Phi, oracle=TopK(2), seed=0),
        10,
        4000,
    )
    z = np.zeros((n, 4))
    for i in range(n):
        decision = agent.decide(draws=m)
        z[i, list(decision.items)] = 1 / np.array(decision.propensity)
    p = agent.explain(range(4), draws=20_000).chosen
    se = z.std(axis=0) / np.sqrt(n)
    assert (np.abs(z.mean(axis=0) - (1 - (1 - p) ** (m + 1))) < 4 * se).all()


def test_constraints_of_one_call():
    agent = make()
    assert len(agent.decide(oracle=TopK(5)).items) == 5
    assert len(agent.choose(oracle=lambda w: [int(w.argmax())])) == 1
    assert set(agent.choose(oracle=Quota([0, 1] * 6, {0: 0, 1: 2})) % 2) == {1}
    assert agent.explain(range(L), oracle=TopK(1), draws=50).chosen.sum() == pytest.approx(1.0)
    assert len(agent.choose()) == K


def test_records_through_readers_whose_numbers_are_floats_or_decimals():
    decision = make().decide(draws=3)
    for options in ({"parse_int": float}, {"parse_float": Decimal}):
        assert same(Decision.from_json(json.loads(decision.to_json(), **options)), decision)
    with pytest.raises(DecisionError, match="a decision is a JSON text"):
        Decision.from_json("[" * 200_000)


def test_features_are_matched_by_their_names():
    frame = pd.DataFrame(FEATURES, columns=list("abcd"))
    one, turned = (
        Agent(CombLinTS(), features=f, oracle=TopK(K), seed=0) for f in (frame, frame[list("dcba")])
    )
    decision = Decision.from_json(one.decide().to_json())
    one.observe(decision, [1.0, 0.0, 1.0])
    turned.observe(decision, [1.0, 0.0, 1.0])
    np.testing.assert_allclose(turned.explain([0], draws=1).score, one.explain([0], draws=1).score)
    other = Agent(CombLinTS(), features=frame.rename(columns={"a": "x"}), oracle=TopK(K), seed=0)
    with pytest.raises(DecisionError, match="feature 'a' is not one of those learned from"):
        other.observe(decision, [1.0, 0.0, 1.0])


def test_nothing_observed_is_nothing_learned_or_forgotten():
    agent = make(CombLinTS(lam=1.0, sigma=0.3, forgetting=0.5))
    agent.observe([1, 2], [1.0, 0.0])
    before = state(agent)
    agent.observe([], [])
    agent.observe(agent.decide(seed=1), {})
    assert state(agent) == before
    with pytest.raises(WeightsError, match="0 numbers"):
        agent.learn([], [1.0])


def test_features_that_overflow_when_multiplied_out():
    features = Outer(np.full((L, 1), 1e200))
    agent = Agent(CombTS(), features=features([1.0]), oracle=TopK(K), seed=0)
    before = state(agent)
    with pytest.raises(NumericalError, match="multiplied out"), np.errstate(over="ignore"):
        agent.decide(features=features([1e200]))
    assert state(agent) == before


def test_equality_is_by_value():
    decision = make().decide(draws=3)
    back = Decision.from_json(decision.to_json())
    assert back == decision
    assert hash(back) == hash(decision)
    assert len({back, decision}) == 1
    assert decision != make().decide(draws=3)  # which has an id of its own
    changes = [
        {"id": "x"},
        {"items": decision.items[::-1]},
        {"features": 2 * decision.features},
        {"time": "2026-01-01T00:00:00.000000+00:00"},
        {"seed": 0},
        {"propensity": None},
        {"names": ("a", "b", "c", "d")},
        {"signature": "0" * 64},
    ]
    for change in changes:
        assert dataclasses.replace(decision, **change) != decision
    assert decision != decision.to_json()
    empty = make(oracle=TopK(2, at_most=True)).decide(available=np.zeros(L, bool))
    assert Decision.from_json(empty.to_json()) == empty


def test_records_of_the_future_are_refused(monkeypatch):
    """One dated 9999 would stay in the ledger for ever and push out those of today."""
    agent = Agent(CombLinTS(), features=FEATURES, oracle=TopK(K), seed=0, remembered=10)
    before = state(agent)
    for time in ("9999-12-31T23:59:59.999999+00:00", as_time(datetime.now(UTC) + 2 * HOUR)):
        forged = dataclasses.replace(agent.decide(seed=1), time=time)
        with pytest.raises(DecisionError, match="which is in the future: it is forged, or a clock"):
            agent.observe(Decision.from_json(forged.to_json()), [1.0, 0.0, 1.0])
        assert state(agent) == before
    slow = dataclasses.replace(agent.decide(), time=as_time(datetime.now(UTC) + HOUR / 2))
    agent.observe(slow, [1.0, 0.0, 1.0])  # of a clock that is wrong by little
    monkeypatch.setattr(decisions, "now", lambda: datetime(9999, 12, 31, tzinfo=UTC))
    agent.observe(dataclasses.replace(slow, id="x", time="9999-12-31T00:00:00.000000+00:00"), {})


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "a\0b"}, "has a text as its id"),
        ({"id": "a" * 201}, "has a text as its id"),
        ({"id": None}, "has a text as its id"),
        ({"time": "zzzz"}, "the time of a decision is a text"),
        ({"time": None}, "the time of a decision is a text"),
        ({"time": "2026-01-01T00:00:00+00:00"}, "the time of a decision is a text"),
        ({"items": range(100_001)}, "at most 100000 items"),
    ],
)
def test_the_ledger_keeps_only_what_a_file_can(tmp_path, change, message):
    """Also of decisions that were made by hand, not read from a record."""
    agent = make()
    bad = dataclasses.replace(agent.decide(), **change)
    for call in (agent.ledger.refuse_observed, agent.ledger.note):
        with pytest.raises(DecisionError, match=message):
            call(bad, [0])
    assert agent.ledger.observed == {}
    agent.save(tmp_path / "agent.npz")
    Agent.load(tmp_path / "agent.npz", oracle=TopK(K))

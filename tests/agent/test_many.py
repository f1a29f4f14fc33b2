"""Decisions for many users at once, and feedback on many decisions at once."""

import json

import numpy as np
import pandas as pd
import pytest

from superarm import (
    Agent,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    Decision,
    Greedy,
    Quota,
    TopK,
    gaussian,
)
from superarm.arrays.namespace import KERNEL_MIN_NUMBERS
from superarm.contexts import Concatenated, InContext, Outer
from superarm.errors import (
    DecisionError,
    FeaturesError,
    ItemsError,
    MaskError,
    ParameterError,
    WeightsError,
)
from support import FEATURES, FRAME, NAMES, D, K, L, make, play, state

N = 7
USERS = np.random.default_rng(3).standard_normal((N, 3))
DENSE = np.random.default_rng(4).standard_normal((N, L, D))


def learned(learner, features, **options):
    agent = Agent(learner, features=features, oracle=TopK(K), seed=0, **options)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, agent.problem.d))
    agent.learn(rows, rng.standard_normal(30))
    return agent


@pytest.mark.parametrize(
    "learner", [CombLinTS(lam=1.0, sigma=0.5), CombLinTS(), Greedy()], ids=repr
)
def test_each_user_gets_what_they_would_get_alone(learner):
    agent = learned(learner, FEATURES)
    decisions = agent.decide(features=DENSE)
    for decision, features in zip(decisions, DENSE, strict=True):
        alone = agent.decide(features=features, seed=decision.seed)
        assert alone.items == decision.items
        np.testing.assert_array_equal(alone.features, decision.features)
    assert len({decision.seed for decision in decisions}) == N
    assert len({decision.id for decision in decisions}) == N


@pytest.mark.parametrize("at_most", [False, True])
def test_so_many_users_that_a_kernel_scores_them(at_most):
    n = -(-KERNEL_MIN_NUMBERS // (L * D))
    many = np.random.default_rng(5).standard_normal((n, L, D))
    agent = Agent(
        CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(K, at_most=at_most), seed=0
    )
    decisions = agent.decide(features=many)
    assert len(decisions) == n
    sizes = {len(decision.items) for decision in decisions}
    assert (len(sizes) > 1) == at_most
    for i in (0, 1, n // 2, n - 1):
        alone = agent.decide(features=many[i], seed=decisions[i].seed)
        assert alone.items == decisions[i].items
        np.testing.assert_array_equal(alone.features, decisions[i].features)
    chosen = agent.choose(features=many)
    sizes = {len(items) for items in chosen}
    assert (len(sizes) > 1) == at_most
    assert all(len(set(items)) == len(items) for items in chosen)


def test_the_record_of_one_user_does_not_keep_those_of_all_in_memory():
    decision = learned(CombLinTS(), FEATURES).decide(features=DENSE)[0]
    assert decision.features.base is None


@pytest.mark.parametrize("kind", [Outer, Concatenated])
def test_contexts_of_many_users(kind):
    features = kind(FRAME)
    agent = learned(CombLinUCB(lam=1.0, sigma=0.5, c=1.0), features(USERS[0]))
    alone = [agent.choose(features=features(x)).tolist() for x in USERS]
    table = pd.DataFrame(USERS)
    lists = [features(x) for x in USERS]
    frames = [pd.DataFrame(np.asarray(Phi), index=NAMES, columns=agent.names) for Phi in lists]
    shuffled = kind(FRAME.sample(frac=1, random_state=0))
    for many in (features(USERS), lists, frames, shuffled(USERS)):
        assert [items.tolist() for items in agent.choose(features=many)] == alone
    named = learned(CombLinUCB(lam=1.0, sigma=0.5, c=1.0), features(table.iloc[0]))
    backwards = table[[2, 0, 1]]
    assert [items.tolist() for items in named.choose(features=features(backwards))] == alone


def test_masks_of_many_users():
    agent = learned(CombLinTS(), FEATURES)
    each = np.random.default_rng(0).random((N, L)) < 0.5
    for items, mask in zip(agent.choose(features=DENSE, available=each), each, strict=True):
        assert mask[items].all()
    for items in agent.choose(features=DENSE, available=[1, 4, 7]):
        assert set(items) == {1, 4, 7}
    for decision in agent.decide(features=DENSE, available=each, draws=20):
        assert len(decision.propensity) == K
    quota = Quota(["a", "b"] * 6, {"a": 1, "b": 1})
    assert all(len(items) == 2 for items in agent.choose(features=DENSE, oracle=quota))
    few = learned(CombMixTS(contexts=True), FEATURES)
    for items in few.choose(features=DENSE, available=[5, 6, 7]):
        assert set(items) == {5, 6, 7}


def test_propensities_of_many_users():
    agent = learned(CombLinTS(lam=1.0, sigma=0.5), FEATURES)
    (decision,) = agent.decide(features=DENSE[:1], draws=2000)
    chosen = [agent.choose(features=DENSE[0]) for _ in range(2000)]
    for item, p in zip(decision.items, decision.propensity, strict=True):
        share = np.mean([item in items for items in chosen])
        assert abs(p - share) < 5 * np.sqrt(2 * 0.25 / 2000)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: a.choose(features=DENSE[:, 1:]), FeaturesError, r"shape \(n, 12, 4\)"),
        (lambda a: a.choose(features=DENSE * np.nan), FeaturesError, "finite"),
        (lambda a: a.choose(features=DENSE[:0]), FeaturesError, "n at least 1"),
        (lambda a: a.choose(features=[FEATURES, FEATURES[1:]]), FeaturesError, "alike"),
        (
            lambda a: a.choose(features=DENSE, available=np.ones((2, L), bool)),
            MaskError,
            r"\(7, 12\)",
        ),
        (lambda a: a.decide(features=DENSE, seed=3), ParameterError, "leave it out for many users"),
        (lambda a: a.explain([0], features=DENSE), FeaturesError, "of one user's features"),
        (lambda a: a.observe([[0]], [[1.0]], DENSE), ItemsError, "7 users need 7 lists of items"),
        (
            lambda a: a.observe([[0]] * N, [[1.0]] * (N - 1), DENSE),
            ItemsError,
            "7 lists of weights",
        ),
        (lambda a: a.observe([[0, 1]] * N, [[1.0]] * N, DENSE), WeightsError, "2 numbers"),
    ],
)
def test_bad_calls_for_many_change_nothing(call, error, message):
    agent = make()
    before = state(agent)
    with pytest.raises(error, match=message):
        call(agent)
    assert state(agent) == before


def test_mixed_learners_without_contexts_refuse_many():
    with pytest.raises(FeaturesError, match="contexts=True"):
        make(CombMixTS()).choose(features=DENSE)


# --- feedback -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=1.0, sigma=0.5),
        CombMixTS(lam=1.0, sigma=0.5, tau=0.3),
        CombTS(),
    ],
    ids=repr,
)
def test_many_decisions_are_learned_as_one_by_one(learner):
    together, alone = (make(learner) for _ in range(2))
    rng = np.random.default_rng(0)
    decisions = [together.decide() for _ in range(30)]
    weights = [rng.integers(0, 2, K).astype(float) for _ in decisions]
    some = [
        dict(zip(d.items[:2], w, strict=False)) for d, w in zip(decisions, weights, strict=True)
    ]
    together.observe(decisions, some)
    for decision, w in zip(decisions, some, strict=True):
        alone.observe(decision, w)
    for name, value in together.belief._asdict().items():
        np.testing.assert_allclose(value, getattr(alone.belief, name), rtol=1e-7, atol=1e-9)
    assert together.ledger.observed == alone.ledger.observed
    before = state(together)
    with pytest.raises(DecisionError, match="was observed before"):
        together.observe([make().decide(), decisions[3]], [np.ones(K), some[3]])
    assert state(together) == before


def test_many_decisions_fade_the_past_as_often():
    agent = make(CombLinTS(lam=1.0, sigma=0.5, forgetting=0.9))
    agent.observe([0], [1.0])
    decisions = [agent.decide() for _ in range(5)]
    agent.observe(decisions, [{}, *[{decision.items[0]: 1.0} for decision in decisions[1:]]])
    rows = np.stack([FEATURES[0], *[decision.features[0] for decision in decisions[1:]]])
    importance = np.array([0.9**4, 1.0, 1.0, 1.0, 1.0])
    expected = gaussian.condition(gaussian.prior(D, 1.0), rows, np.ones(5), 0.5, importance)
    np.testing.assert_allclose(gaussian.mean(agent.belief), gaussian.mean(expected), rtol=1e-9)


def test_many_decisions_all_or_none():
    agent = make()
    first, second = agent.decide(), agent.decide()
    before = state(agent)
    for items, weights, error, message in (
        ([first, first], [np.ones(K)] * 2, DecisionError, "is there twice"),
        ([first, second], [np.ones(K)], WeightsError, "2 decisions need a list of as many"),
        ([first, second], [np.ones(K), np.ones(2)], WeightsError, "3 numbers"),
        ([first, "second"], [np.ones(K)] * 2, DecisionError, "all must be decisions"),
        ([first, second], [np.ones(K), {"x": 1.0}], ItemsError, "was not chosen"),
    ):
        with pytest.raises(error, match=message):
            agent.observe(items, weights)
    with pytest.raises(ParameterError, match="one entry for each of 2 decisions"):
        agent.observe([first, second], [np.ones(K)] * 2, importance=[1.0])
    assert state(agent) == before
    agent.observe([first, second], [np.ones(K)] * 2, importance=[2.0, [1.0] * K])
    agent.observe([agent.decide()], [{}])
    assert len(agent.ledger.observed) == 3 - 1


def test_items_of_many_users_are_learned_with_their_features():
    agent = make()
    chosen = agent.choose(features=DENSE)
    w = np.random.default_rng(0).standard_normal((N, K))
    agent.observe(chosen, w, features=DENSE)
    rows = np.concatenate([DENSE[i][items] for i, items in enumerate(chosen)])
    expected = gaussian.condition(gaussian.prior(D, 1.0), rows, w.ravel(), 0.3)
    np.testing.assert_allclose(gaussian.mean(agent.belief), gaussian.mean(expected), rtol=1e-9)


# --- records of contexts --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Outer, Concatenated])
@pytest.mark.parametrize("items", [FRAME, FEATURES], ids=["named", "unnamed"])
def test_records_of_contexts_hold_the_context_and_the_items(kind, items):
    agent, other = (learned(CombLinTS(lam=1.0, sigma=0.5), kind(items)(USERS[0])) for _ in range(2))
    decision = agent.decide(features=kind(items)(USERS[1]), draws=5)
    back = Decision.from_json(decision.to_json())
    assert back == decision
    assert isinstance(back.features, InContext)
    assert back.names == decision.names
    formed = np.asarray(decision.features)
    places = [agent.items.tolist().index(item) for item in decision.items]
    np.testing.assert_array_equal(formed, np.asarray(kind(items)(USERS[1]))[places])
    agent.observe(back, np.ones(K))
    other.learn(formed, np.ones(K))
    np.testing.assert_allclose(agent.belief.factor, other.belief.factor, rtol=1e-10)


def test_records_of_contexts_are_small():
    rng = np.random.default_rng(0)
    features = Outer(rng.standard_normal((100, 50)))
    agent = Agent(
        CombLinTS(lam=1.0, sigma=1.0), features=features(np.ones(30)), oracle=TopK(10), seed=0
    )
    record = agent.decide(features=features(rng.standard_normal(30))).to_json()
    assert len(record) < 13_000  # multiplied out it would be 314,000


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "inner"},
        {"context": [1.0]},
        {"context": [1.0, None, 2.0]},
        {"context": []},
        {"items": [[1.0]]},
        {"context_names": ["a"]},
        {"item_names": ["a", "b", "c", "c"]},
        {"items": None},
    ],
    ids=str,
)
def test_forged_contexts_are_refused(change):
    features = Outer(FRAME)
    agent = learned(CombLinTS(), features(USERS[0]))
    record = json.loads(agent.decide(features=features(USERS[1])).to_json())
    record["features"] |= change
    with pytest.raises(DecisionError, match="damaged"):
        Decision.from_json(record)
    del record["features"]["kind"]
    with pytest.raises(DecisionError, match="damaged"):
        Decision.from_json(record)


# --- catalogues that live elsewhere ---------------------------------------------------------------


def test_features_that_live_elsewhere(tmp_path):
    path, rows = tmp_path / "agent.npz", tmp_path / "features.npy"
    np.save(rows, FEATURES)
    mapped = np.load(rows, mmap_mode="r")
    agent = Agent(CombLinTS(), features=mapped, items=NAMES, oracle=TopK(K), seed=0)
    assert isinstance(agent.problem.Phi, np.memmap) or np.shares_memory(agent.problem.Phi, mapped)
    play(agent, 5)
    agent.save(path, features=False)
    whole = tmp_path / "whole.npz"
    agent.save(whole)
    assert path.stat().st_size < whole.stat().st_size
    back = Agent.load(path, oracle=TopK(K), features=mapped, seed="saved")
    assert np.shares_memory(back.problem.Phi, mapped)
    assert state(back) == state(agent)
    assert play(back, 20) == play(agent, 20)
    shuffled = pd.DataFrame(FEATURES, index=NAMES).sample(frac=1, random_state=0)
    by_id = Agent.load(path, oracle=TopK(K), features=shuffled.set_axis(range(D), axis=1))
    np.testing.assert_array_equal(by_id.problem.Phi, FEATURES)
    np.testing.assert_array_equal(
        Agent.load(whole, oracle=TopK(K), features=mapped).problem.Phi, FEATURES
    )
    with pytest.raises(Exception, match="saved without its features: give them, as features="):
        Agent.load(path, oracle=TopK(K))
    for features, message in (
        (FEATURES[::-1], "in another order"),
        (FEATURES[1:], "shape"),
        (shuffled.iloc[1:], "no row for item"),
    ):
        for file in (path, whole):
            with pytest.raises(FeaturesError, match=message):
                Agent.load(file, oracle=TopK(K), features=features)


def test_contexts_whose_items_live_elsewhere(tmp_path):
    features = Outer(FRAME)
    agent = learned(CombLinTS(), features({"a": 1.0, "b": 0.0, "c": 0.5}))
    agent.save(tmp_path / "agent.npz", features=False)
    again = Outer(FRAME.sample(frac=1, random_state=0)[FRAME.columns[::-1]])
    back = Agent.load(
        tmp_path / "agent.npz",
        oracle=TopK(K),
        features=again({"c": 0.5, "a": 1.0, "b": 0.0}),
        seed="saved",
    )
    assert back.names == agent.names
    assert isinstance(back.problem.Phi, InContext)  # so that items may come by their own features
    assert state(back) == state(agent)
    assert back.choose().tolist() == agent.choose().tolist()

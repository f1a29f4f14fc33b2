"""Forgetting by time, priors from earlier agents, items whose features change."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from superarm import Agent, CombLinTS, CombMixTS, CombTS, CombUCB1, TopK, gaussian
from superarm.agent import decisions
from superarm.contexts import Concatenated, Outer
from superarm.errors import FeaturesError, ItemsError, ParameterError
from support import COLUMNS, FEATURES, FRAME, NAMES, Bare, D, K, L, make, play, state

HOUR = timedelta(hours=1)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        time = datetime(2026, 1, 1, tzinfo=UTC)

        def later(self, hours):
            self.time += hours * HOUR

    found = Clock()
    monkeypatch.setattr(decisions, "now", lambda: found.time)
    return found


def test_after_the_half_life_feedback_counts_half(clock):
    agent = Agent(
        CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(K), half_life=6 * HOUR
    )
    agent.observe([0, 1, 2], [1.0, 2.0, 3.0])
    clock.later(12)
    agent.observe([3], [1.0])
    expected = gaussian.condition(
        gaussian.prior(D, 1.0),
        FEATURES[:4],
        np.array([1.0, 2.0, 3.0, 1.0]),
        0.5,
        np.array([0.25, 0.25, 0.25, 1.0]),
    )
    np.testing.assert_allclose(gaussian.mean(agent.belief), gaussian.mean(expected), rtol=1e-10)


@pytest.mark.parametrize("learner", [CombLinTS(), CombMixTS(), CombTS(), CombUCB1()], ids=repr)
def test_what_is_old_is_forgotten_also_without_feedback(clock, learner):
    agent = Agent(learner, features=FEATURES, oracle=TopK(K), half_life=HOUR, seed=0)
    fresh = Agent(learner, features=FEATURES, oracle=TopK(K), seed=0)
    play(agent, 30)
    clock.later(2000)
    agent.choose()
    start = learner.model.prior(fresh.problem)
    for name in learner.model.per_item:
        np.testing.assert_allclose(getattr(agent.belief, name), getattr(start, name), atol=1e-9)


def test_a_clock_that_is_set_back_lets_nothing_fade(clock, tmp_path):
    agent = Agent(
        CombLinTS(), features=FEATURES, oracle=TopK(K), half_life=timedelta(seconds=1), seed=0
    )
    play(agent, 5)
    before = state(agent)
    agent.save(tmp_path / "agent.npz")
    clock.later(-24)
    agent.choose()
    assert state(agent) == before
    back = Agent.load(tmp_path / "agent.npz", oracle=TopK(K))
    back.choose()
    assert state(back) == before


def test_time_fades_alike_in_small_and_in_large_steps(clock):
    agents = [
        Agent(CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(K), half_life=HOUR)
        for _ in range(2)
    ]
    for agent in agents:
        agent.observe([0, 1, 2], [1.0, 2.0, 3.0])
    for _ in range(500):
        clock.later(0.01)
        agents[0].choose()
    clock.later(0.05)
    means = [gaussian.mean(agent.snapshot()[0].belief) for agent in agents]
    np.testing.assert_allclose(*means, rtol=1e-9)
    clock.later(-3)  # a clock that was put back forgets nothing
    agents[0].choose()
    np.testing.assert_array_equal(gaussian.mean(agents[0].belief), means[0])


def test_the_half_life_is_saved(clock, tmp_path):
    agent = Agent(
        CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(K), half_life=6 * HOUR
    )
    agent.observe([0, 1, 2], [1.0, 2.0, 3.0])
    agent.save(tmp_path / "agent.npz")
    clock.later(6)
    back = Agent.load(tmp_path / "agent.npz", oracle=TopK(K))
    back.choose()
    agent.choose()
    assert back.half_life == 6 * HOUR
    assert state(back) == state(agent)


@pytest.mark.parametrize("bad", [6, timedelta(), -HOUR, "6h", float("nan")])
def test_half_lives_that_are_none(bad):
    with pytest.raises(ParameterError, match="half_life must be a positive"):
        make_with(half_life=bad)
    with pytest.raises(ParameterError, match=r"Bare has no method forget"):
        Agent(Bare(), features=FEATURES, oracle=TopK(K), half_life=HOUR)


def make_with(learner=None, **options):
    options = {"features": FEATURES, "oracle": TopK(K), "seed": 7} | options
    return Agent(learner or CombLinTS(lam=1.0, sigma=0.5), **options)


# --- priors ---------------------------------------------------------------------------------------


def test_a_discounted_prior_counts_that_share_of_the_past():
    old, new = make_with(), make_with()
    old.observe([0, 1, 2], [1.0, 2.0, 3.0])
    new.prior_from(old, 0.3)
    new.observe([3], [1.0])
    w = np.array([1.0, 2.0, 3.0, 1.0])
    share = np.array([0.3, 0.3, 0.3, 1.0])
    expected = gaussian.condition(gaussian.prior(D, 1.0), FEATURES[:4], w, 0.5, share)
    np.testing.assert_allclose(gaussian.mean(new.belief), gaussian.mean(expected), rtol=1e-10)
    assert not new.ledger.observed


def test_a_prior_of_items_goes_by_id():
    old = make_with(CombTS(), items=NAMES)
    old.observe(["artist 3", "artist 5"], [1.0, 0.0])
    order = ["new", *NAMES[:0:-1]]
    new = make_with(CombTS(), items=order)
    new.prior_from(old, 0.5)
    alpha = dict(zip(order, new.belief.alpha, strict=True))
    beta = dict(zip(order, new.belief.beta, strict=True))
    assert alpha["artist 3"] == 1.5 and beta["artist 5"] == 1.5
    assert alpha["new"] == 1.0 and sum(alpha.values()) == L + 0.5
    mixed, later = (make_with(CombMixTS(), items=ids) for ids in (NAMES, order))
    play(mixed, 20)
    later.prior_from(mixed, 1.0)
    assert later.belief.t == mixed.belief.t
    later.choose()


def test_priors_that_do_not_fit():
    old = make_with()
    play(old, 3)
    new = make_with()
    before = state(new)
    with pytest.raises(ParameterError, match=r"discount must lie in \(0, 1\]"):
        new.prior_from(old, 0.0)
    with pytest.raises(ParameterError, match="a prior needs another agent"):
        new.prior_from(new, 0.5)
    with pytest.raises(ParameterError, match="a prior needs the same learner"):
        new.prior_from(make_with(CombTS()), 0.5)
    with pytest.raises(FeaturesError, match="same features"):
        new.prior_from(make_with(features=FEATURES[:, 1:]), 0.5)
    assert state(new) == before
    with pytest.raises(ParameterError, match="has learned already"):
        old.prior_from(new, 0.5)


# --- items whose features change ------------------------------------------------------------------


def test_items_get_other_features():
    agent = make_with(features=FRAME)
    play(agent, 5)
    belief = agent.belief
    agent.update_items(2 * FRAME.loc[["artist 5", "artist 2"]][COLUMNS[::-1]])
    expected = FEATURES.copy()
    expected[[2, 5]] *= 2
    np.testing.assert_array_equal(agent.problem.Phi, expected)
    np.testing.assert_array_equal(FRAME.to_numpy(), FEATURES)
    np.testing.assert_array_equal(agent.belief.factor, belief.factor)
    agent.update_items(FEATURES[:1], ["artist 5"])
    np.testing.assert_array_equal(agent.problem.Phi[5], FEATURES[0])


def test_a_deviation_from_features_goes_with_them():
    agent = make_with(CombMixTS(lam=1.0, sigma=0.3, tau=0.2))
    agent.observe([2, 5], [1.0, 2.0])
    agent.update_items(FEATURES[:1], [5])
    assert agent.belief.n.tolist() == [float(e == 2) for e in range(L)]
    assert agent.belief.n_unknown_rows == 1  # what the old features said stays
    contextual = make_with(CombMixTS(contexts=True))
    contextual.observe([2, 5], [1.0, 2.0])
    contextual.update_items(FEATURES[:1], [5])
    assert contextual.belief.n.sum() == 2
    counted = make_with(CombTS())
    counted.observe([2, 5], [1.0, 0.0])
    counted.update_items(FEATURES[:1], [5])
    assert counted.belief.beta[5] == 2.0


@pytest.mark.parametrize("kind", [Outer, Concatenated])
def test_items_in_a_context_get_other_features(kind):
    agent = make_with(features=kind(FRAME)([1.0, 0.5]))
    agent.update_items(FRAME.iloc[[0]].set_axis(["artist 7"]))
    changed = FRAME.copy()
    changed.loc["artist 7"] = FRAME.iloc[0]
    expected = np.asarray(kind(changed)([1.0, 0.5]))
    np.testing.assert_array_equal(np.asarray(agent.problem.Phi), expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: a.update_items(FEATURES[:2], ["artist 1"]), ItemsError, "2 rows of features"),
        (lambda a: a.update_items(FEATURES[:1], ["nobody"]), ItemsError, "'nobody' is not one of"),
        (lambda a: a.update_items(FEATURES[:1]), ItemsError, "flat list"),
        (lambda a: a.update_items(FEATURES[:1, 1:], ["artist 1"]), FeaturesError, "shape"),
        (lambda a: a.update_items(np.full((1, D), np.nan), ["artist 1"]), FeaturesError, "finite"),
        (
            lambda a: a.update_items(pd.DataFrame([[1.0]], columns=["x"]), ["artist 1"]),
            FeaturesError,
            "feature 'age' is missing",
        ),
    ],
)
def test_bad_updates_change_nothing(call, error, message):
    agent = make_with(features=FRAME)
    before = state(agent)
    with pytest.raises(error, match=message):
        call(agent)
    assert state(agent) == before


def test_sparse_items_get_other_features():
    from scipy.sparse import csr_array

    agent = make_with(features=csr_array(FEATURES))
    agent.update_items(FEATURES[:1], [5])
    np.testing.assert_array_equal(agent.problem.Phi.toarray()[5], FEATURES[0])
    assert make().choose().tolist()


AUTO = [CombLinTS(), CombLinTS(lam=1.0, link="logit"), CombMixTS(), CombTS(), CombUCB1()]


@pytest.mark.parametrize("learner", AUTO, ids=repr)
def test_a_prior_comes_after_changes_of_items_and_hours_without_feedback(clock, learner):
    """Neither is feedback; and the prior fades from when it was given, not from the start."""
    past = make(learner)
    play(past, 20)
    agent = Agent(learner, features=FEATURES[:9], oracle=TopK(K), half_life=HOUR, seed=0)
    agent.add_items(FEATURES[9:])
    agent.update_items(1.1 * FEATURES[3:5], [3, 4])
    agent.remove_items([0])
    agent.choose()
    clock.later(5)
    agent.choose()
    clock.later(5)
    agent.prior_from(past, 1.0)
    given = [np.array(x) for x in agent.belief]
    agent.choose()
    for before, now in zip(given, agent.belief, strict=True):
        np.testing.assert_array_equal(before, now)
    with pytest.raises(ParameterError, match="has learned already"):
        agent.prior_from(past, 1.0)


def test_a_prior_comes_to_an_agent_that_was_saved_untaught(tmp_path):
    past = make()
    play(past, 20)
    make().save(tmp_path / "new.npz")
    past.save(tmp_path / "past.npz")
    Agent.load(tmp_path / "new.npz", oracle=TopK(K)).prior_from(past, 0.5)
    with pytest.raises(ParameterError, match="has learned already"):
        Agent.load(tmp_path / "past.npz", oracle=TopK(K)).prior_from(make(), 0.5)

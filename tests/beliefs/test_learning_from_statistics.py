"""Statistics of groups of observations say all that the single ones do."""

import numpy as np
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
    Feedback,
    Problem,
    Statistics,
    TopK,
    gaussian,
)
from superarm.errors import ParameterError, WeightsError
from support import FEATURES, Bare, K, L, make, state

LEARNERS = [
    CombLinTS(lam=2.0, sigma=0.5),
    CombLinUCB(lam=2.0, sigma=0.5, c=1.0),
    CombLinTS(),
    CombLinTS(lam=2.0),
    CombLinTS(forgetting=0.9),
    CombMixTS(lam=2.0, sigma=0.5, tau=0.3),
    CombMixTS(),
    CombMixTS(contexts=True),
    CombMixTS(tau=0.0),
    CombGaussianTS(lam=2.0, sigma=0.5),
    CombUCB1(),
]


def statistics(w, group, G):
    n = np.bincount(group, minlength=G)
    return Statistics(n, np.bincount(group, w, G), np.bincount(group, w**2, G))


def assert_same(learner, problem, one, other):
    for name, a, b in zip(one._fields, one, other, strict=True):
        if name in (
            "residual_factor",
            "unknown_item_factor",
            "observation_factor",
        ):  # which need not have full rank
            a, b = a.mT @ a, b.mT @ b
        size = np.abs(a).max(initial=1e-3)
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7 * size, err_msg=name)
    for name in ("lam", "sigma", "tau"):
        if name in one._fields:
            a, b = getattr(one, name), getattr(other, name)
            np.testing.assert_allclose(b, a, rtol=1e-6, err_msg=name)
    mean = learner.model.mean(one, problem)
    np.testing.assert_allclose(learner.model.mean(other, problem), mean, rtol=1e-6, atol=1e-8)


@given(st.integers(0, 2**32 - 1), st.sampled_from(LEARNERS), st.booleans())
@settings(max_examples=60)
def test_statistics_of_items_say_what_their_observations_do(seed, learner, constant):
    rng = np.random.default_rng(seed)
    E, d = 30, 4
    Phi = rng.standard_normal((E, d))
    if constant:
        Phi[:, 0] = 1.0
    problem = Problem(Phi, TopK(3))
    start = learner.model.prior(problem)
    for t in range(3):
        item = np.sort(np.append(rng.integers(0, E, rng.integers(1, 200)), rng.integers(0, E)))
        noise = rng.normal(0, 0.5, len(item)) + rng.normal(0, 0.3, E)[item]
        w = Phi[item] @ [1.0, -1.0, 0.5, 2.0] + noise + 3.0 * t
        seen = np.unique(item)
        found = Statistics(*(x[seen] for x in statistics(w, item, E)))
        by_rows = learner.model.learn(start, problem, Feedback.of(problem, item, w))
        by_items = learner.model.learn(start, problem, Feedback.of(problem, seen, found))
        assert_same(learner, problem, by_rows, by_items)
        start = by_rows


@given(st.integers(0, 2**32 - 1), st.sampled_from(LEARNERS[:9]))
@settings(max_examples=40)
def test_statistics_of_logged_rows_say_what_the_rows_do(seed, learner):
    """Rows that are of no item: each observation has a deviation of its own."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 40, 50)
    rows = rng.standard_normal((50, 4))
    group = np.arange(50).repeat(n)
    w = rows[group] @ [1.0, -1.0, 0.5, 2.0] + rng.normal(0, 0.5, len(group))
    problem = Problem(rng.standard_normal((9, 4)), TopK(3))
    start = learner.model.prior(problem)
    single = Feedback(np.full(len(w), -1), rows[group], w)
    found = statistics(w, group, 50)
    mean = found.sum / found.n
    within = np.bincount(group, (w - mean[group]) ** 2)
    summed = Feedback(
        np.full(50, -1), rows, mean, found.n, n_observations=found.n, residual_ss=within
    )
    one = learner.model.learn(start, problem, single)
    assert_same(learner, problem, one, learner.model.learn(start, problem, summed))


@pytest.mark.parametrize("learner", [CombLinTS(), CombMixTS()])
def test_the_evidence_is_that_of_the_rows(learner):
    """At the same scales, the log marginal likelihood is the same number."""
    from superarm import gaussian

    rng = np.random.default_rng(3)
    problem = Problem(FEATURES, TopK(3))
    item = np.sort(rng.integers(0, L, 300))
    w = FEATURES[item] @ [1.0, 0.0, 2.0, -1.0] + rng.normal(0, 0.4, 300)
    seen = np.unique(item)
    found = Statistics(*(x[seen] for x in statistics(w, item, L)))
    start = learner.model.prior(problem)
    one = learner.model.learn(start, problem, Feedback.of(problem, item, w))
    other = learner.model.learn(start, problem, Feedback.of(problem, seen, found))
    assert float(gaussian.log_evidence(other)) == pytest.approx(
        float(gaussian.log_evidence(one)), rel=1e-9
    )


def test_a_million_rows_by_item_find_the_noise():
    """Means with importance n cannot: they show one residual each."""
    rng = np.random.default_rng(0)
    E, n = 50, 20_000
    Phi = rng.standard_normal((E, 5))
    mean = Phi @ rng.standard_normal(5)
    w = mean[:, None] + 0.5 * rng.standard_normal((E, n))
    found = Statistics(np.full(E, n), w.sum(1), (w**2).sum(1))
    for learner in (CombLinTS(), CombMixTS()):
        agent = Agent(learner, features=Phi, oracle=TopK(3), seed=0)
        agent.observe(np.arange(E), found)
        assert float(agent.belief.sigma) == pytest.approx(0.5, rel=2e-3)  # se 5e-4


@pytest.mark.parametrize("link", ["logit", "coins"])
def test_clicks_and_views(link):
    """The likelihood of clicks depends on their sum alone."""
    rng = np.random.default_rng(1)
    clicks, views = rng.binomial(30, 0.3, L), np.full(L, 30)
    learner = CombTS() if link == "coins" else CombLinTS(lam=1.0, link="logit")
    one, other = make(learner), make(learner)
    one.observe(np.arange(L), clicks / views, importance=views)
    other.observe(np.arange(L), Statistics(views, clicks, clicks))
    for a, b in zip(one.belief, other.belief, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
    before = state(other)
    with pytest.raises(WeightsError, match=r"beyond \[0, 1\]"):
        other.observe([0], Statistics([2], [1.0], [4.0]))
    assert state(other) == before


def test_by_item_for_decisions_and_for_many():
    rng = np.random.default_rng(2)
    one, other = make(CombLinTS()), make(CombLinTS())
    decisions = [one.decide() for _ in range(2)]
    views = [rng.standard_normal((K, 8)) for _ in decisions]
    lists = [Statistics(np.full(K, 8), v.sum(1), (v**2).sum(1)) for v in views]
    named = []
    for decision, found in zip(decisions, lists, strict=True):
        backwards = [dict(zip(decision.items, x, strict=True)) for x in found]
        named.append(Statistics(*(dict(reversed(x.items())) for x in backwards)))
    one.observe(decisions, lists)
    other.observe(decisions, named)
    for a, b in zip(one.belief, other.belief, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10)
    assert float(one.belief.n_rows) == 2 * K * 8


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("given", ["statistics", "importance"])
def test_items_that_were_removed_before_they_were_observed(given, contexts):
    """However often one was seen, what it adds of its own hides what it says of features."""
    learner = CombMixTS(lam=10.0, sigma=0.5, tau=1.0, contexts=contexts)
    agent, twin = (Agent(learner, features=FEATURES, oracle=TopK(K), seed=1) for _ in range(2))
    decision = agent.decide()
    gone = decision.items[:2]
    n = 10_000
    w = dict.fromkeys(gone, 2.0)
    if given == "importance":
        feedback = {"weights": w, "importance": dict.fromkeys(gone, n)}
    else:
        squares = dict.fromkeys(gone, n * 4.25)
        feedback = {
            "weights": Statistics(dict.fromkeys(gone, n), dict.fromkeys(gone, 2.0 * n), squares)
        }
    agent.remove_items(gone)
    agent.observe(decision, **feedback)
    twin.observe(decision, **feedback)
    twin.remove_items(gone)
    spread = [gaussian.std(one.belief, np.eye(FEATURES.shape[1])) for one in (agent, twin)]
    np.testing.assert_allclose(*spread, rtol=1e-9)
    np.testing.assert_allclose(
        gaussian.mean(agent.belief), gaussian.mean(twin.belief), rtol=1e-9, atol=1e-12
    )


def test_saved_and_merged(tmp_path):
    rng = np.random.default_rng(4)
    v = rng.standard_normal((2, L, 20))
    agents = [make(CombMixTS()), make(CombMixTS()), make(CombMixTS())]
    for i, agent in enumerate(agents[:2]):
        agent.observe(np.arange(L), Statistics(np.full(L, 20), v[i].sum(1), (v[i] ** 2).sum(1)))
    both = np.concatenate(v, axis=1)
    agents[2].observe(np.arange(L), Statistics(np.full(L, 40), both.sum(1), (both**2).sum(1)))
    agents[0].save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", oracle=TopK(K))
    loaded.merge(agents[1])
    assert float(loaded.belief.n_residuals) == 40 * L
    for name in ("sigma", "tau", "lam"):
        a, b = getattr(loaded.belief, name), getattr(agents[2].belief, name)
        assert float(a) == pytest.approx(float(b), rel=1e-3), name  # rounded to three digits


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (Statistics([2, 2], [1.0, 1.0], [0.1, 9.0]), WeightsError, "no observations"),
        (Statistics([1, 1], [1.0, 1.0], [1.0, 2.0]), WeightsError, "no observations"),
        (Statistics([0, 2], [1.0, 1.0], [9.0, 9.0]), WeightsError, "at least one"),
        (Statistics([2, 2], [np.nan, 1.0], [9.0, 9.0]), WeightsError, "finite"),
        (Statistics([2], [1.0], [9.0]), WeightsError, "2 numbers"),
        (Statistics([2, 2], [1.0], [9.0, 9.0]), WeightsError, "one shape"),
        (Statistics([2, 2], ["a", "b"], [9.0, 9.0]), WeightsError, "must be numbers"),
        (Statistics({0: 2, 1: 2}, {0: 1.0}, {0: 9.0, 1: 9.0}), WeightsError, "exactly these items"),
    ],
)
def test_statistics_that_none_can_have_are_refused(given, error, says):
    agent = make(CombMixTS())
    before = state(agent)
    with pytest.raises(error, match=says):
        agent.observe([0, 1], given)
    assert state(agent) == before


def test_what_does_not_go_together_is_refused():
    agent = make(CombMixTS())
    found = Statistics([2, 2], [1.0, 1.0], [9.0, 9.0])
    with pytest.raises(ParameterError, match="leave importance out"):
        agent.observe([0, 1], found, importance=2.0)
    with pytest.raises(ParameterError, match="Bare cannot learn from statistics"):
        make(Bare()).observe([0, 1], found)
    with pytest.raises(WeightsError, match="one shape"):
        agent.learn(FEATURES[:2], Statistics([2], [1.0, 2.0], [9.0, 9.0]))

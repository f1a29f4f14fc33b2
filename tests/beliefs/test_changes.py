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
    CombMixUCB,
    CombTS,
    CombUCB1,
    Greedy,
    Problem,
    RandomChoice,
    TopK,
    gaussian,
)
from superarm.beliefs.random_effects import RandomEffects
from superarm.errors import DecisionError, FeaturesError, ItemsError, NumericalError, ParameterError
from support import FEATURES, Bare, D, K, L, Stubborn, learn_rows, make, play, state, update

FIXED = [
    CombLinTS(lam=1.0, sigma=0.3),
    CombLinTS(lam=10.0, sigma=1e-7),
    CombLinTS(lam=1e-3, sigma=10.0),
    CombLinUCB(lam=1.0, sigma=0.3, c=1.0),
    Greedy(lam=2.0, sigma=0.5),
    CombMixTS(lam=1.0, sigma=0.3, tau=0.2),
    CombMixUCB(lam=1.0, sigma=0.3, tau=0.2, c=1.0),
    CombTS(),
    CombGaussianTS(lam=1.0, sigma=0.3),
    CombUCB1(),
    RandomChoice(),
]


def feedback(n, seed):
    rng = np.random.default_rng(seed)
    return [
        (rng.choice(L, K, replace=False), rng.integers(0, 2, K).astype(float)) for _ in range(n)
    ]


def learned(learner, *parts):
    agent = make(learner)
    for part in parts:
        for items, w in part:
            agent.observe(items, w)
    return agent


def assert_alike(belief, other, rtol=1e-9):
    """All that a belief says: its evidence as a whole, and of kept widths nothing, as they may be
    out of date."""
    if hasattr(belief, "factor"):
        np.testing.assert_allclose(
            gaussian.log_evidence(belief), gaussian.log_evidence(other), rtol=rtol
        )
        belief, other = ({**x._asdict(), "factor": x.factor[:-1]} for x in (belief, other))
    else:
        belief, other = belief._asdict(), other._asdict()
    for name in belief.keys() - {
        "log_normalizer",
        "variance",
        "last_exact",
        "fingerprint",
        "probe",
        "updates",
    }:
        a, b = belief[name], other[name]
        np.testing.assert_allclose(
            a, b, rtol=rtol, atol=rtol * np.abs(b).max(initial=0.0), err_msg=name
        )


@pytest.mark.parametrize("learner", FIXED, ids=repr)
def test_merging_is_learning_from_the_union(learner):
    here, there = feedback(20, 0), feedback(30, 1)
    agent, other, union = (
        learned(learner, here),
        learned(learner, there),
        learned(learner, here, there),
    )
    before = state(other)
    agent.merge(other)
    assert_alike(agent.belief, union.belief)
    weights = (
        learner.scores(a.belief, a.problem, np.random.default_rng(2)) for a in (agent, union)
    )
    np.testing.assert_allclose(*weights, rtol=1e-7)
    assert state(other) == before


@settings(max_examples=60)
@given(
    st.floats(-3, 3),
    st.floats(-7, 3),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 2**32 - 1),
)
def test_merged_beliefs_over_all_scales(log_lam, log_sigma, n, m, seed):
    """Mean and factor of the union, relative to the size of the belief, whatever λ and σ are."""
    lam, sigma, rng = 10.0**log_lam, 10.0**log_sigma, np.random.default_rng(seed)
    d = 5
    rows, theta = rng.standard_normal((n + m, d)), rng.standard_normal(d)
    w = rows @ theta + sigma * rng.standard_normal(n + m)
    prior = gaussian.prior(d, lam)
    a, b = (gaussian.condition(prior, rows[s], w[s], sigma) for s in (slice(n), slice(n, None)))
    both, union = gaussian.merge(a, b, prior), gaussian.condition(prior, rows, w, sigma)
    R, z = union.R, union.factor[:-1, -1]
    size = np.abs(R).max(axis=-1, keepdims=True)
    np.testing.assert_allclose(both.R / size, R / size, atol=1e-9)
    np.testing.assert_allclose(
        both.factor[:-1, -1], z, atol=1e-9 * max(1.0, np.abs(z).max(initial=0.0))
    )
    assert (both.R.diagonal() > 0).all()
    if n + m:
        scale = np.linalg.norm(gaussian.mean(union)) + 1e-300
        assert (
            np.linalg.norm(gaussian.mean(both) - gaussian.mean(union)) <= 1e-6 * scale
        )  # times the condition number


def test_batches_merge_as_singles_do():
    rng, prior = np.random.default_rng(0), gaussian.prior(3, 1.0, (4,))
    a, b = (
        gaussian.condition(prior, rng.standard_normal((4, 5, 3)), rng.standard_normal((4, 5)), 0.5)
        for _ in "ab"
    )
    both = gaussian.merge(a, b, prior)
    for i in range(4):
        one = gaussian.merge(
            *(gaussian.Gaussian(x.factor[i], x.log_normalizer[i]) for x in (a, b, prior))
        )
        np.testing.assert_allclose(both.factor[i], one.factor, rtol=1e-12)
        np.testing.assert_allclose(gaussian.log_evidence(both)[i], gaussian.log_evidence(one))


def test_the_evidence_of_what_was_merged():
    here, there = feedback(20, 0), feedback(30, 1)
    learner = CombLinTS(lam=1.0, sigma=0.3)
    agent = learned(learner, here)
    agent.merge(learned(learner, there))
    expected = gaussian.log_evidence(learned(learner, here, there).belief)
    np.testing.assert_allclose(gaussian.log_evidence(agent.belief), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "learner", [CombLinTS(), CombLinUCB(c=1.0, sigma=0.3), CombMixTS(), CombMixUCB(c=1.0)], ids=repr
)
def test_scales_that_are_auto_are_those_of_all_feedback(learner):
    """The union chooses its scales when it has seen 32 of 32 episodes; merging does at once."""
    here, there = feedback(12, 0), feedback(20, 1)
    agent, union = learned(learner, here), learned(learner, here, there)
    agent.merge(learned(learner, there))
    assert union.belief.t == 32
    assert_alike(agent.belief, union.belief)


def test_streams_that_forget_side_by_side():
    """Each episode both observe: the union observes what both did as one episode."""
    learner = CombLinTS(lam=1.0, sigma=0.3, forgetting=0.9)
    here, there = feedback(15, 0), feedback(15, 1)
    agent, union = learned(learner, here), make(learner)
    belief = union.belief
    for (a, v), (b, w) in zip(here, there, strict=True):
        rows = FEATURES[[*a, *b]]
        belief = learn_rows(learner, belief, union.problem, rows, np.append(v, w))
    agent.merge(learned(learner, there))
    np.testing.assert_allclose(agent.belief.factor[:-1], belief.factor[:-1], rtol=1e-9, atol=1e-9)


def test_clicks_add_up_approximately():
    """Gaussian approximations of two halves: near that of the whole, relative to its standard
    deviations."""
    learner = CombLinTS(lam=1.0, link="logit")
    here, there = feedback(40, 0), feedback(40, 1)
    agent, union = learned(learner, here), learned(learner, here, there)
    agent.merge(learned(learner, there))
    off = gaussian.mean(agent.belief) - gaussian.mean(union.belief)
    assert (np.abs(off) < 0.4 * gaussian.std(union.belief, np.eye(D))).all()


def test_catalogues_may_differ_where_features_are_all_that_is_known():
    learner = CombLinTS(lam=1.0, sigma=0.3)
    other = Agent(learner, features=FEATURES[:4], oracle=TopK(2), seed=0)
    other.observe([0, 3], [1.0, 0.0])
    agent, expected = make(learner), make(learner)
    agent.merge(other)
    expected.observe([0, 3], [1.0, 0.0])
    np.testing.assert_allclose(agent.belief.factor, expected.belief.factor, atol=1e-12)


def test_agents_that_do_not_fit_together_stay_as_they_are():
    agent = make()
    play(agent, 5)
    before = state(agent)
    with pytest.raises(ParameterError, match="the same learner"):
        agent.merge(make(CombLinTS(lam=1.0, sigma=0.4)))
    with pytest.raises(FeaturesError, match="the same features"):
        agent.merge(Agent(agent.learner, features=np.eye(5), oracle=TopK(1)))
    decision = agent.decide()
    agent.observe(decision, {decision.items[0]: 1.0})
    other = make()
    other.observe(decision, [1.0, 1.0, 0.0])
    before = state(agent)
    with pytest.raises(
        DecisionError, match=f"both agents observed the same items of decision {decision.id}"
    ):
        agent.merge(other)
    with pytest.raises(ParameterError, match="another agent"):
        agent.merge("agent.npz")
    assert state(agent) == before
    with pytest.raises(ItemsError, match="the same items in the same order"):
        make(CombTS()).merge(Agent(CombTS(), features=FEATURES[:5], oracle=TopK(1)))
    with pytest.raises(
        ParameterError, match=r"Bare has no method merge\(\.\.\.\), which this needs"
    ):
        make(Bare()).merge(make(Bare()))


def test_what_either_observed_counts_as_observed():
    agent, other = make(), make()
    decision = agent.decide()
    a, b, c = decision.items
    agent.observe(decision, {a: 1.0})
    other.observe(decision, {b: 1.0})
    agent.merge(other)
    for item in (a, b):
        with pytest.raises(DecisionError, match="was observed before"):
            agent.observe(decision, {item: 1.0})
    agent.observe(decision, {c: 1.0})


# --- another catalogue ----------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [*FIXED, CombLinTS(lam=1.0, link="logit")], ids=repr)
def test_new_items_are_as_if_they_had_always_been_there(learner):
    """Feedback on the first items, with and without the others beside them."""
    some = [(items % 8, w) for items, w in feedback(15, 0) if len(set(items % 8)) == K]
    grown = Agent(learner, features=FEATURES[:8], oracle=TopK(K), seed=7)
    for items, w in some:
        grown.observe(items, w)
    grown.add_items(FEATURES[8:])
    assert_alike(grown.belief, learned(learner, some).belief)


@pytest.mark.parametrize("learner", [CombLinTS(), CombMixTS(), CombMixUCB(c=1.0)], ids=repr)
def test_new_items_are_as_if_they_had_always_been_there_once_scales_are_chosen_anew(learner):
    """Prior stds follow the columns of all items; those of the first 8 were others."""
    rng = np.random.default_rng(0)
    some = [(rng.choice(8, K, replace=False), rng.standard_normal(K)) for _ in range(16)]
    grown = Agent(learner, features=FEATURES[:8], oracle=TopK(K), seed=7)
    for items, w in some[:10]:
        grown.observe(items, w)
    before = gaussian.mean(grown.belief)
    grown.add_items(FEATURES[8:])
    np.testing.assert_allclose(gaussian.mean(grown.belief), before, atol=0.05)
    for items, w in some[10:]:
        grown.observe(items, w)
    assert_alike(grown.belief, learned(learner, some).belief)


@pytest.mark.parametrize(
    "learner", [x for x in FIXED if not isinstance(x, CombMixTS | CombMixUCB)], ids=repr
)
def test_what_is_known_of_the_others_stays(learner):
    agent, parts = learned(learner, feedback(15, 0)), feedback(15, 0)
    agent.remove_items([2, 5])
    left = np.delete(np.arange(L), [2, 5])
    whole = learned(learner, parts).belief
    for name, value in agent.belief._asdict().items():
        if name in ("n", "weight_sums", "alpha", "beta"):
            np.testing.assert_array_equal(value, getattr(whole, name)[left])
        elif name == "factor":
            np.testing.assert_array_equal(value, whole.factor)
        elif name == "variance":
            np.testing.assert_allclose(value, gaussian.std(whole, FEATURES[left]) ** 2)


def test_removing_an_item_leaves_the_marginal_belief_about_the_others():
    learner = CombMixTS(lam=1.0, sigma=0.3, tau=0.4, explore=1.0)
    agent = learned(learner, feedback(15, 0))
    before = agent.explain(np.delete(np.arange(L), [2, 5]), draws=1)
    agent.remove_items([2, 5])
    after = agent.explain(agent.items, draws=1)
    np.testing.assert_array_equal(after.score, before.score)
    np.testing.assert_array_equal(after.std, before.std)


def test_scales_are_found_from_items_that_are_gone():
    """Half of 400 items are removed before the scales are chosen anew: the answer is near that of
    all of them."""
    rng = np.random.default_rng(0)
    Phi, learner = rng.standard_normal((400, 3)), CombMixTS()
    mean = Phi @ np.array([1.0, -0.5, 0.2]) + 0.4 * rng.standard_normal(400)
    agents = [Agent(learner, features=Phi, oracle=TopK(50), seed=0) for _ in range(2)]
    for t in range(32):
        if t == 31:
            agents[1].remove_items(np.arange(0, 400, 2))
        items = rng.choice(np.arange(1, 400, 2) if t == 31 else 400, 100, replace=False)
        w = mean[items] + 0.3 * rng.standard_normal(100)
        for agent in agents:
            agent.observe(items, w)
    whole, half = (agent.belief for agent in agents)
    assert whole.t == half.t == 32
    for name in ("lam", "sigma", "tau"):
        np.testing.assert_allclose(getattr(half, name), getattr(whole, name), rtol=0.1)
    np.testing.assert_allclose(gaussian.mean(half), gaussian.mean(whole), atol=0.05)
    np.testing.assert_allclose(half.tau, 0.4, rtol=0.15)


def test_moving_needs_no_help_from_the_learner():
    problem, to = (Problem(FEATURES[:n], TopK(K)) for n in (L, L - 1))
    learner = Stubborn(favourite=4)
    belief = update(
        learner, learner.model.prior(problem), problem, np.array([3, 1]), np.array([2.0, 1.0])
    )
    after = learner.model.resize(belief, problem, to, np.array([1, 3, *range(4, L - 1), -1, 0]))
    assert after.weight_sums.tolist() == [1.0, 2.0, *[0.0] * (L - 3)]
    assert after.t == 1


def test_mixed_beliefs_without_observations_move_freely():
    agent = make(CombMixTS())
    agent.remove_items([0])
    assert isinstance(agent.belief, RandomEffects)
    assert agent.belief.n_unknown_rows == 0
    assert agent.learner.model.merge(agent.belief, agent.belief, agent.problem).t == 0


def test_what_is_merged_of_nothing_but_zeros():
    """Zeros say nothing about scales, and all the more about θ."""
    for learner in (CombLinTS(), CombMixTS()):
        agent, other, union = make(learner), make(learner), make(learner)
        for _ in range(8):
            other.observe([0, 1, 2], [0.0, 0.0, 0.0])
            union.observe([0, 1, 2], [0.0, 0.0, 0.0])
        agent.merge(other)
        np.testing.assert_allclose(
            *(a.explain([0, 5], draws=1).std for a in (agent, union)), rtol=1e-9
        )


@pytest.mark.parametrize("sigma", [1.0, 1e-5, 1e-7, 1e-9])
def test_the_residual_of_data_that_the_model_explains(sigma):
    rng = np.random.default_rng(0)
    rows, theta = rng.standard_normal((120, 4)), rng.standard_normal(4)
    w = rows @ theta + sigma * rng.standard_normal(120)
    prior = gaussian.prior(4, 10.0)
    a, b = (gaussian.condition(prior, rows[s], w[s], sigma) for s in (slice(60), slice(60, None)))
    both, union = gaussian.merge(a, b, prior), gaussian.condition(prior, rows, w, sigma)
    np.testing.assert_allclose(both.factor[-1, -1], union.factor[-1, -1], rtol=1e-7)
    np.testing.assert_allclose(gaussian.log_evidence(both), gaussian.log_evidence(union), rtol=1e-8)


def test_beliefs_too_large_to_merge_stay_as_they_are():
    agent, other = (make(CombLinTS(lam=1.0, sigma=1.0)) for _ in range(2))
    agent.observe([0, 1, 2], [1e160, 0.0, 1.0])
    before = state(agent)
    with pytest.raises(NumericalError, match="too large to merge"):
        agent.merge(other)
    assert state(agent) == before


def test_agents_of_other_features_or_the_same_agent():
    learner = CombMixTS(lam=1.0, sigma=0.3, tau=0.2)
    with pytest.raises(FeaturesError, match="needs the same features"):
        make(learner).merge(Agent(learner, features=FEATURES[::-1], oracle=TopK(K)))
    agent = make()
    with pytest.raises(ParameterError, match="another agent"):
        agent.merge(agent)


def test_removing_items_whose_observations_count_less_than_one():
    agent = make(CombMixTS())
    agent.observe([0], [1.0], importance=0.8)
    agent.observe([0], [3.0], importance=0.8)
    agent.observe([1], [1.0], importance=0.5)
    agent.remove_items([0])
    assert (agent.belief.n_residuals, agent.belief.n_unknown_rows) == (2, 1)
    agent.remove_items([1])
    assert (agent.belief.n_residuals, agent.belief.n_unknown_rows) == (1, 2)
    np.testing.assert_allclose(agent.belief.residual_factor[-1, -1] ** 2, 0.8 * 1**2 + 0.8 * 1**2)
    rng = np.random.default_rng(0)
    few = Agent(CombMixTS(), features=rng.standard_normal((60, 3)), oracle=TopK(5), seed=0)
    for t in range(64):
        items = few.items[rng.choice(len(few.items), 10, replace=False)]
        few.observe(items, rng.standard_normal(10), importance=0.2)
        if t == 40:
            few.remove_items(few.items[::2])
    assert 0.2 < few.belief.sigma**2 + few.belief.tau**2 < 5


def test_items_without_features_leave_no_loose_rows():
    agent = Agent(CombMixTS(), features=np.zeros((4, 2)), oracle=TopK(2), seed=0)
    agent.observe([0, 1], [1.0, 2.0])
    agent.remove_items([0])
    assert agent.belief.n_unknown_rows == 0


@pytest.mark.parametrize("learner", [CombLinTS(), CombMixTS()], ids=repr)
def test_new_items_in_large_units_do_not_outweigh_the_others(learner):
    """A column that no item had before gets a prior that suits its units at once."""
    agent = Agent(learner, features=np.eye(4)[:3], oracle=TopK(1), seed=0)
    for _ in range(5):
        agent.observe(agent.choose(), [1.0])
    agent.add_items([[0.0, 0.0, 0.0, 1e9]])
    width = agent.learner.model.std(agent.belief, agent.problem)
    assert width[3] < 100 * width[:3].max()

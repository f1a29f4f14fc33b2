import itertools

import numpy as np
import pytest

from superarm import Agent, CombLinTS, CombLinUCB, CombMixTS, CombTS, Quota, TopK, gaussian
from superarm.errors import FeaturesError, ItemsError, ParameterError
from superarm.figures import plot_explanation
from support import FEATURES, K, L, make, play, state


def test_scores_and_contributions_add_up():
    agent = make()
    play(agent, 20)
    found = agent.explain([3, 0, 7], draws=50)
    np.testing.assert_allclose(found.score, FEATURES[[3, 0, 7]] @ gaussian.mean(agent.belief))
    np.testing.assert_allclose(found.contributions.sum(-1) + found.deviation, found.score)
    np.testing.assert_allclose(found.std, gaussian.std(agent.belief, FEATURES[[3, 0, 7]]))


def test_deviations_of_the_mixed_model():
    agent = make(CombMixTS(lam=1.0, sigma=0.3, tau=0.5, explore=1.0))
    play(agent, 20)
    found = agent.explain(np.arange(L), draws=10)
    draws = np.stack(
        [agent.learner.scores(agent.belief, agent.problem, agent.rng) for _ in range(20_000)]
    )
    assert (np.abs(draws.mean(0) - found.score) < 5 * found.std / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(0), found.std, rtol=0.04)
    assert found.deviation.any()


@pytest.mark.parametrize(
    "oracle", [TopK(2), Quota([0, 1] * 2, {0: 1, 1: 1})], ids=["TopK", "Quota"]
)
def test_propensities_are_those_of_enumeration(oracle):
    """θ has two coefficients, so the plane of θ is cut into sectors: count a fine, even grid of
    directions."""
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((4, 2))
    agent = Agent(CombLinTS(lam=1.0, sigma=1.0), features=Phi, oracle=oracle, seed=3)
    angle = (np.arange(200_000) + 0.5) / 200_000 * 2 * np.pi
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    sets = oracle(directions @ Phi.T)  # before any feedback θ is as likely to point anywhere
    exact = np.array([(sets == e).any(-1).mean() for e in range(4)])
    found = agent.explain(range(4), draws=4000)
    assert (np.abs(found.chosen - exact) <= 3 * found.chosen_se + 1e-4).all()
    np.testing.assert_allclose(found.chosen.sum(), 2.0)


def test_masks_and_a_learner_without_randomness():
    agent = make(CombLinUCB(lam=1.0, sigma=0.3, c=1.0))
    play(agent, 10)
    mask = np.ones(L, bool)
    mask[[0, 1]] = False
    found = agent.explain(np.arange(L), available=mask, draws=5)
    assert set(np.flatnonzero(found.chosen)) == set(agent.choose(available=mask).tolist())
    assert not found.chosen_se.any()
    assert not found.chosen[[0, 1]].any()


def test_the_agent_stays_as_it_is():
    agent = make()
    play(agent, 5)
    before = state(agent)
    agent.explain([1, 2], draws=20)
    for items, error in (([1, 1], ItemsError), ([L], ItemsError)):
        with pytest.raises(error):
            agent.explain(items)
    with pytest.raises(ParameterError, match="draws"):
        agent.explain([1], draws=0)
    with pytest.raises(FeaturesError, match="CombTS knows nothing of features"):
        make(CombTS()).explain([1])
    assert state(agent) == before


def test_table_and_plot(tmp_path):
    agent = make(CombMixTS())
    play(agent, 20)
    found = agent.explain(range(K), draws=30)
    lines = str(found).splitlines()
    assert len(lines) == K + 2
    assert all(
        f"{item:>8}" in line
        for item, line in zip(range(K), itertools.islice(lines, 1, None), strict=False)
    )
    plot_explanation(found, ["age", "sex", "hours", "school"]).savefig(tmp_path / "explanation.png")
    assert (tmp_path / "explanation.png").read_bytes()[:4] == b"\x89PNG"


def test_kept_widths_are_those_of_the_items_that_are_explained():
    """With many features widths are kept for the whole catalogue, and asked for of some items."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((12, 6))
    learner = CombLinUCB(lam=1.0, sigma=0.5, c=1.0)
    agent = Agent(learner, features=features, oracle=TopK(2), seed=0)
    for _ in range(3):
        found = agent.explain([3, 0, 7], draws=3)
        np.testing.assert_allclose(found.std, gaussian.std(agent.belief, features[[3, 0, 7]]))
        items = agent.choose()
        agent.observe(items, rng.standard_normal(2))


def test_without_deviations_there_are_none():
    agent = make(CombMixTS(lam=1.0, sigma=0.3, tau=0.0))
    play(agent, 10)
    assert (agent.explain([0, 3, 5], draws=3).deviation == 0).all()

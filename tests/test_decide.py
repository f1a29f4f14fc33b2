import tracemalloc

import numpy as np
import pytest

from superarm import Agent, CombLinTS, CombLinUCB, CombMixTS, CombTS, Greedy, Problem, Quota, TopK
from superarm import decide as decide_module
from superarm.decide import decide, in_context
from superarm.errors import FeaturesError, InfeasibleError, WeightsError
from superarm.oracles.base import Masked
from support import update


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(decide_module, "LARGE", 50)
    monkeypatch.setattr(decide_module, "PART", 7)


def both(learner, problem, seed=0):
    """The decision by parts and at once, and what each leaves of the generator."""
    belief = learner.model.prior(problem)
    belief = update(learner, belief, problem, np.arange(3), np.array([1.0, 0.0, 1.0]))
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    at_once = problem.oracle(learner.weights(belief, problem, other))
    return decide(learner, belief, problem, one), at_once, one.random(), other.random()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize(
    "learner", [CombLinTS(lam=1.0, sigma=0.5), CombLinTS(), Greedy(lam=1.0, sigma=0.5)], ids=repr
)
def test_by_parts_is_at_once(small_parts, seed, at_most, learner):
    rng = np.random.default_rng(seed)
    Phi = rng.integers(-1, 2, (100, 4)).astype(float)  # many ties
    problem = Problem(Phi, TopK(int(rng.integers(1, 12)), at_most=at_most))
    if seed % 2:
        problem = problem._replace(oracle=Masked(problem.oracle, rng.random(100) < 0.5))
    parts, at_once, after, after_at_once = both(learner, problem, seed)
    np.testing.assert_array_equal(parts, at_once)
    assert after == after_at_once


@pytest.mark.parametrize("learner", [CombTS(), CombLinUCB(lam=1.0, sigma=0.5, c=1.0)], ids=repr)
def test_other_learners_and_oracles_see_all_weights(small_parts, learner):
    Phi = np.random.default_rng(0).standard_normal((100, 4))
    np.testing.assert_array_equal(*both(learner, Problem(Phi, TopK(5)))[:2])
    quota = Problem(Phi, Quota([0, 1] * 50, {0: 2, 1: 2}))
    np.testing.assert_array_equal(*both(CombLinTS(lam=1.0, sigma=0.5), quota)[:2])


def test_parts_without_enough_items(small_parts):
    learner = CombLinTS(lam=1.0, sigma=1.0)
    available = np.zeros(100, bool)
    available[[3, 97]] = True
    problem = Problem(np.ones((100, 4)), Masked(TopK(3), available))
    with pytest.raises(InfeasibleError):
        decide(learner, learner.model.prior(problem), problem, np.random.default_rng(0))


def test_parts_are_checked():
    with pytest.raises(WeightsError, match="the weight of item 3 is nan"):
        TopK(1).of_parts([np.zeros(2), np.array([0.0, np.nan])])


def test_memory_of_a_decision_over_a_memory_mapped_catalogue(tmp_path):
    """A million items in float32; the file is read a part at a time and never copied."""
    L, d = 1_000_000, 8
    rng = np.random.default_rng(0)
    np.save(tmp_path / "features.npy", rng.standard_normal((L, d), dtype=np.float32))
    features = np.load(tmp_path / "features.npy", mmap_mode="r")
    agent = Agent(CombLinTS(lam=1.0, sigma=0.5), features=features, oracle=TopK(10), seed=0)
    assert agent.problem.Phi.dtype == np.float32
    assert np.shares_memory(agent.problem.Phi, features)
    agent.choose()
    tracemalloc.start()
    items = agent.choose()
    agent.observe(items, np.ones(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6  # where all scores, in float64, would take 8 MB
    assert agent.learner.weights(agent.belief, agent.problem, agent.rng).dtype == np.float32


def test_a_subclass_may_weigh_items_otherwise(small_parts):
    class Favours(CombLinTS):
        def weights(self, belief, problem, rng):
            return super().weights(belief, problem, rng) + np.arange(problem.L)

    problem = Problem(np.eye(100)[:, :4], TopK(2))
    learner = Favours(lam=1e-3, sigma=1.0)
    chosen = decide(learner, learner.model.prior(problem), problem, np.random.default_rng(0))
    assert chosen.tolist() == [99, 98]


def test_a_problem_in_context_has_the_features_of_the_call():
    problem = Problem(np.eye(3), TopK(1))
    linear, itemwise, mixed = CombLinTS(lam=1.0, sigma=1.0), CombTS(), CombMixTS()
    for learner in (linear, itemwise):
        np.testing.assert_array_equal(
            in_context(learner, problem, 2 * np.eye(3)).Phi, 2 * np.eye(3)
        )
        with pytest.raises(FeaturesError, match=r"must have shape \(3, 3\)"):
            in_context(learner, problem, np.eye(2))
    assert in_context(mixed, problem, None) is problem
    with pytest.raises(
        FeaturesError,
        match=r"CombMixTS learns how items deviate .*: the features must stay the same",
    ):
        in_context(mixed, problem, np.eye(3))

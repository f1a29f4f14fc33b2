"""Threads that share an agent over shards, or a population."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from superarm import CombLinTS, CombMixTS, Population, TopK, sharded

FEATURES = np.random.default_rng(0).standard_normal((900, 4))
THETA = np.array([1.0, -1.0, 0.5, 0.0])
THREADS = 4
TURNS = 40


@pytest.fixture
def impatient():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work):
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, k) for k in range(THREADS)]:
            done.result()


@pytest.mark.parametrize("shards", [1, 3])
def test_no_feedback_to_a_population_is_lost_between_threads(impatient, shards):
    given = {"features": FEATURES, "oracle": TopK(4), "seed": 0, "shards": shards}
    population = Population(CombLinTS(lam=1.0, sigma=0.5), **given)
    seen = []

    def work(k):
        for i in range(TURNS):
            users = [f"{k}: {i % 7}", "everybody's"]
            items = population.choose(users)
            weights = [FEATURES[each] @ THETA for each in items]
            population.observe(users, items, weights)
            seen.append((users, items, weights))

    in_threads(work)
    one_by_one = Population(CombLinTS(lam=1.0, sigma=0.5), **given)
    for call in seen:
        one_by_one.observe(*call)
    assert sorted(population.users) == sorted(one_by_one.users)
    for user in one_by_one.users:
        found = population.belief(user).factor
        np.testing.assert_allclose(found, one_by_one.belief(user).factor, atol=1e-9)


def test_no_feedback_to_a_catalogue_in_shards_is_lost_between_threads(impatient):
    learner = CombMixTS(lam=1.0, sigma=0.5, tau=0.3)
    given = {"features": FEATURES, "oracle": TopK(4), "shards": 3, "seed": 0}
    agent = sharded.Agent(learner, **given)
    seen = []
    new = []

    def work(k):
        for _ in range(TURNS):
            chosen = agent.choose()
            agent.observe(chosen, chosen.rows @ THETA)
            seen.append(chosen)
        new.extend(agent.add_items(np.full((2, 4), float(k))))

    in_threads(work)
    assert sorted(new) == list(range(900, 900 + 2 * THREADS))
    drawn = np.random.default_rng(0)
    drawn.integers(2**63, size=THREADS * TURNS)
    assert agent._rng.bit_generator.state == drawn.bit_generator.state
    one_by_one = sharded.Agent(learner, **given)
    one_by_one.choose()
    for chosen in seen:
        one_by_one.observe(chosen, chosen.rows @ THETA)
    np.testing.assert_allclose(agent.belief.factor, one_by_one.belief.factor, atol=1e-9)
    order = np.argsort(agent._known)
    other = np.argsort(one_by_one._known)
    np.testing.assert_array_equal(agent._known[order], one_by_one._known[other])
    np.testing.assert_allclose(agent.belief.n[order], one_by_one.belief.n[other])
    np.testing.assert_allclose(agent.belief.total[order], one_by_one.belief.total[other])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_copies_share_no_lock(copied):
    agent = sharded.Agent(CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(4), seed=0)
    agent.choose()
    other = copied(agent)
    with agent._lock, ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(other.choose).result(timeout=60).items) == 4
    np.testing.assert_array_equal(other.belief.factor, agent.belief.factor)

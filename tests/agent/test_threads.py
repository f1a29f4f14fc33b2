"""Several threads, and several processes that loaded the same file."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest

from superarm import Agent, CombLinTS, CombMixTS, CombTS, TopK, gaussian
from superarm.errors import ParameterError
from support import FEATURES, NAMES, K, L, make, play, state

THREADS = 4


def in_threads(work, n):
    """What `work(i)` returns for 0..n-1, from several threads that start at the same time."""
    barrier = threading.Barrier(THREADS)

    def run(first):
        barrier.wait()
        return [work(i) for i in range(first, n, THREADS)]

    with ThreadPoolExecutor(THREADS) as pool:
        return [x for part in pool.map(run, range(THREADS)) for x in part]


def test_no_feedback_is_lost_between_threads():
    """Ledger and belief hold all of 600 decisions; both are what one thread would have made."""
    learner = CombLinTS(lam=1.0, sigma=0.5)
    agent = Agent(learner, features=FEATURES, oracle=TopK(K), seed=0)

    def serve(i):
        decision = agent.decide()
        agent.observe(decision, np.sin(np.arange(K) + i))
        return decision, np.sin(np.arange(K) + i)

    served = in_threads(serve, 600)
    assert len(agent.ledger.observed) == 600
    rows = np.concatenate([decision.features for decision, _ in served])
    w = np.concatenate([weights for _, weights in served])
    expected = gaussian.condition(gaussian.prior(rows.shape[1], 1.0), rows, w, 0.5)
    np.testing.assert_allclose(gaussian.mean(agent.belief), gaussian.mean(expected), atol=1e-10)
    spread = gaussian.std(agent.belief, FEATURES)
    np.testing.assert_allclose(spread, gaussian.std(expected, FEATURES), rtol=1e-10)
    assert len({decision.seed for decision, _ in served}) == 600


def test_items_of_their_own_are_counted_once_per_thread():
    agent = make(CombTS())

    def serve(i):
        agent.observe(agent.choose(), np.ones(K))

    in_threads(serve, 400)
    assert agent.belief.alpha.sum() - len(FEATURES) == 400 * K


def test_threads_that_change_the_catalogue_while_others_choose():
    """No decision holds an item that was gone before it, and none of another name."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 4))
    agent = Agent(CombMixTS(), features=rows[:100], items=range(1000, 1100), oracle=TopK(5), seed=0)
    features = dict(zip(range(1000, 1400), rows, strict=True))

    def serve(i):
        if i % 4 == 3:
            agent.add_items(rows[100 + i : 101 + i], [1100 + i])
            agent.remove_items([1000 + i // 4])
        else:
            decision = agent.decide()
            for item, row in zip(decision.items, decision.features, strict=True):
                np.testing.assert_array_equal(features[item], row)
            agent.observe(decision, np.zeros(5))

    in_threads(serve, 200)
    assert len(agent.items) == 100
    assert len(agent.ledger.observed) == 150
    assert agent.problem.L == 100


class Slow:
    """A model whose updates take a while."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)

    def learn(self, *args):
        learning.set()
        finish.wait(20)
        return self.model.learn(*args)


learning, finish = threading.Event(), threading.Event()


def test_choosing_does_not_wait_for_learning():
    agent = make(CombLinTS(lam=1.0, sigma=0.5))
    object.__setattr__(agent.learner, "model", Slow(agent.learner.model))
    items = agent.choose()
    with ThreadPoolExecutor(1) as pool:
        learned = pool.submit(agent.observe, items, np.ones(K))
        learning.wait(20)
        before = [x.tobytes() for x in agent.belief]
        for _ in range(5):
            agent.choose()
            agent.decide()
        assert not learned.done()
        assert [x.tobytes() for x in agent.belief] == before
        finish.set()
        learned.result(20)
    assert [x.tobytes() for x in agent.belief] != before


def test_choosing_does_not_wait_for_learning_where_the_past_fades_and_items_left():
    """Both would be put in order first, if nobody were learning."""
    learner = CombLinTS(lam=1.0, sigma=0.5)
    options = {"half_life": timedelta(microseconds=1), "seed": 0}
    agent = Agent(learner, features=FEATURES, oracle=TopK(K), **options)
    agent.observe(agent.choose(), np.ones(K))
    agent.remove_items([0, 5])
    with ThreadPoolExecutor(1) as pool, agent._updating:
        shown = [
            pool.submit(agent.choose),
            pool.submit(agent.choose, features=np.delete(FEATURES, [0, 5], axis=0)),
            pool.submit(agent.decide, oracle=TopK(2)),
        ]
        assert len([one.result(20) for one in shown]) == 3
    assert agent.problem.L == L - 2


def test_an_oracle_may_ask_the_agent_that_asks_it():
    asked = []

    def best(w):
        if not asked:
            asked.append(agent)
            asked.append(agent.choose())
            agent.observe(asked[-1], [1.0])
            agent.explain([0], draws=2)
        return [int(np.argmax(w))]

    agent = make(oracle=best)
    chosen = ThreadPoolExecutor(1).submit(agent.choose).result(20)
    assert len(chosen) == len(asked[1]) == 1


def test_a_failing_oracle_leaves_the_agent_to_others():
    def broken(w):
        raise KeyboardInterrupt

    agent = make()
    before = state(agent)
    for call in (agent.choose, agent.decide):
        with pytest.raises(KeyboardInterrupt):
            call(oracle=broken)
    assert state(agent) == before
    shown = ThreadPoolExecutor(1).submit(play, agent, 3)
    assert len(shown.result(20)) == 3


# --- several servers ------------------------------------------------------------------------------


def regret(servers, reloads, alike, rng):
    """Mean regret per decision of servers that start from one agent again and again, alike or with
    randomness of their own, and whose feedback that agent learns.
    """
    theta = np.random.default_rng(5).standard_normal(6)
    features = np.random.default_rng(6).standard_normal((60, 6))
    mean = features @ theta
    best = np.sort(mean)[-3:].sum()
    learner = Agent(CombLinTS(lam=1.0, sigma=2.0), features=features, oracle=TopK(3), seed=rng)
    lost = []
    for _ in range(reloads):
        started = copy.deepcopy(learner)
        noise = np.random.default_rng([rng, len(lost)])
        for _ in range(servers):
            server = copy.deepcopy(started)
            if not alike:
                server.rng = np.random.default_rng([rng, len(lost), 1])
            items = server.choose()
            lost.append(best - mean[items].sum())
            learner.observe(items, mean[items] + 2.0 * noise.standard_normal(3))
    return np.mean(lost)


def test_servers_that_load_the_same_file_explore_by_themselves(tmp_path):
    path = tmp_path / "agent.npz"
    make().save(path)
    servers = [Agent.load(path, oracle=TopK(K)) for _ in range(8)]
    assert len({str(play(server, 5)) for server in servers}) == 8
    alike = [Agent.load(path, oracle=TopK(K), seed="saved") for _ in range(3)]
    assert len({str(play(server, 5)) for server in alike}) == 1
    first, again = (Agent.load(path, oracle=TopK(K), seed=3) for _ in range(2))
    assert play(first, 5) == play(again, 5)
    for bad in ("fresh", -1, 1.5):
        with pytest.raises(ParameterError, match="seed must be a whole number"):
            Agent.load(path, oracle=TopK(K), seed=bad)


def test_several_servers_lose_less_than_copies_of_one():
    """8 servers, 12 reloads, 24 runs: the difference is more than three standard errors."""
    fresh = np.array([regret(8, 12, False, run) for run in range(24)])
    saved = np.array([regret(8, 12, True, run) for run in range(24)])
    lost = saved - fresh
    assert lost.mean() > 3 * lost.std() / len(lost) ** 0.5
    assert fresh.mean() < 0.8 * saved.mean()


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda a: pickle.loads(pickle.dumps(a))]
)
def test_copies_share_nothing(copied):
    agent = Agent(CombMixTS(), features=FEATURES.copy(), items=NAMES, oracle=TopK(K), seed=7)
    decision = agent.decide()
    agent.remove_items([next(name for name in NAMES if name not in decision.items)])
    other = copied(agent)
    assert state(other) == state(agent)
    before = state(agent)
    other.observe(decision, np.ones(K))
    other.add_items(FEATURES[:1], ["new"])
    other.problem.Phi[:] = 0.0
    other.choose()
    assert state(agent) == before
    agent.observe(decision, np.ones(K))
    assert not np.shares_memory(agent.problem.Phi, other.problem.Phi)


def test_copies_are_whole_while_others_learn_and_change_items():
    """Each holds the feedback that its ledger names, and no more; and its items can go on."""
    agent = Agent(CombTS(), features=FEATURES, items=NAMES, oracle=TopK(K), seed=7)
    done = threading.Event()

    def serve():
        for i in range(300):
            agent.observe(agent.decide(), np.ones(K))
            agent.add_items(FEATURES[:1], [f"new {i}"])
            agent.remove_items([f"new {i}"])
            agent.choose()
        done.set()

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        copies = []
        while not done.is_set() and not served.done():
            copies.append(copy.deepcopy(agent))
            copies.append(pickle.loads(pickle.dumps(agent)))
        served.result(60)
    for other in copies:
        heads = other.belief.alpha.sum() - len(other.items)
        assert heads == K * len(other.ledger.observed)
        before = set(other.items)
        other.remove_items(NAMES[:1])
        assert set(other.items) == before - {NAMES[0]}


@pytest.mark.parametrize("learner", [CombMixTS(), CombTS(), CombTS(alpha=[1.0] * L)], ids=repr)
def test_what_is_kept_per_item_grows_when_it_is_needed(learner):
    """Items that come one by one, and items that come at once, are the same."""
    one_by_one, at_once = make(learner), make(learner)
    for agent in (one_by_one, at_once):
        play(agent, 5)
    rows = np.concatenate([FEATURES, FEATURES + 1])
    for row in rows:
        one_by_one.add_items(row[None])
    one_by_one.remove_items([3])
    at_once.add_items(rows)
    at_once.remove_items([3])
    assert play(one_by_one, 5) == play(at_once, 5)
    assert state(one_by_one) == state(at_once)


def test_one_add_after_another_copies_no_features():
    agent = make(CombLinTS(lam=1.0, sigma=0.3))
    agent.add_items(FEATURES[:1])
    before = agent.problem.Phi
    agent.add_items(FEATURES[:1])
    assert np.shares_memory(before, agent.problem.Phi)
    assert before.shape == (len(FEATURES) + 1, 4)


def test_a_slow_oracle_makes_nobody_wait():
    solving, done = threading.Event(), threading.Event()

    def slow(w):
        solving.set()
        done.wait(20)
        return np.argsort(-w)[:K]

    agent = make(CombLinTS(lam=1.0, sigma=0.5))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.choose, oracle=slow)
        solving.wait(20)
        for _ in range(5):
            agent.observe(agent.choose(), np.ones(K))
            agent.decide()
        assert not waiting.done()
        done.set()
        assert len(waiting.result(20)) == K

"""Threads that share an agent over shards, or a population; and Ctrl-C while these change."""

import copy
import os
import pickle
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from superarm import CombLinTS, CombMixTS, Population, TopK, sharded
from superarm.cluster import locks
from superarm.cluster.locks import MADE, held_interrupts
from superarm.cluster.places import Places
from superarm.cluster.population.user_shard import Users
from superarm.cluster.shards import Shard

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
    np.testing.assert_allclose(
        agent.belief.weight_sums[order], one_by_one.belief.weight_sums[other]
    )


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_copies_share_no_lock(copied):
    agent = sharded.Agent(CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(4), seed=0)
    agent.choose()
    other = copied(agent)
    with agent._lock.held, ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(other.choose).result(timeout=60).items) == 4
    np.testing.assert_array_equal(other.belief.factor, agent.belief.factor)


# --- Ctrl-C ---------------------------------------------------------------------------------------


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(patch, owner, name, call):
    """The KeyboardInterrupt of a call, during which Ctrl-C comes where a method begins."""
    method = getattr(owner, name)

    def with_interrupt(*given):
        interrupt()
        return method(*given)

    with patch.context() as patched:
        patched.setattr(owner, name, with_interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            call()
    return caught.value


def notes(error):
    return getattr(error, "__notes__", [])


def test_an_interrupt_waits_for_what_holds_it():
    done = []

    def work():
        with held_interrupts():
            with held_interrupts():
                interrupt()
                done.append(1)
            interrupt()
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_that_are_ignored_or_of_another_thread_are_not_held():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(held_interrupts().__enter__).result() is None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)


CHANGES = {
    "learn": lambda one, chosen: one.observe(chosen, chosen.rows @ THETA),
    "extend": lambda one, _: one.add_items(9 * np.ones((3, 4))),
    "remove": lambda one, chosen: one.remove_items(chosen.items),
}


def two_agents():
    learner = CombMixTS(lam=1.0, sigma=0.5, tau=0.3)
    given = {"features": FEATURES, "oracle": TopK(4), "shards": 3, "seed": 0}
    return [sharded.Agent(learner, **given) for _ in range(2)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at", ["shard", "count", "shard of a cluster", "count of a cluster"])
def test_a_change_of_a_catalogue_is_made_wholly_or_not_at_all(monkeypatch, change, at):
    """On a cluster, Ctrl-C ends the wait for the shards, which may have changed."""
    agent, twin = two_agents()
    chosen, _ = (one.choose() for one in (agent, twin))
    agent._shards._here = "cluster" not in at
    where = (Shard, change) if "shard" in at else (Places, "_count")
    error = interrupted(monkeypatch, *where, lambda: CHANGES[change](agent, chosen))
    is_made = at != "shard of a cluster"
    assert notes(error) == [MADE] * is_made
    if is_made:
        CHANGES[change](twin, chosen)
    for _ in range(3):
        again, same = (one.choose() for one in (agent, twin))
        np.testing.assert_array_equal(again.items, same.items)
        for one in (agent, twin):
            one.observe(again, again.rows @ THETA)
    np.testing.assert_array_equal(agent.add_items(FEATURES[:3]), twin.add_items(FEATURES[:3]))
    np.testing.assert_array_equal(agent.belief.factor, twin.belief.factor)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    "where", [(Users, "_with_users"), (Places, "_count"), (Population, "_fitted")]
)
def test_an_interrupt_loses_no_feedback_to_a_population(monkeypatch, shards, where):
    given = {"features": FEATURES, "oracle": TopK(4), "seed": 0, "shards": shards}
    population, twin = (Population(CombLinTS(), **given) for _ in range(2))
    for _ in range(2):
        users = [f"user {i}" for i in range(9)]
        items, _ = (one.choose(users) for one in (population, twin))
        weights = [FEATURES[each] @ THETA for each in items]
        call = (users, items, weights)
        error = interrupted(monkeypatch, *where, lambda call=call: population.observe(*call))
        assert notes(error) == [MADE]
        twin.observe(*call)
    np.testing.assert_array_equal(population.choose(users), twin.choose(users))
    assert population.sigma == twin.sigma
    np.testing.assert_array_equal(population._all.data, twin._all.data)


MODULES = str(Path(locks.__file__).parent)


def interrupting(call, at):
    """Make a call in which Ctrl-C comes at one of the moments where Python may hear it: where a
    function of the package, or one that it calls itself, begins or ends; of those in C where they
    end. Returns whether the call had fewer of these.
    """
    left = at

    def hear(frame, event, _):
        nonlocal left
        files = [each.f_code.co_filename for each in (frame, frame.f_back) if each]
        is_over = frame.f_code.co_name == "alone" and event == "return"
        if is_over or event == "c_call" or not any(file.startswith(MODULES) for file in files):
            return
        left -= 1
        if left == -1:
            interrupt()

    sys.setprofile(hear)
    try:
        call()
    finally:
        sys.setprofile(None)
    return left >= 0


def is_free(lock):
    found = lock.acquire(blocking=False)
    if found:
        lock.release()
    return found


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_note_tells_whether_an_interrupted_change_was_made(change, here):
    agent, twin = two_agents()
    agent._shards._here = here
    is_over = False
    for at in range(2000):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(is_free, agent._lock.held).result()
        chosen = agent.choose()
        np.testing.assert_array_equal(chosen.items, twin.choose().items)
        is_made = True
        try:
            is_over = interrupting(lambda made=chosen: CHANGES[change](agent, made), at)
        except KeyboardInterrupt as error:
            is_made = notes(error) == [MADE]
        if is_made:
            CHANGES[change](twin, chosen)
        if is_over:
            break
    assert is_over and at > 30
    np.testing.assert_array_equal(agent.belief.factor, twin.belief.factor)

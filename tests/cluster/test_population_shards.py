"""A population whose users are in shards: what one process would choose and learn."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import insist

from superarm import CombLinTS, CombLinUCB, Greedy, Population, TopK
from superarm.arrays import item_normal
from superarm.cluster.population import population as population_module
from superarm.cluster.population import user_shard
from superarm.cluster.population.user_shard import Users, keys_of
from superarm.engine import ray_nodes
from superarm.errors import ClusterError, ItemsError, ParameterError

L, D, K = 40, 5, 4
FEATURES = np.random.default_rng(0).standard_normal((L, D))
TASTE = np.random.default_rng(1).standard_normal((60, D))
TS = CombLinTS(lam=1.0, sigma=0.5)
KILLS = int(os.environ.get("SUPERARM_SHARD_KILLS", "2"))


@dataclass(frozen=True, kw_only=True)
class Jittered(CombLinTS):
    """A learner of one's own, which draws for each user."""

    def scores(self, belief, problem, rng):
        weights = super().scores(belief, problem, rng)
        return weights + 0.1 * item_normal(rng, weights)


def make(learner=TS, shards=1, **options):
    given = {"features": FEATURES, "oracle": TopK(K), "seed": 0, **options}
    return Population(learner, shards=shards, **given)


def batches(n, seed=2):
    """Users of n calls, some of them more than once in one."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        users = rng.integers(0, 60, 25)
        yield users, [f"user {u}" for u in users], rng.standard_normal((25, K))


def assert_alike(one, other, calls=8, disturb=None):
    """That two populations choose the same items, and believe the same to 1e-12."""
    for t, (users, names, noise) in enumerate(batches(calls)):
        if disturb is not None:
            disturb(t)
        chosen = one.choose(names)
        np.testing.assert_array_equal(chosen, other.choose(names))
        w = np.einsum("nkd,nd->nk", FEATURES[np.array(chosen)], TASTE[users]) + 0.5 * noise
        one.observe(names, chosen, w)
        other.observe(names, chosen, w)
    assert set(one.users) == set(other.users) and len(one) == len(other)
    np.testing.assert_allclose([one.lam, one.sigma], [other.lam, other.sigma], rtol=1e-12)
    for user in [*one.users, "nobody"]:
        np.testing.assert_allclose(one.belief(user).factor, other.belief(user).factor, atol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        TS,
        CombLinTS(),
        CombLinTS(lam=1.0, sigma=0.5, forgetting=0.9),
        CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
        CombLinUCB(c=1.0),
        Greedy(),
        Jittered(lam=1.0, sigma=0.5),
    ],
    ids=repr,
)
def test_shards_are_as_one_process(learner):
    assert_alike(make(learner), make(learner, shards=3))


def test_scales_are_of_the_same_users_in_any_shards(monkeypatch):
    monkeypatch.setattr(user_shard, "FITTED", 10)
    monkeypatch.setattr(population_module, "FITTED", 10)
    assert_alike(make(CombLinTS()), make(CombLinTS(), shards=4))


def test_masks_go_to_the_shards_of_their_users():
    population = make(shards=3, oracle=TopK(2, at_most=True))
    users = list(range(12))
    population.observe(users, [[u] for u in users], np.ones((12, 1)))
    mask = np.zeros((12, L), bool)
    mask[users, users] = True
    for user, items in enumerate(population.choose(users, available=mask)):
        assert set(items) <= {user}
    for items in population.choose(users, available=[1, 2]):
        assert set(items) <= {1, 2}
    assert population.choose([]) == []
    population.observe([], [], [])
    assert len(population) == 12


KEYS = st.recursive(st.text() | st.integers() | st.uuids(), lambda x: st.tuples(x, x))


@given(st.lists(KEYS, min_size=1, max_size=20))
@settings(max_examples=100)
def test_keys_depend_on_the_id_alone(users):
    keys = keys_of(users)
    assert ((keys >= 0) & (keys < 1)).all()
    np.testing.assert_array_equal(keys, [keys_of([user])[0] for user in users])


def test_keys_are_the_same_in_another_process_and_for_equal_ids():
    users = ["ann", ("b", 7), UUID(int=5), 12, -3, "ü"]
    code = (
        "from uuid import UUID\n"
        "from superarm.cluster.population.user_shard import keys_of\n"
        f"print(keys_of({users}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(keys_of(users))
    assert len(set(keys_of([1, 1.0, True, np.int64(1)]))) == 1


def test_users_are_dealt_evenly():
    for users in (range(3000), [f"user {i}" for i in range(3000)], [("a", i) for i in range(3000)]):
        counts = np.bincount((3 * keys_of(users)).astype(int), minlength=3)
        assert (abs(counts - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()


def test_saved_from_shards_and_loaded_into_others(tmp_path):
    one, three = make(CombLinTS(), seed=1), make(CombLinTS(), shards=3, seed=1)
    assert_alike(one, three)
    three.save(tmp_path / "population")
    for shards in (1, 2, 3):
        loaded = Population.load(tmp_path / "population", oracle=TopK(K), seed=7, shards=shards)
        one.rng = np.random.default_rng(7)
        names = [f"user {u}" for u in range(70)]
        np.testing.assert_array_equal(loaded.choose(names), one.choose(names))
    one.rng = np.random.default_rng(7)
    loaded = Population.load(tmp_path / "population", oracle=TopK(K), seed=7, shards=2)
    assert_alike(one, loaded, calls=4)


def test_what_is_refused():
    with pytest.raises(ParameterError, match="shards"):
        make(shards=0)
    population = make(shards=2)
    with pytest.raises(ItemsError):
        population.observe(["a"], [[L]], [[1.0]])
    assert len(population) == 0


def test_an_update_that_fails_halfway_is_not_forgotten(monkeypatch):
    population = make(shards=2)
    population.observe(["a", "b", "c"], [[1]] * 3, [[1.0]] * 3)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Users, "_with_users", fail)
        with pytest.raises(MemoryError):
            population.observe(["a", "b", "c"], [[1]] * 3, [[1.0]] * 3)
    with pytest.raises(ClusterError, match="failed halfway: load"):
        population.choose(["a", "b", "c"])


def test_a_choice_that_fails_draws_nothing(monkeypatch):
    one, other = make(shards=2), make(shards=2)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Users, "choose", fail)
        with pytest.raises(MemoryError):
            one.choose(["a", "b", "c"])
    np.testing.assert_array_equal(one.choose(["a", "b", "c"]), other.choose(["a", "b", "c"]))


# --- on Ray ---------------------------------------------------------------------------------------


def test_killed_shards_lose_nothing(ray, monkeypatch, tmp_path):
    """They are made again from a file and what they have seen, then from what they knew."""
    first = make(CombLinTS())
    for _, names, noise in batches(2, seed=5):
        first.observe(names, first.choose(names), noise)
    first.save(tmp_path / "population")
    options = {"oracle": TopK(K), "seed": 3, "shards": 2}
    here = Population.load(tmp_path / "population", **options)
    with Population.load(tmp_path / "population", **options, cluster="ray") as there:

        def kill(t):
            if t % 2:
                os.kill(there._shards.processes()[t // 2 % 2], signal.SIGKILL)
            elif t:
                monkeypatch.setattr(population_module, "LOGGED", 0)

        assert_alike(there, here, calls=2 * KILLS, disturb=kill)
        assert any(kept.known is not None for kept in there._kept)
        for a, b in zip(there._known(), here._known(), strict=True):
            assert a.users == b.users
            np.testing.assert_array_equal(a.data, b.data)  # the same to the bit


def test_what_a_lost_shard_refused_is_not_counted(ray, monkeypatch):
    """And can be said again: a shard is killed that is given no further try."""
    here = make(CombLinTS(), seed=4)
    monkeypatch.setattr(ray_nodes, "RETRIES", 0)
    with make(CombLinTS(), seed=4, cluster="ray") as there:
        for t, (_, names, noise) in enumerate(batches(3)):
            chosen = there.choose(names)
            np.testing.assert_array_equal(chosen, here.choose(names))
            if t == 1:
                os.kill(there._shards.processes()[0], signal.SIGKILL)
                with pytest.raises(ClusterError):
                    there.observe(names, chosen, noise)
            insist(there.observe, names, chosen, noise)
            here.observe(names, chosen, noise)
        assert there._all.t == here._all.t
        assert there.sigma == here.sigma
        np.testing.assert_array_equal(there._all.data, here._all.data)


def test_what_was_closed_keeps_nothing_in_the_cluster(ray, monkeypatch):
    monkeypatch.setattr(population_module, "LOGGED", 0)
    population = make(shards=2, cluster="ray")
    population.observe(["ann"], [[1]], [[1.0]])
    kept = population._shards._engine.actor_arguments
    one, other = kept
    assert one[1:] == other[1:]  # what both are made from is there once
    population.close()
    population.close()
    assert not kept and population._kept is None

"""Sparse features: whatever an agent does, it does as with the same features, dense."""

import numpy as np
import pytest
import scipy.sparse

from superarm import Agent, CombLinTS, CombLinUCB, CombMixTS, GaussianEnvironment, TopK, simulate
from superarm.arrays import is_sparse
from superarm.contexts import Concatenated, Outer, hashed, packed, unpacked
from superarm.contracts import Problem
from superarm.decide import decide
from superarm.errors import FeaturesError, FileError
from superarm.offline import Log, ips, replay
from support import LEARNERS

L, D, K = 60, 12, 3
RNG = np.random.default_rng(0)
DENSE = RNG.random((L, D)) * (RNG.random((L, D)) < 0.25)
ROWS = scipy.sparse.csr_array(DENSE)


def pair(learner, seed=1):
    """An agent of sparse features, and one of the same features, dense."""
    return [Agent(learner, features=Phi, oracle=TopK(K), seed=seed) for Phi in (ROWS, DENSE)]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_every_learner_weighs_sparse_items_as_dense_ones(learner, tmp_path):
    agents = pair(learner)
    rng = np.random.default_rng(2)
    for _ in range(15):
        w, expected = (
            learner.scores(agent.belief, agent.problem, np.random.default_rng(5))
            for agent in agents
        )
        np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-12)
        items, same = (agent.choose() for agent in agents)
        np.testing.assert_array_equal(items, same)
        shown = rng.integers(0, 2, K)
        for agent in agents:
            agent.observe(items, shown)
    agents[0].save(tmp_path / "sparse.npz")
    back = Agent.load(tmp_path / "sparse.npz", seed="saved", oracle=TopK(K))
    assert is_sparse(back.problem.Phi)
    np.testing.assert_array_equal(back.choose(), agents[1].choose())


@pytest.mark.parametrize("learner", [CombLinTS(), CombLinUCB(lam=1.0, sigma=0.5, c=1.0)], ids=repr)
def test_contexts_explanations_rows_and_a_catalogue_that_changes(learner):
    agents = pair(learner)
    rng = np.random.default_rng(3)
    today = ROWS * 2
    found = []
    for agent, Phi in zip(agents, (today, today.toarray()), strict=True):
        items = agent.choose(features=Phi)
        agent.observe(items, [1.0, 0.0, 2.0], features=Phi)
        agent.learn(Phi[:5], np.arange(5.0))
        agent.add_items(Phi[:4])
        agent.remove_items([0, 7])
        decision = agent.decide(seed=4)
        agent.observe(decision, [0.0, 1.0, 1.0])
        why = agent.explain([1, 60], draws=50)
        found.append([*items, *decision.items, *why.score, *why.std, *why.chosen, *agent.choose()])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)
    sparse, dense = agents
    assert is_sparse(sparse.problem.Phi)
    np.testing.assert_array_equal(sparse.problem.Phi.toarray(), dense.problem.Phi)
    sparse.add_items(rng.standard_normal((2, D)), items=[70, 71])  # dense ones, too
    dense.add_items(ROWS[:2], items=[70, 71])
    assert is_sparse(sparse.problem.Phi)
    assert not is_sparse(dense.problem.Phi)


def test_a_call_with_bad_features_changes_nothing():
    agent, _ = pair(CombLinTS(lam=1.0, sigma=0.5))
    bad = ROWS.copy()
    bad.data[0] = np.nan
    before = agent.rng.bit_generator.state
    with pytest.raises(FeaturesError, match="is nan"):
        agent.choose(features=bad)
    with pytest.raises(FeaturesError, match=r"shape \(60, 12\)"):
        agent.choose(features=ROWS[:5])
    with pytest.raises(FeaturesError, match=r"shape \(n, 12\)"):
        agent.add_items(ROWS[:, :3])
    assert agent.rng.bit_generator.state == before
    assert agent.problem.L == L


def test_agents_merge_if_their_features_are_the_same():
    one, other = (Agent(CombMixTS(), features=ROWS, oracle=TopK(K), seed=s) for s in (1, 2))
    for agent in (one, other):
        agent.observe(agent.choose(), [1.0, 0.0, 2.0])
    one.merge(other)
    third = Agent(CombMixTS(), features=ROWS * 2, oracle=TopK(K))
    with pytest.raises(FeaturesError, match="the same features"):
        one.merge(third)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("indices", np.full(ROWS.nnz, D)),
        ("indptr", np.zeros(L + 1, np.int64)),
        ("indptr", np.arange(3)),
        ("shape", np.array([L, 2])),
        ("shape", np.array([L])),
        ("data", np.full(ROWS.nnz, np.nan)),
        ("data", np.full(ROWS.nnz, 1j)),
    ],
)
def test_damaged_files(field, value, tmp_path):
    agent, _ = pair(CombLinTS(lam=1.0, sigma=0.5))
    path = tmp_path / "agent.npz"
    agent.save(path)
    arrays = dict(np.load(path))
    arrays[f"features.{field}"] = value
    np.savez(path, **arrays)
    with pytest.raises((FileError, FeaturesError)):
        Agent.load(path, seed="saved", oracle=TopK(K))


@pytest.mark.parametrize("make", [Outer, Concatenated])
def test_contexts_of_sparse_items(make):
    rng = np.random.default_rng(6)
    sparse, dense = make(ROWS), make(DENSE)
    learner = CombLinUCB(lam=1.0, sigma=0.5, c=1.0)
    user = rng.standard_normal(3)
    agents = [
        Agent(learner, features=features(user), oracle=TopK(K), seed=1)
        for features in (sparse, dense)
    ]
    for _ in range(5):
        user = rng.standard_normal(3)
        chosen = []
        for agent, features in zip(agents, (sparse, dense), strict=True):
            chosen.append(agent.choose(features=features(user)))
            agent.observe(chosen[-1], [1.0, 0.0, 2.0], features=features(user))
        np.testing.assert_array_equal(*chosen)
    np.testing.assert_allclose(agents[0].belief.factor, agents[1].belief.factor, atol=1e-12)
    product = sparse(user)
    np.testing.assert_array_equal(np.asarray(product), np.asarray(dense(user)))
    back = unpacked(packed(product))
    np.testing.assert_array_equal(np.asarray(back), np.asarray(product))


def test_parts_of_a_large_catalogue(monkeypatch):
    monkeypatch.setattr("superarm.decide.MAX_ITEMS_AT_ONCE", 10)
    monkeypatch.setattr("superarm.oracles.base.CHUNK_ITEMS", 7)
    learner = CombLinTS(lam=1.0, sigma=1.0)
    A, expected = (
        decide(learner, learner.model.prior(problem), problem, np.random.default_rng(5))
        for problem in (Problem(ROWS, TopK(4)), Problem(DENSE, TopK(4)))
    )
    np.testing.assert_array_equal(A, expected)


def instance(Phi):
    def draw(rng):
        world = GaussianEnvironment.coherent(Phi, lam=1.0, sigma=0.5, rng=rng)
        return Problem(Phi, TopK(K)), world

    return draw


def test_simulations_and_logs():
    settings = {"replicates": 2, "episodes": 10, "workers": 1}
    sparse, dense = (
        simulate(instance(Phi), [CombLinTS(lam=1.0, sigma=0.5)], **settings)
        for Phi in (ROWS, DENSE)
    )
    np.testing.assert_allclose(sparse.expected, dense.expected, rtol=1e-12, atol=1e-12)

    rng = np.random.default_rng(0)
    A = np.argsort(rng.random((50, L)))[:, :K]
    w = rng.random(A.shape)
    logs = [Log.of(A, w, np.full(A.shape, K / L), Phi) for Phi in (ROWS, [DENSE] * 50)]
    target = np.full(L, K / L)
    one, two = (ips(log, target) for log in logs)
    assert one.value == pytest.approx(two.value, rel=1e-12)
    learner = CombLinTS(lam=1.0, sigma=0.5)
    runs = [replay(log, learner, TopK(K), rng=np.random.default_rng(1)) for log in logs]
    np.testing.assert_allclose(runs[0].belief.factor, runs[1].belief.factor, atol=1e-12)


def test_hashed_categories_may_be_sparse():
    columns = {"genre": ["jazz", "folk", None], "label": ["a", "a", "b"]}
    rows = hashed(columns, 8, sparse=True)
    assert is_sparse(rows)
    np.testing.assert_array_equal(rows.toarray(), hashed(columns, 8))
    assert hashed(columns, 2**40, sparse=True).nnz == 5

import os
import subprocess
import sys

import numpy as np
import pytest

from superarm import (
    Agent,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    Greedy,
    LaminarMatroid,
    Matroid,
    Problem,
    Quota,
    TopK,
    as_oracle,
    gaussian,
)
from superarm import decide as decide_module
from superarm.arrays import ColumnSelection, Product, broadcast
from superarm.contexts import Concatenated, Outer
from superarm.decide import (
    compile_first_call,
    decide,
    decide_each,
    random_numbers,
    with_features,
    with_features_of_users,
)
from superarm.errors import FeaturesError, InfeasibleError, WeightsError
from superarm.oracles.base import Masked
from support import LEARNERS, Stubborn, peak_memory, update


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(decide_module, "MAX_ITEMS_AT_ONCE", 50)
    monkeypatch.setattr("superarm.oracles.base.CHUNK_ITEMS", 7)


def both(learner, problem, seed=0):
    """The decision by parts and at once, and what each leaves of the generator."""
    belief = learner.model.prior(problem)
    belief = update(learner, belief, problem, np.arange(3), np.array([1.0, 0.0, 1.0]))
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    at_once = problem.oracle(learner.scores(belief, problem, other))
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
    if seed % 3 == 0:
        problem = problem._replace(oracle=Quota(np.arange(100) % 3, {0: 2, 1: 0, 2: 3}))
    if seed % 2:
        problem = problem._replace(oracle=Masked(problem.oracle, rng.random(100) < 0.5))
    parts, at_once, after, after_at_once = both(learner, problem, seed)
    np.testing.assert_array_equal(parts, at_once)
    assert after == after_at_once


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "oracle",
    [
        LaminarMatroid(100, sets=[range(90), range(30), range(40, 80, 3)], capacities=[9, 4, 2]),
        Matroid(100, lambda items: len({e // 10 for e in items}) == len(items), bases=False),
    ],
    ids=["laminar", "any"],
)
def test_matroids_by_parts(small_parts, seed, oracle):
    Phi = np.random.default_rng(seed).integers(-1, 2, (100, 4)).astype(float)  # many ties
    problem = Problem(Phi, oracle)
    np.testing.assert_array_equal(*both(CombLinTS(lam=1.0, sigma=0.5), problem, seed)[:2])


@pytest.mark.parametrize("learner", [CombTS(), CombLinUCB(lam=1.0, sigma=0.5, c=1.0)], ids=repr)
def test_other_learners_and_oracles_see_all_weights(small_parts, learner):
    Phi = np.random.default_rng(0).standard_normal((100, 4))
    np.testing.assert_array_equal(*both(learner, Problem(Phi, TopK(5)))[:2])
    nearly = Problem(Phi, as_oracle(lambda w: [w.argmax()]))
    np.testing.assert_array_equal(*both(CombLinTS(lam=1.0, sigma=0.5), nearly)[:2])


def test_parts_without_enough_items(small_parts):
    learner = CombLinTS(lam=1.0, sigma=1.0)
    available = np.zeros(100, bool)
    available[[3, 97]] = True
    problem = Problem(np.ones((100, 4)), Masked(TopK(3), available))
    with pytest.raises(InfeasibleError):
        decide(learner, learner.model.prior(problem), problem, np.random.default_rng(0))


def test_parts_are_checked():
    with pytest.raises(WeightsError, match="the weight of item 3 is nan"):
        TopK(1).part(slice(2, 4)).candidates(np.array([0.0, np.nan]))


def test_memory_of_a_decision_over_a_memory_mapped_catalogue(tmp_path):
    """A million items in float32; the file is read a part at a time and never copied."""
    L, d = 1_000_000, 8
    rng = np.random.default_rng(0)
    np.save(tmp_path / "features.npy", rng.standard_normal((L, d), dtype=np.float32))
    features = np.load(tmp_path / "features.npy", mmap_mode="r")
    agent = Agent(CombLinTS(lam=1.0, sigma=0.5), features=features, oracle=TopK(10), seed=0)
    assert agent.problem.Phi.dtype == np.float32
    assert np.shares_memory(agent.problem.Phi, features)
    peak = peak_memory(lambda: agent.observe(agent.choose(), np.ones(10)))
    assert peak < 4e6  # where all scores, in float64, would take 8 MB
    assert agent.learner.scores(agent.belief, agent.problem, agent.rng).dtype == np.float32


def test_a_subclass_may_weigh_items_otherwise(small_parts):
    class Favours(CombLinTS):
        def scores(self, belief, problem, rng):
            return super().scores(belief, problem, rng) + np.arange(problem.L)

    problem = Problem(np.eye(100)[:, :4], TopK(2))
    learner = Favours(lam=1e-3, sigma=1.0)
    chosen = decide(learner, learner.model.prior(problem), problem, np.random.default_rng(0))
    assert chosen.tolist() == [99, 98]


def test_a_problem_in_context_has_the_features_of_the_call():
    problem = Problem(np.eye(3), TopK(1))
    linear, itemwise, mixed = CombLinTS(lam=1.0, sigma=1.0), CombTS(), CombMixTS()
    for learner in (linear, itemwise):
        np.testing.assert_array_equal(
            with_features(learner, problem, 2 * np.eye(3)).Phi, 2 * np.eye(3)
        )
        with pytest.raises(FeaturesError, match=r"must have shape \(3, 3\)"):
            with_features(learner, problem, np.eye(2))
    assert with_features(mixed, problem, None) is problem
    with pytest.raises(
        FeaturesError,
        match=r"CombMixTS learns how items deviate .*: the features must stay the same",
    ):
        with_features(mixed, problem, np.eye(3))


# --- many users at once ---------------------------------------------------------------------------

USERS, ITEMS, WIDE = 9, 14, 3
IN_CONTEXTS = [learner for learner in LEARNERS if not learner.model.fixed_features]


def of_users(kind, seed=0):
    """The features of all users, and of each alone."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((ITEMS, WIDE))
    x = rng.standard_normal((USERS, 2))
    if kind.startswith("dense"):
        Phi = rng.standard_normal((USERS, ITEMS, WIDE)).astype(kind.removeprefix("dense "))
        return Phi, list(Phi)
    if kind == "formed product":
        B = rng.standard_normal((USERS, WIDE, 4))
        return Product(Y, B), [Product(Y, b) for b in B]
    if kind == "sparse":
        sparse = pytest.importorskip("scipy.sparse")
        Y = sparse.csr_array(np.where(Y > 0.3, Y, 0.0))
    alone = [(Concatenated if kind == "concatenated" else Outer)(Y)(user) for user in x]
    first = alone[0].right
    scale = np.stack([features.right.scale for features in alone])
    together = Product(alone[0].left, ColumnSelection(first.n_columns, first.source, scale))
    return together, alone


def learned(learner, alone, oracle):
    problem = Problem(alone[0], oracle)
    belief = learner.model.prior(problem)
    rng = np.random.default_rng(3)
    for features in alone[:4]:
        A = rng.permutation(ITEMS)[:3]
        now = problem._replace(Phi=features)
        belief = update(learner, belief, now, A, rng.integers(0, 2, 3).astype(float))
    return problem, belief


KINDS = ["dense float64", "dense float32", "outer", "concatenated", "sparse", "formed product"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learner", IN_CONTEXTS, ids=repr)
def test_each_user_is_decided_for_as_if_alone(learner, kind, monkeypatch):
    together, alone = of_users(kind)
    problem, belief = learned(learner, alone, TopK(4))
    expected = [
        decide(learner, belief, problem._replace(Phi=features), np.random.default_rng(i))
        for i, features in enumerate(alone)
    ]
    users = with_features_of_users(learner, problem, together)
    for at_a_time in (2**21, 3 * ITEMS * WIDE):
        monkeypatch.setattr(decide_module, "NUMBERS_PER_CHUNK", at_a_time)
        generators = [np.random.default_rng(i) for i in range(USERS)]
        found = decide_each(learner, belief, users, generators)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("per_user", [False, True])
def test_masks_for_all_users_or_for_each(per_user, monkeypatch):
    monkeypatch.setattr(decide_module, "NUMBERS_PER_CHUNK", 2 * ITEMS * WIDE)
    learner = CombLinTS(lam=1.0, sigma=0.5)
    together, alone = of_users("dense float64")
    shape = (USERS, ITEMS) if per_user else (ITEMS,)
    available = np.random.default_rng(1).random(shape) < 0.5
    problem, belief = learned(learner, alone, TopK(2))
    users = problem._replace(Phi=together, oracle=Masked(TopK(2), available))
    found = decide_each(learner, belief, users, np.random.default_rng(0))
    assert np.take_along_axis(np.broadcast_to(available, (USERS, ITEMS)), found, -1).all()


def test_sets_of_different_sizes_are_padded(monkeypatch):
    monkeypatch.setattr(decide_module, "NUMBERS_PER_CHUNK", 2 * ITEMS * WIDE)
    learner = CombLinTS(lam=1.0, sigma=0.5)
    together, alone = of_users("dense float64")
    positive = as_oracle(lambda w: np.flatnonzero(w > 0))
    problem, belief = learned(learner, alone, positive)
    generators = [np.random.default_rng(i) for i in range(USERS)]
    found = decide_each(learner, belief, problem._replace(Phi=together), generators)
    for i, features in enumerate(alone):
        one = decide(learner, belief, problem._replace(Phi=features), np.random.default_rng(i))
        assert found[i][found[i] >= 0].tolist() == one.tolist()


def test_users_share_a_belief_but_no_draw():
    """20,000 users with the same features: shares of what is chosen are those of 20,000 draws for
    one user, within four standard errors of a difference."""
    n = 20_000
    learner = CombLinTS(lam=1.0, sigma=0.5)
    Phi = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    problem = Problem(Phi, TopK(1))
    belief = update(learner, learner.model.prior(problem), problem, np.array([0]), np.array([0.3]))
    users = with_features_of_users(learner, problem, broadcast(Phi, n))
    together = decide_each(learner, belief, users, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    theta = rng.standard_normal((n, 2)) / np.sqrt([5.0, 1.0]) + [0.3 * 4 / 5, 0.0]
    alone = (theta @ Phi.T).argmax(-1)
    share, other = (np.bincount(np.ravel(A), minlength=3) / n for A in (together, alone))
    assert (np.abs(share - other) < 4 * np.sqrt(2 * share * (1 - share) / n)).all()
    assert share.min() > 0.1


@pytest.mark.parametrize("learner", [CombLinTS(), CombLinTS(lam=1.0, link="logit"), CombTS()])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_of_users_that_are_not_finite(learner, bad):
    """Where scores go through the logit link, they would hide it."""
    together, alone = of_users("dense float64")
    problem, belief = learned(learner, alone, TopK(2))
    together[4, 7, 1] = bad
    users = with_features_of_users(learner, problem, together)
    with pytest.raises(FeaturesError, match=f"feature 1 of item 7 is {bad}"):
        decide_each(learner, belief, users, np.random.default_rng(0))


def test_features_that_are_not_those_of_users():
    learner = CombLinTS(lam=1.0, sigma=0.5)
    problem = Problem(np.eye(3), TopK(1))
    for features in (np.eye(3), np.ones((2, 4, 3)), np.ones((0, 3, 3)), np.ones((1, 2, 3, 3))):
        with pytest.raises(FeaturesError, match=r"must have shape \(n, 3, 3\)"):
            with_features_of_users(learner, problem, features)
    with pytest.raises(FeaturesError, match="must be numbers"):
        with_features_of_users(learner, problem, [["a"]])
    with pytest.raises(FeaturesError, match="must stay the same"):
        with_features_of_users(CombMixTS(), problem, np.ones((2, 3, 3)))
    assert with_features_of_users(learner, problem, np.ones((2, 3, 3), int)).Phi.dtype == np.float64


def test_a_learner_that_knows_no_batches_is_told_so():
    learner = Stubborn(favourite=1)
    problem = Problem(np.eye(3), TopK(1))
    users = with_features_of_users(learner, problem, np.ones((5, 3, 3)))
    with pytest.raises(WeightsError, match=r"Stubborn.scores must return .* \(5, 3\) for 5 users"):
        decide_each(learner, learner.model.prior(problem), users, np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["dense float64", "outer", "concatenated", "sparse"])
@pytest.mark.parametrize("steep", [False, True])
def test_widths_of_all_users_are_those_of_each(kind, steep):
    """Also where R is so steep that squares of it would lose digits."""
    together, alone = of_users(kind)
    d = alone[0].shape[-1]
    rows = np.random.default_rng(5).standard_normal((2, d))
    belief = gaussian.prior(d, 1.0)
    belief = gaussian.condition(belief, rows, np.ones(2), 1e-9 if steep else 0.3)
    each = gaussian.Gaussian(*(broadcast(np.asarray(x), USERS) for x in belief))
    if kind in ("outer", "concatenated"):
        together = Product(broadcast(together.left, USERS), together.right)
    found = gaussian.std(each, together)
    expected = [gaussian.std(belief, features) for features in alone]
    np.testing.assert_allclose(found, expected, rtol=1e-6 if steep else 1e-11)


def test_memory_of_decisions_for_many_users():
    """2,000 users of 20,000 items: their scores alone would take 320 MB."""
    learner = CombLinTS(lam=1.0, sigma=0.5)
    rng = np.random.default_rng(0)
    outer = Outer(rng.standard_normal((20_000, 3)))
    x = rng.standard_normal((2_000, 2))
    one = outer(x[0])
    scale = np.repeat(x, 3, axis=1)
    together = Product(one.left, ColumnSelection(3, one.right.source, scale))
    problem = Problem(one, TopK(5))
    belief = learner.model.prior(problem)
    users = with_features_of_users(learner, problem, together)
    assert peak_memory(lambda: decide_each(learner, belief, users, rng)) < 64e6


# --- warming up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("oracle", [TopK(3), TopK(3, at_most=True), TopK(99)], ids=repr)
def test_warming_up_changes_nothing(learner, oracle):
    """Also where a set is empty, or none is feasible."""
    problem = Problem(np.random.default_rng(0).standard_normal((8, 3)), oracle)
    belief = update(
        learner, learner.model.prior(problem), problem, np.array([0, 1]), np.array([1.0, 0.0])
    )
    before = [np.array(x) for x in belief]
    compile_first_call(learner, belief, problem)
    for x, y in zip(belief, before, strict=True):
        np.testing.assert_array_equal(x, y)


COMPILING = """
import sys
import numpy as np
from numba.core import event
from superarm import Agent, CombLinTS, TopK
from superarm.decide import compile_first_call
agent = Agent(CombLinTS(), features=np.ones((20, 2)), oracle=TopK(3), seed=0)
counts = []
for step in (lambda: compile_first_call(agent.learner, agent.belief, agent.problem),
             lambda: agent.observe(agent.choose(), [1.0, 0.0, 1.0])):
    with event.install_recorder("numba:compile") as recorder:
        step()
    counts.append(len(recorder.buffer))
print(counts[0] > 0, counts[1])
"""


def test_nothing_is_left_to_compile(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILING], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_randomness_is_drawn_once_where_an_oracle_cannot_be_solved_by_parts(monkeypatch):
    """Else the same seed would choose otherwise with a function in place of TopK."""
    monkeypatch.setattr(decide_module, "MAX_ITEMS_AT_ONCE", 10)
    learner = CombLinTS(lam=1.0, sigma=1.0)
    Phi = np.random.default_rng(0).standard_normal((50, 3))
    belief = learner.model.prior(Problem(Phi, TopK(3)))
    chosen = [
        decide(learner, belief, Problem(Phi, oracle), np.random.default_rng(5)).tolist()
        for oracle in (TopK(3), as_oracle(lambda w: np.argsort(-w)[:3], K=3))
    ]
    assert chosen[0] == chosen[1]


def test_an_empty_subclass_draws_as_its_base_does():
    class Mine(CombLinTS):
        pass

    class Own(CombLinTS):
        def scores(self, belief, problem, rng):
            return problem.Phi @ rng.standard_normal(problem.d)

    assert type(random_numbers(Mine(), 5)) is type(random_numbers(CombLinTS(), 5))
    assert isinstance(random_numbers(Own(), 5), np.random.Generator)

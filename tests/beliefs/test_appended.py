"""Items that come behind the others, and beliefs about some of the items alone."""

import numpy as np
import pytest
import scipy.sparse

from superarm import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    Greedy,
    Problem,
    TopK,
    gaussian,
)
from superarm.contexts import Outer
from superarm.oracles.base import Masked
from support import FEATURES, LEARNERS, Bare, D, K, L, learn_rows, update

WIDTHS = CombLinUCB(lam=2.0, sigma=0.5, c=1.5)
CACHES = {"variance", "last_exact", "fingerprint", "probe", "updates"}


def learned(learner, problem, seed=0, n=9):
    rng = np.random.default_rng(seed)
    belief = learner.model.prior(problem)
    for _ in range(n):
        A = rng.permutation(problem.L)[:K]
        belief = update(learner, belief, problem, A, rng.integers(0, 2, K).astype(float))
    if learner.model.uses_features:
        rows = rng.standard_normal((2, problem.d))
        belief = learn_rows(learner, belief, problem, rows, np.array([0.0, 1.0]))
    return belief


def features(kind, n):
    Phi = np.random.default_rng(1).standard_normal((n, D))
    if kind == "float32":
        return Phi.astype(np.float32)
    if kind == "sparse":
        return scipy.sparse.csr_array(np.where(Phi > 0, Phi, 0.0))
    if kind == "outer":
        return Outer(Phi)([1.0, -2.0])
    return Phi


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "outer"])
@pytest.mark.parametrize("more", [0, 1, 5])
@pytest.mark.parametrize("learner", [*LEARNERS, Bare()], ids=repr)
def test_to_append_is_to_move_to_a_longer_catalogue(learner, more, kind):
    """Bit for bit, but for widths: these are computed when they are next asked for."""
    problem, to = (Problem(features(kind, n), TopK(K)) for n in (L, L + more))
    belief = learned(learner, problem)
    source = np.append(np.arange(L), np.full(more, -1))
    found = learner.model.extend(belief, problem, to)
    expected = learner.model.resize(belief, problem, to, source)
    for name in set(belief._fields) - CACHES:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    if "variance" in belief._fields:
        assert found.variance.shape == (L + more,)
        std = learner.model.std
        np.testing.assert_allclose(std(found, to), std(expected, to), rtol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [CombLinTS(), CombLinTS(lam=1.0, sigma=1.0), WIDTHS, CombLinTS(link="logit"), CombMixTS()],
    ids=repr,
)
def test_features_of_items_there_were_are_not_looked_at(learner):
    """They are not numbers here; CombMixTS looks at those of items that were observed."""
    problem = Problem(FEATURES, TopK(K))
    unreadable = np.full((L + 2, D), np.nan)
    unreadable[L:] = 3.0
    belief = learner.model.prior(problem)
    after = learner.model.extend(belief, problem, Problem(unreadable, TopK(K)))
    for name in set(belief._fields) - CACHES:
        assert np.isfinite(getattr(after, name)).all(), name


def test_widths_are_kept_again_after_items_were_added():
    more = np.random.default_rng(2).standard_normal((3, 30))
    Phi = np.random.default_rng(1).standard_normal((50, 30))
    problem, to = (Problem(x, TopK(K)) for x in (Phi, np.concatenate([Phi, more])))
    model = WIDTHS.model
    belief = model.extend(learned(WIDTHS, problem), problem, to)
    rng = np.random.default_rng(3)
    for _ in range(6):
        A = rng.permutation(to.L)[:K]
        belief = update(WIDTHS, belief, to, A, rng.standard_normal(K))
        np.testing.assert_allclose(model.std(belief, to), gaussian.std(belief, to.Phi), rtol=1e-10)
    assert belief.updates > 0


def test_items_with_priors_of_their_own():
    old = CombTS(alpha=[1.0, 31.0], beta=[1.0, 971.0])
    new = old.resize(np.array([0, 1, -1]))
    two, three = Problem(np.eye(2), TopK(1)), Problem(np.eye(3), TopK(1))
    belief = update(old, old.model.prior(two), two, np.array([1]), np.array([1.0]))
    after = new.model.extend(belief, two, three)
    assert after.alpha.tolist() == [1.0, 32.0, 1.0]
    assert after.beta.tolist() == [1.0, 971.0, 1.0]


WITHOUT_DRAWS_PER_ITEM = [
    CombLinTS(lam=2.0, sigma=0.5),
    CombLinTS(),
    CombLinTS(link="logit"),
    CombLinTS(lam=2.0, link="logit", forgetting=0.9),
    WIDTHS,
    CombLinUCB(c=1.5),
    CombLinUCB(lam=2.0, c=1.0, link="logit"),
    Greedy(),
    CombMixTS(),
    CombMixTS(explore=0.0),
    CombMixTS(contexts=True),
    CombMixTS(link="logit"),
    CombMixUCB(c=1.0),
    CombMixUCB(c=1.0, contexts=True, explore=0.3),
    CombUCB1(),
]


@pytest.mark.parametrize("kind", ["dense", "sparse", "outer"])
@pytest.mark.parametrize("learner", WITHOUT_DRAWS_PER_ITEM, ids=repr)
def test_weights_of_some_items_alone_are_those_among_all(learner, kind):
    """Up to rounding: a product with fewer rows may be added up in another order."""
    problem = Problem(features(kind, L), TopK(K))
    belief = learned(learner, problem)
    items = np.array([7, 2, 3, 11, 5])
    some = Problem(problem.Phi[items], problem.oracle)
    available = np.isin(np.arange(L), items)
    every = problem._replace(oracle=Masked(problem.oracle, available))
    of_some = learner.model.select_items(belief, items)
    found = learner.scores(of_some, some, np.random.default_rng(0))
    expected = learner.scores(belief, every, np.random.default_rng(0))[items]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "learner", [CombTS(), CombGaussianTS(lam=1.0, sigma=0.5), CombMixTS(explore=1.0)], ids=repr
)
def test_draws_per_item_are_of_the_same_distribution(learner):
    """4,000 draws for some items alone and among all: means within four standard errors."""
    problem = Problem(FEATURES, TopK(K))
    belief = learned(learner, problem)
    items = np.array([7, 2, 3])
    some = Problem(FEATURES[items], problem.oracle)
    of_some = learner.model.select_items(belief, items)
    one, other = np.random.default_rng(0), np.random.default_rng(1)
    found = np.array([learner.scores(of_some, some, one) for _ in range(4000)])
    expected = np.array([learner.scores(belief, problem, other)[items] for _ in range(4000)])
    error = np.sqrt((found.var(0) + expected.var(0)) / 4000)
    assert (np.abs(found.mean(0) - expected.mean(0)) < 4 * error).all()

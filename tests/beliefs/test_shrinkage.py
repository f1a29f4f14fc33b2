"""Items that occur several times in one feedback, as where many decisions are learned at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    CombUCB1,
    Feedback,
    Problem,
    TopK,
    gaussian,
)
from superarm.beliefs.shrinkage import group_by_item, has_repeats
from support import tensors

L, D = 5, 3
SCALES = {"lam": 1.5, "sigma": 0.4, "tau": 0.7}
EXACT = [
    CombLinTS(lam=1.5, sigma=0.4),
    CombLinUCB(lam=1.5, sigma=0.4, c=1.0),
    CombMixTS(**SCALES),
    CombMixTS(contexts=True, **SCALES),
    CombMixTS(contexts=True, lam=1.5, sigma=0.4, tau=0.0),
    CombTS(),
    CombGaussianTS(lam=1.5, sigma=0.4),
    CombUCB1(),
]


def many(seed, n, contexts=False):
    """Feedback on n observations of few items; -1 are rows of none."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng.standard_normal((L, D)), TopK(2))
    A = rng.integers(-1, L, n)
    rows = rng.standard_normal((n, D))
    if not contexts:
        rows = np.where((A >= 0)[:, None], problem.Phi[A], rows)
    w = rng.random(n)
    v = rng.choice([0.3, 1.0, 7.0], n)
    return problem, Feedback(A, rows, w, v, n)


def one_by_one(model, belief, problem, feedback):
    for k in range(len(feedback.w)):
        A, rows, w, v = (x[k : k + 1] for x in feedback[:4])
        belief = model.learn(belief, problem, Feedback(A, rows, w, v))
    return belief


def assert_alike(belief, other, rtol=1e-10):
    for name in set(belief._fields) - {"variance", "last_exact", "fingerprint", "probe", "updates"}:
        a, b = np.asarray(getattr(belief, name)), np.asarray(getattr(other, name))
        if name in ("factor", "observation_factor", "residual_factor", "unknown_item_factor"):
            a, b = a.mT @ a, b.mT @ b
        size = np.abs(b).max(initial=0.0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size, err_msg=name)


@pytest.mark.parametrize("learner", EXACT, ids=repr)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), known=st.booleans())
def test_at_once_is_one_after_the_other(learner, seed, n, known):
    model = learner.model
    problem, feedback = many(seed, n, getattr(model, "contexts", False))
    belief = model.prior(problem)
    if known:
        _, before = many(seed + 1, 7)
        belief = one_by_one(model, belief, problem, before)
    ours = model.learn(belief, problem, feedback)
    theirs = one_by_one(model, belief, problem, feedback)
    if isinstance(learner, CombUCB1 | CombGaussianTS):  # rows of no item are no episodes to them
        ours = ours._replace(t=theirs.t)
    assert_alike(ours, theirs)
    if hasattr(ours, "factor"):
        np.testing.assert_allclose(*map(gaussian.log_evidence, (ours, theirs)), rtol=1e-9)


@pytest.mark.parametrize("contexts", [False, True])
def test_scales_found_from_items_that_repeat_are_those_of_one_after_the_other(contexts):
    """Both choose them after 64 episodes, from the same sums. Rows of no item are left out: how
    precise they are kept depends on the scales of their time."""
    learner = CombMixTS(contexts=contexts)
    model = learner.model
    problem, feedback = many(0, 64, contexts)
    feedback = feedback._replace(A=np.abs(feedback.A), importance=np.ones(64))
    if not contexts:
        feedback = feedback._replace(rows=problem.Phi[feedback.A])
    ours = model.learn(model.prior(problem), problem, feedback)
    theirs = one_by_one(model, model.prior(problem), problem, feedback)
    assert ours.t == theirs.t == 64
    assert_alike(ours, theirs, rtol=1e-8)


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_clicks_on_items_that_repeat(contexts, seed):
    """Matched together or one by one: both are approximations, within half a std of each
    other. Before, each click on an item was taken to have a deviation of its own."""
    learner = CombMixTS(lam=1.5, tau=0.7, link="logit", contexts=contexts)
    model = learner.model
    problem, feedback = many(seed, 40, contexts)
    clicks = feedback._replace(w=np.round(feedback.w), importance=np.ones(40))
    ours = model.learn(model.prior(problem), problem, clicks)
    theirs = one_by_one(model, model.prior(problem), problem, clicks)
    assert ours.t == theirs.t == 40
    std = model.std(theirs, problem)
    off = model.mean(ours, problem) - model.mean(theirs, problem)
    assert (np.abs(off) < std / 2).all()
    np.testing.assert_allclose(model.std(ours, problem), std, rtol=0.2)


def test_clicks_on_one_item_share_its_deviation():
    """Ten clicks on one item of unknown level: the log-odds are those of a coin with one prior,
    N(0, λ²φ² + τ²), by numerical integration."""
    lam, tau = 1e-3, 1.5
    model = CombMixTS(lam=lam, tau=tau, link="logit").model
    problem = Problem(np.ones((1, 1)), TopK(1))
    clicks = Feedback.of(problem, np.zeros(10, int), np.repeat([1.0, 0.0], [8, 2]))
    belief = model.learn(model.prior(problem), problem, clicks)
    eta = np.linspace(-12, 12, 20_001)
    log_p = -(eta**2) / (2 * (lam**2 + tau**2)) - 8 * np.log1p(np.exp(-eta))
    density = np.exp(log_p - 2 * np.log1p(np.exp(eta)))
    density /= density.sum()
    mean = density @ eta
    std = np.sqrt(density @ (eta - mean) ** 2)
    np.testing.assert_allclose(model.mean(belief, problem), mean, rtol=0.02)
    np.testing.assert_allclose(model.std(belief, problem), std, rtol=0.02)


def test_clicks_in_blocks_are_as_many_episodes_as_the_feedback_says():
    """Before, each block of 64 rows counted as an episode."""
    model = CombMixTS(link="logit").model
    problem, feedback = many(0, 200)
    clicks = feedback._replace(w=np.round(feedback.w))
    for episodes in (1, 3, 200):
        belief = model.learn(model.prior(problem), problem, clicks._replace(episodes=episodes))
        assert belief.t == episodes


def test_whether_items_repeat():
    assert not has_repeats(np.array([3, -1, 2, -1]))
    assert has_repeats(np.array([[1, 2, -1], [4, 0, 4]]))
    assert not has_repeats(np.empty((2, 0), int))


def test_means_of_items_and_what_is_around_them():
    A = np.array([4, -1, 2, 4])
    rows = np.array([[1.0], [9.0], [5.0], [4.0]])
    w = np.array([1.0, 9.0, 3.0, 7.0])
    grouped = group_by_item(Feedback(A, rows, w, np.array([1.0, 1.0, 2.0, 2.0])))
    by = {int(item): k for k, item in enumerate(grouped.means.A) if item >= 0}
    assert sorted(by) == [2, 4]
    assert grouped.means.rows[[by[2], by[4]], 0].tolist() == [5.0, 3.0]
    assert grouped.means.w[[by[2], by[4]]].tolist() == [3.0, 5.0]
    assert grouped.means.importance[[by[2], by[4]]].tolist() == [2.0, 3.0]
    assert grouped.n_residuals == 1
    np.testing.assert_allclose((grouped.rows**2).sum(), 1 * 2.0**2 + 2 * 1.0**2)
    np.testing.assert_allclose((grouped.w**2).sum(), 1 * 4.0**2 + 2 * 2.0**2)


@pytest.mark.parametrize("contexts", [False, True])
def test_batches_learn_as_singles_do(contexts):
    model = CombMixTS(contexts=contexts, **SCALES).model
    singles = [many(seed, 12, contexts) for seed in range(3)]
    problem = Problem(np.stack([p.Phi for p, _ in singles]), TopK(2))
    fields = zip(*(f[:4] for _, f in singles), strict=True)
    together = model.learn(model.prior(problem), problem, Feedback(*map(np.stack, fields)))
    for b, (single, feedback) in enumerate(singles):
        one = model.learn(model.prior(single), single, feedback._replace(episodes=1))
        assert_alike(type(one)(*(x[b] for x in together)), one)


@pytest.mark.parametrize("learner", EXACT, ids=repr)
def test_tensors_learn_as_arrays_do(learner):
    pytest.importorskip("torch")
    model = learner.model
    problem, feedback = many(3, 30, getattr(model, "contexts", False))
    expected = model.learn(model.prior(problem), problem, feedback)
    (Phi,) = tensors(problem.Phi)
    on_device = Problem(Phi, problem.oracle)
    found = model.learn(
        model.prior(on_device), on_device, Feedback(*tensors(*feedback[:4]), feedback.episodes)
    )
    assert_alike(type(expected)(*(x.numpy() for x in found)), expected)

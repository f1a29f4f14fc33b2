"""All of the past counts `keep` times what it did, the prior as much as ever: in every model."""

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
from superarm.beliefs.empirical_bayes import crossed_power_of_two
from superarm.errors import ParameterError

L, D, K = 6, 3, 2
EVERY = [
    CombLinTS(lam=2.0, sigma=0.5),
    CombLinUCB(lam=2.0, sigma=0.5, c=1.0),
    CombLinTS(),
    CombLinTS(lam=2.0, link="logit"),
    CombLinTS(link="logit"),
    CombMixTS(),
    CombMixTS(contexts=True),
    CombMixTS(link="logit"),
    CombTS(alpha=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], beta=2.0),
    CombGaussianTS(lam=2.0, sigma=0.5),
    CombUCB1(),
]
GAUSSIAN = [
    CombLinTS(lam=2.0, sigma=0.5),
    CombLinUCB(lam=2.0, sigma=0.5, c=1.0),
    CombLinTS(sigma=0.5),
    CombMixTS(lam=2.0, sigma=0.5, tau=0.3),
    CombMixTS(lam=2.0, sigma=0.5, tau=0.3, contexts=True),
    CombGaussianTS(lam=2.0, sigma=0.5),
    CombUCB1(),
    CombTS(),
]
PROBLEM = Problem(np.random.default_rng(0).standard_normal((L, D)), TopK(K))
CACHE = {"variance", "last_exact", "fingerprint", "probe", "updates"}


def seen(seed, n):
    """Feedback on items of the catalogue: n decisions."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        A = rng.permutation(L)[:K]
        yield Feedback.of(PROBLEM, A, rng.integers(0, 2, K).astype(float))


def learned(learner, n=20, seed=0):
    belief = learner.model.prior(PROBLEM)
    for feedback in seen(seed, n):
        belief = learner.model.learn(belief, PROBLEM, feedback)
    return belief


def assert_alike(belief, other, rtol=1e-12, but=CACHE):
    for name in set(belief._fields) - set(but):
        a, b = np.asarray(getattr(belief, name)), np.asarray(getattr(other, name))
        # signs and rounding of factors are their own
        if name in ("factor", "observation_factor", "residual_factor", "unknown_item_factor"):
            a, b = a.T @ a, b.T @ b
        size = np.abs(b).max(initial=0.0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size, err_msg=name)


@pytest.mark.parametrize("learner", EVERY, ids=repr)
def test_to_keep_all_is_to_change_nothing(learner):
    belief = learned(learner)
    for a, b in zip(learner.model.forget(belief, PROBLEM, 1.0), belief, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("learner", EVERY, ids=repr)
@settings(max_examples=10)
@given(a=st.floats(1e-3, 1), b=st.floats(1e-3, 1))
def test_fading_twice_is_fading_by_the_product(learner, a, b):
    belief = learned(learner)
    forget = learner.model.forget
    twice = forget(forget(belief, PROBLEM, a), PROBLEM, b)
    assert_alike(twice, forget(belief, PROBLEM, a * b), rtol=1e-10)


@pytest.mark.parametrize("learner", GAUSSIAN, ids=repr)
@pytest.mark.parametrize("keep", [0.9, 0.3, 1e-6])
def test_faded_feedback_is_feedback_of_less_importance(learner, keep):
    """Exactly so, but for counts of rows and episodes: the evidence is that of faded rows."""
    model = learner.model
    (feedback,) = seen(1, 1)
    prior = model.prior(PROBLEM)
    faded = model.forget(model.learn(prior, PROBLEM, feedback), PROBLEM, keep)
    less = model.learn(prior, PROBLEM, feedback._replace(importance=keep))
    if isinstance(learner, CombLinTS) and learner.lam == "auto":  # at scales that are its own
        less = model.rebuild(less, faded.lam, faded.sigma)
    counts = {"log_normalizer", "n_residuals", "n_unknown_rows", "n_rows", "t", "prior_std", "lam"}
    assert_alike(faded, less, but=CACHE | counts)


@pytest.mark.parametrize("learner", EVERY, ids=repr)
def test_what_is_left_alone_goes_back_to_the_prior(learner):
    """To the prior at the scales that were found."""
    model = learner.model
    belief = learned(learner)
    gone = model.forget(belief, PROBLEM, 1e-30)
    if hasattr(belief, "factor"):
        stds = getattr(gone, "prior_std", 2.0)
        start = gaussian.prior(D, stds)
        np.testing.assert_allclose(gone.factor[:-1], start.factor[:-1], rtol=1e-9, atol=1e-9)
        return
    for a, b in zip(gone, model.prior(PROBLEM), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-20)


@pytest.mark.parametrize("learner", EVERY, ids=repr)
@pytest.mark.parametrize("keep", [0.0, 1.5, -1.0, np.nan, "half"])
def test_shares_that_are_none(learner, keep):
    with pytest.raises(ParameterError, match=r"keep must lie in \(0, 1\]"):
        learner.model.forget(learner.model.prior(PROBLEM), PROBLEM, keep)


def test_kept_widths_are_those_of_the_faded_belief():
    model = CombLinUCB(lam=2.0, sigma=0.5, c=1.0).model
    belief = model.forget(learned(CombLinUCB(lam=2.0, sigma=0.5, c=1.0)), PROBLEM, 0.3)
    expected = gaussian.std(belief, PROBLEM.Phi)
    np.testing.assert_allclose(model.std(belief, PROBLEM), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=2.0, sigma=0.5, forgetting=0.95),
        CombLinTS(sigma=0.5, lam=2.0, forgetting=0.9),
        CombLinTS(lam=2.0, link="logit", forgetting=0.9),
        CombMixTS(lam=2.0, sigma=0.5, tau=0.3, forgetting=0.95),
    ],
    ids=repr,
)
def test_an_update_with_many_decisions_forgets_as_many_episodes(learner):
    """The past fades by γⁿ, the n decisions themselves not at all."""
    model = learner.model
    belief = learned(learner)
    feedback = list(seen(2, 5))
    together = Feedback(
        *(np.concatenate([getattr(f, name) for f in feedback]) for name in ("A", "rows", "w")),
        episodes=5,
    )
    without = type(learner)(
        **{f: getattr(learner, f) for f in ("lam", "link")},
        **({"sigma": 0.5} if learner.link == "identity" else {}),
        **({"tau": 0.3} if hasattr(learner, "tau") else {}),
    )
    past = model.forget(belief, PROBLEM, learner.forgetting**5)
    expected = without.model.learn(past, PROBLEM, together)
    assert_alike(model.learn(belief, PROBLEM, together), expected, rtol=1e-10)


def test_an_update_with_so_many_decisions_that_nothing_of_the_past_is_left():
    for learner in (CombLinTS(forgetting=0.5), CombMixTS(forgetting=0.5), CombLinTS(link="logit")):
        (feedback,) = seen(3, 1)
        after = learner.model.learn(learned(learner), PROBLEM, feedback._replace(episodes=10_000))
        assert after.t == 20 + 10_000
        assert np.isfinite(after.factor).all()


def test_items_not_seen_for_very_long_are_as_never_seen():
    """0.5²⁰⁰⁰ is no number of float64: before, σ²/n was infinite and learning was refused."""
    learner = CombMixTS(lam=1.0, sigma=0.5, tau=0.3, forgetting=0.5)
    model = learner.model
    belief = learned(learner)
    only = Feedback.of(PROBLEM, np.array([0]), np.array([1.0]))
    for _ in range(1100):
        belief = model.learn(belief, PROBLEM, only)
    assert (belief.n[1:] == 0).all()
    assert belief.n[0] == pytest.approx(2.0)
    counts = CombUCB1().model
    faded = counts.forget(learned(CombUCB1()), PROBLEM, 1e-99)
    assert counts.forget(faded, PROBLEM, 1e-99).n.tolist() == [0.0] * L


def test_counts_of_episodes_that_pass_a_power_of_two():
    """However many at a time, it is known whether one of 1, 2, 4, 8, ... was reached."""
    powers = 2 ** np.arange(8)
    before, more = np.meshgrid(np.arange(70), np.arange(40))
    after = before + more
    passed = (powers > before[..., None]) & (powers <= after[..., None])
    np.testing.assert_array_equal(crossed_power_of_two(before, after), passed.any(-1))


def test_scales_are_chosen_anew_once_episodes_have_doubled():
    for learner in (CombLinTS(), CombMixTS()):
        model = learner.model
        belief = learned(learner, 5)
        (feedback,) = seen(4, 1)
        assert model.learn(belief, PROBLEM, feedback).lam == belief.lam
        many = model.learn(belief, PROBLEM, feedback._replace(episodes=3))
        assert many.t == 8
        assert (many.lam, many.sigma) != (belief.lam, belief.sigma)


def test_episodes_of_an_index():
    """ln t of CombUCB1: a feedback of three decisions counts three, padding none."""
    model = CombUCB1().model
    belief = model.prior(PROBLEM)
    (feedback,) = seen(0, 1)
    assert model.learn(belief, PROBLEM, feedback._replace(episodes=3)).t == 3
    nothing = Feedback(np.array([-1]), np.zeros((1, D)), np.zeros(1), episodes=3)
    assert model.learn(belief, PROBLEM, nothing).t == 0

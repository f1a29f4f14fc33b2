"""Policies against the one that made the decisions."""

import numpy as np
import pytest

from superarm import CombLinTS, Feedback, Problem, TopK, offline
from superarm.errors import ParameterError

RATES = np.array([0.1, 0.2, 0.4, 0.8])


def logged(n, seed, gaussian=False):
    """Any two of four items, and what they showed."""
    rng = np.random.default_rng(seed)
    A = np.argsort(rng.random((n, 4)))[:, :2]
    w = (rng.random(A.shape) < RATES[A]).astype(float)
    if gaussian:
        w = RATES[A] + 0.3 * rng.standard_normal(A.shape)
    return offline.Log.of(A, w, np.full(A.shape, 0.5), np.eye(4))


@pytest.mark.parametrize("by", [offline.ips, offline.doubly_robust])
@pytest.mark.parametrize("gaussian", [False, True], ids=["clicks", "numbers"])
def test_the_difference_is_what_it_is(by, gaussian):
    log = logged(400, 3, gaussian)
    target = np.isin(range(4), [2, 3])
    alone = by(log, target)
    found = by(log, target, against="logged")
    assert found.value == pytest.approx(alone.value - log.w.sum(axis=1).mean())
    assert found.low < 1.2 - 0.75 < found.high  # in truth
    assert not found.warnings


def test_the_error_is_that_of_terms_side_by_side():
    """Unnormalized, the terms are Σ q/p w - Σ w of each decision."""
    log = logged(300, 1, gaussian=True)
    q = np.array([0.0, 0.5, 1.0, 0.5])
    found = offline.ips(log, q, against="logged", normalized=False)
    terms = (q[log.A] / 0.5 * log.w).sum(axis=1) - log.w.sum(axis=1)
    assert found.value == pytest.approx(terms.mean())
    assert found.se == pytest.approx(terms.std(ddof=1) / np.sqrt(300))


def test_intervals_hold_the_truth():
    """In 400 logs of 100 decisions; 95 % has a standard error of 1.1 % there."""
    inside = 0
    for seed in range(400):
        found = offline.ips(logged(100, seed), np.isin(range(4), [1, 3]), against="logged")
        inside += found.low <= 1.0 - 0.75 <= found.high
    assert inside / 400 > 0.95 - 3 * 0.011


def test_a_target_that_learns_knows_the_past_alone():
    """Its probabilities are those at the belief after the decisions before."""
    log = logged(30, 2)
    learner = CombLinTS(lam=1.0, sigma=0.5)
    found = offline.probabilities(
        log, learner, None, TopK(2), rng=np.random.default_rng(0), draws=50, learns=True
    )
    rng = np.random.default_rng(0)
    problem = Problem(np.eye(4), TopK(2))
    belief = learner.model.prior(problem)
    for i in range(log.n):
        one = log._replace(
            A=log.A[i : i + 1], w=log.w[i : i + 1], p=log.p[i : i + 1], Phi=[np.eye(4)]
        )
        q = offline.probabilities(one, learner, belief, TopK(2), rng=rng, draws=50)
        assert (q[0] == found[i]).all()
        belief = learner.model.learn(belief, problem, Feedback.of(problem, log.A[i], log.w[i]))


def test_other_words_are_refused():
    with pytest.raises(ParameterError):
        offline.ips(logged(20, 0), np.full(4, 0.5), against="nobody")

"""Beliefs about items that deviate, against the dense Gaussian over θ and all δ."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from superarm import CombMixTS, Feedback, Problem, TopK, gaussian

L, D = 6, 3
SCALES = {"lam": 1.5, "sigma": 0.4, "tau": 0.7}


class Rows(NamedTuple):
    """Observations: of which item, with which features, weight and importance."""

    item: np.ndarray
    phi: np.ndarray
    w: np.ndarray
    v: np.ndarray


def observations(seed, n=40, contexts=True, importance=True):
    rng = np.random.default_rng(seed)
    item = rng.integers(0, L, n)
    catalogue = rng.standard_normal((L, D))
    phi = rng.standard_normal((n, D)) if contexts else catalogue[item]
    v = rng.choice([0.3, 1.0, 7.0], n) if importance else np.ones(n)
    own = 0.7 * rng.standard_normal(L)
    w = phi @ rng.standard_normal(D) + own[item] + 0.4 * rng.standard_normal(n) / np.sqrt(v)
    return Problem(catalogue, TopK(2)), Rows(item, phi, w, v)


def learned(learner, problem, rows):
    """From one row after the other: an item is observed once per episode."""
    belief = learner.model.prior(problem)
    for i in range(len(rows.w)):
        item, phi, w, v = (x[i : i + 1] for x in rows)
        belief = learner.model.learn(belief, problem, Feedback(item, phi, w, v))
    return belief


def dense(problem, rows, spread, sigma, tau):
    """Mean and std of Φθ + δ, and log p(w) less ½ Σ log v."""
    items = max(problem.L, rows.item.max() + 1)
    X = np.hstack([rows.phi, np.eye(items)[rows.item]])
    prior = np.diag([*np.broadcast_to(spread, D) ** 2, *[tau**2] * items])
    marginal = X @ prior @ X.T + np.diag(sigma**2 / rows.v)
    gain = np.linalg.solve(marginal, X @ prior).T
    M = np.hstack([problem.Phi, np.eye(problem.L, items)])
    variance = np.diagonal(M @ (prior - gain @ X @ prior) @ M.T)
    evidence = multivariate_normal(cov=marginal).logpdf(rows.w) - np.log(rows.v).sum() / 2
    return M @ gain @ rows.w, np.sqrt(variance), evidence


def assert_dense(learner, belief, problem, rows, evidence=True):
    mean, std, log_p = dense(problem, rows, belief.prior_std, belief.sigma, belief.tau)
    np.testing.assert_allclose(learner.model.mean(belief, problem), mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(learner.model.std(belief, problem), std, rtol=1e-8)
    if evidence:
        assert float(gaussian.log_evidence(belief)) == pytest.approx(log_p, rel=1e-8)


def some(rows, chosen):
    return Rows(*(x[chosen] for x in rows))


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("n", [1, 32, 40])
def test_the_dense_posterior_and_its_evidence(auto, importance, contexts, n):
    """With scales that are known, just chosen anew (32), and some time after that (40)."""
    learner = CombMixTS(contexts=contexts, **({} if auto else SCALES))
    problem, rows = observations(0, n, contexts, importance)
    belief = learned(learner, problem, rows)
    assert_dense(learner, belief, problem, rows)


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("contexts", [False, True])
def test_merging_is_the_dense_posterior_of_both(auto, contexts):
    learner = CombMixTS(contexts=contexts, **({} if auto else SCALES))
    problem, rows = observations(1, 40, contexts)
    here = learned(learner, problem, some(rows, slice(15)))
    there = learned(learner, problem, some(rows, slice(15, None)))
    both = learner.model.merge(here, there, problem)
    assert_dense(learner, both, problem, rows)
    union = learned(learner, problem, rows)
    assert (both.n_residuals, both.t) == (union.n_residuals, union.t)
    for name in ("n", "weight_sums", "feature_sums"):
        np.testing.assert_allclose(getattr(both, name), getattr(union, name), rtol=1e-10)
    np.testing.assert_allclose(
        both.residual_factor.T @ both.residual_factor,
        union.residual_factor.T @ union.residual_factor,
        rtol=1e-8,
        atol=1e-10,
    )


@pytest.mark.parametrize("contexts", [False, True])
def test_what_removed_items_said_stays(contexts):
    """Items 0 and 3 leave; what they said about θ is there, and stays at scales chosen anew."""
    learner = CombMixTS(contexts=contexts, **SCALES)
    problem, rows = observations(2, 40, contexts)
    source = np.array([1, 2, 4, 5])
    fewer = problem._replace(Phi=problem.Phi[source])
    belief = learner.model.resize(learned(learner, problem, rows), problem, fewer, source)
    mean, std, _ = dense(problem, rows, SCALES["lam"], SCALES["sigma"], SCALES["tau"])
    anew = learner.model.merge(belief, learner.model.prior(fewer), fewer)
    for left in (belief, anew):
        np.testing.assert_allclose(learner.model.mean(left, fewer), mean[source], rtol=1e-8)
        np.testing.assert_allclose(learner.model.std(left, fewer), std[source], rtol=1e-8)


@pytest.mark.parametrize("contexts", [False, True])
def test_forgetting_is_importance_that_fades_in_steps(contexts):
    """0.99 forgets 5 % at once before each fifth episode: what came s steps ago counts 0.99⁵ˢ."""
    learner = CombMixTS(contexts=contexts, forgetting=0.99, **SCALES)
    problem, rows = observations(3, 23, contexts)
    belief = learned(learner, problem, rows)
    steps = 23 // 5 - np.arange(1, 24) // 5
    faded = rows._replace(v=rows.v * 0.99 ** (5 * steps))
    assert_dense(learner, belief, problem, faded, evidence=False)
    assert belief.n.sum() == pytest.approx(faded.v.sum())


def test_scales_of_a_past_that_fades():
    """σ = 0.4 for 300 episodes and 1.2 for the last 300: with a memory of 50 rows σ is the last."""
    rng = np.random.default_rng(4)
    problem = Problem(rng.standard_normal((L, D)), TopK(2))
    learner = CombMixTS(forgetting=0.98)
    belief = learner.model.prior(problem)
    for t in range(512):
        A = rng.permutation(L)[:2]
        w = problem.Phi[A].sum(1) + (0.4 if t < 256 else 1.2) * rng.standard_normal(2)
        belief = learner.model.learn(belief, problem, Feedback.of(problem, A, w))
    assert float(belief.sigma) == pytest.approx(1.2, rel=0.25)
    assert float(belief.n_residuals) == pytest.approx(2 / 0.02, rel=0.1)


def test_loose_rows_with_importance_have_the_dense_density():
    """A row of no item is one of an item of its own; its evidence leaves out ½ log of how much more
    precise than a row of importance 1 it is."""
    learner = CombMixTS(**SCALES)
    problem, rows = observations(5, 12)
    prior = learner.model.prior(problem)
    belief = learner.model.learn(
        prior, problem, Feedback(np.full(12, -1), rows.phi, rows.w, rows.v)
    )
    apart = rows._replace(item=L + np.arange(12))
    mean, std, log_p = dense(problem, apart, SCALES["lam"], SCALES["sigma"], SCALES["tau"])
    np.testing.assert_allclose(learner.model.mean(belief, problem), mean, rtol=1e-8)
    np.testing.assert_allclose(learner.model.std(belief, problem), std, rtol=1e-8)
    sigma2, tau2 = SCALES["sigma"] ** 2, SCALES["tau"] ** 2
    precise = (sigma2 + tau2) / (sigma2 / rows.v + tau2)
    expected = log_p + np.log(rows.v).sum() / 2 - np.log(precise).sum() / 2
    assert float(gaussian.log_evidence(belief)) == pytest.approx(expected, rel=1e-8)
    anew = learner.model.merge(belief, prior, problem)
    assert float(gaussian.log_evidence(anew)) == pytest.approx(expected, rel=1e-8)

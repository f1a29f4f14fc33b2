import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from superarm import (
    CombLinTS,
    CombMixTS,
    CombMixUCB,
    GaussianEnvironment,
    Problem,
    TopK,
    episodes,
    gaussian,
)
from superarm.arrays import as_stream, item_normal
from superarm.beliefs.hyperparameters import fit_hyperparameters
from superarm.beliefs.item_statistics import drop_items
from superarm.beliefs.shrinkage import shrinkage
from support import learn_rows, update

L, D = 7, 3


def played(learner, n=12, seed=0, K=3):
    rng = np.random.default_rng(seed)
    problem = Problem(rng.standard_normal((L, D)), TopK(K))
    world = GaussianEnvironment(
        problem.Phi @ rng.standard_normal(D) + 0.7 * rng.standard_normal(L), sigma=0.4
    )
    return problem, list(episodes(learner, problem, world, rng=rng, n=n))


def joint(Phi, feedback, lam, sigma, tau):
    """Mean and covariance of (θ, δ), L + d numbers, by brute force; and log p(w)."""
    items = np.concatenate([A for A, _ in feedback])
    w = np.concatenate([w for _, w in feedback])
    X = np.hstack([Phi[items], np.eye(len(Phi))[items]])
    stds = np.broadcast_to(lam, Phi.shape[1])
    prior = np.diag([*stds**2, *[tau**2] * len(Phi)])
    marginal = X @ prior @ X.T + sigma**2 * np.eye(len(w))
    gain = np.linalg.solve(marginal, X @ prior).T
    return gain @ w, prior - gain @ X @ prior, multivariate_normal(cov=marginal).logpdf(w)


def of_items(Phi, mean, Sigma):
    """Mean and covariance of w̄ = Φθ + δ."""
    M = np.hstack([Phi, np.eye(len(Phi))])
    return M @ mean, M @ Sigma @ M.T


def our_joint(belief, Phi):
    """The same from the belief: θ ~ N, and δ given θ."""
    effect = shrinkage(belief, belief.n, belief.weight_sums)
    Rinv = np.linalg.inv(belief.factor[:-1, :-1])
    theta, Sigma = gaussian.mean(belief), Rinv @ Rinv.T
    slope = -(1 - effect.share)[:, None] * Phi
    mean = np.concatenate([theta, effect.offset + slope @ theta])
    cross = slope @ Sigma
    effects = slope @ Sigma @ slope.T + np.diag(effect.variance)
    return mean, np.block([[Sigma, cross.T], [cross, effects]])


@settings(max_examples=50)
@given(
    st.integers(0, 10**6),
    st.floats(0.1, 10),
    st.floats(0.1, 3),
    st.floats(0.01, 5),
    st.integers(1, 15),
)
def test_the_joint_posterior_is_that_of_brute_force(seed, lam, sigma, tau, n):
    problem, steps = played(CombMixTS(lam=lam, sigma=sigma, tau=tau), n, seed)
    mean, Sigma, evidence = joint(problem.Phi, [(s.A, s.w) for s in steps], lam, sigma, tau)
    ours = our_joint(steps[-1].belief, problem.Phi)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-8, atol=1e-8 * np.abs(mean).max())
    np.testing.assert_allclose(ours[1], Sigma, rtol=1e-8, atol=1e-8 * np.abs(Sigma).max())
    assert float(gaussian.log_evidence(steps[-1].belief)) == pytest.approx(evidence, rel=1e-8)


def test_the_joint_posterior_after_a_refit_too():
    problem, steps = played(CombMixTS(), 17)
    belief = steps[-1].belief
    mean, Sigma, evidence = joint(
        problem.Phi, [(s.A, s.w) for s in steps], belief.prior_std, belief.sigma, belief.tau
    )
    ours = our_joint(belief, problem.Phi)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours[1], Sigma, rtol=1e-8, atol=1e-8)
    assert float(gaussian.log_evidence(belief)) == pytest.approx(evidence, rel=1e-8)


def test_samples_have_the_moments_of_brute_force():
    learner = CombMixTS(lam=1.0, sigma=0.5, tau=0.6, explore=1.0)
    problem, steps = played(learner)
    mean, Sigma, _ = joint(problem.Phi, [(s.A, s.w) for s in steps], 1.0, 0.5, 0.6)
    mean, Sigma = of_items(problem.Phi, mean, Sigma)
    n = 100_000
    many = type(steps[-1].belief)(
        *(np.broadcast_to(x, (n, *np.shape(x))) for x in steps[-1].belief)
    )
    batch = problem._replace(Phi=np.broadcast_to(problem.Phi, (n, L, D)))
    w = learner.scores(many, batch, np.random.default_rng(0))
    variance = np.diagonal(Sigma)
    assert (np.abs(w.mean(0) - mean) < 4 * np.sqrt(variance / n)).all()
    error = np.sqrt((Sigma**2 + np.outer(variance, variance)) / n)
    assert (np.abs(np.cov(w.T) - Sigma) < 4 * error).all()


def drawn(rng, n):
    return item_normal(as_stream(rng, np.zeros(())), np.empty(n))


@pytest.mark.parametrize("explore", [0.0, 0.3, 1.0])
def test_explore_scales_the_deviations_draw(explore):
    learner = CombMixTS(lam=1.0, sigma=0.5, tau=0.6, explore=explore)
    problem, steps = played(learner)
    belief = steps[-1].belief
    rng = np.random.default_rng(3)
    theta = gaussian.sample(belief, rng)
    effect = shrinkage(belief, belief.n, belief.weight_sums)
    expected = effect.share * (problem.Phi @ theta) + effect.offset
    if explore:
        expected = expected + explore * np.sqrt(effect.variance) * drawn(rng, len(expected))
    np.testing.assert_allclose(
        learner.scores(belief, problem, np.random.default_rng(3)), expected, rtol=1e-12
    )


@pytest.mark.parametrize("explore", [0.0, 1.0])
def test_without_deviations_it_is_comblints(explore):
    _, mixed = played(CombMixTS(lam=1.0, sigma=0.5, tau=0.0, explore=explore), 30)
    _, linear = played(CombLinTS(lam=1.0, sigma=0.5), 30)
    for a, b in zip(mixed, linear, strict=True):
        np.testing.assert_array_equal(a.A, b.A)
        np.testing.assert_allclose(a.belief.factor, b.belief.factor, rtol=1e-12, atol=1e-12)


def test_ucb_is_mean_and_width_of_the_joint_posterior():
    learner = CombMixUCB(lam=1.0, sigma=0.5, tau=0.6, explore=1.0, c=1.7)
    problem, steps = played(learner)
    mean, Sigma = of_items(
        problem.Phi, *joint(problem.Phi, [(s.A, s.w) for s in steps], 1.0, 0.5, 0.6)[:2]
    )
    w = learner.scores(steps[-1].belief, problem, np.random.default_rng(0))
    np.testing.assert_allclose(w, mean + 1.7 * np.sqrt(np.diagonal(Sigma)), rtol=1e-8)


def test_loose_rows_are_items_of_their_own():
    """Rows of no item are as good as items that are seen once."""
    learner = CombMixTS(lam=1.0, sigma=0.5, tau=0.6)
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((L + 4, D))
    problem, larger = Problem(Phi[:L], TopK(3)), Problem(Phi, TopK(3))
    A, w, rows = np.array([0, 2, 5]), rng.standard_normal(3), rng.standard_normal(4)
    ours = update(learner, learner.model.prior(problem), problem, A, w)
    ours = learn_rows(learner, ours, problem, Phi[L:], rows)
    theirs = update(
        learner,
        learner.model.prior(larger),
        larger,
        np.append(A, L + np.arange(4)),
        np.append(w, rows),
    )
    np.testing.assert_allclose(ours.factor, theirs.factor, rtol=1e-10, atol=1e-12)


def test_a_warm_start_sets_the_scales():
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((L, D)), TopK(3))
    rows = rng.standard_normal((500, D))
    w = 1e-3 * (rows @ rng.standard_normal(D) + 0.5 * rng.standard_normal(500))
    for learner in (CombMixTS(), CombLinTS()):
        belief = learn_rows(learner, learner.model.prior(problem), problem, rows, w)
        assert float(belief.sigma) < 1e-3
        scales = fit_hyperparameters(rows, w)
        np.testing.assert_allclose(
            gaussian.mean(belief), np.linalg.lstsq(rows, w)[0], atol=0.1 * scales.lam
        )


def test_scales_are_those_of_the_best_evidence():
    """No λ, σ or τ nearby makes the weights more likely by brute force, weak priors included."""
    problem, steps = played(CombMixTS(), 64, K=4)
    belief = steps[-1].belief
    items = np.concatenate([s.A for s in steps])
    feedback = [(s.A, s.w) for s in steps]
    size = np.concatenate([s.w for s in steps]).std()
    every_row = np.concatenate([problem.Phi, problem.Phi[items]])
    rms = np.sqrt((every_row**2).mean(0))
    np.testing.assert_allclose(belief.prior_std, belief.lam / rms, rtol=1e-9)

    def objective(factors):
        lam, sigma, tau = factors * [belief.lam, belief.sigma, belief.tau]
        ratio = (tau / sigma) ** 2
        weak = np.log([lam / size, sigma / size, tau / size])
        value = joint(problem.Phi, feedback, lam / rms, sigma, tau)[2]
        return value + (np.log(ratio) - ratio) / 2 - np.log1p(weak**2 / 18).sum()

    best = objective(np.ones(3))
    for change in np.vstack([0.2 * np.eye(3), -0.2 * np.eye(3)]):
        assert objective(np.exp(change)) < best


def test_scales_are_near_those_of_fit_scales():
    problem, steps = played(CombMixTS(), 64, K=4)
    belief = steps[-1].belief
    items = np.concatenate([s.A for s in steps])
    scales = fit_hyperparameters(problem.Phi[items], np.concatenate([s.w for s in steps]), items)
    assert float(belief.sigma) == pytest.approx(scales.sigma, rel=0.01)
    assert abs(np.log(belief.tau / scales.tau)) < scales.tau_error


@pytest.mark.parametrize(("contexts", "numbers"), [(False, 2), (True, 2 + D)])
def test_memory_is_a_few_numbers_per_item(contexts, numbers):
    learner = CombMixTS(contexts=contexts)
    sizes = []
    for items in (1000, 2000):
        problem = Problem(np.ones((items, D)), TopK(3))
        belief = update(
            learner, learner.model.prior(problem), problem, np.array([0, 1]), np.ones(2)
        )
        sizes.append(sum(np.size(x) for x in belief))
    assert sizes[1] - sizes[0] == numbers * 1000
    assert sizes[0] - numbers * 1000 <= 3 * (D + 1) ** 2 + 5 * D + 10


def test_loose_rows_say_of_the_coefficients_what_the_items_said():
    """An item seen n times says φᵀθ with variance τ² + σ²/n; as a loose row of variance σ² + τ² it
    must say it as precisely: Σ⁻¹ = I/λ² + Σ_e φ_e φ_eᵀ/(τ² + σ²/n_e)."""
    lam, sigma, tau = 2.0, 0.4, 0.7
    problem, steps = played(CombMixTS(lam=lam, sigma=sigma, tau=tau))
    belief = steps[-1].belief
    assert len(set(belief.n[belief.n > 0])) > 1
    R = belief.factor[:-1, :-1]
    z = belief.factor[:-1, -1]
    unknown = drop_items(belief, problem.Phi, np.arange(L)).unknown_item_factor
    information = unknown.T @ unknown / (sigma**2 + tau**2)
    np.testing.assert_allclose(np.eye(D) / lam**2 + information[:-1, :-1], R.T @ R, rtol=1e-10)
    np.testing.assert_allclose(information[:-1, -1], R.T @ z, rtol=1e-10, atol=1e-12)


ZEROS = """
import numpy as np
from superarm import CombMixTS, GaussianEnvironment, Problem, TopK, episodes

rng = np.random.default_rng(0)
problem = Problem(np.zeros((500, 3)), TopK(3))
world = GaussianEnvironment(rng.standard_normal(500), sigma=0.4)
list(episodes(CombMixTS(), problem, world, rng=rng, n=12))
"""


def test_features_of_zeros_make_lapack_print_nothing():
    # in a process of its own, as what LAPACK prints may come as late as at its end
    run = subprocess.run([sys.executable, "-c", ZEROS], capture_output=True, text=True, check=True)
    assert "DPOTRI" not in run.stdout + run.stderr

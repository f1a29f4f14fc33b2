import numpy as np
import pytest
from scipy.stats import multivariate_normal

from superarm import GaussianEnvironment, Problem, TopK, episodes, gaussian
from superarm.errors import ParameterError
from superarm.experiments.tuned import TunedCombLinTS, best_scales
from superarm.gaussian import Gaussian


def test_best_scales_have_the_largest_evidence():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    w = X @ (2.0 * rng.standard_normal(5)) + 0.3 * rng.standard_normal(300)
    lam, sigma = best_scales(X.T @ X, X.T @ w, float(w @ w), 300)

    def evidence(lam, sigma):
        return multivariate_normal(cov=lam**2 * X @ X.T + sigma**2 * np.eye(300)).logpdf(w)

    best = evidence(lam, sigma)
    for factor in (0.9, 1.1):
        assert best > evidence(factor * lam, sigma)
        assert best > evidence(lam, factor * sigma)
    assert sigma == pytest.approx(0.3, rel=0.15)


def test_after_tuning_the_belief_is_that_of_the_new_scales():
    rng = np.random.default_rng(1)
    Phi = rng.standard_normal((40, 4))
    problem, world = Problem(Phi, TopK(6)), GaussianEnvironment.coherent(Phi, lam=0.5, sigma=0.2, rng=rng)
    steps = list(episodes(TunedCombLinTS(lam=10.0, sigma=1.0, after=5), problem, world, rng=rng, n=8))
    last = steps[-1].belief
    assert steps[3].belief.sigma == 1.0
    assert last.sigma == pytest.approx(0.2, rel=0.3)
    again = gaussian.prior(4, float(last.lam))
    for step in steps:
        again = gaussian.condition(again, Phi[step.A], step.w, float(last.sigma))
    np.testing.assert_allclose(last.factor, again.factor, rtol=1e-6, atol=1e-6)
    evidence = gaussian.log_evidence(Gaussian(last.factor, last.log_scale))
    assert evidence == pytest.approx(gaussian.log_evidence(again), rel=1e-6)


def test_nothing_but_zeros_keeps_the_scales():
    problem = Problem(np.eye(3), TopK(2))
    learner = TunedCombLinTS(lam=1.0, sigma=1.0, after=1)
    belief = learner.update(learner.init(problem), problem, np.array([0, 1]), np.zeros(2))
    assert (belief.lam, belief.sigma, belief.t) == (1.0, 1.0, 1)


def test_refusals():
    with pytest.raises(ParameterError, match="after"):
        TunedCombLinTS(lam=1.0, sigma=1.0, after=0)
    with pytest.raises(ParameterError, match="one problem at a time"):
        TunedCombLinTS(lam=1.0, sigma=1.0).init(Problem(np.zeros((2, 3, 1)), TopK(1)))

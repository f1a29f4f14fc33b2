import dataclasses

import numpy as np
import pytest

from reference import kalman
from superarm import CombLinTS, Problem, TopK, as_oracle, gaussian, mean_se, simulate
from superarm.errors import ParameterError
from superarm.studies.longest_path import LongestPath
from superarm.studies.rivals import LiteralCombLinTS, WindowCombLinTS
from superarm.testing import check_learner
from support import update


def test_contract():
    check_learner(LiteralCombLinTS(lam=1.0, sigma=0.5))
    with pytest.raises(ParameterError, match="sigma"):
        LiteralCombLinTS(lam=1.0, sigma=0.0)


def test_it_is_the_papers_recursion_and_where_stable_the_same_posterior():
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((9, 4)), TopK(3))
    A, w = np.array([5, 2, 7]), rng.standard_normal(3)
    learner = LiteralCombLinTS(lam=2.0, sigma=0.5)
    belief = update(learner, learner.model.prior(problem), problem, A, w)
    theta, Sigma = kalman(np.zeros(4), 4 * np.eye(4), 0.5, zip(problem.Phi[A], w, strict=True))
    np.testing.assert_allclose(belief.theta, theta, atol=1e-12)
    np.testing.assert_allclose(belief.Sigma, Sigma, atol=1e-12)
    stable = CombLinTS(lam=2.0, sigma=0.5)
    np.testing.assert_allclose(
        gaussian.mean(update(stable, stable.model.prior(problem), problem, A, w)),
        belief.theta,
        atol=1e-10,
    )


def test_it_falls_off_the_cliff_at_tiny_sigma_and_the_square_root_belief_does_not():
    learners = [CombLinTS(lam=10.0, sigma=1e-7), LiteralCombLinTS(lam=10.0, sigma=1e-7)]
    trace = simulate(LongestPath(m=10, d=50), learners, episodes=60, replicates=16, progress=False)
    stable, se = mean_se(trace.regret("CombLinTS")[:, -1])
    literal, literal_se = mean_se(trace.regret("LiteralCombLinTS")[:, -1])
    assert literal - stable > 5 * np.hypot(se, literal_se)
    assert literal > 3 * stable


def test_window():
    learner = WindowCombLinTS(lam=1.0, sigma=0.5, size=2)
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((6, 2)), TopK(2))
    belief, feedback = learner.model.prior(problem), []
    for _ in range(5):
        feedback.append((rng.permutation(6)[:2], rng.standard_normal(2)))
        belief = update(learner, belief, problem, *feedback[-1])
    last = gaussian.prior(2, 1.0)
    for A, w in feedback[-2:]:
        last = gaussian.condition(last, problem.Phi[A], w, 0.5)
    expected = problem.Phi @ gaussian.sample(last, np.random.default_rng(1))
    np.testing.assert_allclose(
        learner.scores(belief, problem, np.random.default_rng(1)), expected, rtol=1e-9
    )
    with pytest.raises(ParameterError, match="needs an oracle that knows its K"):
        learner.model.prior(problem._replace(oracle=as_oracle(lambda w: [0])))
    with pytest.raises(ParameterError, match="size"):
        dataclasses.replace(learner, size=0)

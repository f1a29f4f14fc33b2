import dataclasses

import numpy as np
import pytest

from superarm import Problem, TopK, as_oracle, gaussian, mean_se, simulate
from superarm.errors import ParameterError
from superarm.studies.drift import LEARNERS, Drift, WindowCombLinTS
from support import update


def test_forgetting_follows_a_wandering_world():
    trace = simulate(Drift(), LEARNERS, episodes=500, replicates=12, workers=2, progress=False)
    regret = {name: trace.regret(name)[:, -1] for name in LEARNERS}
    saved, se = mean_se(regret["CombLinTS"] - regret["forgetting 0.95"])
    assert saved > 3 * se
    best_window = min(regret[name].mean() for name in regret if name.startswith("sliding"))
    assert regret["forgetting 0.9"].mean() < 1.25 * best_window


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
        learner.weights(belief, problem, np.random.default_rng(1)), expected, rtol=1e-9
    )
    with pytest.raises(ParameterError, match="needs an oracle that knows its K"):
        learner.model.prior(problem._replace(oracle=as_oracle(lambda w: [0])))
    with pytest.raises(ParameterError, match="size"):
        dataclasses.replace(learner, size=0)

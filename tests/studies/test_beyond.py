import dataclasses
import json

import numpy as np
import pytest

from superarm import CombLinTS, CombMixTS, Problem, TopK, as_oracle, gaussian, mean_se, simulate
from superarm.errors import ParameterError
from superarm.studies.ads import Ads
from superarm.studies.artists import Artists
from superarm.studies.beyond import DRIFT_LEARNERS, EXPLORE, GRID, Drift, WindowCombLinTS, reproduce
from superarm.studies.longest_path import LongestPath
from superarm.studies.study import Study
from support import update, with_data


def share_of_optimum(instance, replicates=20):
    trace = simulate(
        instance, [CombMixTS()], episodes=1000, replicates=replicates, workers=2, progress=False
    )
    return mean_se(
        trace.per_step_return("CombMixTS")[:, -1] / trace.per_step_optimum("CombMixTS")[:, -1]
    )


def test_combmixts_with_its_defaults_on_ads():
    share, se = share_of_optimum(Ads())
    assert share >= 0.93
    assert se < 0.005


@with_data
def test_combmixts_with_its_defaults_on_artists():
    share, se = share_of_optimum(Artists())
    assert share >= 0.76
    assert se < 0.02


def test_auto_on_ads_is_within_two_points_of_the_best_of_25_fixed_pairs():
    fixed = {
        f"{lam:g} {sigma:g}": CombLinTS(lam=lam, sigma=sigma) for lam in GRID for sigma in GRID
    }
    learners = {"auto": CombLinTS(), **fixed}
    trace = simulate(Ads(), learners, episodes=1000, replicates=2, workers=2, progress=False)
    share = {
        name: (trace.per_step_return(name) / trace.per_step_optimum(name))[:, -1].mean()
        for name in learners
    }
    assert share["auto"] >= max(share[name] for name in fixed) - 0.02


def test_forgetting_follows_a_wandering_world():
    trace = simulate(
        Drift(), DRIFT_LEARNERS, episodes=500, replicates=12, workers=2, progress=False
    )
    regret = {name: trace.regret(name)[:, -1] for name in DRIFT_LEARNERS}
    saved, se = mean_se(regret["CombLinTS"] - regret["forgetting 0.95"])
    assert saved > 3 * se
    best_window = min(regret[name].mean() for name in regret if name.startswith("sliding"))
    assert regret["forgetting 0.9"].mean() < 1.25 * best_window


def test_the_agnostic_problem_deviates_from_its_features():
    problem, world = LongestPath(m=10, d=5, lam=1.0, tau=3.0)(np.random.default_rng(0))
    theta = np.linalg.lstsq(problem.Phi, world.mean)[0]
    assert np.std(world.mean - problem.Phi @ theta) == pytest.approx(3.0, rel=0.2)
    with pytest.raises(ParameterError, match="tau must be a finite number, 0 or more"):
        LongestPath(tau=-1.0)


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


def test_files(tmp_path):
    study = Study(out=tmp_path, progress=False)
    problems = {"coherent longest path": (LongestPath(m=2, d=3), 10)}
    content = reproduce(study, replicates=2, episodes=10, problems=problems, grid=2)
    written = json.loads((tmp_path / "beyond.json").read_text())
    assert written["drift"] == content["drift"]
    assert set(written["explore"]["coherent longest path"]) >= {f"explore={x:g}" for x in EXPLORE}
    assert len(written["scales"]) == 26
    assert len((tmp_path / "drift.csv").read_text().splitlines()) == 1 + len(DRIFT_LEARNERS) * 10

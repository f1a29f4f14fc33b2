import numpy as np
import pytest
from scipy.special import expit

from superarm import (
    BernoulliEnvironment,
    CombLinTS,
    CombLinUCB,
    Feedback,
    Problem,
    TopK,
    gaussian,
    mean_se,
    simulate,
)
from superarm.beliefs.logit import EmpiricalBayesLogitModel
from superarm.studies.clicks import Clicks
from support import TIMES


def test_regret_on_clicks_is_below_the_linear_learners():
    rng = np.random.default_rng(0)
    _, world = Clicks()(rng)
    assert isinstance(world, BernoulliEnvironment)
    assert world.mean.min() == pytest.approx(0.01)
    assert world.mean.max() == pytest.approx(0.9)
    learners = {
        "linear": CombLinTS(),
        "logit": CombLinTS(lam=1.0, link="logit"),
        "linear UCB": CombLinUCB(c=1.0),
        "logit UCB": CombLinUCB(lam=1.0, c=1.0, link="logit"),
    }
    trace = simulate(
        Clicks(), learners, episodes=100 * TIMES, replicates=10 * TIMES, workers=1, progress=False
    )
    for kind in ("", " UCB"):
        saved, se = mean_se(
            trace.regret(f"linear{kind}")[:, -1] - trace.regret(f"logit{kind}")[:, -1]
        )
        assert saved > 2 * se


@pytest.mark.parametrize("level", [-2.1, -4.8, -6.2])
def test_intervals_of_rare_clicks(level):
    """90 % intervals after 2,000 rows in blocks of 10, at click rates of 14, 1.4 and 0.4 %.

    Over 200 replicates they cover 93, 88 and 86 % for the constant (standard errors of 2 points)
    and 88, 89 and 88 % for slopes (1 point).
    """
    replicates = 40 * TIMES
    rng = np.random.default_rng(1)
    Phi = rng.standard_normal((replicates, 2000, 5))
    Phi[..., 0] = 1.0
    theta = 0.5 * rng.standard_normal((replicates, 5))
    theta[:, 0] = level
    w = (rng.random((replicates, 2000)) < expit((Phi @ theta[..., None])[..., 0])).astype(float)
    problem = Problem(Phi, TopK(1))
    model = EmpiricalBayesLogitModel()
    belief = model.prior(problem)
    for start in range(0, 2000, 10):
        block = np.s_[:, start : start + 10]
        nowhere = np.full((replicates, 10), -1)
        belief = model.learn(belief, problem, Feedback(nowhere, Phi[block], w[block], 1.0))
    width = gaussian.std(belief, np.broadcast_to(np.eye(5), (replicates, 5, 5)))
    covered = np.abs(gaussian.mean(belief) - theta) <= 1.6448536269514722 * width
    assert covered[:, 0].mean() >= 0.8
    assert covered[:, 1:].mean() >= 0.85


@pytest.mark.parametrize("rate", [0.2, 0.005])
def test_shares_of_many_views_are_learned_as_their_clicks_are(rate):
    """With λ of its own choosing, and the renewal of rare targets, as of single views."""
    rng = np.random.default_rng(0)
    Phi = np.column_stack([np.ones(40), rng.standard_normal((40, 2))])
    odds = np.log(rate / (1 - rate)) + Phi @ [0.0, 0.5, -0.5]
    views = 200
    shares = rng.binomial(views, expit(odds)) / views
    problem = Problem(Phi, TopK(5))
    model = EmpiricalBayesLogitModel()
    belief = model.prior(problem)
    for part in np.split(np.arange(40), 8):
        feedback = Feedback.of(problem, part, shares[part], np.full(5, float(views)))
        belief = model.learn(belief, problem, feedback)
    assert float(belief.lam) != 1.0
    width = gaussian.std(belief, np.eye(3))
    truth = [np.log(rate / (1 - rate)), 0.5, -0.5]
    assert (np.abs(gaussian.mean(belief) - truth) < 3.5 * width).all()
    assert width.max() < 0.3


def test_rare_clicks_of_many_rows_are_refreshed_as_those_of_few(monkeypatch):
    """Where the level is chosen anew, it is around what all rows say, however they were taken."""
    rng = np.random.default_rng(0)
    Phi = np.column_stack([np.ones(600), rng.standard_normal((600, 2))])
    problem = Problem(Phi, TopK(1))
    clicked = rng.random(600) < expit(Phi @ [-4.5, 1.0, -0.5])
    feedback = Feedback.of(problem, np.arange(600), clicked.astype(float))
    model = EmpiricalBayesLogitModel()
    prior = model.prior(problem)
    found = model.learn(prior, problem, feedback)
    monkeypatch.setattr("superarm.gaussian.MANY_ROWS", 1000)
    expected = model.learn(prior, problem, feedback)
    for name, x, y in zip(found._fields, found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9, err_msg=name)

"""What choices are worth by a belief: against the closed form, and in worlds where the truth is
known.
"""

import numpy as np
import pytest

from superarm import (
    CombGaussianTS,
    CombLinTS,
    CombMixTS,
    CombTS,
    CombUCB1,
    Feedback,
    TopK,
    gaussian,
)
from superarm.agent.asked import Asked
from superarm.agent.state import started
from superarm.service.dashboard.posterior import DRAWS, worth
from support import TIMES

K = 3
N = 30


def taught(learner, Phi, mean, sigma, rng, decisions=40):
    """The state of a learner after some decisions of its own."""
    state = started(learner, Phi, TopK(K), None)
    belief = state.belief
    for _ in range(decisions):
        A = state.problem.oracle(learner.scores(belief, state.problem, rng))
        w = mean[A] + sigma * rng.standard_normal(K)
        belief = learner.model.learn(belief, state.problem, Feedback.of(state.problem, A, w))
    return state._replace(belief=belief)


def asked(state, Phi=None):
    problem = state.problem if Phi is None else state.problem._replace(Phi=Phi)
    return Asked(state.learner, state.belief, problem, state.catalogue, None)


def test_the_closed_form_of_a_linear_belief():
    """The variance is gᵀΣg of the sum of features g, however often it is chosen: as if items were
    unknown apart from each other, it would shrink with the number of decisions.
    """
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(20, 4)) + 1.0
    theta = rng.normal(size=4)
    state = taught(CombLinTS(lam=1.0, sigma=0.5), Phi, Phi @ theta, 0.5, rng, decisions=3)
    choices = [[np.array([0, 5, 7])]] * N
    found = worth(state.learner, state.belief, [asked(state)] * N, choices, rng)
    g = Phi[[0, 5, 7]].sum(axis=0)
    std = gaussian.std(state.belief, g[None])[0]
    width = (found.high - found.low) / 2
    assert found.n == N
    assert abs(found.value - g @ gaussian.mean(state.belief)) < 4 * std / np.sqrt(DRAWS)
    assert width / (1.96 * std) == pytest.approx(1.0, abs=4 / np.sqrt(2 * DRAWS))
    apart = np.sqrt((gaussian.std(state.belief, Phi[[0, 5, 7]]) ** 2).sum() / N)
    assert width > 3 * 1.96 * apart


def covered(learner_of, world, worlds, seed):
    """The share of worlds in which the interval of a random choice holds what it earns in truth."""
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(worlds):
        Phi, mean, sigma = world(rng)
        state = taught(learner_of(), Phi, mean, sigma, rng)
        calls = [asked(state)] * N
        choices = [[rng.permutation(len(Phi))[:K] for _ in range(4)] for _ in range(N)]
        found = worth(state.learner, state.belief, calls, choices, rng)
        inside += found.low <= K * mean.mean() <= found.high
    return inside / worlds


def linear(rng):
    Phi = rng.normal(size=(15, 3))
    return Phi, Phi @ rng.normal(size=3), 0.5


def mixed(rng):
    Phi = rng.normal(size=(15, 3))
    return Phi, Phi @ rng.normal(size=3) + 0.5 * rng.normal(size=15), 0.5


def itemwise(rng):
    return np.eye(12), rng.normal(size=12), 0.5


@pytest.mark.parametrize(
    ("learner_of", "world"),
    [
        (lambda: CombLinTS(lam=1.0, sigma=0.5), linear),
        (lambda: CombMixTS(lam=1.0, sigma=0.5, tau=0.5), mixed),
        (lambda: CombGaussianTS(lam=1.0, sigma=0.5), itemwise),
    ],
    ids=["linear", "mixed", "per item"],
)
def test_the_interval_holds_the_truth(learner_of, world):
    """In 120 worlds drawn from the prior; 95 % has a standard error of 2 % there."""
    assert abs(covered(learner_of, world, 120 * TIMES, 5) - 0.95) < 2 * 0.02


def test_contexts_are_part_of_the_error():
    """Decisions differ: that the sample is one of many possible is in the interval."""
    rng = np.random.default_rng(3)
    Phi = rng.normal(size=(20, 4))
    state = taught(CombLinTS(lam=1.0, sigma=0.1), Phi, Phi @ np.ones(4), 0.1, rng, 200)
    calls = [asked(state, Phi * rng.choice([0.2, 3.0])) for _ in range(N)]
    choices = [[np.array([0, 1, 2])] for _ in calls]
    found = worth(state.learner, state.belief, calls, choices, rng)
    values = [call.problem.Phi[[0, 1, 2]].sum(axis=0) @ np.ones(4) for call in calls]
    width = (found.high - found.low) / 2
    assert width == pytest.approx(1.96 * np.std(values, ddof=1) / np.sqrt(N), rel=0.1)


def test_clicks_are_shares():
    rng = np.random.default_rng(4)
    for learner in (CombLinTS(lam=1.0, link="logit"), CombMixTS(link="logit"), CombTS()):
        state = taught(learner, np.eye(6), np.full(6, 0.5), 0.0, rng, decisions=5)
        choices = [[np.array([0, 1, 2])]] * N
        found = worth(state.learner, state.belief, [asked(state)] * N, choices, rng)
        assert 0 < found.value < 3


def test_deviations_are_the_same_wherever_an_item_is_chosen():
    """One item chosen in all decisions: the interval does not shrink with their number."""
    rng = np.random.default_rng(5)
    learner = CombMixTS(lam=0.01, sigma=1.0, tau=1.0)
    state = started(learner, np.ones((3, 1)), TopK(1), None)
    widths = []
    for n in (10, 1000):
        found = worth(learner, state.belief, [asked(state)] * n, [[np.array([1])]] * n, rng)
        widths.append(found.high - found.low)
    assert widths[1] == pytest.approx(2 * 1.96, rel=0.2)
    assert widths[0] == pytest.approx(widths[1], rel=0.3)


def test_who_has_no_posterior_says_nothing():
    rng = np.random.default_rng(0)
    state = started(CombUCB1(), np.eye(4), TopK(2), None)
    choices = [[np.array([0, 1])]] * 5
    assert worth(state.learner, state.belief, [asked(state)] * 5, choices, rng) is None
    state = started(CombTS(), np.eye(4), TopK(2), None)
    assert worth(state.learner, state.belief, [asked(state)], choices[:1], rng) is None

import numpy as np
import pytest

from superarm import Feedback, Problem, TopK
from superarm.beliefs.itemwise import Beta, CoinsModel, CountsModel
from superarm.errors import WeightsError

PROBLEM = Problem(np.zeros((4, 1)), TopK(2))


def toss(belief, A, w):
    problem = Problem(np.zeros((len(belief.alpha), 1)), TopK(2))
    return CoinsModel(1.0, 1.0).learn(belief, problem, Feedback.of(problem, A, w))


def count(belief, A, w):
    return CountsModel().learn(belief, PROBLEM, Feedback.of(PROBLEM, A, w))


def test_toss_counts_zeros_and_ones_as_they_are():
    belief = CoinsModel(2.0, 3.0).prior(PROBLEM)
    belief = toss(belief, np.array([3, 1, -1]), np.array([1.0, 0.0, np.nan]))
    assert belief.alpha.tolist() == [2, 2, 2, 3]
    assert belief.beta.tolist() == [3, 4, 3, 3]


@pytest.mark.parametrize("w", [0.1, 0.5, 0.93])
def test_toss_shows_heads_as_often_as_the_weight_says(w):
    belief = Beta(np.ones(50), np.ones(50))
    n = 400
    for _ in range(n):
        belief = toss(belief, np.arange(50), np.full(50, w))
    assert (belief.alpha + belief.beta == n + 2).all()
    heads = belief.alpha - 1
    assert abs(heads.mean() / n - w) < 4 * np.sqrt(w * (1 - w) / (50 * n))
    # independent tosses: the counts vary as a binomial does, to 4 standard errors of a variance
    assert abs(heads.var(ddof=1) / (n * w * (1 - w)) - 1) < 4 * np.sqrt(2 / 49)


@pytest.mark.parametrize("w", [-0.1, 1.1, np.nan])
def test_toss_refuses_weights_outside_0_1(w):
    with pytest.raises(WeightsError, match=r"item 2 has weight .*use CombGaussianTS"):
        toss(CoinsModel(1.0, 1.0).prior(PROBLEM), np.array([0, 2]), np.array([0.5, w]))


def test_count():
    belief = count(CountsModel().prior(PROBLEM), np.array([3, 0, -1]), np.array([2.5, -1.0, 9.0]))
    belief = count(belief, np.array([3]), np.array([0.5]))
    assert belief.n.tolist() == [1, 0, 0, 2]
    assert belief.total.tolist() == [-1, 0, 0, 3]
    assert belief.t == 2
    assert count(belief, np.array([-1, -1]), np.array([1.0, 1.0])).t == 2

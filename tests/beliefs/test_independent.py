import numpy as np
import pytest

from superarm import CombTS, Feedback, Problem, TopK
from superarm.beliefs.independent import BetaBernoulliModel, CountsModel
from superarm.errors import ParameterError, WeightsError

PROBLEM = Problem(np.zeros((4, 1)), TopK(2))


def toss(belief, A, w):
    problem = Problem(np.zeros((len(belief.alpha), 1)), TopK(2))
    return BetaBernoulliModel(1.0, 1.0).learn(belief, problem, Feedback.of(problem, A, w))


def count(belief, A, w):
    return CountsModel().learn(belief, PROBLEM, Feedback.of(PROBLEM, A, w))


def test_toss_counts_zeros_and_ones_as_they_are():
    belief = BetaBernoulliModel(2.0, 3.0).prior(PROBLEM)
    belief = toss(belief, np.array([3, 1, -1]), np.array([1.0, 0.0, np.nan]))
    assert belief.alpha.tolist() == [2, 2, 2, 3]
    assert belief.beta.tolist() == [3, 4, 3, 3]


@pytest.mark.parametrize("w", [0.1, 0.5, 0.93])
def test_a_weight_between_counts_as_that_share_of_heads(w):
    belief = toss(BetaBernoulliModel(1.0, 2.0).prior(PROBLEM), np.array([2, 0]), np.array([w, 1.0]))
    np.testing.assert_allclose(belief.alpha, [2, 1, 1 + w, 1])
    np.testing.assert_allclose(belief.beta, [2, 2, 3 - w, 2])


def test_learning_does_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    w = rng.random((30, 4))
    forward = backward = BetaBernoulliModel(1.0, 1.0).prior(PROBLEM)
    for t in range(30):
        forward = toss(forward, np.arange(4), w[t])
        backward = toss(backward, np.arange(4), w[29 - t])
    np.testing.assert_allclose(forward.alpha, backward.alpha, rtol=1e-14)
    np.testing.assert_allclose(forward.alpha, 1 + w.sum(0), rtol=1e-14)


def test_the_names_of_items_do_not_matter():
    """Feedback of one value between 0 and 1 for each item, which items swap from run to run. Mean
    returns of runs vary as their replicates say: with 30 runs the ratio of the variances has a
    standard error of √(2/29) = 0.26. Coins that replicates share made it 264.
    """
    items = 6
    replicates = 40
    learner = CombTS()
    mean = np.linspace(0.42, 0.58, items)
    problem = Problem(np.zeros((replicates, items, 1)), TopK(1))
    rng = np.random.default_rng(0)
    returns = []
    for _ in range(30):
        swapped = rng.permutation(mean)
        belief = learner.model.prior(problem)
        total = np.zeros(replicates)
        for _ in range(60):
            A = np.argmax(learner.scores(belief, problem, rng), axis=-1)[:, None]
            belief = learner.model.learn(belief, problem, Feedback.of(problem, A, swapped[A]))
            total += swapped[A[:, 0]]
        returns.append(total)
    returns = np.array(returns)
    between = returns.mean(-1).var(ddof=1)
    within = returns.var(-1, ddof=1).mean() / replicates
    assert between / within < 2


def test_importance_counts_observations():
    A = np.array([1, 3])
    w = np.array([0.25, 1.0])
    v = np.array([4.0, 2.0])
    feedback = Feedback.of(PROBLEM, A, w, v)
    belief = BetaBernoulliModel(1.0, 1.0).learn(
        BetaBernoulliModel(1.0, 1.0).prior(PROBLEM), PROBLEM, feedback
    )
    assert belief.alpha.tolist() == [1, 2, 1, 3]
    assert belief.beta.tolist() == [1, 4, 1, 1]
    counts = CountsModel().learn(CountsModel().prior(PROBLEM), PROBLEM, feedback)
    assert counts.n.tolist() == [0, 4, 0, 2]
    assert counts.weight_sums.tolist() == [0, 1, 0, 2]
    assert counts.t == 1


def test_priors_of_their_own():
    model = CombTS(alpha=[1, 2, 3, 4], beta=np.array([4.0, 3.0, 2.0, 1.0])).model
    belief = model.prior(PROBLEM)
    assert belief.alpha.tolist() == [1, 2, 3, 4]
    assert belief.beta.tolist() == [4, 3, 2, 1]
    batch = model.prior(Problem(np.zeros((2, 4, 1)), TopK(2)))
    assert batch.alpha.tolist() == [[1, 2, 3, 4]] * 2
    with pytest.raises(ParameterError, match="alpha has 4 numbers, but there are 3 items"):
        model.prior(Problem(np.zeros((3, 1)), TopK(2)))


@pytest.mark.parametrize("w", [-0.1, 1.1, np.nan])
def test_toss_refuses_weights_outside_0_1(w):
    with pytest.raises(WeightsError, match=r"item 2 has weight .*use CombGaussianTS"):
        toss(BetaBernoulliModel(1.0, 1.0).prior(PROBLEM), np.array([0, 2]), np.array([0.5, w]))


def test_count():
    belief = count(CountsModel().prior(PROBLEM), np.array([3, 0, -1]), np.array([2.5, -1.0, 9.0]))
    belief = count(belief, np.array([3]), np.array([0.5]))
    assert belief.n.tolist() == [1, 0, 0, 2]
    assert belief.weight_sums.tolist() == [-1, 0, 0, 3]
    assert belief.t == 2
    assert count(belief, np.array([-1, -1]), np.array([1.0, 1.0])).t == 2

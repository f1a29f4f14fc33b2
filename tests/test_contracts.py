from inspect import signature
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from superarm import CombLinTS, Feedback, Model, Oracle, Problem, Statistics, TopK, as_oracle
from superarm.contracts import require_learner
from superarm.decide import validated
from superarm.errors import (
    InfeasibleError,
    OracleError,
    ParameterError,
    UnsupportedError,
)
from superarm.oracles.base import Masked
from superarm.testing import check_oracle


def best_pair(w):
    order = [int(e) for e in np.argsort(-w, kind="stable") if w[e] > -np.inf][:2]
    if len(order) < 2:
        raise InfeasibleError("fewer than two items are available")
    return order


def test_problem_shapes():
    problem = Problem(np.zeros((7, 5, 3)), TopK(2))
    assert (problem.L, problem.d, problem.batch) == (5, 3, (7,))


def test_checked_problem_takes_lists_and_functions():
    problem = validated(Problem([[1, 0], [0, 1], [1, 1]], best_pair))
    assert problem.Phi.dtype == np.float64
    assert isinstance(problem.oracle, Oracle)


def test_as_oracle_keeps_oracles():
    oracle = TopK(2)
    assert as_oracle(oracle) is oracle


def test_as_oracle_under_the_contract():
    oracle = as_oracle(best_pair, K=2, gap=0.0)
    check_oracle(oracle, 6, family=[(i, j) for j in range(6) for i in range(j)])


def test_as_oracle_pads_sets_of_different_size():
    positive = as_oracle(lambda w: set(np.flatnonzero(w > 0)))
    np.testing.assert_array_equal(positive(np.array([[1, -1, 1], [-1, 1, -1]])), [[0, 2], [1, -1]])
    assert positive(np.array([-1.0, -1.0])).shape == (0,)
    assert (positive.K, positive.gap) == (None, None)


def test_as_oracle_gives_the_function_its_own_copy():
    def vandal(w):
        w[:] = 0
        return [0]

    w = np.array([1.0, 2.0])
    as_oracle(vandal)(w)
    assert w.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([0, 1, 2], "3 items where at most K=2 are allowed"),
        ([1, 1], "item 1 is repeated"),
        ([4], "item 4 is not one of the items 0..3"),
        ([-1], "item -1 is not"),
        ([0.5], "must be integers"),
        (None, "flat list"),
        ([3], r"item 3 is not available \(its weight is -inf\)"),
    ],
)
def test_as_oracle_checks_what_the_function_returns(returned, message):
    oracle = as_oracle(lambda w: returned, K=2)
    with pytest.raises(OracleError, match=message):
        oracle(np.array([0.0, 1.0, 2.0, -np.inf]))


def test_as_oracle_refuses_what_cannot_be_called():
    with pytest.raises(OracleError, match="a function from weights to items"):
        as_oracle(3)
    with pytest.raises(ParameterError, match=r"has its own K=5 and gap=0\.0"):
        as_oracle(TopK(5), K=2)


@pytest.mark.parametrize("promise", [{"K": -1}, {"K": 1.5}, {"gap": 1.0}, {"gap": -0.1}])
def test_as_oracle_refuses_impossible_promises(promise):
    with pytest.raises(ParameterError, match="K must be a whole number and gap lie in"):
        as_oracle(lambda w: [0], **promise)


class Foreign:
    """Somebody's oracle class, which answers what it is told to."""

    K, gap = 2, 0.0

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, w):
        return np.array(self.answer)


def test_oracles_of_other_people_are_checked_too():
    w = np.array([[0.0, 1.0, 2.0, -np.inf], [0.0, 1.0, 2.0, 3.0]])
    oracle = as_oracle(Foreign([1, -1]))
    assert (oracle.K, oracle.gap) == (2, 0.0)
    np.testing.assert_array_equal(oracle(w), [[1], [1]])
    for answer, message in (
        ([0, 1, 2], "at most K=2"),
        ([1, 1], "repeated"),
        ([9], "not one"),
        ([3], "not available"),
    ):
        with pytest.raises(OracleError, match=message):
            as_oracle(Foreign(answer))(w)


def test_as_oracle_says_infeasible_when_nothing_is_available():
    with pytest.raises(InfeasibleError, match="no item is available"):
        as_oracle(lambda w: [int(w.argmax())])(np.full(3, -np.inf))
    with pytest.raises(OracleError, match="a flat list of items"):
        as_oracle(lambda w: [[1], [2, 3]])(np.zeros(3))


def test_masked():
    oracle = Masked(TopK(2), np.array([True, False, True, True]))
    assert (oracle.K, oracle.gap) == (2, 0.0)
    assert oracle(np.array([1.0, 9.0, 3.0, 2.0])).tolist() == [2, 3]


def test_a_model_that_does_not_inherit_is_refused():
    class Records:
        per_item = ()
        uses_features = True

        def prior(self, problem): ...

        def learn(self, belief, problem, feedback): ...

    learner = SimpleNamespace(model=Records(), scores=max)
    with pytest.raises(ParameterError, match=r"write class Records\(Model\), with the"):
        require_learner(learner)


@pytest.mark.parametrize("missing", ["prior", "learn"])
def test_a_model_without_what_it_must_have_cannot_be_made(missing):
    methods = {"prior": lambda self, problem: None, "learn": lambda self, *arguments: None}
    del methods[missing]
    with pytest.raises(TypeError, match=missing):
        type("Records", (Model,), methods)()


def test_what_is_no_learner_is_refused():
    things = (CombLinTS, "CombLinTS", None, SimpleNamespace(model=CombLinTS().model))
    for thing in things:
        with pytest.raises(ParameterError, match=r"a learner is needed, such as CombLinTS\(\)"):
            require_learner(thing)
    require_learner(CombLinTS())


DEFAULTS = (
    *("mean", "std", "sample", "coefficients", "prior_std", "from_factor", "learn_factor"),
    *("forget", "merge"),
)


class LastWeights(NamedTuple):
    w: np.ndarray


class LastWeight(Model):
    """No more than a model must have."""

    per_item = ("w",)

    def prior(self, problem):
        return LastWeights(np.zeros(problem.L))

    def learn(self, belief, problem, feedback):
        return belief


@pytest.mark.parametrize("method", DEFAULTS)
def test_a_method_that_a_model_lacks_is_named(method):
    model = LastWeight()
    function = getattr(model, method)
    arguments = [None] * len(signature(function).parameters)
    with pytest.raises(UnsupportedError, match=rf"LastWeight has no method {method}\(\.\.\.\)"):
        function(*arguments)


def test_defaults_of_a_model():
    model = LastWeight()
    two = Problem(np.eye(2), TopK(1))
    three = Problem(np.eye(3)[:, :2], TopK(1))
    belief = LastWeights(np.array([5.0, 7.0]))
    moved = model.resize(belief, two, three, np.array([1, -1, 0]))
    assert moved.w.tolist() == [7.0, 0.0, 5.0]
    assert model.extend(belief, two, three).w.tolist() == [5.0, 7.0, 0.0]
    assert model.select_items(belief, np.array([1])).w.tolist() == [7.0]
    assert model.append_items(belief, LastWeights(np.array([9.0]))).w.tolist() == [5.0, 7.0, 9.0]
    assert model.item_effects(belief, two).tolist() == [0.0, 0.0]
    assert model.inverse_link(belief.w) is belief.w
    assert model.ucb_growth(belief.w, belief) == 1.0
    assert model.hyperparameters(belief) == {}
    mean, variance = model.conditional_moments(belief, two, np.array([2.0, 3.0]))
    assert mean.tolist() == [2.0, 3.0]
    assert variance.tolist() == [0.0, 0.0]
    assert model.fixed_features  # parameters per item, beside features


def test_feedback_is_of_means_wherever_there_are_several_observations():
    one = Feedback(np.array([0]), np.ones((1, 2)), np.array([0.5]))
    assert not one.is_summed
    assert one._replace(n_observations=5.0).is_summed
    assert one._replace(n_observations=np.array([5.0])).is_summed
    problem = Problem(np.eye(2), TopK(1))
    model = CombLinTS(lam=1.0, sigma=1.0).model
    number, array = (
        model.learn(model.prior(problem), problem, one._replace(n_observations=n, importance=5.0))
        for n in (5.0, np.array([5.0]))
    )
    np.testing.assert_array_equal(number.factor, array.factor)
    np.testing.assert_array_equal(number.log_normalizer, array.log_normalizer)


def test_importance_beside_statistics_is_refused():
    problem = Problem(np.eye(2), TopK(1))
    statistics = Statistics(np.array([2]), np.array([1.0]), np.array([1.0]))
    with pytest.raises(ParameterError, match="leave importance out"):
        Feedback.of(problem, np.array([0]), statistics, importance=3.0)

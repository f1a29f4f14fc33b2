from types import SimpleNamespace

import numpy as np
import pytest

from superarm import CombLinTS, Oracle, Problem, RandomChoice, TopK, as_oracle
from superarm.contracts import defines_both, method_of, require_learner
from superarm.decide import validated
from superarm.errors import (
    InfeasibleError,
    OracleError,
    ParameterError,
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


@pytest.mark.parametrize("missing", ["scores", "per_item", "uses_features", "prior", "learn"])
def test_what_a_learner_lacks_is_named(missing):
    parts = dict.fromkeys(["scores", "per_item", "uses_features", "prior", "learn"])
    del parts[missing]
    model = SimpleNamespace(**parts)
    with pytest.raises(
        ParameterError, match=f"SimpleNamespace has no {missing}: superarm.contracts"
    ):
        require_learner(SimpleNamespace(model=model, **parts))


def test_what_is_no_learner_is_refused():
    for thing in (CombLinTS, "CombLinTS", None, SimpleNamespace(init=None, update=None)):
        with pytest.raises(ParameterError, match=r"a learner is needed, as CombLinTS\(\)"):
            require_learner(thing)
    require_learner(CombLinTS())


def test_a_method_that_a_model_lacks_is_named():
    assert method_of(CombLinTS().model, "merge")
    with pytest.raises(
        ParameterError, match=r"CountsModel has no method std\(\.\.\.\), which this needs"
    ):
        method_of(RandomChoice().model, "std")


def test_both_of_two_methods_must_be_defined_by_the_class_itself():
    class Both:
        def one(self): ...

        def two(self): ...

    class OneAlone(Both):
        def one(self): ...

    assert defines_both(Both(), "one", "two")
    assert not defines_both(OneAlone(), "one", "two")
    assert not defines_both(OneAlone(), "two", "one")
    assert not defines_both(object(), "one", "two")

from types import SimpleNamespace

import numpy as np
import pytest

from superarm import CombLinTS, Problem, TopK
from superarm.base_learner import BaseLearner, as_learner
from superarm.decide import decide
from superarm.errors import ParameterError


class Mine(CombLinTS):
    pass


class Doubled(CombLinTS):
    def scores(self, belief, problem, rng):
        return 2 * super().scores(belief, problem, rng)


class Shifted(CombLinTS):
    def row_scores(self, belief, rng):
        row_scores = super().row_scores(belief, rng)
        return lambda rows: row_scores(rows) + 1.0


def test_a_subclass_keeps_what_was_declared_until_it_defines_other_scores():
    def declared(learner):
        return learner.scores_rows, learner.scores_subsets, learner.theta_noise

    assert declared(Mine()) == declared(CombLinTS()) == (True, True, 1.0)
    assert declared(Doubled()) == (False, False, None)
    assert declared(Shifted()) == (True, True, None)


@pytest.mark.parametrize("cls", [Mine, Doubled, Shifted])
def test_subclasses_choose_from_large_catalogues_by_their_own_scores(cls, monkeypatch):
    monkeypatch.setattr("superarm.decide.MAX_ITEMS_AT_ONCE", 10)
    monkeypatch.setattr("superarm.oracles.base.CHUNK_ITEMS", 7)
    learner = cls(lam=1.0, sigma=1.0)
    problem = Problem(np.random.default_rng(0).standard_normal((40, 3)), TopK(5))
    belief = learner.model.prior(problem)
    A = decide(learner, belief, problem, np.random.default_rng(1))
    w = learner.scores(belief, problem, np.random.default_rng(1))
    assert A.tolist() == np.argsort(-w)[:5].tolist()


def test_a_learner_that_does_not_inherit_is_adapted():
    plain = SimpleNamespace(model=CombLinTS().model, scores=lambda belief, problem, rng: "scores")
    learner = as_learner(plain)
    assert learner.model is plain.model
    assert learner.scores(None, None, None) == "scores"
    assert learner.resize(np.array([0])) is plain
    assert (learner.scores_rows, learner.scores_subsets, learner.theta_noise) == (
        False,
        False,
        None,
    )
    assert as_learner(learner) is learner


def test_what_a_learner_does_not_define_is_named():
    class Empty(BaseLearner):
        pass

    with pytest.raises(ParameterError, match="Empty needs a model"):
        _ = Empty().model
    with pytest.raises(ParameterError, match=r"Empty needs a method scores"):
        Empty().scores(None, None, None)

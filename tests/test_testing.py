"""The contract suite must catch what it is there to catch."""

import itertools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from superarm import CombLinTS, Model, TopK, as_oracle, minimize
from superarm.arrays import normal
from superarm.beliefs.independent import CountsModel
from superarm.errors import InfeasibleError
from superarm.testing import check_learner, check_oracle
from support import Bare

PAIRS = list(itertools.combinations(range(5), 2))


class Broken:
    """TopK(2), spoiled by `spoil(answer, weights)`."""

    K = 2

    def __init__(self, spoil, gap=0.0):
        self.spoil, self.gap = spoil, gap

    def __call__(self, w, /):
        return self.spoil(TopK(2)(w), w)


def vandalize(A, w):
    w[...] = 0
    return A


def never(A, w):
    raise InfeasibleError("no")


calls = itertools.count()

BROKEN = {
    "foreign item": (lambda A, w: A + 4, "not one of the items"),
    "repeated item": (lambda A, w: np.zeros_like(A), "repeated"),
    "too many": (
        lambda A, w: np.concatenate([A, A[..., :0] - 1, A[..., :1]], axis=-1),
        "at most K=2",
    ),
    "floats": (lambda A, w: A.astype(float), "integers"),
    "a list": (lambda A, w: A.tolist(), "an array of items"),
    "wrong shape": (lambda A, w: A[None], "shape"),
    "padding first": (lambda A, w: np.append([-1], A[..., :1]), "pads at the end"),
    "unavailable": (lambda A, w: np.arange(2), "not available"),
    "changes weights": (vandalize, "changed the weights"),
    "moody": (lambda A, w: A[::-1] if next(calls) % 2 else A, "asked twice"),
    "not the best": (lambda A, w: np.argsort(w)[:2] if (w > -np.inf).all() else A, "can be had"),
    "infeasible": (never, "InfeasibleError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_check_oracle_catches(name):
    spoil, message = BROKEN[name]
    with pytest.raises(AssertionError, match=message):
        check_oracle(Broken(spoil), 5)


def test_check_oracle_catches_sets_outside_the_family_and_masked_feasible_ones():
    with pytest.raises(AssertionError, match="is not a feasible set"):
        check_oracle(TopK(2), 5, family=PAIRS[:-1])

    def shy(w):
        if np.isneginf(w).any():
            raise InfeasibleError("some items are missing")
        return TopK(2)(w)

    with pytest.raises(AssertionError, match="is feasible"):
        check_oracle(as_oracle(shy, K=2, gap=0.0), 5, family=PAIRS)


def best_of_pair(w):
    """At least half of the best pair, if no weight is negative."""
    return TopK(2)(w)[:1]


def test_check_oracle_knows_gaps():
    check_oracle(as_oracle(best_of_pair, gap=None), 5)
    feasible = [*PAIRS, *((e,) for e in range(5))]
    full = as_oracle(lambda w: TopK(1)(w), K=2, gap=0.5)
    check_oracle(full, 5, family=feasible)
    with pytest.raises(AssertionError, match=r"gap=0\.2"):
        check_oracle(as_oracle(lambda w: TopK(1)(w), K=2, gap=0.2), 5, family=feasible)
    with pytest.raises(AssertionError, match="gap must be None or in"):
        check_oracle(Broken(lambda A, w: A, gap=1.0), 5)


def test_check_oracle_catches_missing_attributes_refusals_and_batches():
    with pytest.raises(AssertionError, match="must be callable and have K and gap"):
        check_oracle(lambda w: [0], 5)
    with pytest.raises(AssertionError, match="must raise ValueError"):
        check_oracle(Lenient(), 5)
    with pytest.raises(AssertionError, match="differs from its rows"):
        check_oracle(Broken(lambda A, w: A if A.ndim == 1 else A[..., ::-1]), 5)


class Lenient:
    """TopK(2) that takes NaN for a small number."""

    K, gap = 2, 0.0

    def __call__(self, w, /):
        return TopK(2)(np.where(np.isnan(w), -1e9, w))


class State(NamedTuple):
    x: np.ndarray


@dataclass(frozen=True, kw_only=True)
class BrokenLearner(Model):
    """A learner that does one thing wrong."""

    fault: str
    uses_features: ClassVar[bool] = False

    @property
    def model(self):
        return self

    @property
    def per_item(self):
        return {"undeclared": (), "unknown": ("x", "y")}.get(self.fault, ("x",))

    def prior(self, problem):
        x = np.zeros((*problem.batch, problem.L))
        return [x] if self.fault == "list" else State(x)

    def scores(self, belief, problem, rng):
        if self.fault == "shape":
            return belief.x[..., :-1]
        if self.fault == "infinite":
            return belief.x + np.inf
        if self.fault == "own randomness":
            return np.random.default_rng().standard_normal(belief.x.shape)
        return belief.x + normal(rng, belief.x)

    def learn(self, belief, problem, feedback):
        A = feedback.A
        w = feedback.w
        if self.fault == "in place":
            belief.x[...] += 1
            return belief
        if self.fault == "feedback in place":
            w[...] = 0
        if self.fault == "order":
            return State(belief.x + w[..., :1])
        if self.fault == "padding":
            return State(belief.x + A.shape[-1])
        if self.fault == "batch":
            return State(belief.x + belief.x.ndim)
        return State(belief.x + 1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("list", "a belief is a NamedTuple"),
        ("shape", "weights must have shape"),
        ("infinite", r"below \+inf"),
        ("own randomness", "equal generators"),
        ("in place", "in place"),
        ("feedback in place", "in place"),
        ("order", "another order"),
        ("padding", "padding"),
        ("batch", "batch"),
        ("undeclared", "the field x of a belief grows with the number of items"),
        ("unknown", r"per_item names \['y'\], which beliefs do not have"),
    ],
)
def test_check_learner_catches(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_learner(BrokenLearner(fault=fault))


@dataclass(frozen=True)
class Positional:
    scale: float = 1.0


def test_check_learner_catches_positional_hyperparameters():
    with pytest.raises(AssertionError, match="keyword-only, but scale is not"):
        check_learner(Positional())


def test_check_oracle_lets_randomized_oracles_vary():
    coin = itertools.count()
    moody = Broken(lambda A, w: A[::-1] if next(coin) % 2 else A)
    check_oracle(moody, 5, family=PAIRS, randomized=True)


def test_check_oracle_catches_a_wrong_length():
    class Careless:
        K, gap, L = 2, 0.0, 5

        def __call__(self, w, /):
            return TopK(2)(w[..., :5] if np.ndim(w) else w)

    with pytest.raises(AssertionError, match="must raise ValueError"):
        check_oracle(Careless(), 5)


def test_check_learner_catches_state_in_the_learner():
    with pytest.raises(AssertionError, match="a frozen dataclass of hyperparameters"):
        check_learner(object())


def test_check_learner_accepts_what_is_right():
    check_learner(BrokenLearner(fault="none"))
    check_learner(Bare())
    check_learner(CombLinTS(lam=1.0, sigma=1.0), seed=5)


def test_check_oracle_catches_a_batch_of_another_shape():
    class Flat:
        K, gap = 2, 0.0

        def __call__(self, w, /):
            A = TopK(2)(w)
            return A.reshape(-1, 2) if np.ndim(w) > 1 else A

    with pytest.raises(AssertionError, match="differs from its rows"):
        check_oracle(Flat(), 5)


class Spoken:
    """TopK(2), with what it says of itself."""

    K, gap = 2, 0.0

    def __init__(self, **hints):
        vars(self).update(hints)

    def __call__(self, w, /):
        return TopK(2)(w)


def test_check_oracle_holds_costs_to_the_cheapest():
    check_oracle(minimize(TopK(2)), 5, family=PAIRS)
    check_oracle(Spoken(exchanges=True, sense=1), 5, family=PAIRS)
    with pytest.raises(AssertionError, match="can be had"):
        check_oracle(Spoken(sense=-1), 5)


def test_check_oracle_catches_hints_that_are_none():
    with pytest.raises(AssertionError, match="sense must be 1, or -1 for costs, got 0"):
        check_oracle(Spoken(sense=0), 5)
    with pytest.raises(AssertionError, match="exchanges must be True or False, got 'yes'"):
        check_oracle(Spoken(exchanges="yes"), 5)


def test_check_learner_tries_oracles_that_say_nothing_of_themselves():
    @dataclass(frozen=True, kw_only=True)
    class Trusting:
        """It takes for granted what oracles need not have."""

        model: ClassVar[CountsModel] = CountsModel()

        def scores(self, belief, problem, rng):
            assert problem.oracle.exchanges
            return normal(rng, belief.n)

    with pytest.raises(AssertionError):
        check_learner(Trusting())


def test_check_learner_names_what_is_missing():
    @dataclass(frozen=True, kw_only=True)
    class Modelless:
        pass

    with pytest.raises(AssertionError, match="a learner is needed"):
        check_learner(Modelless())

"""Decisions by rough scores are those by all scores."""

import numpy as np
import pytest
from scipy import sparse

from superarm import CombLinTS, CombLinUCB, Quota, TopK
from superarm.agent.asked import asked
from superarm.agent.state import started
from superarm.arrays import Stream, broadcast
from superarm.contexts import Outer
from superarm.service.screens import FEWEST, Screens, fits

L, D = 2000, 20


@pytest.fixture(scope="module")
def Phi():
    assert L * D > FEWEST
    return np.random.default_rng(0).normal(size=(L, D))


def state_of(Phi, learner=None, oracle=None):
    return started(learner or CombLinTS(), Phi, oracle or TopK(10), None)


def call_of(state, n):
    return asked(state, broadcast(state.problem.Phi, n), None, None)


@pytest.mark.parametrize("learner", [CombLinTS(), CombLinTS(lam=2.0, sigma=0.5, forgetting=0.99)])
def test_the_same_as_by_all_scores(Phi, learner):
    state = state_of(Phi, learner)
    screens = Screens()
    for first in range(0, 300, 30):
        seeds = range(first, first + 30)
        call = call_of(state, len(seeds))
        assert fits(state, call)
        found = screens.decided("page", state, call, Stream(seeds))
        assert (found == call.decided(Stream(seeds))).all()


def test_other_features_are_looked_at_anew(Phi):
    screens = Screens()
    for features in (Phi, -Phi, np.vstack([Phi, 2 * Phi])):
        state = state_of(features)
        call = call_of(state, 3)
        found = screens.decided("page", state, call, Stream([1, 2, 3]))
        assert (found == call.decided(Stream([1, 2, 3]))).all()


@pytest.mark.parametrize(
    "other",
    [
        {"learner": CombLinUCB(lam=1.0, sigma=1.0, c=1.0)},
        {"learner": CombLinTS(lam=1.0, link="logit")},
        {"oracle": TopK(10, at_most=True)},
        {"oracle": TopK(300)},
        {"oracle": Quota([0, 1] * (L // 2), {0: 2, 1: 2})},
    ],
)
def test_what_does_not_fit_is_decided_as_ever(Phi, other):
    state = state_of(Phi, **other)
    call = call_of(state, 2)
    assert not fits(state, call)
    found = Screens().decided("page", state, call, Stream([5, 6]))
    assert (found == call.decided(Stream([5, 6]))).all()


@pytest.mark.parametrize("change", [np.asfortranarray, np.float32, lambda Phi: Phi[:50]])
def test_features_that_do_not_fit(Phi, change):
    state = state_of(change(Phi))
    assert not fits(state, call_of(state, 2))


def test_sparse_features_and_contexts(Phi):
    state = state_of(sparse.csr_array(Phi))
    assert not fits(state, asked(state, None, None, None))
    state = state_of(Outer(Phi)(np.ones(2)))
    assert not fits(state, asked(state, None, None, None))


def test_items_that_are_not_available(Phi):
    state = state_of(Phi)
    call = asked(state, broadcast(Phi, 2), np.arange(L) % 2 == 0, None)
    assert not fits(state, call)

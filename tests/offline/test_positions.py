"""Estimates from slates, against enumeration: each slate in the log as often as its probability."""

import itertools

import numpy as np
import pytest

from superarm import CombLinTS, Problem, Slate
from superarm.errors import ItemsError, ParameterError
from superarm.offline.positions import (
    certain,
    ips_by_examination,
    ips_by_position,
    slate_probabilities,
)

L = 4
P = np.array([0.5, 1.0, 0.2])
ALPHA = np.array([0.9, 0.2, 0.4, 0.6])
SLATES = np.array(list(itertools.permutations(range(L), 3)))


def logged(n, seed=0):
    """Slates with unequal probabilities, the table of these, and clicks."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(len(SLATES), 2.0))
    table = sum(s * certain(slate, L) for s, slate in zip(share, SLATES, strict=True))
    A = SLATES[rng.choice(len(SLATES), n, p=share)]
    clicks = rng.random(A.shape) < ALPHA[A] * P
    return A, clicks, table


def truth(slate):
    return ALPHA[slate] @ P


def propensities(A, table):
    return table[A, np.arange(3)]


@pytest.mark.parametrize("slate", [[0, 3, 2], [1, 2, 3]])
def test_both_are_unbiased_and_their_intervals_hold(slate):
    target = certain(slate, L)
    found = {"position": [], "normalized": [], "examination": []}
    for seed in range(150):
        A, clicks, table = logged(300, seed)
        pi = propensities(A, table)
        found["position"].append(ips_by_position(A, clicks, pi, target, normalized=False))
        found["normalized"].append(ips_by_position(A, clicks, pi, target))
        found["examination"].append(ips_by_examination(A, clicks, table, target, P))
    for estimates in found.values():
        z = np.array([(e.value - truth(slate)) / e.se for e in estimates])
        values = np.array([e.value for e in estimates])
        assert abs(values.mean() - truth(slate)) < 4 * values.std() / np.sqrt(len(values))
        assert (np.abs(z) < 2).mean() > 0.95 - 4 * 0.018
        support = np.array([e.support for e in estimates])
        assert abs(support.mean() - 1) < 4 * support.std() / np.sqrt(len(support))
    spread = {name: np.std([e.value for e in estimates]) for name, estimates in found.items()}
    assert spread["examination"] < spread["position"]


def test_the_sum_over_all_slates_is_the_value():
    """With each slate once and its expected clicks rounded up to two hundred users."""
    n = 200
    A = np.repeat(SLATES, n, axis=0)
    users = np.tile(np.arange(n), len(SLATES))[:, None]
    clicks = users < n * ALPHA[A] * P
    table = np.full((L, 3), 1 / L)
    target = certain([0, 3, 2], L)
    other = certain([1, 3, 2], L)
    value = truth([0, 3, 2])
    pi = propensities(A, table)
    for found in (
        ips_by_position(A, clicks, pi, target),
        ips_by_position(A, clicks, pi, target, normalized=False),
        ips_by_examination(A, clicks, table, target, P),
    ):
        assert found.value == pytest.approx(value, abs=3 / n)
        assert found.support == pytest.approx(1)
    for found in (
        ips_by_position(A, clicks, pi, target, against=other),
        ips_by_examination(A, clicks, table, target, P, against=other),
    ):
        assert found.value == pytest.approx(value - truth([1, 3, 2]), abs=3 / n)


def test_targets_may_differ_between_slates():
    A, clicks, table = logged(500)
    one = certain([0, 3, 2], L)
    each = np.broadcast_to(one, (500, L, 3))
    many = np.broadcast_to(table, (500, L, 3))
    np.testing.assert_allclose(
        ips_by_examination(A, clicks, many, each, P)[:8],
        ips_by_examination(A, clicks, table, one, P)[:8],
        rtol=1e-12,
    )
    pi = propensities(A, table)
    assert ips_by_position(A, clicks, pi, each).value == pytest.approx(
        ips_by_position(A, clicks, pi, one).value
    )


def test_padding_says_nothing():
    A, clicks, table = logged(400)
    A[::3, 2] = -1
    short = table * np.array([1, 1, 2 / 3])
    pi = np.where(A >= 0, short[A, np.arange(3)], 1.0)
    found = ips_by_position(A, clicks, pi, certain([0, 3, 2], L), normalized=False)
    assert abs(found.value - truth([0, 3, 2])) < 4 * found.se
    found = ips_by_examination(A, clicks, short, certain([0, 3, 2], L), P)
    assert abs(found.value - truth([0, 3, 2])) < 4 * found.se


def test_the_probabilities_of_a_learner():
    learner = CombLinTS(lam=1.0, sigma=0.1)
    problem = Problem(np.eye(L), Slate(3, examination=P))
    belief = learner.model.prior(problem)
    rng = np.random.default_rng(0)
    table = slate_probabilities(learner, belief, problem, rng=rng, draws=2000)
    # by symmetry each item is as likely in each position
    assert np.abs(table - 1 / L).max() < 4 * np.sqrt(0.25 * 0.75 / 2000)
    with pytest.raises(ParameterError, match="draws"):
        slate_probabilities(learner, belief, problem, rng=rng, draws=0)


def test_refusals():
    A, clicks, table = logged(10)
    pi = propensities(A, table)
    target = certain([0, 3, 2], L)
    with pytest.raises(ItemsError, match=r"slates must hold items 0\.\.2"):
        ips_by_position(A, clicks, pi, target[:3])
    with pytest.raises(ItemsError, match="a slate shows item 1 twice"):
        ips_by_position(np.array([[2, -1, -1], [1, 0, 1]]), clicks[:2], pi[:2], target)
    with pytest.raises(ItemsError, match="whole numbers"):
        ips_by_position(A[0], clicks, pi, target)
    with pytest.raises(ParameterError, match=r"target must have shape \(items, 3\)"):
        ips_by_position(A, clicks, pi, target[:, :2])
    with pytest.raises(ParameterError, match="between 0 and 1"):
        ips_by_examination(A, clicks, 2 * table + 1, target, P)
    with pytest.raises(ParameterError, match="must be probabilities"):
        ips_by_examination(A, clicks, "table", target, P)
    with pytest.raises(ParameterError, match="the slate has 3 positions"):
        ips_by_examination(A, clicks, table, target, P[:2])

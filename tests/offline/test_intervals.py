"""Gamma intervals of clicks against exact intervals of counts, and against known truths."""

import numpy as np
import pytest
from scipy.stats import chi2

from superarm import CombTS, Greedy, TopK, offline
from superarm.errors import ParameterError
from superarm.offline import Log

L = 8
PHI = np.eye(L)


def click_log(w, p=0.5, items=2):
    """A log of one item per decision, in turn."""
    n = len(w)
    return Log.of(np.arange(n) % items, w, np.full(n, p), np.eye(items))


def test_no_clicks_give_a_bound():
    """With equal weights the sum is Poisson: no click among m leaves 3.69/m, at 97.5 %."""
    log = click_log(np.zeros(600))
    for normalized in (True, False):
        found = offline.ips(log, [1.0, 0.0], normalized=normalized)
        assert (found.value, found.se, found.low) == (0, 0, 0)
        np.testing.assert_allclose(found.high, -np.log(0.025) / 300)
        assert found.interval == "gamma"
    assert str(found).startswith("no clicks, at most 0.0123 with 95 % confidence (gamma interval,")
    run = offline.replay(log, CombTS(), TopK(1), rng=np.random.default_rng(0))
    assert run.estimate.value == run.estimate.low == 0
    assert 0 < run.estimate.high < 0.1
    assert len(run.A) == 600
    robust = offline.doubly_robust(log, [1.0, 0.0], model=Greedy(lam=1.0, sigma=1.0))
    assert robust.low == 0 < robust.high < 0.02


def test_equal_weights_give_the_interval_of_a_poisson_count():
    """Garwood's: χ²_{2x}(0.025)/2 to χ²_{2x+2}(0.975)/2, here with x = 3. At one click in a
    thousand, a variance of one count more or less is all the difference to a binomial."""
    w = np.zeros(6000)
    w[[100, 200, 300]] = 1.0
    found = offline.ips(click_log(w), [1.0, 0.0], normalized=False)
    expected = np.array([chi2.ppf(0.025, 6), chi2.ppf(0.975, 8)]) / 2 / 3000
    np.testing.assert_allclose([found.low, found.high], expected, rtol=2e-3)


def test_all_clicked_and_none_clicked_are_alike():
    none = offline.ips(click_log(np.zeros(600)), [1.0, 0.0])
    every = offline.ips(click_log(np.ones(600)), [1.0, 0.0])
    assert every.value == every.high == 1.0
    np.testing.assert_allclose(every.low, 1 - none.high)
    w = (np.arange(600) % 14 < 2).astype(float)
    few = offline.ips(click_log(w), [1.0, 0.0])
    many = offline.ips(click_log(1 - w), [1.0, 0.0])
    np.testing.assert_allclose([many.low, many.high], [1 - few.high, 1 - few.low])
    with pytest.raises(ParameterError, match="interval of no width"):
        offline.ips(click_log(np.ones(600), p=1.0, items=1), [1.0], normalized=False)


def test_clicks_in_one_decision_are_counted_together():
    """Twice the clicks, always in pairs, are no more evidence than the half of them."""
    w = np.zeros((2000, 1))
    w[::100] = 1.0
    single = Log.of(np.zeros((2000, 1), int), w, np.ones((2000, 1)), np.eye(2))
    pairs = Log.of(np.tile([0, 1], (2000, 1)), w[:, [0, 0]], np.ones((2000, 2)), np.eye(2))
    one = offline.ips(single, [1.0, 0.0], normalized=False)
    both = offline.ips(pairs, [1.0, 1.0], normalized=False)
    np.testing.assert_allclose(both.se, 2 * one.se)
    np.testing.assert_allclose(both.low, 2 * one.low)
    assert both.high - both.low > 1.9 * (one.high - one.low)


def rare_logs(seed, rate, n, size):
    """Clicks at rates about `rate`, logged by softmax sampling whose propensities differ by a
    factor of 50; in a fifth of the decisions all rates are three times those of the others, times
    two."""
    rng = np.random.default_rng(seed)
    chance = np.exp(np.linspace(0, -4, L))
    chance /= chance.sum()
    ctr = rate * np.linspace(0.5, 1.5, L)
    A = rng.choice(L, size=(size, n), p=chance)
    eager = np.where(rng.random((size, n)) < 0.2, 3.0, 0.5)
    w = rng.random((size, n)) < eager * ctr[A]
    A = A[..., None]
    w = w[..., None].astype(float)
    return [Log(A[i], w[i], chance[A[i]], [PHI] * n) for i in range(size)], ctr


@pytest.mark.parametrize(("rate", "n"), [(0.003, 1000), (0.007, 2000), (0.05, 1000)])
def test_intervals_of_rare_clicks_cover(rate, n):
    """With 200 intervals each, the standard error of .95 is 1.5 %. Student's
    intervals held the truth in 4 to 94 %."""
    of, ctr = rare_logs(40, rate, n, 200)
    uniform = np.full(L, 1 / L)
    rare = np.eye(L)[-2]
    usual = np.eye(L)[1]
    for target, against in ((uniform, None), (rare, None), (usual, None), (rare, usual)):
        truth = (target - (0 if against is None else against)) @ ctr
        for normalized in (True, False):
            found = [offline.ips(e, target, against=against, normalized=normalized) for e in of]
            assert {e.interval for e in found} == {"gamma"}
            assert against is not None or min(e.low for e in found) >= 0
            share = np.mean([e.low <= truth <= e.high for e in found])
            assert share >= 0.92, (share, normalized)


def test_replay_of_rare_clicks_covers():
    of, ctr = rare_logs(41, 0.01, 150, 60)
    found = []
    for i, log in enumerate(of):
        run = offline.replay(log, CombTS(), TopK(1), rng=np.random.default_rng(i))
        found.append(run.estimate.low <= ctr[run.A].sum(-1).mean() <= run.estimate.high)
    assert np.mean(found) >= 0.88  # whose standard error is 2.8 %

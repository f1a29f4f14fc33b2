"""Gamma intervals of clicks against exact intervals of counts, and against known truths."""

import numpy as np
import pytest
from scipy.stats import chi2

from superarm import CombTS, Greedy, TopK, offline
from superarm.errors import NumericalError, ParameterError
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


def one_outweighs(w, p):
    """300 decisions among three items alike, but for the propensity of the first."""
    A = np.arange(300) % 3
    chances = np.full(300, 1 / 3)
    chances[0] = p
    return Log.of(A, w, chances, np.eye(3))


@pytest.mark.parametrize("exponent", [*range(0, 20), 30, 50, 100, 150, 200, 300])
@pytest.mark.parametrize("normalized", [True, False])
def test_a_tiny_propensity_is_an_error_or_a_wide_interval(exponent, normalized):
    """The bounds are of the order of the largest ratio w/p at most."""
    p = 10.0**-exponent
    rng = np.random.default_rng(exponent)
    real = rng.random(300)
    clicks = (rng.random(300) < 0.3).astype(float)
    for w in (real, clicks):
        try:
            found = offline.ips(one_outweighs(w, p), [1.0, 0.0, 0.0], normalized=normalized)
        except NumericalError:
            assert p < 1e-12
            continue
        largest = 1 if normalized else 1 + 1 / (300 * p)
        assert found.low <= found.value <= found.high
        assert -20 * largest < found.low
        assert found.high < 20 * largest
        if p < 1e-2:
            assert any(text.startswith("few decisions:") for text in found.warnings)
            assert "warning: few decisions: all 300 count as much as" in str(found)


def uneven_logs(seed, size, spread):
    """Logs of 60 decisions whose propensities lie up to many powers of ten apart."""
    rng = np.random.default_rng(seed)
    for _ in range(size):
        p = np.exp(-1 - spread * np.abs(rng.standard_normal(60)))
        p = np.maximum(p, 1e-6)
        hit = rng.random(60) < p
        A = np.where(hit, 0, 1)
        if hit.sum() >= 2:
            yield Log.of(A, rng.random(60), np.where(hit, p, 1 - p), np.eye(2))


def test_intervals_hold_where_one_decision_outweighs_all_others():
    """Where the effective sample size is below 2. The standard error of 95 % is 1.9 % here; the
    most that bounds lie apart is a Cauchy quantile, 25 standard errors."""
    estimates = [offline.ips(log, [1.0, 0.0]) for log in uneven_logs(3, 1500, 3.0)]
    found = [each for each in estimates if each.ess < 2]
    assert len(found) > 120
    assert np.mean([each.low <= 0.5 <= each.high for each in found]) > 0.91
    assert max(each.high - each.low for each in found) < 25.5


def test_what_an_estimate_warns_of():
    sound = offline.Estimate(1.0, 0.1, 0.8, 1.2, 0.95, 500, 200.0, 1.05)
    assert sound.warnings == ()
    assert "\n" not in str(sound)
    for changed, beginning in (
        ({"support": 0.6}, "low support: the log holds 60% of what the target chooses"),
        ({"support": 2.0}, "support far above 1: items were logged 2 times as often as"),
        ({"support": 2001.0, "ess": 200.0, "n": 200_000}, "support far above 1: items were logged"),
        ({"ess": 12.4}, "few decisions: all 500 count as much as 12 that weigh alike"),
        ({"few_draws": 0.25}, "few draws: 25% of the estimate rests on propensities"),
    ):
        flawed = sound._replace(**changed)
        (warning,) = flawed.warnings
        assert warning.startswith(beginning)
        assert str(flawed).endswith(f"\nwarning: {warning}")
    chance = sound._replace(support=1.4, ess=60.0, n=150)  # is 1 to 4 standard errors
    assert chance.warnings == ()


def test_too_much_support_is_warned_of_beyond_chance():
    """Over 200 logs: where propensities are right, 3 standard errors of noise are said in few of
    a hundred; where they are half of what they should be, nearly always."""
    rng = np.random.default_rng(0)
    right = []
    half = []
    for _ in range(200):
        A = rng.integers(4, size=400)
        w = rng.random(400)
        for p, found in ((1 / 4, right), (1 / 8, half)):
            estimate = offline.ips(Log.of(A, w, np.full(400, p), np.eye(4)), np.eye(4)[0])
            found.append(any(text.startswith("support far above 1") for text in estimate.warnings))
    assert np.mean(right) <= 0.01
    assert np.mean(half) >= 0.97

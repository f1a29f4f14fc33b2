import numpy as np
import pytest
from scipy.optimize import minimize

from superarm.errors import ItemsError, NumericalError, ParameterError, WeightsError
from superarm.slates import examination, fit_examination

P = np.array([1.0, 0.6, 0.4, 0.3])


def log_of(rng, n, alpha, p=P):
    """Slates in random order, and clicks on them."""
    A = np.argsort(rng.random((n, len(alpha))))[:, : len(p)]
    return A, rng.random(A.shape) < alpha[A] * p


def maximum_likelihood(A, clicks, L):
    """P relative to position 0, and its standard errors, by L-BFGS-B over log p and log α."""
    n = np.zeros((L, A.shape[1]))
    c = np.zeros((L, A.shape[1]))
    for slate, clicked in zip(A, clicks, strict=True):
        for k, (e, hit) in enumerate(zip(slate, clicked, strict=True)):
            n[e, k] += 1
            c[e, k] += hit
    K = A.shape[1]

    def loss(x):
        mu = np.exp(x[K - 1 :, None] + np.append(0.0, x[: K - 1]))
        score = c - (n - c) * mu / (1 - mu)
        value = -(c * np.log(mu) + (n - c) * np.log1p(-mu)).sum()
        return value, -np.append(score.sum(0)[1:], score.sum(1))

    start = np.append(np.full(K - 1, -1.0), np.full(L, -1.5))
    below_one = [(None, -0.01)] * len(start)
    exact = {"ftol": 1e-15, "gtol": 1e-7}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=below_one, options=exact)
    x = found.x
    mu = np.exp(x[K - 1 :, None] + np.append(0.0, x[: K - 1]))
    W = n * mu / (1 - mu)
    hessian = np.block([[np.diag(W.sum(0)), W.T], [W, np.diag(W.sum(1))]])[1:, 1:]
    se = np.sqrt(np.linalg.inv(hessian).diagonal()[: K - 1])
    return np.exp(x[: K - 1]), se * np.exp(x[: K - 1])


def test_it_is_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(0)
    A, clicks = log_of(rng, 3000, np.linspace(0.05, 0.5, 12))
    found = fit_examination(A, clicks)
    p, se = maximum_likelihood(A, clicks, 12)
    np.testing.assert_allclose(found.p[1:], p, atol=2e-3 * se.max())
    np.testing.assert_allclose(found.se[1:], se, rtol=0.01)
    assert (found.p[0], found.se[0]) == (1.0, 0.0)


def test_it_is_unbiased_and_its_standard_errors_are_right():
    rng = np.random.default_rng(1)
    fits = [fit_examination(*log_of(rng, 1500, np.linspace(0.05, 0.5, 10))) for _ in range(100)]
    z = np.array([(fit.p[1:] - P[1:]) / fit.se[1:] for fit in fits])
    assert np.abs(z.mean(0)).max() < 4 * 0.1  # of 100 fits
    assert np.abs(z.std(0) - 1).max() < 4 * 0.071


def test_rare_clicks():
    rng = np.random.default_rng(2)
    A, clicks = log_of(rng, 30_000, rng.uniform(0.005, 0.02, 40))
    found = fit_examination(A, clicks)
    assert (np.abs(found.p - P) <= 4 * found.se).all()
    assert found.se.max() < 0.1


def test_order_that_is_not_uniform_is_no_bias_either():
    """Better items are shown further up, but each of them in all positions."""
    rng = np.random.default_rng(3)
    alpha = np.linspace(0.6, 0.1, 10)
    A = np.argsort(rng.random((6000, 10)) + np.linspace(0, 0.8, 10))[:, :4]
    clicks = rng.random(A.shape) < alpha[A] * P
    found = fit_examination(A, clicks)
    by_rate = clicks.mean(0) / clicks.mean(0)[0]
    assert (np.abs(found.p - P) <= 4 * found.se).all()
    assert (by_rate[1:] < P[1:] - 4 * found.se[1:]).any()


def test_the_best_position_need_not_be_the_first():
    rng = np.random.default_rng(4)
    p = np.array([0.5, 1.0, 0.4])
    found = fit_examination(*log_of(rng, 5000, np.linspace(0.1, 0.6, 8), p))
    assert (found.p[1], found.se[1]) == (1.0, 0.0)
    assert (np.abs(found.p - p) <= 4 * found.se).all()


def test_items_shown_a_few_times_and_always_clicked():
    rng = np.random.default_rng(5)
    A, clicks = log_of(rng, 400, rng.uniform(0.05, 0.9, 200))
    found = fit_examination(A, clicks)
    assert (np.abs(found.p - P) <= 4 * found.se).all()
    assert (found.se[1:] > 0.02).all()


def test_a_single_position_is_the_best():
    A = np.arange(10)[:, None]
    found = fit_examination(A, A % 2)
    assert (found.p.tolist(), found.se.tolist()) == ([1.0], [0.0])


def test_padding_and_ids_do_not_matter():
    rng = np.random.default_rng(6)
    A, clicks = log_of(rng, 500, np.linspace(0.1, 0.5, 6))
    A[::7, 3] = -1
    again = fit_examination(np.where(A >= 0, 1000 - 3 * A, -1), clicks)
    found = fit_examination(A, clicks)
    np.testing.assert_allclose(again.p, found.p, rtol=1e-9)


def test_what_cannot_be_told_is_refused():
    rng = np.random.default_rng(7)
    A = np.tile([0, 1, 2], (100, 1))
    with pytest.raises(ParameterError, match="no item with a click links positions 0 and 1"):
        fit_examination(A, rng.random(A.shape) < 0.5)
    A, clicks = log_of(rng, 100, np.full(6, 0.5))
    with pytest.raises(ParameterError, match="position 2 was never clicked"):
        fit_examination(A, clicks * np.array([1, 1, 0, 1]))
    with pytest.raises(ItemsError, match="whole numbers"):
        fit_examination(A[0], clicks[0])
    with pytest.raises(ItemsError, match="whole numbers"):
        fit_examination(A * 1.0, clicks)
    with pytest.raises(WeightsError, match="one number per position"):
        fit_examination(A, clicks[:, :2])


def test_a_likelihood_that_does_not_settle_is_no_answer(monkeypatch):
    monkeypatch.setattr(examination, "ROUNDS", 1)
    A, clicks = log_of(np.random.default_rng(8), 500, np.linspace(0.1, 0.5, 6))
    with pytest.raises(NumericalError, match="did not settle in 1 steps"):
        fit_examination(A, clicks)

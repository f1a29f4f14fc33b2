import numpy as np
import pytest
from scipy.stats import multivariate_normal

from superarm import Feedback, Problem, TopK, fit_hyperparameters
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.hyperparameters import (
    estimate_with_items,
    optimal_hyperparameters,
    optimal_lam_sigma,
    require_squares,
    statistics_of_items,
    statistics_of_rows,
)
from superarm.errors import FeaturesError, ItemsError, NumericalError, WeightsError
from superarm.studies.calibration import designs


def data(seed, n, d, lam, sigma, tau=0.0, repeats=1):
    rng = np.random.default_rng(seed)
    Phi, theta = rng.standard_normal((n // repeats, d)), lam * rng.standard_normal(d)
    items = np.repeat(np.arange(n // repeats), repeats)
    own = tau * rng.standard_normal(n // repeats)
    return Phi[items], (Phi @ theta + own)[items] + sigma * rng.standard_normal(n), items, theta


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("lam", "sigma"), [(1.0, 1.0), (10.0, 1.0), (0.05, 0.3), (100.0, 0.01)])
def test_lambda_and_sigma_from_5000_rows(seed, lam, sigma):
    rows, w, _, theta = data(seed, 5000, 20, lam, sigma)
    scales = fit_hyperparameters(rows, w)
    assert scales.sigma == pytest.approx(sigma, rel=0.05)
    assert scales.lam == pytest.approx(np.linalg.norm(theta) / np.sqrt(20), rel=0.15)
    assert scales.tau == 0.0
    assert scales.sigma_error == pytest.approx(1 / np.sqrt(2 * 5000), rel=0.1)
    assert scales.lam_error == pytest.approx(1 / np.sqrt(2 * 20), rel=0.15)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tau", [0.1, 0.5, 3.0])
def test_tau_where_items_repeat_five_times(seed, tau):
    rows, w, items, theta = data(seed, 5000, 20, 1.0, 0.3, tau, repeats=5)
    labels = np.array([f"item {i}" for i in items])
    order = np.random.default_rng(seed).permutation(5000)
    scales = fit_hyperparameters(rows[order], w[order], labels[order])
    assert scales.tau == pytest.approx(tau, rel=0.2)
    assert scales.sigma == pytest.approx(0.3, rel=0.05)
    assert scales.lam == pytest.approx(np.linalg.norm(theta) / np.sqrt(20), rel=0.15)
    assert abs(np.log(scales.tau / tau)) < 4 * scales.tau_error


def log_evidence(rows, w, items, lam, sigma, tau):
    cov = lam**2 * rows @ rows.T + sigma**2 * np.eye(len(w)) + tau**2 * (items[:, None] == items)
    return multivariate_normal(cov=cov).logpdf(w)


def test_the_evidence_is_the_marginal_likelihood_and_is_largest():
    """Items whose features differ from row to row, with counts from 1 to 9."""
    rng = np.random.default_rng(0)
    items = np.repeat(np.arange(40), rng.integers(1, 10, 40))
    rows = rng.standard_normal((len(items), 4))
    w = (
        rows @ rng.standard_normal(4)
        + (0.8 * rng.standard_normal(40))[items]
        + 0.5 * rng.standard_normal(len(items))
    )
    scales = fit_hyperparameters(rows, w, items)
    best = log_evidence(rows, w, items, scales.lam, scales.sigma, scales.tau)
    assert scales.log_evidence == pytest.approx(best, rel=1e-9)
    for name in ("lam", "sigma", "tau"):
        for factor in (0.8, 1.25):
            other = {key: getattr(scales, key) for key in ("lam", "sigma", "tau")}
            other[name] *= factor
            assert log_evidence(rows, w, items, **other) < best


def test_directions_never_seen_and_noise_far_below_the_weights():
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.standard_normal((300, 3)), np.zeros((300, 4))])
    theta = rng.standard_normal(7)
    for sigma in (1e-3, 1e-6, 1e-9):
        scales = fit_hyperparameters(rows, rows @ theta + sigma * rng.standard_normal(300))
        assert scales.sigma == pytest.approx(sigma, rel=0.15)


def test_fixed_hyperparameters_stay_as_they_are():
    rows, w, _, _ = data(1, 500, 4, 1.0, 0.5)
    statistics = statistics_of_rows(np.column_stack([rows, w]), 500)
    lam, sigma = optimal_lam_sigma(statistics, {"lam": 7.0})
    assert lam == 7.0
    assert sigma == pytest.approx(0.5, rel=0.1)
    assert optimal_lam_sigma(statistics, {"lam": 7.0, "sigma": 2.0}) == (7.0, 2.0)


@pytest.mark.parametrize("fixed", [{}, {"tau": 0.4}, {"tau": 0.4, "lam": 1.0}, {"sigma": 0.3}])
def test_hyperparameters_with_items_are_right_beside_those_that_are_fixed(fixed):
    """Where τ is fixed, σ is that of the noise alone, without the item effects."""
    rows, w, items, _ = data(1, 2000, 4, 1.0, 0.3, 0.4, repeats=4)
    n, means, within = grouped(rows, w, items)
    statistics = statistics_of_items(n, means, within, 2000)
    lam, sigma, tau = optimal_hyperparameters(*statistics, fixed)
    assert sigma == pytest.approx(0.3, rel=0.1)
    assert tau == pytest.approx(0.4, rel=0.1)
    assert 0.4 < lam < 2.5
    for name, value in zip(("lam", "sigma", "tau"), (lam, sigma, tau), strict=True):
        assert value == fixed.get(name, value)


def test_without_item_effects_items_do_not_matter():
    rows, w, items, _ = data(1, 200, 4, 1.0, 0.3, 0.4, repeats=4)
    n, means, within = grouped(rows, w, items)
    statistics, moments = statistics_of_items(n, means, within, 200)
    lam, sigma, tau = optimal_hyperparameters(statistics, moments, {"tau": 0.0})
    expected = optimal_lam_sigma(statistics_of_rows(np.column_stack([rows, w]), 200), {})
    assert (lam, sigma, tau) == (*expected, 0.0)


def grouped(rows, w, items):
    joined = np.column_stack([rows, w])
    n = np.bincount(items).astype(float)
    means = np.zeros((len(n), joined.shape[1]))
    np.add.at(means, items, joined)
    means /= n[:, None]
    return n, means, joined - means[items]


def test_a_triangular_factor_says_as_much_as_the_rows():
    rows, w, items, _ = data(2, 400, 3, 1.0, 0.5, 0.4, repeats=4)
    joined = np.column_stack([rows, w])
    of_rows = statistics_of_rows(joined, 400)
    of_factor = statistics_of_rows(np.linalg.qr(joined, mode="r"), 400)
    np.testing.assert_allclose(of_factor.D, of_rows.D, rtol=1e-10)
    np.testing.assert_allclose(of_factor.y**2, of_rows.y**2, rtol=1e-10)
    n = np.full(100, 4.0)
    mean = w.reshape(100, 4).mean(1)
    within = np.zeros((1, 4))
    within[0, -1] = np.sqrt(((w - mean[items]) ** 2).sum())
    means = np.column_stack([rows[::4], mean])
    optimum = estimate_with_items(*statistics_of_items(n, means, within, 400.0))
    assert optimum[:3] == pytest.approx(fit_hyperparameters(rows, w, items)[:3], rel=1e-4)


def test_statistics_do_not_grow_with_the_rows():
    sizes = set()
    for n in (500, 50_000):
        rows, w, _, _ = data(3, n, 3, 1.0, 0.5)
        statistics = statistics_of_rows(np.column_stack([rows, w]), n)
        sizes.add(sum(np.size(x) for x in statistics))
    assert sizes == {1 + 3 + 3 + 1 + 1 + 1}


def test_the_errors_say_when_the_data_is_silent():
    rows, w, items, _ = data(4, 3, 5, 1.0, 1.0)
    scales = fit_hyperparameters(rows, w, items)
    assert min(scales.sigma_error, scales.tau_error) > 0.5
    assert "between" in str(scales)


def test_errors_cover_the_truth():
    """Two standard errors around log σ and log τ hold the truth about 95 times in 100."""
    inside = []
    for seed in range(100):
        rows, w, items, _ = data(seed, 600, 3, 1.0, 0.5, 0.4, repeats=3)
        scales = fit_hyperparameters(rows, w, items)
        inside.append(
            (
                abs(np.log(scales.sigma / 0.5)) < 2 * scales.sigma_error,
                abs(np.log(scales.tau / 0.4)) < 2 * scales.tau_error,
            )
        )
    assert 0.88 <= np.mean(inside) <= 0.99


@pytest.mark.parametrize("unit", [1e-130, 1e-9, 1e9, 1e130])
def test_the_unit_of_the_weights_does_not_matter(unit):
    rows, w, items, _ = data(6, 500, 3, 1.0, 0.5, 0.4, repeats=5)
    plain, scaled = fit_hyperparameters(rows, w, items), fit_hyperparameters(rows, w * unit, items)
    np.testing.assert_allclose(np.divide(scaled[:3], plain[:3]), unit, rtol=1e-4)
    np.testing.assert_allclose(scaled[3:6], plain[3:6], rtol=1e-3)
    assert scaled.log_evidence == pytest.approx(plain.log_evidence - 500 * np.log(unit), rel=1e-6)


@pytest.mark.parametrize("level", [0.0, 1e5, 1e9])
def test_a_large_constant_hides_nothing(level):
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(2000), rng.standard_normal(2000)])
    w = level + rows[:, 1] + rng.standard_normal(2000)
    assert fit_hyperparameters(rows, w).sigma == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("n", [60, 500])
def test_scales_of_degenerate_designs(n, level):
    for seed in range(8):
        for name, rows, w in designs(np.random.default_rng(seed), n, level):
            assert 0.1 < fit_hyperparameters(rows, w).sigma < 0.9, (seed, name)
            items = np.arange(n) // 4
            repeated = rows[::4][items]
            own = np.random.default_rng(seed).standard_normal(n)
            w_repeated = w[::4][items] + 0.3 * own
            assert 0.1 < fit_hyperparameters(repeated, w_repeated, items).sigma < 0.9, (seed, name)


def test_refusals():
    with pytest.raises(FeaturesError, match="at least one feature"):
        fit_hyperparameters(np.zeros((5, 0)), np.ones(5))
    with pytest.raises(ItemsError, match="all of one kind"):
        fit_hyperparameters(np.ones((2, 1)), np.ones(2), [None, "a"])
    rows, w, items, _ = data(5, 10, 2, 1.0, 1.0)
    with pytest.raises(WeightsError, match="cannot estimate lam and sigma"):
        fit_hyperparameters(rows, 0 * w)
    with pytest.raises(WeightsError, match="cannot estimate lam and sigma"):
        fit_hyperparameters(rows, w * 1e200)
    with pytest.raises(
        WeightsError, match=r"rows \(10, 2\) need as many finite weights, got shape \(9,\)"
    ):
        fit_hyperparameters(rows, w[:9])
    with pytest.raises(WeightsError, match="as many finite weights"):
        fit_hyperparameters(rows, np.append(w[:9], np.nan))
    with pytest.raises(WeightsError, match="weights must be numbers"):
        fit_hyperparameters(rows, ["a"] * 10)
    with pytest.raises(ItemsError, match=r"one label for each of 10 rows, got shape \(3,\)"):
        fit_hyperparameters(rows, w, items[:3])
    with pytest.raises(FeaturesError, match="features must be finite"):
        fit_hyperparameters(rows * np.inf, w)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_beliefs_in_tensors_find_the_scales_of_those_in_arrays(batch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    Phi, w = rng.standard_normal((*batch, 40, 3)), rng.standard_normal((*batch, 40))
    A = np.broadcast_to(np.arange(40), w.shape)
    model = EmpiricalBayesModel(known={})
    found = []
    for kind in (np.array, torch.tensor):
        problem = Problem(kind(Phi), TopK(2))
        feedback = Feedback.of(problem, kind(A), kind(w))
        found.append(model.learn(model.prior(problem), problem, feedback))
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(y.numpy(), x, rtol=1e-9, atol=1e-9)


def test_squares_must_stay_in_the_range_of_float64_whatever_the_precision():
    for fine in (np.empty(0), np.array([-3, 2]), np.float32([1e38, -1e38]), np.array([1e139])):
        require_squares(fine)
    with pytest.raises(NumericalError, match=r"beyond 1e\+140 are too large"):
        require_squares(np.ones(2), np.array([[0.0, -1e141]]))

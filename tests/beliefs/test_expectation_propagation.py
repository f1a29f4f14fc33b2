import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_expit
from scipy.stats import multivariate_normal, multivariate_t

from superarm import Feedback, gaussian
from superarm.beliefs.expectation_propagation import expectation_propagation
from superarm.beliefs.likelihoods import BLOCK_ROWS, Bernoulli
from superarm.errors import NumericalError


def log_likelihood(eta, w, v):
    return v * (w * log_expit(eta) + (1 - w) * log_expit(-eta))


def integrated(m, s, w, v):
    """Mean, std and log mass of N(m, s²) times the likelihood of w, by adaptive quadrature."""

    def log_density(eta):
        return log_likelihood(eta, w, v) - ((eta - m) / s) ** 2 / 2

    grid = np.linspace(m - 9 * s - v * s**2, m + 9 * s + v * s**2, 200_001)
    heights = log_density(grid)
    top = heights.max()
    inside = grid[heights > top - 60]
    ends = inside[0], inside[-1]
    peak = grid[heights.argmax()]

    def moment(power, centre=0.0):
        return quad(
            lambda x: (x - centre) ** power * np.exp(log_density(x) - top),
            *ends,
            points=[peak],
            limit=400,
            epsrel=1e-11,
        )[0]

    mass = moment(0)
    mean = peak + moment(1, peak) / mass
    variance = moment(2, mean) / mass
    return mean, np.sqrt(variance), top + np.log(mass / (s * np.sqrt(2 * np.pi)))


def as_gaussian(belief, feedback):
    return Bernoulli().as_gaussian(belief, feedback)


def after(m, V, of):
    """Mean and covariance of N(m, V) after the Gaussian targets."""
    precision = np.diag(of.precision)
    gain = np.linalg.solve(np.eye(len(m)) + V @ precision, V)
    return m + gain @ precision @ (of.y - m), gain


@pytest.mark.parametrize("m", [-8.0, -2.0, 0.0, 3.0])
@pytest.mark.parametrize("s", [0.01, 0.5, 3.0, 10.0])
@pytest.mark.parametrize(("w", "v"), [(1.0, 1.0), (0.0, 1.0), (0.3, 20.0), (1.0, 0.2)])
def test_one_click_has_the_moments_of_the_integral(m, s, w, v):
    mean, std, log_mass = integrated(m, s, w, v)
    start = np.array([m])
    V = np.array([[s**2]])
    of = expectation_propagation(start, V, np.array([w]), np.array([v]), np.array([True]))
    ours, variance = after(start, V, of)
    assert ours[0] == pytest.approx(mean, abs=1e-7 * std)
    assert variance[0, 0] ** 0.5 == pytest.approx(std, rel=1e-6)
    spread = s**2 + 1 / of.precision[0]
    of_target = -(np.log(2 * np.pi * spread) + (of.y[0] - m) ** 2 / spread) / 2
    assert of_target + of.log_correction == pytest.approx(log_mass, abs=1e-6)


def test_a_block_against_importance_sampling_in_three_dimensions():
    """12 clicks of 3 coefficients: means within 2 % of a std, stds within 6 %; both have standard
    errors of about 0.3 % here."""
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((12, 3)) + np.eye(3)[0]
    w = (rng.random(12) < 0.3).astype(float)
    belief = gaussian.prior(3, 2.0)
    of = as_gaussian(belief, Feedback(np.full(12, -1), phi, w, 1.0))
    belief = gaussian.condition(belief, phi, of.feedback.w, 1.0, of.feedback.importance)
    ours = gaussian.mean(belief)
    Sigma = np.linalg.inv(belief.R.T @ belief.R)

    proposal = multivariate_t(ours, 1.5 * Sigma, df=5)
    theta = proposal.rvs(200_000, random_state=rng)
    log_weight = log_likelihood(theta @ phi.T, w, 1.0).sum(1) - proposal.logpdf(theta)
    log_weight += multivariate_normal(cov=4 * np.eye(3)).logpdf(theta)
    weight = np.exp(log_weight)
    assert weight.sum() ** 2 / (weight**2).sum() > 100_000  # effective sample size
    mean = np.average(theta, axis=0, weights=weight)
    std = np.sqrt(np.average((theta - mean) ** 2, axis=0, weights=weight))
    assert (np.abs(ours - mean) < 0.02 * std).all()
    np.testing.assert_allclose(np.sqrt(np.diagonal(Sigma)), std, rtol=0.06)
    evidence = gaussian.log_evidence(belief) + of.log_correction
    assert float(evidence) == pytest.approx(np.log(weight.mean()), abs=0.04)


@pytest.mark.parametrize("n", [5, BLOCK_ROWS])
def test_the_order_of_rows_in_a_block_does_not_matter(n):
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((n, 4))
    w = (rng.random(n) < 0.2).astype(float)
    belief = gaussian.prior(4, 1.0)
    order = rng.permutation(n)
    one = as_gaussian(belief, Feedback(np.full(n, -1), phi, w, 1.0))
    other = as_gaussian(belief, Feedback(np.full(n, -1), phi[order], w[order], 1.0))
    np.testing.assert_allclose(other.feedback.w, one.feedback.w[order], rtol=1e-6)
    np.testing.assert_allclose(other.feedback.importance, one.feedback.importance[order], rtol=1e-6)
    assert float(other.log_correction) == pytest.approx(float(one.log_correction), abs=1e-6)


def learned(phi, w, parts=1):
    belief = gaussian.prior(phi.shape[1], 1.0)
    for some in np.array_split(np.arange(len(w)), parts):
        of = as_gaussian(belief, Feedback(np.full(len(some), -1), phi[some], w[some], 1.0)).feedback
        belief = gaussian.condition(belief, of.rows, of.w, 1.0, of.importance)
    return belief


def test_many_blocks_hardly_matter():
    """1,000 rows in 8 blocks, in another order, or in 100 calls: within 0.3 standard deviations."""
    rng = np.random.default_rng(2)
    phi = np.column_stack([np.ones(1000), rng.standard_normal((1000, 3))])
    w = (rng.random(1000) < 0.2).astype(float)
    order = rng.permutation(1000)
    one = learned(phi, w)
    width = gaussian.std(one, np.eye(4))
    for other in (learned(phi[order], w[order]), learned(phi, w, parts=100)):
        off = np.abs(gaussian.mean(other) - gaussian.mean(one)) / width
        assert (off < 0.3).all()
        np.testing.assert_allclose(gaussian.std(other, np.eye(4)), width, rtol=0.05)


def test_nothing_present_says_nothing():
    V = np.eye(2)
    of = expectation_propagation(
        np.zeros(2), V, np.array([1.0, 0.0]), np.ones(2), np.array([True, False])
    )
    assert (of.y[1], of.precision[1]) == (0.0, 1.0)
    alone = expectation_propagation(
        np.zeros(1), V[:1, :1], np.ones(1), np.ones(1), np.array([True])
    )
    assert of.log_correction == pytest.approx(float(alone.log_correction))
    none = Feedback(np.empty(0, int), np.empty((0, 2)), np.empty(0), 1.0)
    assert as_gaussian(gaussian.prior(2, 1.0), none).log_correction == 0.0


def test_a_variance_that_vanishes_is_refused_in_our_words():
    with pytest.raises(NumericalError, match="rescale the features"):
        expectation_propagation(
            np.zeros(1), np.zeros((1, 1)), np.ones(1), np.ones(1), np.array([True])
        )

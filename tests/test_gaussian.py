import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from reference import kalman
from superarm import gaussian
from superarm.errors import FeaturesError, NumericalError, ParameterError
from superarm.gaussian import RowFactor
from support import TIMES, feedback, mpmath_posterior


def covariance(belief):
    Rinv = np.linalg.inv(belief.R)
    return Rinv @ Rinv.swapaxes(-1, -2)


@pytest.mark.parametrize(
    ("lam", "sigma"),
    [(10, 1), (10, 1e-4), (10, 1e-7), (1e5, 1), (1e-2, 1), (10, 1e4)],
    ids=lambda x: f"{x:g}",
)
def test_posterior_against_80_digits(lam, sigma):
    """The first two episodes are the hard ones, where some directions are known and others are
    not; the third is the first of full rank."""
    phi, w = feedback(seed=0, n=8, K=10, d=24)
    belief = gaussian.prior(24, lam)
    for t in range(8):
        belief = gaussian.condition(belief, phi[t], w[t], sigma)
        if 2 < t < 7 and TIMES == 1:
            continue
        mean, Sigma = mpmath_posterior(phi[: t + 1], w[: t + 1], lam, sigma)
        assert np.linalg.norm(gaussian.mean(belief) - mean) <= 1e-6 * np.linalg.norm(mean)
        assert np.linalg.norm(covariance(belief) - Sigma) <= 1e-6 * np.linalg.norm(Sigma)
        assert (np.diagonal(belief.R) > 0).all()
        np.testing.assert_allclose(
            gaussian.std(belief, np.eye(24)) ** 2, np.diagonal(Sigma), rtol=1e-6
        )
    np.linalg.cholesky(covariance(belief))


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_noise_and_importance_a_row_against_80_digits(spread):
    """Noise and importance over several orders of magnitude, in blocks."""
    rng = np.random.default_rng(11)
    phi, w = feedback(seed=11, n=6, K=7, d=12)
    sigma, importance = 10 ** rng.uniform(-spread, spread, (2, *w.shape))
    belief = gaussian.prior(12, 3.0)
    for t in range(6):
        belief = gaussian.condition(belief, phi[t], w[t], sigma[t], importance[t])
        mean, Sigma = mpmath_posterior(
            phi[: t + 1], w[: t + 1], 3.0, sigma[: t + 1], importance[: t + 1]
        )
        assert np.linalg.norm(gaussian.mean(belief) - mean) <= 1e-8 * np.linalg.norm(mean)
        assert np.linalg.norm(covariance(belief) - Sigma) <= 1e-8 * np.linalg.norm(Sigma)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_many_rows_at_once_are_rows_one_after_the_other(batch):
    rng = np.random.default_rng(4)
    phi = rng.standard_normal((*batch, 1300, 5))
    phi[..., ::7, :] = 0.0
    w = rng.standard_normal((*batch, 1300))
    sigma, importance = rng.uniform(0.3, 3.0, (2, *w.shape))
    start = gaussian.prior(5, 2.0, batch)
    few = start
    for i in range(0, 1300, 100):
        part = slice(i, i + 100)
        few = gaussian.condition(
            few, phi[..., part, :], w[..., part], sigma[..., part], importance[..., part]
        )
    many = gaussian.condition(start, phi, w, sigma, importance)
    np.testing.assert_allclose(many.factor, few.factor, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(many.log_normalizer, few.log_normalizer, rtol=1e-13)


def test_evidence_with_noise_a_row():
    phi, w = feedback(seed=12, n=1, K=6, d=3)
    sigma = np.random.default_rng(0).uniform(0.5, 5.0, 6)
    belief = gaussian.condition(gaussian.prior(3, 2.0), phi[0], w[0], sigma)
    marginal = multivariate_normal(cov=4.0 * phi[0] @ phi[0].T + np.diag(sigma**2))
    assert gaussian.log_evidence(belief) == pytest.approx(marginal.logpdf(w[0]), rel=1e-10)


def test_importance_is_the_precision_of_a_mean():
    """Of as many observations, whose noise averages out: one residual, of variance σ²/v."""
    phi, w = feedback(seed=13, n=1, K=3, d=4)
    start = gaussian.prior(4, 1.5)
    once = gaussian.condition(start, phi[0], w[0], 0.7, importance=np.array([3.0, 1.0, 2.0]))
    again = gaussian.condition(
        start, np.repeat(phi[0], [3, 1, 2], axis=0), np.repeat(w[0], [3, 1, 2]), 0.7
    )
    np.testing.assert_allclose(once.factor, again.factor, rtol=1e-12, atol=1e-12)
    cov = 1.5**2 * phi[0] @ phi[0].T + np.diag(0.7**2 / np.array([3.0, 1.0, 2.0]))
    density = multivariate_normal(cov=cov).logpdf(w[0])
    assert gaussian.log_evidence(once) == pytest.approx(density, rel=1e-12)


def test_conditioning_on_a_factor_is_conditioning_on_its_rows():
    phi, w = feedback(seed=14, n=1, K=9, d=4)
    rows = np.linalg.qr(np.column_stack([phi[0], w[0]]), mode="r")
    start = gaussian.prior(4, 1.5)
    at_once = gaussian.condition_on_factor(start, RowFactor(rows, np.asarray(9)), 0.7)
    one_by_one = gaussian.condition(start, phi[0], w[0], 0.7)
    np.testing.assert_allclose(at_once.factor, one_by_one.factor, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(at_once.log_normalizer, one_by_one.log_normalizer, rtol=1e-12)


STEPS = int(os.environ.get("SUPERARM_STEPS", "20_000"))
"""`make endurance` takes a million, which is a minute."""


def test_many_forgetting_updates_then_as_many_idle_ones():
    """A single direction is observed but for the first two rows, so all else fades."""
    start, d, keep = gaussian.prior(2, 5.0), 2, 0.997
    rng = np.random.default_rng(0)
    phi = np.stack([np.ones(STEPS), 1e-3 * rng.standard_normal(STEPS)], axis=-1)[:, None]
    w = rng.standard_normal((STEPS, 1))
    belief = gaussian.condition(start, np.eye(2), np.ones(2), 1e-6)
    for t in range(STEPS):
        belief = gaussian.condition(gaussian.forget(belief, start, keep), phi[t], w[t], 0.1)
    assert (np.diagonal(belief.R) > 0).all()
    Sigma = covariance(belief)
    np.linalg.cholesky(Sigma)
    # what is left after so long: the last rows, of importance keep**age, and the prior
    recent = phi[::-1][:80_000, 0]
    importance = keep ** np.arange(len(recent))[:, None] / 0.01
    np.testing.assert_allclose(
        np.linalg.inv(Sigma), recent.T @ (importance * recent) + np.eye(d) / 25, rtol=1e-9
    )
    for _ in range(STEPS):
        belief = gaussian.forget(belief, start, keep)
    np.testing.assert_allclose(gaussian.mean(belief), np.zeros(d), atol=1e-9)
    np.testing.assert_allclose(covariance(belief), 25.0 * np.eye(d), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(belief.log_normalizer, start.log_normalizer, rtol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.01, 1.0), st.floats(0.1, 10))
def test_forgetting_never_goes_beyond_the_prior(seed, d, keep, lam):
    """Σ stays at most the prior's λ²I, and at least what it was."""
    (phi,), (w,) = feedback(seed, 1, 4, d)
    start = gaussian.prior(d, lam)
    before = gaussian.condition(start, phi, w, 0.5)
    after = gaussian.forget(before, start, keep)
    tolerance = 1e-9 * lam**2
    assert np.linalg.eigvalsh(covariance(after)).max() <= lam**2 + tolerance
    assert np.linalg.eigvalsh(covariance(after) - covariance(before)).min() >= -tolerance


def test_thousands_of_single_row_updates():
    rng = np.random.default_rng(1)
    d, n, sigma, lam = 32, STEPS // 2, 0.5, 10.0
    phi, theta = rng.standard_normal((n, d)), rng.standard_normal(d)
    w = phi @ theta + sigma * rng.standard_normal(n)
    belief = gaussian.prior(d, lam)
    for k in range(n):
        belief = gaussian.condition(belief, phi[k : k + 1], w[k : k + 1], sigma)
    rows = np.concatenate([phi / sigma, np.eye(d) / lam])
    mean = np.linalg.lstsq(rows, np.concatenate([w / sigma, np.zeros(d)]))[0]
    assert np.linalg.norm(gaussian.mean(belief) - mean) <= 1e-9 * np.linalg.norm(mean)


@pytest.mark.parametrize(("lam", "sigma"), [(10, 1), (1, 0.3), (0.5, 2)])
def test_block_update_is_the_papers_loop(lam, sigma):
    phi, w = feedback(seed=2, n=5, K=7, d=6)
    belief, theta, Sigma = gaussian.prior(6, lam), np.zeros(6), lam**2 * np.eye(6)
    for t in range(5):
        belief = gaussian.condition(belief, phi[t], w[t], sigma)
        theta, Sigma = kalman(theta, Sigma, sigma, zip(phi[t], w[t], strict=True))
        np.testing.assert_allclose(gaussian.mean(belief), theta, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(covariance(belief), Sigma, rtol=1e-10, atol=1e-10)


@settings(max_examples=50)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 9),
    st.floats(0.1, 100),
    st.floats(0.1, 10),
)
def test_the_order_and_the_grouping_of_feedback_do_not_matter(seed, K, d, lam, sigma):
    (phi,), (w,) = feedback(seed, 1, K, d)
    start = gaussian.prior(d, lam)
    block = gaussian.condition(start, phi, w, sigma)
    order = np.random.default_rng(seed).permutation(K)
    permuted = gaussian.condition(start, phi[order], w[order], sigma)
    one_by_one = start
    for k in order:
        one_by_one = gaussian.condition(one_by_one, phi[k : k + 1], w[k : k + 1], sigma)
    scale = np.abs(block.factor).max()
    for other in (permuted, one_by_one):
        np.testing.assert_allclose(other.factor, block.factor, rtol=1e-10, atol=1e-10 * scale)
        np.testing.assert_allclose(
            gaussian.log_evidence(other), gaussian.log_evidence(block), rtol=1e-10
        )


def test_batch_is_a_loop_of_singles():
    rng = np.random.default_rng(3)
    batch, d, K, L = (2, 3), 5, 4, 9
    belief = gaussian.prior(d, 2.0, batch)
    phi, w, Phi = (rng.standard_normal((*batch, *s)) for s in ((K, d), (K,), (L, d)))
    phi[0, 1, 2:] = 0
    belief = gaussian.condition(belief, phi, w, 0.7)
    for b in np.ndindex(batch):
        single = gaussian.condition(gaussian.prior(d, 2.0), phi[b], w[b], 0.7)
        np.testing.assert_array_equal(belief.factor[b], single.factor)
        np.testing.assert_allclose(gaussian.mean(belief)[b], gaussian.mean(single), rtol=1e-12)
        np.testing.assert_allclose(
            gaussian.std(belief, Phi)[b], gaussian.std(single, Phi[b]), rtol=1e-12
        )
        np.testing.assert_allclose(
            gaussian.log_evidence(belief)[b], gaussian.log_evidence(single), rtol=1e-12
        )


def test_padded_rows_are_exact_no_ops():
    phi, w = feedback(seed=4, n=1, K=5, d=3)
    belief = gaussian.condition(gaussian.prior(3, 1.0), phi[0], w[0], 0.5)
    nothing = gaussian.condition(
        belief, np.zeros((4, 3)), np.array([0.0, 3.0, np.nan, np.inf]), 0.5
    )
    padded = gaussian.condition(
        belief,
        np.insert(phi[0], [0, 2, 5], 0, axis=0),
        np.insert(w[0], [0, 2, 5], [9.0, np.nan, 0.0]),
        0.5,
    )
    plain = gaussian.condition(belief, phi[0], w[0], 0.5)
    for actual, expected in ((nothing, belief), (padded, plain)):
        np.testing.assert_array_equal(actual.factor, expected.factor)
        np.testing.assert_allclose(actual.log_normalizer, expected.log_normalizer, rtol=1e-15)


def test_condition_leaves_its_input_alone():
    phi, w = feedback(seed=5, n=1, K=4, d=3)
    belief = gaussian.condition(gaussian.prior(3, 1.0), phi[0], w[0], 1.0)
    before = [np.array(x) for x in (*belief, phi, w)]
    gaussian.condition(belief, phi[0], w[0], 1.0)
    for now, then in zip((*belief, phi, w), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(("lam", "sigma"), [(1.0, 1.0), (10.0, 0.1), (0.3, 4.0)])
def test_log_evidence_is_the_marginal_likelihood(lam, sigma):
    phi, w = feedback(seed=6, n=3, K=4, d=5)
    belief = gaussian.prior(5, lam)
    assert gaussian.log_evidence(belief) == pytest.approx(0.0, abs=1e-12)
    for t in range(3):
        belief = gaussian.condition(belief, phi[t], w[t], sigma)
    X = phi.reshape(-1, 5)
    marginal = multivariate_normal(cov=lam**2 * X @ X.T + sigma**2 * np.eye(len(X)))
    assert gaussian.log_evidence(belief) == pytest.approx(marginal.logpdf(w.ravel()), rel=1e-9)


def test_samples_have_the_moments_of_the_belief():
    phi, w = feedback(seed=7, n=1, K=6, d=3)
    belief = gaussian.condition(gaussian.prior(3, 1.0), phi[0], w[0], 2.0)
    n = 200_000
    many = gaussian.Gaussian(*(np.broadcast_to(x, (n, *np.shape(x))) for x in belief))
    theta = gaussian.sample(many, np.random.default_rng(0))
    mean, Sigma = gaussian.mean(belief), covariance(belief)
    se = np.sqrt(np.diagonal(Sigma) / n)
    assert (np.abs(theta.mean(0) - mean) < 4 * se).all()
    # a sample covariance has standard error sqrt((S_ij^2 + S_ii S_jj) / n)
    error = np.sqrt((Sigma**2 + np.outer(np.diagonal(Sigma), np.diagonal(Sigma))) / n)
    assert (np.abs(np.cov(theta.T) - Sigma) < 4 * error).all()


def test_rows_of_wrong_shape():
    with pytest.raises(FeaturesError, match=r"feature rows of shape \('n', 3\), got \(5, 2\)"):
        gaussian.std(gaussian.prior(3, 1.0), np.ones((5, 2)))
    with pytest.raises(FeaturesError, match=r"feature rows of shape \(4, 'n', 2\), got \(3, 5\)"):
        gaussian.condition(gaussian.prior(2, 1.0, batch=(4,)), np.ones((3, 5)), np.ones(3), 1.0)


def test_bad_input():
    with pytest.raises(ParameterError, match="lam must be a positive"):
        gaussian.prior(3, 0.0)
    with pytest.raises(ParameterError, match="at least one feature"):
        gaussian.prior(0, 1.0)
    with pytest.raises(ParameterError, match="sigma must be a positive"):
        gaussian.condition(gaussian.prior(1, 1.0), np.ones((1, 1)), np.ones(1), -1.0)
    with pytest.raises(ParameterError, match="keep must lie in"):
        gaussian.forget(gaussian.prior(1, 1.0), gaussian.prior(1, 1.0), 1.5)
    for bad in (np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.array([np.inf, 1.0])):
        with pytest.raises(ParameterError, match="sigma must be positive and finite"):
            gaussian.condition(gaussian.prior(1, 1.0), np.ones((2, 1)), np.ones(2), bad)
        with pytest.raises(ParameterError, match="importance must be positive and finite"):
            gaussian.condition(gaussian.prior(1, 1.0), np.ones((2, 1)), np.ones(2), 1.0, bad)
    with pytest.raises(
        ParameterError, match=r"sigma must be a number or have shape \(2,\), got \(3,\)"
    ):
        gaussian.condition(gaussian.prior(1, 1.0), np.ones((2, 1)), np.ones(2), np.ones(3))
    with pytest.raises(NumericalError, match="float64"):
        gaussian.condition(gaussian.prior(1, 1.0), np.ones((1, 1)), np.array([np.nan]), 1.0)
    with pytest.raises(NumericalError, match="float64"):
        gaussian.condition(gaussian.prior(1, 1.0), np.full((1, 1), 1e308), np.ones(1), 1e-7)

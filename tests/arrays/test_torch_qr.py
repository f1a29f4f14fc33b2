import numpy as np
import pytest

from superarm import arrays, gaussian
from superarm.errors import NumericalError
from superarm.studies.longest_path import SWEEPS
from support import BATCHES, assert_alike, feedback, mpmath_posterior, tensors

torch = pytest.importorskip("torch")
from superarm.arrays import torch_qr  # noqa: E402  the line above has asked for Torch

torch.set_num_threads(1)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("K", [0, 1, 4, 40])
def test_stacked_rows_are_numpys(batch, K):
    rng = np.random.default_rng(2)
    factor = np.triu(rng.standard_normal((*batch, 20, 20)), 1) + 3 * np.eye(20)
    rows = rng.standard_normal((*batch, K, 20))
    rows[rng.random((*batch, K)) < 0.3] = 0.0
    F, X = tensors(factor, rows)
    assert_alike(arrays.qr_stack(F, X), arrays.qr_stack(factor, rows), atol=1e-11)
    np.testing.assert_array_equal(F.numpy(), factor)


@pytest.mark.parametrize("batch", BATCHES)
def test_added_rows_are_numpys(batch):
    rng = np.random.default_rng(3)
    Phi, w = rng.standard_normal((*batch, 40, 5)), rng.standard_normal((*batch, 40))
    Phi[rng.random((*batch, 40)) < 0.3] = 0.0
    noise = rng.uniform(0.1, 3.0, (*batch, 40))
    for start in (np.zeros((*batch, 6, 6)), np.zeros((*batch, 6, 6)) + np.eye(6)):
        found = arrays.qr_append(*tensors(start, Phi, w, noise))
        expected = arrays.qr_append(start, Phi, w, noise)
        for x, y in zip(found, expected, strict=True):
            assert_alike(x, y, atol=1e-11)


def test_nothing_present_changes_nothing_to_the_bit():
    factor = torch.tensor(
        np.triu(np.random.default_rng(0).standard_normal((2, 5, 5))) + 3 * np.eye(5)
    )
    rows = torch.ones(2, 3, 5).double()
    rows[1] = 0.0
    updated = arrays.qr_stack(factor, rows)
    np.testing.assert_array_equal(updated[1].numpy(), factor[1].numpy())
    assert (updated[0] != factor[0]).any()


def test_stacked_rows_without_full_rank_are_numpys():
    """As where a factor of rows alone starts from nothing."""
    rows = np.random.default_rng(0).standard_normal((3, 6))
    factor = np.zeros((6, 6))
    updated = arrays.qr_stack(*tensors(factor, rows))
    assert_alike(updated[:3], arrays.qr_stack(factor, rows)[:3])
    np.testing.assert_allclose((updated.mT @ updated).numpy(), rows.T @ rows, atol=1e-12)


@pytest.mark.parametrize("row", [[np.inf, 0.0], [np.nan, 0.0], [1.7e308, 1.7e308]])
def test_stacked_rows_refuse_what_float64_cannot_hold(row):
    rows = torch.tensor([row] * 20, dtype=torch.float64)
    with pytest.raises(NumericalError, match="float64"):
        arrays.qr_stack(torch.eye(2, dtype=torch.float64), rows)


def posterior(belief):
    Rinv = np.linalg.inv(belief.R.numpy())
    return gaussian.mean(belief).numpy(), Rinv @ Rinv.T


def prior(d, lam):
    return gaussian.prior(d, lam, like=torch.zeros(0))


RANGE = [(float(lam), 1.0) for lam in SWEEPS["lambda"]] + [
    (10.0, float(sigma)) for sigma in SWEEPS["sigma"]
]


@pytest.mark.parametrize(("lam", "sigma"), RANGE, ids=lambda x: f"{x:g}")
def test_posterior_against_80_digits_over_the_papers_range(lam, sigma):
    phi, w = feedback(seed=0, n=4, K=10, d=24)
    belief = prior(24, lam)
    for t in range(4):
        belief = gaussian.condition(belief, *tensors(phi[t], w[t]), sigma)
        if t in (1, 3):  # some directions known and others not; all known
            mean, Sigma = mpmath_posterior(phi[: t + 1], w[: t + 1], lam, sigma)
            theta, covariance = posterior(belief)
            # LAPACK's tpqrt, tested in test_gaussian, needs 1e-6
            assert np.linalg.norm(theta - mean) <= 1e-11 * np.linalg.norm(mean)
            assert np.linalg.norm(covariance - Sigma) <= 1e-11 * np.linalg.norm(Sigma)
            assert (belief.R.diagonal() > 0).all()


def test_contradicting_feedback_with_little_noise():
    """The same items observed again, five units apart where the learner believes in noise of
    1e-6."""
    d, sigma = 24, 1e-6
    rng = np.random.default_rng(0)
    errors = {"lapack": [], "tensors": []}
    for _ in range(4):
        phi, w = feedback(seed=int(rng.integers(1000)), n=2, K=10, d=d)
        phi[1, :5], w[1, :5] = phi[0, :5], w[0, :5] + rng.standard_normal(5)
        mean, _ = mpmath_posterior(phi, w, 10.0, sigma)
        for name, kind, start in (
            ("lapack", np.array, gaussian.prior),
            ("tensors", torch.tensor, prior),
        ):
            belief = start(d, 10.0)
            for t in range(2):
                belief = gaussian.condition(belief, kind(phi[t]), kind(w[t]), sigma)
            errors[name].append(
                np.linalg.norm(np.asarray(gaussian.mean(belief)) - mean) / np.linalg.norm(mean)
            )
    assert np.mean(errors["tensors"]) < np.mean(errors["lapack"])
    assert max(errors["tensors"]) < 0.05


def test_a_gaussian_belief_in_tensors_is_numpys():
    phi, w = feedback(seed=3, n=3, K=5, d=6)
    belief, reference = prior(6, 2.0), gaussian.prior(6, 2.0)
    for t in range(3):
        belief = gaussian.condition(
            belief, *tensors(phi[t], w[t]), 0.7, torch.full((5,), 2.0).double()
        )
        reference = gaussian.condition(reference, phi[t], w[t], 0.7, np.full(5, 2.0))
    for x, y in zip(belief, reference, strict=True):
        assert_alike(x, y)
    assert_alike(gaussian.log_evidence(belief), gaussian.log_evidence(reference))
    assert_alike(gaussian.std(belief, torch.tensor(phi[0])), gaussian.std(reference, phi[0]))
    forgotten = gaussian.forget(belief, prior(6, 2.0), 0.9)
    assert_alike(forgotten.factor, gaussian.forget(reference, gaussian.prior(6, 2.0), 0.9).factor)


def test_rows_that_tell_little_new_take_one_pass(monkeypatch):
    """Five hundred updates after the belief knows its way: as LAPACK's, without making the whole
    triangular anew."""
    rng = np.random.default_rng(0)
    d, K = 8, 5
    rows = rng.standard_normal((4, 600, K, d + 1))
    factor = arrays.qr_stack(gaussian.prior(d, 10.0, (4,)).factor, rows[:, 0])
    for t in range(1, 100):
        factor = arrays.qr_stack(factor, rows[:, t])
    (tensor,) = tensors(factor.copy())
    monkeypatch.setattr(torch_qr, "cholesky_qr", lambda A: pytest.fail("the whole was made anew"))
    for t in range(100, 600):
        factor = arrays.qr_stack(factor, rows[:, t])
        tensor = arrays.qr_stack(tensor, torch.tensor(rows[:, t]))
    np.testing.assert_allclose(tensor.numpy(), factor, rtol=1e-11, atol=1e-11)

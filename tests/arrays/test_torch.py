import numpy as np
import pytest
from scipy import stats

from superarm import arrays, gaussian
from superarm.errors import NumericalError, ParameterError
from superarm.studies.longest_path import SWEEPS
from support import feedback, mpmath_posterior

torch = pytest.importorskip("torch")
from superarm import torch_arrays  # noqa: E402  only where Torch is, which the line above has asked

torch.set_num_threads(1)
BATCHES = [(), (3,), (2, 3)]


def tensors(*xs):
    return [torch.tensor(x) for x in xs]


def assert_alike(tensor, array, **tolerance):
    assert isinstance(tensor, torch.Tensor)
    assert tuple(tensor.shape) == np.shape(array)
    assert tensor.numpy().dtype == np.asarray(array).dtype
    np.testing.assert_allclose(tensor.numpy(), array, **{"rtol": 1e-12, "atol": 1e-12, **tolerance})


@pytest.mark.parametrize("batch", BATCHES)
def test_gathers_and_scatters_are_numpys(batch):
    rng = np.random.default_rng(0)
    Phi, v = rng.standard_normal((*batch, 5, 2)), rng.standard_normal((*batch, 5))
    A = rng.permuted(np.broadcast_to(np.arange(-1, 3), (*batch, 4)), axis=-1)
    x = rng.standard_normal(A.shape)
    for function, arguments in (
        (arrays.take_rows, (Phi, A)),
        (arrays.take, (v, A)),
        (arrays.add_at, (v, A, x)),
    ):
        assert_alike(function(*tensors(*arguments)), function(*arguments))
    assert_alike(arrays.add_at(*tensors(v, A), torch.tensor(x > 0)), arrays.add_at(v, A, x > 0))


@pytest.mark.parametrize("batch", BATCHES)
def test_solves_and_norms_are_numpys(batch):
    rng = np.random.default_rng(1)
    factor = np.triu(rng.standard_normal((*batch, 5, 5))) + 3 * np.eye(5)
    b, Phi, rows = (rng.standard_normal((*batch, *shape)) for shape in ((4,), (6, 4), (3, 4)))
    F, U, V = (
        torch.tensor(factor),
        arrays.shrinkage(*tensors(factor, rows)),
        arrays.shrinkage(factor, rows),
    )
    assert_alike(U.mT @ U, V.swapaxes(-1, -2) @ V)
    for function, arguments in (
        (arrays.solve, (factor, b)),
        (arrays.solve_rows, (factor, Phi)),
        (arrays.solved_row_norms, (factor, Phi)),
        (arrays.matvec, (Phi, b)),
        (arrays.row_norms, (Phi,)),
        (arrays.log_det, (factor,)),
        (arrays.nonzero_rows, (Phi * (Phi[..., :1] > 0),)),
        (arrays.joined, (Phi, Phi[..., 0], np.float64(0.3))),
        (arrays.probe_direction, (Phi,)),
        (arrays.probe, (Phi, b)),
        (arrays.product_norms, (Phi, rows)),
        (arrays.log, (abs(Phi),)),
        (arrays.sigmoid, (Phi,)),
        (arrays.log_sigmoid, (50 * Phi,)),
        (arrays.double, (Phi.astype(np.float32),)),
    ):
        assert_alike(function(*tensors(*arguments)), function(*arguments))
    assert_alike(arrays.is_steep(F, 2.0), arrays.is_steep(factor, 2.0))


def test_numbers_become_float64():
    like = torch.zeros(2, dtype=torch.float64)
    mask = torch.tensor([True, False])
    assert_alike(arrays.where(mask, 0.1, 1.0), np.array([0.1, 1.0]))
    assert_alike(arrays.where(mask, like + 3, 0.2), np.array([3.0, 0.2]))
    assert_alike(arrays.full((2, 3), 0.1, like), np.full((2, 3), 0.1))
    assert_alike(arrays.full((3, 2), torch.tensor([1.0, 2.0]).double()), np.array([[1.0, 2.0]] * 3))
    assert_alike(arrays.full((2,), 0, like), np.zeros(2, np.int64))
    assert_alike(
        arrays.scaled_identity(0.5, 2, 3, (4,), like), arrays.scaled_identity(0.5, 2, 3, (4,))
    )
    assert_alike(arrays.flatnonzero(torch.tensor([0.0, 2.0])), np.array([1]))
    assert arrays.matvec(torch.eye(3), torch.ones(3).double()).dtype == torch.float32
    assert arrays.max_abs(torch.tensor([-3.0, 2.0])) == 3.0
    assert arrays.max_abs(torch.empty(0)) == 0.0
    assert arrays.all_finite(torch.ones(2)) and not arrays.all_finite(torch.tensor([1, 2]))
    assert not arrays.below_infinity(torch.tensor([torch.nan]))


def test_coins_are_numpys_to_the_bit():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1000, 500), rng.integers(0, 1000, 500), rng.random(500)
    np.testing.assert_array_equal(
        arrays.hashed_uniform(*tensors(*keys)).numpy(), arrays.hashed_uniform(*keys)
    )


def test_numpys_generators_draw_the_same_for_tensors():
    a, b = np.full((4, 5), 2.0), np.full((4, 5), 3.0)

    def generators():
        return [np.random.default_rng(s) for s in np.random.SeedSequence(3).spawn(4)]

    for draw, parameters in ((arrays.normal, [a]), (arrays.uniform, [a]), (arrays.beta, [a, b])):
        drawn = draw(generators(), *tensors(*parameters))
        np.testing.assert_array_equal(drawn.numpy(), draw(generators(), *parameters))
    one = arrays.normal(np.random.default_rng(0), torch.tensor(a))
    np.testing.assert_array_equal(one.numpy(), arrays.normal(np.random.default_rng(0), a))
    with pytest.raises(ParameterError, match="a batch of 4 needs a generator an entry, got 3"):
        arrays.normal(generators()[:3], torch.tensor(a))


def streams(seeds, spawn=None):
    made = torch_arrays.Streams.of_seeds(
        [np.random.SeedSequence(s) for s in seeds], torch.device("cpu")
    )
    return made if spawn is None else arrays.spawn(made, 2)[spawn]


def test_a_stream_draws_alone_what_it_draws_in_a_batch():
    a = torch.full((3, 50), 0.7, dtype=torch.float64)
    for draw, like in ((arrays.normal, [a]), (arrays.uniform, [a]), (arrays.beta, [a, 3 * a])):
        together, alone = streams([1, 2, 3], spawn=1), streams([2], spawn=1)
        for _ in range(3):
            mine = draw(alone, *(x[:1] for x in like))
            np.testing.assert_array_equal(draw(together, *like)[1].numpy(), mine[0].numpy())


def test_streams_draw_what_they_should():
    like = torch.ones(2, 5_000, dtype=torch.float64)
    a, b = 0.4 * like, 2.5 * like
    rng = streams([0, 1])
    for draw, parameters, law in (
        (arrays.normal, [like], stats.norm),
        (arrays.uniform, [like], stats.uniform),
        (arrays.beta, [a, b], stats.beta(0.4, 2.5)),
        (arrays.beta, [b, like], stats.beta(2.5, 1)),
    ):
        x, y = draw(rng, *parameters).numpy(), draw(rng, *parameters).numpy()
        # four samples of one law, of which one in 10,000 would fail by chance
        assert (
            stats.kstest(np.concatenate([x.ravel(), y.ravel()]), law.cdf, method="asymp").pvalue
            > 1e-4
        )
        # correlations of 5,000 pairs have standard error 0.014
        for left, right in ((x[0], x[1]), (x[0], y[0]), (x[0, 1:], x[0, :-1])):
            assert abs(np.corrcoef(left, right)[0, 1]) < 0.06


def test_streams_refuse_another_batch():
    with pytest.raises(ParameterError, match=r"streams of a batch \(2,\) cannot draw for \(3, 4\)"):
        arrays.normal(streams([0, 1]), torch.zeros(3, 4))


def test_large_draws_come_in_parts(monkeypatch):
    whole = streams([5, 6]).standard_normal((7, 3))
    monkeypatch.setattr(torch_arrays, "PART", 8)
    np.testing.assert_array_equal(streams([5, 6]).standard_normal((7, 3)).numpy(), whole.numpy())
    Phi = torch.randn(2, 9, 3, dtype=torch.float64)
    np.testing.assert_allclose(
        arrays.probe(Phi, torch.ones(2, 3).double()).numpy(), Phi.sum(-1).numpy(), atol=1e-12
    )
    assert arrays.all_finite(Phi)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("K", [0, 1, 4, 40])
def test_qr_update_is_lapacks(batch, K):
    rng = np.random.default_rng(2)
    factor = np.triu(rng.standard_normal((*batch, 20, 20)), 1) + 3 * np.eye(20)
    rows, present = rng.standard_normal((*batch, K, 20)), rng.random((*batch, K)) < 0.7
    rows[~present] = np.nan
    F, *others = tensors(factor, rows, present)
    assert_alike(arrays.qr_update(F, *others), arrays.qr_update(factor, rows, present), atol=1e-11)
    np.testing.assert_array_equal(F.numpy(), factor)


def test_nothing_present_changes_nothing_to_the_bit():
    factor = torch.tensor(
        np.triu(np.random.default_rng(0).standard_normal((2, 5, 5))) + 3 * np.eye(5)
    )
    rows, present = torch.ones(2, 3, 5).double(), torch.tensor([[True] * 3, [False] * 3])
    updated = arrays.qr_update(factor, rows, present)
    np.testing.assert_array_equal(updated[1].numpy(), factor[1].numpy())
    assert (updated[0] != factor[0]).any()


def test_qr_update_without_full_rank_is_lapacks():
    """As where a factor of rows alone starts from nothing."""
    rows = np.random.default_rng(0).standard_normal((3, 6))
    factor, present = np.zeros((6, 6)), np.ones(3, bool)
    updated = arrays.qr_update(*tensors(factor, rows, present))
    assert_alike(updated[:3], arrays.qr_update(factor, rows, present)[:3])
    np.testing.assert_allclose((updated.mT @ updated).numpy(), rows.T @ rows, atol=1e-12)


@pytest.mark.parametrize("row", [[np.inf, 0.0], [np.nan, 0.0], [1.7e308, 1.7e308]])
def test_qr_update_refuses_what_float64_cannot_hold(row):
    rows = torch.tensor([row] * 20, dtype=torch.float64)
    with pytest.raises(NumericalError, match="float64"):
        arrays.qr_update(torch.eye(2, dtype=torch.float64), rows, torch.ones(20, dtype=torch.bool))


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


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ParameterError, match="device 'nowhere' is not to be had here"):
        torch_arrays.check_device("nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(ParameterError, match="device 'cuda' is not to be had here"):
            torch_arrays.check_device("cuda")
    assert torch_arrays.free_bytes(torch_arrays.check_device("cpu")) > 0


def test_rows_that_tell_little_new_take_one_pass(monkeypatch):
    """Five hundred updates after the belief knows its way: as LAPACK's, without making the whole
    triangular anew."""
    rng = np.random.default_rng(0)
    d, K = 8, 5
    rows = rng.standard_normal((4, 600, K, d + 1))
    factor = arrays.qr_update(
        gaussian.prior(d, 10.0, (4,)).factor, rows[:, 0], np.ones((4, K), bool)
    )
    for t in range(1, 100):
        factor = arrays.qr_update(factor, rows[:, t], np.ones((4, K), bool))
    (tensor,) = tensors(factor.copy())
    monkeypatch.setattr(torch_arrays, "triangle", lambda A: pytest.fail("the whole was made anew"))
    present = torch.ones((4, K), dtype=torch.bool)
    for t in range(100, 600):
        factor = arrays.qr_update(factor, rows[:, t], np.ones((4, K), bool))
        tensor = arrays.qr_update(tensor, torch.tensor(rows[:, t]), present)
    np.testing.assert_allclose(tensor.numpy(), factor, rtol=1e-11, atol=1e-11)

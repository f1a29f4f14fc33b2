import numpy as np
import pytest
from scipy import stats

from superarm import arrays
from superarm.arrays import Stream
from superarm.beliefs.cached_std import choose_probe, covariance_downdate, project_rows
from superarm.errors import ParameterError
from support import BATCHES, assert_alike, tensors

torch = pytest.importorskip("torch")
from superarm.arrays import torch as torch_arrays  # noqa: E402  the line above has asked

torch.set_num_threads(1)


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
        covariance_downdate(*tensors(factor, rows)),
        covariance_downdate(factor, rows),
    )
    assert_alike(U.mT @ U, V.swapaxes(-1, -2) @ V)
    for function, arguments in (
        (arrays.solve_factor, (factor, b)),
        (arrays.solve_rows, (factor, Phi)),
        (arrays.posterior_row_norms, (factor, Phi)),
        (arrays.matvec, (Phi, b)),
        (arrays.row_norms, (Phi,)),
        (arrays.log_det, (factor,)),
        (arrays.nonzero_rows, (Phi * (Phi[..., :1] > 0),)),
        (arrays.with_column, (Phi, Phi[..., 0], np.float64(0.3))),
        (choose_probe, (Phi,)),
        (project_rows, (Phi, b)),
        (arrays.product_row_norms, (Phi, rows)),
        (arrays.log, (abs(Phi),)),
        (arrays.sigmoid, (Phi,)),
        (arrays.log_sigmoid, (50 * Phi,)),
        (arrays.as_float64, (Phi.astype(np.float32),)),
    ):
        assert_alike(function(*tensors(*arguments)), function(*arguments))
    assert_alike(arrays.is_ill_conditioned(F, 2.0), arrays.is_ill_conditioned(factor, 2.0))


def test_numbers_become_float64():
    like = torch.zeros(2, dtype=torch.float64)
    mask = torch.tensor([True, False])
    assert_alike(arrays.where(mask, 0.1, 1.0), np.array([0.1, 1.0]))
    assert_alike(arrays.where(mask, like + 3, 0.2), np.array([3.0, 0.2]))
    assert_alike(arrays.full((2, 3), 0.1, like), np.full((2, 3), 0.1))
    assert_alike(arrays.full((3, 2), torch.tensor([1.0, 2.0]).double()), np.array([[1.0, 2.0]] * 3))
    assert_alike(arrays.full((2,), 0, like), np.zeros(2, np.int64))
    assert_alike(arrays.diagonal(torch.tensor([1.0, 2.0]).double()), np.diag([1.0, 2.0]))
    assert arrays.matvec(torch.eye(3), torch.ones(3).double()).dtype == torch.float32
    assert arrays.all_finite(torch.ones(2)) and not arrays.all_finite(torch.tensor([1, 2]))
    assert not arrays.below_infinity(torch.tensor([torch.nan]))


def test_numpys_generators_draw_the_same_for_tensors():
    a, b = np.full((4, 5), 2.0), np.full((4, 5), 3.0)

    def generators():
        return [np.random.default_rng(s) for s in np.random.SeedSequence(3).spawn(4)]

    for draw, parameters in ((arrays.normal, [a]), (arrays.uniform, [a]), (arrays.beta, [a, b])):
        drawn = draw(generators(), *tensors(*parameters))
        np.testing.assert_array_equal(drawn.numpy(), draw(generators(), *parameters))
    one = arrays.normal(np.random.default_rng(0), torch.tensor(a))
    np.testing.assert_array_equal(one.numpy(), arrays.normal(np.random.default_rng(0), a))
    with pytest.raises(ParameterError, match="a batch of 4 needs one generator per entry, got 3"):
        arrays.normal(generators()[:3], torch.tensor(a))


def stream(*keys):
    return Stream(torch.tensor(keys))


def test_a_stream_draws_alone_what_it_draws_in_a_batch():
    a = torch.full((3, 50), 0.7, dtype=torch.float64)
    for draw, like in ((arrays.normal, [a]), (arrays.uniform, [a]), (arrays.beta, [a, 3 * a])):
        together = arrays.spawn(stream(1, 2, 3), 2)[1]
        alone = arrays.spawn(stream(2), 2)[1]
        for _ in range(3):
            mine = draw(alone, *(x[:1] for x in like))
            np.testing.assert_array_equal(draw(together, *like)[1].numpy(), mine[0].numpy())


def test_streams_draw_what_they_should():
    like = torch.ones(2, 5_000, dtype=torch.float64)
    a, b = 0.4 * like, 2.5 * like
    rng = stream(0, 1)
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
        arrays.normal(stream(0, 1), torch.zeros(3, 4))


def test_large_draws_come_in_parts(monkeypatch):
    whole = stream(5, 6).normal((7, 3))
    monkeypatch.setattr(torch_arrays, "CHUNK_NUMBERS", 8)
    np.testing.assert_array_equal(stream(5, 6).normal((7, 3)).numpy(), whole.numpy())
    Phi = torch.randn(2, 9, 3, dtype=torch.float64)
    np.testing.assert_allclose(
        project_rows(Phi, torch.ones(2, 3).double()).numpy(), Phi.sum(-1).numpy(), atol=1e-12
    )
    assert arrays.all_finite(Phi)


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ParameterError, match="device 'nowhere' is not available"):
        torch_arrays.check_device("nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(ParameterError, match="device 'cuda' is not available"):
            torch_arrays.check_device("cuda")
    assert torch_arrays.free_bytes(torch_arrays.check_device("cpu")) > 0

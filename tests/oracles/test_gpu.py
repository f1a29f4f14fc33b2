import numpy as np
import pytest

from superarm import (
    DagPath,
    GridPath,
    PartitionMatroid,
    Problem,
    Quota,
    ShortestPath,
    TopK,
    as_oracle,
    minimize,
    with_gap,
)
from superarm.decide import validated
from superarm.errors import InfeasibleError, WeightsError
from superarm.oracles.base import BaseOracle, Masked

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
FUSED = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LADDER = [(i, j) for i in range(12) for j in range(i + 1, min(12, i + 4)) if (i, j) != (3, 4)] + [
    (0, 13),
    (14, 11),
]
ORACLES = [
    TopK(3),
    TopK(9),
    TopK(3, at_most=True),
    TopK(12, at_most=True),
    Quota(["a", "b", "c"] * 3, {"a": 2, "b": 0, "c": 1}),
    Quota(["a", "b", "c"] * 3, total=4, minimum={"a": 1}, maximum={"b": 2}),
    GridPath(1),
    GridPath(4),
    GridPath(7),
    DagPath(LADDER, source=0, target=11),
    minimize(TopK(2)),
    with_gap(TopK(2), 0.3),
    Masked(TopK(2), np.arange(9) % 2 == 0),
]


def items_of(oracle):
    return oracle.L or 9


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
@pytest.mark.parametrize("batch", [(), (40,), (2, 3)])
@pytest.mark.parametrize("ties", [False, True])
def test_tensors_are_solved_as_arrays_are(oracle, batch, ties):
    rng = np.random.default_rng(0)
    shape = (*batch, items_of(oracle))
    w = rng.integers(-2, 3, shape).astype(float) if ties else rng.standard_normal(shape)
    A = oracle(torch.tensor(w))
    assert A.dtype == torch.int64
    np.testing.assert_array_equal(A.numpy(), oracle(w))


def answer(oracle, w):
    """The items, or why there are none."""
    try:
        return oracle(w).tolist()
    except InfeasibleError as error:
        return str(error)


@pytest.mark.parametrize("oracle", ORACLES[:10], ids=repr)
def test_masks_and_bad_weights(oracle):
    rng = np.random.default_rng(1)
    for _ in range(20):
        w = rng.standard_normal((3, items_of(oracle)))
        w[rng.random(w.shape) < 0.15] = -np.inf
        assert answer(oracle, torch.tensor(w)) == answer(oracle, w)
    for bad in (np.nan, np.inf):
        w = rng.standard_normal((2, items_of(oracle)))
        w[1, 2] = bad
        with pytest.raises(WeightsError, match=f"item 2 is {bad}"):
            oracle(torch.tensor(w))


@pytest.mark.parametrize("oracle", ORACLES[6:10], ids=repr)
@pytest.mark.parametrize("ties", [False, True])
def test_the_kernel_sweeps_as_numpy_does(oracle, ties, monkeypatch):
    pytest.importorskip("superarm.oracles.sweep", exc_type=ImportError)
    monkeypatch.setattr("superarm.arrays.torch.fused", lambda x: True)
    rng = np.random.default_rng(oracle.L)
    shape = (5, oracle.L)
    w = rng.integers(-2, 3, shape).astype(float) if ties else rng.standard_normal(shape)
    np.testing.assert_array_equal(oracle(torch.tensor(w, device=FUSED)).cpu(), oracle(w))
    for row in w:
        row[rng.random(len(row)) < 0.1] = -np.inf
        assert answer(oracle, torch.tensor(row, device=FUSED)) == answer(oracle, row)
    w[3, 2] = np.nan
    with pytest.raises(WeightsError, match="item 2 is nan"):
        oracle(torch.tensor(w, device=FUSED))


def test_levels_of_a_grid_are_its_antidiagonals():
    sweep = pytest.importorskip("superarm.oracles.sweep", exc_type=ImportError)
    network = sweep.levels(GridPath(3), FUSED)
    assert network.widest == 4
    assert network.first.tolist() == [0, 1, 3, 6, 10, 13, 15, 16]
    assert network.degree.tolist() == [0, 1, 2, 2, 2, 2, 2]
    assert network.item.tolist()[:6] == [0, 12, 1, 3, 13, 16]  # right before down, row by row


def test_an_oracle_without_kernels_solves_on_the_cpu_and_says_so():
    oracle = PartitionMatroid([0, 0, 1], {0: 1, 1: 1})
    w = np.random.default_rng(0).standard_normal((4, 3))
    problem = validated(Problem(torch.zeros(4, 3, 2), oracle))
    assert (problem.oracle.K, problem.oracle.gap) == (2, 0.0)
    with pytest.warns(UserWarning, match="PartitionMatroid.* solves on the CPU") as said:
        A = problem.oracle(torch.tensor(w))
    assert len(said) == 1
    np.testing.assert_array_equal(A.numpy(), oracle(w))
    problem.oracle(torch.tensor(w))  # says it once: a second warning would be an error
    cheapest = minimize(ShortestPath([(0, 1), (1, 2), (0, 2)], 0, 2))
    with pytest.warns(UserWarning, match="ShortestPath.* solves on the CPU"):
        A = cheapest(torch.tensor(abs(w)))
    np.testing.assert_array_equal(A.numpy(), cheapest(abs(w)))


def test_oracles_of_somebody_else_take_tensors():
    w = np.random.default_rng(0).standard_normal((4, 3))

    class Best(BaseOracle):
        K = 1

        def solve_row(self, w):
            return np.array([w.argmax()])

    for oracle in (Best(), as_oracle(lambda w: [int(w.argmax())])):
        with pytest.warns(UserWarning, match="solves on the CPU"):
            A = oracle(torch.tensor(w))
        assert A.dtype == torch.int64
        np.testing.assert_array_equal(A.numpy(), w.argmax(axis=-1)[:, None])
        with pytest.raises(WeightsError, match="item 1 is nan"):
            oracle(torch.tensor([0.0, np.nan]))


def test_oracles_with_kernels_stay_as_they_are():
    for oracle in ORACLES:
        assert validated(Problem(torch.zeros(4, items_of(oracle), 2), oracle)).oracle is oracle

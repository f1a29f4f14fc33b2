import numpy as np
import pytest

from reference import grid_paths
from superarm import GridPath
from superarm.errors import ParameterError, WeightsError
from superarm.testing import check_oracle


@pytest.mark.parametrize("m", [1, 2, 3])
def test_contract(m):
    check_oracle(GridPath(m), GridPath(m).L, family=grid_paths(m))


def test_items_come_in_the_order_of_the_path_and_match_edges():
    oracle = GridPath(6)
    assert oracle.edges.shape == (oracle.L, 2, 2)
    path = oracle.edges[oracle(np.random.default_rng(0).standard_normal(oracle.L))]
    assert path[0, 0].tolist() == [0, 0]
    assert path[-1, 1].tolist() == [6, 6]
    np.testing.assert_array_equal(path[:-1, 1], path[1:, 0])


def test_number_of_paths():
    assert len(grid_paths(4)) == 70
    assert GridPath(30).L == 1860
    assert GridPath(30).K == 60


@pytest.mark.parametrize("at", [0, 5, 6, 11])
def test_bad_weights_anywhere_are_refused(at):
    w = np.zeros(12)
    w[at] = np.nan
    with pytest.raises(WeightsError, match=f"item {at} is nan"):
        GridPath(2)(w)
    with pytest.raises(WeightsError, match="12 weights"):
        GridPath(2)(np.zeros(11))
    with pytest.raises(ParameterError, match="m must be a whole number"):
        GridPath(0)


def test_a_large_batch_runs_in_parallel_and_equals_its_rows():
    oracle = GridPath(20)
    W = np.random.default_rng(3).standard_normal((320, oracle.L))
    np.testing.assert_array_equal(oracle(W), np.stack([oracle(w) for w in W]))

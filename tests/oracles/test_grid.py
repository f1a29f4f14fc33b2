import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import grid_paths
from superarm import GridPath, brute_force
from superarm.errors import InfeasibleError, ParameterError, WeightsError
from superarm.testing import check_oracle


@pytest.mark.parametrize("m", [1, 2, 3])
def test_contract(m):
    check_oracle(GridPath(m), GridPath(m).L, family=grid_paths(m))


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.3]), st.booleans())
def test_grid_path_is_brute_force(m, seed, masked, ties):
    rng = np.random.default_rng(seed)
    oracle, family = GridPath(m), grid_paths(m)
    w = rng.integers(-2, 3, oracle.L).astype(float) if ties else rng.standard_normal(oracle.L)
    w[rng.random(oracle.L) < masked] = -np.inf
    best = max(w[path].sum() for path in family)
    if best == -np.inf:
        with pytest.raises(InfeasibleError, match=rf"GridPath\(m={m}\)"):
            oracle(w)
        return
    A = oracle(w)
    assert A.tolist() in family
    assert w[A].sum() == pytest.approx(best, abs=1e-12)
    assert w[A].sum() == pytest.approx(w[brute_force(family)(w)].sum(), abs=1e-12)


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

import itertools

import numpy as np
import pytest

from superarm import CombLinUCB, Problem, TopK, as_oracle, brute_force, minimize, simulate, with_gap
from superarm.bounds import comblinucb_bound, comblinucb_c
from superarm.errors import InfeasibleError, OracleError, ParameterError, WeightsError
from superarm.oracles.base import BaseOracle, CheckedOracle, Masked, feasible, padded
from superarm.simulation.environments import BernoulliEnvironment
from superarm.testing import check_oracle


class Neighbours(BaseOracle):
    """Two items side by side, of L; an oracle as somebody else would write it."""

    K = 2
    gap = 0.0

    def __init__(self, L):
        self.L = L

    def solve(self, rows):
        assert rows.flags.c_contiguous and rows.flags.writeable
        assert rows.dtype == np.float64 and rows.ndim == 2
        value = rows[:, :-1] + rows[:, 1:]
        feasible(bool((value.max(axis=-1) > -np.inf).all()), self)
        return value.argmax(axis=-1)[:, None] + np.arange(2)


class Positive(BaseOracle):
    """All items of positive weight, solved row by row."""

    def solve_row(self, w):
        return np.flatnonzero(w > 0)


def test_a_subclass_writes_solve_and_keeps_the_contract():
    check_oracle(Neighbours(6), 6, family=[(e, e + 1) for e in range(5)])
    oracle = Neighbours(4)
    assert as_oracle(oracle) is oracle
    assert oracle([0, 1, 2, 3]).tolist() == [2, 3]
    W = np.random.default_rng(0).standard_normal((4, 3, 2))
    np.testing.assert_array_equal(oracle(W.T), oracle(np.ascontiguousarray(W.T)))
    assert oracle(np.broadcast_to(1.0, 4)).tolist() == [0, 1]
    with pytest.raises(WeightsError, match="4 weights"):
        oracle(np.zeros(5))
    with pytest.raises(InfeasibleError, match=r"Neighbours.* no feasible set"):
        oracle(np.full(4, -np.inf))


def test_a_subclass_writes_solve_row():
    oracle = Positive()
    assert (oracle.L, oracle.K, oracle.gap) == (None, None, None)
    check_oracle(oracle, 5)
    assert oracle(np.array([[1.0, -1.0, 2.0], [-1.0, 3.0, -1.0]])).tolist() == [[0, 2], [1, -1]]
    assert Masked(oracle, np.array([False, True, True]))(np.ones(3)).tolist() == [1, 2]
    assert minimize(oracle)(np.array([1.0, -2.0])).tolist() == [1]


def test_a_subclass_without_either_is_told_what_to_write():
    class Idle(BaseOracle):
        pass

    with pytest.raises(OracleError, match=r"Idle needs a method solve\(rows\).* or solve_row\(w\)"):
        Idle()(np.zeros(3))


def test_classes_without_the_base_are_checked():
    class Stray:
        K = 1
        gap = 0.0

        def __call__(self, w):
            return np.array([len(w), -1])

    oracle = as_oracle(Stray())
    assert isinstance(oracle, CheckedOracle)
    assert (oracle.K, oracle.gap) == (1, 0.0)
    with pytest.raises(OracleError, match=r"item 3 is not one of the items 0\.\.2"):
        oracle(np.zeros(3))


def test_an_empty_batch_gives_an_empty_batch():
    for oracle in (TopK(2), Neighbours(4), Positive(), minimize(TopK(2))):
        A = oracle(np.zeros((0, 4)))
        assert A.shape == (0, oracle.K or 0)


def test_padded():
    sets = [np.array([3, 1]), np.array([], dtype=int)]
    assert padded(sets).tolist() == [[3, 1], [-1, -1]]
    assert padded(sets, 3).tolist() == [[3, 1, -1], [-1, -1, -1]]
    assert padded([]).shape == (0, 0)


def test_minimize_finds_the_cheapest_available_set():
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(6), 2))
    for _ in range(200):
        cost = rng.integers(-3, 4, 6) + rng.random(6)
        cost[rng.random(6) < 0.2] = -np.inf
        left = [p for p in pairs if (cost[list(p)] > -np.inf).all()]
        if left:
            cheapest = min(cost[list(p)].sum() for p in left)
            assert cost[minimize(TopK(2))(cost)].sum() == pytest.approx(cheapest)


def test_minimize_under_the_contract():
    oracle = minimize(brute_force([(0, 1), (2,)]))
    assert (oracle.K, oracle.gap, oracle.sense) == (2, 0.0, -1)
    check_oracle(oracle, 4, family=[(0, 1), (2,)])


def test_what_an_oracle_says_of_itself_stays_with_it():
    class Cheapest:
        K, gap, sense, exchanges = 1, 0.0, -1, True

        def __call__(self, w, /):
            return np.array([np.argmin(w)])

    for oracle in (as_oracle(Cheapest()), Masked(Cheapest(), np.ones(3, bool))):
        assert (oracle.sense, oracle.exchanges) == (-1, True)
    assert minimize(Cheapest()).sense == 1
    plain = as_oracle(lambda w: [0])
    assert (plain.sense, plain.exchanges) == (1, False)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 0.9])
def test_with_gap_is_honest(gamma):
    rng = np.random.default_rng(1)
    oracle = with_gap(TopK(3), gamma)
    assert (oracle.K, oracle.gap) == (3, gamma)
    worse = 0
    for _ in range(200):
        w = rng.random(12)
        best = np.sort(w)[-3:].sum()
        value = w[oracle(w)].sum()
        assert value >= (1 - gamma) * best - 1e-12
        worse += value < best - 1e-12
    assert (worse > 10) == (gamma > 0)
    check_oracle(oracle, 6, family=itertools.combinations(range(6), 3))


def test_functions_are_wrapped_and_checked():
    cheapest = minimize(lambda w: [int(w.argmax())])
    np.testing.assert_array_equal(cheapest(np.array([[3.0, 1.0], [0.0, 2.0]])), [[1], [0]])
    with pytest.raises(OracleError, match="repeated"):
        minimize(lambda w: [0, 0])(np.zeros(2))
    with pytest.raises(OracleError, match="a function from weights to items"):
        minimize(3)


def test_a_gap_is_no_promise_about_costs():
    assert minimize(with_gap(TopK(1), 0.5)).gap is None
    assert minimize(TopK(1)).gap == 0.0


def test_with_gap_refuses():
    with pytest.raises(ParameterError, match="gamma must lie"):
        with_gap(TopK(1), 1.0)
    with pytest.raises(ParameterError, match="needs an exact oracle"):
        with_gap(with_gap(TopK(1), 0.5), 0.5)


def approximate_instance(rng):
    Phi = rng.dirichlet(np.ones(4), size=30)
    return Problem(Phi, with_gap(TopK(5), 0.2)), BernoulliEnvironment(
        (Phi @ rng.random(4)).clip(0, 1)
    )


def test_comblinucb_keeps_the_bound_of_the_gamma_variant():
    sizes = {"K": 5, "d": 4, "lam": 1.0, "sigma": 1.0}
    c = comblinucb_c(100, **sizes, delta=1e-3, theta_norm=2.0)
    learner = CombLinUCB(lam=1.0, sigma=1.0, c=c)
    trace = simulate(
        approximate_instance, [learner], episodes=100, replicates=10, progress=False, exact=TopK(5)
    )
    assert trace.gap == 0.2
    bound = comblinucb_bound(100, **sizes, c=c, delta=1e-3, gamma=0.2)
    assert (trace.scaled_regret("CombLinUCB")[:, -1] <= bound).all()

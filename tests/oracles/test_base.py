import itertools

import numpy as np
import pytest

from superarm import CombLinUCB, Problem, TopK, as_oracle, brute_force, minimize, simulate, with_gap
from superarm.bounds import comblinucb_bound, comblinucb_c
from superarm.errors import OracleError, ParameterError
from superarm.simulation.worlds import BernoulliEnvironment
from superarm.testing import check_oracle


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
    assert (oracle.K, oracle.gap) == (2, 0.0)
    flipped = as_oracle(
        lambda w: [e for e in oracle(np.where(np.isneginf(w), w, -w)) if e >= 0], K=2, gap=0.0
    )
    check_oracle(flipped, 4, family=[(0, 1), (2,)])


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

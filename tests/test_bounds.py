import math

import numpy as np
import pytest

from superarm import (
    CombLinTS,
    CombLinUCB,
    GaussianEnvironment,
    Problem,
    TopK,
    episodes,
    gaussian,
    simulate,
)
from superarm.bounds import comblints_bound, comblinucb_bound, comblinucb_c
from superarm.errors import ParameterError
from superarm.studies.demo import BernoulliLongestPath

SIZES = {"K": 6, "d": 4, "lam": 2.0, "sigma": 0.5}


def test_comblints_bound_is_the_theorem_with_the_lemmas_logarithm():
    n, K, L, d, lam, sigma = 100, 6, 50, 4, 2.0, 0.5
    c = min(
        math.sqrt(math.log(lam * L * n / math.sqrt(2 * math.pi))),
        math.sqrt(d * math.log(2 * d * K * n * lam / math.sqrt(2 * math.pi))),
    )
    root = math.sqrt(
        2 * d * n * math.log(1 + n * K * lam**2 / (d * sigma**2)) / math.log(1 + lam**2 / sigma**2)
    )
    assert comblints_bound(n, L=L, **SIZES) == pytest.approx(1 + K * lam * c * root, rel=1e-12)


def test_comblints_bound_does_not_grow_with_infinitely_many_items():
    huge = comblints_bound(100, L=10**300, **SIZES)
    assert huge == comblints_bound(100, L=10**200, **SIZES)
    assert huge > comblints_bound(100, L=50, **SIZES)


def test_comblints_bound_where_the_logarithm_is_negative():
    assert comblints_bound(1, L=1, K=1, d=1, lam=1e-3, sigma=1.0) == 1.0


def test_feature_norm_rescales_the_prior():
    plain = {**SIZES, "lam": SIZES["lam"] * 3}
    assert comblints_bound(100, L=50, **SIZES, max_norm=3.0) == comblints_bound(100, L=50, **plain)
    assert comblinucb_bound(100, **SIZES, c=2.0, delta=0.1, max_norm=3.0) == comblinucb_bound(
        100, **plain, c=2.0, delta=0.1
    )
    # coefficients of M θ* under a prior of M λ: their ratio is what it was
    scaled = comblinucb_c(100, **SIZES, delta=0.1, theta_norm=1.0, max_norm=3.0)
    assert scaled == pytest.approx(comblinucb_c(100, **plain, delta=0.1, theta_norm=3.0), rel=1e-12)


def test_comblinucb_bound_and_its_gamma_variant():
    n, K, d, lam, sigma, c, delta, gamma = 100, 6, 4, 2.0, 0.5, 3.0, 0.01, 0.25
    root = math.sqrt(
        d * n * math.log(1 + n * K * lam**2 / (d * sigma**2)) / math.log(1 + lam**2 / sigma**2)
    )
    exact = comblinucb_bound(n, **SIZES, c=c, delta=delta)
    assert exact == pytest.approx(2 * c * K * lam * root + n * K * delta, rel=1e-12)
    approximate = comblinucb_bound(n, **SIZES, c=c, delta=delta, gamma=gamma)
    assert approximate == pytest.approx(
        2 * c * K * lam / (1 - gamma) * root + n * K * delta, rel=1e-12
    )


def test_smallest_c():
    n, K, d, lam, sigma, delta = 100, 6, 4, 2.0, 0.5, 0.01
    c = (
        math.sqrt(d * math.log(1 + n * K * lam**2 / (d * sigma**2)) + 2 * math.log(1 / delta))
        / sigma
        + 1.5 / lam
    )
    assert comblinucb_c(n, **SIZES, delta=delta, theta_norm=1.5) == pytest.approx(c, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"theta_norm": -1.0}, "theta_norm"),
        ({"lam": 0.0}, "lam"),
        ({"K": 0}, "K must be a whole number"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ParameterError, match=message):
        comblinucb_c(100, **{**SIZES, "delta": 0.1, "theta_norm": 1.0, **change})


def test_bad_parameters_of_the_bounds():
    with pytest.raises(ParameterError, match="gamma"):
        comblinucb_bound(100, **SIZES, c=1.0, delta=0.1, gamma=1.0)
    with pytest.raises(ParameterError, match="delta"):
        comblinucb_bound(100, **SIZES, c=1.0, delta=2.0)
    with pytest.raises(ParameterError, match="n must be"):
        comblints_bound(0, L=5, **SIZES)


def covered(learner, problem, world, n, seed):
    """Whether |φ_e·(θ̄_t - θ*)| <= c √(φ_eᵀΣ_tφ_e) for all items in all n episodes."""
    for step in episodes(learner, problem, world, rng=np.random.default_rng(seed), n=n):
        error = np.abs(problem.Phi @ gaussian.mean(step.belief) - world.mean)
        if (error > learner.c * gaussian.std(step.belief, problem.Phi)).any():
            return False
    return True


# The theorem allows one run in a thousand to leave its confidence set: 20 runs hold with
# probability 0.98 at least.
DELTA, N = 1e-3, 150


def test_comblinucb_covers_the_true_weights_and_keeps_its_bound_with_0_1_weights():
    instance = BernoulliLongestPath(m=3, d=4)
    sizes = {"K": 6, "d": 4, "lam": 1.0, "sigma": 1.0}
    c = comblinucb_c(N, **sizes, delta=DELTA, theta_norm=2.0)  # θ* in [0, 1]^4
    learner = CombLinUCB.from_theorem(
        lam=1.0, sigma=1.0, horizon=N, K=6, d=4, delta=DELTA, theta_norm=2.0
    )
    assert learner.c == c
    assert all(covered(learner, *instance(np.random.default_rng(i)), N, i) for i in range(20))
    trace = simulate(instance, [learner], episodes=N, replicates=20, progress=False)
    assert (
        trace.regret("CombLinUCB")[:, -1] <= comblinucb_bound(N, **sizes, c=c, delta=DELTA)
    ).all()


def gaussian_instance(rng):
    Phi = rng.standard_normal((40, 4))
    Phi /= np.linalg.norm(Phi, axis=1, keepdims=True)
    return Problem(Phi, TopK(6)), GaussianEnvironment.coherent(Phi, lam=1.0, sigma=1.0, rng=rng)


def test_comblinucb_covers_the_true_weights_and_keeps_its_bound_with_gaussian_noise():
    sizes = {"K": 6, "d": 4, "lam": 1.0, "sigma": 1.0}
    c = comblinucb_c(N, **sizes, delta=DELTA, theta_norm=4.5)  # P(‖N(0, I_4)‖ > 4.5) = 5e-4
    learner = CombLinUCB(lam=1.0, sigma=1.0, c=c)
    assert all(
        covered(learner, *gaussian_instance(np.random.default_rng(i)), N, i) for i in range(20)
    )
    trace = simulate(gaussian_instance, [learner], episodes=N, replicates=20, progress=False)
    assert (
        trace.regret("CombLinUCB")[:, -1] <= comblinucb_bound(N, **sizes, c=c, delta=DELTA)
    ).all()


def test_a_much_smaller_c_does_not_cover():
    learner = CombLinUCB(lam=1.0, sigma=1.0, c=0.5)
    assert not any(
        covered(learner, *gaussian_instance(np.random.default_rng(i)), N, i) for i in range(20)
    )


def test_comblints_keeps_its_bayes_bound():
    trace = simulate(
        gaussian_instance,
        [CombLinTS(lam=1.0, sigma=1.0)],
        episodes=N,
        replicates=20,
        progress=False,
    )
    assert trace.regret("CombLinTS")[:, -1].mean() <= comblints_bound(
        N, K=6, L=40, d=4, lam=1.0, sigma=1.0
    )

import numpy as np
import pytest

from superarm import BernoulliEnvironment, DriftingEnvironment, GaussianEnvironment
from superarm.errors import ParameterError, WeightsError


def moments(world, n=20_000):
    rng = np.random.default_rng(0)
    draws = np.stack([world.draw(rng) for _ in range(n)])
    return draws.mean(0), draws.var(0), n


def test_gaussian_moments():
    world = GaussianEnvironment(np.array([-1.0, 0.0, 5.0]), sigma=2.0)
    mean, variance, n = moments(world)
    assert (np.abs(mean - world.mean) < 4 * 2 / np.sqrt(n)).all()
    assert (np.abs(variance - 4) < 4 * 4 * np.sqrt(2 / n)).all()


def test_bernoulli_moments():
    world = BernoulliEnvironment(np.array([0.0, 0.2, 1.0]))
    mean, _, n = moments(world)
    assert mean[0] == 0
    assert mean[2] == 1
    assert abs(mean[1] - 0.2) < 4 * np.sqrt(0.16 / n)


def test_coherent_means_lie_in_the_span_with_the_priors_scale():
    Phi = np.random.default_rng(1).standard_normal((500, 2, 3))
    world = GaussianEnvironment.coherent(Phi, lam=7.0, sigma=1.0, rng=np.random.default_rng(2))
    assert world.mean.shape == (500, 2)
    # w̄(e) ~ N(0, 49 ‖φ_e‖²): 1,000 standardized values, standard error of their variance 0.045
    assert abs((world.mean / (7 * np.linalg.norm(Phi, axis=-1))).var() - 1) < 4 * np.sqrt(2 / 1000)
    tall = np.random.default_rng(3).standard_normal((9, 3))
    mean = GaussianEnvironment.coherent(tall, lam=7.0, sigma=1.0, rng=np.random.default_rng(4)).mean
    theta = np.linalg.lstsq(tall, mean)[0]
    np.testing.assert_allclose(tall @ theta, mean)


def test_bad_parameters():
    with pytest.raises(WeightsError, match="finite"):
        GaussianEnvironment(np.array([np.nan]), sigma=1.0)
    with pytest.raises(WeightsError, match="finite"):
        GaussianEnvironment(np.float64(1.0), sigma=1.0)
    with pytest.raises(ParameterError, match="sigma"):
        GaussianEnvironment(np.zeros(2), sigma=-1.0)
    with pytest.raises(ParameterError, match="lam"):
        GaussianEnvironment.coherent(np.eye(2), lam=0.0, sigma=1.0, rng=np.random.default_rng(0))
    for mean in ([0.5, 1.1], [-0.1, 0.5]):
        with pytest.raises(WeightsError, match=r"probabilities and must lie in \[0, 1\]"):
            BernoulliEnvironment(np.array(mean))


def test_a_drifting_environment_changes_from_episode_to_episode():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((30, 4))
    world = DriftingEnvironment.wandering(Phi, lam=2.0, sigma=0.5, drift=0.1, episodes=2000, rng=rng)
    np.testing.assert_allclose(world.at(7).mean, Phi @ world.theta[6])
    np.testing.assert_allclose(world.mean, world.at(1).mean)
    assert world.draw(np.random.default_rng(0)).shape == (30,)
    # stationary: always N(0, λ²I); a step is of size drift
    assert world.theta.std() == pytest.approx(2.0, rel=0.2)
    assert np.diff(world.theta, axis=0).std() == pytest.approx(2.0 * 0.1, rel=0.05)


def test_drifting_refusals():
    Phi, rng = np.eye(3), np.random.default_rng(0)
    world = DriftingEnvironment.wandering(Phi, lam=1.0, sigma=0.1, drift=0.0, episodes=5, rng=rng)
    np.testing.assert_array_equal(world.theta[0], world.theta[4])
    for t in (0, 6):
        with pytest.raises(ParameterError, match="known for episodes 1 to 5"):
            world.at(t)
    with pytest.raises(ParameterError, match=r"drift must lie in \[0, 1\]"):
        DriftingEnvironment.wandering(Phi, lam=1.0, sigma=0.1, drift=1.5, episodes=5, rng=rng)
    with pytest.raises(ParameterError, match="one row of 3 coefficients an episode"):
        DriftingEnvironment(Phi, np.ones((5, 2)), sigma=0.1)

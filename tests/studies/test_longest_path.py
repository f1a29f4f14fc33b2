import numpy as np

from superarm.studies.longest_path import BernoulliLongestPath, LongestPath


def test_the_default_is_the_papers():
    problem, world = LongestPath()(np.random.default_rng(0))
    assert (problem.L, problem.d, problem.oracle.K) == (1860, 200, 60)
    assert world.sigma == 1.0
    theta = np.linalg.lstsq(problem.Phi, world.mean)[0]
    np.testing.assert_allclose(problem.Phi @ theta, world.mean, atol=1e-8)
    # 200 coefficients of std 10: standard error of their std 0.5
    assert abs(theta.std() - 10) < 2
    assert abs(problem.Phi.std() - 1) < 0.01


def test_bernoulli_means_are_probabilities_and_norms_at_most_one():
    problem, world = BernoulliLongestPath(m=5, d=8)(np.random.default_rng(0))
    assert (np.linalg.norm(problem.Phi, axis=1) <= 1 + 1e-12).all()
    assert ((world.mean >= 0) & (world.mean <= 1)).all()
    theta = np.linalg.lstsq(problem.Phi, world.mean)[0]
    np.testing.assert_allclose(problem.Phi @ theta, world.mean, atol=1e-10)


def test_an_instance_is_a_function_of_the_generator():
    for instance in (LongestPath(m=3, d=2), BernoulliLongestPath(m=3, d=2)):
        (a, world_a), (b, world_b) = (instance(np.random.default_rng(5)) for _ in range(2))
        np.testing.assert_array_equal(a.Phi, b.Phi)
        np.testing.assert_array_equal(world_a.mean, world_b.mean)

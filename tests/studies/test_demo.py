import numpy as np

from superarm.studies.demo import BernoulliLongestPath


def test_bernoulli_means_are_probabilities_and_norms_at_most_one():
    problem, world = BernoulliLongestPath(m=5, d=8)(np.random.default_rng(0))
    assert (np.linalg.norm(problem.Phi, axis=1) <= 1 + 1e-12).all()
    assert ((world.mean >= 0) & (world.mean <= 1)).all()
    theta = np.linalg.lstsq(problem.Phi, world.mean)[0]
    np.testing.assert_allclose(problem.Phi @ theta, world.mean, atol=1e-10)


def test_an_instance_is_a_function_of_the_generator():
    instance = BernoulliLongestPath(m=3, d=2)
    (a, world_a), (b, world_b) = (instance(np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(a.Phi, b.Phi)
    np.testing.assert_array_equal(world_a.mean, world_b.mean)

import numpy as np
import pytest

from superarm.studies.ads import Ads, people


def test_features():
    Phi, female, mean = people()
    assert Phi.shape == (32_561, 10)
    assert (Phi[:, :7].sum(1) == 1).all()
    np.testing.assert_array_equal(Phi[:, 7], female)
    assert ((Phi >= 0) & (Phi <= 1)).all()
    assert set(np.unique(mean)) == {0.05, 0.15}
    # ties decide who is shown
    assert 300 < len(np.unique(Phi, axis=0)) < 500


def test_an_instance_shuffles_people_and_keeps_them_whole():
    Phi, _, mean = people()
    problem, world = Ads()(np.random.default_rng(0))
    assert not np.array_equal(Phi, problem.Phi)
    whole, shuffled = (
        sorted(map(tuple, np.column_stack(x))) for x in ((Phi, mean), (problem.Phi, world.mean))
    )
    assert whole == shuffled
    A = problem.oracle(world.mean)
    assert problem.Phi[A, 7].sum() == 50
    assert world.mean[A].sum() == pytest.approx(15.0)

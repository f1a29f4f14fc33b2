"""Draws by item: the same in any part of a catalogue, and as random as others."""

import numpy as np
import pytest
from scipy import stats

from superarm import CombGaussianTS, CombMixTS, CombTS, Feedback, Problem, RandomChoice, TopK
from superarm.arrays import Counter


def test_a_draw_depends_on_seed_and_item_alone():
    whole = Counter(3).item_normal((1000,))
    np.testing.assert_array_equal(Counter(3, items=600).item_normal((50,)), whole[600:650])
    some = np.array([7, 3, 999])
    np.testing.assert_array_equal(Counter(3, items=some).item_normal((3,)), whole[some])
    assert (Counter(4).item_normal((1000,)) != whole).all()
    again = Counter(3)
    np.testing.assert_array_equal(again.item_normal((1000,)), whole)
    assert (again.item_normal((1000,)) != whole).all()  # a second draw of the same items


def test_normals_are_normal_over_items_and_over_seeds():
    n = 1_000_000
    over_items = Counter(11).item_normal((n,))
    over_seeds = np.concatenate([Counter(seed).item_normal((100,)) for seed in range(10_000)])
    far = Counter(2**64 - 1, items=2**40).item_normal((n,))
    for z in (over_items, over_seeds, far):
        assert stats.kstest(z, "norm").pvalue > 0.01
        for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            assert abs((z**power).mean() - moment) < 4 * np.sqrt(variance / n)


def test_neighbours_are_independent():
    draws = np.stack([Counter(seed).item_normal((500_000,)) for seed in (0, 1, 2**32, 2**63)])
    z = draws[0]
    limit = 4 / np.sqrt(len(z))
    for a, b in (
        (z[1:], z[:-1]),
        (z[2:], z[:-2]),
        (np.abs(z[1:]), np.abs(z[:-1])),
        *zip(draws[1:], draws[:-1], strict=True),
    ):
        assert abs(np.corrcoef(a, b)[0, 1]) < limit


def test_betas_have_their_distribution():
    a, b = np.full(200_000, 2.5), np.full(200_000, 0.7)
    drawn = Counter(5).item_beta(a.shape, a, b)
    assert stats.kstest(drawn, stats.beta(2.5, 0.7).cdf).pvalue > 0.01


def test_what_is_of_no_item_is_drawn_in_sequence():
    np.testing.assert_array_equal(
        Counter(9).standard_normal(5), np.random.default_rng(9).standard_normal(5)
    )


@pytest.mark.parametrize(
    "learner",
    [
        CombMixTS(explore=1.0, lam=1.0, sigma=0.5, tau=0.5),
        CombMixTS(explore=0.3),
        CombMixTS(),
        CombGaussianTS(lam=1.0, sigma=0.5),
        CombTS(),
        RandomChoice(),
    ],
    ids=repr,
)
def test_parts_of_a_catalogue_weigh_their_items_as_the_whole_does(learner):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((90, 4))
    problem = Problem(Phi, TopK(3))
    belief = learner.model.prior(problem)
    feedback = Feedback.of(problem, np.arange(40), rng.random(40))
    belief = learner.model.learn(belief, problem, feedback)
    whole = learner.scores(belief, problem, Counter(8))
    for start, stop in ((0, 30), (30, 31), (31, 90)):
        items = np.arange(start, stop)
        part = problem._replace(Phi=Phi[items])
        some = learner.model.select_items(belief, items)
        weights = learner.scores(some, part, Counter(8, items=start))
        np.testing.assert_allclose(weights, whole[items], rtol=1e-13, atol=1e-15)


def test_many_decisions_have_a_counter_each():
    learner = CombMixTS(explore=1.0, lam=1.0, sigma=0.5, tau=0.5)
    Phi = np.random.default_rng(0).standard_normal((2, 20, 3))
    problem = Problem(Phi, TopK(3))
    belief = learner.model.prior(problem)
    both = learner.scores(belief, problem, [Counter(1), Counter(2)])
    for i, seed in enumerate((1, 2)):
        one = type(belief)(*(x[i] for x in belief))
        alone = learner.scores(one, Problem(Phi[i], TopK(3)), Counter(seed))
        np.testing.assert_allclose(both[i], alone, rtol=1e-13)

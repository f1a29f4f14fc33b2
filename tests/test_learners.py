import dataclasses

import numpy as np
import pytest

from reference import comb_lin_ucb
from superarm import (
    Agent,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombUCB1,
    GaussianEnvironment,
    Greedy,
    Knapsack,
    Problem,
    Quota,
    RandomChoice,
    SpanningTree,
    TopK,
    brute_force,
    episodes,
    gaussian,
    mean_se,
    simulate,
)
from superarm.beliefs.independent import Counts
from superarm.errors import ParameterError
from superarm.oracles.base import Masked
from superarm.studies.longest_path import LongestPath
from superarm.testing import check_learner
from support import LEARNERS, update


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_contract(learner):
    check_learner(learner)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_hyperparameters_are_frozen_keyword_only_and_positive(learner):
    names = [field.name for field in dataclasses.fields(learner)]
    for name in names:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(learner, name, 1.0)
        for bad in (-1.0, np.nan, np.inf, "wide"):
            with pytest.raises(ParameterError, match=f"{name} must"):
                dataclasses.replace(learner, **{name: bad})
    with pytest.raises(TypeError):
        type(learner)(*[1.0] * (len(names) + 1))


def test_default_longest_path_reproduces_the_papers_regret():
    trace = simulate(
        LongestPath(), [CombLinTS(lam=10.0, sigma=1.0)], episodes=150, replicates=24, progress=False
    )
    regret, se = mean_se(trace.regret("CombLinTS")[:, -1])
    assert abs(regret - 1.56e4) < 3 * se
    assert se < 650


def test_comblinucb_chooses_what_the_papers_loop_chooses():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((30, 5))
    world = GaussianEnvironment.coherent(Phi, lam=1.0, sigma=0.5, rng=rng)
    learner = CombLinUCB(lam=1.0, sigma=0.5, c=1.0)
    steps = list(
        episodes(learner, Problem(Phi, TopK(4)), world, rng=np.random.default_rng(1), n=40)
    )
    reference = comb_lin_ucb(Phi, TopK(4), 1.0, 0.5, 1.0, 40, lambda t: steps[t - 1].weights)
    for step, A in zip(steps, reference, strict=True):
        np.testing.assert_array_equal(step.A, A)


def test_comblints_scores_a_draw_from_the_belief():
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((6, 3)), TopK(2))
    learner = CombLinTS(lam=2.0, sigma=0.5)
    belief = update(
        learner, learner.model.prior(problem), problem, np.array([4, 1]), np.array([1.0, -2.0])
    )
    theta = gaussian.sample(belief, np.random.default_rng(5))
    np.testing.assert_allclose(
        learner.scores(belief, problem, np.random.default_rng(5)), problem.Phi @ theta
    )


def test_greedy_scores_the_mean():
    problem = Problem(np.eye(2), TopK(1))
    learner = Greedy(lam=1.0, sigma=1.0)
    belief = update(learner, learner.model.prior(problem), problem, np.array([1]), np.array([3.0]))
    np.testing.assert_allclose(
        learner.scores(belief, problem, np.random.default_rng(0)), [0.0, 1.5]
    )


def test_comb_gaussian_ts_is_comblints_with_one_feature_an_item():
    problem = Problem(np.eye(3), TopK(2))
    A, w = np.array([0, 2]), np.array([4.0, -1.0])
    itemwise, linear = CombGaussianTS(lam=2.0, sigma=0.5), CombLinTS(lam=2.0, sigma=0.5)
    counts = update(itemwise, itemwise.model.prior(problem), problem, A, w)
    belief = update(linear, linear.model.prior(problem), problem, A, w)
    draws = (
        itemwise.scores(counts, problem, np.random.default_rng(1)),
        linear.scores(belief, problem, np.random.default_rng(1)),
    )
    np.testing.assert_allclose(*draws, rtol=1e-12)


def test_comb_ucb1_radius():
    belief = Counts(n=np.array([2.0, 8.0]), weight_sums=np.array([1.0, 2.0]), t=np.array(7.0))
    w = CombUCB1(scale=3.0).scores(
        belief, Problem(np.zeros((2, 1)), TopK(1)), np.random.default_rng(0)
    )
    np.testing.assert_allclose(
        w, [0.5 + 3 * np.sqrt(1.5 * np.log(7) / 2), 0.25 + 3 * np.sqrt(1.5 * np.log(7) / 8)]
    )


def play(learner, problem, n):
    world = GaussianEnvironment(np.linspace(0, 1, problem.L), sigma=0.1)
    return [step.A for step in episodes(learner, problem, world, rng=np.random.default_rng(0), n=n)]


def test_comb_ucb1_first_observes_every_item():
    chosen = play(CombUCB1(), Problem(np.zeros((10, 1)), TopK(3)), 4)
    assert len(set(np.concatenate(chosen[:3]))) == 9
    assert set(np.concatenate(chosen)) == set(range(10))


def test_comb_ucb1_starts_once_no_feasible_set_brings_a_new_item():
    # item 4 is in no feasible set and item 3 only together with 0
    oracle = brute_force([[0, 3], [1], [2]])
    learner = CombUCB1()
    problem = Problem(np.zeros((5, 1)), oracle)
    chosen = [set(A[A >= 0].tolist()) for A in play(learner, problem, 30)]
    assert chosen[:3] == [{0, 3}, {1}, {2}]
    assert all({0, 3} == A for A in chosen[-3:])


def test_comb_ucb1_initializes_among_the_available_items():
    quota = Quota([0, 0, 0, 1, 1, 1], {0: 1, 1: 1})
    problem = Problem(
        np.zeros((6, 1)), Masked(quota, np.array([True, True, False, True, False, False]))
    )
    assert [A.tolist() for A in play(CombUCB1(), problem, 2)] == [[0, 3], [1, 3]]


def test_random_choice_spreads_evenly():
    chosen = np.concatenate(play(RandomChoice(), Problem(np.zeros((5, 1)), TopK(2)), 2000))
    share = np.bincount(chosen, minlength=5) / 2000
    # an item is chosen with probability 2/5: standard error 0.011
    assert (np.abs(share - 0.4) < 0.045).all()


@pytest.mark.parametrize("field", ["lam", "sigma"])
def test_a_scale_must_be_positive(field):
    for learner in (
        CombLinTS(),
        Greedy(),
        CombMixTS(),
        CombMixUCB(c=1.0),
        CombGaussianTS(lam=1.0, sigma=1.0),
    ):
        with pytest.raises(
            ParameterError, match=f"{field} must be a positive, finite number, got 0.0"
        ):
            dataclasses.replace(learner, **{field: 0.0})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CombLinTS(forgetting=0.0), r"forgetting must lie in \(0, 1\]"),
        (lambda: CombLinTS(forgetting=1.1), r"forgetting must lie in \(0, 1\]"),
        (lambda: CombLinTS(link="probit"), "link must be 'identity' or 'logit', got 'probit'"),
        (lambda: CombLinTS(lam=1.0, sigma=1.0, link="logit"), "the logit link has no sigma"),
        (lambda: CombMixTS(sigma=1.0, link="logit"), "the logit link has no sigma"),
        (lambda: CombMixTS(forgetting=0.0), r"forgetting must lie in \(0, 1\]"),
        (lambda: CombMixTS(tau=-0.1), "tau must be a positive, finite number, got -0.1"),
        (lambda: CombMixTS(explore=1.1), r"explore must lie in \[0, 1\], or be None"),
        (lambda: CombLinTS(sigma=1e200), "others must lie between 1e-100 and 1e100"),
        (
            lambda: CombMixTS(sigma="huge"),
            "sigma must be a positive number or \"auto\", got 'huge'",
        ),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_forgetting_is_importance_that_fades():
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((20, 4)), TopK(3))
    learner = CombLinTS(lam=2.0, sigma=0.5, forgetting=0.8)
    belief, feedback = learner.model.prior(problem), []
    for _ in range(6):
        feedback.append((rng.permutation(20)[:3], rng.standard_normal(3)))
        belief = update(learner, belief, problem, *feedback[-1])
    faded = gaussian.prior(4, 2.0)
    for s, (A, w) in enumerate(reversed(feedback)):
        faded = gaussian.condition(faded, problem.Phi[A], w, 0.5, importance=0.8**s)
    np.testing.assert_allclose(belief.factor, faded.factor, rtol=1e-12, atol=1e-12)
    # a density to the power of γˢ, where noise of std σ/√γˢ has a density of its own
    left = 0.8 ** np.arange(6)
    apart = 3 * (1 - left) * np.log(0.5 * np.sqrt(2 * np.pi)) - 1.5 * np.log(left)
    np.testing.assert_allclose(
        gaussian.log_evidence(belief), gaussian.log_evidence(faded) + apart.sum(), rtol=1e-12
    )


@pytest.mark.parametrize(
    "learner", [CombLinTS(lam=2.0, sigma=0.5, forgetting=0.9), CombLinTS(forgetting=0.9)], ids=repr
)
def test_idle_episodes_bring_the_prior_back(learner):
    problem = Problem(np.eye(3), TopK(2))
    belief = update(
        learner, learner.model.prior(problem), problem, np.array([0, 1]), np.array([1.0, -2.0])
    )
    lam = getattr(belief, "lam", 2.0)
    for _ in range(300):
        belief = update(learner, belief, problem, np.array([-1, -1]), np.zeros(2))
    np.testing.assert_allclose(gaussian.mean(belief), np.zeros(3), atol=1e-9)
    np.testing.assert_allclose(gaussian.std(belief, problem.Phi), np.full(3, lam), rtol=1e-9)


def test_logit_scores_are_probabilities():
    problem = Problem(np.array([[1.0], [-3.0]]), TopK(1))
    for learner in (CombLinTS(lam=2.0, link="logit"), Greedy(lam=2.0, link="logit")):
        belief = update(
            learner, learner.model.prior(problem), problem, np.array([0]), np.array([1.0])
        )
        w = learner.scores(belief, problem, np.random.default_rng(0))
        assert ((w > 0) & (w < 1)).all()
    mode = gaussian.mean(belief)[0]
    assert w[0] == pytest.approx(1 / (1 + np.exp(-mode)))
    upper = CombLinUCB(lam=2.0, link="logit", c=1.0).scores(
        belief, problem, np.random.default_rng(0)
    )
    width = gaussian.std(belief, problem.Phi)[0]
    assert upper[0] == pytest.approx(1 / (1 + np.exp(-mode - width)))


def test_scales_from_the_evidence_cost_little_where_the_true_ones_are_known():
    learners = {"known": CombLinTS(lam=10.0, sigma=1.0), "auto": CombLinTS(), "mixed": CombMixTS()}
    trace = simulate(LongestPath(), learners, episodes=150, replicates=8, workers=1, progress=False)
    regret = {name: trace.regret(name)[:, -1].mean() for name in learners}
    # over 200 replicates the ratios are 1.04 and 1.11; here each has a standard error of about 0.04
    assert regret["mixed"] <= 1.18 * regret["known"]
    assert regret["auto"] <= 1.28 * regret["known"]


def test_auto_does_not_mind_the_unit_of_weights_and_features():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((50, 4))
    world = GaussianEnvironment.coherent(Phi, lam=1.0, sigma=0.5, rng=rng)
    for learner in (CombLinTS(), CombMixTS()):
        chosen = []
        for unit in (1.0, 1e-6, 1e6):
            scaled = GaussianEnvironment(world.mean * unit, sigma=0.5 * unit)
            steps = episodes(
                learner, Problem(Phi * 1e3, TopK(5)), scaled, rng=np.random.default_rng(1), n=20
            )
            chosen.append([step.A.tolist() for step in steps])
        # equal but for rounding of the scales to three digits
        assert chosen[0][0] == chosen[1][0] == chosen[2][0]
        assert np.mean(np.equal(chosen[0][1:], chosen[1][1:])) > 0.5
        assert np.mean(np.equal(chosen[0][1:], chosen[2][1:])) > 0.5


@pytest.mark.parametrize("learner", LEARNERS[:3], ids=lambda learner: type(learner).__name__)
def test_a_batch_of_7_is_7_single_runs(learner):
    instances = [LongestPath(m=4, d=6)(np.random.default_rng(i)) for i in range(7)]
    problem = Problem(np.stack([p.Phi for p, _ in instances]), instances[0][0].oracle)
    world = GaussianEnvironment(np.stack([w.mean for _, w in instances]), sigma=1.0)
    seeds = np.random.SeedSequence(1).spawn(7)
    together = list(
        episodes(learner, problem, world, rng=[np.random.default_rng(s) for s in seeds], n=40)
    )
    for i, (single, environment) in enumerate(instances):
        alone = episodes(learner, single, environment, rng=np.random.default_rng(seeds[i]), n=40)
        for step, batch in zip(alone, together, strict=True):
            np.testing.assert_array_equal(step.A, batch.A[i])
            np.testing.assert_allclose(
                step.belief.factor, batch.belief.factor[i], rtol=1e-12, atol=1e-12
            )


def chosen_in(learner, Phi, mean, draw, n):
    """The best single item by the learner's weights, in n episodes of a batch: (n, B)."""
    problem = Problem(Phi, TopK(1))
    rng, world = np.random.default_rng(1), np.random.default_rng(2)
    belief = learner.model.prior(problem)
    chosen = []
    for _ in range(n):
        A = learner.scores(belief, problem, rng).argmax(-1)[:, None]
        w = draw(world, np.take_along_axis(mean, A, axis=-1))
        belief = update(learner, belief, problem, A, w)
        chosen.append(A[:, 0])
    return np.array(chosen)


def gaussian_noise(rng, mean):
    return mean + rng.standard_normal(mean.shape)


def clicks(rng, mean):
    return (rng.random(mean.shape) < mean).astype(float)


@pytest.mark.parametrize(("draw", "allowed"), [(gaussian_noise, 0), (clicks, 2)])
def test_mixed_learners_do_not_settle_for_less_than_the_best(draw, allowed):
    """None of 12 runs over 30 items is stuck: one that gives 80 % of its last quarter to one item
    and there loses more than 10 % of what choosing at random would.

    The model of Gaussian deviations does not describe rates of clicks: their largest are further
    from the rest than it expects. Over four seeds 6 of 48 such runs are stuck.
    """
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((12, 30, 3))
    score = (Phi @ rng.standard_normal((12, 3, 1)))[..., 0]
    score = 0.7 * score / score.std(-1, keepdims=True) + 0.7 * rng.standard_normal((12, 30))
    mean = score if draw is gaussian_noise else 1 / (1 + np.exp(1.5 - score))
    A = chosen_in(CombMixTS(), Phi, mean, draw, 2000)[1500:]
    regret = mean.max(-1) - np.take_along_axis(mean, A.T, axis=-1).mean(-1)
    at_random = mean.max(-1) - mean.mean(-1)
    favourite = np.array([np.bincount(run).max() for run in A.T])
    stuck = (regret > 0.1 * at_random) & (favourite >= 0.8 * len(A))
    assert stuck.sum() <= allowed


@pytest.mark.parametrize("draw", [gaussian_noise, clicks])
def test_upper_bounds_at_scales_of_their_own_choosing_reach_the_items(draw):
    mean = np.random.default_rng(0).random((1, 50))
    A = chosen_in(CombLinUCB(c=1.0), np.eye(50)[None], mean, draw, 2000)
    assert len(np.unique(A)) >= 30


@pytest.mark.parametrize("learner", [Greedy(), Greedy(lam=1.0, sigma=1.0)], ids=repr)
@pytest.mark.parametrize(
    ("oracle", "items"),
    [(Knapsack(np.ones(6), 2.0), 6), (SpanningTree([(0, 1), (1, 2), (0, 2)], forest=True), 3)],
)
def test_greedy_begins_where_nothing_may_be_chosen(learner, oracle, items):
    agent = Agent(learner, features=np.eye(items), oracle=oracle, seed=0)
    for _ in range(20):
        chosen = agent.choose()
        agent.observe(chosen, np.ones(len(chosen)))
    assert len(agent.choose()) == 2

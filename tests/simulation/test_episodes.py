import copy
import dataclasses
import itertools

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from superarm import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    ContextualEnvironment,
    GaussianEnvironment,
    Greedy,
    Problem,
    RandomChoice,
    TopK,
    episodes,
    mean_se,
    simulate,
)
from superarm.arrays import Product
from superarm.contexts import Outer
from superarm.errors import FeaturesError, ParameterError, WeightsError
from support import ARRAYS, SMALL, TIMES, TS, assert_same, peak_memory, update


def test_episodes_can_be_stepped_through_by_hand():
    problem, world = SMALL(np.random.default_rng(0))
    steps = episodes(TS, problem, world, rng=np.random.default_rng(1))
    first, second = next(steps), next(steps)
    assert (first.t, second.t) == (1, 2)
    np.testing.assert_array_equal(first.w, first.weights[first.A])
    again = update(TS, first.belief, problem, second.A, second.w)
    np.testing.assert_array_equal(again.factor, second.belief.factor)
    assert len(list(itertools.islice(steps, 5))) == 5


def test_learners_with_equal_generators_meet_the_same_weights():
    problem, world = SMALL(np.random.default_rng(0))
    a, b = (
        list(episodes(x, problem, world, rng=np.random.default_rng(1), n=5))
        for x in (TS, RandomChoice())
    )
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x.weights, y.weights)


def test_episodes_refuses_an_environment_of_other_size():
    problem, world = SMALL(np.random.default_rng(0))
    with pytest.raises(
        ParameterError,
        match=r"mean weights of shape \(3,\), the problem's features ask for \(24,\)",
    ):
        next(episodes(TS, problem, BernoulliEnvironment(np.zeros(3)), rng=np.random.default_rng(0)))
    with pytest.raises(FeaturesError, match="finite"):
        next(
            episodes(
                TS, problem._replace(Phi=problem.Phi * np.nan), world, rng=np.random.default_rng(0)
            )
        )


def test_environments_and_instances_are_checked():
    class Wrong(BernoulliEnvironment):
        def sample(self, rng):
            return np.zeros(7)

    problem = Problem(np.eye(3), TopK(1))
    with pytest.raises(WeightsError, match=r"drew weights of shape \(7,\), not \(3,\)"):
        next(episodes(TS, problem, Wrong(np.zeros(3)), rng=np.random.default_rng(0)))
    with pytest.raises(ParameterError, match="n must be"):
        next(
            episodes(
                TS, problem, BernoulliEnvironment(np.zeros(3)), rng=np.random.default_rng(0), n=-1
            )
        )

    def batch(rng):
        return Problem(np.zeros((2, 3, 1)), TopK(1)), BernoulliEnvironment(np.zeros((2, 3)))

    with pytest.raises(ParameterError, match=r"one problem per replicate, got a batch \(2,\)"):
        simulate(batch, [TS], episodes=1, replicates=1, progress=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Users:
    """Top 3 of 30 items for users of three features: from outside, or chosen from 16 by an
    adversary."""

    adversary: bool = False
    formed: bool = False
    link: str = "identity"

    def __call__(self, rng):
        items, candidates = rng.standard_normal((30, 3)), rng.standard_normal((16, 3))
        theta, arriving = rng.standard_normal(9), candidates[rng.integers(16, size=300)]
        outer = Outer(items)
        given = {
            "features_of": (lambda x: np.asarray(outer(x))) if self.formed else outer,
            "link": self.link,
        }
        sigma = 0.5 if self.link == "identity" else None
        world = ContextualEnvironment(
            candidates if self.adversary else arriving, theta, sigma=sigma, **given
        )
        problem = Problem(world.at(1).features, TopK(3))
        return problem, AdversarialEnvironment(world, oracle=TopK(3)) if self.adversary else world


LINEAR = {
    "ts": CombLinTS(lam=1.0, sigma=0.5),
    "ucb": CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
    "greedy": Greedy(lam=1.0, sigma=0.5),
}
OPTIONS = {
    "auto": CombLinTS(),
    "forgetting": CombLinTS(lam=1.0, sigma=0.5, forgetting=0.9),
    "auto, forgetting": Greedy(forgetting=0.9),
    "ucb, auto": CombLinUCB(c=1.0),
    "ucb, forgetting": CombLinUCB(lam=1.0, sigma=0.5, c=1.0, forgetting=0.9),
}
CLICKS = {
    "logit": CombLinTS(lam=1.0, link="logit"),
    "logit, forgetting": CombLinUCB(lam=1.0, c=1.0, link="logit", forgetting=0.9),
    "greedy": Greedy(lam=1.0, link="logit"),
    "itemwise": CombTS(),
    "itemwise, ucb": CombUCB1(),
}


def play(instance, learners, n, replicates):
    return simulate(instance, learners, episodes=n, replicates=replicates, seed=1, progress=False)


def test_a_learner_chooses_and_learns_with_the_features_of_the_episode():
    class World:
        def at(self, t, choose):
            return GaussianEnvironment(t * np.arange(4.0), sigma=0.1, features=t * np.eye(4))

    problem, learner = Problem(np.eye(4), TopK(2)), CombLinUCB(lam=1.0, sigma=0.1, c=1.0)
    belief = learner.model.prior(problem)
    for step in episodes(learner, problem, World(), rng=np.random.default_rng(0), n=6):
        today = problem._replace(Phi=step.t * np.eye(4))
        np.testing.assert_array_equal(step.A, problem.oracle(learner.scores(belief, today, None)))
        belief = update(learner, belief, today, step.A, step.w)
        np.testing.assert_array_equal(belief.factor, step.belief.factor)


@pytest.mark.parametrize("adversary", [False, True])
@pytest.mark.parametrize(("link", "learners"), [("identity", LINEAR | OPTIONS), ("logit", CLICKS)])
def test_contexts_as_products_and_formed_give_the_same_trace(adversary, link, learners):
    product, formed = (
        play(Users(adversary=adversary, formed=f, link=link), learners, 25, 2)
        for f in (False, True)
    )
    for name in ARRAYS:
        np.testing.assert_allclose(
            getattr(product, name), getattr(formed, name), rtol=1e-9, atol=1e-9
        )


def test_features_that_are_products_are_not_formed():
    rng = np.random.default_rng(0)
    items, users, theta = (
        rng.standard_normal((20_000, 4)),
        rng.standard_normal((3, 50)),
        rng.standard_normal(200),
    )
    world = ContextualEnvironment(users, theta, sigma=0.5, features_of=Outer(items))
    problem = Problem(world.at(1).features, TopK(3))

    def peak(learner, here):
        return peak_memory(lambda: list(episodes(learner, problem, here, rng=rng, n=3)))

    for learner in (LINEAR["ts"], LINEAR["ucb"]):
        for here in (world, AdversarialEnvironment(world, oracle=TopK(3))):
            assert peak(learner, here) < 8 * 20_000 * 200 / 2


@pytest.mark.parametrize("adversary", [False, True])
def test_regret_in_contexts_is_against_the_best_set_of_the_learners_own_episode(adversary):
    trace = play(Users(adversary=adversary), LINEAR, 15, 1)
    rng = np.random.default_rng(np.random.SeedSequence(1).spawn(1)[0])
    problem, world = Users(adversary=adversary)(rng)
    for j, learner in enumerate(LINEAR.values()):
        for step in episodes(learner, problem, world, rng=copy.deepcopy(rng), n=15):
            best = np.argsort(-step.mean)[:3]
            at = j, 0, step.t - 1
            np.testing.assert_allclose(trace.oracle_expected[at], step.mean[best].sum())
            np.testing.assert_allclose(trace.optimum_expected[at], step.mean[best].sum())
            np.testing.assert_allclose(trace.oracle_realized[at], step.weights[best].sum())
            np.testing.assert_allclose(trace.expected[at], step.mean[step.A].sum())
    same = (trace.oracle_expected == trace.oracle_expected[0]).all()
    assert same != adversary
    assert trace.first(1).per_step_optimum("ucb").shape == (1, 15)


def test_an_adversary_without_a_choice_leaves_the_trace_as_it_is():
    def instance(rng, adversary):
        Phi = rng.standard_normal((10, 3))
        world = ContextualEnvironment(
            [Phi] if adversary else lambda t: Phi, rng.standard_normal(3), sigma=0.5
        )
        return Problem(Phi, TopK(2)), AdversarialEnvironment(
            world, oracle=TopK(2)
        ) if adversary else world

    worlds = [lambda rng, a=a: instance(rng, a) for a in (False, True)]
    assert_same(*(play(world, [*LINEAR.values(), RandomChoice()], 20, 2) for world in worlds))


def test_learning_goes_from_context_to_context_where_itemwise_learning_does_not():
    trace = play(
        Users(), {"linear": LINEAR["ts"], "itemwise": CombGaussianTS(lam=2.0, sigma=2.0)}, 150, 20
    )
    linear, itemwise = trace.regret("linear"), trace.regret("itemwise")
    less, se = mean_se(0.1 * linear[:, 49] - (linear[:, 149] - linear[:, 99]))
    assert less > 3 * se
    more, se = mean_se((itemwise[:, 149] - itemwise[:, 99]) - 0.5 * itemwise[:, 49])
    assert more > 3 * se


def test_the_adversary_hurts_and_is_learned_from():
    learners = {name: LINEAR[name] for name in ("ts", "ucb")}
    replicates = 24 * TIMES
    exogenous = play(Users(adversary=False), learners, 40, replicates)
    against = play(Users(adversary=True), learners, 40, replicates)
    for name in learners:
        regret = against.regret(name)
        more, se = mean_se(regret[:, -1] - exogenous.regret(name)[:, -1])
        assert more > 3 * se
        less, se = mean_se(0.2 * regret[:, 19] - (regret[:, 39] - regret[:, 19]))
        assert less > 3 * se


@pytest.mark.parametrize("adversary", [False, True])
@pytest.mark.parametrize("learner", [*LINEAR.values(), *OPTIONS.values(), RandomChoice()], ids=repr)
@threadpool_limits.wrap(limits=1)  # threads cost more than they save on arrays this small
def test_a_batch_plays_in_contexts_as_its_entries_do(adversary, learner):
    n, L = 3, 12
    rng = np.random.default_rng(0)
    items, theta, users = (
        rng.standard_normal((L, 2)),
        rng.standard_normal((n, 4)),
        rng.standard_normal((n, 10, 2)),
    )

    def world(theta, contexts):
        given = ContextualEnvironment(contexts, theta, sigma=0.5)
        world = AdversarialEnvironment(given, oracle=TopK(3)) if adversary else given
        return Problem(contexts[0], TopK(3)), world

    outer = Outer(items)
    alone = [[outer(x) for x in users[i]] for i in range(n)]
    together = [Product(items, np.stack([alone[i][t].right for i in range(n)])) for t in range(10)]
    seeds = np.random.SeedSequence(0).spawn(n)
    batch = list(
        episodes(
            learner, *world(theta, together), rng=[np.random.default_rng(s) for s in seeds], n=10
        )
    )
    for i in range(n):
        single = episodes(
            learner, *world(theta[i], alone[i]), rng=np.random.default_rng(seeds[i]), n=10
        )
        for step, steps in zip(single, batch, strict=True):
            np.testing.assert_array_equal(step.A, steps.A[i])
            np.testing.assert_allclose(step.w, steps.w[i])
            np.testing.assert_allclose(step.mean, steps.mean[i])


@pytest.mark.parametrize("adversary", [False, True])
@pytest.mark.parametrize("learner", [CombMixTS(), CombMixUCB(c=1.0)], ids=repr)
def test_learners_of_deviations_need_features_that_stay(learner, adversary):
    message = (
        rf"{type(learner).__name__} learns how items deviate .*: the features must stay the same"
    )
    with pytest.raises(FeaturesError, match=message):
        play(Users(adversary=adversary), [learner], 2, 1)


def test_bad_contexts_are_refused():
    problem, rng = Problem(np.eye(3), TopK(1)), np.random.default_rng(0)
    for features, message in (
        (np.eye(4), r"features must have shape \(3, 3\) \(items, features\), got \(4, 4\)"),
        (np.full((3, 3), np.nan), "features must be finite: feature 0 of item 0 is nan"),
        (Product(np.eye(3), np.full((3, 3), np.inf)), "features must be finite"),
    ):
        with pytest.raises(FeaturesError, match=message):
            next(
                episodes(
                    TS,
                    problem,
                    GaussianEnvironment(np.zeros(3), sigma=1.0, features=features),
                    rng=rng,
                )
            )
    few = ContextualEnvironment([np.eye(3)] * 2, np.ones(3), sigma=1.0)
    with pytest.raises(ParameterError, match="contexts are given for episodes 1 to 2, not 3"):
        list(episodes(TS, problem, few, rng=rng, n=3))
    other = ContextualEnvironment([np.ones((5, 3))], np.ones(3), sigma=1.0)
    with pytest.raises(FeaturesError, match=r"must have shape \(3, 3\)"):
        next(episodes(TS, problem, other, rng=rng))


def test_what_is_no_world_or_environment_is_refused():
    problem, _ = SMALL(np.random.default_rng(0))

    class Featureless:
        mean = np.zeros(24)

        def at(self, t, choose):
            return self

        def sample(self, rng):
            return self.mean

    for world in (BernoulliEnvironment, object(), lambda t: None):
        with pytest.raises(
            ParameterError, match=r"a world is needed, with a method at\(t, choose\)"
        ):
            next(episodes(TS, problem, world, rng=np.random.default_rng(0)))
    with pytest.raises(ParameterError, match=r"Featureless object .* has no features"):
        next(episodes(TS, problem, Featureless(), rng=np.random.default_rng(0)))

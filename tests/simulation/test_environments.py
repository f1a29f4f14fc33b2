import numpy as np
import pandas as pd
import pytest

from superarm import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    GaussianEnvironment,
    TopK,
)
from superarm.arrays import Product
from superarm.contexts import Concatenated, Outer
from superarm.errors import FeaturesError, ParameterError, WeightsError


def moments(world, n=20_000):
    rng = np.random.default_rng(0)
    draws = np.stack([world.sample(rng) for _ in range(n)])
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
    world = DriftingEnvironment.wandering(
        Phi, lam=2.0, sigma=0.5, drift=0.1, episodes=2000, rng=rng
    )
    np.testing.assert_allclose(world.at(7).mean, Phi @ world.theta[6])
    # stationary: always N(0, λ²I); a step is of size drift
    assert world.theta.std() == pytest.approx(2.0, rel=0.2)
    assert np.diff(world.theta, axis=0).std() == pytest.approx(2.0 * 0.1, rel=0.05)


def test_drifting_refusals():
    Phi, rng = np.eye(3), np.random.default_rng(0)
    world = DriftingEnvironment.wandering(Phi, lam=1.0, sigma=0.1, drift=0.0, episodes=5, rng=rng)
    np.testing.assert_array_equal(world.theta[0], world.theta[4])
    for t in (0, 6):
        with pytest.raises(ParameterError, match="coefficients for episodes 1 to 5"):
            world.at(t)
    with pytest.raises(ParameterError, match=r"drift must lie in \[0, 1\]"):
        DriftingEnvironment.wandering(Phi, lam=1.0, sigma=0.1, drift=1.5, episodes=5, rng=rng)
    with pytest.raises(ParameterError, match="one row of 3 coefficients per episode"):
        DriftingEnvironment(Phi, np.ones((5, 2)), sigma=0.1)


ITEMS = np.random.default_rng(0).standard_normal((6, 2))
USERS = np.random.default_rng(1).standard_normal((5, 3))
THETA = np.random.default_rng(2).standard_normal(6)
FORMED = [np.asarray(Outer(ITEMS)(x)) for x in USERS]


def test_the_weights_of_a_context_are_those_of_its_features():
    worlds = [
        ContextualEnvironment(USERS, THETA, sigma=2.0, features_of=Outer(ITEMS)),
        ContextualEnvironment(FORMED, THETA, sigma=2.0),
        ContextualEnvironment(np.stack(FORMED), THETA, sigma=2.0),
        ContextualEnvironment(lambda t: USERS[t - 1], THETA, sigma=2.0, features_of=Outer(ITEMS)),
        ContextualEnvironment(lambda t: FORMED[t - 1].tolist(), THETA, sigma=2.0),
    ]
    for world in worlds:
        for t in (1, 4):
            np.testing.assert_allclose(world.at(t).mean, FORMED[t - 1] @ THETA)
            np.testing.assert_allclose(np.asarray(world.at(t).features), FORMED[t - 1])
    assert isinstance(worlds[0].at(1).features, Product)
    mean, variance, n = moments(worlds[0].at(2))
    assert (np.abs(mean - FORMED[1] @ THETA) < 4 * 2 / np.sqrt(n)).all()
    assert (np.abs(variance - 4) < 4 * 4 * np.sqrt(2 / n)).all()


def test_clicks_in_a_context_have_linear_log_odds():
    now = ContextualEnvironment(USERS, THETA, link="logit", features_of=Outer(ITEMS)).at(3)
    np.testing.assert_allclose(np.log(now.mean / (1 - now.mean)), FORMED[2] @ THETA)
    assert set(now.sample(np.random.default_rng(0))) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("contexts", "settings", "error", "message"),
    [
        (
            USERS,
            {"theta": [np.nan] * 6},
            ParameterError,
            "theta must be finite numbers, one per feature",
        ),
        (USERS, {"theta": "abc"}, ParameterError, "theta must be numbers, one per feature"),
        (
            USERS,
            {"sigma": -1.0},
            ParameterError,
            "sigma must be a finite number, 0 or more, got -1.0",
        ),
        (
            USERS,
            {"sigma": None},
            ParameterError,
            "sigma must be a finite number, 0 or more, got None",
        ),
        (USERS, {"link": "logit"}, ParameterError, "the logit link needs no sigma"),
        (
            USERS,
            {"link": "probit"},
            ParameterError,
            "link must be 'identity' or 'logit', got 'probit'",
        ),
        (
            [],
            {},
            ParameterError,
            "contexts must be a sequence, one per episode, or a function of the episode",
        ),
        (
            iter(USERS),
            {},
            ParameterError,
            "contexts must be a sequence, one per episode, or a function of the episode",
        ),
    ],
)
def test_contextual_refusals(contexts, settings, error, message):
    given = {"theta": THETA, "sigma": 1.0, "features_of": Outer(ITEMS), **settings}
    with pytest.raises(error, match=message):
        ContextualEnvironment(contexts, **given)


@pytest.mark.parametrize(
    ("contexts", "features_of", "message"),
    [
        (
            [np.eye(6), np.full((6, 6), np.inf)],
            None,
            "context of episode 2: .*feature 0 of item 0 is inf",
        ),
        ([np.eye(6), [[1.0, 2.0], [3.0]]], None, "context of episode 2: features must be numbers"),
        (
            [np.eye(6), np.eye(5)],
            None,
            r"episode 2 has features of shape \(5, 5\), theta asks for \('L', 6\)",
        ),
        (
            USERS,
            Concatenated(ITEMS),
            r"episode 2 has features of shape \(6, 5\), theta asks for \('L', 6\)",
        ),
        (
            USERS[:, :, None],
            Outer(ITEMS),
            "context of episode 2 has features of shape",
        ),
    ],
)
def test_a_bad_context_is_named(contexts, features_of, message):
    world = ContextualEnvironment(contexts, THETA, sigma=1.0, features_of=features_of)
    with pytest.raises(FeaturesError, match=message):
        world.at(2)


def test_contexts_that_run_out():
    world = ContextualEnvironment(USERS, THETA, sigma=1.0, features_of=Outer(ITEMS))
    for t in (0, 6):
        with pytest.raises(
            ParameterError,
            match=f"for episodes 1 to 5, not {t}: give more, or a function of the epi",
        ):
            world.at(t)


def adversary(contexts=FORMED, theta=THETA, features_of=None, **settings):
    candidates = ContextualEnvironment(contexts, theta, sigma=1.0, features_of=features_of)
    return AdversarialEnvironment(candidates, **{"oracle": TopK(2), **settings})


def losses(A, theta=THETA):
    """What the set A loses in each context."""
    means = [Phi @ theta for Phi in FORMED]
    return [np.sort(mean)[-2:].sum() - mean[A].sum() for mean in means]


def test_the_adversary_shows_the_context_in_which_most_is_lost():
    for A in ([0, 1], [4, 2], [5, 3]):
        shown = adversary().at(1, lambda Phi, A=A: np.array(A))
        np.testing.assert_array_equal(shown.features, FORMED[int(np.argmax(losses(A)))])
        np.testing.assert_allclose(shown.mean, shown.features @ THETA)
    best = adversary().at(1, lambda Phi: TopK(2)(Phi @ THETA))
    np.testing.assert_array_equal(best.features, FORMED[0])  # nothing is lost in any


def test_the_adversary_averages_what_it_sees():
    answers = [[0, 1], [4, 2], [5, 3]]
    coin = iter(answers * len(FORMED))
    shown = adversary(draws=3).at(1, lambda Phi: np.array(next(coin)))
    most = np.argmax(np.mean([losses(A) for A in answers], axis=0))
    np.testing.assert_array_equal(shown.features, FORMED[int(most)])
    assert next(coin, None) is None


@pytest.mark.parametrize("formed", [True, False])
def test_the_adversary_chooses_a_context_for_each_entry_of_a_batch(formed):
    theta = np.random.default_rng(3).standard_normal((4, 6))
    A = np.array([[0, 1], [4, 2], [5, 3], [1, -1]])
    rights = [np.broadcast_to(np.kron(x, np.eye(2)), (4, 2, 6)) for x in USERS]
    products = [Product(ITEMS, right) for right in rights]
    world = adversary([np.asarray(p) for p in products] if formed else products, theta)
    shown = world.at(1, lambda Phi: A)
    assert isinstance(shown.features, np.ndarray if formed else Product)
    which = [int(np.argmax(losses(a[a >= 0], th))) for a, th in zip(A, theta, strict=True)]
    assert len(set(which)) > 1
    np.testing.assert_allclose(np.asarray(shown.features), [FORMED[c] for c in which])
    np.testing.assert_allclose(
        shown.mean, [FORMED[c] @ th for c, th in zip(which, theta, strict=True)]
    )


def test_adversarial_refusals():
    with pytest.raises(ParameterError, match="draws must be a whole number of at least 1"):
        adversary(draws=0)
    with pytest.raises(ParameterError, match="a ContextualEnvironment with a sequence of contexts"):
        adversary(lambda t: FORMED[0])
    with pytest.raises(ParameterError, match="a ContextualEnvironment with a sequence of contexts"):
        AdversarialEnvironment(FORMED, oracle=TopK(2))
    with pytest.raises(FeaturesError, match="context of episode 1"):
        adversary([np.eye(5)]).at(1, lambda Phi: np.array([0, 1]))


def test_the_rows_of_a_data_frame_are_contexts():
    users = pd.DataFrame([[1.0, 2.0], [30.0, 40.0]])
    world = ContextualEnvironment(users, np.ones(2), sigma=0.1, features_of=Outer(np.ones((3, 1))))
    np.testing.assert_array_equal(np.asarray(world.at(2).features), [[30.0, 40.0]] * 3)


def test_a_drifting_world_refuses_what_others_do():
    with pytest.raises(ParameterError, match="sigma must be"):
        DriftingEnvironment(np.eye(2), np.ones((3, 2)), sigma=-1.0)
    with pytest.raises(ParameterError, match="theta must be finite"):
        DriftingEnvironment(np.eye(2), np.full((3, 2), np.nan), sigma=1.0)


def test_environments_that_draw_alike_differ_in_means_and_features_alone():
    first = GaussianEnvironment(np.zeros(3), sigma=0.5)
    other = GaussianEnvironment(np.ones(3), sigma=0.5, features=np.eye(3))
    assert first.draws_alike([other])
    assert not first.draws_alike([other, GaussianEnvironment(np.zeros(3), sigma=0.1)])
    assert not first.draws_alike([BernoulliEnvironment(np.zeros(3))])
    batch = first.with_means(np.zeros((2, 3)), None)
    assert (batch.sigma, batch.mean.shape) == (0.5, (2, 3))

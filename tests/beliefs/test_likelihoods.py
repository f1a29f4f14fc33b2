import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from superarm import (
    Feedback,
    Problem,
    TopK,
    gaussian,
)
from superarm.beliefs.cached_std import CachedStdModel
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.likelihoods import Bernoulli, GaussianTargets, Likelihood
from superarm.beliefs.linear import LinearModel
from superarm.beliefs.random_effects import RandomEffectsModel
from superarm.errors import NumericalError, ParameterError, WeightsError
from support import TIMES


def clicks(seed, n, d, lam, size=1.0):
    rng = np.random.default_rng(seed)
    phi = size * rng.standard_normal((n, d))
    theta = lam * rng.standard_normal(d)
    return phi, (rng.random(n) < expit(phi @ theta)).astype(float), theta


def condition(belief, phi, w, importance=1.0):
    feedback = Feedback(np.full(w.shape, -1), phi, w, importance)
    return Bernoulli().condition(belief, feedback)


def minus_log_posterior(phi, w, lam, importance=1.0):
    def value(theta):
        eta = phi @ theta
        return -(
            importance * (w * log_expit(eta) + (1 - w) * log_expit(-eta))
        ).sum() + theta @ theta / (2 * lam**2)

    def gradient(theta):
        return phi.T @ (importance * (expit(phi @ theta) - w)) + theta / lam**2

    return value, gradient


def moments(phi, w, lam):
    """Mean and std of a single coefficient, by adaptive quadrature."""
    value, gradient = minus_log_posterior(phi, w, lam)
    mode = minimize(value, np.zeros(1), jac=gradient, method="BFGS").x
    least = value(mode)
    grid = np.linspace(-10 * lam, 10 * lam, 20_001)
    inside = grid[[value(np.array([x])) < least + 50 for x in grid]]

    def moment(power, centre):
        return quad(
            lambda x: (x - centre) ** power * np.exp(least - value(np.array([x]))),
            inside[0],
            inside[-1],
            points=[mode[0]],
            limit=200,
        )[0]

    mass = moment(0, 0.0)
    mean = mode[0] + moment(1, mode[0]) / mass
    return mean, np.sqrt(moment(2, mean) / mass)


@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("n", "size"), [(1, 1.0), (5, 1.0), (60, 0.3), (100, 1.0)])
def test_mean_and_std_are_those_of_the_integral(lam, n, size):
    """Within 8 % of a standard deviation."""
    phi, w, _ = clicks(0, n, 1, lam, size)
    belief = condition(gaussian.prior(1, lam), phi, w)
    mean, std = moments(phi, w, lam)
    assert gaussian.mean(belief)[0] == pytest.approx(mean, abs=0.08 * std)
    assert gaussian.std(belief, np.eye(1))[0] == pytest.approx(std, rel=0.08)


def test_separable_clicks_and_a_wide_prior():
    """All clicks agree, and the prior hardly holds back: the posterior is skewed, half of a
    Gaussian, and its approximation within a third of a standard deviation."""
    phi = np.array([[5.0], [3.0], [-4.0], [6.0]])
    w = np.array([1.0, 1.0, 0.0, 1.0])
    belief = condition(gaussian.prior(1, 50.0), phi, w)
    mean, std = moments(phi, w, 50.0)
    assert gaussian.mean(belief)[0] == pytest.approx(mean, abs=0.33 * std)
    assert gaussian.std(belief, np.eye(1))[0] == pytest.approx(std, rel=0.33)


def test_a_strong_belief_that_is_wrong_is_corrected():
    start = gaussian.condition(gaussian.prior(1, 100.0), np.ones((1, 1)), np.array([-30.0]), 2.0)
    belief = condition(start, np.ones((40, 1)), np.ones(40))
    assert gaussian.mean(belief)[0] > 0


def test_shares_of_throws_are_binomial():
    phi, _, _ = clicks(1, 6, 2, 1.0)
    wins, throws = np.array([3, 0, 5, 1, 2, 4]), np.array([5, 2, 5, 9, 4, 4])
    start = gaussian.prior(2, 1.5)
    shares = condition(start, phi, wins / throws, importance=throws.astype(float))
    single = np.concatenate([np.arange(n) < k for k, n in zip(wins, throws, strict=True)]).astype(
        float
    )
    throws_apart = condition(start, np.repeat(phi, throws, axis=0), single)
    # a share is matched as a whole, and throws one by one: the approximations differ
    width = gaussian.std(throws_apart, np.eye(2))
    off = np.abs(gaussian.mean(shares) - gaussian.mean(throws_apart))
    assert (off < 0.03 * width).all()
    np.testing.assert_allclose(gaussian.std(shares, np.eye(2)), width, rtol=0.03)
    assert gaussian.log_evidence(shares) == pytest.approx(
        gaussian.log_evidence(throws_apart), abs=0.02
    )


def test_evidence_is_that_of_the_integral():
    phi, w, _ = clicks(2, 60, 1, 1.0)
    value, _ = minus_log_posterior(phi, w, 1.0)
    integral, _ = quad(lambda x: np.exp(-value(np.array([x]))) / np.sqrt(2 * np.pi), -10, 10)
    belief = gaussian.prior(1, 1.0)
    at_once = condition(belief, phi, w)
    for k in range(0, 60, 20):
        belief = condition(belief, phi[k : k + 20], w[k : k + 20])
    assert gaussian.log_evidence(at_once) == pytest.approx(np.log(integral), abs=1e-3)
    assert gaussian.log_evidence(belief) == pytest.approx(np.log(integral), abs=0.02)


@pytest.mark.parametrize(
    ("lam", "blocks"),
    [(1.0, 1), (0.3, 1), (0.3, 10), (1.0, 10)],
)
def test_intervals_of_90_percent(lam, blocks):
    """125 problems with θ from the prior and 100 clicks; an interval per coefficient."""
    n, d, problems = 100, 5, 125 * TIMES
    z = 1.6448536269514722
    covered = []
    for seed in range(problems):
        phi, w, theta = clicks(seed, n, d, lam)
        belief = gaussian.prior(d, lam)
        for rows in np.split(np.arange(n), blocks):
            belief = condition(belief, phi[rows], w[rows])
        width = gaussian.std(belief, np.eye(d))
        covered.append(np.abs(gaussian.mean(belief) - theta) <= z * width)
    # the standard error of 625 intervals is 1.2 points
    assert 0.87 <= np.mean(covered) <= 0.93


def test_a_batch_is_its_entries_alone():
    phi, w, _ = clicks(3, 30, 3, 3.0)
    batch = condition(
        gaussian.prior(3, 3.0, (2,)), phi[:20].reshape(2, 10, 3), w[:20].reshape(2, 10)
    )
    for b in range(2):
        alone = condition(
            gaussian.prior(3, 3.0), phi[10 * b : 10 * b + 10], w[10 * b : 10 * b + 10]
        )
        np.testing.assert_allclose(batch.factor[b], alone.factor, rtol=1e-13, atol=1e-13)


def test_float32_rows_are_as_good():
    phi, w, _ = clicks(5, 40, 4, 2.0)
    phi = phi.astype(np.float32)
    start = gaussian.prior(4, 2.0)
    single, double = (
        condition(start, phi, w),
        condition(start, phi.astype(np.float64), w),
    )
    np.testing.assert_array_equal(single.factor, double.factor)


def test_padding_changes_nothing():
    phi, w, _ = clicks(4, 5, 3, 1.0)
    start = gaussian.prior(3, 1.0)
    padded = condition(start, np.vstack([phi, np.zeros((2, 3))]), np.append(w, [np.nan, 7.0]))
    np.testing.assert_allclose(padded.factor, condition(start, phi, w).factor, rtol=1e-12)


def test_refusals():
    start = gaussian.prior(1, 1.0)
    for bad in (-0.1, 1.1, np.nan, np.inf):
        with pytest.raises(WeightsError, match=r"the logit link needs weights in \[0, 1\]"):
            condition(start, np.ones((2, 1)), np.array([1.0, bad]))
    with pytest.raises(NumericalError, match="too large"):
        condition(
            gaussian.condition(start, np.ones((1, 1)), np.ones(1), 1.0),
            np.full((1, 1), 1e308),
            np.ones(1),
        )
    with pytest.raises(ParameterError, match="importance must be"):
        condition(start, np.ones((1, 1)), np.ones(1), importance=0.0)


@pytest.mark.parametrize(("n", "clicked"), [(1, 1), (10, 0), (40, 3), (40, 30)])
@pytest.mark.parametrize("contexts", [False, True])
def test_the_log_odds_of_one_item_are_those_of_the_integral(n, clicked, contexts):
    """One click after the other: within 15 % of a standard deviation, and stds within 20 %."""
    model = RandomEffectsModel(
        {"lam": 1.0, "sigma": 1.0, "tau": 0.8}, contexts=contexts, likelihood=Bernoulli()
    )
    problem = Problem(np.array([[1.0], [0.5]]), TopK(1))
    belief = model.prior(problem)
    w = np.random.default_rng(0).permutation(np.arange(n) < clicked).astype(float)
    for x in w:
        belief = model.learn(belief, problem, Feedback.of(problem, np.array([0]), np.array([x])))
    prior_std = np.sqrt(1.0**2 + 0.8**2)  # of φ·θ + δ
    mean, std = moments(np.ones((n, 1)), w, prior_std)
    assert model.mean(belief, problem)[0] == pytest.approx(mean, abs=0.15 * std)
    assert model.std(belief, problem)[0] == pytest.approx(std, rel=0.2)
    # the other item shares θ: its log-odds follow those of the first, and less than them
    shared = 0.5 * 1.0 / prior_std**2
    assert model.mean(belief, problem)[1] == pytest.approx(
        shared * model.mean(belief, problem)[0], rel=1e-6
    )


def test_mixed_log_odds_hardly_depend_on_blocks_or_order():
    """300 items, each seen twice, in 2 calls or in 60: within 0.3 standard deviations."""
    rng = np.random.default_rng(1)
    Phi = np.column_stack([np.ones(300), rng.standard_normal((300, 2))])
    problem = Problem(Phi, TopK(1))
    model = RandomEffectsModel({"lam": 1.0, "sigma": 1.0, "tau": 0.5}, likelihood=Bernoulli())
    clicked = (rng.random((2, 300)) < 0.2).astype(float)

    def learned(order, parts):
        belief = model.prior(problem)
        for w in clicked:
            for A in np.array_split(order, parts):
                belief = model.learn(belief, problem, Feedback.of(problem, A, w[A]))
        return model.mean(belief, problem), model.std(belief, problem)

    mean, std = learned(np.arange(300), 1)
    for order, parts in ((rng.permutation(300), 1), (np.arange(300), 30)):
        other, width = learned(order, parts)
        assert (np.abs(other - mean) < 0.3 * std).all()
        np.testing.assert_allclose(width, std, rtol=0.05)


def test_mixed_log_odds_choose_their_scales():
    """200 items whose log-odds have std 1 around what features say, each seen 16 times."""
    rng = np.random.default_rng(2)
    Phi = np.column_stack([np.ones(200), rng.standard_normal((200, 3))])
    problem = Problem(Phi, TopK(1))
    model = RandomEffectsModel({"sigma": 1.0}, likelihood=Bernoulli())
    p = expit(Phi @ [-1.0, 0.8, -0.8, 0.8] + rng.standard_normal(200))
    belief = model.prior(problem)
    for _ in range(16):
        w = (rng.random(200) < p).astype(float)
        for A in np.split(np.arange(200), 2):
            belief = model.learn(belief, problem, Feedback.of(problem, A, w[A]))
    assert float(belief.tau) == pytest.approx(1.0, rel=0.4)
    assert float(belief.lam) == pytest.approx(0.8, rel=0.6)
    off = (model.mean(belief, problem) - np.log(p / (1 - p))) / model.std(belief, problem)
    # the standard error of 200 intervals is 2.1 points
    assert 0.84 <= np.mean(np.abs(off) < 1.6448536269514722) <= 0.96


class NoiseOfHalf(Likelihood):
    """Gaussian noise of std 1/2, as a likelihood with targets of its own."""

    def targets(self, m, V, feedback, present):
        importance = np.full(feedback.w.shape, 4.0) * feedback.importance
        return GaussianTargets(feedback._replace(importance=importance), 0.0)

    def inverse_link(self, linear_predictor):
        return 10 + linear_predictor

    def require_weights(self, feedback, present):
        if (feedback.w[present] > 100).any():
            raise WeightsError("weights beyond 100")


class NoiseOfHalfModel(EmpiricalBayesModel):
    likelihood = NoiseOfHalf()


HALF = {"lam": 2.0, "sigma": 0.5}
ONE = {"lam": 2.0, "sigma": 1.0}


@pytest.mark.parametrize(
    ("expected", "model"),
    [
        (LinearModel(**HALF), LinearModel(2.0, likelihood=NoiseOfHalf())),
        (
            LinearModel(**HALF, forgetting=0.9),
            LinearModel(2.0, forgetting=0.9, likelihood=NoiseOfHalf()),
        ),
        (CachedStdModel(**HALF), CachedStdModel(2.0, likelihood=NoiseOfHalf())),
        (EmpiricalBayesModel(HALF), NoiseOfHalfModel(ONE)),
        (
            RandomEffectsModel({**HALF, "tau": 0.7}),
            RandomEffectsModel({**ONE, "tau": 0.7}, likelihood=NoiseOfHalf()),
        ),
        (
            RandomEffectsModel({**HALF, "tau": 0.7}, contexts=True),
            RandomEffectsModel({**ONE, "tau": 0.7}, contexts=True, likelihood=NoiseOfHalf()),
        ),
    ],
)
def test_every_model_learns_by_the_targets_of_another_likelihood(expected, model):
    rng = np.random.default_rng(3)
    problem = Problem(rng.standard_normal((12, 3)), TopK(4))
    belief = model.prior(problem)
    expected_belief = expected.prior(problem)
    for _ in range(5):
        A = rng.permutation(12)[:4]
        feedback = Feedback.of(problem, A, rng.standard_normal(4))
        belief = model.learn(belief, problem, feedback)
        expected_belief = expected.learn(expected_belief, problem, feedback)
    mean = model.mean(belief, problem)
    np.testing.assert_allclose(mean, expected.mean(expected_belief, problem), rtol=1e-9)
    std = model.std(belief, problem)
    np.testing.assert_allclose(std, expected.std(expected_belief, problem), rtol=1e-9)
    np.testing.assert_array_equal(model.inverse_link(mean), 10 + mean)
    assert not model.is_gaussian
    assert not model.fits_row_factors
    with pytest.raises(WeightsError, match="beyond 100"):
        model.learn(belief, problem, feedback._replace(w=np.full(4, 101.0)))


@pytest.mark.parametrize("likelihood", [{}, {"likelihood": Bernoulli()}])
def test_a_cache_of_stds_changes_no_belief(likelihood):
    """With forgetting or clicks the stds are computed for every decision."""
    rng = np.random.default_rng(4)
    problem = Problem(rng.standard_normal((12, 3)), TopK(4))
    model = LinearModel(2.0, forgetting=0.9, **likelihood)
    cached = CachedStdModel(2.0, forgetting=0.9, **likelihood)
    belief = model.prior(problem)
    cached_belief = cached.prior(problem)
    for _ in range(5):
        clicked = (rng.random(4) < 0.5).astype(float)
        feedback = Feedback.of(problem, rng.permutation(12)[:4], clicked)
        belief = model.learn(belief, problem, feedback)
        cached_belief = cached.learn(cached_belief, problem, feedback)
    np.testing.assert_array_equal(cached_belief.factor, belief.factor)
    np.testing.assert_array_equal(cached.std(cached_belief, problem), model.std(belief, problem))

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import (
    Agent,
    CombLinUCB,
    Feedback,
    GaussianEnvironment,
    Problem,
    TopK,
    episodes,
    gaussian,
)
from superarm.beliefs.cached_std import (
    MAX_UPDATES,
    REFRESH_BELOW,
    CachedStd,
    covariance_downdate,
    item_std,
    project_rows,
)
from support import learn_rows, peak_memory, update


def play(K, n, d=40, L=300, lam=2.0, sigma=0.5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((L, d)).astype(dtype)
    problem, world = (
        Problem(Phi, TopK(K)),
        GaussianEnvironment.coherent(Phi, lam=lam, sigma=sigma, rng=rng),
    )
    learner = CombLinUCB(lam=lam, sigma=sigma, c=1.0)
    return problem, learner, episodes(learner, problem, world, rng=rng, n=n)


def relative_error(belief, Phi):
    true = gaussian.std(belief, Phi)
    return np.abs(item_std(belief, Phi) / true - 1).max()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 15), st.floats(0.1, 100), st.floats(0.05, 5))
def test_kept_widths_are_those_computed_anew(seed, K, lam, sigma):
    problem, _, steps = play(K, 40, lam=lam, sigma=sigma, seed=seed)
    for step in steps:
        assert isinstance(step.belief, CachedStd)
        assert relative_error(step.belief, problem.Phi) <= 1e-10


def test_for_a_thousand_episodes():
    problem, _, steps = play(5, 1000)
    updates = []
    for step in steps:
        updates.append(float(step.belief.updates))
        if step.t % 50 == 0:
            assert relative_error(step.belief, problem.Phi) <= 1e-10
    assert max(updates) == MAX_UPDATES  # they are kept, and not for ever


def test_float32_features_lose_nothing():
    problem, _, steps = play(5, 100, dtype=np.float32)
    for step in steps:
        assert relative_error(step.belief, problem.Phi) <= 1e-10


def test_other_features_get_widths_of_their_own():
    problem, learner, steps = play(5, 30)
    *_, last = steps
    other = problem.Phi.copy()
    other[17, 3] += 1e-9
    np.testing.assert_array_equal(item_std(last.belief, other), gaussian.std(last.belief, other))
    moved = update(learner, last.belief, problem._replace(Phi=other), last.A, last.w)
    assert moved.updates == -1  # another catalogue may be that of one call only
    np.testing.assert_array_equal(item_std(moved, other), gaussian.std(moved, other))
    again = update(learner, moved, problem._replace(Phi=other), last.A, last.w)
    assert again.updates == 0
    assert relative_error(again, other) <= 1e-10


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 1.7e9), (np.float64, 1.7e18)])
def test_a_large_column_does_not_hide_what_changes_in_others(dtype, large):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((50, 12)).astype(dtype)
    Phi[:, 0] = large
    problem, learner = Problem(Phi, TopK(2)), CombLinUCB(lam=1.0, sigma=1.0, c=1.0)
    belief = update(learner, learner.model.prior(problem), problem, np.array([1, 2]), np.ones(2))
    other = Phi.copy()
    other[:, 1:] *= 3
    np.testing.assert_array_equal(item_std(belief, other), gaussian.std(belief, other))


def test_no_feedback_changes_nothing():
    problem, learner, steps = play(5, 10)
    *_, last = steps
    nothing = update(learner, last.belief, problem, np.empty(0, int), np.empty(0))
    for after, before in zip(nothing, last.belief, strict=True):
        np.testing.assert_array_equal(after, before)


def test_many_rows_put_it_off_until_the_next_choice():
    problem, learner, steps = play(5, 10)
    *_, last = steps
    belief = learn_rows(learner, last.belief, problem, problem.Phi[:100], np.zeros(100))
    assert belief.updates == -1
    np.testing.assert_array_equal(item_std(belief, problem.Phi), gaussian.std(belief, problem.Phi))
    assert update(learner, belief, problem, last.A, last.w).updates == 0


@pytest.mark.parametrize("sigma", [1e-7, 1e4])
def test_extreme_scales_are_computed_anew_or_exact(sigma):
    problem, _, steps = play(5, 60, lam=10.0, sigma=sigma)
    for step in steps:
        # with R this steep, computing anew is itself exact to 1e-7 only; then nothing is kept
        assert step.belief.updates == 0 or relative_error(step.belief, problem.Phi) <= 1e-10


@pytest.mark.parametrize("sigma", [1e-7, 1e-4, 1e-2])
@pytest.mark.parametrize("K", [7, 19])
def test_the_last_unknown_direction_becomes_known(sigma, K):
    """Before it R is steep, after it is not: what the rows tell then exceeds all that was known."""
    problem, _, steps = play(K, 15, lam=10.0, sigma=sigma)
    for step in steps:
        assert np.isfinite(item_std(step.belief, problem.Phi)).all()
        assert step.belief.updates <= 0 or relative_error(step.belief, problem.Phi) <= 1e-10


def test_choices_are_those_without_keeping(monkeypatch):
    def chosen():
        _, _, steps = play(5, 200)
        return [step.A.tolist() for step in steps]

    kept = chosen()
    monkeypatch.setattr(
        "superarm.beliefs.cached_std.item_std", lambda belief, Phi: gaussian.std(belief, Phi)
    )
    assert kept == chosen()


def test_contexts_in_an_agent():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((50, 12))
    agent = Agent(CombLinUCB(lam=1.0, sigma=0.5, c=1.0), features=Phi, oracle=TopK(3), seed=0)
    for _ in range(10):
        context = rng.standard_normal((50, 12))
        items = agent.choose(features=context)
        upper = context @ gaussian.mean(agent.belief) + gaussian.std(agent.belief, context)
        assert sorted(items) == sorted(np.argsort(-upper)[:3])
        agent.observe(items, rng.standard_normal(3), features=context)


@pytest.mark.parametrize("importance", [9.0, 0.04, np.array([10.0, 0.5])])
def test_importance_narrows_the_kept_item_std(importance):
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((40, 12)), TopK(2))
    learner = CombLinUCB(lam=1.0, sigma=3.0, c=1.0)
    belief = learner.model.prior(problem)
    for n in range(1, 6):
        A = rng.permutation(40)[:2]
        belief = update(learner, belief, problem, A, rng.standard_normal(2), importance)
        assert belief.updates == n  # kept, not computed anew
        assert relative_error(belief, problem.Phi) <= 1e-10


def test_a_factor_that_becomes_steep_has_its_widths_computed_anew():
    """Feedback with little noise: what is known and what is not are far apart from then on."""
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((40, 12)), TopK(2))
    learner = CombLinUCB(lam=1.0, sigma=1e-4, c=1.0)
    belief = learner.model.prior(problem)
    after = update(learner, belief, problem, np.array([3, 7]), np.zeros(2))
    others = np.delete(np.arange(40), [3, 7])
    # nothing but the factor says so: no width has shrunk so far that it must be computed anew
    unseen = problem._replace(Phi=np.delete(problem.Phi, [3, 7], axis=0))
    apart = learner.model.learn(
        learner.model.prior(unseen), unseen, Feedback.of(problem, np.array([3, 7]), np.zeros(2))
    )
    assert (item_std(apart, unseen.Phi) ** 2 > REFRESH_BELOW * np.sum(unseen.Phi**2, axis=-1)).all()
    assert after.updates == apart.updates == 0
    np.testing.assert_array_equal(after.variance[others], apart.variance)


@pytest.mark.parametrize("batch", [(50,), (5, 10)])
def test_widths_of_repeated_features_are_computed_once(batch):
    Phi = np.random.default_rng(0).standard_normal((2000, 20))
    model = CombLinUCB(lam=2.0, sigma=1.0, c=1.0).model
    repeated = Problem(np.broadcast_to(Phi, (*batch, *Phi.shape)), TopK(3))
    assert peak_memory(lambda: model.prior(repeated)) < 50 * Phi.nbytes / 4
    belief = model.prior(repeated)
    lengths = np.linalg.norm(Phi, axis=-1)
    found = item_std(belief, repeated.Phi)
    np.testing.assert_allclose(found, np.broadcast_to(2.0 * lengths, found.shape))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_shrinkage_is_what_rows_take_from_the_covariance(batch):
    rng = np.random.default_rng(1)
    factor = np.triu(rng.standard_normal((*batch, 5, 5)), 1) + 3 * np.eye(5)
    X = rng.standard_normal((*batch, 3, 4))
    R = factor[..., :4, :4]
    U = covariance_downdate(factor, X)
    before = np.linalg.inv(R.mT @ R)
    after = np.linalg.inv(R.mT @ R + X.mT @ X)
    np.testing.assert_allclose(before - U.mT @ U, after, atol=1e-12)


def test_parts_of_the_features_are_put_together():
    """More rows than fit into a part."""
    Phi = np.random.default_rng(0).standard_normal((2, 9000, 40))
    direction = np.ones((2, 40))
    np.testing.assert_allclose(project_rows(Phi, direction), Phi.sum(-1), atol=1e-12)

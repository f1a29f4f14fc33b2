import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from superarm import (
    BernoulliEnvironment,
    CascadeEnvironment,
    CombLinTS,
    CombUCB1,
    Feedback,
    PositionEnvironment,
    Problem,
    Slate,
    TopK,
    episodes,
    mean_se,
    simulate,
)
from superarm.errors import ParameterError
from superarm.slates import position_based

ALPHA = np.array([0.1, 0.7, 0.3, 0.5, 0.2])
P = (0.5, 1.0, 0.25)
A = np.array([3, 1, 0])
USERS = {
    "cascade": CascadeEnvironment(ALPHA),
    "positions": PositionEnvironment(ALPHA, examination=P),
}


@pytest.mark.parametrize("world", USERS.values(), ids=USERS)
def test_the_value_is_the_clicks_to_expect(world):
    rng = np.random.default_rng(0)
    n = 20_000
    clicks = np.stack([world.clicks(A, world.sample(rng), rng) for _ in range(n)])
    se = np.sqrt(clicks.sum(1).var() / n)
    assert abs(clicks.sum(1).mean() - world.value(A, world.mean)) < 4 * se


def test_cascade_by_enumeration():
    """All attractions: the first that attracts is clicked, and a slate is worth a click or none."""
    world = CascadeEnvironment(ALPHA)
    expected = 0.0
    for X in itertools.product([0.0, 1.0], repeat=5):
        X = np.array(X)
        clicks = world.clicks(A, X, None)
        attracted = [k for k in range(3) if X[A[k]]]
        assert np.flatnonzero(clicks).tolist() == attracted[:1]
        assert world.value(A, X) == clicks.sum()
        expected += np.prod(np.where(X, ALPHA, 1 - ALPHA)) * clicks.sum()
    assert world.value(A, ALPHA) == pytest.approx(expected)


def test_padding_is_neither_clicked_nor_worth_anything():
    padded = np.array([3, -1, -1])
    rng = np.random.default_rng(0)
    for world in USERS.values():
        assert (world.clicks(padded, np.ones(5), rng)[1:] == 0).all()
        assert world.value(padded, ALPHA) == world.value(padded[:1], ALPHA)


@pytest.mark.parametrize(
    ("world", "oracle"),
    [
        (USERS["cascade"], TopK(3)),
        (USERS["positions"], Slate(3, examination=P)),
    ],
    ids=USERS,
)
def test_the_oracle_for_the_means_is_the_best_slate(world, oracle):
    best = world.value(oracle(ALPHA), ALPHA)
    slates = [np.array(slate) for slate in itertools.permutations(range(5), 3)]
    assert best == pytest.approx(max(world.value(slate, ALPHA) for slate in slates))


@dataclass(frozen=True)
class Instance:
    """Five items, seen in one of the ways."""

    users: str
    naive: bool = False

    def __call__(self, rng):
        alpha = rng.permutation(ALPHA)
        read = {"read": Feedback.of} if self.naive else {}
        if self.users == "cascade":
            return Problem(np.eye(5), TopK(3)), CascadeEnvironment(alpha, **read)
        world = PositionEnvironment(alpha, examination=P, **read)
        return Problem(np.eye(5), Slate(3, examination=P)), world


LEARNER = CombLinTS(lam=1.0, sigma=0.5)


def test_a_trace_values_slates_as_users_do():
    trace = simulate(Instance("positions"), [LEARNER], episodes=40, replicates=3, progress=False)
    best = float(np.sort(ALPHA)[:-4:-1] @ [1.0, 0.5, 0.25])
    np.testing.assert_allclose(trace.oracle_expected, best)
    assert (trace.regret("CombLinTS")[:, -1] > 0).all()
    assert set(np.unique(trace.realized)) <= {0.0, 1.0, 2.0, 3.0}
    cascades = simulate(Instance("cascade"), [LEARNER], episodes=40, replicates=3, progress=False)
    np.testing.assert_allclose(cascades.oracle_expected, 1 - 0.3 * 0.5 * 0.7)
    assert set(np.unique(cascades.realized)) <= {0.0, 1.0}


def test_what_was_not_seen_does_not_reach_the_learner():
    rng = np.random.default_rng(3)
    problem, world = Instance("cascade")(rng)
    belief = CombUCB1().model.prior(problem)
    for step in episodes(CombUCB1(), problem, world, rng=rng, n=50):
        clicked = np.flatnonzero(step.w)
        looked_at = step.A[: clicked[0] + 1] if clicked.size else step.A
        new = step.belief.n - belief.n
        assert sorted(np.flatnonzero(new).tolist()) == sorted(looked_at.tolist())
        belief = step.belief


@pytest.mark.parametrize(("users", "n"), [("cascade", 300), ("positions", 600)])
def test_ignoring_what_was_not_seen_costs(users, n):
    settings = {"episodes": n, "replicates": 10, "progress": False}
    lost = [
        simulate(Instance(users, naive), [LEARNER], **settings).regret("CombLinTS")[:, -1]
        for naive in (False, True)
    ]
    gain, se = mean_se(lost[1] - lost[0])  # of the same instances
    assert gain > 2 * se


def test_learners_meet_the_same_attractions():
    steps = [
        list(episodes(learner, *Instance("positions")(np.random.default_rng(1)), rng=rng, n=20))
        for learner, rng in [
            (LEARNER, np.random.default_rng(2)),
            (CombUCB1(), np.random.default_rng(2)),
        ]
    ]
    for one, other in zip(*steps, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)


def test_refusals():
    with pytest.raises(ParameterError, match=r"\(0, 1\]"):
        PositionEnvironment(ALPHA, examination=[1.2])
    world = PositionEnvironment(ALPHA, examination=[1.0])
    with pytest.raises(ParameterError, match="the slate has 3 positions"):
        next(episodes(LEARNER, Problem(np.eye(5), TopK(3)), world, rng=np.random.default_rng(0)))


class Halfway:
    """Slates that are clicked, but worth nothing that is said."""

    mean = ALPHA
    features = None

    def at(self, t, choose):
        return self

    def sample(self, rng):
        return ALPHA

    def clicks(self, A, weights, rng):
        return weights[A]


def test_an_environment_with_only_some_of_the_methods_is_named():
    problem = Problem(np.eye(5), TopK(3))
    with pytest.raises(ParameterError, match=r"Halfway object .* has no feedback"):
        next(episodes(LEARNER, problem, Halfway(), rng=np.random.default_rng(0)))


@dataclass(frozen=True, eq=False)
class LastClick(BernoulliEnvironment):
    """Users who click the last item alone; a slate is worth that click."""

    def clicks(self, A, weights, rng):
        return weights[A] * (np.arange(len(A)) == len(A) - 1)

    def feedback(self, problem, A, clicks):
        return Feedback.of(problem, A[-1:], clicks[-1:])

    def value(self, A, weights):
        return weights[A[-1]]


def test_a_subclass_with_clicks_is_an_environment_of_slates():
    problem = Problem(np.eye(5), TopK(3))
    world = LastClick(np.ones(5))
    step = next(episodes(LEARNER, problem, world, rng=np.random.default_rng(0)))
    assert step.w.tolist() == [0.0, 0.0, 1.0]
    assert step.value(step.A, step.mean) == 1.0


def another_reading(rng):
    examination = tuple(np.sort(rng.uniform(0.2, 1.0, 3)))
    read = partial(position_based, examination=examination)
    return Problem(np.eye(5), TopK(3)), PositionEnvironment(ALPHA, examination=P, read=read)


class TestTensors:
    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    @pytest.mark.parametrize("users", USERS)
    def test_lock_step_is_the_cpu(self, users):
        settings = {"episodes": 30, "replicates": 4, "progress": False}
        trace = simulate(Instance(users), [LEARNER], **settings)
        tensors = simulate(Instance(users), [LEARNER], device="cpu", draws="host", **settings)
        np.testing.assert_allclose(tensors.expected, trace.expected, rtol=1e-9)
        np.testing.assert_allclose(tensors.realized, trace.realized, rtol=1e-9)
        np.testing.assert_allclose(tensors.oracle_expected, trace.oracle_expected, rtol=1e-9)
        simulate(Instance(users), [LEARNER], device="cpu", **settings)

    def test_what_each_replicate_reads_in_its_own_way_plays_on_the_cpu(self):
        settings = {"episodes": 3, "replicates": 2, "progress": False}
        simulate(another_reading, [LEARNER], **settings)
        with pytest.raises(ParameterError, match="plays on the CPU only"):
            simulate(another_reading, [LEARNER], device="cpu", **settings)

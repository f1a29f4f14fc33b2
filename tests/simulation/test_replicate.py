import copy

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from superarm import (
    CombLinTS,
    CombLinUCB,
    DriftingEnvironment,
    Problem,
    RandomChoice,
    TopK,
    episodes,
    simulate,
)
from superarm.errors import ParameterError
from support import SMALL, TS, assert_same, run


def test_replicate_i_is_what_its_own_seed_gives_by_hand():
    trace = run()
    for i, seed in enumerate(np.random.SeedSequence(3).spawn(5)):
        rng = np.random.default_rng(seed)
        problem, world = SMALL(rng)
        for learner in (TS, RandomChoice()):
            steps = list(episodes(learner, problem, world, rng=copy.deepcopy(rng), n=12))
            j = trace.learners.index(type(learner).__name__)
            np.testing.assert_allclose(trace.expected[j, i], [world.mean[s.A].sum() for s in steps])
            np.testing.assert_allclose(trace.realized[j, i], [s.w.sum() for s in steps])
            best = problem.oracle(world.mean)
            np.testing.assert_allclose(trace.oracle_expected[j, i], world.mean[best].sum())
            np.testing.assert_allclose(
                trace.oracle_realized[j, i], [s.weights[best].sum() for s in steps]
            )


def test_results_do_not_depend_on_workers_replicates_or_company():
    trace = run()
    assert_same(trace, run(workers=2))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_same(trace, run())
    fewer = run([RandomChoice()], replicates=2)
    np.testing.assert_array_equal(fewer.expected[0], trace.expected[1, :2])


def test_a_function_is_told_of_each_replicate():
    told = []
    run(progress=told.append)
    assert told == [1] * 5


def test_there_are_no_more_workers_than_replicates(monkeypatch):
    asked = []

    def parallel(*args, n_jobs, **options):
        asked.append(n_jobs)
        return original(*args, n_jobs=n_jobs, **options)

    original = joblib.Parallel
    monkeypatch.setattr(joblib, "Parallel", parallel)
    assert_same(run(replicates=1), run(replicates=1, workers=999))
    run(replicates=2, workers=2)
    assert asked == [1, 1, 2]


def test_learners_can_be_named():
    trace = run(
        {
            "careful": CombLinUCB(lam=10.0, sigma=1.0, c=1.0),
            "bold": CombLinUCB(lam=10.0, sigma=1.0, c=3.0),
        }
    )
    assert trace.learners == ("careful", "bold")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"episodes": 0}, "episodes must be"),
        ({"replicates": -1}, "replicates must be"),
        ({"seed": -1}, "seed must be"),
        ({"workers": 0}, "workers must not be 0"),
        ({"learners": []}, "at least one learner"),
        ({"learners": [TS, CombLinTS(lam=1.0, sigma=1.0)]}, "two learners of one class: name them"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ParameterError, match=message):
        run(**settings)


def blas_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def test_the_callers_blas_threads_are_left_alone():
    before = blas_threads()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        run()
    run(workers=2)
    assert blas_threads() == before


def test_one_replicate():
    assert str(run(replicates=1)).endswith("one replicate")


def test_regret_in_a_drifting_world_is_against_the_best_of_each_episode():
    def instance(rng):
        Phi = np.eye(3)
        theta = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
        return Problem(Phi, TopK(1)), DriftingEnvironment(Phi, theta, sigma=0.1)

    trace = simulate(
        instance, [CombLinTS(lam=1.0, sigma=0.1)], episodes=3, replicates=2, progress=False
    )
    np.testing.assert_array_equal(trace.oracle_expected, [[[1.0, 2.0, 3.0]] * 2])
    np.testing.assert_array_equal(trace.optimum_expected, [[[1.0, 2.0, 3.0]] * 2])
    steps = list(
        episodes(CombLinTS(), *instance(None), rng=np.random.default_rng(0), n=3),
    )
    assert [step.mean.max() for step in steps] == [1.0, 2.0, 3.0]


def test_a_world_that_changes_its_own_means_is_measured_by_those_of_the_episode():
    class Turning:
        features = None

        def __init__(self):
            self.mean = np.zeros(3)

        def at(self, t, choose):
            self.mean[:] = np.arange(3) == t % 3
            return self

        def sample(self, rng):
            return self.mean.copy()

    def instance(rng):
        return Problem(np.eye(3), TopK(1)), Turning()

    trace = simulate(instance, [RandomChoice()], episodes=6, replicates=1, progress=False)
    assert trace.oracle_realized.tolist() == [[[1.0] * 6]]


def test_what_is_no_learner_is_refused_before_anything_is_played():
    with pytest.raises(ParameterError, match="a learner is needed"):
        simulate(SMALL, {"a class": CombLinTS}, episodes=1, replicates=1)

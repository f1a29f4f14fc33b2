import copy
import dataclasses
import itertools

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from superarm import (
    BernoulliEnvironment,
    CombLinTS,
    CombLinUCB,
    DriftingEnvironment,
    Greedy,
    Problem,
    RandomChoice,
    TopK,
    Trace,
    as_oracle,
    episodes,
    files,
    mean_se,
    simulate,
)
from superarm.errors import FeaturesError, FileError, ParameterError, WeightsError
from superarm.experiments.longest_path import LongestPath

SMALL = LongestPath(m=3, d=4)
TS = CombLinTS(lam=10.0, sigma=1.0)
ARRAYS = [f.name for f in dataclasses.fields(Trace) if f.type is np.ndarray or "Array" in str(f.type)]


PAIR = (TS, RandomChoice())


def run(learners=PAIR, **settings):
    return simulate(SMALL, learners, **{"episodes": 12, "replicates": 5, "seed": 3, "progress": False, **settings})


def assert_same(a, b):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_episodes_can_be_stepped_through_by_hand():
    problem, world = SMALL(np.random.default_rng(0))
    steps = episodes(TS, problem, world, rng=np.random.default_rng(1))
    first, second = next(steps), next(steps)
    assert (first.t, second.t) == (1, 2)
    np.testing.assert_array_equal(first.w, first.weights[first.A])
    again = TS.update(first.belief, problem, second.A, second.w)
    np.testing.assert_array_equal(again.factor, second.belief.factor)
    assert len(list(itertools.islice(steps, 5))) == 5


def test_learners_with_equal_generators_meet_the_same_weights():
    problem, world = SMALL(np.random.default_rng(0))
    a, b = (list(episodes(x, problem, world, rng=np.random.default_rng(1), n=5)) for x in (TS, RandomChoice()))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x.weights, y.weights)


def test_episodes_refuses_an_environment_of_other_size():
    problem, world = SMALL(np.random.default_rng(0))
    with pytest.raises(ParameterError, match=r"mean weights of shape \(3,\), the problem's features ask for \(24,\)"):
        next(episodes(TS, problem, BernoulliEnvironment(np.zeros(3)), rng=np.random.default_rng(0)))
    with pytest.raises(FeaturesError, match="finite"):
        next(episodes(TS, problem._replace(Phi=problem.Phi * np.nan), world, rng=np.random.default_rng(0)))


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
            np.testing.assert_allclose(trace.oracle_realized[j, i], [s.weights[best].sum() for s in steps])


def test_results_do_not_depend_on_workers_replicates_or_company():
    trace = run()
    assert_same(trace, run(workers=2))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_same(trace, run())
    fewer = run([RandomChoice()], replicates=2)
    np.testing.assert_array_equal(fewer.expected[0], trace.expected[1, :2])


def test_regret_and_return_are_the_papers():
    trace = run()
    for j, learner in enumerate(trace.learners):
        regret = np.zeros(5)
        realized = np.zeros(5)
        earned = np.zeros(5)
        for t in range(12):
            regret += trace.oracle_expected[j, :, t] - trace.expected[j, :, t]
            realized += trace.oracle_realized[j, :, t] - trace.realized[j, :, t]
            earned += trace.expected[j, :, t]
            np.testing.assert_allclose(trace.regret(learner)[:, t], regret)
            np.testing.assert_allclose(trace.realized_regret(learner)[:, t], realized)
            np.testing.assert_allclose(trace.per_step_return(learner)[:, t], earned / (t + 1))
            np.testing.assert_allclose(trace.scaled_regret(learner)[:, t], regret)
    assert (np.diff(trace.regret("CombLinTS")) >= -1e-9).all()


def second_best(w):
    """An oracle that is off on purpose: items 2 and 3 of the order."""
    return np.argsort(-w, kind="stable")[1:3]


def approximate_instance(rng):
    mean = rng.uniform(0.5, 1.0, 6)
    return Problem(np.eye(6), as_oracle(second_best, K=2, gap=0.5)), BernoulliEnvironment(mean)


def test_scaled_regret_measures_against_the_exact_optimum():
    trace = simulate(
        approximate_instance, [Greedy(lam=1.0, sigma=1.0)], episodes=9, replicates=3, progress=False, exact=TopK(2)
    )
    assert trace.gap == 0.5
    assert (trace.optimum_expected > trace.oracle_expected).all()
    by_hand = np.cumsum(trace.optimum_expected[0] - trace.expected[0] / 0.5, axis=1)
    np.testing.assert_allclose(trace.scaled_regret("Greedy"), by_hand)
    np.testing.assert_allclose(
        trace.scaled_regret("Greedy", gamma=0.0), np.cumsum(trace.optimum_expected[0] - trace.expected[0], axis=1)
    )
    for gamma in (1.0, -0.1):
        with pytest.raises(ParameterError, match="gamma in"):
            trace.scaled_regret("Greedy", gamma=gamma)
    with pytest.raises(ParameterError, match="against the exact optimum: give simulate an exact= oracle"):
        dataclasses.replace(trace, exact=False).scaled_regret("Greedy")
    unknown = dataclasses.replace(trace, gap=None)
    with pytest.raises(ParameterError, match="the oracle's gap is None"):
        unknown.scaled_regret("Greedy")


def test_mean_se():
    x = np.random.default_rng(0).standard_normal((7, 3))
    mean, se = mean_se(x)
    np.testing.assert_allclose(mean, x.mean(0))
    np.testing.assert_allclose(se, x.std(0, ddof=1) / np.sqrt(7))
    assert np.isnan(mean_se(x[:1])[1]).all()


def test_trace_goes_to_a_file_and_back(tmp_path):
    trace = run()
    trace.save(tmp_path / "trace.npz")
    back = Trace.load(tmp_path / "trace.npz")
    assert_same(trace, back)
    assert (back.learners, back.gap, back.settings) == (trace.learners, trace.gap, trace.settings)
    assert back.exact
    assert trace.settings["learners"]["CombLinTS"] == repr(CombLinTS(lam=10.0, sigma=1.0))
    assert trace.settings["seed"] == 3


def test_a_trace_of_an_earlier_version_is_read(tmp_path):
    trace = run()
    shared = ("oracle_expected", "oracle_realized", "optimum_expected")
    earlier = dataclasses.replace(trace, **{name: getattr(trace, name)[0] for name in shared})
    earlier.save(tmp_path / "trace.npz")
    back = Trace.load(tmp_path / "trace.npz")
    assert_same(trace, back)
    assert str(back) == str(trace)
    assert_same(back.first(2), run(replicates=2))


def test_a_damaged_trace_is_refused(tmp_path):
    trace = run()
    dataclasses.replace(trace, realized=trace.realized[:, :-1]).save(tmp_path / "trace.npz")
    with pytest.raises(FileError, match=r"trace\.npz is damaged: its arrays are of different shapes"):
        Trace.load(tmp_path / "trace.npz")
    meta = {"learners": [], "gap": 0.0, "exact": True, "settings": {}}
    files.write(tmp_path / "trace.npz", "trace", meta, {})
    with pytest.raises(FileError, match=r"trace\.npz is damaged: 'expected' is missing"):
        Trace.load(tmp_path / "trace.npz")


def test_table_shows_every_learner_with_standard_errors():
    text = str(run())
    assert "CombLinTS" in text
    assert "RandomChoice" in text
    assert text.count("±") == 5
    assert "5 replicates" in text


def test_progress_bar(capsys):
    run(progress=True)
    assert "5/5" in capsys.readouterr().err
    run(progress=False)
    assert capsys.readouterr().err == ""


def test_learners_can_be_named():
    trace = run({"careful": CombLinUCB(lam=10.0, sigma=1.0, c=1.0), "bold": CombLinUCB(lam=10.0, sigma=1.0, c=3.0)})
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
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_callers_blas_threads_are_left_alone():
    before = blas_threads()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        run()
    run(workers=2)
    assert blas_threads() == before


def test_environments_and_instances_are_checked():
    class Wrong(BernoulliEnvironment):
        def draw(self, rng):
            return np.zeros(7)

    problem = Problem(np.eye(3), TopK(1))
    with pytest.raises(WeightsError, match=r"drew weights of shape \(7,\), not \(3,\)"):
        next(episodes(TS, problem, Wrong(np.zeros(3)), rng=np.random.default_rng(0)))
    with pytest.raises(ParameterError, match="n must be"):
        next(episodes(TS, problem, BernoulliEnvironment(np.zeros(3)), rng=np.random.default_rng(0), n=-1))

    def batch(rng):
        return Problem(np.zeros((2, 3, 1)), TopK(1)), BernoulliEnvironment(np.zeros((2, 3)))

    with pytest.raises(ParameterError, match=r"one problem a replicate, got a batch \(2,\)"):
        simulate(batch, [TS], episodes=1, replicates=1, progress=False)


def test_one_replicate():
    assert "over 1 replicate" in str(run(replicates=1))


def test_unknown_learner():
    with pytest.raises(ParameterError, match="no learner 'X' in this trace, only CombLinTS, RandomChoice"):
        run().regret("X")


def test_regret_in_a_drifting_world_is_against_the_best_of_each_episode():
    def instance(rng):
        Phi = np.eye(3)
        theta = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
        return Problem(Phi, TopK(1)), DriftingEnvironment(Phi, theta, sigma=0.1)

    trace = simulate(instance, [CombLinTS(lam=1.0, sigma=0.1)], episodes=3, replicates=2, progress=False)
    np.testing.assert_array_equal(trace.oracle_expected, [[[1.0, 2.0, 3.0]] * 2])
    np.testing.assert_array_equal(trace.optimum_expected, [[[1.0, 2.0, 3.0]] * 2])
    steps = list(
        episodes(CombLinTS(), *instance(None), rng=np.random.default_rng(0), n=3),
    )
    assert [step.mean.max() for step in steps] == [1.0, 2.0, 3.0]

import dataclasses
import sys

import numpy as np
import pytest

from superarm import (
    BernoulliEnvironment,
    CombLinTS,
    Greedy,
    Problem,
    RandomChoice,
    TopK,
    Trace,
    as_oracle,
    mean_se,
    simulate,
)
from superarm.errors import FileError, ParameterError
from superarm.files import archive
from support import assert_same, run


def second_best(w):
    """An oracle that is off on purpose: items 2 and 3 of the order."""
    return np.argsort(-w, kind="stable")[1:3]


def approximate_instance(rng):
    mean = rng.uniform(0.5, 1.0, 6)
    return Problem(np.eye(6), as_oracle(second_best, K=2, gap=0.5)), BernoulliEnvironment(mean)


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


def test_scaled_regret_measures_against_the_exact_optimum():
    trace = simulate(
        approximate_instance,
        [Greedy(lam=1.0, sigma=1.0)],
        episodes=9,
        replicates=3,
        progress=False,
        exact=TopK(2),
    )
    assert trace.gap == 0.5
    assert (trace.optimum_expected > trace.oracle_expected).all()
    by_hand = np.cumsum(trace.optimum_expected[0] - trace.expected[0] / 0.5, axis=1)
    np.testing.assert_allclose(trace.scaled_regret("Greedy"), by_hand)
    np.testing.assert_allclose(
        trace.scaled_regret("Greedy", gamma=0.0),
        np.cumsum(trace.optimum_expected[0] - trace.expected[0], axis=1),
    )
    for gamma in (1.0, -0.1):
        with pytest.raises(ParameterError, match="gamma in"):
            trace.scaled_regret("Greedy", gamma=gamma)
    with pytest.raises(
        ParameterError, match="against the exact optimum: give simulate an exact= oracle"
    ):
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


def test_a_damaged_trace_is_refused(tmp_path):
    trace = run()
    dataclasses.replace(trace, realized=trace.realized[:, :-1]).save(tmp_path / "trace.npz")
    with pytest.raises(
        FileError, match=r"trace\.npz is damaged: its arrays are of different shapes"
    ):
        Trace.load(tmp_path / "trace.npz")
    meta = {"learners": [], "gap": 0.0, "exact": True, "settings": {}}
    archive.write_archive(tmp_path / "trace.npz", "trace", meta, {})
    with pytest.raises(FileError, match=r"trace\.npz is damaged: 'expected' is missing"):
        Trace.load(tmp_path / "trace.npz")


def test_table_shows_every_learner_with_standard_errors():
    text = str(run())
    assert text.count("±") == 5
    assert "5 replicates" in text
    learners = [line.split()[0] for line in text.splitlines()[1:-1]]
    assert learners == run().ranked() == ["CombLinTS", "RandomChoice"]
    assert str(run(replicates=1)).endswith("one replicate")
    assert "nan" not in str(run(replicates=1))


def test_a_data_frame_has_all_episodes():
    trace = run()
    frame = trace.to_pandas()
    assert len(frame) == 2 * 5 * 12
    for (learner, replicate), rows in frame.groupby(["learner", "replicate"]):
        j = trace.learners.index(learner)
        assert rows["episode"].tolist() == list(range(1, 13))
        np.testing.assert_array_equal(rows["regret"], trace.regret(learner)[replicate])
        realized = trace.realized_regret(learner)[replicate]
        np.testing.assert_array_equal(rows["realized_regret"], realized)
        np.testing.assert_array_equal(rows["return"], trace.expected[j, replicate])
        np.testing.assert_array_equal(rows["optimum"], trace.optimum_expected[j, replicate])


def test_a_data_frame_without_pandas_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ParameterError, match=r"pip install 'superarm\[pandas\]'"):
        run().to_pandas()


def test_latex_has_the_numbers_of_the_table():
    trace = run({"a_1": CombLinTS(lam=10.0, sigma=1.0), "b": RandomChoice()})
    lines = trace.to_latex().splitlines()
    assert lines[2] == r"learner & regret $R(12)$ & return / optimum \\"
    assert lines[4].startswith(r"\textbf{a\_1} & $")
    regret = str(trace).splitlines()[2].split()[1]
    assert lines[5].startswith(f"b & ${regret.replace(',', '{,}')} ")


def test_unknown_learner():
    with pytest.raises(
        ParameterError, match="no learner 'X' in this trace, only CombLinTS, RandomChoice"
    ):
        run().regret("X")

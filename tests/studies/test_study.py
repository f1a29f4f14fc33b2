import json

import numpy as np
import pytest

from superarm import CombLinTS, RandomChoice
from superarm.studies import study as module
from superarm.studies.longest_path import LongestPath
from superarm.studies.study import Rehearsal, Setting, Study, estimate

PATH = LongestPath(m=2, d=2)
A = Setting("a", PATH, CombLinTS(lam=10.0, sigma=1.0), 5, 3)
B = Setting("b", PATH, RandomChoice(), 5, 3)


@pytest.fixture
def counted(monkeypatch):
    """The names of the learners that were really simulated."""
    ran = []

    def traces(runs, where, **options):
        ran.extend(name for run in runs for name in run.setup.learners)
        return original(runs, where, **options)

    original = module.traces
    monkeypatch.setattr(module, "traces", traces)
    return ran


def test_finished_settings_are_not_run_again(tmp_path, counted):
    study = Study(out=tmp_path, progress=False)
    first = study.run({"a": A})
    both = study.run({"a": A, "b": B})
    assert counted == ["CombLinTS", "RandomChoice"]
    np.testing.assert_array_equal(first["a"].expected, both["a"].expected)


def test_fewer_replicates_of_a_finished_setting_are_its_first(tmp_path, counted):
    study = Study(out=tmp_path, progress=False)
    few = A._replace(replicates=2)
    traces = study.run({"few": few, "all": A})
    assert list(traces) == ["few", "all"]
    assert counted == ["CombLinTS"]
    assert traces["few"].expected.shape == (1, 2, 5)
    assert traces["all"].expected.shape == (1, 3, 5)
    assert (traces["few"].settings["replicates"], traces["all"].settings["replicates"]) == (2, 3)
    np.testing.assert_array_equal(
        traces["few"].regret("CombLinTS"), traces["all"].regret("CombLinTS")[:2]
    )
    alone = Study(out=tmp_path / "alone", progress=False).run({"few": few})
    np.testing.assert_array_equal(alone["few"].expected, traces["few"].expected)
    study.run({"few": few})
    study.run({"all": A})
    assert len(counted) == 2


def test_a_changed_setting_or_a_damaged_file_is_run_again(tmp_path, counted):
    Study(out=tmp_path, progress=False).run({"a": A})
    Study(out=tmp_path, progress=False, seed=1).run({"a": A})
    Study(out=tmp_path, progress=False, seed=1).run({"a": A._replace(replicates=4)})
    other = A._replace(learner=CombLinTS(lam=1.0, sigma=1.0))
    Study(out=tmp_path, progress=False, seed=1).run({"a": other})
    assert len(counted) == 4
    (tmp_path / "traces" / "a.npz").write_bytes(b"broken")
    Study(out=tmp_path, progress=False).run({"a": A})
    assert len(counted) == 5


class Interrupted:
    """As if somebody pressed Ctrl-C while it is played."""

    def __call__(self, rng):
        raise KeyboardInterrupt


def test_an_interruption_keeps_what_is_finished(tmp_path):
    study = Study(out=tmp_path, progress=False)
    with pytest.raises(KeyboardInterrupt):
        study.run({"a": A, "b": B._replace(instance=Interrupted())})
    assert (tmp_path / "traces" / "a.npz").exists()
    assert not (tmp_path / "traces" / "b.npz").exists()


def test_settings_share_the_workers_and_are_as_alone(tmp_path):
    together = Study(out=tmp_path / "together", progress=False, workers=2).run({"a": A, "b": B})
    for key, setting in {"a": A, "b": B}.items():
        (alone,) = Study(out=tmp_path / "alone", progress=False).run({key: setting}).values()
        np.testing.assert_array_equal(alone.expected, together[key].expected)
        assert alone.settings == together[key].settings


def test_a_trace_may_lie_elsewhere(tmp_path, counted):
    elsewhere = tmp_path / "readings"
    Study(out=tmp_path, progress=False).play([A, A._replace(out=elsewhere)])
    assert (elsewhere / "traces" / "a.npz").exists()
    Study(out=elsewhere, progress=False).run({"a": A})
    assert len(counted) == 2


def test_a_setting_may_stay_off_the_device(tmp_path, monkeypatch):
    asked = []

    def simulate(instance, learners, *, device, **settings):
        asked.append(device)
        return original(instance, learners, **settings)

    original = module.simulate
    monkeypatch.setattr(module, "simulate", simulate)
    monkeypatch.setattr(module, "versions", lambda device=None: {})
    settings = {"a": A, "b": B._replace(on_device=False)}
    Study(out=tmp_path, progress=False, device="cuda:1").run(settings)
    assert asked == ["cuda:1"]
    names = sorted(path.name for path in (tmp_path / "traces").iterdir())
    assert names == ["a cuda-1.npz", "b.npz"]


def test_a_rehearsal_counts_and_leaves_nothing(tmp_path):
    rehearsal = Rehearsal(out=tmp_path / "nothing")
    traces = rehearsal.run({"a": A, "b": B._replace(replicates=7)})
    assert [setting.replicates for setting in rehearsal.planned] == [3, 7]
    assert {setting.out for setting in rehearsal.planned} == {rehearsal.out}
    assert traces["a"].regret("CombLinTS").tolist() == [[0.0] * 5]
    assert rehearsal.compute(lambda: pytest.fail("was run")) == {}
    rehearsal.write_json("thing", {})
    rehearsal.write_curves("thing", {})
    assert not rehearsal.out.exists()


def test_files(tmp_path):
    study = Study(out=tmp_path, seed=4)
    study.write_json("thing", {"x": 1})
    content = json.loads((tmp_path / "thing.json").read_text())
    assert (content["experiment"], content["x"], content["seed"]) == ("thing", 1, 4)
    assert "numpy" in content["versions"]
    values = np.array([[1.0, 2.0], [3.0, 6.0]])
    study.write_curves("thing", {"regret": {"L": values}, "other": {"L": values + 1}})
    assert (tmp_path / "thing.csv").read_text().splitlines() == [
        "learner,quantity,episode,mean,standard error",
        "L,regret,1,2.0,1.0",
        "L,regret,2,4.0,2.0",
        "L,other,1,3.0,1.0",
        "L,other,2,5.0,2.0",
    ]


def test_estimate():
    assert estimate(np.array([1.0, 3.0])) == {"mean": 2.0, "se": 1.0}
    assert estimate(np.array([1.0])) == {"mean": 1.0, "se": None}

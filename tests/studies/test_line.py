import re
from functools import partial

from superarm.engine.progress import ProgressLine
from superarm.studies import ads, beyond, longest_path, slates, study
from superarm.studies.report import planned, reproduce
from superarm.studies.study import Study


def frames(printed):
    """What a terminal shows one after another in the same line."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed)
    return [frame.strip() for frame in re.split(r"[\r\n]+", plain) if frame.strip()]


def test_one_line_for_all_settings(tmp_path, in_a_terminal, capsys):
    run = partial(longest_path.run, m=2, d=2, sweeps={"m": [2, 3]})
    made = Study(out=tmp_path, workers=1, replicates=2, episodes=5)
    reproduce(made, {"longest-path": run})
    shown = frames(capsys.readouterr().err)
    percents = [int(frame.split(" %")[0]) for frame in shown]
    assert percents == sorted(percents)
    assert percents[-1] == 100
    assert "CombLin" in shown[-1]


def test_no_frames_into_a_file_but_what_is_done(tmp_path, capsys):
    made = Study(out=tmp_path, workers=1, replicates=2, episodes=5)
    reproduce(made, {"longest-path": partial(longest_path.run, m=2, d=2)})
    assert capsys.readouterr().err == "longest-path: done\n"


def test_what_is_expected_to_take_longer_counts_more(in_a_terminal, capsys):
    with ProgressLine() as line:
        line.set_total(80.0)
        line.describe("the rest")
        line.advance(60.0)
        line.report("never said")
    last = frames(capsys.readouterr().err)[-1]
    assert last.startswith("75 %")
    assert last.endswith("the rest")


def test_nothing_is_shown_where_nothing_is_ahead(in_a_terminal, capsys):
    with ProgressLine() as line:
        line.set_total(0.0)
    assert frames(capsys.readouterr().err) == []


def test_seconds_are_those_measured_or_usual_ones():
    (name, seconds), *_ = study.costs().items()
    measured = study.Setting(name, ads.Ads(), study.Learner, 150, 2)
    assert measured.seconds == seconds
    assert measured._replace(name="new", episodes=300).seconds == 300 * study.USUAL


def test_a_rehearsal_counts_what_is_played(tmp_path, monkeypatch):
    """The settings of every experiment, against those that are simulated."""
    played = set()

    def traces(runs, where, **options):
        for k, run in enumerate(runs):
            (learner,) = run.setup.learners.values()
            n = run.setup.episodes
            played.add((repr(run.setup.instance), repr(learner), n, run.replicates))
            yield k, study.blank(study.Setting("", run.setup.instance, learner, n, 1))

    monkeypatch.setattr(study, "traces", traces)
    monkeypatch.setattr(Study, "compute", lambda self, work: {})
    made = Study(out=tmp_path, progress=False, replicates=2, episodes=4)
    for run in (
        partial(longest_path.run, m=2, d=2, sweeps={"m": [3, 4], "sigma": [1.0]}),
        ads.run,
        beyond.run,
        slates.run,
    ):
        played.clear()
        run(made)
        assert played == {
            (repr(one.instance), repr(one.learner), one.episodes, one.replicates)
            for one in planned(made, [run])
        }

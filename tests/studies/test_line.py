import re
import sys
from functools import partial

from superarm.studies import ads, beyond, longest_path, slates, study
from superarm.studies.progress import Line
from superarm.studies.report import planned, reproduce
from superarm.studies.study import Study


def test_one_line_for_all_settings(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = partial(longest_path.run, m=2, d=2, sweeps={"m": [2, 3]})
    made = Study(out=tmp_path, workers=1, replicates=2, episodes=5)
    reproduce(made, {"longest-path": run})
    frames = re.split(r"[\r\n]+", capsys.readouterr().err.strip())
    percents = [int(frame.split(" %")[0]) for frame in frames]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1]) == (0, 100)
    assert frames[-1].endswith("CombLinUCB")


def test_no_frames_into_a_file_but_what_is_done(tmp_path, capsys):
    made = Study(out=tmp_path, workers=1, replicates=2, episodes=5)
    reproduce(made, {"longest-path": partial(longest_path.run, m=2, d=2)})
    assert capsys.readouterr().err == "longest-path: done\n"


def test_what_was_kept_is_not_ahead(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Line(100) as line:
        line.found(50)
        line.name("the rest")
        line.played(25)
        line.done("never said")
    last = re.split(r"[\r\n]+", capsys.readouterr().err.strip())[-1]
    assert last.strip().startswith("50 %")
    assert last.endswith("the rest")


def test_a_rehearsal_counts_what_is_played(tmp_path, monkeypatch):
    """The settings of every experiment, against those that are simulated."""
    played = set()

    def traces(runs, where, **options):
        for k, run in enumerate(runs):
            (learner,) = run.game.learners.values()
            n = run.game.episodes
            played.add((repr(run.game.instance), repr(learner), n, run.replicates))
            yield k, study.blank(study.Setting("", run.game.instance, learner, n, 1))

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

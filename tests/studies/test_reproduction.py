import json
import sys

import pytest

from superarm.errors import DataError, ParameterError
from superarm.studies import reproduction
from superarm.studies.longest_path import SWEEPS, Case
from superarm.studies.reproduction import Scale, run_ads, run_artists, run_beyond, run_longest_path
from superarm.studies.study import Study
from support import with_data

SMALL = Case(m=3, d=4)


def test_longest_path_files(tmp_path):
    study = Study(out=tmp_path, progress=False)
    content = run_longest_path(
        study, Scale(replicates=3, episodes=10), case=SMALL, sweeps={"sigma": [1e-3, 1.0]}
    )
    written = json.loads((tmp_path / "longest-path.json").read_text())
    assert written["results"]["CombLinTS"]["regret"] == content["results"]["CombLinTS"]["regret"]
    assert written["results"]["CombLinTS"]["replicates"] == 3
    assert written["settings"]["m"] == 3
    assert set(written["sweeps"]["sigma"]) == {"CombLinTS", "CombLinUCB", "LiteralCombLinTS"}
    assert [p["value"] for p in written["sweeps"]["sigma"]["CombLinTS"]] == [1e-3, 1.0]
    assert len((tmp_path / "longest-path.csv").read_text().splitlines()) == 1 + 2 * 2 * 10


def test_a_run_is_a_pure_function_of_settings_and_seed(tmp_path):
    texts = []
    for name, workers in (("one", 1), ("two", 2), ("again", 1)):
        study = Study(out=tmp_path / name, workers=workers, seed=5, progress=False)
        run_longest_path(study, Scale(replicates=4, episodes=10), case=SMALL)
        texts.append((tmp_path / name / "longest-path.json").read_text())
    assert texts[0] == texts[1] == texts[2]


def test_full_scale_is_the_papers(monkeypatch, tmp_path):
    asked = {}
    monkeypatch.setattr(
        reproduction.longest_path, "reproduce", lambda study, **kwargs: asked.update(kwargs)
    )
    run_longest_path(Study(out=tmp_path), Scale(full=True))
    assert asked["replicates"] == 200
    assert asked["sweeps"] is SWEEPS
    assert (asked["sweep_replicates"]("CombLinTS"), asked["sweep_replicates"]("CombLinUCB")) == (
        200,
        50,
    )
    assert asked["largest"] >= 10
    assert asked["case"] == Case()
    assert (SWEEPS["m"][0], SWEEPS["m"][-1], SWEEPS["d"][-1]) == (10, 100, 510)
    assert (min(SWEEPS["sigma"]), max(SWEEPS["sigma"])) == (1e-7, 1e4)
    assert (min(SWEEPS["lambda"]), max(SWEEPS["lambda"])) == (1e-2, 1e5)


def test_every_learner_by_name():
    for name in (
        "CombLinTS",
        "CombLinUCB",
        "LiteralCombLinTS",
        "Greedy",
        "CombGaussianTS",
        "CombUCB1",
        "RandomChoice",
    ):
        assert type(Case().learner(name)).__name__ == name
    with pytest.raises(
        ParameterError, match="no learner 'CombTS' for longest paths; there are CombLinTS"
    ):
        Case().learner("CombTS")


def test_ads_match_the_paper(tmp_path):
    content = run_ads(Study(out=tmp_path, workers=2, progress=False), Scale(replicates=2))
    at = {name: result["return_at"] for name, result in content["results"].items()}
    assert 0.64 <= at["CombLinTS"]["100"] <= 0.74
    assert 0.76 <= at["CombLinTS"]["1000"] <= 0.84
    assert at["CombTS"]["1000"] < 0.6
    assert at["CombUCB1"]["1000"] < 0.6
    assert at["CombLinTS, auto"]["1000"] >= at["CombLinTS"]["1000"] + 0.03
    assert content["optimum"] == pytest.approx(15.0)


@with_data
def test_artists_match_the_paper(tmp_path):
    content = run_artists(Study(out=tmp_path, workers=2, progress=False), Scale(replicates=4))
    results = content["results"]
    for baseline in ("CombTS", "CombUCB1"):
        lead = results["CombLinTS"]["return_at"]["1000"] - results[baseline]["return_at"]["1000"]
        se = (
            results["CombLinTS"]["return_at_se"]["1000"] + results[baseline]["return_at_se"]["1000"]
        )
        assert lead > 3 * se
    written = json.loads((tmp_path / "artists.json").read_text())
    assert set(written["readings"]) == {"user median", "global median"}


def test_a_case_and_its_sweep_keep_their_own_replicates(tmp_path):
    asked = {"case": SMALL, "learners": ["CombLinUCB"]}
    scale = Scale(replicates=60, episodes=5)
    swept = run_longest_path(
        Study(out=tmp_path / "a", progress=False), scale, sweeps={"lambda": [10.0]}, **asked
    )
    alone = run_longest_path(Study(out=tmp_path / "b", progress=False), scale, **asked)
    assert swept["results"] == alone["results"]
    assert swept["results"]["CombLinUCB"]["replicates"] == 60
    (point,) = swept["sweeps"]["lambda"]["CombLinUCB"]
    assert point["replicates"] == 50
    assert point["regret"] != swept["results"]["CombLinUCB"]["regret"]


def test_the_bound_is_left_out_where_it_does_not_hold(tmp_path):
    study = Study(out=tmp_path, progress=False)
    content = run_longest_path(
        study, Scale(replicates=2, episodes=5), case=Case(m=2, d=2, sigma=2.0)
    )
    assert content["bounds"] == {}


def test_without_matplotlib_there_is_a_report_without_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "superarm.figures", None)
    monkeypatch.delattr("superarm.figures", raising=False)
    study, scale = Study(out=tmp_path, progress=False), Scale(replicates=2, episodes=5)
    _, page, left_out = reproduction.reproduce(
        ["longest-path"], study, scale, lambda: run_longest_path(study, scale, case=SMALL)
    )
    assert page.exists()
    assert "pip install 'superarm[plot]'" in left_out[0]


def no_data(*args):
    raise DataError("no Last.fm here")


def test_all_goes_on_without_last_fm(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "run_artists", no_data)
    one = {"CombLinTS": reproduction.returns.LEARNERS["CombLinTS"]}
    monkeypatch.setattr(reproduction.returns, "LEARNERS", one)
    monkeypatch.setattr(reproduction.returns, "BEYOND", {})
    monkeypatch.setattr(reproduction.artists, "catalogue", no_data)
    monkeypatch.setattr(reproduction, "run_beyond", lambda study, _: run_beyond(study, small))
    study, scale = Study(out=tmp_path, progress=False), Scale(replicates=2, episodes=100)
    small = Scale(replicates=2, episodes=10)

    def run_path():
        return run_longest_path(study, small, case=SMALL, sweeps={"m": [2, 3, 4], "d": [2, 3, 4]})

    tables, page, left_out = reproduction.reproduce(
        reproduction.EXPERIMENTS, study, scale, run_path
    )
    assert left_out == ["artists: no Last.fm here"]
    assert "ads: CombLinTS at 100 episodes" in tables
    assert "clicks: regret of CombLinTS with the logit link" in tables
    assert "no Last.fm here" in page.read_text()
    for name in (
        "longest-path",
        "longest-path-sweeps",
        "longest-path-bounds",
        "ads",
        "beyond",
        "explore",
    ):
        assert (tmp_path / f"{name}.png").exists()
        assert (tmp_path / f"{name}.svg").exists()
    with pytest.raises(DataError, match="no Last"):
        reproduction.reproduce(["artists"], study, scale, run_path)

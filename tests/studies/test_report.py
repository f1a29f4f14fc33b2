import base64
import html
import sys
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from superarm.cli import EXPERIMENTS
from superarm.errors import DataError
from superarm.studies import (
    ads,
    artists,
    beyond,
    calibration,
    explore,
    longest_path,
    returns,
    words,
)
from superarm.studies.longest_path import LongestPath
from superarm.studies.page import DPI, Picture, ReportTable, Section, write_page
from superarm.studies.report import regret_table, reproduce
from superarm.studies.study import Study


def cells(page):
    """What is in the cells of the tables of a page, line by line."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag == "tr":
                found.append([])
            if tag in ("td", "th"):
                found[-1].append("")

        def handle_data(self, data):
            if data.strip() and self.lasttag in ("td", "th"):
                found[-1][-1] += data

    Reader().feed(page)
    return found


def test_the_page_stands_alone(tmp_path):
    picture = tmp_path / "figure.png"
    Figure(figsize=(3, 2)).savefig(picture, dpi=DPI)
    claims = ReportTable("Paper", ("claim", "here"), [("<1>", "b & c")])
    table = ReportTable("Regret", ("learner", "regret"), [("A", "1 ± 2")])
    section = Section("An experiment", "2 replicates.", [table], [Picture(picture, "It > grows.")])
    nothing = ReportTable("Beyond", ("what",), [])
    write_page(tmp_path / "p.html", "Seed 0.", claims, [section, section], nothing, ["λ < 1"])
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert cells(page) == [
        ["claim", "here"],
        ["<1>", "b & c"],
        *[["learner", "regret"], ["A", "1 ± 2"]] * 2,
    ]
    assert base64.b64encode(picture.read_bytes()).decode() in page
    assert 'style="--inches: 3.00"' in page
    assert "<figcaption>It &gt; grows.</figcaption>" in page
    assert "<li>λ &lt; 1</li>" in page
    assert "Beyond" not in page
    assert "<link" not in page
    assert 'src="http' not in page


def test_any_run_has_a_table_of_regret_by_learner(tmp_path):
    study = Study(out=tmp_path, progress=False, replicates=4, episodes=8)
    run = partial(longest_path.run, m=3, d=4, learners=["RandomChoice", "CombLinTS"])
    made = reproduce(study, {"longest-path": run})
    (table,) = made.tables
    assert table.header == ("learner", "regret", "above the least (95 %)")
    assert [line[0] for line in table.rows] == ["CombLinTS", "RandomChoice"]
    assert cells(made.path.read_text(encoding="utf-8"))[1:] == [list(row) for row in table.rows]


def test_differences_in_the_table_are_paired():
    common = 1000 * np.arange(5.0)
    regrets = {"A": np.c_[common, common + 10], "B": np.c_[common, common + 13]}
    table = regret_table("", regrets, {"more": {"A": "a", "B": "b"}})
    assert table.rows == [
        ("A", "2,010 ± 710", "", "a"),
        ("B", "2,010 ± 710", "3.0 (3.0 to 3.0)", "b"),
    ]
    one = regret_table("", {"A": np.array([[3.0]]), "B": np.array([[2.0]])})
    assert one.header == ("learner", "regret")
    assert one.rows == [("B", "2.000"), ("A", "3.000")]


def test_every_experiment_has_its_words():
    assert set(words.TITLES) | {"all"} == set(EXPERIMENTS)
    assert set(words.READINGS) <= set(words.TITLES)


def test_without_matplotlib_there_is_a_report_without_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "superarm.figures", raising=False)
    monkeypatch.delattr("superarm.figures", raising=False)
    study = Study(out=tmp_path, progress=False, replicates=2, episodes=5)
    made = reproduce(study, {"longest-path": lambda study: longest_path.run(study, m=3, d=4)})
    assert made.path.exists()
    assert "pip install 'superarm[plot]'" in made.left_out[0]


def no_data(*args):
    raise DataError("no Last.fm here")


def test_all_goes_on_without_last_fm(tmp_path, monkeypatch):
    monkeypatch.setattr(artists, "catalogue", no_data)
    one = {"CombLinTS": returns.LEARNERS["CombLinTS"]}
    monkeypatch.setattr(returns, "LEARNERS", one)
    monkeypatch.setattr(returns, "OURS", {})
    problems = {"paths": (LongestPath(m=2, d=3), 10), "artists": explore.PROBLEMS["artists"]}
    monkeypatch.setattr(explore, "PROBLEMS", problems)
    monkeypatch.setattr(calibration, "IMPORTANCE", calibration.IMPORTANCE[:1])
    monkeypatch.setattr(calibration, "RATES", calibration.RATES[:1])
    calibrate = calibration.run
    monkeypatch.setattr(calibration, "run", lambda study, _: calibrate(study, 2))
    study = Study(out=tmp_path, progress=False, replicates=2, episodes=100)
    small = Study(out=tmp_path, progress=False, replicates=2, episodes=10)
    sweeps = {"m": [2, 3, 4], "d": [2, 3, 4]}
    runs = {
        "longest-path": lambda _: longest_path.run(small, m=3, d=4, sweeps=sweeps),
        "ads": ads.run,
        "artists": artists.run,
        "beyond": lambda _: beyond.run(small),
    }
    made = reproduce(study, runs)
    assert made.left_out == ["artists: no Last.fm here"]
    printed = [cell for table in made.tables for row in table.rows for cell in row]
    assert "ads: CombLinTS at 100 episodes" in printed
    assert "clicks: regret of CombLinTS with the logit link" in printed
    page = made.path.read_text(encoding="utf-8")
    for text in (*printed, page):
        assert "artist" not in text.lower()
    for name in ("longest-path", "longest-path-sweeps", "longest-path-bounds", "ads", "beyond"):
        assert html.escape(words.CAPTIONS[name]) in page
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
    assert set(explore.PROBLEMS) - set(explore.problems_at_hand()) == {"artists"}
    with pytest.raises(DataError, match="no Last"):
        reproduce(study, {"artists": artists.run})

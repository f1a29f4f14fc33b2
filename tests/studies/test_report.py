import base64
import sys

import pytest

from superarm.errors import DataError
from superarm.studies import ads, artists, beyond, explore, longest_path, returns
from superarm.studies.report import Row, as_text, reproduce, write_html
from superarm.studies.study import Study


def test_text_and_page(tmp_path):
    table = [Row("claim <1>", "a", "b", "agrees"), Row("two", "c", "d", "differs: by far")]
    lines = as_text(table).splitlines()
    assert len(lines) == 3
    assert lines[0].index("paper") == lines[1].index("a  ")
    assert as_text(table, table[:1]).splitlines()[4].startswith("beyond the paper")
    figure = tmp_path / "figure.png"
    figure.write_bytes(b"picture")
    ours = [Row("clicks", "linear: 9", "5", "")]
    write_html(tmp_path / "report.html", table, ours, [figure], ["artists: no data"], "Seed 0.")
    page = (tmp_path / "report.html").read_text()
    assert "claim &lt;1&gt;" in page
    assert base64.b64encode(b"picture").decode() in page
    assert "Left out: artists: no data" in page
    assert "<h2>Beyond the paper</h2>" in page
    assert "linear: 9" in page
    assert "32,561" in page
    assert "<link" not in page
    assert 'src="http' not in page


def test_without_matplotlib_there_is_a_report_without_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "superarm.figures", None)
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
    assert "ads: CombLinTS at 100 episodes" in made.tables
    assert "clicks: regret of CombLinTS with the logit link" in made.tables
    assert "artists" not in made.tables
    assert "no Last.fm here" in made.path.read_text()
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

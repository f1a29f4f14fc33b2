import base64

from superarm.studies.report import (
    Row,
    ads_rows,
    artists_rows,
    as_text,
    beyond_rows,
    is_papers_case,
    longest_path_rows,
    write_html,
)


def regret(mean, se=100.0, replicates=200):
    return {"regret": {"mean": mean, "se": se}, "replicates": replicates}


def returns(at_100, at_1000, se=0.01):
    return {"return_at": {"100": at_100, "1000": at_1000}, "return_at_se": {"100": se, "1000": se}}


SETTINGS = {
    "m": 30,
    "d": 200,
    "lam": 10.0,
    "sigma": 1.0,
    "c": 1.0,
    "episodes": 150,
    "replicates": 200,
}


def longest_path(**changes):
    content = {
        "settings": SETTINGS,
        "results": {"CombLinTS": regret(1.57e4)},
        "sweeps": {},
        "m=250": {},
    }
    return {**content, **changes}


def test_default_case():
    (row,) = longest_path_rows(longest_path())
    assert row == Row(
        row.what, "1.56e+04", "1.57e+04 ± 1e+02 (200 replicates)", "agrees: 1.0 standard errors"
    )
    (row,) = longest_path_rows(longest_path(results={"CombLinTS": regret(1.7e4)}))
    assert row.verdict == "differs: 14.0 standard errors"
    (row,) = longest_path_rows(longest_path(results={"CombLinTS": regret(1.7e4, se=None)}))
    assert row.verdict == "one replicate: no verdict"


def test_another_case_has_nothing_to_compare_with():
    other = longest_path(settings={**SETTINGS, "m": 20})
    assert list(longest_path_rows(other)) == []
    assert is_papers_case(longest_path())
    assert not is_papers_case(other)


def test_sweeps_and_the_largest_case():
    def points(*pairs):
        return [{"value": x, **regret(y)} for x, y in pairs]

    content = longest_path(
        sweeps={
            "m": {"CombLinTS": points((10, 1.0), (20, 2.0), (30, 3.1))},
            "d": {"CombLinTS": points((10, 3.0), (60, 2.0), (110, 9.0))},
            "sigma": {
                "CombLinTS": points((1e-7, 1.05), (1.0, 1.0)),
                "LiteralCombLinTS": points((1e-7, 15.0), (1.0, 1.0)),
            },
        },
        **{"m=250": {"CombLinTS": regret(6.5e4, 400.0, 20)}},
    )
    rows = list(longest_path_rows(content))
    assert [row.verdict for row in rows[1:]] == [
        "agrees: 1.5 standard errors",
        "agrees",
        "differs",
        "differs: the cliff is rounding",
        "agrees",
    ]


def test_ads():
    results = {
        "CombLinTS": returns(0.67, 0.79),
        "CombTS": returns(0.5, 0.5),
        "CombUCB1": returns(0.5, 0.7),
        "CombMixTS": returns(0.7, 0.95),
    }
    rows = list(ads_rows({"results": results}))
    assert [row.verdict for row in rows] == [
        "agrees within 5 points",
        "agrees within 5 points",
        "differs",
        "agrees",
    ]
    (ours,) = beyond_rows({"ads": {"results": results}})
    assert ours == Row(
        "ads: CombMixTS, all scales from the evidence at 1000 episodes",
        "CombLinTS: 79.0% ± 1.0%",
        "95.0% ± 1.0%",
        "",
    )
    assert rows[0].here == "67.0% ± 1.0%"
    results["CombLinTS"] = returns(0.5, 0.9)
    assert [row.verdict for row in ads_rows({"results": results})][:2] == ["differs", "differs"]


def test_artists():
    good = {
        "CombLinTS": returns(0.4, 0.6),
        "CombTS": returns(0.3, 0.4),
        "CombUCB1": returns(0.3, 0.3),
    }
    close = {**good, "CombTS": returns(0.3, 0.59)}
    bad = {**good, "CombTS": returns(0.3, 0.9)}
    rows = list(
        artists_rows({"results": good, "readings": {"user median": close, "global median": bad}})
    )
    assert [row.verdict for row in rows] == ["agrees", "no verdict: too few replicates", "differs"]
    assert "likes above the user median" in rows[1].what


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

"""Numbers that pages repeat are those of the page of the studies."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MEASURED = r"[\d.,]+ ?%? ± [\d.,]+ ?%?"


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def measured(text):
    """All estimates of a text with their standard errors, written alike."""
    return {found.replace(" ", "").rstrip(".,") for found in re.findall(MEASURED, text)}


def rows(text):
    """The rows of all tables of a text, as tuples of cells."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip(" *`") for cell in line.strip("|").split("|")) for line in lines]


STUDIES = page("docs/reproduction.md")


@pytest.mark.parametrize("name", ["docs/choosing.md", "README.md"])
def test_every_estimate_is_one_of_the_studies(name):
    found = measured(page(name))
    assert len(found) > 10
    assert not found - measured(STUDIES)


def test_the_readme_repeats_the_claims_as_they_are():
    claims = {row for row in rows(page("README.md")) if len(row) == 4}
    assert len(claims) > 10
    assert claims <= set(rows(STUDIES))


def test_thompson_sampling_and_ucb_have_the_numbers_of_their_rows():
    """The numbers of a comparison stand beside these learners in the tables of the studies."""
    at_the_end = {}
    for row in rows(STUDIES):
        at_the_end.setdefault(row[0], []).append(row[-1])
    thompson, ucb = at_the_end["CombLinTS"], at_the_end["CombLinUCB"]
    compared = {row[0]: row[1:] for row in rows(page("docs/choosing.md"))}
    assert compared["ads at 1,000 episodes"] == (thompson[0], ucb[0])
    assert compared["artists at 1,000 episodes"] == (thompson[1], ucb[1])


def test_the_example_prints_what_the_chart_says():
    (with_deviations, linear) = re.search(
        r"prints (\d+%), linear (\d+%)", page("docs/learners.md")
    ).groups()
    assert f"{with_deviations} instead of {linear}" in page("docs/choosing.md")


def test_the_best_fixed_exploration_runs_over_the_range_that_is_named():
    fixed = [float(row[3].split(":")[0]) for row in rows(STUDIES) if re.match(r"[\d.]+: ", row[-1])]
    assert len(fixed) > 10
    assert f"from {min(fixed):g} to {max(fixed):g}" in page("docs/choosing.md")

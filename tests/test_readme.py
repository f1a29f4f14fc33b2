"""The code in README, CONTRIBUTING and docs must run, and print what it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = (
    "README",
    "CONTRIBUTING",
    *sorted(f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")),
)
ELSEWHERE = ("docs/service",)
"""Pages whose code needs a server, and runs in tests of its own."""
STORIES = ("docs/agent", "docs/offline", "docs/simulation", "docs/tutorial")
"""Pages whose blocks build on each other, and run as one."""


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / f"{page}.md").read_text(), flags=re.DOTALL)


def run(code, name, namespace, capsys):
    exec(compile(code, name, "exec"), namespace)
    assert capsys.readouterr().out.splitlines() == re.findall(r"# prints (.*)", code), name


ALONE = [
    pytest.param(code, id=f"{page}-{i}")
    for page in PAGES
    if page not in STORIES + ELSEWHERE
    for i, code in enumerate(blocks(page))
]


@pytest.mark.parametrize("code", ALONE)
def test_block_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(code, "block", {}, capsys)


@pytest.mark.parametrize("page", STORIES)
def test_story_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for i, code in enumerate(blocks(page)):
        run(code, f"block {i}", namespace, capsys)
    assert namespace


def test_every_link_between_pages_leads_somewhere():
    """Pages of the reference are made when the site is built, and their links tried there."""
    for page in PAGES:
        path = ROOT / f"{page}.md"
        for target in re.findall(r"\]\((?!https?:|api/)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{page} links to {target}"


def test_no_merge_left_its_marks():
    for page in (*PAGES, "CHANGELOG"):
        lines = (ROOT / f"{page}.md").read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(("<<<<<<<", ">>>>>>>"))], page


def test_the_two_commands_are_there():
    assert "make demo" in README
    assert "make test" in README
    assert len(ALONE) >= 20

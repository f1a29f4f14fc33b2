"""CONTRIBUTING's walkthroughs, followed to the letter in a copy of the project."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("src", "tests", "docs", "benchmarks", "pyproject.toml", "conftest.py", "README.md")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def changes(page):
    """(file, lines before, lines after) of each hunk of the diffs on a page."""
    for block in re.findall(r"```diff\n(.*?)```", page, flags=re.DOTALL):
        for part in re.split(r"^\+\+\+ ", block, flags=re.MULTILINE)[1:]:
            path, *hunks = re.split(r"^@@\n", part, flags=re.MULTILINE)
            for hunk in hunks:
                lines = hunk.splitlines(keepends=True)
                yield (
                    path.strip(),
                    "".join(line[1:] for line in lines if line[0] == " "),
                    "".join(line[1:] for line in lines),
                )


CODE = sorted({path for path, *_ in changes(CONTRIBUTING) if path.startswith("src/")})
CHECKS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy": ["-m", "mypy", *CODE],  # with all that it imports: nothing else can see the changes
    "import layers": [
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ],
    "tests": [
        *("-m", "pytest", "-q", "--no-cov", "-p", "no:cacheprovider"),
        *("-k", "Jittered or Neighbours or neighbours or public_names"),
        *(
            "tests/test_learners.py",
            "tests/test_public_names.py",
            "tests/oracles/test_neighbours.py",
        ),
        *(
            "tests/agent/test_saving.py",
            "src/superarm/learners.py",
            "src/superarm/oracles/neighbours.py",
        ),
    ],
}


def follow(page, folder):
    """Make the changes; the lines around each must be in the file, once."""
    for path, before, after in changes(page):
        file = folder / path
        text = file.read_text() if file.exists() else ""
        assert before == "" or text.count(before) == 1, f"{path} has not, or twice: {before}"
        file.write_text(text.replace(before, after) if before else after)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=ignore)
        else:
            shutil.copy(source, folder / part)
    follow(CONTRIBUTING, folder)
    return folder


@pytest.mark.parametrize("check", CHECKS)
def test_the_walkthroughs_pass(check, copy):
    done = subprocess.run(
        [sys.executable, *CHECKS[check]],
        cwd=copy,
        env={"PYTHONPATH": str(copy / "src"), "PATH": "", "HOME": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_hunk_that_does_not_fit_is_noticed(tmp_path):
    (tmp_path / "file.py").write_text("a\nb\n")
    with pytest.raises(AssertionError, match="has not, or twice: c"):
        follow("```diff\n+++ file.py\n@@\n c\n+d\n```", tmp_path)
    follow("```diff\n+++ file.py\n@@\n a\n+x\n b\n```", tmp_path)
    assert (tmp_path / "file.py").read_text() == "a\nx\nb\n"

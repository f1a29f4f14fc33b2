"""The notebooks run from top to bottom; their last cells say what must have come out."""

import re
from pathlib import Path

import matplotlib
import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.md"))


@pytest.fixture(autouse=True)
def _no_window():
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    matplotlib.pyplot.close("all")
    matplotlib.use(before)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name):
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    cells = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", text, flags=re.DOTALL)
    assert "assert" in cells[-1]
    namespace = {}
    for i, cell in enumerate(cells):
        code = re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.DOTALL | re.MULTILINE)
        lines = [line for line in code.splitlines() if not line.startswith(("%", ":tags:"))]
        exec(compile("\n".join(lines), f"{name}, cell {i}", "exec"), namespace)


def test_there_are_three():
    assert NOTEBOOKS == ["belief", "clicks", "comparison"]

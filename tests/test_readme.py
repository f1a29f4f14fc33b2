"""The code in README, CONTRIBUTING and docs must run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = [
    pytest.param(code, id=f"{name}-{i}")
    for name in ("README", "CONTRIBUTING", "docs/oracles")
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / f"{name}.md").read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_block_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "block", "exec"), {})
    said = re.findall(r"# prints (.*)", code)
    assert capsys.readouterr().out.splitlines() == said


def test_the_two_commands_are_there():
    assert "make demo" in README
    assert "make test" in README
    assert len(BLOCKS) >= 13

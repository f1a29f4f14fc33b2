"""The commands and the code of docs/service.md, as they stand, against a real server."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
BIN = Path(sys.executable).parent


@pytest.fixture
def address(tmp_path):
    """A server in the folder that the page speaks of."""
    command = [sys.executable, "-m", "superarm", "serve", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("serving"):
            break
    yield re.search(r"http://[0-9.:]+", lines[-1])[0], re.search(r"sa_\S+", lines[0])[0]
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_commands_run_in_their_order(address, tmp_path):
    url, _ = address
    script = "set -euo pipefail\n" + "\n".join(blocks("bash")).replace("http://127.0.0.1:8000", url)
    path = f"{BIN}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"corrected":1' in done.stdout
    assert (tmp_path / "backup.db").exists()
    assert (tmp_path / "news.npz").exists()


def test_python_runs_and_prints_what_it_says(address, capsys):
    url, key = address
    (code,) = blocks("python")
    exec(code.replace("http://127.0.0.1:8000", url), {"key": key})
    assert capsys.readouterr().out.splitlines() == re.findall(r"# prints (.*)", code)

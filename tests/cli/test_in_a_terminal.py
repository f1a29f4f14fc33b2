"""What a person sees: the command line in a pseudo-terminal."""

import os
import re
import subprocess
import sys

import pytest

from support import run

pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
termios = pytest.importorskip("termios")

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SMALL = ["--m", "2", "--d", "3", "--episodes", "5", "--replicates", "2", "--workers", "1"]

UNWANTED = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}


COMPILING = """
import time
from superarm.arrays import compiled
from superarm.engine.local import create_engine
from superarm.engine.progress import progress_callback

def piece(x):
    compiled.SLOW = 0.01
    with compiled._logging_if_slow():
        time.sleep(0.6)

with create_engine(None, workers=2) as local, progress_callback(True, 4) as finished:
    for _ in local.map(piece, [(x,) for x in range(4)]):
        finished(1)
"""
"""Workers that wait as if they compiled, below a bar."""


def seen(*arguments, columns=80, stdout=None, start=("-m", "superarm"), **environment):
    """All that a command writes to a terminal so many letters wide; its standard output may go
    elsewhere.
    """
    here, there = pty.openpty()
    termios.tcsetwinsize(there, (24, columns))
    plain = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    process = subprocess.Popen(
        [sys.executable, *start, *arguments],
        stdin=there,
        stdout=stdout or there,
        stderr=there,
        env=plain | {"TERM": "xterm", "PYTHONUTF8": "1"} | environment,
    )
    os.close(there)
    parts = []
    with os.fdopen(here, "rb", buffering=0) as terminal:
        while part := _read(terminal):
            parts.append(part)
    process.wait()
    return b"".join(parts).decode()


def _read(terminal):
    try:
        return terminal.read(65536)
    except OSError:  # Linux: nobody writes there any more
        return b""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("shown") / "trace.npz"
    run(episodes=5, replicates=2).save(path)
    return path


def test_tables_fit_the_terminal(tmp_path):
    command = ["reproduce", "longest-path", *SMALL, "--out", str(tmp_path)]
    shown = seen(*command, columns=60)
    assert COLOUR.search(shown)
    table = ESCAPES.sub("", shown).partition("Longest")[2].partition("Report:")[0]
    lines = table.splitlines()
    assert max(map(len, lines[1:])) <= 60
    assert "━" in shown  # a bar
    assert "100 %" in shown
    assert "left" in shown


def test_a_terminal_of_ascii_gets_ascii(tmp_path):
    shown = seen("demo", *SMALL, "--out", str(tmp_path), PYTHONIOENCODING="ascii")
    assert shown.isascii()
    text = ESCAPES.sub("", shown)
    ends = {len(line.rstrip()) for line in text.splitlines() if "+/-" in line and "%" in line}
    assert len(ends) == 1  # columns are as wide as they look


def test_the_demo(tmp_path):
    shown = ESCAPES.sub("", seen("demo", *SMALL, "--out", str(tmp_path)))
    assert re.search(r"learner +regret R\(5\) +return / optimum", shown)
    assert "mean ± standard error over 2 replicates" in shown


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_if_they_are_not_wanted(tmp_path, environment):
    shown = seen("demo", *SMALL, "--out", str(tmp_path), **environment)
    assert "RandomChoice" in shown
    assert not COLOUR.search(shown)


def test_a_file_is_inspected(trace):
    shown = seen("inspect", str(trace))
    title, _, rest = shown.partition("\r\n")
    assert title.startswith("\x1b[1mLongestPath(m=3")
    assert "\x1b" not in rest


def test_an_error_has_the_name_of_the_command_in_colour(tmp_path):
    shown = seen("inspect", str(tmp_path / "none.npz"))
    assert COLOUR.search(shown)
    assert ESCAPES.sub("", shown).startswith("superarm: ")


def test_standard_output_in_a_file_holds_no_frame(tmp_path):
    """The bar is for the terminal; what is printed, for the file."""
    path = tmp_path / "printed.txt"
    with path.open("wb") as file:
        shown = seen("demo", *SMALL, "--out", str(tmp_path), stdout=file)
    assert "100 %" in shown
    assert "RandomChoice" not in shown
    printed = path.read_text(encoding="utf-8")
    assert "RandomChoice" in printed
    assert "\x1b" not in printed


def test_what_a_worker_says_has_a_line_of_its_own():
    """It takes the place of the bar, and is said once, whatever the number of workers."""
    shown = seen(start=("-c", COMPILING), columns=300)
    (line,) = [line for line in shown.split("\r\n") if "superarm compiles" in line]
    after = line.rpartition("\x1b[2K")[2]
    assert after.startswith("superarm compiles")
    assert after.endswith("does it ahead.")
    assert "100 %" in shown

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from superarm import Agent, CombLinTS, TopK, Trace, __version__, learners
from superarm.cli import main
from superarm.files import archive
from superarm.studies import demo
from superarm.studies.longest_path import SWEEPS
from support import run

TINY = ["--m", "3", "--d", "4", "--episodes", "8", "--replicates", "2", "--workers", "1"]
SMALL = ["--m", "2", "--d", "3", "--episodes", "5", "--replicates", "2", "--workers", "1"]


def test_demo(tmp_path, capsys):
    assert main(["demo", *SMALL, "--out", str(tmp_path / "deep" / "demo")]) == 0
    printed = capsys.readouterr()
    trace = Trace.load(tmp_path / "deep" / "demo" / "trace.npz")
    assert set(trace.learners) == set(learners.__all__)
    regret = {name: trace.regret(name)[:, -1].mean() for name in trace.learners}
    lines = [line.split()[0] for line in printed.out.splitlines() if "±" in line]
    assert lines[:-1] == sorted(regret, key=regret.get)
    assert printed.err == ""  # no frames of a bar into a file
    assert (tmp_path / "deep" / "demo" / "regret.png").read_bytes()[:4] == b"\x89PNG"
    assert str(tmp_path / "deep" / "demo" / "regret.png") in printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--episodes", "0"], "episodes must be a whole number of at least 1, got 0"),
        (["--replicates", "-3"], "replicates must be a whole number"),
        (["--m", "0"], "m must be a whole number"),
        (["--d", "0"], "d must be a whole number"),
        (["--seed", "-1"], "seed must be a whole number"),
        (["--workers", "0"], "workers must not be 0"),
    ],
)
def test_bad_settings_are_one_line_and_exit_code_2(tmp_path, capsys, arguments, message):
    assert main(["demo", *SMALL, *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_an_unwritable_folder_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["demo", *SMALL, "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("superarm: ")


def test_the_demo_needs_no_matplotlib(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "superarm.figures", None)
    assert main(["demo", *SMALL, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "RandomChoice" in printed
    assert "pip install 'superarm[plot]'" in printed
    assert (tmp_path / "trace.npz").exists()
    assert not (tmp_path / "regret.png").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONIOENCODING": "ascii",
        },
        {"PYTHONIOENCODING": "cp1252"},
    ],
)
def test_what_is_written_is_utf_8_and_what_is_printed_fits_the_terminal(tmp_path, environment):
    command = [sys.executable, "-m", "superarm", "reproduce", "longest-path", *TINY]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        capture_output=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    encoding = environment["PYTHONIOENCODING"]
    printed = done.stdout.decode(encoding)
    assert ("±" if encoding == "cp1252" else "+/-") in printed
    assert "\r" not in printed + done.stderr.decode(encoding)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "λ" in page
    assert page.rstrip().endswith("</html>")


def test_module_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "superarm", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"superarm {__version__}"


def test_interruption(monkeypatch, tmp_path, capsys):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "simulate", interrupt)
    assert main(["demo", *SMALL, "--out", str(tmp_path)]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_help_and_version(capsys):
    for arguments, expected in (
        (["--version"], __version__),
        (["--help"], "demo"),
        (["demo", "--help"], "example:"),
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
        assert expected in capsys.readouterr().out


def test_inspect(tmp_path, capsys):
    agent = Agent(CombLinTS(), features=np.eye(4), oracle=TopK(2), seed=0)
    agent.save(tmp_path / "agent.npz")
    assert main(["inspect", str(tmp_path / "agent.npz")]) == 0
    printed = capsys.readouterr().out
    assert "superarm agent, format version 1" in printed
    assert "learner: CombLinTS" in printed
    assert "features: float64 (4, 4)" in printed
    (tmp_path / "other.npz").write_text("not a file of ours")
    assert main(["inspect", str(tmp_path / "other.npz")]) == 2
    assert "not a superarm file" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "missing.npz")]) == 2
    trace = run(episodes=5, replicates=2)
    trace.save(tmp_path / "trace.npz")
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "trace.npz")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("LongestPath(m=3, d=4, lam=10.0, sigma=1.0, tau=0.0), 5 episodes")
    assert f"\n\n{trace}\n\nsuperarm trace, format version 1\n" in printed


def test_a_reader_may_leave_early(tmp_path):
    run(episodes=5, replicates=2).save(tmp_path / "trace.npz")
    with subprocess.Popen(
        [sys.executable, "-m", "superarm", "inspect", str(tmp_path / "trace.npz")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 0


def test_inspect_reads_the_file_once(tmp_path, monkeypatch):
    opened = []

    def open_file(path):
        opened.append(path)
        return original(path)

    Agent(CombLinTS(), features=np.eye(4), oracle=TopK(2), seed=0).save(tmp_path / "agent.npz")
    run(episodes=5, replicates=2).save(tmp_path / "trace.npz")
    original = archive.open_file
    monkeypatch.setattr(archive, "open_file", open_file)
    for name in ("agent.npz", "trace.npz"):
        assert main(["inspect", str(tmp_path / name)]) == 0
    assert opened == [tmp_path / "agent.npz", tmp_path / "trace.npz"]


def test_the_command_line_imports_no_plotting_and_no_studies():
    code = "import sys, superarm.cli; print({'matplotlib', 'superarm.studies'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_sweep_can_be_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    assert f"--sweep {{{','.join(SWEEPS)}}}" in capsys.readouterr().out


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_reproduce_longest_path(tmp_path, capsys):
    command = [
        "reproduce",
        "longest-path",
        *TINY,
        "--learner",
        "CombLinTS",
        "--learner",
        "RandomChoice",
    ]
    assert main([*command, "--sweep", "lambda", "--out", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "longest-path.json").read_text())
    assert set(content["results"]) == {"CombLinTS", "RandomChoice"}
    assert set(content["results"]["CombLinTS"]["regret"]) == {"mean", "se"}
    assert len(content["sweeps"]["lambda"]["CombLinTS"]) == 8
    assert (tmp_path / "report.html").exists()
    assert "report.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["longest-path", "--replicates", "-1"], "replicates must be a whole number"),
        (["longest-path", *TINY, "--learner", "Nobody"], "no learner 'Nobody'"),
        (["ads", "--m", "3"], "are for longest-path only"),
        (["ads", "--device", "cuda"], "--device is for longest-path only"),
        (["longest-path", "--m", "0"], "m must be a whole number"),
        (["longest-path", "--sigma", "-1"], "sigma must be a positive"),
    ],
)
def test_reproduce_refuses_in_one_line(tmp_path, capsys, arguments, message):
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_reproduce_on_a_device(tmp_path, capsys):
    pytest.importorskip("torch")
    command = [
        "reproduce",
        "longest-path",
        *TINY,
        "--learner",
        "CombLinTS",
        "--sweep",
        "sigma",
        "--out",
        str(tmp_path),
    ]
    assert main([*command, "--device", "cpu"]) == 0
    assert len(list((tmp_path / "traces").glob("* CombLinTS cpu.npz"))) == 12
    assert (
        len(list((tmp_path / "traces").glob("* LiteralCombLinTS.npz"))) == 12
    )  # which knows NumPy only
    assert (
        main(["reproduce", "longest-path", *TINY, "--device", "nowhere", "--out", str(tmp_path)])
        == 2
    )
    assert "device 'nowhere' is not available" in capsys.readouterr().err


def test_reproduce_refuses_an_unwritable_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["reproduce", "longest-path", *TINY, "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("superarm: ")


def test_reproduce_refuses_an_unknown_experiment(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["reproduce", "everything"])
    assert exit_.value.code == 2


def test_reproduce_interrupted_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("superarm.studies.study.traces", interrupt)
    assert main(["reproduce", "longest-path", *TINY, "--out", str(tmp_path)]) == 130
    assert "give the same command again to go on" in capsys.readouterr().err


def test_compile_says_how_far_it_is(capsys):
    assert main(["compile", "TopK", "CombTS"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["1/2", "TopK"], ["2/2", "CombTS"]]
    assert main(["compile", "Nothing"]) == 2
    assert "'Nothing' has nothing to compile" in capsys.readouterr().err

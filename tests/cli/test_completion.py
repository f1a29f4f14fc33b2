import os
import re
import select
import shutil
import subprocess
import time

import pytest

from superarm.cli import _parser, main
from superarm.cli.completion import SHELLS, script

INTERACTIVE = {
    "bash": "--norc --noprofile -i",
    "zsh": "-f -i",
    "fish": "--no-config -i",
}
PRINTED = {
    "bash": "superarm() { echo \"<$*>\"; }; PS1='ready> '",
    "zsh": "superarm() { echo \"<$*>\"; }; PS1='ready> '",
    "fish": 'function superarm; echo "<$argv>"; end; function fish_prompt; echo -n "ready> "; end',
}
"""What makes the command print its arguments, and the prompt easy to find."""
SECONDS = 60
"""That a shell may take on a busy machine."""

LINES = [
    ("superarm de", ["demo"]),
    ("superarm rep", ["reproduce"]),
    ("superarm log ", ["verify", "export", "compact"]),
    ("superarm log -", ["-h", "--help"]),
    ("superarm log ver", ["verify"]),
    ("superarm log export --form", ["--format"]),
    ("superarm log export --format ", ["jsonl", "parquet"]),
    ("superarm reproduce a", ["ads", "artists", "all"]),
    ("superarm reproduce longest-path --sweep s", ["sigma"]),
    ("superarm reproduce ads --rep", ["--replicates"]),
    ("superarm keys create --scope de", ["decide"]),
    ("superarm completion f", ["fish"]),
    ("superarm demo --work", ["--workers"]),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The path of the script of each shell."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / shell).write_text(script(_parser(), shell), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def bash(scripts):
    """What bash offers for a line that ends where TAB is pressed."""
    require("bash")

    def offered(line):
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {scripts / 'bash'}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            '_superarm; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return lines_of(["bash", "--norc", "-c", code])

    return offered


def require(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(("line", "offered"), LINES)
def test_bash(bash, line, offered):
    assert bash(line) == offered


@pytest.mark.parametrize(("line", "offered"), LINES)
def test_fish(scripts, line, offered):
    require("fish")
    code = f"source {scripts / 'fish'}; complete -C '{line}'"
    assert sorted(lines_of(["fish", "--no-config", "-c", code])) == sorted(offered)


def test_every_command_is_offered(bash, capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z]+)(?: |$)", capsys.readouterr().out, flags=re.MULTILINE)
    assert {"demo", "reproduce", "serve"} < set(commands)
    assert set(commands) == set(bash("superarm "))


def test_names_of_files_are_left_to_the_shell(bash):
    assert bash("superarm demo --out ") == []
    assert bash("superarm inspect ") == []
    assert bash("superarm nonsense --x") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_key_is_pressed(scripts, shell, tmp_path):
    """TAB in a real shell: a command, an option of a command below, a choice, a file."""
    require(shell)
    pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    (tmp_path / "unmistakable.npz").touch()
    with Shell(shell, scripts / shell) as typed:
        assert typed.ran("superarm de\t") == "demo"
        assert typed.ran("superarm log export --form\tpar\t") == "log export --format parquet"
        assert typed.ran("superarm reproduce lon\t--sweep lam\t") == (
            "reproduce longest-path --sweep lambda"
        )
        found = typed.ran(f"superarm inspect {tmp_path}/unmis\t")
        assert found == f"inspect {tmp_path}/unmistakable.npz"


class Shell:
    """An interactive shell that has read a script, in a terminal."""

    def __init__(self, shell, path):
        import pty
        import termios

        self._here, there = pty.openpty()
        termios.tcsetwinsize(there, (24, 400))  # so that no line is cut
        tty = os.ttyname(there)
        # a session that opens a terminal is controlled by it, as shells want to be
        command = f"exec {shell} {INTERACTIVE[shell]} <{tty} >{tty} 2>&1"
        self._process = subprocess.Popen(
            ["sh", "-c", command],
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(path.parent)},
        )
        self._there = there
        self._shown = ""
        read = f"cat {path} | source" if shell == "fish" else f'eval "$(cat {path})"'
        self._type(f"{PRINTED[shell]}; {read}; superarm begun\n")
        self._until("<begun>")
        assert "command not found" not in self._shown

    def ran(self, keys):
        """The arguments of the command that these keys and Enter run."""
        self._shown = ""
        self._type(f"{keys}\n")
        return self._until(r"<([^>]*)>")[1].strip()

    def _type(self, keys):
        os.write(self._here, keys.encode())

    def _until(self, pattern):
        """What matches in all that was shown since the last command."""
        end = time.monotonic() + SECONDS
        while (found := re.search(pattern, self._shown)) is None:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._here], [], [], max(left, 0))
            if not ready:
                pytest.fail(f"{pattern} was not shown, but {self._shown!r}")
            self._shown += os.read(self._here, 4096).decode(errors="replace")
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._here)
        os.close(self._there)


def test_the_command_prints_the_script(capsys):
    assert main(["completion"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("complete -o default -F _superarm superarm\n")
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["completion", "fish"]) == 0
    assert capsys.readouterr().out.endswith("complete -c superarm -f -a '(__superarm)'\n")

import re
import shutil
import subprocess

import pytest

from superarm.cli import main
from superarm.cli.completion import script

BASH = shutil.which("bash")


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """What bash offers for a line that ends where TAB is pressed."""
    if BASH is None:
        pytest.skip("bash is not installed")
    from superarm.cli import _parser

    path = tmp_path_factory.mktemp("completion") / "superarm.bash"
    path.write_text(script(_parser()), encoding="utf-8")

    def offered(line):
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {path}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _superarm; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            [BASH, "--norc", "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    return offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("superarm de", ["demo"]),
        ("superarm rep", ["reproduce"]),
        ("superarm log ", ["-h", "--help", "verify", "export", "compact"]),
        ("superarm log ver", ["verify"]),
        ("superarm log export --form", ["--format"]),
        ("superarm log export --format ", ["jsonl", "parquet"]),
        ("superarm reproduce a", ["ads", "artists", "all"]),
        ("superarm reproduce longest-path --sweep s", ["sigma"]),
        ("superarm reproduce ads --rep", ["--replicates"]),
        ("superarm keys create --scope de", ["decide"]),
        ("superarm demo --out ", []),
        ("superarm nonsense --x", []),
    ],
)
def test_bash(complete, line, offered):
    assert complete(line) == offered


def test_every_command_is_offered(complete, capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z]+)(?: |$)", capsys.readouterr().out, flags=re.MULTILINE)
    assert {"demo", "reproduce", "serve"} < set(commands)
    assert set(commands) < set(complete("superarm "))


def test_the_command_prints_the_script(capsys):
    assert main(["completion"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("complete -o default -F _superarm superarm\n")
    assert "bashcompinit" in printed  # of zsh

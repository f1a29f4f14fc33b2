"""What is missing is named, with the extra that brings it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from superarm.service.commands import NEEDED

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

USES = {
    "matplotlib": ("plot", "import superarm.figures"),
    "pandas": (
        "pandas",
        "from superarm.studies.study import Setting, blank; from superarm import RandomChoice; "
        "blank(Setting('', None, RandomChoice(), 3, 1)).to_pandas()",
    ),
    "pyvrp": (
        "routes",
        "import numpy as np; from superarm import Orienteering; "
        "Orienteering(np.ones((3, 2)), 9.0)(np.ones(3))",
    ),
    "torch": (
        "torch",
        "from superarm.simulation.lockstep import find_device; find_device('cuda')",
    ),
    "httpx": (
        "client",
        "from superarm.client import Client; Client('http://127.0.0.1:1', key='key')",
    ),
    "pooch": ("data", "from superarm.studies.datasets import lastfm; lastfm()"),
}


@pytest.mark.parametrize("package", USES)
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    monkeypatch.delenv("SUPERARM_DATA", raising=False)
    extra, code = USES[package]
    missing = f"import sys; sys.modules['{package}'] = None; {code}"
    done = subprocess.run(
        [sys.executable, "-c", missing],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"pip install 'superarm[{extra}]'" in done.stderr.splitlines()[-1]
    assert any(re.match(package, requirement) for requirement in EXTRAS[extra])


@pytest.mark.parametrize("package", NEEDED)
def test_the_service_names_what_it_lacks(package, monkeypatch, capsys, tmp_path):
    from superarm.cli import main

    monkeypatch.setitem(sys.modules, package, None)
    assert main(["keys", "list", "--data", str(tmp_path)]) == 2
    expected = f"superarm: the service needs {package}: pip install 'superarm[serve]'\n"
    assert capsys.readouterr().err == expected
    assert any(re.match(package, requirement) for requirement in EXTRAS["serve"])


def test_every_extra_that_is_named_exists():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for path in [*(ROOT / "src").rglob("*.py"), *pages]:
        named = re.findall(r'(?:superarm|"\.)\[([a-z,]+)\]', path.read_text(encoding="utf-8"))
        for extra in ",".join(named).split(","):
            assert extra in ("", *EXTRAS), path


BROUGHT = {
    "matplotlib": r"superarm\.figures",
    "networkx": r"import networkx",
    "pandas": r"import pandas",
    "pyvrp": r"(Orienteering|VehicleRoutes)\(",
}
"""What shows in code that it needs a package of the extra `examples`."""
KNOWN = {"superarm", "numpy", "scipy", *BROUGHT, *sys.stdlib_module_names}
GUIDES = sorted({path.stem for path in (ROOT / "docs").glob("*.md")} - {"cluster", "service"})
"""Clusters and the service have extras of their own."""


@pytest.mark.parametrize("name", GUIDES)
def test_guides_say_on_top_what_their_code_needs(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    assert set(re.findall(r"^(?:import|from) (\w+)", code, flags=re.MULTILINE)) <= KNOWN
    needed = any(re.search(shown, code) for shown in BROUGHT.values())
    assert ('pip install ".[examples]"' in text.split("\n## ")[0]) == needed


def test_the_examples_are_what_guides_may_need():
    parts = EXTRAS["examples"] + EXTRAS["pandas"] + EXTRAS["plot"] + EXTRAS["routes"]
    assert {re.match(r"\w+", part)[0] for part in parts} == {"superarm", *BROUGHT}

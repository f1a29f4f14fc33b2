"""What goes to other machines: the metadata, the README without a checkout, the workflow."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]


def readme():
    """The README as PyPI gets it."""
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    (fragment,) = hook["fragments"]
    text = (ROOT / fragment["path"]).read_text(encoding="utf-8")
    for change in hook["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    return text


def test_the_readme_of_pypi_leads_nowhere_in_the_repository():
    text = readme()
    assert "](docs/" in (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]*)\)", text):
        assert target.startswith(("https://", "#")), target
    assert "```python\nimport numpy as np\nfrom superarm import Agent" in text


def test_classifiers_name_the_versions_that_are_tested():
    project = PYPROJECT["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert named == VERSIONS
    assert project["requires-python"] == f">={VERSIONS[0]}"
    for address in project["urls"].values():
        assert address.startswith("https://")


def test_the_workflow_covers_systems_and_versions():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    matrix = jobs["check"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    assert matrix["python"] == jobs["windows"]["strategy"]["matrix"]["python"] == VERSIONS
    for job in jobs.values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            for folder in re.findall(r" (tests/\S+)", step.get("run", "")):
                assert (ROOT / folder).is_dir()

"""The reference leaves nothing public out, and says what the fields of records are."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import superarm

REFERENCE = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
NAMES = re.findall(r"^   (superarm\.[\w.]+)$", REFERENCE, flags=re.MULTILINE)
MODULES = (
    *("client", "errors", "learners", "offline", "oracles", "simulation", "slates", "testing"),
    "bounds",
)
"""Those of which a user may import everything that is public."""
SOME = {
    "beliefs.scales": ["Scales"],
    "contexts": ["Concatenated", "Outer", "hashed"],
    "figures": ["plot_explanation", "plot_regret"],
    "gaussian": ["Gaussian", "condition", "mean", "prior", "sample", "std"],
    "offline.positions": ["certain", "ips_by_position", "ips_by_examination"],
    "oracles.base": ["BaseOracle"],
    "simulation.palette": ["style_of", "styles_of"],
    "studies.ads": ["Ads"],
    "studies.artists": ["Artists"],
    "studies.clicks": ["Clicks"],
    "studies.drift": ["Drift"],
    "studies.explore": ["Deviating"],
    "studies.longest_path": ["LongestPath"],
    "studies.slates": ["Page", "Recommendation"],
}
"""Of other modules, these."""


def public_names(module):
    """What a module exports: its `__all__`, or the public classes and functions made in it."""
    found = importlib.import_module(f"superarm.{module}")
    if hasattr(found, "__all__"):
        return found.__all__
    return [
        name
        for name, thing in vars(found).items()
        if getattr(thing, "__module__", None) == found.__name__ and not name.startswith("_")
    ]


def find(name):
    """The class or function of a full name."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(name)


DOCUMENTED = [find(name) for name in NAMES]


def missing(module, names):
    found = importlib.import_module(module)
    things = {name: getattr(found, name) for name in names}
    return [
        name
        for name, thing in things.items()
        if not inspect.ismodule(thing) and thing not in DOCUMENTED
    ]


def test_everything_of_superarm_itself():
    assert not missing("superarm", set(superarm.__all__) - {"__version__"})


@pytest.mark.parametrize("module", MODULES)
def test_everything_of_a_module(module):
    assert not missing(f"superarm.{module}", public_names(module))


@pytest.mark.parametrize("module", SOME)
def test_what_is_for_users_of_a_module(module):
    assert not missing(f"superarm.{module}", SOME[module])


def test_no_name_is_there_twice():
    assert len(set(NAMES)) == len(NAMES)


RECORDS = [
    name
    for name in NAMES
    if inspect.isclass(find(name))
    and (issubclass(find(name), tuple) or hasattr(find(name), "__dataclass_fields__"))
]


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_of_a_record_is_explained(name):
    record = find(name)
    fields = (
        record._fields
        if issubclass(record, tuple)
        else [
            field.name
            for field in record.__dataclass_fields__.values()
            if field.init and "ClassVar" not in str(field.type)
        ]
    )
    documents = " ".join(base.__doc__ or "" for base in record.__mro__)
    missing = [
        field
        for field in fields
        if not re.search(rf"^ *{field}: |`{field}`", documents, flags=re.MULTILINE)
    ]
    assert not missing


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_docstring_and_an_annotation_of_what_it_returns(name):
    thing = find(name)
    assert thing.__doc__
    if inspect.isfunction(thing):
        assert "return" in thing.__annotations__

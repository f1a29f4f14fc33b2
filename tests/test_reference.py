"""The reference leaves nothing public out, and says what the fields of records are."""

import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import superarm

DOCS = Path(__file__).parent.parent / "docs"
SPEC = importlib.util.spec_from_file_location("returned", DOCS / "returned.py")
documented = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(documented)

REFERENCE = (DOCS / "api.md").read_text(encoding="utf-8")
SETTINGS = (DOCS / "conf.py").read_text(encoding="utf-8")
INSIDE = eval(re.search(r"^INSIDE = (\{.*?^\})", SETTINGS, flags=re.MULTILINE | re.DOTALL)[1])
"""What pages of the reference leave out."""
NAMES = re.findall(r"^   (superarm\.[\w.]+)$", REFERENCE, flags=re.MULTILINE)
MODULES = (
    *("client", "errors", "learners", "offline", "oracles", "simulation", "slates", "testing"),
    "bounds",
)
"""Those of which a user may import everything that is public."""
SOME = {
    "beliefs.hyperparameters": ["Hyperparameters"],
    "contexts": ["Concatenated", "Outer", "hashed"],
    "figures": ["plot_explanation", "plot_regret"],
    "gaussian": ["Gaussian", "condition", "mean", "prior", "sample", "std"],
    "offline.positions": ["certain", "ips_by_position", "ips_by_examination"],
    "oracles.base": ["BaseOracle"],
    "palette": ["style_of", "styles_of"],
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


def members(cls):
    """What a class of the reference shows: its public methods and properties, and its call."""
    for name in dir(cls):
        if name == "__call__" or not name.startswith("_"):
            yield name, inspect.getattr_static(cls, name, None)


def plain(member):
    """The function of a method, or None if it is something else or of another library."""
    function = getattr(member, "__func__", member)
    if not inspect.isfunction(function) or not function.__module__.startswith("superarm"):
        return None
    return function


def returns_something(function):
    return function.__annotations__.get("return") not in (None, "None")


FUNCTIONS = {name: find(name) for name in NAMES if inspect.isfunction(find(name))}
METHODS = {
    f"{name}.{member}": plain(found)
    for name in NAMES
    if inspect.isclass(find(name))
    for member, found in members(find(name))
    if plain(found) is not None and member not in INSIDE
}


def test_every_function_and_method_says_what_it_returns():
    assert len(FUNCTIONS) > 30
    assert len(METHODS) > 150
    silent = [
        name
        for name, function in (FUNCTIONS | METHODS).items()
        if returns_something(function)
        and not documented.returned(name.rsplit(".", 1)[-1], function.__doc__)
    ]
    assert not silent


def test_what_is_returned_has_no_colon():
    """Sphinx would take what stands before it for a type."""
    for name, function in (FUNCTIONS | METHODS).items():
        said = documented.returned(name.rsplit(".", 1)[-1], function.__doc__)
        assert ": " not in said.partition("\n")[2], name


def test_the_first_line_of_a_property_has_no_colon():
    """Sphinx would take what stands before it for a type."""
    for name in NAMES:
        if inspect.isclass(find(name)):
            for member, found in members(find(name)):
                text = (found.__doc__ or "") if isinstance(found, property) else ""
                assert text or not isinstance(found, property), (name, member)
                assert ":" not in text.split("\n")[0], (name, member)

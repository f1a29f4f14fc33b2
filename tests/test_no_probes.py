"""Models, learners and oracles answer for themselves: nobody asks for their class or attributes."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import superarm
from superarm.base_learner import BaseLearner
from superarm.contracts import Learner, Model, Oracle
from superarm.oracles.base import BaseOracle

SOURCE = Path(superarm.__file__).parent
DOORS = {
    ("contracts.py", "require_learner"),  # refuses what is no learner
    ("base_learner.py", "as_learner"),  # adapts a learner that does not inherit
    ("oracles/base.py", "as_oracle"),  # adapts a function or an oracle that does not inherit
    ("oracles/base.py", "_items"),  # of such an oracle
    ("testing.py", "check_oracle"),
}
"""Where things of users come in."""
PROBED = ("model", "learner", "oracle", "policy")


def classes():
    """The names of all models, learners and oracles of the package, and of their protocols."""
    names = {"Model", "Learner", "Oracle", "BaseLearner", "BaseOracle"}
    for package in ("beliefs", "oracles"):
        module = importlib.import_module(f"superarm.{package}")
        for info in pkgutil.iter_modules(module.__path__):
            if info.name in ("gpu", "sweep") or info.ispkg:  # which import Torch
                continue
            members = vars(importlib.import_module(f"superarm.{package}.{info.name}"))
            names |= {
                name
                for name, value in members.items()
                if inspect.isclass(value) and issubclass(value, (Model, BaseOracle))
            }
    learners = vars(importlib.import_module("superarm.learners"))
    names |= {
        name
        for name, value in learners.items()
        if inspect.isclass(value) and issubclass(value, BaseLearner)
    }
    return names


CLASSES = classes()


def probes(tree):
    """The function and the text of each probe of a module."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            text = ast.unparse(call)
            if call.func.id in ("getattr", "hasattr"):
                thing = ast.unparse(call.args[0]).rsplit(".", 1)[-1].lower()
                if thing in PROBED:
                    yield function.name, text
            if call.func.id == "isinstance":
                words = {node.id for node in ast.walk(call.args[1]) if isinstance(node, ast.Name)}
                if words & CLASSES:
                    yield function.name, text


def test_nobody_probes_models_learners_or_oracles():
    everything = {
        (path.relative_to(SOURCE).as_posix(), function, text)
        for path in SOURCE.rglob("*.py")
        for function, text in probes(ast.parse(path.read_text(encoding="utf-8")))
    }
    inside = {probe for probe in everything if probe[:2] not in DOORS}
    assert not inside


def test_probes_are_seen():
    code = "def f(learner):\n    return getattr(learner.model, 'x', 0), isinstance(learner, CombTS)"
    assert len(list(probes(ast.parse(code)))) == 2
    assert {"CombLinTS", "LinearModel", "TopK", "CheckedOracle", "Masked"} <= CLASSES
    assert Learner.__name__ in CLASSES
    assert Oracle.__name__ in CLASSES

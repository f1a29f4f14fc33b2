"""Learners and oracles in terms of JSON, from a list of those that are allowed: never code.

{"kind": "CombLinTS", "lam": "auto"}
{"kind": "TopK", "k": 3}
{"kind": "Quota", "groups": {"a": "f", "b": "m"}, "counts": {"f": 1, "m": 1}}
{"kind": "ShortestPath", "edges": [[0, 1], [1, 2]], "source": 0, "target": 2, "minimize": true}
"""

import dataclasses
import inspect
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from superarm import learners, oracles
from superarm.checks.tables import pandas_index
from superarm.contracts import Learner, Oracle
from superarm.errors import ParameterError, SuperarmError
from superarm.oracles import minimize
from superarm.oracles.base import as_oracle

LEARNERS = tuple(learners.__all__)
ORACLES = (
    "Assignment",
    "BipartiteMatching",
    "Budget",
    "DagPath",
    "GridPath",
    "GroupLimits",
    "Intervals",
    "Knapsack",
    "LaminarMatroid",
    "Milp",
    "Orienteering",
    "PartitionMatroid",
    "Quota",
    "ShortestPath",
    "Slate",
    "SpanningTree",
    "TopK",
    "Tour",
    "VehicleRoutes",
)
PER_ITEM = ("groups", "costs", "start", "end")
"""Parameters with one entry per item: lists in their order, or objects by id."""
PER_GROUP = ("counts", "minimum", "maximum", "capacities", "limits")
"""Parameters with one entry per group."""


class SpecError(ParameterError):
    """A description of a learner or an oracle that is none."""

    def __init__(self, detail: str, field: str) -> None:
        super().__init__(detail)
        self.field = field


def learner_of(spec: Any) -> Learner:
    """The learner that an object of JSON's describes.

    >>> from superarm.agent.specs import learner_of
    >>> learner_of({"kind": "CombLinTS", "lam": 1.0})
    CombLinTS(lam=1.0, sigma='auto', forgetting=1.0, link='identity')
    """
    kind, parameters = _parts(spec, "learner", LEARNERS)
    made: Any = getattr(learners, kind)
    names = [field.name for field in dataclasses.fields(made) if field.init]
    _require_known(parameters, names, kind, "learner")
    learner: Learner = _made(made, parameters, "learner")
    return learner


def of_learner(learner: Learner) -> dict[str, Any]:
    """The learner in terms of JSON.

    >>> from superarm import CombLinTS
    >>> from superarm.agent.specs import of_learner
    >>> of_learner(CombLinTS(sigma=0.5))["sigma"]
    0.5
    """
    kind = type(learner).__name__
    if kind not in LEARNERS or not isinstance(learner, getattr(learners, kind)):
        raise ParameterError(f"a service has the learners {', '.join(LEARNERS)}, not {learner}")
    parameters: dict[str, Any] = _plain(dataclasses.asdict(learner))
    return {"kind": kind} | parameters


def oracle_of(spec: Any, *, numbers: bool = False) -> Oracle:
    """The oracle that an object of JSON's describes.

    Args:
        spec: the object.
        numbers: whether the ids of the items are whole numbers, which as keys of an object of
            JSON's are text.

    >>> from superarm.agent.specs import oracle_of
    >>> oracle_of({"kind": "TopK", "k": 3})
    TopK(k=3, at_most=False)
    """
    kind, parameters = _parts(spec, "oracle", ORACLES)
    costs = parameters.pop("minimize", False)
    if not isinstance(costs, bool):
        raise SpecError("minimize is true or false", "/oracle/minimize")
    made: Any = getattr(oracles, kind)
    _require_known(parameters, list(inspect.signature(made).parameters), kind, "oracle")
    for name in PER_ITEM:
        if isinstance(parameters.get(name), dict) and kind != "LaminarMatroid":
            parameters[name] = _by_id(parameters[name], numbers, name)
    labels = _labels(parameters.get("groups"))
    for name in PER_GROUP:
        if isinstance(parameters.get(name), dict):
            parameters[name] = {labels.get(key, key): n for key, n in parameters[name].items()}
    found = _made(made, parameters, "oracle")
    return minimize(found) if costs else found


def of_oracle(oracle: Any) -> dict[str, Any]:
    """The oracle in terms of JSON, with the arguments that it was made from.

    >>> from superarm import TopK
    >>> from superarm.agent.specs import of_oracle
    >>> of_oracle(TopK(3))
    {'kind': 'TopK', 'k': 3}
    """
    solver = as_oracle(oracle)
    if solver.sense == -1 and solver.inner is not None:
        return of_oracle(solver.inner) | {"minimize": True}
    kind = type(solver).__name__
    if kind not in ORACLES:
        raise ParameterError(f"a service has the oracles {', '.join(ORACLES)}, not {oracle!r:.100}")
    given, named = solver.arguments
    bound = inspect.signature(type(solver)).bind(*given, **named)
    found = {"kind": kind}
    for name, value in bound.arguments.items():
        by_key = name in PER_ITEM + PER_GROUP
        in_order = not by_key and pandas_index(value) is not None and not hasattr(value, "columns")
        found[name] = _plain(value.to_numpy() if in_order else value)
    return found


def _parts(spec: Any, what: str, allowed: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """The kind that a spec names, and its parameters."""
    if not isinstance(spec, Mapping):
        raise SpecError(f'a {what} is an object such as {{"kind": "{allowed[0]}"}}', f"/{what}")
    parameters = dict(spec)
    kind = parameters.pop("kind", None)
    if kind not in allowed:
        raise SpecError(
            f"the kind of {what} must be one of {', '.join(allowed)}, got {kind!r:.60}",
            f"/{what}/kind",
        )
    return kind, parameters


def _require_known(given: Mapping[str, Any], known: list[str], kind: str, what: str) -> None:
    for name in given:
        if name not in known:
            raise SpecError(
                f"{kind} has no parameter {name!r:.60}, but {', '.join(known)}",
                f"/{what}/{name[:60]}",
            )


def _made(made: Any, parameters: dict[str, Any], what: str) -> Any:
    """What a class makes of parameters that came from outside."""
    try:
        return made(**parameters)
    except SuperarmError as error:
        raise SpecError(f"{what}: {error}", f"/{what}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SpecError(
            f"{what}: {made.__name__} cannot be made of these ({str(error)[:200]})", f"/{what}"
        ) from error


def _by_id(values: Mapping[str, Any], numbers: bool, name: str) -> dict[Any, Any]:
    """Values by the ids of the items."""
    if not numbers:
        return dict(values)
    found = {}
    for key, value in values.items():
        found[as_number(key, f"/oracle/{name}")] = value
    return found


def as_number(key: str, field: str) -> int:
    """A whole number that was the key of an object of JSON's."""
    digits = key.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18 or str(int(key)) != key:
        raise SpecError(f"the items are whole numbers, but a key is {key!r:.60}", field)
    return int(key)


def _labels(groups: Any) -> dict[str, Any]:
    """The labels of the groups, by what they are as the key of an object of JSON's."""
    values = groups.values() if isinstance(groups, dict) else groups
    found: dict[str, Any] = {}
    for label in values if isinstance(values, Collection) else ():
        for one in label if isinstance(label, list) else [label]:
            if isinstance(one, int | float):
                found[json.dumps(one)] = one
    return found


def _plain(value: Any) -> Any:
    """A value in terms of JSON."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    elif pandas_index(value) is not None and not hasattr(value, "columns"):
        value = value.to_dict()  # a pandas Series goes by its index
    elif hasattr(value, "to_numpy") and not hasattr(value, "columns"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        found = {_key(key): _plain(one) for key, one in value.items()}
        if len(found) < len(value):
            raise ParameterError(f"two keys of {value!r:.100} are the same in JSON: rename one")
        return found
    if isinstance(value, list | tuple | set | frozenset):
        listed = value if isinstance(value, list | tuple) else sorted(value, key=str)
        return [_plain(one) for one in listed]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ParameterError(f"{value!r:.100} cannot be sent to a service: only numbers and text can")


def _key(key: Any) -> str:
    """The key of an object of JSON's: text as it is, numbers and truth values as JSON has them."""
    plain = _plain(key)
    if isinstance(plain, list | dict):
        raise ParameterError(f"{key!r:.100} cannot be sent to a service: ids are numbers or text")
    return plain if isinstance(plain, str) else json.dumps(plain)

"""What users give, in terms of JSON: checked as `Agent` checks it, by name wherever there are
names.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from superarm.agent.catalogue import Catalogue, is_collection
from superarm.agent.feedback import importance_of, many
from superarm.agent.ids import as_ids
from superarm.agent.specs import of_learner, of_oracle
from superarm.arrays import is_sparse
from superarm.checks import as_numbers, check_features, check_feedback, is_real
from superarm.checks.tables import Table, as_mapping
from superarm.client.replies import RemoteDecision
from superarm.contexts import InContext, kind_of
from superarm.errors import (
    DecisionError,
    FeaturesError,
    ItemsError,
    MaskError,
    ParameterError,
    WeightsError,
)

TAKEN = ("whole numbers", "text")
"""The kinds of ids that a service takes."""


def address(name: Any) -> str:
    """The address of an agent.

    >>> from superarm.client.sent import address
    >>> address("news")
    '/v1/agents/news'
    """
    if not (isinstance(name, str) and re.fullmatch("[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name)):
        raise ParameterError(
            "the name of an agent has up to 100 letters, digits, points, dashes and underscores, "
            f"got {name!r:.120}"
        )
    return f"/v1/agents/{name}"


def learner(given: Any) -> Any:
    """A learner in terms of JSON; None and what is so already as it is."""
    return given if given is None or isinstance(given, Mapping) else of_learner(given)


def oracle(given: Any) -> Any:
    """An oracle in terms of JSON; None and what is so already as it is."""
    return given if given is None or isinstance(given, Mapping) else of_oracle(given)


def duration(given: Any) -> Any:
    """A time in seconds, or as text that the service reads."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    if given is None or isinstance(given, str):
        return given
    if is_real(given):
        return float(given)
    raise ParameterError(f'a time is a timedelta, seconds, or such as "30 min", got {given!r:.60}')


def default(given: Any) -> Any:
    """The feedback that is taken for granted."""
    if given is None:
        return None
    if not (
        isinstance(given, Mapping) and "after" in given and given.keys() <= {"after", "weight"}
    ):
        raise ParameterError(
            'a default is such as {"after": timedelta(minutes=30), "weight": 0.0}, '
            f"got {given!r:.100}"
        )
    weight = check_feedback([given.get("weight", 0.0)], 1, "default")
    return {"after": duration(given["after"]), "weight": float(weight[0])}


def ids(given: Any) -> list[Any]:
    """Ids of items, of which a service takes whole numbers and text."""
    return _taken(Catalogue(as_ids(given)))


def _taken(catalogue: Catalogue) -> list[Any]:
    if catalogue.L and catalogue.kind not in TAKEN:
        raise ItemsError(
            f"the ids of a service's items are whole numbers or text, not {catalogue.kind}: "
            "give them as text"
        )
    found: list[Any] = catalogue.ids.tolist()
    return found


def items(features: Any, given: Any, constraints: Any = None) -> dict[str, Any]:
    """Items with their features: ids as given, else the index of a data frame, else 0..L-1."""
    table = Table.of(features)
    if isinstance(features, InContext):
        table = Table(features.rows, features.ids, features.item_names)
    if is_sparse(table.values):
        raise FeaturesError("a service takes no sparse features: give them filled, or fewer")
    rows = check_features(table.values)
    if rows.ndim != 2:
        raise FeaturesError(f"features must be 2-D, (items, features), got shape {rows.shape}")
    catalogue = Catalogue(table.ids if given is None else given, rows.shape[0], table.names)
    found = {"items": _taken(catalogue), "features": rows.astype(np.float64).tolist()}
    names = None if table.names is None else list(table.names)
    return found | without_none(names=names, oracle=oracle(constraints))


def context_names(given: Any, features: Any) -> Any:
    """How features are made of a context: from its names, or as the features given were made."""
    if given is None and isinstance(features, InContext):
        if features.x_names is None:
            raise FeaturesError("the features of a context need names: give it as a mapping")
        return {"kind": kind_of(features), "names": list(features.x_names)}
    if given is None or isinstance(given, Mapping):
        return given
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise FeaturesError(
            f"a context is created by the names of its features, got {given!r:.100}"
        )
    return {"kind": "outer", "names": list(given)}


def context(given: Any) -> Any:
    """A context by name, or as a list of numbers in the order of its names."""
    if given is None:
        return None
    by_name = as_mapping(given, FeaturesError)
    try:
        x = as_numbers(given if by_name is None else list(by_name.values()))
    except ValueError as error:
        raise FeaturesError(f"a context must be a flat list of numbers ({error})") from error
    if x.ndim != 1 or not np.isfinite(x).all():
        raise FeaturesError(f"a context must be a flat list of finite numbers, got {given!r:.200}")
    if by_name is None:
        return x.tolist()
    return dict(zip(map(str, by_name), x.tolist(), strict=True))


def available(given: Any) -> Any:
    """The ids of the items to choose from."""
    if given is None:
        return None
    if not is_collection(given):
        raise MaskError("available is a collection of ids here: give those that are available")
    return ids(given if hasattr(given, "tolist") else list(given))


# --- feedback -------------------------------------------------------------------------------------


def feedback(name: str, decisions: Any, weights: Any, importance: Any) -> dict[str, Any]:
    """Feedback on a decision of an agent or its id, or on a list of such."""
    if isinstance(decisions, RemoteDecision | str):
        return _seen(name, decisions, weights, importance)
    if not isinstance(decisions, Sequence):
        raise DecisionError(
            f"feedback is on a decision, its id, or a list of such; got {decisions!r:.100}"
        )
    if not isinstance(weights, Sequence | np.ndarray) or len(weights) != len(decisions):
        raise WeightsError(
            f"{len(decisions)} decisions need a list of as many weights: numbers or a mapping each"
        )
    shares = many(len(decisions), importance)
    each = zip(decisions, weights, shares, strict=True)
    return {"feedback": [_seen(name, *one) for one in each]}


def _seen(name: str, decision: Any, weights: Any, importance: Any) -> dict[str, Any]:
    """What was observed of one decision."""
    if not isinstance(decision, RemoteDecision | str):
        raise DecisionError(f"a decision is what decide returned, or its id; got {decision!r:.100}")
    if isinstance(decision, RemoteDecision) and decision.agent != name:
        raise DecisionError(f"this decision is of agent {decision.agent!r}, not of {name!r}")
    some = as_mapping(weights)
    values = weights if some is None else list(some.values())
    listed = _items_of(decision, values) if some is None else _named(decision, list(some))
    w = check_feedback(values, len(listed), "item")
    found: dict[str, Any] = {"weights": w.tolist()}
    if importance is not None:
        share = importance_of(importance, listed, w)
        found["importance"] = np.asarray(share).tolist()
    if some is not None:
        keys = [str(item) for item in listed]
        found = {what: dict(zip(keys, each, strict=True)) for what, each in found.items()}
    return {"decision": decision if isinstance(decision, str) else decision.id} | found


def _items_of(decision: RemoteDecision | str, values: Any) -> list[Any]:
    """The items of a decision; of its id alone, as many as there are values."""
    if isinstance(decision, str):
        return list(range(np.size(values)))
    return list(decision.items)


def _named(decision: RemoteDecision | str, given: list[Any]) -> list[Any]:
    """The items that weights are given by, which must be some of the decision's."""
    if isinstance(decision, str):
        return ids(given)
    chosen = Catalogue(decision.items)
    named: list[Any] = chosen.ids_of(chosen.positions(given)).tolist()
    return named


def without_none(**given: Any) -> dict[str, Any]:
    """What is given, without what is None."""
    return {name: value for name, value in given.items() if value is not None}

"""Learners and constraints in words."""

from collections.abc import Callable, Mapping
from typing import Any

MOST = 5
"""Groups that are named; of more, how many there are."""
LEARNERS = {
    "CombGaussianTS": "Thompson sampling per item, normal weights",
    "CombLinTS": "linear Thompson sampling",
    "CombLinUCB": "linear upper confidence bounds",
    "CombMixTS": "Thompson sampling by features and items' own deviations",
    "CombMixUCB": "upper confidence bounds by features and items' own deviations",
    "CombTS": "Thompson sampling per item, weights in [0, 1]",
    "CombUCB1": "upper confidence bounds per item",
    "Greedy": "the best by what is known, without exploration",
    "RandomChoice": "random choice",
}

Spec = Mapping[str, Any]


def learner_words(spec: Spec) -> str:
    """A learner in words, with those of its parameters that were given.

    >>> from superarm.service.dashboard.words import learner_words
    >>> learner_words({"kind": "CombLinTS", "lam": 1.0, "sigma": "auto"})
    'CombLinTS: linear Thompson sampling (lam 1)'
    """
    kind = str(spec["kind"])
    given = [f"{name} {_value(value)}" for name, value in spec.items() if _tells(name, value)]
    text = f"{kind}: {LEARNERS.get(kind, 'a learner')}"
    return f"{text} ({', '.join(given)})" if given else text


def _tells(name: str, value: Any) -> bool:
    """Whether a parameter of a learner is another than usual."""
    if name == "kind" or (name == "forgetting" and value == 1):
        return False
    return value not in ("auto", "identity", None, False)


def constraint_words(spec: Spec, items: int) -> str:
    """A constraint in words.

    Args:
        spec: the oracle in terms of JSON.
        items: how many there are to choose from.

    >>> from superarm.service.dashboard.words import constraint_words
    >>> constraint_words({"kind": "TopK", "k": 3}, 60)
    '3 of 60 items'
    >>> quota = {"kind": "Quota", "groups": ["f", "m"], "total": 10, "minimum": {"f": 5}}
    >>> constraint_words(quota, 60)
    "10 of 60 items: at least 5 of 'f'"
    """
    kind = str(spec["kind"])
    say = _WORDS.get(kind)
    text = f"{kind} over {items:,} items" if say is None else say(spec, items)
    return f"{text}, at the least cost" if spec.get("minimize") else text


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)[:60]
    return f"{value:,g}"


def _listed(parts: list[str]) -> str:
    """Some parts, and how many more there are."""
    if len(parts) > MOST:
        parts = [*parts[:MOST], f"and {len(parts) - MOST:,} more"]
    return ", ".join(parts)


def _each(word: str, numbers: Any) -> list[str]:
    """Numbers by group; or one for all."""
    if numbers is None:
        return []
    if not isinstance(numbers, Mapping):
        return [f"{word} {_value(numbers)} of each group"]
    found = []
    for label, n in numbers.items():
        found.append(f"{word} {_value(n)} of {label[:60]!r}".strip())
    return found


def _most_items(spec: Spec) -> list[str]:
    most = spec.get("max_items")
    return [] if most is None else [f"at most {most:,} items"]


def _top(spec: Spec, items: int) -> str:
    text = f"{spec['k']:,} of {items:,} items"
    return f"at most {text}" if spec.get("at_most") else text


def _slate(spec: Spec, items: int) -> str:
    return f"{spec['k']:,} of {items:,} items, in an order"


def _quota(spec: Spec, items: int) -> str:
    counts = spec.get("counts")
    if counts is not None:
        return f"{sum(counts.values()):,} of {items:,} items: {_listed(_each('', counts))}"
    parts = _each("at least", spec.get("minimum")) + _each("at most", spec.get("maximum"))
    text = f"{spec.get('total'):,} of {items:,} items"
    return f"{text}: {_listed(parts)}" if parts else text


def _partition(spec: Spec, items: int) -> str:
    return f"of {items:,} items {_listed(_each('at most', spec['capacities']))}"


def _limits(spec: Spec, items: int) -> str:
    parts = _most_items(spec) + _each("at most", spec["limits"])
    return f"of {items:,} items {_listed(parts)}"


def _knapsack(spec: Spec, items: int) -> str:
    parts = [f"costs of at most {_value(spec['budget'])}", *_most_items(spec)]
    return f"of {items:,} items {_listed(parts)}"


def _budget(spec: Spec, items: int) -> str:
    parts = [f"costs of at most {_value(spec['budget'])}", *_most_items(spec)]
    return f"of {items:,} items {_listed(parts + _each('at most', spec.get('maximum')))}"


def _laminar(spec: Spec, items: int) -> str:
    sets = len(spec["sets"])
    return f"of {items:,} items at most so many of each of {sets:,} sets, nested or apart"


def _intervals(spec: Spec, items: int) -> str:
    return _listed([f"of {items:,} items some that do not overlap in time", *_most_items(spec)])


def _path(spec: Spec, items: int) -> str:
    return f"a path from {spec['source']!s:.60} to {spec['target']!s:.60} over {items:,} edges"


def _grid(spec: Spec, items: int) -> str:
    return f"a path over a grid of {items:,} edges"


def _milp(spec: Spec, items: int) -> str:
    rows = len(spec["b"]) if isinstance(spec.get("b"), list) else 1
    return _listed([f"of {items:,} items a set within {rows:,} inequalities", *_most_items(spec)])


def _orienteering(spec: Spec, items: int) -> str:
    return f"stops of {items:,} on a trip at most {_value(spec['max_length'])} long"


_WORDS: dict[str, Callable[[Spec, int], str]] = {
    "Assignment": lambda spec, _: (
        f"each of {spec['n_rows']:,} rows with one of {spec['n_cols']:,} columns, each once"
    ),
    "BipartiteMatching": lambda _, items: f"pairs of two sides that share no end, of {items:,}",
    "Budget": _budget,
    "DagPath": _path,
    "GridPath": _grid,
    "GroupLimits": _limits,
    "Intervals": _intervals,
    "Knapsack": _knapsack,
    "LaminarMatroid": _laminar,
    "Milp": _milp,
    "Orienteering": _orienteering,
    "PartitionMatroid": _partition,
    "Quota": _quota,
    "ShortestPath": _path,
    "Slate": _slate,
    "SpanningTree": lambda spec, items: (
        f"a spanning {'forest' if spec.get('forest') else 'tree'} of {items:,} edges"
    ),
    "TopK": _top,
    "Tour": lambda spec, _: f"a tour through {spec['n_cities']:,} cities",
    "VehicleRoutes": lambda spec, _: (
        f"routes of {len(spec['capacities']):,} vehicles to {len(spec['demands']):,} stops"
    ),
}

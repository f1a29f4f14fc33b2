"""The fields of a decision record, read as input: what is too long, repeated or of another type
raises a TypeError or a ValueError.
"""

import re
import reprlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from superarm.arrays import Array, Features
from superarm.checks import first_repeated, is_whole
from superarm.checks.tables import Names
from superarm.contexts import KINDS, remade

SEED_BITS = 53
MOST_SEEDS = 2**SEED_BITS
"""Seeds lie below this, so that they survive JSON readers whose numbers are floats."""
LONGEST_RECORD = 2**24
"""Characters of a record."""
LONGEST_ID = 200
"""Characters of the id of a decision."""
LONGEST_TEXT = 1000
"""Characters of the id of an item, or of the name of a feature."""
MOST_ITEMS = 100_000
"""Items of a decision."""


def as_list(value: Any, most: int) -> list[Any]:
    """A list, which some readers of JSON make a tuple."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{reprlib.repr(value)} is not a list")
    if len(value) > most:
        raise ValueError(f"a list has {len(value)} entries, where {most} are allowed")
    return list(value)


def as_text(value: Any, most: int = LONGEST_TEXT) -> str:
    """A text without NUL."""
    if not isinstance(value, str):
        raise TypeError(f"{reprlib.repr(value)} is not text")
    if len(value) > most or "\0" in value:
        raise ValueError(f"{reprlib.repr(value)} holds NUL or has more than {most} characters")
    return value


def as_whole(value: Any) -> int:
    """A whole number of 64 bits, which some readers of JSON make a float or a Decimal."""
    if not _is_number(value):
        raise TypeError(f"{reprlib.repr(value)} is not a number")
    if not -(2**63) <= value < 2**63 or int(value) != value:
        raise ValueError(f"{reprlib.repr(value)} is not a whole number of 64 bits")
    return int(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, float | Decimal):
        return True
    return is_whole(value)


def as_seed(value: Any) -> int:
    """A seed of a decision."""
    seed = as_whole(value)
    if not 0 <= seed < MOST_SEEDS:
        raise ValueError(f"{seed} is not a seed")
    return seed


def as_count(value: Any) -> int | None:
    """How many draws there were, if that is known."""
    if value is None:
        return None
    count = as_whole(value)
    if count < 1:
        raise ValueError(f"{count} is not a number of draws")
    return count


def as_signature(value: Any) -> str | None:
    """A signature in hexadecimal digits, if there is one."""
    if value is None:
        return None
    if re.fullmatch("[0-9a-f]{64}", as_text(value)) is None:
        raise ValueError("its signature is none")
    return str(value)


def as_items(values: Any) -> tuple[Any, ...]:
    """The ids of the chosen items, each once."""
    items = tuple(as_item(x) for x in as_list(values, MOST_ITEMS))
    if len({type(item) for item in items}) > 1:
        raise TypeError("its items have ids of different types")
    if len(set(items)) < len(items):
        raise ValueError(f"item {first_repeated(items)!r:.100} is repeated")
    return items


def as_item(value: Any) -> Any:
    """The id of one item, which `ids.to_json` wrote."""
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, list | tuple):
        return tuple(as_item(part) for part in as_list(value, LONGEST_TEXT))
    if isinstance(value, Mapping):
        if value.keys() != {"uuid"}:
            raise ValueError(f"{reprlib.repr(value)} is no id")
        return UUID(as_text(value["uuid"]))
    return as_whole(value)


def as_names(values: Any) -> Names:
    """The names of the features, each once, if they have any."""
    if values is None:
        return None
    names = tuple(as_text(name) for name in as_list(values, LONGEST_RECORD))
    if len(set(names)) < len(names):
        raise ValueError(f"feature {first_repeated(names)!r:.100} is there twice")
    return names


def as_propensity(values: Any, n: int) -> tuple[float, ...] | None:
    """Probabilities above 0, one per item, if there are any."""
    if values is None:
        return None
    listed = as_list(values, MOST_ITEMS)
    if len(listed) != n:
        raise ValueError(f"it has {len(listed)} propensities for {n} items")
    for p in listed:
        if not _is_number(p) or not 0 < p <= 1:
            raise TypeError(f"{reprlib.repr(p)} is not a probability above 0")
    return tuple(float(p) for p in listed)


def read_features(values: Any, n: int) -> Features:
    """The features of n items: rows of numbers, or what a context and the items made."""
    if not isinstance(values, Mapping):
        return as_rows(values, n)
    made = KINDS[as_text(values["kind"])]
    left = made.side(as_rows(values["items"], n))
    x = as_rows([values["context"]], 1)[0]
    d_i = left.shape[1] - made.ones
    names = [as_names(values["context_names"]), as_names(values["item_names"])]
    for found, size in zip(names, (len(x), d_i), strict=True):
        if n and found is not None and len(found) != size:
            raise ValueError(f"it names {len(found)} of {size} features")
    return remade(made, left, x, *names)


def as_rows(values: Any, n: int) -> Array:
    """The features, one finite row per item."""
    listed = as_list(values, MOST_ITEMS)
    if len(listed) != n:
        raise ValueError(f"it has {len(listed)} rows of features for {n} items")
    for row in listed:
        if not all(_is_number(x) for x in as_list(row, LONGEST_RECORD)):
            raise TypeError("its features are not numbers")
    rows = np.array(listed, dtype=np.float64)
    if not n:
        rows = rows.reshape(0, 0)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError("its features are not one finite row per item")
    return rows

"""Ids of items: all whole numbers, all text, all UUIDs, or all tuples of such. They survive files
and JSON, and are looked up by what they are: 5.0 and True are not the item 5.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import numpy as np

from superarm.agent.fields import LONGEST_TEXT, as_item
from superarm.arrays import Array
from superarm.checks import is_whole, require_unmasked
from superarm.errors import ItemsError
from superarm.files import archive

WANTED = "all whole numbers, all text, all UUIDs or all tuples of such"


def kind(item: Any) -> str:
    """What an id is, in words; the name of its type if it is none.

    >>> kind(7), kind("seven"), kind((1, "a")), kind(7.0), kind((1, 2.5))
    ('whole numbers', 'text', 'tuples', 'float', 'tuple of float')
    """
    if is_whole(item):
        return "whole numbers"
    if isinstance(item, str):
        return "text"
    if isinstance(item, UUID):
        return "UUIDs"
    if not isinstance(item, tuple):
        return type(item).__name__
    for part in item:
        if kind(part) not in KINDS:
            return f"tuple of {kind(part)}"
    return "tuples"


KINDS = ("whole numbers", "text", "UUIDs", "tuples")


def as_ids(given: Any, of: str = "items") -> Array:
    """Ids as an array (L,): of int64, or of objects."""
    array = given.to_numpy() if hasattr(given, "to_numpy") else given
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "i":
        numbers: Array = _unmasked(array, of).astype(np.int64)
        return numbers
    listed = as_list(array, of)
    kinds = {kind(item) for item in _telling(listed)}
    if len(kinds) > 1 or not kinds <= set(KINDS):
        raise ItemsError(f"ids of {of} must be {WANTED}, got {', '.join(sorted(kinds))}")
    if kinds <= {"whole numbers"}:
        try:
            return np.array(listed, dtype=np.int64)
        except OverflowError as error:
            raise ItemsError(f"ids of {of} must fit into 64 bits ({error})") from error
    plain = [_plain(item, of) for item in listed]
    return objects(plain)


def _telling(listed: list[Any]) -> list[Any]:
    """As many of the ids as tell the kinds of all: one is enough where all are of a type that is of
    one kind alone.
    """
    types = set(map(type, listed))
    return listed[:1] if len(types) == 1 and types <= {int, str, UUID} else listed


def objects(listed: list[Any]) -> Array:
    """A list as a flat array of objects, also where these are tuples."""
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _plain(item: Any, of: str) -> Any:
    """An id in Python's own types."""
    if isinstance(item, str):
        if "\0" in item or len(item) > LONGEST_TEXT:
            raise ItemsError(
                f"ids of {of} must not hold the character NUL, nor more than "
                f"{LONGEST_TEXT} characters: {item!r:.60}"
            )
        return str(item)
    if isinstance(item, tuple):
        if len(item) > LONGEST_TEXT:
            raise ItemsError(f"ids of {of} must not have more than {LONGEST_TEXT} parts")
        return tuple(_plain(part, of) for part in item)
    if not is_whole(item):
        return item
    if not -(2**63) <= item < 2**63:
        raise ItemsError(f"ids of {of} must fit into 64 bits, got {item}")
    return int(item)


def as_list(items: Any, of: str = "items") -> list[Any]:
    """A list, array, index or series as a list. Text alone is no list, and a set has no order."""
    listed = None
    if not isinstance(items, str | bytes | set | frozenset) and not _is_table(items):
        items = _unmasked(items, of)
        try:
            listed = items.tolist() if hasattr(items, "tolist") else list(items)
        except TypeError as error:
            raise ItemsError(f"{of} must be a flat list ({error})") from error
    if not isinstance(listed, list):
        raise ItemsError(f"{of} must be a flat list, got {items!r:.100}")
    return listed


def _is_table(items: Any) -> bool:
    """Whether this is a data frame, which as a list would be the names of its columns."""
    return hasattr(items, "columns") and hasattr(items, "shape")


def _unmasked(items: Any, of: str) -> Any:
    try:
        return require_unmasked(items)
    except ValueError as error:
        raise ItemsError(f"{of} must be known ({error})") from error


# --- in files and JSON ----------------------------------------------------------------------------


def to_json(item: Any) -> Any:
    """An id in terms of JSON: tuples become lists, and a UUID an object that says so.

    >>> to_json(("a", 7))
    ['a', 7]
    """
    if isinstance(item, tuple):
        return [to_json(part) for part in item]
    if isinstance(item, UUID):
        return {"uuid": str(item)}
    return int(item) if is_whole(item) else item


def packed(ids: Array) -> dict[str, Array]:
    """Ids as an array for a file; `unpacked` reads them back."""
    if ids.dtype != object:
        return {"items": ids}
    listed: Iterable[Any] = ids.tolist()
    if all(isinstance(item, str) for item in listed):
        return {"items": archive.pack_texts(listed)}
    return {"items.json": archive.pack_texts(json.dumps(to_json(item)) for item in listed)}


def unpacked(arrays: Mapping[str, Array], L: int | None = None) -> Any:
    """The ids of the L items in a file; None if it has none."""
    if "items.json" in arrays:
        texts = archive.unpack_texts(arrays["items.json"], L)
        return [as_item(json.loads(text)) for text in texts]
    ids = arrays.get("items")
    if ids is None or ids.dtype != np.uint8:
        return ids
    return archive.unpack_texts(ids, L)

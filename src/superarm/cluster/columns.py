"""Columns of a catalogue in shards: the kind of their entries, and which entries are asked for."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_array, is_whole, require_unmasked
from superarm.checks.tables import require_unlabelled
from superarm.errors import FeaturesError, MaskError, ParameterError

KINDS = {
    "b": "truth values",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "numbers",
    "U": "text",
    "S": "bytes",
    "M": "dates without time zones",
    "m": "durations",
}
LEVELS = {"b": 0, "i": 1, "u": 1, "f": 2}
"""Of numbers: a column holds entries of its own level, and of those below."""
WIDEST = {"i": np.dtype(np.int64), "u": np.dtype(np.uint64)}
"""The types in which entries of columns of whole numbers are added, saved and asked for."""
STORED = {"b": np.uint8, "M": np.int64, "m": np.int64}
"""How entries are saved for whose types files of arrays have none."""


def kind_of(dtype: Any) -> str:
    """What entries of this type are, in words.

    >>> import numpy as np
    >>> from superarm.cluster.columns import kind_of
    >>> kind_of(np.dtype(bool))
    'truth values'
    """
    return KINDS.get(dtype.kind, "objects")


def as_column(values: Any) -> Array:
    """The entries in an array, of text only if all of them are; a ValueError if none holds them."""
    given = as_array(values)
    if given.dtype.kind == "U" and isinstance(values, list | tuple):
        given = np.array(values, dtype=object)  # as NumPy has made text of all other entries
    if given.dtype.kind == "f" and isinstance(values, list | tuple) and all(map(is_whole, values)):
        given = _of_64_bits(values)  # as NumPy has rounded them
    if given.dtype.kind == "T":
        given = given.astype(object)
    if given.dtype.kind == "O" and all(isinstance(entry, str) for entry in given.flat):
        return given.astype(str)
    return _as_moments(given) if given.dtype.kind == "O" else given


def _as_moments(objects: Array) -> Array:
    """Dates without time zones, or durations, in the finest unit of them; what else there is, or
    where that unit has no room for all, the objects themselves.
    """
    for kind in "Mm":
        if objects.ndim == 1 and objects.size and _are_moments(objects, np.dtype(f"{kind}8")):
            unit = np.result_type(*{_moment(value, kind).dtype for value in objects})
            entries, fit = _moments(objects, unit)
            return entries if fit.all() else objects
    return objects


def _of_64_bits(values: Iterable[Any]) -> Array:
    """Whole numbers as uint64, the only type that may hold them; else a ValueError."""
    try:
        return np.array([int(value) for value in values], dtype=np.uint64)
    except OverflowError as error:
        raise ValueError("int64 cannot hold all of the whole numbers, nor can uint64") from error


def joint_types(types: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """By column, the type that holds the entries of all shards, which must be of one kind."""
    shards = list(types)
    found = {}
    for name in shards[0]:
        each = [shard[name] for shard in shards]
        first = each[0]
        for i, dtype in enumerate(each):
            if not _are_like(dtype, first):
                raise FeaturesError(
                    f"column {name!r} holds {kind_of(first)} in shard 0, and {kind_of(dtype)} in "
                    f"shard {i}: give one kind in all shards"
                )
        found[name] = np.result_type(*each)
        if found[name].kind == "f" and all(dtype.kind in "biu" for dtype in each):
            several = " and ".join(sorted({str(dtype) for dtype in each}))
            raise FeaturesError(
                f"column {name!r} holds whole numbers of {several}, which no type of whole numbers "
                "can hold together: give one type in all shards"
            )
    return found


def _are_like(a: Any, b: Any) -> bool:
    """Whether entries of two types can be equal."""
    are_numbers = a.kind in LEVELS and b.kind in LEVELS
    return are_numbers or kind_of(a) == kind_of(b)


def added_columns(columns: Any, n: int, types: Mapping[str, Any]) -> dict[str, Array]:
    """The entries of n new items in all columns, each of the column's kind."""
    if not isinstance(columns, Mapping):
        raise ParameterError(f"columns must be a mapping by name, got {columns!r:.100}")
    if set(columns) != set(types):
        raise MaskError(f"each item needs an entry in each of the columns {tuple(types)}")
    return {name: _added(name, columns[name], n, dtype) for name, dtype in types.items()}


def _added(name: str, values: Any, n: int, dtype: Any) -> Array:
    require_unlabelled(f"entries of column {name!r}", values, MaskError)
    is_wide = dtype.kind == "f" and dtype.itemsize > 8
    if dtype.kind not in KINDS or is_wide:
        raise MaskError(
            f"column {name!r} is of {dtype}, and no file can hold what is added to it: make the "
            "agent with numbers, text, bytes, dates or durations"
        )
    try:
        column = as_column(values)
    except ValueError as error:
        raise MaskError(f"column {name!r} needs a flat list of entries ({error})") from error
    if column.shape != (n,):
        raise MaskError(
            f"column {name!r} needs one entry for each of {n} items, got shape {column.shape}"
        )
    one_by_one = _are_moments(column, dtype)
    above = LEVELS.get(column.dtype.kind, 0) > LEVELS.get(dtype.kind, 0)
    is_like = not above and _are_like(column.dtype, dtype)
    if not one_by_one and not is_like:
        raise MaskError(f"column {name!r} holds {kind_of(dtype)}, got {kind_of(column.dtype)}")
    entries, fit = _moments(column, dtype) if one_by_one else _held(column, dtype)
    if not fit.all():
        at = fit.argmin()
        raise MaskError(
            f"column {name!r} is of {dtype}, which cannot hold entry {at}, {column[at]}: leave it "
            "out, or make the agent with a column of another type"
        )
    return entries


def _are_moments(column: Array, dtype: Any) -> bool:
    """Whether these are objects that a column of dates or durations can have."""
    are_objects = column.dtype.kind == "O" and dtype.kind in "Mm"
    return are_objects and all(_may_be_in(value, dtype) for value in column)


def _moments(values: Iterable[Any], dtype: Any) -> tuple[Array, Array]:
    """Dates or durations as a column of this type holds them, and which of them it can hold; one by
    one, as a unit for all of them may have no room for some.
    """
    held = [_held(_moment(value, dtype.kind), dtype) for value in values]
    entries = np.array([entry for entry, _ in held], dtype=dtype)
    return entries, np.array([fits for _, fits in held], dtype=bool)


def _moment(value: Any, kind: str) -> Array:
    """A date or a duration as NumPy's, with the nanoseconds of pandas, which NumPy cuts off."""
    exact = getattr(value, "to_datetime64" if kind == "M" else "to_timedelta64", None)
    return np.asarray(value if exact is None else exact(), dtype=kind)


def _held(given: Array, dtype: Any) -> tuple[Array, Array]:
    """Entries as a column of this type holds them, and which of them it can hold. Whole numbers may
    be wider than those of the column, as text may; other numbers are rounded.
    """
    if dtype.kind in WIDEST:
        entries = given.astype(WIDEST[dtype.kind])
        return entries, (entries < 0) == (given < 0)  # of what does not fit, the sign changes
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            entries = given.astype(dtype)
        return entries, ~np.isinf(entries) | np.isinf(given)
    if dtype.kind in "Mm":
        entries = given.astype(dtype)
        return entries, (entries.astype(given.dtype) == given) | np.isnat(given)
    return given, np.ones(given.shape, bool)


def as_where(where: Any, types: Mapping[str, Any]) -> dict[str, Array]:
    """By column, the values of which items must have one."""
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise ParameterError(
            "where must be a mapping from columns to values, as {'country': ['at', 'de']}, got "
            f"{where!r:.100}"
        )
    for name in where:
        if name not in types:
            known = ", ".join(map(str, types)) or "none"
            raise MaskError(f"there is no column {name!r} to choose by, but: {known}")
    return {name: _wanted(name, wanted, types[name]) for name, wanted in where.items()}


def _wanted(name: str, wanted: Any, dtype: Any) -> Array:
    try:
        values = (
            list(require_unmasked(wanted)) if _is_collection(wanted) else [require_unmasked(wanted)]
        )
    except ValueError as error:
        raise ParameterError(f"column {name!r}: where needs known values ({error})") from error
    for value in values:
        if not _may_be_in(value, dtype):
            raise ParameterError(
                f"column {name!r} holds {kind_of(dtype)}: where needs one of them or a flat "
                f"collection of them, got {value!r:.100} of type {type(value).__name__}"
            )
    if dtype.kind in WIDEST:
        return _whole(values, WIDEST[dtype.kind])
    if dtype.kind == "f":
        return np.array(values, dtype=np.promote_types(dtype, np.float64))
    if dtype.kind in "Mm":
        moments, fit = _moments(values, dtype)
        return moments[fit]
    if dtype.kind == "O" or not values:
        return np.array(values, dtype=dtype)
    return np.array(values)


def _whole(values: Iterable[Any], dtype: Any) -> Array:
    """Those of the numbers that a column of this type can hold."""
    limits = np.iinfo(dtype)
    numbers = (np.asarray(value).item() for value in values)
    inside = (number for number in numbers if limits.min <= number <= limits.max)
    return np.array([int(number) for number in inside if number % 1 == 0], dtype=dtype)


def are_in(wanted: Array, column: Array) -> Array:
    """(m,) bool: which entries of a column are wanted, if only as it has rounded them."""
    if column.dtype.kind == "f":
        rounded, fit = _held(wanted, column.dtype)
        wanted = rounded[fit]
    return np.isin(column, wanted)


def _is_collection(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _may_be_in(value: Any, dtype: Any) -> bool:
    """Whether a column of this type can have this entry."""
    if _is_collection(value) or isinstance(value, Mapping) or value is np.ma.masked:
        return False
    if dtype.kind == "O":
        return True
    if dtype.kind in "Mm" and isinstance(value, date | timedelta):
        has_zone = getattr(value, "tzinfo", None) is not None
        return isinstance(value, date if dtype.kind == "M" else timedelta) and not has_zone
    return _are_like(np.asarray(value).dtype, dtype)


# --- in files -------------------------------------------------------------------------------------


def packed(column: Array) -> Array:
    """The entries as numbers or text, for a file; `unpacked` reads them back."""
    if column.dtype.kind in STORED:
        return column.astype(STORED[column.dtype.kind])
    return np.strings.decode(column, "latin-1") if column.dtype.kind == "S" else column


def unpacked(array: Array, dtype: str | None) -> Array:
    """The entries in a file that had this type; None if they have it still."""
    kind = "" if dtype is None else np.dtype(dtype).kind
    if kind in STORED:
        return array.astype(dtype)
    return np.strings.encode(array, "latin-1") if kind == "S" else array

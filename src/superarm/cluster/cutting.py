"""A catalogue in files or arrays, cut into shards."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from superarm.checks import as_array, require_count
from superarm.checks.tables import require_in_order
from superarm.cluster.columns import as_column
from superarm.cluster.shards import Source, opened
from superarm.decide import PART
from superarm.errors import FeaturesError, FileError, ParameterError


def cut(features: Any, shards: int | None = None) -> list[Source]:
    """One source per shard: the entries of a list, or as many pieces of a single file or array, cut
    at multiples of `PART` rows if there are enough of them.

    >>> import numpy as np
    >>> from superarm.cluster.cutting import cut
    >>> [(source.start, source.stop) for source in cut(np.zeros((10, 2)), shards=3)]
    [(0, 3), (3, 7), (7, 10)]
    """
    if shards is not None:
        require_count(shards=shards)
    if not isinstance(features, list | tuple):
        table = _table(features)
        L = len(_checked(table, None))
        return [Source(table, *ends) for ends in _pieces(L, shards or 1)]
    if shards is not None:
        raise ParameterError("shards= is for a single file or array; a list has one per shard")
    if not features:
        raise FeaturesError("a catalogue needs at least one file or array of features")
    tables = [_table(one) for one in features]
    first = _checked(tables[0], None)
    return [Source(table, 0, len(_checked(table, first))) for table in tables]


def _pieces(L: int, n: int) -> list[tuple[int, int]]:
    if not 1 <= n <= L:
        raise ParameterError(f"shards must be from 1 to {L}, the number of items, got {n!r}")
    unit = PART if 2 * n * PART <= L else 1
    ends = [round(i * L / n / unit) * unit for i in range(n)] + [L]
    return list(pairwise(ends))


def _table(given: Any) -> Any:
    """The path or the array of features."""
    if isinstance(given, str | Path):
        return Path(given).absolute()  # nodes resolve relative ones against folders of their own
    require_in_order("features", given, FeaturesError)
    try:
        return as_array(given)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error


def _checked(table: Any, like: Any) -> Any:
    """The rows in a file or array; refused if they are not like those of the first."""
    rows = opened(table)
    name = str(table) if isinstance(table, Path) else "an array of features"
    error = FileError if isinstance(table, Path) else FeaturesError
    if rows.ndim != 2 or not rows.size or rows.dtype not in (np.float32, np.float64):
        raise error(
            f"{name} must hold features as float32 or float64 of shape (items, features), got "
            f"{rows.dtype} of shape {rows.shape}"
        )
    if like is not None and (rows.shape[1], rows.dtype) != (like.shape[1], like.dtype):
        raise error(
            f"{name} has {rows.shape[1]} features of {rows.dtype}, and the first shard "
            f"{like.shape[1]} of {like.dtype}"
        )
    return rows


def cut_columns(
    columns: Mapping[str, Any] | None, sources: Sequence[Source], listed: bool
) -> list[dict[str, Source]]:
    """The columns of each shard, cut as the features are: listed per shard, or in one piece."""
    if columns is None:
        return [{} for _ in sources]
    if not isinstance(columns, Mapping):
        raise ParameterError(
            f"columns must be a mapping from names to files or arrays, got {columns!r:.100}"
        )
    found: list[dict[str, Source]] = [{} for _ in sources]
    for name, given in columns.items():
        if not (isinstance(name, str) and name.isprintable()):
            raise ParameterError(f"names of columns must be printable text, got {name!r:.100}")
        tables = _by_shard(name, given, sources) if listed else _whole(name, given, sources)
        for own, table, source in zip(found, tables, sources, strict=True):
            own[name] = Source(table, source.start, source.stop)
    return found


def _by_shard(name: str, given: Any, sources: Sequence[Source]) -> list[Any]:
    """A column for each shard."""
    tables = given if isinstance(given, list | tuple) else [given]
    if len(tables) != len(sources):
        raise FeaturesError(
            f"column {name!r} needs one file or array per shard, {len(sources)}, got {len(tables)}"
        )
    pairs = zip(tables, sources, strict=True)
    return [_column(name, table, source.stop) for table, source in pairs]


def _whole(name: str, given: Any, sources: Sequence[Source]) -> list[Any]:
    """One column that all shards share."""
    return [_column(name, given, sources[-1].stop)] * len(sources)


def _column(name: str, given: Any, n: int) -> Any:
    """The path or the array of a column, refused if it does not have n entries."""
    is_file = isinstance(given, str | Path)
    require_in_order(f"entries of column {name!r}", given, FeaturesError)
    try:
        table = Path(given).absolute() if is_file else as_column(given)
    except ValueError as error:
        raise FeaturesError(f"column {name!r} needs a flat list of entries ({error})") from error
    shape = opened(table).shape
    if shape != (n,):
        raise (FileError if is_file else FeaturesError)(
            f"{table if is_file else 'an array'} has shape {shape} where column {name!r} needs one "
            f"entry for each of {n} items"
        )
    return table

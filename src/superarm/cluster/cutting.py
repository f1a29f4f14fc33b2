"""A catalogue in files or arrays, cut into shards."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from superarm.checks import as_array, require_count
from superarm.checks.tables import require_unlabelled
from superarm.cluster.columns import as_column
from superarm.cluster.shards import Source, opened
from superarm.errors import FeaturesError, FileError, ParameterError
from superarm.oracles.base import CHUNK_ITEMS


def cut(features: Any, shards: int | None = None) -> list[Source]:
    """One source per shard: the entries of a list, or as many pieces of a single file or array, cut
    at multiples of `CHUNK_ITEMS` rows if there are enough of them.

    >>> import numpy as np
    >>> from superarm.cluster.cutting import cut
    >>> [len(source.rows()) for source in cut(np.zeros((10, 2)), shards=3)]
    [3, 4, 3]
    """
    if shards is not None:
        require_count(shards=shards)
    if not isinstance(features, list | tuple):
        whole = _checked(_table(features), None)
        return [whole.cut(*ends) for ends in _pieces(whole.stop, shards or 1)]
    if shards is not None:
        raise ParameterError("shards= is for a single file or array; a list has one per shard")
    if not features:
        raise FeaturesError("a catalogue needs at least one file or array of features")
    tables = [_table(one) for one in features]
    first = _checked(tables[0], None)
    return [_checked(table, first) for table in tables]


def _pieces(L: int, n: int) -> list[tuple[int, int]]:
    if not 1 <= n <= L:
        raise ParameterError(f"shards must be from 1 to {L}, the number of items, got {n!r}")
    unit = CHUNK_ITEMS if 2 * n * CHUNK_ITEMS <= L else 1
    ends = [round(i * L / n / unit) * unit for i in range(n)] + [L]
    return list(pairwise(ends))


def _table(given: Any) -> Any:
    """The path or the array of features."""
    if isinstance(given, str | Path):
        return Path(given).absolute()  # nodes resolve relative ones against folders of their own
    require_unlabelled("features", given, FeaturesError)
    try:
        return as_array(given)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error


def _checked(table: Any, like: Source | None) -> Source:
    """All rows of a file or array; refused if they are not like those of the first."""
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
    return Source(table, 0, len(rows), rows.shape, rows.dtype)


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
    sizes = [source.stop - source.start for source in sources]
    found: list[dict[str, Source]] = [{} for _ in sources]
    for name, given in columns.items():
        if not (isinstance(name, str) and name.isprintable()):
            raise ParameterError(f"names of columns must be printable text, got {name!r:.100}")
        by_shard = _by_shard(name, given, sizes) if listed else _pieces_of(name, given, sizes)
        for own, source in zip(found, by_shard, strict=True):
            own[name] = source
    return found


def _by_shard(name: str, given: Any, sizes: Sequence[int]) -> list[Source]:
    """A column for each shard."""
    tables = given if isinstance(given, list | tuple) else [given]
    if len(tables) != len(sizes):
        raise FeaturesError(
            f"column {name!r} needs one file or array per shard, {len(sizes)}, got {len(tables)}"
        )
    return [_column(name, table, n) for table, n in zip(tables, sizes, strict=True)]


def _pieces_of(name: str, given: Any, sizes: Sequence[int]) -> list[Source]:
    """One column for all shards, cut."""
    whole = _column(name, given, sum(sizes))
    return [whole.cut(*ends) for ends in pairwise(accumulate(sizes, initial=0))]


def _column(name: str, given: Any, n: int) -> Source:
    """All entries of a column, refused if they are not n."""
    is_file = isinstance(given, str | Path)
    require_unlabelled(f"entries of column {name!r}", given, FeaturesError)
    try:
        table = Path(given).absolute() if is_file else as_column(given)
    except ValueError as error:
        raise FeaturesError(f"column {name!r} needs a flat list of entries ({error})") from error
    entries = opened(table)
    if entries.shape != (n,):
        raise (FileError if is_file else FeaturesError)(
            f"{table if is_file else 'an array'} has shape {entries.shape} where column {name!r} "
            f"needs one entry for each of {n} items"
        )
    return Source(table, 0, n, entries.shape, entries.dtype)

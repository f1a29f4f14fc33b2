"""A catalogue in files or arrays, cut into shards."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from superarm.checks import require_count
from superarm.cluster.shards import Source, opened
from superarm.decide import PART
from superarm.errors import FeaturesError, FileError, ParameterError


def cut(features: Any, shards: int | None = None) -> list[Source]:
    """One source per shard: of a list its entries, of a single file or array as many pieces, at
    multiples of `PART` rows if there are enough of them.

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
    return Path(given) if isinstance(given, str | Path) else np.asarray(given)


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


def cut_columns(columns: Mapping[str, Any], sources: Sequence[Source]) -> list[dict[str, Source]]:
    """The columns of each shard, cut as its features are."""
    found: list[dict[str, Source]] = [{} for _ in sources]
    one = len({id(source.table) for source in sources}) == 1 and len(sources) > 1
    for name, given in columns.items():
        tables = [given] * len(sources) if one else given
        if not one and not isinstance(given, list | tuple):
            tables = [given]
        if len(tables) != len(sources):
            raise FeaturesError(
                f"column {name!r} needs one file or array per shard, {len(sources)}, got "
                f"{len(tables)}"
            )
        for own, table, source in zip(found, tables, sources, strict=True):
            column = _table(table)
            if one and len(opened(column)) != sources[-1].stop:
                raise FileError(f"column {name!r} needs one entry for each item")
            own[name] = Source(column, source.start, source.stop)
    return found

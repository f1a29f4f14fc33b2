"""Parquet files a row group at a time: each becomes a few numbers, whoever reads it.

A piece of a log is a pure function of its file, row group and columns, and pieces are merged in an
order that does not depend on who is done first. So results are the same to the bit on one core, on
many, and on a cluster.
"""

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.errors import DataError, ParameterError, SuperarmError

BUFFER = 2**20
"""Bytes of a column that are read at a time."""
BATCH = 2**16
"""Rows to hold at a time."""


class Columns(NamedTuple):
    """Which columns of a table mean what."""

    features: tuple[str, ...]
    weight: str
    item: str | None = None

    @property
    def all(self) -> list[str]:
        """All of their names."""
        named = [*self.features, self.weight]
        return named if self.item is None else [*named, self.item]


class Part(NamedTuple):
    """A row group of a file."""

    path: str
    group: int
    rows: int


class Batch(NamedTuple):
    """Some rows of a log."""

    Phi: Array  # (n, d)
    w: Array  # (n,)
    codes: Array  # (n,) which of the labels the item of each row is; empty if items do not matter
    labels: list[Any]


def pyarrow() -> Any:
    """The package, which only those need who have logs."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise ParameterError("Parquet needs pyarrow: pip install 'superarm[cluster]'") from error
    return pa


def files_of(paths: Any) -> list[str]:
    """The files that a pattern, a path or a list of such names, in the order of their names."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[str] = []
    for each in given:
        text = str(each)
        matches = [text]
        if glob.has_magic(text):  # also of absolute paths, which Path.glob refuses
            matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  as said above
        if not matches:
            raise DataError(f"no file matches {text}")
        found += matches
    if not found:
        raise DataError("no files are given")
    return found


def parts_of(path: str, columns: Columns) -> list[Part]:
    """The row groups of a file, whose columns are checked."""
    with _blaming(path), _opened(path) as file:
        schema = file.schema_arrow
        for name in columns.all:
            if name not in schema.names:
                raise DataError(
                    f"{path} has no column {name!r}; it has {', '.join(schema.names)!s:.200}"
                )
            kind = schema.field(name).type
            if name != columns.item and not _is_number(kind):
                raise DataError(f"column {name!r} of {path} is {kind}, not numbers")
        meta = file.metadata
        sizes = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
    return [Part(path, g, n) for g, n in enumerate(sizes)]


def batches(part: Part, columns: Columns) -> Iterator[Batch]:
    """The rows of a row group, some at a time."""
    path, group, _ = part
    with _blaming(path, group), _opened(path) as file:
        some = file.iter_batches(
            batch_size=BATCH, row_groups=[group], columns=columns.all, use_threads=False
        )
        for table in some:
            yield _batch(table, columns, f"row group {group} of {path}")


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    pa = pyarrow()
    file = pa.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    with file:
        yield file


@contextmanager
def _blaming(path: str, group: int | None = None) -> Iterator[None]:
    """Turn what goes wrong in a file into a `DataError` that names it."""
    pa = pyarrow()
    try:
        yield
    except SuperarmError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        where = path if group is None else f"row group {group} of {path}"
        raise DataError(
            f"{where} cannot be read: truncated, or not Parquet ({error!s:.300})"
        ) from error


def _is_number(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _batch(table: Any, columns: Columns, where: str) -> Batch:
    n = table.num_rows
    Phi = np.empty((n, len(columns.features)), order="F")
    for j, name in enumerate(columns.features):
        Phi[:, j] = _numbers(table, name, where)
    w = _numbers(table, columns.weight, where).astype(np.float64)
    if columns.item is None:
        return Batch(Phi, w, np.empty(0, np.int64), [])
    items = table.column(columns.item)
    _require_all(items, columns.item, where)
    if not pyarrow().types.is_dictionary(items.type):
        items = items.dictionary_encode()
    codes = items.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Batch(Phi, w, codes, items.dictionary.to_pylist())


def _numbers(table: Any, name: str, where: str) -> Array:
    column = table.column(name)
    _require_all(column, name, where)
    values: Array = column.to_numpy(zero_copy_only=False)
    is_float = values.dtype.kind == "f"
    finite = not is_float or np.isfinite(values).all()
    if not finite:
        raise DataError(f"column {name!r} in {where} holds numbers that are not finite")
    return values


def _require_all(column: Any, name: str, where: str) -> None:
    if column.null_count:
        raise DataError(
            f"column {name!r} in {where} has {column.null_count} nulls: fill them, or leave the "
            "rows out"
        )


class Tree:
    """Merges pieces in pairs, pairs in pairs and so on, as their places say and not as they come.

    >>> tree = Tree(lambda a, b: f"({a}{b})")
    >>> for i in (3, 0, 4, 1, 2):
    ...     tree.put(i, "abcde"[i])
    >>> tree.merged()
    '(((ab)(cd))e)'
    """

    def __init__(self, merge: Any) -> None:
        self._merge = merge
        self._waiting: dict[tuple[int, int], Any] = {}

    def put(self, place: int, piece: Any) -> None:
        """Take one piece, and merge what has become complete."""
        level = 0
        while (level, place ^ 1) in self._waiting:
            other = self._waiting.pop((level, place ^ 1))
            pair = (piece, other) if place % 2 == 0 else (other, piece)
            piece = self._merge(*pair)
            place //= 2
            level += 1
        self._waiting[level, place] = piece

    def merged(self) -> Any:
        """All pieces, once the last has come: what is left over goes behind what comes before."""
        left = sorted(self._waiting, key=lambda node: node[1] << node[0])
        whole = self._waiting[left[0]]
        for node in left[1:]:
            whole = self._merge(whole, self._waiting[node])
        return whole


def require_names(features: Sequence[str], weight: str, item: str | None) -> Columns:
    """Names of columns, checked."""
    if isinstance(features, str) or not all(isinstance(name, str) for name in features):
        raise ParameterError(f"features must be a list of names of columns, got {features!r:.100}")
    named = [*features, weight, *([] if item is None else [item])]
    if not all(isinstance(name, str) for name in named) or len(set(named)) < len(named):
        raise ParameterError(f"columns must have different names, got {named!r:.200}")
    return Columns(tuple(features), weight, item)

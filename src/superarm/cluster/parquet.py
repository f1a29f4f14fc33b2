"""Parquet files: their row groups, and the rows of each, checked."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from superarm.arrays import Array
from superarm.checks import first_repeated
from superarm.errors import DataError, ParameterError, SuperarmError

BUFFER = 2**20
"""Bytes of a column that are read at a time."""
BATCH = 2**16
"""Rows to hold at a time."""
EXACT = 2**53
"""Up to here, each whole number is a float too."""


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


def require_names(features: Sequence[str], weight: str, item: str | None) -> Columns:
    """Names of columns, checked."""
    listed = isinstance(features, Iterable) and not isinstance(features, str | Set | Mapping)
    names = tuple(features) if listed else ()
    if not listed or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"features must be a list of names of columns, in their order, got {features!r:.100}"
        )
    if not isinstance(weight, str):
        raise ParameterError(f"weight must be the name of a column, got {weight!r:.100}")
    if not isinstance(item, str | None):
        raise ParameterError(f"item must be the name of a column, got {item!r:.100}")
    columns = Columns(names, weight, item)
    if len(set(columns.all)) < len(columns.all):
        raise ParameterError(
            f"columns must have different names, but {first_repeated(columns.all)!r} is there "
            f"twice: {columns.all!r:.200}"
        )
    return columns


class Part(NamedTuple):
    """A row group of a file."""

    path: str
    group: int
    rows: int

    def __str__(self) -> str:
        return f"row group {self.group} of {self.path}"


class Batch(NamedTuple):
    """Some rows of a log."""

    Phi: Array  # (n, d)
    w: Array  # (n,)
    codes: Array  # (n,) which of the labels the item of each row is; empty if items do not matter
    labels: list[Any]


def pyarrow() -> Any:
    """The package, which only those who have logs need."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise ParameterError("Parquet needs pyarrow: pip install 'superarm[cluster]'") from error
    return pa


def files_of(paths: Any) -> list[str]:
    """The files that a path, a pattern or a list of these stands for, those of a pattern in the
    order of their names; as absolute paths, which mean the same to every process.
    """
    is_one = isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable)
    found: list[str] = []
    for each in [paths] if is_one else paths:
        if not isinstance(each, str | os.PathLike):
            raise ParameterError(
                f"paths must be a file, a pattern or a list of them, got {each!r:.100}"
            )
        found += _matches(os.fsdecode(each))
    if not found:
        raise DataError("no files are given")
    files = [str(Path(each).absolute()) for each in found]
    _require_different(files)
    return files


def _matches(text: str) -> list[str]:
    """The files that match a pattern; the path of a file that exists is no pattern."""
    if Path(text).is_dir():
        raise DataError(f"{text} is a folder: to read its files, give {Path(text) / '*.parquet'}")
    if not glob.has_magic(text) or Path(text).exists():
        return [text]
    # also of absolute paths, which Path.glob refuses
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207
    files = [each for each in matches if not Path(each).is_dir()]
    if not files:
        raise DataError(f"no file matches {text}")
    return files


def _require_different(files: list[str]) -> None:
    """Refuse a file that is named twice, under whatever names."""
    known = set()
    for path in files:
        identity = _identity(Path(path))
        if identity in known:
            raise DataError(f"the file {path} is given twice: its rows would count twice")
        known.add(identity)


def _identity(path: Path) -> tuple[int, int] | Path:
    """What a file is under all of its names: its number on its device, if files have numbers there,
    else its path without links.
    """
    try:
        found = path.stat()
    except OSError:  # its name will be in the error of opening it
        return path.resolve()
    return (found.st_dev, found.st_ino) if found.st_ino else path.resolve()


def parts_of(files: Sequence[str], columns: Columns) -> list[Part]:
    """The row groups of files, whose columns are checked: ids are of one kind in all files."""
    parts = []
    kinds: dict[str | None, str] = {}
    for path in files:
        with _opened(path, where=path) as file:
            kind = _require_columns(path, file.schema_arrow, columns)
            groups = range(file.metadata.num_row_groups)
            parts += [Part(path, g, file.metadata.row_group(g).num_rows) for g in groups]
        kinds.setdefault(kind, path)
        if len(kinds) > 1:
            other, there = next(iter(kinds.items()))
            raise DataError(
                f"column {columns.item!r} holds {other} in {there}, and {kind} in {path}: items "
                "would be taken for different ones, so cast one of them"
            )
    return parts


def _require_columns(path: str, schema: Any, columns: Columns) -> str | None:
    """Refuse columns that are missing or of a wrong type; returns what ids are, in words."""
    for name in columns.all:
        if name not in schema.names:
            raise DataError(
                f"{path} has no column {name!r}; it has {', '.join(schema.names)!s:.200}"
            )
        if schema.names.count(name) > 1:
            raise DataError(f"{path} has several columns {name!r}: rename all but one")
    for name in (*columns.features, columns.weight):
        kind = schema.field(name).type
        if not _is_number(kind):
            raise DataError(f"column {name!r} of {path} is {kind}, not numbers")
    if columns.item is None:
        return None
    kind = schema.field(columns.item).type
    found = _kind_of_ids(kind)
    if found is None:
        raise DataError(
            f"column {columns.item!r} of {path} is {kind}, but ids must be whole numbers, text or "
            "UUIDs: cast it"
        )
    return found


def batches(part: Part, columns: Columns) -> Iterator[Batch]:
    """The rows of a row group, some at a time."""
    with _opened(part.path, str(part)) as file:
        _require_same(part, file.metadata)
        some = file.iter_batches(
            batch_size=BATCH, row_groups=[part.group], columns=columns.all, use_threads=False
        )
        for table in some:
            yield _batch(table, columns, str(part))


def _require_same(part: Part, metadata: Any) -> None:
    """Refuse a file that is another one here, or now, than where the row groups were listed."""
    there = part.group < metadata.num_row_groups
    rows = metadata.row_group(part.group).num_rows if there else 0
    if rows != part.rows:
        raise DataError(
            f"{part} holds {rows} rows where it is read, but {part.rows} where it was listed: all "
            "nodes need the same file, and it must not change meanwhile"
        )


@contextmanager
def _opened(path: str, where: str) -> Iterator[Any]:
    """A file; what goes wrong while it is open becomes a `DataError` that says where."""
    pa = pyarrow()
    try:
        file = pa.parquet.ParquetFile(
            path, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True
        )
        with file:
            yield file
    except SuperarmError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"{where} cannot be read: truncated, damaged or not Parquet ({error!s:.300})"
        ) from error


def _is_number(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _kind_of_ids(kind: Any) -> str | None:
    """What the ids in a column of this type are, in words; None if they are no ids of items."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return "whole numbers"
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if any(is_text(kind) for is_text in texts):
        return "text"
    return "UUIDs" if _is_uuid(kind) else None


def _is_uuid(kind: Any) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


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
    codes, labels = _coded(items)
    return Batch(Phi, w, codes, labels)


def _coded(items: Any) -> tuple[Array, list[Any]]:
    """Which of the labels each id is, and the labels."""
    coded = items.storage if _is_uuid(items.type) else items
    if not pyarrow().types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    labels = coded.dictionary.to_pylist()
    if _is_uuid(items.type):
        labels = [UUID(bytes=label) for label in labels]
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), labels


def _numbers(table: Any, name: str, where: str) -> Array:
    column = table.column(name)
    _require_all(column, name, where)
    values: Array = column.to_numpy(zero_copy_only=False)
    is_float = values.dtype.kind == "f"
    finite = not is_float or np.isfinite(values).all()
    if not finite:
        raise DataError(f"column {name!r} in {where} holds numbers that are not finite")
    is_whole = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    if is_whole and values.size and max(int(values.max()), -int(values.min())) > EXACT:
        raise DataError(
            f"column {name!r} in {where} holds whole numbers beyond 2**53, which floats would "
            "round: subtract what they share, or use another unit"
        )
    return values


def _require_all(column: Any, name: str, where: str) -> None:
    if column.null_count:
        raise DataError(
            f"column {name!r} in {where} has {column.null_count} nulls: fill them, or leave the "
            "rows out"
        )

"""Items from files: CSV, Parquet and Arrow, one row per item."""

import csv
import io
import math
from typing import Any

import msgspec

from superarm.service.events import Id
from superarm.service.problems import TooLarge, Unfit, Unsupported
from superarm.service.wire import Id as AnyId
from superarm.service.wire import Items, Text

ID = "item"
"""The column with the ids."""
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
UNPACKED = 2**30
"""Bytes of a table in memory."""


def items_of(body: bytes, media: str) -> Items:
    r"""The items in a file, whose column `item` holds their ids and whose other columns are
    features.

    >>> from superarm.service.tables import items_of
    >>> items_of(b"item,tempo\nabba,0.5\n", "text/csv").names
    ['tempo']
    """
    if media == CSV:
        found = _of_csv(body)
    elif media in (PARQUET, ARROW):
        found = _of_arrow(body, media)
    else:
        raise Unsupported(
            f"items come as application/json, {CSV}, {PARQUET} or {ARROW}, not as {media!r:.60}"
        )
    _require(found.items, list[AnyId], "/items")
    _require(found.names, list[Text], "/names")
    return found


def _require(values: Any, kind: Any, field: str) -> None:
    """Refuse what would be refused in JSON."""
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise Unfit(str(error), field) from error


def _of_csv(body: bytes) -> Items:
    try:
        text = body.decode("utf-8-sig")
        lines = io.StringIO(text, newline="")
        rows = list(csv.reader(lines, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise Unfit(f"the file is no CSV in UTF-8 ({error})") from error
    if len(rows) < 2:
        raise Unfit("the file has no rows: the first line names the columns")
    names = rows[0]
    at = _column(names)
    ids: list[Any] = []
    features = []
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != len(names):
            raise Unfit(f"line {line} has {len(row)} entries, the first has {len(names)}")
        ids.append(row[at])
        features.append([_number(x, line) for j, x in enumerate(row) if j != at])
    return Items(
        items=_ids(ids),
        features=features,
        names=_others(names, at),
    )


def _of_arrow(body: bytes, media: str) -> Items:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise Unsupported(
            "this service reads no Parquet and no Arrow: pip install 'superarm[serve]'"
        ) from error
    try:
        table = _table(body, media)
        names = list(map(str, table.column_names))
        at = _column(names)
        ids = table.column(at).to_pylist()
        columns = [table.column(j).to_pylist() for j in range(len(names)) if j != at]
    except (
        pa.ArrowException,
        ArithmeticError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise Unfit(f"the file is no {media} ({str(error)[:200]})") from error
    features = [[_value(x) for x in row] for row in zip(*columns, strict=True)]
    return Items(
        items=_ids(ids),
        features=features,
        names=_others(names, at),
    )


def _table(body: bytes, media: str) -> Any:
    """The table in a file, checked, as one that was forged may point anywhere in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if media == PARQUET:
        file = pq.ParquetFile(io.BytesIO(body))
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        _require_small(sum(group.total_byte_size for group in groups))
        _require_small(8 * file.metadata.num_rows * file.metadata.num_columns)
        table = file.read()
    else:
        batches = []
        stream = pa.ipc.open_stream(body)
        for batch in stream:
            batches.append(batch)
            _require_small(sum(one.nbytes for one in batches))
        table = pa.Table.from_batches(batches, stream.schema)
    table.validate(full=True)
    return table


def _require_small(size: int) -> None:
    """Refuse a file that is small only as long as it is packed."""
    if not 0 <= size <= UNPACKED:
        raise TooLarge(f"a file may have {UNPACKED} bytes, unpacked")


def _column(names: list[str]) -> int:
    """Where the ids are."""
    if names.count(ID) != 1:
        raise Unfit(f"a column {ID!r} must hold the ids; there are {', '.join(names)[:200]}")
    return names.index(ID)


def _others(names: list[str], at: int) -> list[str]:
    return names[:at] + names[at + 1 :]


def _number(text: str, line: int) -> float:
    """A number as programs write it: a point, no groups, no spaces."""
    try:
        if text != text.strip() or "_" in text:
            raise ValueError("it has spaces or underscores")
        return _finite(float(text))
    except ValueError as error:
        raise Unfit(f"line {line}: {text!r:.60} is not a number such as 0.5") from error


def _value(value: Any) -> float:
    if isinstance(value, bool | int | float):
        try:
            return _finite(float(value))
        except (OverflowError, ValueError) as error:
            raise Unfit(f"{value!r:.60} is no finite number", "/features") from error
    raise Unfit(f"{value!r:.60} is no number", "/features")


def _finite(value: float) -> float:
    if not math.isfinite(value) or abs(value) > 1e150:
        raise ValueError("it is not finite")
    return value


def _ids(values: list[Any]) -> list[Id]:
    """Whole numbers if all are, else text."""
    if not values:
        raise Unfit("there are no items", "/items")
    if all(isinstance(x, int) and not isinstance(x, bool) for x in values):
        return values
    if not all(isinstance(x, str) for x in values):
        raise Unfit("ids must be all whole numbers, or all text", "/items")
    if all(_is_whole(x) for x in values):
        return [int(x) for x in values]
    return values


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number as it would be written: 7, not 07 or +7."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit()
    if not is_number or len(digits) > 18:
        return False
    return str(int(text)) == text

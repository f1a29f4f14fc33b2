"""Items from files: CSV, Parquet and Arrow, one row per item."""

import csv
import io
import math
from typing import Any

from superarm.service.events import Id
from superarm.service.problems import Unfit, Unsupported
from superarm.service.wire import Items

ID = "item"
"""The column with the ids."""
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"


def items_of(body: bytes, media: str) -> Items:
    r"""The items in a file, whose column `item` holds their ids and whose other columns are
    features.

    >>> from superarm.service.tables import items_of
    >>> items_of(b"item,tempo\nabba,0.5\n", "text/csv").names
    ['tempo']
    """
    if media == CSV:
        return _of_csv(body)
    if media in (PARQUET, ARROW):
        return _of_arrow(body, media)
    raise Unsupported(
        f"items come as application/json, {CSV}, {PARQUET} or {ARROW}, not as {media!r:.60}"
    )


def _of_csv(body: bytes) -> Items:
    try:
        text = body.decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
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
    return Items(items=_ids(ids), features=features, names=_others(names, at))


def _of_arrow(body: bytes, media: str) -> Items:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise Unsupported(
            'this service reads no Parquet and no Arrow: pip install "superarm[serve]"'
        ) from error
    try:
        if media == PARQUET:
            table = pq.read_table(io.BytesIO(body))
        else:
            table = pa.ipc.open_stream(body).read_all()
        names = list(map(str, table.column_names))
        at = _column(names)
        ids = table.column(at).to_pylist()
        columns = [table.column(j).to_pylist() for j in range(len(names)) if j != at]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unfit(f"the file is no {media} ({str(error)[:200]})") from error
    features = [[_value(x) for x in row] for row in zip(*columns, strict=True)]
    return Items(items=_ids(ids), features=features, names=_others(names, at))


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
    if not all(isinstance(x, str) and 0 < len(x) <= 1000 and "\0" not in x for x in values):
        raise Unfit("ids must be all whole numbers, or all text of 1 to 1,000 characters", "/items")
    if all(_is_whole(x) for x in values):
        return [int(x) for x in values]
    return values


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number as it would be written: 7, not 07 or +7."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return False
    return str(int(text)) == text

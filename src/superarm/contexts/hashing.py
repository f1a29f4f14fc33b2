"""Categories as numbers, by the hashing trick."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from superarm.arrays import Array, sparse_arrays
from superarm.checks import require_count
from superarm.errors import FeaturesError


def hashed(
    columns: Mapping[str, Iterable[Any]] | Any,
    buckets: int,
    *,
    sparse: bool = False,
) -> Array:
    """Categories as numbers, (n, buckets): each category adds 1 or -1 in a bucket of its own, by
    the hash of its name.

    New categories need no new features. Two may meet in one bucket, with random signs, so that on
    average they do not disturb each other: take several times as many buckets as there are
    categories that matter. None and NaN add nothing. The hash is that of the column's name and of
    the category as text, the same in any process; 7.0 counts as 7.

    Args:
        columns: a list of categories per column, one category per row; a data frame will do.
        buckets: how many features.
        sparse: return SciPy's CSR rows, for very many buckets.

    Returns:
        a table with a row per row of the columns, (n, buckets).

    Raises:
        FeaturesError: if columns differ in length.

    >>> from superarm.contexts import hashed
    >>> hashed({"genre": ["jazz", "folk", "jazz"], "live": [True, None, True]}, buckets=4)
    array([[-1.,  0.,  1.,  0.],
           [ 0.,  0., -1.,  0.],
           [-1.,  0.,  1.,  0.]])
    """
    require_count(buckets=buckets)
    table = {}
    try:
        for name in getattr(columns, "columns", columns):
            table[str(name)] = _categories(columns[name])
    except (IndexError, KeyError, TypeError) as error:
        raise FeaturesError(
            f"columns must be lists of categories, by the names of the columns ({error})"
        ) from error
    lengths = {len(values) for values in table.values()}
    if len(lengths) != 1:
        raise FeaturesError(f"columns must be lists of one length, got lengths {sorted(lengths)}")
    shape = (*lengths, buckets)
    rows: list[int] = []
    places: list[int] = []
    signs: list[float] = []
    for name, values in table.items():
        known: dict[str, tuple[int, float]] = {}
        for row, value in enumerate(values):
            if value is None:
                continue
            if value not in known:
                known[value] = _place(f"{len(name)} {name}={value}", buckets)
            bucket, sign = known[value]
            rows.append(row)
            places.append(bucket)
            signs.append(sign)
    if sparse:
        found: Array = sparse_arrays().from_entries(signs, rows, places, shape)
        return found
    out = np.zeros(shape)
    np.add.at(out, (rows, places), signs)
    return out


def _categories(values: Iterable[Any]) -> list[str | None]:
    """Categories as texts, None for those that are missing."""
    if isinstance(values, str | bytes):
        raise TypeError(f"{values!r:.60} is one category, not a list of them")
    return [None if _missing(value) else _text(value) for value in values]


def _missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN
    except TypeError:  # pandas' NA is neither equal nor unequal
        return True


def _text(value: Any) -> str:
    """The value as text; whole numbers are alike whether or not a gap made their column floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _place(text: str, buckets: int) -> tuple[int, float]:
    """The bucket of a category, and its sign."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    h = int.from_bytes(digest, "little")
    sign = 1.0 if h & 1 else -1.0
    return (h >> 1) % buckets, sign

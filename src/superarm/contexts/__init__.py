"""Features of a call, from those of a context and of the items; categories as numbers."""

from superarm.contexts.hashing import hashed
from superarm.contexts.products import (
    Concatenated,
    InContext,
    Outer,
    aligned,
    alike,
    as_table,
    packed,
    rows_taken,
    side_of,
    side_rows,
    unpacked,
    with_side,
)

__all__ = [
    "Concatenated",
    "InContext",
    "Outer",
    "aligned",
    "alike",
    "as_table",
    "hashed",
    "packed",
    "rows_taken",
    "side_of",
    "side_rows",
    "unpacked",
    "with_side",
]

"""Features of a call, from those of a context and of the items; categories as numbers."""

from superarm.contexts.hashing import hashed
from superarm.contexts.products import (
    KINDS,
    Concatenated,
    InContext,
    Outer,
    aligned,
    alike,
    are_packed,
    as_table,
    kind_of,
    packed,
    rows_taken,
    side_of,
    side_rows,
    unpacked,
    with_side,
)

__all__ = [
    "KINDS",
    "Concatenated",
    "InContext",
    "Outer",
    "aligned",
    "alike",
    "are_packed",
    "as_table",
    "hashed",
    "kind_of",
    "packed",
    "rows_taken",
    "side_of",
    "side_rows",
    "unpacked",
    "with_side",
]

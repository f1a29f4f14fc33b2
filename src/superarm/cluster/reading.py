"""A log, read a row group at a time: each becomes a few numbers, whoever reads it.

A piece of a log is a pure function of its file, row group and columns, and pieces are merged in an
order that does not depend on who is done first. So results are the same to the bit on one core, on
many, and on a cluster.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, Generic, NamedTuple, TypeVar

from superarm.cluster.parquet import Columns, Part
from superarm.engine.local import Engine
from superarm.engine.progress import Progress, progress_callback

Piece = TypeVar("Piece")


class Log(NamedTuple):
    """The row groups of a log, and who reads them."""

    parts: list[Part]
    columns: Columns
    readers: Engine
    progress: Progress

    def read(
        self, read: Callable[..., Piece], merge: Callable[[Piece, Piece], Piece], *more: Any
    ) -> Piece:
        """What `read(part, columns, *more)` makes of all parts, merged."""
        tree = Tree(merge)
        total = sum(part.rows for part in self.parts)
        calls = [(part, self.columns, *more) for part in self.parts]
        with progress_callback(self.progress, total) as report:
            for i, piece in self.readers.map(read, calls):
                tree.put(i, piece)
                report(self.parts[i].rows)
        return tree.merged()


class Tree(Generic[Piece]):
    """Merges pieces in pairs, pairs in pairs and so on, as their places say and not as they come.

    >>> tree = Tree(lambda a, b: f"({a}{b})")
    >>> for i in (3, 0, 4, 1, 2):
    ...     tree.put(i, "abcde"[i])
    >>> tree.merged()
    '(((ab)(cd))e)'
    """

    def __init__(self, merge: Callable[[Piece, Piece], Piece]) -> None:
        self._merge = merge
        self._waiting: dict[tuple[int, int], Piece] = {}

    def put(self, place: int, piece: Piece) -> None:
        """Take one piece, and merge what has become complete."""
        level = 0
        while (level, place ^ 1) in self._waiting:
            other = self._waiting.pop((level, place ^ 1))
            pair = (piece, other) if place % 2 == 0 else (other, piece)
            piece = self._merge(*pair)
            place //= 2
            level += 1
        self._waiting[level, place] = piece

    def merged(self) -> Piece:
        """All pieces, once the last has come: what is left over goes behind what comes before."""
        left = sorted(self._waiting, key=lambda node: node[1] << node[0])
        return reduce(self._merge, [self._waiting[node] for node in left])

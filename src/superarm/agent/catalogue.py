"""The caller's names: ids of items in and out, and tables of features from pandas or polars,
needing neither.

Inside, an item is its position 0..L-1 and a feature its column. Ids are all whole numbers or all
text, so that they survive files and JSON.
"""

from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, Features, Product, is_tensor, to_numpy
from superarm.checks import check_features, find_fault, first_repeated, is_whole
from superarm.errors import FeaturesError, ItemsError, SuperarmError


class Items:
    """L items by their ids, which may be the positions themselves.

    >>> from superarm.agent.catalogue import Items
    >>> artists = Items(["abba", "bowie", "cher"])
    >>> artists.positions(["cher", "abba"]), artists.ids[[1, 2]].tolist()
    (array([2, 0]), ['bowie', 'cher'])
    """

    def __init__(self, ids: Any) -> None:
        given = ids if isinstance(ids, range) and ids == range(len(ids)) else _as_array(ids)
        self.L = len(given)
        # where ids are positions, of which there may be millions, nothing is kept of them
        self._ids = (
            None if isinstance(given, range) or np.array_equal(given, np.arange(self.L)) else given
        )
        self._places = (
            {} if self._ids is None else {x: place for place, x in enumerate(self._ids.tolist())}
        )
        if self._ids is not None and len(self._places) < self.L:
            raise ItemsError(f"item {first_repeated(self._ids.tolist())!r} is there twice")

    @property
    def ids(self) -> Array:
        """The ids of all items."""
        return np.arange(self.L) if self._ids is None else self._ids

    def ids_of(self, A: Array) -> Array:
        """The ids of the items at these positions."""
        return A if self._ids is None else self._ids[A]

    @property
    def plain(self) -> bool:
        """Whether the ids are the positions."""
        return self._ids is None

    def positions(self, items: Any) -> Array:
        """Where these items are; refuses what is not a flat list of different items."""
        if self.plain:
            try:
                A = np.asarray(items)
            except ValueError as error:
                raise ItemsError(f"items must be a flat list ({error})") from error
            if fault := find_fault(A, self.L):
                raise ItemsError(fault)
            return A.astype(np.int64)
        given = _as_list(items)
        found = [self._place(item) for item in given]
        if len(set(found)) < len(found):
            raise ItemsError(f"item {first_repeated(given)!r} is repeated")
        return np.array(found, dtype=np.int64)

    def _place(self, item: Any) -> int:
        text = self.ids.dtype == object
        if not (isinstance(item, str) if text else is_whole(item)):
            kind = "text" if text else "whole numbers"
            raise ItemsError(
                f"items must be a flat list of {kind}, as the ids are; got {item!r:.100}"
            )
        place = self.get(item)
        if place is None:
            raise ItemsError(f"item {item!r:.100} is not one of the {self.L} items")
        return place

    def get(self, item: Any) -> int | None:
        """Where one item is; None if it is not here."""
        if not self.plain:
            return self._places.get(item)
        return int(item) if is_whole(item) and 0 <= item < self.L else None


def _as_array(ids: Any) -> Array:
    """Ids as an array of int64, or of texts as they are."""
    array = ids.to_numpy() if hasattr(ids, "to_numpy") else ids
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "i":
        return array.astype(np.int64)
    given = _as_list(array)
    kinds = {
        "whole" if is_whole(x) else "text" if isinstance(x, str) else type(x).__name__
        for x in given
    }
    if len(kinds) > 1 or not kinds <= {"whole", "text"}:
        raise ItemsError(
            f"ids of items must be all whole numbers or all text, got {', '.join(sorted(kinds))}"
        )
    if kinds == {"text"}:
        if any("\0" in x for x in given):
            raise ItemsError("ids of items must not hold the character NUL")
        return np.array(given, dtype=object)
    try:
        return np.array(given, dtype=np.int64)
    except OverflowError as error:
        raise ItemsError(f"ids of items must fit into 64 bits ({error})") from error


def _as_list(items: Any) -> list[Any]:
    """A list, array, index or series as a list. Text alone is no list of items, and a set is in no
    order.
    """
    if isinstance(items, str | bytes | set | frozenset):
        raise ItemsError(f"items must be a flat list, got {items!r:.100}")
    try:
        listed = items.tolist() if hasattr(items, "tolist") else list(items)
    except TypeError as error:
        raise ItemsError(f"items must be a flat list ({error})") from error
    if not isinstance(listed, list):
        raise ItemsError(f"items must be a flat list, got {items!r:.100}")
    return listed


def as_items(ids: Any, L: int) -> Items:
    """Items with these ids, which must be L; 0..L-1 if there are none."""
    items = Items(range(L) if ids is None else ids)
    if items.L != L:
        raise ItemsError(f"{L} rows of features need as many ids, got {items.L}")
    return items


class Table(NamedTuple):
    """A table of features: its numbers, and the ids of its rows and names of its columns if it has
    any.
    """

    values: Any  # what is not a data frame, as it was given
    ids: Any = None
    names: tuple[str, ...] | None = None


def as_table(features: Any) -> Table:
    """A data frame taken apart; anything else as it is.

    >>> import numpy as np
    >>> from superarm.agent.catalogue import as_table
    >>> as_table(np.eye(2)).names is None
    True
    """
    if not (hasattr(features, "columns") and hasattr(features, "to_numpy")):
        return Table(to_numpy(features) if is_tensor(features) else features)
    names = tuple(map(str, features.columns))
    if len(set(names)) < len(names):
        raise FeaturesError(f"feature {first_repeated(names)!r} is there twice")
    columns = [_numbers(features[column], str(column)) for column in features.columns]
    values = np.column_stack(columns) if columns else np.empty((len(features), 0))
    return Table(values, index_of(features), names)


def index_of(table: Any) -> Any:
    """The index of a pandas object; None for anything else."""
    index = getattr(table, "index", None)
    return index if hasattr(table, "to_numpy") and not callable(index) else None


def _numbers(column: Any, name: str) -> Array:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        raise FeaturesError(
            f"feature {name!r} is {values.dtype}, not numbers without gaps: leave it out, fill it, or turn categories "
            "into numbers with superarm.contexts.hashed"
        )
    return values


def aligned(table: Table, items: Items, names: tuple[str, ...] | None) -> Any:
    """The values of a table with its rows in the order of the items and its columns in that of the
    names.
    """
    values = (
        table.values
        if table.names is None or names is None
        else table.values[:, columns_of(table.names, names)]
    )
    order = None if table.ids is None else order_of(table.ids, items)
    return values if order is None else values[order]


def columns_of(
    given: tuple[str, ...], names: tuple[str, ...], error: type[SuperarmError] = FeaturesError
) -> Any:
    """Which of the given columns has which of the names: all of them, and no other."""
    if given == names:
        return slice(None)
    if set(given) != set(names):
        odd = sorted(set(given) ^ set(names))[0]
        raise error(
            f"feature {odd!r} is {'missing' if odd in names else 'not one of those learned from'}"
        )
    return [given.index(name) for name in names]


def order_of(ids: Any, items: Items, error: type[SuperarmError] = FeaturesError) -> Array | None:
    """Which row of a table with these ids is which item: every item once, and nothing else; None if
    row i is item i.
    """
    if np.array_equal(np.asarray(ids), items.ids):
        return None
    rows = Items(ids)
    missing = [x for x in items.ids.tolist() if rows.get(x) is None]
    if missing:
        raise error(
            f"there is no row for item {missing[0]!r}; if the rows are in the order of agent.items, give .to_numpy()"
        )
    if rows.L > items.L:
        extra = next(x for x in rows.ids.tolist() if items.get(x) is None)
        raise error(
            f"there is a row for item {extra!r}, which the agent does not have: use add_items first"
        )
    return rows.positions(items.ids)


def joined_features(Phi: Features, more: Features) -> Features:
    """The rows of both, in the dtype of the first."""
    if (
        isinstance(Phi, Product)
        and isinstance(more, Product)
        and np.array_equal(Phi.right, more.right)
    ):
        return Product(joined_rows(Phi.left, more.left), Phi.right)
    if isinstance(Phi, Product) or isinstance(more, Product):
        raise FeaturesError(
            "new items need features made as those of the agent were, for the same context"
        )
    return joined_rows(Phi, more)


def joined_rows(rows: Array, more: Array) -> Array:
    """The rows of both, in the dtype of the first, which the others must fit into."""
    with np.errstate(over="ignore"):
        return np.concatenate([rows, check_features(more.astype(rows.dtype))])

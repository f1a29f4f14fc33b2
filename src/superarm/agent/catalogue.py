"""The caller's words for items and features, and tables of pandas or polars, needing neither.

Inside, an item is its position 0..L-1 and a feature its column. Ids are all whole numbers or all
text, so that they survive files and JSON.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from superarm.arrays import Array, is_tensor, to_numpy
from superarm.checks import find_fault, first_repeated, is_whole
from superarm.errors import FeaturesError, ItemsError, MaskError, SuperarmError, WeightsError

Names: TypeAlias = tuple[str, ...] | None
"""The names of the features; None if they have none."""


class Table(NamedTuple):
    """Features as they were given, with the ids of the rows and the names of the columns if any."""

    values: Any  # the numbers of a data frame; anything else as it is
    ids: Any = None
    names: Names = None


class Catalogue:
    """L items by their ids, and their features by name where those have names.

    Args:
        ids: all whole numbers or all text; None numbers the items 0..L-1.
        L: how many items there must be; needed where there are no ids.
        names: of the features.

    >>> from superarm.agent.catalogue import Catalogue
    >>> artists = Catalogue(["abba", "bowie", "cher"])
    >>> artists.positions(["cher", "abba"]), artists.ids[[1, 2]].tolist()
    (array([2, 0]), ['bowie', 'cher'])
    >>> artists.mask({"bowie"})
    array([False,  True, False])
    """

    def __init__(self, ids: Any, L: int | None = None, names: Names = None) -> None:
        given = np.arange(L or 0) if ids is None else _as_array(ids)
        self.L = len(given)
        if L not in (None, self.L):
            raise ItemsError(f"{L} rows of features need as many ids, got {self.L}")
        self.names = names
        self.numbered = ids is None  # so may new items be, but never like an item that is gone
        self._ids: Array | None = None
        self._places: dict[Any, int] = {}
        if np.array_equal(given, np.arange(self.L)):
            return  # of ids that are positions, maybe millions of them, nothing is kept
        listed = given.tolist()
        self._ids = given
        self._places = {item: place for place, item in enumerate(listed)}
        if len(self._places) < self.L:
            raise ItemsError(f"item {first_repeated(listed)!r} is there twice")

    @property
    def plain(self) -> bool:
        """Whether the ids are the positions."""
        return self._ids is None

    @property
    def ids(self) -> Array:
        """The ids of all items."""
        if self._ids is None:
            return np.arange(self.L)
        return self._ids

    def ids_of(self, A: Array) -> Array:
        """The ids of the items at these positions."""
        if self._ids is None:
            return A
        return self._ids[A]

    def get(self, item: Any) -> int:
        """Where one item is; -1 if it is not here."""
        if not self.plain:
            return self._places.get(item, -1)
        if is_whole(item) and 0 <= item < self.L:
            return int(item)
        return -1

    def positions(self, items: Any) -> Array:
        """Where these items are; refuses what is not a flat list of different items."""
        if self.plain:
            return self._checked(items)
        given = _as_list(items)
        found = [self._place(item) for item in given]
        if len(set(found)) < len(found):
            raise ItemsError(f"item {first_repeated(given)!r} is repeated")
        return np.array(found, dtype=np.int64)

    def _checked(self, items: Any) -> Array:
        """Items that are their positions."""
        try:
            A = np.asarray(items)
        except ValueError as error:
            raise ItemsError(f"items must be a flat list ({error})") from error
        if fault := find_fault(A, self.L):
            raise ItemsError(fault)
        return A.astype(np.int64)

    def _place(self, item: Any) -> int:
        kind = _kind(self.ids[0])
        if _kind(item) != kind:
            raise ItemsError(
                f"items must be a flat list of {kind}, as the ids are; got {item!r:.100}"
            )
        place = self.get(item)
        if place < 0:
            raise ItemsError(f"item {item!r:.100} is not one of the {self.L} items")
        return place

    def columns(self, table: Table) -> Any:
        """The values of a table with its columns in the order of the names."""
        if table.names is None:
            return table.values
        order = columns_of(table.names, self.names)
        return table.values[:, order]

    def rows(self, table: Table) -> Any:
        """The values of a table with its columns in the order of the names, its rows in that of
        the items.
        """
        values = self.columns(table)
        if table.ids is None:
            return values
        order = self.order_of(table.ids)
        return values[order]

    def order_of(self, ids: Any, error: type[SuperarmError] = FeaturesError) -> Any:
        """The index that puts rows with these ids into the order of the items.

        There must be a row for each item, and no other.
        """
        if np.array_equal(np.asarray(ids), self.ids):
            return slice(None)
        rows = Catalogue(ids)
        missing = [item for item in self.ids.tolist() if rows.get(item) < 0]
        if missing:
            raise error(
                f"there is no row for item {missing[0]!r}; "
                "if the rows are in the order of agent.items, give .to_numpy()"
            )
        if rows.L > self.L:
            extra = next(item for item in rows.ids.tolist() if self.get(item) < 0)
            raise error(
                f"there is a row for item {extra!r}, which the agent does not have: "
                "use add_items first"
            )
        return rows.positions(self.ids)

    def mask(self, available: Any) -> Array:
        """Which items are available, (L,): from a mask, put into order by its index, or a set."""
        if isinstance(available, set | frozenset):
            mask = np.zeros(self.L, np.bool_)
            mask[self.positions(list(available))] = True
            return mask
        wanted = f"a mask of {self.L} booleans, one per item, or a set of items"
        mask = as_mask(available, wanted, (self.L,))
        index = index_of(available)
        if index is not None:
            mask = mask[self.order_of(index, MaskError)]
        return mask

    def extended(self, n: int, ids: Any) -> "Catalogue":
        """The catalogue with n more items behind those there are; ids None: numbered on."""
        if ids is None:
            if not self.numbered:
                raise ItemsError(
                    "the items have ids, or some were removed: give the new ones theirs, as items="
                )
            return Catalogue(None, self.L + n, self.names)
        added = Catalogue(ids, n).ids.tolist()
        known = [item for item in added if self.get(item) >= 0]
        if known:
            raise ItemsError(
                f"item {known[0]!r} is there already: "
                "give new items ids of their own, as items= or as index"
            )
        return Catalogue([*self.ids.tolist(), *added], names=self.names)

    def part(self, positions: Array) -> "Catalogue":
        """The catalogue of the items at these positions, which keep their ids."""
        return Catalogue(self.ids_of(positions), names=self.names)


def _kind(item: Any) -> str:
    if is_whole(item):
        return "whole numbers"
    if isinstance(item, str):
        return "text"
    return type(item).__name__


def _as_array(ids: Any) -> Array:
    """Ids as an array of int64, or of texts as they are."""
    array = ids.to_numpy() if hasattr(ids, "to_numpy") else ids
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "i":
        return array.astype(np.int64)
    given = _as_list(array)
    kinds = {_kind(item) for item in given}
    if len(kinds) > 1 or not kinds <= {"whole numbers", "text"}:
        raise ItemsError(
            f"ids of items must be all whole numbers or all text, got {', '.join(sorted(kinds))}"
        )
    if kinds == {"text"}:
        if any("\0" in item for item in given):
            raise ItemsError("ids of items must not hold the character NUL")
        return np.array(given, dtype=object)
    try:
        return np.array(given, dtype=np.int64)
    except OverflowError as error:
        raise ItemsError(f"ids of items must fit into 64 bits ({error})") from error


def _as_list(items: Any) -> list[Any]:
    """A list, array, index or series as a list. Text alone is no list, and a set has no order."""
    listed = None
    if not isinstance(items, str | bytes | set | frozenset):
        try:
            listed = items.tolist() if hasattr(items, "tolist") else list(items)
        except TypeError as error:
            raise ItemsError(f"items must be a flat list ({error})") from error
    if not isinstance(listed, list):
        raise ItemsError(f"items must be a flat list, got {items!r:.100}")
    return listed


def as_table(features: Any) -> Table:
    """A data frame taken apart into a table; anything else as its values.

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
    if callable(index) or not hasattr(table, "to_numpy"):
        return None
    return index


def _numbers(column: Any, name: str) -> Array:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        raise FeaturesError(
            f"feature {name!r} is {values.dtype}, not numbers without gaps: leave it out, fill it, "
            "or turn categories into numbers with superarm.contexts.hashed"
        )
    return values


def columns_of(
    given: Names,
    names: Names,
    error: type[SuperarmError] = FeaturesError,
) -> Any:
    """The index that puts the given columns into the order of the names.

    There must be a column for each name, and no other; columns without names stay where they are.
    """
    if given is None or names is None or given == names:
        return slice(None)
    odd = sorted(set(given) ^ set(names))
    if odd:
        fault = "missing" if odd[0] in names else "not one of those learned from"
        raise error(f"feature {odd[0]!r} is {fault}")
    return [given.index(name) for name in names]


def as_mask(available: Any, wanted: str, *shapes: tuple[int, ...]) -> Array:
    """Booleans of one of the shapes; an error says what is wanted."""
    try:
        mask = np.asarray(available)
    except ValueError as error:
        raise MaskError(f"available must be {wanted} ({error})") from error
    if mask.dtype != np.bool_ or mask.shape not in shapes:
        raise MaskError(f"available must be {wanted}, got {mask.dtype} of shape {mask.shape}")
    return mask


def by_item(values: Any) -> Mapping[Any, Any] | None:
    """A mapping from items, or a pandas Series with an index of items, as a mapping; None for
    anything else.

    An index of 0, 1, 2, ... is the one a series has that was given none.
    """
    if isinstance(values, Mapping):
        return values
    index = index_of(values)
    if index is None or index.tolist() == list(range(len(values))):
        return None
    if not index.is_unique:
        raise WeightsError("a series must have the items as its index, each once")
    return dict(zip(index.tolist(), values.tolist(), strict=True))


def in_order(values: Any, items: list[Any]) -> Any:
    """Values by item in the order of the items; anything else, in their order already, as it is."""
    mapping = by_item(values)
    if mapping is None:
        return values
    if mapping.keys() != set(items):
        raise WeightsError(
            "what is given by item must be given for these items: for each, and for no other"
        )
    return [mapping[item] for item in items]

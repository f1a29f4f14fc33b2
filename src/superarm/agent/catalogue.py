"""The caller's words for items: inside, an item is its position 0..L-1.

Positions of items that were removed stay empty until somebody needs the items without gaps. So
taking one away costs nothing, like putting one behind the others.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from superarm.agent.growing import Growing
from superarm.agent.ids import as_ids, as_list, kind
from superarm.arrays import Array
from superarm.checks import fault_of_set, first_repeated, is_whole
from superarm.checks.tables import Names, Table, align_columns, as_mask, pandas_index, permutation
from superarm.contexts import rows_taken
from superarm.errors import FeaturesError, ItemsError, MaskError, SuperarmError


class Catalogue:
    """L items by their ids, and their features by name where those have names.

    Args:
        ids: all whole numbers, all text, all UUIDs, or all tuples of such; None numbers the items
            0..L-1.
        L: how many items there must be; needed where there are no ids.
        names: of the features.

    >>> from superarm.agent.catalogue import Catalogue
    >>> artists = Catalogue(["abba", "bowie", "cher"])
    >>> artists.positions(["cher", "abba"]), artists.ids[[1, 2]].tolist()
    (array([2, 0]), ['bowie', 'cher'])
    >>> fewer = artists.without(artists.positions(["bowie"]))
    >>> fewer.items.tolist(), fewer.get("cher"), fewer.get("bowie")
    (['abba', 'cher'], 2, -1)
    """

    def __init__(self, ids: Any, L: int | None = None, names: Names = None) -> None:
        given = np.arange(L or 0) if ids is None else as_ids(ids)
        self.L = len(given)
        """The positions there are, gaps included."""
        if L not in (None, self.L):
            raise ItemsError(f"{L} rows of features need as many ids, got {self.L}")
        self.names = names
        self.kind = kind(given[0]) if self.L else "whole numbers"
        """What the ids are, in words."""
        self.numbered = ids is None  # so may new items be, but never like an item that is gone
        self.gaps = 0
        """The positions whose items were removed."""
        self._ids: Array | None = None
        self._places: dict[Any, int] = {}
        self._room = Growing()
        self._removed: dict[int, int] = {}  # by position: how many were removed before it
        self._there: Array | None = None
        if np.array_equal(given, np.arange(self.L)):
            return  # of ids that are positions, maybe millions of them, nothing is kept
        self._keep(given)

    def _keep(self, ids: Array) -> None:
        """Look ids up in a table from now on."""
        listed = ids.tolist()
        self._ids = ids
        self._places = {item: place for place, item in enumerate(listed)}
        if len(self._places) < self.L:
            raise ItemsError(f"item {first_repeated(listed)!r} is there twice")

    def _shared(self) -> "Catalogue":
        """A catalogue of the same tables, which are only ever added to."""
        other = object.__new__(Catalogue)
        vars(other).update(vars(self))
        other._there = None
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from: tables that nobody adds to while that takes its time."""
        kept = dict(vars(self))
        kept["_places"] = dict(self._places)
        kept["_removed"] = dict(self._removed)
        kept["_room"] = Growing()
        return kept

    @property
    def n(self) -> int:
        """How many items there are."""
        return self.L - self.gaps

    @property
    def plain(self) -> bool:
        """Whether the ids are the positions."""
        return self._ids is None

    @property
    def ids(self) -> Array:
        """The ids at all positions."""
        if self._ids is None:
            return np.arange(self.L)
        return self._ids

    @property
    def items(self) -> Array:
        """The ids of the items, without those that were removed."""
        return self.ids_of(self.left)

    @property
    def left(self) -> Array:
        """The positions of the items that were not removed."""
        return np.flatnonzero(self.is_there)

    @property
    def is_there(self) -> Array:
        """Whether there is an item at each position: (L,), to be read only."""
        if self._there is None:
            there = np.ones(self.L, np.bool_)
            gone = list(self._removed)[: self.gaps]  # in the order in which they were removed
            there[gone] = False
            self._there = there
        return self._there

    def _is_gap(self, place: int) -> bool:
        return self._removed.get(place, self.gaps) < self.gaps

    def ids_of(self, A: Array) -> Array:
        """The ids of the items at these positions."""
        if self._ids is None:
            return A
        return self._ids[A]

    def get(self, item: Any) -> int:
        """Where one item is; -1 if it is not here."""
        place = self._entry(item)
        if self.gaps and self._is_gap(place):
            return -1
        return place

    def get_each(self, items: list[Any]) -> Array:
        """Where these items are, -1 for those that are not here; they may be repeated."""
        are_numbers = set(map(type, items)) == {int}
        if self._ids is None and not self.gaps and are_numbers:
            A = np.array(items)
            is_here = (A >= 0) & (A < self.L)
            return np.where(is_here, A, -1)
        return np.array([self.get(item) for item in items], np.int64)

    def _entry(self, item: Any) -> int:
        """Where one item is or was; -1 if it never was here."""
        if self._ids is None:
            return int(item) if is_whole(item) and 0 <= item < self.L else -1
        place = self._places.get(item, -1)
        if place >= self.L or self._ids[place] != item:  # written for a catalogue that never was
            return -1
        return place

    def positions(self, items: Any) -> Array:
        """Where these items are; refuses what is not a flat list of different items."""
        if self.plain and not self.gaps:
            return self._checked(items)
        given = as_list(items)
        self._require_kind(given)
        found = [self.get(item) for item in given]
        if -1 in found:
            unknown = given[found.index(-1)]
            raise ItemsError(f"item {unknown!r:.100} is not one of the {self.n} items")
        if len(set(found)) < len(found):
            raise ItemsError(f"item {first_repeated(given)!r} is repeated")
        return np.array(found, dtype=np.int64)

    def _checked(self, items: Any) -> Array:
        """Items that are their positions."""
        try:
            A = np.asarray(items)
        except ValueError as error:
            raise ItemsError(f"items must be a flat list ({error})") from error
        if np.ma.is_masked(items):
            raise ItemsError("items must be known: some are masked")
        if fault := fault_of_set(A, self.L):
            raise ItemsError(fault)
        return A.astype(np.int64)

    def _require_kind(self, items: list[Any]) -> None:
        """Refuse what is of another kind than the ids, and so may merely equal one of them."""
        one_of_each = {type(item): item for item in items}.values()
        for item in items if self.kind == "tuples" else one_of_each:
            if kind(item) != self.kind:
                raise ItemsError(
                    f"items must be a flat list of {self.kind}, as the ids are; got {item!r:.100}"
                )

    # --- tables, put into order -------------------------------------------------------------------

    def columns(self, table: Table) -> Any:
        """The values of a table with its columns in the order of the names."""
        order = align_columns(table.names, self.names)
        if isinstance(order, slice):
            return table.values
        return np.asarray(table.values)[:, order]

    def rows(self, table: Table) -> Any:
        """The values of a table with its columns in the order of the names, its rows in that of
        the items.
        """
        values = self.columns(table)
        if table.ids is None:
            return values
        order = self.order_of(table.ids)
        return values if isinstance(order, slice) else rows_taken(values, order)

    def order_of(self, ids: Any, error: type[SuperarmError] = FeaturesError) -> Any:
        """The index that puts rows with these ids into the order of the items.

        There must be a row for each item, and no other.
        """

        def mismatch(missing: list[Any], unknown: list[Any]) -> Exception:
            if missing:
                return error(
                    f"there is no row for item {missing[0]!r}; "
                    "if the rows are in the order of agent.items, give .to_numpy()"
                )
            return error(
                f"there is a row for item {unknown[0]!r}, which the agent does not have: "
                "use add_items first"
            )

        if ids is self._ids or np.array_equal(np.asarray(ids), self.ids):
            return slice(None)
        labels = Catalogue(ids).ids.tolist()
        return permutation(labels, self.ids.tolist(), mismatch)

    def available(self, available: Any) -> Array:
        """The positions of the items that are available, in increasing order.

        From a mask of booleans in the order of the items; from booleans by item, as a mapping or a
        pandas Series; or from any collection of items.
        """
        if is_collection(available):
            listed = available if hasattr(available, "tolist") else list(available)
            return np.sort(self.positions(listed))
        if isinstance(available, Mapping):
            truths = list(available.values())
            chosen = as_mask(truths, _WANTED_BY_ITEM, (len(available),))
            places = self.positions(list(available))
            if len(places) < self.L:
                missing = np.setdiff1d(np.arange(self.L), places)[:1]
                raise MaskError(
                    f"available says nothing of item {self.ids_of(missing).tolist()[0]!r}: "
                    "give a set of items, or a truth value for each"
                )
            return np.sort(places[chosen])
        wanted = f"a mask of {self.L} booleans, one per item, or a collection of items"
        mask = as_mask(available, wanted, (self.L,))
        index = pandas_index(available)
        if index is not None:
            mask = mask[self.order_of(index, MaskError)]
        return np.flatnonzero(mask)

    def mask(self, available: Any) -> Array:
        """Which items are available, (L,)."""
        mask = np.zeros(self.L, np.bool_)
        mask[self.available(available)] = True
        return mask

    # --- changes ----------------------------------------------------------------------------------

    def extended(self, n: int, ids: Any) -> "Catalogue":
        """The catalogue with n more items behind those there are; ids None: numbered on."""
        if ids is None:
            if not self.numbered or self.gaps:
                raise ItemsError(
                    "the items have ids, or some were removed: give the new ones theirs, as items="
                )
            more = self._shared()
            more.L += n
            return more
        added = as_ids(ids)
        self._check_new(added, n)
        more = self._shared()
        more.L += n
        more.numbered = False
        if self._ids is None:
            if not np.array_equal(added, np.arange(self.L, self.L + n)):
                more._room = Growing()
                more._keep(np.append(self.ids, added))
            return more
        more._ids = self._room.extended(self._ids, added)
        for place, item in enumerate(added.tolist(), start=self.L):
            self._places[item] = place
        return more

    def _check_new(self, added: Array, n: int) -> None:
        """Refuse ids that do not fit those there are."""
        if len(added) != n:
            raise ItemsError(f"{n} rows of features need as many ids, got {len(added)}")
        listed = added.tolist()
        if len(set(listed)) < n:
            raise ItemsError(f"item {first_repeated(listed)!r} is there twice")
        if n and kind(listed[0]) != self.kind:
            raise ItemsError(
                f"ids of new items must be {self.kind}, as the others; got {listed[0]!r}"
            )
        known = [item for item in listed if self.get(item) >= 0]
        if known:
            raise ItemsError(
                f"item {known[0]!r} is there already: "
                "give new items ids of their own, as items= or as index"
            )

    def had(self, ids: Iterable[Any]) -> bool:
        """Whether one of these was an item that left a gap."""
        if not self.gaps:
            return False
        return any(self._is_gap(self._entry(item)) for item in ids)

    def without(self, places: Array) -> "Catalogue":
        """The catalogue with gaps at these positions."""
        fewer = self._shared()
        if len(self._removed) > self.gaps:  # written for a catalogue that never was
            known = list(self._removed)[: self.gaps]
            fewer._removed = {}
            for before, place in enumerate(known):
                fewer._removed[place] = before
        for place in places.tolist():
            fewer._removed[place] = fewer.gaps
            fewer.gaps += 1
        return fewer

    def part(self, positions: Array) -> "Catalogue":
        """The catalogue of the items at these positions, which keep their ids, without gaps."""
        return Catalogue(self.ids_of(positions), names=self.names)


_WANTED_BY_ITEM = "a set of items, or a truth value by item"


def is_collection(available: Any) -> bool:
    """Whether it is a collection of items, and not truth values of all items."""
    if isinstance(available, Mapping | str | bytes) or not isinstance(available, Collection):
        return False
    if hasattr(available, "columns"):  # a data frame of truth values
        return False
    if hasattr(available, "dtype"):
        return bool(available.dtype != np.bool_)
    some = next(iter(available), None)
    return not isinstance(some, bool | np.bool_)

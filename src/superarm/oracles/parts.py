"""What oracles are solved from by parts: the candidates of each part, found apart.

The best item that still fits is exact for a matroid, as "so many of each group": then the best set
of all items holds only items that are in the best set of their own part. Ties go to the lowest
index, in a part as in the whole.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import for_kernels
from superarm.checks import as_weights
from superarm.errors import ItemsError, WeightsError

NO_GROUPS = np.empty(0, np.int64)


class Candidates(NamedTuple):
    """The items of a part that the best set of all may hold."""

    w: Array  # (m,) their weights
    items: Array  # (m,) int
    group: Array  # (m,) int, the group of each where the oracle has groups, else empty


class Rule(Protocol):
    """How an oracle finds the best set of a part. It can be pickled, and is small."""

    def best(self, part: "Part", w: Array, /) -> Array:
        """Where the best items are in the part, from its weights (n,); -1 pads."""


class Part(NamedTuple):
    """Some of the items, with what an oracle knows of them."""

    items: slice | Array  # (n,) in increasing order
    group: Array  # (n,) int, empty where the oracle has no groups
    rule: Rule

    @property
    def first(self) -> int:
        """The number of the first item where items are one run, else 0."""
        return (self.items.start or 0) if isinstance(self.items, slice) else 0

    @property
    def size(self) -> int | None:
        """How many items there are; None for all from the first one on."""
        if not isinstance(self.items, slice):
            return len(self.items)
        if self.items.stop is None:
            return None
        return len(range(self.first, self.items.stop))

    def candidates(self, w: Array, /) -> Candidates:
        """Those that the best set of all items may hold, from the weights (n,) of the part."""
        w = for_kernels(as_weights(w, self.size))
        if w.ndim > 1:
            raise WeightsError(f"a part takes one row of weights at a time, got shape {w.shape}")
        A = self.rule.best(self, w)
        places = np.sort(A[A >= 0])
        items = self.first + places if isinstance(self.items, slice) else self.items[places]
        return Candidates(w[places], items, self._groups(places))

    def among(self, rows: slice, items: slice | Array) -> "Part":
        """The part at these rows, whose items have these numbers."""
        return self._replace(items=items, group=self._groups(rows))

    def best_of(self, found: Candidates) -> Candidates:
        """Those of the candidates of several parts that the best set of all may hold."""
        return self._replace(items=found.items, group=found.group).candidates(found.w)

    def _groups(self, rows: slice | Array) -> Array:
        return self.group[rows] if len(self.group) else self.group


def within(items: slice | Array, L: int | None = None) -> slice | Array:
    """The items of a part: one run of them, or their numbers in increasing order. Refused are those
    that are none of L items, if L is known; a slice ends where they do.

    >>> import numpy as np
    >>> from superarm.oracles.parts import within
    >>> within(slice(3, None), 5), within([1, 4], 5)
    (slice(3, 5, 1), array([1, 4]))
    """
    if isinstance(items, slice):
        ends = [end for end in (items.start, items.stop) if end is not None]
        if items.step not in (None, 1) or any(end < 0 for end in ends):
            raise ItemsError(f"a part is of items one after the other, from 0 on, got {items}")
        return items if L is None else slice(*items.indices(L))
    numbers = np.asarray(items)
    if not numbers.size:
        return np.empty(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ItemsError(
            f"a part is a slice, or a list of the numbers of its items, got {items!r:.100}"
        )
    beyond = L is not None and numbers[-1] >= L
    if beyond or numbers[0] < 0 or (numbers[1:] <= numbers[:-1]).any():
        some = "items" if L is None else f"the {L} items"
        raise ItemsError(
            f"a part needs the numbers of {some} in increasing order, got {items!r:.100}"
        )
    return numbers.astype(np.int64)


def joined(parts: Iterable[Candidates]) -> Candidates:
    """The candidates of all parts, in the order of the items."""
    nothing = Candidates(np.empty(0), NO_GROUPS, NO_GROUPS)
    found = [nothing, *parts]
    w, items, group = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(items, kind="stable")
    return Candidates(w[order], items[order], group[order] if len(group) else NO_GROUPS)


def named_items(A: Array, items: Array) -> Array:
    """Candidates A (1, K) as items (K,), -1 pads."""
    with_padding = np.append(items, -1)
    found: Array = with_padding[A[0]]
    return found

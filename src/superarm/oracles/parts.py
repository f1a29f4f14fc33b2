"""What oracles are solved from by parts: the candidates of each part, found apart.

The best item that still fits is exact for some constraints, as "so many of each group": then the
best set of all items holds only items that are among the best of their own part. Ties go to the
lowest index, in a part as in the whole.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from superarm.arrays import Array

NO_GROUPS = np.empty(0, np.int64)


class Candidates(NamedTuple):
    """The items of a part that the best set of all may hold."""

    w: Array  # (m,) their weights
    items: Array  # (m,) int
    group: Array  # (m,) int, the group of each where the oracle has groups, else empty


class Part(Protocol):
    """Some of the items, in their order, with what an oracle knows of them. It can be pickled, and
    is as large as the part.
    """

    def candidates(self, w: Array, /) -> Candidates:
        """Those that the best set of all items may hold, from the weights (n,) of the part."""


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

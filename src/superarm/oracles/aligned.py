"""An oracle among some of its own items."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.oracles.base import Around


@dataclass(frozen=True, eq=False)
class Aligned(Around):
    """An oracle among n of its own items, in any order: item i is its item places[i], and others
    may not be chosen.

    >>> import numpy as np
    >>> from superarm import Quota
    >>> from superarm.oracles.aligned import Aligned
    >>> quota = Quota(["f", "m", "f"], {"f": 1, "m": 1})
    >>> Aligned(quota, np.array([1, 2]), 3)(np.array([0.5, 0.1]))
    array([1, 0])
    """

    places: Array  # (n,) int
    size: int  # items of the oracle itself

    @property
    def L(self) -> int:
        """The number of items it is built for: n."""
        return len(self.places)

    @property
    def ids(self) -> None:
        """None: its items are in order."""
        return None

    @property
    def gap(self) -> Any:
        """The γ of the oracle itself."""
        return self.oracle.gap

    def solve(self, rows: Array) -> Array:
        """The best set for each row of weights (n, L): (n, k), -1 pads."""
        weights = np.full((len(rows), self.size), -np.inf)
        weights[:, self.places] = rows
        item = np.full(self.size + 1, -1)  # the last place is for -1, the padding
        item[self.places] = np.arange(len(self.places))
        return item[self.oracle(weights)]

"""Random draws by item: what an item draws depends on a seed and on its number, and not on the
items beside it. So a part of a catalogue draws what it would in the whole.
"""

from typing import Any

import numpy as np
from scipy.special import betaincinv

from superarm.arrays.types import Array
from superarm.arrays.normals import fill_normal_by_item
from superarm.arrays.numpy import hashed_uniform


class Counter:
    """Randomness for one decision, in the place of a NumPy generator.

    What belongs to no item, as θ_t, is drawn from `numpy.random.default_rng(seed)`, in sequence:
    it is the same in all parts of a catalogue. What belongs to an item, as its deviation, is drawn
    by the item's number. For many decisions at once, give a list of as many counters.

    Args:
        seed: of this decision, a whole number from 0 to 2⁶⁴ - 1.
        items: the numbers of the items in the whole catalogue; the first of them if they are one
            run.

    >>> import numpy as np
    >>> from superarm.arrays.counters import Counter
    >>> whole = Counter(7).item_normal((6,))
    >>> part = Counter(7, items=4).item_normal((2,))
    >>> bool((part == whole[4:]).all())
    True
    """

    def __init__(self, seed: int, items: Array | int = 0) -> None:
        self.seed = int(seed)
        self.items = items
        self._generator = np.random.default_rng(self.seed)
        self._draws = 0

    def shape_per_entry(self, like: Array) -> tuple[int, ...]:
        """The shape of `like`: a counter is of one decision."""
        return like.shape

    def item_normal(self, shape: tuple[int, ...]) -> Array:
        """N(0, 1) of each item: (L,)."""
        out = np.empty(shape)
        fill_normal_by_item(out, self._numbers(shape), self._next_seed())
        return out

    def item_beta(self, shape: tuple[int, ...], a: Array, b: Array) -> Array:
        """Beta(a, b) of each item: (L,)."""
        seed = int(self._next_seed())
        high = np.full(1, seed >> 32)
        low = np.full(1, seed & 0xFFFFFFFF)
        u = hashed_uniform(self._numbers(shape), high, low)
        drawn: Array = betaincinv(a, b, u + 2.0**-54)
        return drawn

    def _numbers(self, shape: tuple[int, ...]) -> Array:
        (L,) = shape
        if isinstance(self.items, np.ndarray):
            return self.items
        return np.arange(self.items, self.items + L)

    def _next_seed(self) -> np.uint64:
        """A seed for each time that all items draw; the first is that of the decision."""
        seed = (self.seed + self._draws * 0xD1342543DE82EF95) % 2**64
        self._draws += 1
        return np.uint64(seed)

    def __getattr__(self, name: str) -> Any:
        """Any other draw is the generator's."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._generator, name)

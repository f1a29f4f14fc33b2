"""Maximization by looking at every feasible set: the reference for tests."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Array
from superarm.checks import check_weights, find_fault
from superarm.errors import InfeasibleError, ItemsError
from superarm.oracles.base import feasible


@dataclass(frozen=True, eq=False)
class _BruteForce:
    sets: Array  # (F, K), -1 pads
    gap: float = 0.0

    @property
    def K(self) -> int:
        return int(self.sets.shape[-1])

    def __str__(self) -> str:
        return f"brute_force over {len(self.sets)} sets"

    def __call__(self, w: Array, /) -> Array:
        w = check_weights(w)
        if self.sets.max(initial=-1) >= w.shape[-1]:
            check_weights(w, int(self.sets.max()) + 1)
        padded = np.concatenate([w, np.zeros((*w.shape[:-1], 1))], axis=-1)  # item -1 weighs 0
        values = padded[..., self.sets].sum(-1)
        feasible(bool((values.max(-1) > -np.inf).all()), self)
        A: Array = self.sets[values.argmax(-1)]
        return A


def brute_force(family: Iterable[Iterable[int]]) -> _BruteForce:
    """The oracle over an explicit family of sets; among equals it prefers the first.

    >>> import numpy as np
    >>> from superarm import brute_force
    >>> oracle = brute_force([[0, 1], [1, 2], [0]])
    >>> oracle(np.array([3.0, -1.0, 2.0]))
    array([ 0, -1])
    """
    sets = [np.array(list(items)) for items in family]
    if not sets:
        raise InfeasibleError("brute_force needs at least one feasible set, got an empty family")
    for items in sets:
        if fault := find_fault(items, int(items.max(initial=0)) + 1):
            raise ItemsError(f"brute_force got {items.tolist()}, which is no set of items: {fault}")
    table = np.full((len(sets), max(map(len, sets))), -1)
    for row, items in zip(table, sets, strict=True):
        row[: len(items)] = items
    return _BruteForce(table)

"""Maximization by looking at every feasible set: the reference for tests."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_weights, fault_of_set
from superarm.errors import InfeasibleError, ItemsError
from superarm.oracles.base import BaseOracle, feasible, padded


@dataclass(frozen=True, eq=False)
class _BruteForce(BaseOracle):
    sets: Array  # (F, K), -1 pads
    gap: float = 0.0

    @property
    def K(self) -> int:
        return int(self.sets.shape[-1])

    def __str__(self) -> str:
        return f"brute_force over {len(self.sets)} sets"

    def solve(self, rows: Array) -> Array:
        least = int(self.sets.max(initial=-1)) + 1
        if rows.shape[-1] < least:
            as_weights(rows, least)
        weights = np.pad(rows, ((0, 0), (0, 1)))  # item -1 weighs 0
        values = weights[:, self.sets].sum(-1)
        feasible(bool((values.max(-1) > -np.inf).all()), self)
        A: Array = self.sets[values.argmax(-1)]
        return A


def brute_force(family: Iterable[Iterable[int]]) -> _BruteForce:
    """The oracle over an explicit family of sets; among equals it prefers the first.

    Returns:
        an oracle.

    Raises:
        ItemsError: if a set is not made of different items.

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
        if fault := fault_of_set(items, int(items.max(initial=0)) + 1):
            raise ItemsError(f"brute_force got {items.tolist()}, which is no set of items: {fault}")
    return _BruteForce(padded(sets))

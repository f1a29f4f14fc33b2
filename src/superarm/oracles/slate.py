"""The best k items in the best order, where positions are not looked at alike."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from superarm.arrays import Array, as_like
from superarm.checks import require_count
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle
from superarm.oracles.parts import Candidates, Part
from superarm.oracles.topk import TopK
from superarm.slates.feedback import as_examination


@dataclass(frozen=True)
class Slate(BaseOracle):
    """Ordered slates of exactly k items: item A[j] goes to position j.

    It maximizes Σ_j examination[j] w(A[j]): it takes the k largest weights, and puts the larger of
    them where users look more. The items are those of `TopK(k)`, and so is their order if users
    look less and less from the first position to the last. Ties go to the lowest index.

    Args:
        k: items, and positions.
        examination: the probability that position j is looked at, in (0, 1], as
            `superarm.slates.fit_examination` finds it. Only its order matters for what is chosen.

    >>> import numpy as np
    >>> from superarm import Slate
    >>> middle_first = Slate(3, examination=[0.5, 1.0, 0.3])
    >>> middle_first(np.array([0.1, 0.7, 0.2, 0.4]))
    array([3, 1, 2])
    """

    k: int
    examination: Any = field(kw_only=True)  # a tuple, so that equal slates are equal
    gap = 0.0
    checks_weights = True

    def __post_init__(self) -> None:
        require_count(k=self.k)
        p = as_examination(self.examination)
        if len(p) != self.k:
            raise ParameterError(
                f"a slate of {self.k} needs the examination of {self.k} positions, got {len(p)}"
            )
        object.__setattr__(self, "examination", tuple(p.tolist()))

    @property
    def K(self) -> int:
        """The most items it returns."""
        return self.k

    @functools.cached_property
    def _best(self) -> TopK:
        """The items, the best first."""
        return TopK(self.k)

    @functools.cached_property
    def _rank(self) -> Array:
        """(k,) how many positions are looked at more than each one, or as much and come before."""
        order = np.argsort(-np.array(self.examination), kind="stable")
        return np.argsort(order)

    def solve(self, rows: Array) -> Array:
        """The best slate for each row of weights (n, L): (n, k), by position."""
        A = self._best.solve(rows)
        return A[:, as_like(A, self._rank)]

    solve_tensors = solve

    def part(self, items: slice | Array) -> Part:
        """What finds the best k among some of the items."""
        return self._best.part(items)

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best slate (k,) of all items, from the candidates among each part of them."""
        return self._best.merged(parts)[self._rank]

"""The best k items, over all or by group."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, as_like
from superarm.checks import require_count
from superarm.checks.tables import split_labels
from superarm.errors import InfeasibleError, ParameterError
from superarm.oracles.base import BaseOracle, feasible, is_full, require_whole, starts
from superarm.oracles.parts import NO_GROUPS, Candidates, Part, joined, named_items, within
from superarm.oracles.selection import ByGroup, best_by_group, best_of_total


class Groups(NamedTuple):
    """Items by group."""

    labels: list[Any]
    group: Array  # (L,) the group of each item, as an index into the labels
    sizes: list[int]  # items per group


def index_groups(groups: Sequence[Any] | Array) -> Groups:
    """The groups of items whose labels are given, one per item."""
    if not len(groups) or (isinstance(groups, np.ndarray) and groups.ndim != 1):
        raise ParameterError(f"groups must name the group of each item, got {groups!r}")

    if isinstance(groups, np.ndarray) and groups.dtype != object:
        unique, group = np.unique(groups, return_inverse=True)
        labels = unique.tolist()
    else:  # labels may be of different types
        try:
            labels = list(dict.fromkeys(groups))
        except TypeError as error:
            raise ParameterError(
                f"groups must name the group of each item by a label ({error})"
            ) from error
        index = {label: g for g, label in enumerate(labels)}
        group = np.array([index[label] for label in groups])
    return Groups(labels, group, np.bincount(group).tolist())


def numbers_by_group(numbers: Mapping[Any, int], labels: list[Any], what: str) -> list[int]:
    """A whole number for each label, in their order; an upper bound on a group without items does
    not matter.
    """
    if not isinstance(numbers, Mapping):
        raise ParameterError(
            f"{what} must be given for each group, as in {{'a': 2, 'b': 1}}, got {numbers!r}"
        )
    if unnamed := [label for label in labels if label not in numbers]:
        raise ParameterError(f"{what} must name every group; missing: {unnamed[0]!r}")
    for label, number in numbers.items():
        require_whole(number, f"{what} of group {label!r}")
        if number and label not in labels and what in ("count", "minimum"):
            raise ParameterError(f"{what} names group {label!r}, which has no items")
    return [int(numbers[label]) for label in labels]


@dataclass(frozen=True)
class TopK(BaseOracle):
    """Sets of exactly k items, or of at most k items.

    The best come first, and ties go to the lowest index. With `at_most`, items whose weight is not
    positive are left out, and -1 fills the rest.

    Args:
        k: how many items.
        at_most: whether fewer will do.

    >>> import numpy as np
    >>> from superarm import TopK
    >>> TopK(2)(np.array([0.1, 0.7, -np.inf, 0.3]))
    array([1, 3])
    >>> TopK(3, at_most=True)(np.array([0.1, 0.7, -0.2, -0.3]))
    array([ 1,  0, -1])
    """

    k: int
    at_most: bool = field(default=False, kw_only=True)
    gap = 0.0
    exchanges = True
    checks_weights = True

    def __post_init__(self) -> None:
        require_count(k=self.k)

    @property
    def K(self) -> int:
        """The most items it returns."""
        return self.k

    @functools.cached_property
    def _start(self) -> Array:
        """Where the only group starts and ends."""
        return np.array([0, self.k])

    @property
    def _floor(self) -> float:
        """What the weight of an item must exceed to be chosen."""
        return 0.0 if self.at_most else -np.inf

    def solve(self, rows: Array) -> Array:
        """The best items of each row of weights (n, L): (n, k), -1 pads."""
        L = rows.shape[-1]
        if self.k > L and not self.at_most:
            raise InfeasibleError(f"{self} asks for more items than the {L} there are")
        return self._best(rows)

    solve_tensors = solve

    def _best(self, rows: Array) -> Array:
        A = best_by_group(rows, NO_GROUPS, self._start, self._floor)
        if not self.at_most:
            feasible(is_full(A), self)
        return A

    def part(self, items: slice | Array) -> Part:
        """What finds the best k among some of the items.

        >>> import numpy as np
        >>> from superarm import TopK
        >>> oracle = TopK(2)
        >>> here = oracle.part(slice(0, 2)).candidates(np.array([0.1, 0.7]))
        >>> there = oracle.part(slice(2, 5)).candidates(np.array([0.3, 0.9, 0.2]))
        >>> oracle.merged([here, there])
        array([3, 1])
        """
        return Part(within(items), NO_GROUPS, ByGroup(self._start, self._floor))

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best set (k,) of all items, from the candidates among each part of them."""
        of = joined(parts)
        return named_items(self._best(of.w[None]), of.items)


class Quota(BaseOracle):
    """Sets with a given number of items from each group, or with a total and bounds for each group.

    `groups` gives the group of each item, by any label: a list in the order of the items, or by id,
    as a mapping or a pandas Series, with which an agent aligns its items. `counts` says exactly how
    many to choose from each group. Instead, `total` says how many to choose in all, and `minimum`
    and `maximum` bound the number from the groups they name. Items come group by group, the best
    first; ties go to the lowest index.

    >>> import numpy as np
    >>> from superarm import Quota
    >>> w = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    >>> Quota(["f", "m", "f", "m", "f"], {"f": 2, "m": 1})(w)
    array([4, 2, 3])
    >>> Quota(["f", "m", "f", "m", "f"], total=3, maximum={"f": 1})(w)
    array([4, 3, 1])
    """

    K: int  # the number of items it returns
    gap = 0.0
    exchanges = True
    checks_weights = True

    def __init__(
        self,
        groups: Sequence[Any] | Array | Mapping[Any, Any],
        counts: Mapping[Any, int] | None = None,
        *,
        total: int | None = None,
        minimum: Mapping[Any, int] | None = None,
        maximum: Mapping[Any, int] | None = None,
    ) -> None:
        if (counts is None) == (total is None) or (counts is not None and (minimum or maximum)):
            raise ParameterError("a quota takes either counts, or a total with minimum and maximum")
        listed, self.ids = split_labels(groups, ParameterError)
        by_group = index_groups(listed)
        labels = by_group.labels
        if counts is None:
            least = dict.fromkeys(labels, 0) | dict(minimum or {})
            most = dict(zip(labels, by_group.sizes, strict=True)) | dict(maximum or {})
            low = numbers_by_group(least, labels, "minimum")
            high = numbers_by_group(most, labels, "maximum")
            high = np.minimum(high, by_group.sizes).tolist()
        else:
            low = high = numbers_by_group(counts, labels, "count")
        self.K = sum(low) if total is None else total
        self.L = len(by_group.group)
        self._groups = by_group
        self._check(low, high)
        spare = self.K - sum(low)
        sizes = np.minimum(np.add(low, spare), high)
        self._start = starts(sizes)
        self._needed = np.concatenate([np.arange(n) < a for a, n in zip(low, sizes, strict=True)])

    def _check(self, low: list[int], high: list[int]) -> None:
        require_whole(self.K, "total")
        labels, _, sizes = self._groups
        for label, least, most, size in zip(labels, low, high, sizes, strict=True):
            if least > size:
                raise InfeasibleError(f"group {label!r} has {size} items, fewer than its {least}")
            if least > most:
                raise InfeasibleError(
                    f"group {label!r} has a minimum of {least} above its maximum of {most}"
                )

        if not sum(low) <= self.K <= sum(high):
            raise InfeasibleError(
                f"the total is {self.K}, but the groups allow {sum(low)} to {sum(high)} items"
            )

    def __repr__(self) -> str:
        return f"Quota({self.L} items in {len(self._groups.labels)} groups, total={self.K})"

    def solve(self, rows: Array) -> Array:
        """The best items of each row of weights (n, L), group by group: (n, K)."""
        return self._best(rows, self._groups.group)

    solve_tensors = solve

    def _best(self, rows: Array, group: Array) -> Array:
        A = best_by_group(rows, group, self._start, -np.inf)
        if len(self._needed) > self.K:
            feasible(rows.shape[-1] >= self.K, self)
            missing = as_like(A, self._needed) & (A < 0)
            feasible(not missing.any(), self)
            A = best_of_total(rows, A, self._needed, self.K)
        feasible(is_full(A), self)
        return A

    def part(self, items: slice | Array) -> Part:
        """What finds the best of each group among some of the items."""
        items = within(items, self.L)
        return Part(items, self._groups.group[items], ByGroup(self._start, -np.inf))

    def merged(self, parts: Iterable[Candidates]) -> Array:
        """The best set (K,) of all items, from the candidates among each part of them."""
        of = joined(parts)
        return named_items(self._best(of.w[None], of.group), of.items)

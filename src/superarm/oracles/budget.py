"""Sets of items within a budget, with limits on how many of each group and in all."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import raise_bad_weight, require_count
from superarm.checks.tables import align_alike, split_labels
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, starts
from superarm.oracles.costs import checked_costs, limit_of, require_budget, unit_of
from superarm.oracles.exchanges import EFFORT
from superarm.oracles.exchanges import solve as search
from superarm.oracles.gaps import with_gaps
from superarm.oracles.prices import EPS, Limits, mixed
from superarm.oracles.topk import index_groups, numbers_by_group


class Budget(BaseOracle):
    """Sets of items whose costs come to at most the budget, with at most so many of each group, and
    of at most `max_items` items if that is given.

    `costs` and `groups`, by any labels, are given in the order of the items, or both by id, as
    mappings or pandas Series, with which an agent aligns its items. `maximum` is how many a group
    may have: one number, or one by label for the groups that have a limit. Items whose weight is
    not positive are left out, so that no item at all is a feasible set; the others are returned in
    increasing order. Whole costs are added up exactly; with others a set fits if its costs come to
    at most budget (1 + 1e-12).

    Prices for cost and for a place leave few items in doubt, among which a search finds the best
    set and proves it, or ends after `effort` steps per weight vector; half a million take some 5
    ms. `solve_with_gap` says how much of the best a set lacks at most: of 10,000 items some
    hundredths of a percent, if anything. Steps are counted, not timed: the same weights have the
    same answer, on any machine. `oracle.gap` is 0 if no weights can take more steps, as with few
    items, and else None; `Milp` takes the time it needs.

    >>> import numpy as np
    >>> from superarm import Budget
    >>> page = Budget([3, 2, 2, 1], 6, groups=["news", "news", "sport", "sport"], maximum=1)
    >>> page(np.array([0.9, 0.8, 0.5, 0.4]))
    array([0, 2])
    >>> topics = ["news", "news", "sport", "sport"]
    >>> page = Budget([3, 2, 2, 1], 6, groups=topics, maximum={"news": 1}, max_items=3)
    >>> page(np.array([0.9, 0.8, 0.5, 0.4]))
    array([0, 2, 3])
    """

    K: int  # the most items that the budget and the limits allow
    checks_weights = True

    exchanges = True

    def __init__(
        self,
        costs: Any,
        budget: float,
        *,
        groups: Sequence[Any] | Array | Mapping[Any, Any],
        maximum: int | Mapping[Any, int],
        max_items: int | None = None,
        effort: int = EFFORT,
    ) -> None:
        require_budget(budget)
        require_count(effort=effort)
        if max_items is not None:
            require_count(max_items=max_items)
        listed, self.ids = split_labels(costs, ParameterError)
        self.costs = checked_costs(listed)
        self.budget = budget
        self.effort = effort
        self.L = len(self.costs)
        of_items = align_alike(groups, self.ids, "costs and groups", ParameterError)
        labels, self._group, sizes = index_groups(of_items)
        if len(self._group) != self.L:
            raise ParameterError(
                "costs and groups must have one entry per item, "
                f"got {self.L} and {len(self._group)}"
            )

        self._limit = limit_of(budget, unit_of(self.costs))
        most = np.minimum(_maximum(maximum, labels, sizes), sizes)
        self.K = self._most_items(most, max_items)
        self._limits = Limits(
            np.argsort(self._group, kind="stable"),
            starts(np.array(sizes)),
            most,
            self.K,
        )
        self._mix = mixed(self.L)
        flips = 2.0 ** min(self.L + 1, 1000)
        self.gap = 0.0 if flips <= effort else None

    def __repr__(self) -> str:
        groups = len(self._limits.most)
        return f"Budget({self.L} items in {groups} groups, budget={self.budget}, at most {self.K})"

    def _most_items(self, most: Array, max_items: int | None) -> int:
        """How many of the cheapest items that the groups allow fit the budget."""
        by_cost = np.argsort(self.costs, kind="stable")
        spent = 0.0
        n = 0
        left = most.copy()
        for e in by_cost:
            g = self._group[e]
            if left[g] == 0:
                continue
            spent += self.costs[e]
            if spent > self._limit * (1 + EPS) or n == max_items:
                break
            left[g] -= 1
            n += 1
        return n

    def solve(self, rows: Array) -> Array:
        """The best set found for each row of weights (n, L): (n, K), -1 pads."""
        A, _ = self._solve(rows)
        return A

    def solve_with_gap(self, w: Any) -> tuple[Array, Array]:
        """The best sets found for the weights (*B, L), and for each the share of the best that it
        may lack: items (*B, K), gaps (*B,), where 0 is proven to be the best.

        Returns:
            items (*B, K) and gaps (*B,).

        >>> from superarm import Budget
        >>> page = Budget([3, 2, 2, 1], 6, groups=["news", "news", "sport", "sport"], maximum=1)
        >>> page.solve_with_gap([0.9, 0.8, 0.5, 0.4])
        (array([0, 2]), array(0.))
        """
        return with_gaps(self._solve, w, self.L)

    def _solve(self, rows: Array) -> tuple[Array, Array]:
        A, gap, valid = search(
            rows,
            self.costs,
            self._limit,
            self._group,
            self._limits,
            self._mix,
            self.effort,
        )
        if not valid:
            raise_bad_weight(rows)
        return A, gap


def _maximum(maximum: int | Mapping[Any, int], labels: list[Any], sizes: list[int]) -> Array:
    """How many items each group may have, (G,)."""
    unlimited = dict(zip(labels, sizes, strict=True))
    given = maximum if isinstance(maximum, Mapping) else dict.fromkeys(labels, maximum)
    most = numbers_by_group(unlimited | dict(given), labels, "maximum")
    return np.array(most, np.int64)

"""Sets of items within a budget: by a compiled search, and by HiGHS where that is asked for."""

import time
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.checks import raise_bad_weight, require_count
from superarm.checks.tables import split_labels
from superarm.errors import ParameterError
from superarm.oracles import core
from superarm.oracles.base import BaseOracle
from superarm.oracles.costs import checked_costs, limit_of, require_budget, unit_of
from superarm.oracles.gaps import lacking, with_gaps
from superarm.oracles.milp import Milp, check_limits
from superarm.oracles.prices import EPS, Rules, mixed, relaxed

EFFORT = 1_000_000
"""Steps of a search, unless another number is given: some 40 ms."""
_HALF = 0.5  # what the search lacks at most, whatever its effort
_STEPS_PER_SECOND = 5e6  # of a slow machine


class Knapsack(BaseOracle):
    """Sets of items whose costs come to at most the budget, of at most `max_items` items if that is
    given.

    Costs are not negative, and given in the order of the items, or by id as a mapping or a pandas
    Series. Items whose weight is not positive are left out, so that no item at all
    is a feasible set; the others are returned in increasing order. Whole costs are added up
    exactly; with others a set fits if its costs come to at most budget (1 + 1e-12), and sets are
    equal if their weights differ by less than 1e-12 of the best.

    The search ends when its set is proven to be worth (1 - `gap`) of the best, or after `effort`
    steps per weight vector, a million in some 40 ms. Most weights need far fewer. Some have no
    proof within reach, as those nearly proportional to the costs; their set lacks some millionths
    of the best, and `solve_with_gap` says how much at most. Steps are counted, not timed: the same
    weights have the same answer, on any machine.

    `oracle.gap` is what holds whatever the weights: the `gap` given if no weights can take more
    steps, as with few items or with small whole costs, and else one half. With `effort=None` the
    core of a problem that is too hard, which are the items on which the proof hangs, goes to HiGHS
    (see `Milp`), which may take hours and keeps the `gap`. With `time_limit`, in seconds per weight
    vector, HiGHS works on it until then; how far it comes differs from run to run.

    >>> import numpy as np
    >>> from superarm import Knapsack
    >>> oracle = Knapsack([3.0, 2.0, 2.0, 0.5], budget=4.0)
    >>> oracle(np.array([3.5, 2.0, 1.6, 0.1]))
    array([0, 3])
    >>> Knapsack([3.0, 2.0, 2.0, 0.5], budget=4.0, max_items=1)(np.array([3.5, 2.0, 1.6, -np.inf]))
    array([0])
    """

    K: int  # the most items that fit the budget, or `max_items` if those are fewer
    checks_weights = True

    exchanges = True

    def __init__(
        self,
        costs: Any,
        budget: float,
        *,
        max_items: int | None = None,
        gap: float = 0.0,
        effort: int | None = EFFORT,
        time_limit: float | None = None,
    ) -> None:
        check_limits(max_items, gap, time_limit)
        if effort is not None:
            require_count(effort=effort)
        listed, self.ids = split_labels(costs, ParameterError)
        self.costs = checked_costs(listed)
        self.budget = budget
        self.max_items = max_items
        require_budget(budget)
        self.L = len(self.costs)
        self.effort = effort
        self.time_limit = time_limit
        self._unit = unit_of(self.costs)
        self._limit = limit_of(budget, self._unit)
        self._order = np.argsort(self.costs, kind="stable")
        self._mix = mixed(self.L)
        cheapest = np.cumsum(self.costs[self._order])
        fit = int((cheapest <= self._limit * (1 + EPS)).sum())
        self.K = fit if max_items is None else min(fit, max_items)
        self._stop_gap = gap
        self.gap = gap if self._always_ends() else max(gap, _HALF)

    def __repr__(self) -> str:
        most = "" if self.max_items is None else f", max_items={self.max_items}"
        return f"Knapsack({self.L} items, budget={self.budget}{most})"

    def _always_ends(self) -> bool:
        """Whether the search keeps its gap for any weights.

        It looks at no more states than there are sets, or total costs and numbers of items; each
        may be compared with as many numbers of items.
        """
        if self.effort is None:
            return self.time_limit is None
        sets = 2.0 ** min(self.L, 1000)
        totals = self.L * (self.costs.sum() / self._unit + 1) if self._unit else np.inf
        steps = min(sets, totals) + self.L
        if self.max_items is not None:
            steps *= (self.L + 2.0) ** 2
        return bool(2 * steps <= self._steps())

    def _steps(self) -> int:
        """How many steps the search may take: about half of the time limit, if there is one."""
        steps = EFFORT if self.effort is None else self.effort
        if self.time_limit is None:
            return steps
        return min(steps, int(_STEPS_PER_SECOND * self.time_limit))

    def solve(self, rows: Array) -> Array:
        """The best set within the budget for each row of weights (n, L): (n, K), -1 pads."""
        A, _ = self._solve(rows)
        return A

    def solve_with_gap(self, w: Any) -> tuple[Array, Array]:
        """The best sets found for the weights (*B, L), and for each the share of the best that it
        may lack: items (*B, K), gaps (*B,), where 0 is proven to be the best.

        Returns:
            items (*B, K) and gaps (*B,).

        >>> import numpy as np
        >>> from superarm import Knapsack
        >>> price = np.random.default_rng(0).uniform(1, 10, 100)
        >>> A, gap = Knapsack(price, 150.0, effort=10_000).solve_with_gap(2 * price)
        >>> bool(0 < gap < 1e-4)
        True
        """
        return with_gaps(self._solve, w, self.L)

    def _solve(self, rows: Array) -> tuple[Array, Array]:
        """The best sets found for the rows of weights (n, L), and their gaps (n,)."""
        if self.effort is not None and self.time_limit is None:
            return self._search(rows)

        A = np.empty((len(rows), self.K), np.int64)
        gap = np.empty(len(rows))
        for b, w in enumerate(rows):
            begun = time.monotonic()
            found, proven = self._search(w[None])
            A[b] = found[0]
            gap[b] = proven[0]
            left = None
            if self.time_limit is not None:
                left = self.time_limit - (time.monotonic() - begun)
            if gap[b] > self._stop_gap and (left is None or left > 0):
                A[b], gap[b] = self._further(w, A[b], gap[b], left)
        return A, gap

    def _rules(self) -> Rules:
        return Rules(self._limit, self.K, float(self._stop_gap), self._steps())

    def _search(self, rows: Array) -> tuple[Array, Array]:
        """What the compiled search finds."""
        A, gap, valid = core.solve(rows, self._order, self.costs, self._mix, self._rules())
        if not valid:
            raise_bad_weight(rows)
        return A, gap

    def _further(
        self, w: Array, found: Array, gap: float, seconds: float | None
    ) -> tuple[Array, float]:
        """The better of the set found and HiGHS's, and its gap.

        In any set that is worth more than the one found, all items outside the core are as the
        prices choose.
        """
        rules = self._rules()
        worth = self._order[(w[self._order] > 0) & (self.costs[self._order] <= rules.budget)]
        fit = int((np.cumsum(self.costs[worth]) <= rules.budget).sum())
        at_prices = relaxed(w[worth], self.costs[worth], fit, rules)
        value = w[found[found >= 0]].sum()
        needed = (value + EPS * at_prices.U) / (1 - rules.gap)
        open_ = at_prices.U - at_prices.loss > needed
        items = worth[open_]
        sure = worth[at_prices.x & ~open_]
        left = rules.budget - self.costs[sure].sum()
        if left < 0 or len(sure) >= self.K:
            return found, gap

        highs = Milp(
            self.costs[None, items],
            [left],
            max_items=self.K - len(sure),
            gap=self._stop_gap,
            time_limit=seconds,
        )
        x, bound = highs.search(w[items])
        other = np.sort(np.append(sure, items[x > 0]))
        bound = min(value / (1 - gap), max(bound + w[sure].sum(), value))
        if w[other].sum() <= value:
            return found, lacking(value, bound)
        padding = np.full(self.K - len(other), -1)
        return np.append(other, padding), lacking(w[other].sum(), bound)

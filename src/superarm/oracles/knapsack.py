"""Sets of items within a budget.

With a price λ on cost and a price μ on being chosen, any set is worth

    value = U - Σ_{e flipped} |w_e - λ c_e - μ| - λ slack - μ room

where flipped are the items in which it differs from the set x that the prices choose, slack is the
budget left and room the number of items still allowed. At the best prices U is the bound of linear
programming, and only few flips lose less than the best set known does: the core (Balas & Zemel
1980). A dynamic program adds them one by one, least loss first, and keeps the states that are not
dominated and that may still beat the best (Pisinger 1997).

w, c    (n,)      weights and costs of the items worth a look, w > 0 and c <= budget, cheapest first
x       (n,)      the set the prices choose
λ, μ    lam, mu
k                 the most items that fit the budget, or that are allowed
"""

from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import as_weights, is_real, refuse_weights
from superarm.errors import OracleError, ParameterError
from superarm.oracles.milp import Milp, check_limits

_EPS = 1e-12  # what rounding may hide, relative to the budget and to U
_EFFORT = 10_000_000  # states to look at before giving up: some tenths of a second
_EXACT = 2.0**53  # integers below add up without rounding


@compiled
def _choose(w: Array, c: Array, lam: float, k: int, x: Array) -> tuple[float, float, float]:
    """Put into x the k best items with w > λc. Returns their weight, their cost and the least μ
    that leaves k.
    """
    reduced = w - lam * c
    mu, ties = 0.0, 0
    if (reduced > 0).sum() > k:
        mu = np.partition(reduced, len(w) - k)[len(w) - k]
        ties = k - (reduced > mu).sum()
    value = cost = 0.0
    for j in range(len(w)):
        x[j] = reduced[j] > mu
        if reduced[j] == mu and ties > 0:
            x[j] = True
            ties -= 1
        if x[j]:
            value += w[j]
            cost += c[j]
    return value, cost, mu


@compiled
def _prices(w: Array, c: Array, budget: float, k: int) -> tuple[float, float, Array]:
    """The prices with the least U, and a set within the budget that is best for them.

    U is convex in λ, and each set x gives a line below it, w(x) + λ (budget - c(x)). The next λ is
    where the last falling and the last rising line meet.
    """
    x = np.empty(len(w), np.bool_)
    within = np.zeros(len(w), np.bool_)
    falling_value, falling_cost, mu = _choose(w, c, 0.0, k, x)
    if falling_cost <= budget:
        return 0.0, mu, x
    lam = rising_value = rising_cost = 0.0
    for _ in range(100):  # any prices give a bound; these are the best after some ten rounds
        lam = (falling_value - rising_value) / (falling_cost - rising_cost)
        value, cost, mu = _choose(w, c, lam, k, x)
        if value - lam * cost <= rising_value - lam * rising_cost + _EPS * value:
            break
        if cost > budget:
            falling_value, falling_cost = value, cost
        else:
            rising_value, rising_cost = value, cost
            within[:] = x
    return lam, mu, within


@compiled
def _priced(w: Array, c: Array, budget: float, k: int) -> tuple[float, float, Array, Array]:
    """The best prices, the loss of flipping each item, and the set x, filled up with items that
    lose nothing.
    """
    lam, mu, x = _prices(w, c, budget, k)
    reduced = w - lam * c - mu
    free = np.flatnonzero(np.abs(reduced) <= _EPS * w)
    reduced[free] = 0
    m = x[free].sum()
    x[free] = False
    x |= reduced > 0
    x &= reduced >= 0
    slack, room = budget - c[x].sum() - c[free[:m]].sum(), k - x.sum() - m
    i = 0  # m free items, the cheapest at first, give way to dearer ones
    while m > 0 and i + m < len(free) and c[free[i + m]] - c[free[i]] <= slack:
        slack -= c[free[i + m]] - c[free[i]]
        i += 1
    x[free[i : i + m]] = True
    for j in free[::-1]:
        if not x[j] and c[j] <= slack and room > 0:
            x[j] = True
            slack, room = slack - c[j], room - 1
    return lam, mu, np.abs(reduced), x


@compiled
def _space(table: Array, size: int) -> Array:
    """The table, with space for `size` rows."""
    if size <= len(table):
        return table
    larger = np.empty((2 * size, table.shape[1]), table.dtype)
    larger[: len(table)] = table
    return larger


@compiled
def _flip(
    states: Array,
    size: int,
    merged: Array,
    trail: Array,
    found: Any,
    item: Any,
    hope: Any,
    rooms: Any,
    counted: bool,
) -> tuple[int, tuple[int, float, int]]:
    """Merge the states with those that flip one item, most slack first. Returns their number, and
    what is found.

    Left out are states that are dominated, and those that cannot come to more than `need`.
    """
    (nodes, best, at), (e, dw, dc, dn), (lam, mu, need), (adds, cuts) = found, item, hope, rooms
    top = np.full(
        adds + cuts + 1, -np.inf
    )  # the most value seen, by the room it comes with at least
    states[size, 0] = -np.inf
    i = j = m = 0
    for _ in range(2 * size):
        slack, value, room, node = (
            states[j, 0] - dc,
            states[j, 1] + dw,
            states[j, 2] - dn,
            states[j, 3],
        )
        flipped = slack > states[i, 0] or (slack == states[i, 0] and value > states[i, 1])
        if flipped:
            j += 1
        else:
            slack, value, room, node = states[i, 0], states[i, 1], states[i, 2], states[i, 3]
            i += 1
        level = int(min(room, adds)) + cuts if counted else 0
        if level < 0 or value <= top[level]:
            continue
        while level >= 0 and top[level] < value:
            top[level] = value
            level -= 1
        better = value > best and slack >= 0 and (room >= 0 or not counted)
        if value + lam * slack + mu * room <= need and not better:
            continue
        if flipped:
            trail[nodes, 0], trail[nodes, 1] = node, e
            node = nodes
            nodes += 1
        if better:
            best, at = value, int(node)
        merged[m, 0], merged[m, 1], merged[m, 2], merged[m, 3] = slack, value, room, node
        m += 1
    return m, (nodes, best, at)


@compiled
def _search(
    w: Array, c: Array, budget: float, k: int, counted: bool, gap: float, effort: int
) -> tuple[Array, bool]:
    """A best set, and whether that is proven. Only if `counted`, k is a constraint of its own.

    A state is a set that differs from x only in items of the core looked at so far: (slack, value,
    room, node), where node is a row of `trail`, (node before, item flipped).
    """
    lam, mu, loss, x = _priced(w, c, budget, k)
    value, slack, room = w[x].sum(), budget - c[x].sum(), k - x.sum()
    U = value + lam * slack + mu * room
    trail = np.zeros((64, 2), np.int32)
    best, at, nodes = (
        (value, 0, 2) if slack >= 0 and room >= 0 else (0.0, -1, 2)
    )  # -1: the empty set
    for j in range(len(w)):
        n = -1 if x[j] else 1
        if value + n * w[j] > best and slack >= n * c[j] and (room >= n or not counted):
            best, at = value + n * w[j], 1
            trail[1, 1] = j

    core = np.flatnonzero(U - loss > (best + _EPS * U) / (1 - gap))
    core = core[
        np.argsort(core * 0.618034 % 1.0, kind="mergesort")
    ]  # where losses tie, mixed costs soon find a fit
    core = core[np.argsort(loss[core], kind="mergesort")]
    cuts = x[core].sum()
    adds = len(core) - cuts
    states, merged, size = np.empty((64, 4)), np.empty((64, 4)), 1
    states[0, 0], states[0, 1], states[0, 2], states[0, 3] = slack, value, room, 0
    for step in range(len(core)):
        e = core[step]
        n = -1 if x[e] else 1
        cuts, adds = cuts - (n < 0), adds - (n > 0)
        rooms = (
            (min(adds, max(0, room + step + 1)), min(cuts, max(0, step + 1 - room)))
            if counted
            else (0, 0)
        )
        need = (best + _EPS * U) / (1 - gap) + (
            loss[core[step + 1]] if step + 1 < len(core) else 0.0
        )
        effort -= size
        if size == 0 or effort < 0:
            break
        merged, trail = _space(merged, 2 * size + 1), _space(trail, nodes + size)
        item = (e, n * w[e], n * c[e], n)
        hope = (lam, mu, need)
        size, found = _flip(
            states, size, merged, trail, (nodes, best, at), item, hope, rooms, counted
        )
        nodes, best, at = found
        states, merged = merged, states
    x &= at >= 0
    while at > 0:
        x[trail[at, 1]] = not x[trail[at, 1]]
        at = trail[at, 0]
    return x, effort >= 0


@compiled
def _solve(
    w: Array, order: Array, costs: Array, budget: float, max_items: int, gap: float, effort: int
) -> tuple[Array, Array, bool]:
    """For each row of w (m, L): a best set, whether that is proven, and whether all weights are
    below +inf.
    """
    A = np.full((len(w), max_items), -1)
    proven = np.ones(len(w), np.bool_)
    items = np.empty(len(order), np.int64)
    for b in range(len(w)):
        n = fit = 0
        total = 0.0
        for e in order:
            if not w[b, e] < np.inf:
                return A, proven, False
            if w[b, e] > 0 and costs[e] <= budget:
                items[n] = e
                n += 1
                total += costs[e]
                fit += total <= budget
        if n > 0:
            k = min(fit, max_items)
            chosen, proven[b] = _search(
                w[b][items[:n]], costs[items[:n]], budget, k, max_items < fit, gap, effort
            )
            found = np.sort(items[:n][chosen])
            A[b, : len(found)] = found
    return A, proven, True


class Knapsack:
    """Sets of items whose costs come to at most the budget, of at most `max_items` items if that is
    given.

    Costs are not negative. Items whose weight is not positive are left out, so that no item at all
    is a feasible set; the others are returned in increasing order. Whole costs are added up
    exactly; with others a set fits if its costs come to at most budget (1 + 1e-12), and sets are
    equal if their weights differ by less than 1e-12 of the best.

    With `gap`, the search stops as soon as its set is proven to be worth (1 - gap) of the best. The
    rare weights that are too hard, such as real ones that are nearly the costs, go to HiGHS (see
    `Milp`), which may take long. With `time_limit`, in seconds a weight vector, it stops then with
    the best set found; nothing is known about that one, so the oracle's gap is None.

    >>> import numpy as np
    >>> from superarm import Knapsack
    >>> oracle = Knapsack([3.0, 2.0, 2.0, 0.5], budget=4.0)
    >>> oracle(np.array([3.5, 2.0, 1.6, 0.1]))
    array([0, 3])
    >>> Knapsack([3.0, 2.0, 2.0, 0.5], budget=4.0, max_items=1)(np.array([3.5, 2.0, 1.6, -np.inf]))
    array([0])
    """

    def __init__(
        self,
        costs: Any,
        budget: float,
        *,
        max_items: int | None = None,
        gap: float = 0.0,
        time_limit: float | None = None,
    ) -> None:
        check_limits(max_items, gap, time_limit)
        self.costs, self.budget, self.max_items = _checked_costs(costs), budget, max_items
        if not (is_real(budget) and 0 <= budget < np.inf):
            raise ParameterError(f"budget must be a finite number, 0 or more, got {budget!r}")
        self.gap = gap if time_limit is None else None
        self._stop_gap, self.time_limit = gap, time_limit
        self._limit = _limit(self.costs, budget)
        self._order = np.argsort(self.costs, kind="stable")
        fit = int((np.cumsum(self.costs[self._order]) <= self._limit * (1 + _EPS)).sum())
        self.K = fit if max_items is None else min(fit, max_items)

    def __repr__(self) -> str:
        most = "" if self.max_items is None else f", max_items={self.max_items}"
        return f"Knapsack({len(self.costs)} items, budget={self.budget}{most})"

    def __call__(self, w: Array, /) -> Array:
        """The best set for the weights (*B, L)."""
        w = as_weights(w, len(self.costs))
        rows = np.ascontiguousarray(w.reshape(-1, len(self.costs)))
        A, proven, valid = _solve(
            rows, self._order, self.costs, self._limit, self.K, self._stop_gap, _EFFORT
        )
        if not valid:
            refuse_weights(w)
        for b in np.flatnonzero(~proven):
            A[b] = self._harder(rows[b], A[b])
        return A.reshape(*w.shape[:-1], self.K)

    def _harder(self, w: Array, found: Array) -> Array:
        """The better of the set found and HiGHS's."""
        highs = Milp(
            self.costs[None],
            [self._limit],
            max_items=self.K,
            gap=self._stop_gap,
            time_limit=self.time_limit,
        )
        try:
            other = highs(np.where(w > 0, w, -np.inf))
        except OracleError:
            if self.time_limit is None:
                raise
            return found
        return other if w[other[other >= 0]].sum() > w[found[found >= 0]].sum() else found


def _checked_costs(costs: Any) -> Array:
    try:
        c: Array = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"costs must be numbers, one an item ({error})") from error
    if c.ndim != 1 or not len(c):
        raise ParameterError(f"costs must be a list of numbers, one an item, got shape {c.shape}")
    bad = np.flatnonzero(~((c >= 0) & (c < np.inf)))
    if len(bad):
        raise ParameterError(
            f"costs must be finite and not negative: item {bad[0]} costs {c[bad[0]]}"
        )
    return c


def _limit(costs: Array, budget: float) -> float:
    """What the costs of a set may come to in floating point."""
    if costs.sum() < _EXACT and (costs == np.floor(costs)).all():
        unit = max(1, int(np.gcd.reduce(costs.astype(np.int64))))
        return float(budget // unit * unit)
    return budget * (1 + _EPS)

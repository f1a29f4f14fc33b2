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

from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.checks import is_real, refuse_weights
from superarm.errors import OracleError, ParameterError
from superarm.oracles.base import BaseOracle
from superarm.oracles.milp import Milp, check_limits
from superarm.tables import named

_EPS = 1e-12  # what rounding may hide, relative to the budget and to U
_EFFORT = 10_000_000  # states to look at before giving up: some tenths of a second
_EXACT = 2.0**53  # integers below add up without rounding


@compiled
def _choose(w: Array, c: Array, lam: float, k: int, x: Array) -> tuple[float, float, float]:
    """Put into x the k best items with w > λc. Returns their weight, their cost and the least μ
    that leaves k.
    """
    reduced = w - lam * c
    mu = 0.0
    ties = 0
    if (reduced > 0).sum() > k:
        last = len(w) - k
        mu = np.partition(reduced, last)[last]
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
    """The prices λ and μ with the least U, and a set within the budget that is best for them.

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
            falling_value = value
            falling_cost = cost
        else:
            rising_value = value
            rising_cost = cost
            within[:] = x
    return lam, mu, within


@compiled
def _priced(w: Array, c: Array, budget: float, k: int) -> tuple[float, float, Array, Array]:
    """The best prices λ and μ, the loss of flipping each item, and the set x, filled up with items
    that lose nothing.
    """
    lam, mu, x = _prices(w, c, budget, k)
    reduced = w - lam * c - mu
    free = np.flatnonzero(np.abs(reduced) <= _EPS * w)
    reduced[free] = 0
    m = x[free].sum()
    x[free] = False
    x |= reduced > 0
    x &= reduced >= 0

    slack = budget - c[x].sum() - c[free[:m]].sum()
    room = k - x.sum() - m

    i = 0  # m free items, the cheapest at first, give way to dearer ones
    while m > 0 and i + m < len(free):
        dearer = c[free[i + m]] - c[free[i]]
        if dearer > slack:
            break
        slack -= dearer
        i += 1
    x[free[i : i + m]] = True

    for j in free[::-1]:
        if not x[j] and c[j] <= slack and room > 0:
            x[j] = True
            slack -= c[j]
            room -= 1
    return lam, mu, np.abs(reduced), x


@compiled
def _space(table: Array, size: int) -> Array:
    """The table, with space for `size` rows."""
    if size <= len(table):
        return table

    larger = np.empty((2 * size, table.shape[1]), table.dtype)
    larger[: len(table)] = table
    return larger


class _Rules(NamedTuple):
    """When a set is feasible, and when to stop looking for a better one."""

    budget: float
    max_items: int
    gap: float
    effort: int  # states to look at


class _Hope(NamedTuple):
    """What a state may still come to, and what it needs."""

    lam: float
    mu: float
    need: float
    adds: int  # items that may still enter, as far as room matters
    cuts: int  # items that may still leave, as far as room matters


class _Found(NamedTuple):
    """The rows of the trail in use, and the best set so far."""

    nodes: int
    best: float  # its value
    at: int  # its row of the trail; -1: the empty set


@compiled
def _flip(
    states: Array,
    size: int,
    merged: Array,
    trail: Array,
    found: _Found,
    item: int,
    added: tuple[float, float, float],
    hope: _Hope,
    counted: bool,
) -> tuple[int, _Found]:
    """Merge the states with those that flip an item, which adds a cost, a weight and a number of
    items, most slack first. Returns their number, and what is found.

    Left out are states that are dominated, and those that cannot come to more than `need`.
    """
    nodes, best, at = found
    lam, mu, need, adds, cuts = hope
    cost, weight, items = added
    # the most value seen, by the room it comes with at least
    top = np.full(adds + cuts + 1, -np.inf)
    states[size, 0] = -np.inf

    i = j = m = 0
    for _ in range(2 * size):
        slack = states[j, 0] - cost
        value = states[j, 1] + weight
        room = states[j, 2] - items
        node = states[j, 3]
        kept = states[i]
        flipped = slack > kept[0] or (slack == kept[0] and value > kept[1])
        if flipped:
            j += 1
        else:
            slack = kept[0]
            value = kept[1]
            room = kept[2]
            node = kept[3]
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
            trail[nodes] = (int(node), item)
            node = nodes
            nodes += 1
        if better:
            best = value
            at = int(node)
        merged[m] = (slack, value, room, node)
        m += 1
    return m, _Found(nodes, best, at)


@compiled
def _search(w: Array, c: Array, fit: int, rules: _Rules) -> tuple[Array, bool]:
    """A best set, and whether that is proven; at most `fit` items fit the budget.

    A state is a set that differs from x only in items of the core looked at so far: (slack, value,
    room, node), where node is a row of `trail`, (node before, item flipped).
    """
    budget, max_items, gap, effort = rules
    counted = max_items < fit  # only then the number of items is a constraint of its own
    k = min(fit, max_items)
    lam, mu, loss, x = _priced(w, c, budget, k)
    value = w[x].sum()
    slack = budget - c[x].sum()
    room = k - x.sum()
    U = value + lam * slack + mu * room
    trail = np.zeros((64, 2), np.int32)
    found = _Found(2, 0.0, -1)
    if slack >= 0 and room >= 0:
        found = _Found(2, value, 0)
    sign = np.where(x, -1, 1)
    for j in range(len(w)):
        n = sign[j]
        flipped = value + n * w[j]
        if flipped > found.best and slack >= n * c[j] and (room >= n or not counted):
            found = _Found(2, flipped, 1)
            trail[1, 1] = j

    core = np.flatnonzero(U - loss > (found.best + _EPS * U) / (1 - gap))
    # where losses tie, mixed costs soon find a fit
    core = core[np.argsort(core * 0.618034 % 1.0, kind="mergesort")]
    core = core[np.argsort(loss[core], kind="mergesort")]
    cuts = x[core].sum()
    adds = len(core) - cuts
    states = np.empty((64, 4))
    merged = np.empty((64, 4))
    size = 1
    states[0] = (slack, value, float(room), 0.0)
    for step in range(len(core)):
        e = core[step]
        n = sign[e]
        cuts -= n < 0
        adds -= n > 0
        most_adds = 0
        most_cuts = 0
        if counted:
            most_adds = min(adds, max(0, room + step + 1))
            most_cuts = min(cuts, max(0, step + 1 - room))
        need = (found.best + _EPS * U) / (1 - gap)
        if step + 1 < len(core):
            need += loss[core[step + 1]]
        effort -= size
        if size == 0 or effort < 0:
            break

        merged = _space(merged, 2 * size + 1)
        trail = _space(trail, found.nodes + size)
        added = (n * c[e], n * w[e], float(n))
        hope = _Hope(lam, mu, need, most_adds, most_cuts)
        size, found = _flip(states, size, merged, trail, found, e, added, hope, counted)
        states, merged = merged, states

    at = found.at
    x &= at >= 0
    while at > 0:
        x[trail[at, 1]] = not x[trail[at, 1]]
        at = trail[at, 0]
    return x, effort >= 0


@compiled
def _solve(w: Array, order: Array, costs: Array, rules: _Rules) -> tuple[Array, Array, bool]:
    """For each row of w (n, L): a best set, whether that is proven, and whether all weights are
    below +inf.
    """
    A = np.full((len(w), rules.max_items), -1)
    proven = np.ones(len(w), np.bool_)
    items = np.empty(len(order), np.int64)
    for b in range(len(w)):
        n = fit = 0
        total = 0.0
        for e in order:
            if not w[b, e] < np.inf:
                return A, proven, False
            if w[b, e] > 0 and costs[e] <= rules.budget:
                items[n] = e
                n += 1
                total += costs[e]
                fit += total <= rules.budget
        if n > 0:
            worth = items[:n]
            chosen, proven[b] = _search(w[b][worth], costs[worth], fit, rules)
            found = np.sort(worth[chosen])
            A[b, : len(found)] = found
    return A, proven, True


class Knapsack(BaseOracle):
    """Sets of items whose costs come to at most the budget, of at most `max_items` items if that is
    given.

    Costs are not negative, and given in the order of the items, or by id as a mapping or a pandas
    Series. Items whose weight is not positive are left out, so that no item at all
    is a feasible set; the others are returned in increasing order. Whole costs are added up
    exactly; with others a set fits if its costs come to at most budget (1 + 1e-12), and sets are
    equal if their weights differ by less than 1e-12 of the best.

    With `gap`, the search stops as soon as its set is proven to be worth (1 - gap) of the best. The
    rare weights that are too hard, such as real ones that are nearly the costs, go to HiGHS (see
    `Milp`), which may take long. With `time_limit`, in seconds per weight vector, it stops then
    with the best set found; nothing is known about that one, so the oracle's gap is None.

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
        time_limit: float | None = None,
    ) -> None:
        check_limits(max_items, gap, time_limit)
        listed, self.ids = named(costs, ParameterError)
        self.costs = _checked_costs(listed)
        self.budget = budget
        self.max_items = max_items
        if not (is_real(budget) and 0 <= budget < np.inf):
            raise ParameterError(f"budget must be a finite number, 0 or more, got {budget!r}")
        self.L = len(self.costs)
        self.gap = gap if time_limit is None else None
        self._stop_gap = gap
        self.time_limit = time_limit
        self._limit = _limit(self.costs, budget)
        self._order = np.argsort(self.costs, kind="stable")
        cheapest = np.cumsum(self.costs[self._order])
        fit = int((cheapest <= self._limit * (1 + _EPS)).sum())
        self.K = fit if max_items is None else min(fit, max_items)

    def __repr__(self) -> str:
        most = "" if self.max_items is None else f", max_items={self.max_items}"
        return f"Knapsack({self.L} items, budget={self.budget}{most})"

    def solve(self, rows: Array) -> Array:
        """The best set within the budget for each row of weights (n, L): (n, K), -1 pads."""
        rules = _Rules(
            self._limit,
            self.K,
            self._stop_gap,
            _EFFORT,
        )
        A, proven, valid = _solve(
            rows,
            self._order,
            self.costs,
            rules,
        )
        if not valid:
            refuse_weights(rows)
        for b in np.flatnonzero(~proven):
            A[b] = self._harder(rows[b], A[b])
        return A

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
        better = w[other[other >= 0]].sum() > w[found[found >= 0]].sum()
        return other if better else found


def _checked_costs(costs: Any) -> Array:
    try:
        c: Array = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"costs must be numbers, one per item ({error})") from error
    if c.ndim != 1 or not len(c):
        raise ParameterError(f"costs must be a list of numbers, one per item, got shape {c.shape}")

    sound = (c >= 0) & (c < np.inf)
    if not sound.all():
        bad = int(sound.argmin())
        raise ParameterError(f"costs must be finite and not negative: item {bad} costs {c[bad]}")
    return c


def _limit(costs: Array, budget: float) -> float:
    """What the costs of a set may come to in floating point."""
    whole = (costs == np.floor(costs)).all()
    if not whole or costs.sum() >= _EXACT:
        return budget * (1 + _EPS)

    common = np.gcd.reduce(costs.astype(np.int64))
    unit = max(1, int(common))
    return float(budget // unit * unit)

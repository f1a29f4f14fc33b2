"""Prices of cost and of being chosen, and the set of items that they choose: the relaxation of a
knapsack, compiled.

w, c    (n,)      weights and costs, cheapest first
x       (n,)      the set the prices choose
λ, μ    lam, mu
k                 the most items that fit the budget, or that are allowed
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.oracles.loops import copy_into, in_order, items_of, none_of, numbers

EPS = 1e-12  # what rounding may hide, relative to the budget and to U


class Rules(NamedTuple):
    """When a set is feasible, and when to stop looking for a better one."""

    budget: float
    max_items: int
    gap: float
    effort: int  # steps, each the time to look at a state


class Limits(NamedTuple):
    """How many items a set may have: of each of G groups, and in all."""

    order: Array  # (n,) the items, group by group
    start: Array  # (G + 1,) where each group starts, and where the last one ends
    most: Array  # (G,)
    total: int


class Priced(NamedTuple):
    """The set x that the best prices choose, what it leaves, and the bound U."""

    lam: float
    mu: float
    loss: Array  # (n,) of flipping each item
    x: Array  # (n,)
    value: float
    slack: float
    room: int
    U: float


@compiled
def sum_of(values: Array, x: Array) -> float:
    """What the items of the set x (n,) come to."""
    added = 0.0
    for j in range(len(x)):
        if x[j]:
            added += values[j]
    return added


@compiled
def _above(values: Array, bar: float) -> int:
    """How many values exceed the bar."""
    n = 0
    for v in values:
        n += v > bar
    return n


@compiled
def _kth_largest(values: Array, k: int) -> float:
    """The k-th largest of the values, k at least 1, by Hoare's selection."""
    v = values.copy()
    low = 0
    high = len(v) - 1
    while low < high:
        pivot = v[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while v[i] > pivot:
                i += 1
            while v[j] < pivot:
                j -= 1
            if i <= j:
                v[i], v[j] = v[j], v[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    kth: float = v[k - 1]
    return kth


@compiled
def _best_of(reduced: Array, items: Array, k: int, x: Array) -> float:
    """Put into x the best k of the items with a positive reduced weight, and take the others out.
    Returns the least price that leaves k.
    """
    n = 0
    values = np.empty(len(items))
    for e in items:
        if reduced[e] > 0:
            values[n] = reduced[e]
            n += 1
    bar = 0.0
    ties = 0
    if n > k:
        bar = _kth_largest(values[:n], k) if k > 0 else np.inf
        ties = k - _above(values[:n], bar)

    for e in items:
        x[e] = reduced[e] > bar
        if reduced[e] == bar and ties > 0:
            x[e] = True
            ties -= 1
    return bar


@compiled
def choose(reduced: Array, limits: Limits, bar: Array, x: Array) -> None:
    """Put into x the best set for the reduced weights that the limits allow, and into `bar` (G,)
    what an item of each group must be worth to enter it.
    """
    for g in range(len(limits.most)):
        items = limits.order[limits.start[g] : limits.start[g + 1]]
        bar[g] = _best_of(reduced, items, limits.most[g], x)
    chosen = items_of(x)
    if len(chosen) <= limits.total:
        return
    mu = _best_of(reduced, chosen, limits.total, x)
    for g in range(len(bar)):
        bar[g] = max(bar[g], mu)


@compiled
def reduced_by(lam: float, w: Array, c: Array, reduced: Array) -> None:
    """Put w - λc into `reduced`."""
    for e in range(len(w)):
        reduced[e] = w[e] - lam * c[e]


@compiled
def best_price(
    w: Array, c: Array, budget: float, limits: Limits
) -> tuple[float, Array, Array, Array]:
    """The price λ with the least U, what an item of each group must be worth beyond it, and two
    sets that are best for these prices: one within the budget, one beyond it if any is.

    U is convex in λ, and each set x gives a line below it, w(x) + λ (budget - c(x)). The next λ is
    where the last falling and the last rising line meet; the step to it is found from w - λc, which
    is small for the items in which the two differ.
    """
    x = none_of(len(w))
    bar = np.empty(len(limits.most))
    choose(w, limits, bar, x)
    falling_cost = sum_of(c, x)
    if falling_cost <= budget:
        return 0.0, bar, x, x

    falling = x.copy()
    rising = none_of(len(w))
    rising_cost = 0.0
    reduced = w.copy()
    lam = 0.0
    for _ in range(100):  # any prices give a bound; these are the best after some ten rounds
        gain = sum_of(reduced, falling) - sum_of(reduced, rising)
        lam += gain / (falling_cost - rising_cost)
        reduced_by(lam, w, c, reduced)
        choose(reduced, limits, bar, x)
        cost = sum_of(c, x)
        if not rising_cost < cost < falling_cost:
            break
        if cost > budget:
            copy_into(falling, x)
            falling_cost = cost
        else:
            copy_into(rising, x)
            rising_cost = cost
    return lam, bar, rising, falling


@compiled
def _filled(reduced: Array, c: Array, slack: float, room: int, m: int, x: Array) -> None:
    """Choose m of the items that lose nothing, as dear as the slack allows, then more if they fit.

    Before, none of them is in x; the slack and the room are what is left beside the m cheapest.
    """
    zero = none_of(len(reduced))
    for j in range(len(reduced)):
        zero[j] = reduced[j] == 0
    free = items_of(zero)
    i = 0  # m free items, the cheapest at first, give way to dearer ones
    while m > 0 and i + m < len(free):
        dearer = c[free[i + m]] - c[free[i]]
        if dearer > slack:
            break
        slack -= dearer
        i += 1
    for p in range(i, i + m):
        x[free[p]] = True
    for p in range(len(free) - 1, -1, -1):
        j = free[p]
        if not x[j] and c[j] <= slack and room > 0:
            x[j] = True
            slack -= c[j]
            room -= 1


@compiled
def relaxed(w: Array, c: Array, fit: int, rules: Rules) -> Priced:
    """The problem at its best prices, where at most `fit` items fit the budget."""
    k = min(fit, rules.max_items)
    n = len(w)
    start = numbers(2)
    start[1] = n
    one = Limits(numbers(n), start, start[1:], k)
    lam, bar, x, _ = best_price(w, c, rules.budget, one)
    mu = bar[0]
    reduced = np.empty(len(w))
    loss = np.empty(len(w))
    slack = rules.budget
    room = k
    m = 0  # items of x that lose nothing
    for j in range(len(w)):
        reduced[j] = w[j] - lam * c[j] - mu
        if abs(reduced[j]) <= EPS * w[j]:
            reduced[j] = 0
            m += x[j]
        loss[j] = abs(reduced[j])
    left = m
    for j in range(len(w)):
        x[j] = reduced[j] > 0
        if x[j] or (reduced[j] == 0 and left > 0):
            left -= not x[j]
            slack -= c[j]
            room -= 1
    _filled(reduced, c, slack, room, m, x)

    value = sum_of(w, x)
    slack = rules.budget - sum_of(c, x)
    room = k
    for j in range(len(w)):
        room -= x[j]
    U = value + lam * slack + mu * room
    return Priced(lam, mu, loss, x, value, slack, room, U)


def mixed(n: int) -> Array:
    """The numbers below n, mixed: those below any other number are mixed, too."""
    return np.argsort(np.arange(n) * 0.618034 % 1.0, kind="stable")


@compiled
def by_loss(loss: Array, mix: Array) -> Array:
    """The items, those whose flip loses least first; where losses tie, in the mixed order, as mixed
    costs soon find a fit.
    """
    items = np.empty(len(loss), np.int64)
    n = 0
    for e in mix:
        if e < len(loss):
            items[n] = e
            n += 1
    return in_order(items, loss)


@compiled
def gap_of(w: Array, x: Array, bound: float) -> float:
    """The share of the best that a set may lack, where no set is worth more than the bound."""
    if bound <= 0:
        return 0.0
    gap = 1 - sum_of(w, x) / bound
    return gap if gap > EPS else 0.0

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

EPS = 1e-12  # what rounding may hide, relative to the budget and to U


class Rules(NamedTuple):
    """When a set is feasible, and when to stop looking for a better one."""

    budget: float
    max_items: int
    gap: float
    effort: int  # steps, each the time to look at a state


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
    return v[k - 1]


@compiled
def _choose(w: Array, c: Array, lam: float, k: int, x: Array) -> tuple[float, float]:
    """Put into x the k best items with w > λc. Returns their cost and the least μ that leaves k."""
    reduced = w - lam * c
    mu = 0.0
    ties = 0
    if _above(reduced, 0.0) > k:
        mu = _kth_largest(reduced, k)
        ties = k - _above(reduced, mu)

    cost = 0.0
    for j in range(len(w)):
        x[j] = reduced[j] > mu
        if reduced[j] == mu and ties > 0:
            x[j] = True
            ties -= 1
        if x[j]:
            cost += c[j]
    return cost, mu


@compiled
def _prices(w: Array, c: Array, budget: float, k: int) -> tuple[float, float, Array]:
    """The prices λ and μ with the least U, and a set within the budget that is best for them.

    U is convex in λ, and each set x gives a line below it, w(x) + λ (budget - c(x)). The next λ is
    where the last falling and the last rising line meet; the step to it is found from w - λc, which
    is small for the items in which the two differ.
    """
    x = np.empty(len(w), np.bool_)
    falling_cost, mu = _choose(w, c, 0.0, k, x)
    if falling_cost <= budget:
        return 0.0, mu, x

    falling = x.copy()
    rising = np.zeros(len(w), np.bool_)
    rising_cost = 0.0
    lam = 0.0
    for _ in range(100):  # any prices give a bound; these are the best after some ten rounds
        reduced = w - lam * c
        gain = sum_of(reduced, falling) - sum_of(reduced, rising)
        lam += gain / (falling_cost - rising_cost)
        cost, mu = _choose(w, c, lam, k, x)
        if not rising_cost < cost < falling_cost:
            break
        if cost > budget:
            falling[:] = x
            falling_cost = cost
        else:
            rising[:] = x
            rising_cost = cost
    return lam, mu, rising


@compiled
def _filled(reduced: Array, c: Array, slack: float, room: int, m: int, x: Array) -> None:
    """Choose m of the items that lose nothing, as dear as the slack allows, then more if they fit.

    Before, none of them is in x; the slack and the room are what is left beside the m cheapest.
    """
    free = np.flatnonzero(reduced == 0)
    i = 0  # m free items, the cheapest at first, give way to dearer ones
    while m > 0 and i + m < len(free):
        dearer = c[free[i + m]] - c[free[i]]
        if dearer > slack:
            break
        slack -= dearer
        i += 1
    for j in free[i : i + m]:
        x[j] = True
    for j in free[::-1]:
        if not x[j] and c[j] <= slack and room > 0:
            x[j] = True
            slack -= c[j]
            room -= 1


@compiled
def relaxed(w: Array, c: Array, fit: int, rules: Rules) -> Priced:
    """The problem at its best prices, where at most `fit` items fit the budget."""
    k = min(fit, rules.max_items)
    lam, mu, x = _prices(w, c, rules.budget, k)
    reduced = np.empty(len(w))
    slack = rules.budget
    room = k
    m = 0  # items of x that lose nothing
    for j in range(len(w)):
        reduced[j] = w[j] - lam * c[j] - mu
        if abs(reduced[j]) <= EPS * w[j]:
            reduced[j] = 0
            m += x[j]
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
    return Priced(lam, mu, np.abs(reduced), x, value, slack, room, U)

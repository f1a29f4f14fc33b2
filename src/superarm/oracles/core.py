"""The search for the best set of items within a budget, compiled.

With a price λ on cost and a price μ on being chosen, any set is worth

    value = U - Σ_{e flipped} |w_e - λ c_e - μ| - λ slack - μ room

where flipped are the items in which it differs from the set x that the prices choose, slack is the
budget left and room the number of items still allowed. At the best prices U is the bound of linear
programming, and only few flips lose less than the best set known does: the core (Balas & Zemel
1980). A dynamic program adds them one by one, least loss first, and keeps the states that are not
dominated and that may still beat the best (Pisinger 1997). When it has done the work that it is
allowed, the states that are left say how much better a set could be.

w, c    (n,)      weights and costs of the items worth a look, w > 0 and c <= budget, cheapest first
x       (n,)      the set the prices choose
λ, μ    lam, mu
k                 the most items that fit the budget, or that are allowed
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.oracles.loops import into_row, none_of
from superarm.oracles.prices import EPS, Priced, Rules, by_loss, gap_of, relaxed, sum_of

_COMPARED = 16  # numbers of items compared in the time of one step
_EXCHANGES = 50  # at most, each a pass over the items


@compiled
def _space(table: Array, size: int) -> Array:
    """The table, with space for `size` rows."""
    if size <= len(table):
        return table

    larger = np.empty((size + len(table) // 2, table.shape[1]), table.dtype)
    for i in range(len(table)):
        for j in range(table.shape[1]):
            larger[i, j] = table[i, j]
    return larger


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
) -> tuple[int, _Found, int]:
    """Merge the states with those that flip an item, which adds a cost, a weight and a number of
    items, most slack first. Returns their number, what is found, and the steps that took.

    Left out are states that are dominated, and those that cannot come to more than `need`.
    """
    nodes, best, at = found
    lam, mu, need, adds, cuts = hope
    cost, weight, items = added
    # the most value seen, by the room it comes with at least
    top = np.empty(adds + cuts + 1)
    top[:] = -np.inf
    states[size, 0] = -np.inf

    compared = len(top)
    i = j = m = 0
    for _ in range(2 * size):
        slack = states[j, 0] - cost
        value = states[j, 1] + weight
        room = states[j, 2] - items
        node = states[j, 3]
        flipped = slack > states[i, 0] or (slack == states[i, 0] and value > states[i, 1])
        if flipped:
            j += 1
        else:
            slack = states[i, 0]
            value = states[i, 1]
            room = states[i, 2]
            node = states[i, 3]
            i += 1

        level = int(min(room, adds)) + cuts if counted else 0
        if level < 0 or value <= top[level]:
            continue
        while level >= 0 and top[level] < value:
            top[level] = value
            level -= 1
            compared += 1
        better = value > best and slack >= 0 and (room >= 0 or not counted)
        if value + lam * slack + mu * room <= need and not better:
            continue

        if flipped:
            trail[nodes, 0] = int(node)
            trail[nodes, 1] = item
            node = nodes
            nodes += 1
        if better:
            best = value
            at = int(node)
        merged[m, 0] = slack
        merged[m, 1] = value
        merged[m, 2] = room
        merged[m, 3] = node
        m += 1
    return m, _Found(nodes, best, at), size + compared // _COMPARED


@compiled
def _fitted(c: Array, order: Array, at_prices: Priced) -> Array:
    """A feasible set near x: items leave until the others fit, then others enter, those that lose
    least first.
    """
    y = at_prices.x.copy()
    slack = at_prices.slack
    room = at_prices.room
    for j in order:
        if slack >= 0 and room >= 0:
            break
        if y[j]:
            y[j] = False
            slack += c[j]
            room += 1
    for j in order:
        if not at_prices.x[j] and c[j] <= slack and room > 0:
            y[j] = True
            slack -= c[j]
            room -= 1
    return y


@compiled
def _exchange(w: Array, c: Array, budget: float, room: int, y: Array) -> bool:
    """Exchange one item of the set y for a better one that fits, or add one, whichever gains most.
    Returns whether something gains.
    """
    n = len(w)
    slack = budget - sum_of(c, y)
    gain = 0.0
    leaves = -1
    enters = -1
    best = -1  # of the items outside y that cost at most what an item i of y leaves
    j = 0
    if room > 0:
        while j < n and c[j] <= slack:
            if not y[j] and (best < 0 or w[j] > w[best]):
                best = j
            j += 1
        if best >= 0:
            gain = w[best]
            enters = best

    most = 0.0
    for i in range(n):  # the cheapest first, so that more and more items fit
        most = max(most, w[i])
        if not y[i]:
            continue
        while j < n and c[j] <= slack + c[i]:
            if not y[j] and (best < 0 or w[j] > w[best]):
                best = j
            j += 1
        if best >= 0 and w[best] - w[i] > gain:
            gain = w[best] - w[i]
            leaves = i
            enters = best

    if gain <= EPS * most:
        return False
    y[enters] = True
    if leaves >= 0:
        y[leaves] = False
    return True


@compiled
def _first(
    w: Array, c: Array, order: Array, at_prices: Priced, rules: Rules
) -> tuple[Array, _Found]:
    """A feasible set as flips of x in a trail: one near x, after exchanges that gain."""
    y = _fitted(c, order, at_prices)
    for _ in range(_EXCHANGES):
        room = rules.max_items
        for e in range(len(y)):
            room -= y[e]
        if not _exchange(w, c, rules.budget, room, y):
            break

    trail = np.empty((len(y) + 64, 2), np.int32)
    flips = 0
    for e in range(len(y)):
        if y[e] != at_prices.x[e]:
            trail[flips + 1, 0] = flips
            trail[flips + 1, 1] = e
            flips += 1
    return trail, _Found(flips + 1, sum_of(w, y), flips)


@compiled
def _search(w: Array, c: Array, fit: int, mix: Array, rules: Rules) -> tuple[Array, float]:
    """The best set found, and a bound on what any set is worth; at most `fit` items fit the budget.

    A state is a set that differs from x only in items of the core looked at so far: (slack, value,
    room, node), where node is a row of `trail`, (node before, item flipped).
    """
    counted = rules.max_items < fit  # only then the number of items is a constraint of its own
    share = 1 - rules.gap
    at_prices = relaxed(w, c, fit, rules)
    lam, mu, loss, x, value, slack, room, U = at_prices
    order = by_loss(loss, mix)
    trail, found = _first(w, c, order, at_prices, rules)
    size = 0
    cuts = 0
    while size < len(order) and U - loss[order[size]] > (found.best + EPS * U) / share:
        cuts += x[order[size]]
        size += 1
    core = order[:size]
    adds = size - cuts

    effort = rules.effort
    states = np.empty((64, 4))
    merged = np.empty((64, 4))
    size = 1
    states[0, 0] = slack
    states[0, 1] = value
    states[0, 2] = room
    states[0, 3] = 0
    reach = 0.0  # what the states left at the end may come to
    for step in range(len(core)):
        e = core[step]
        if size == 0:
            break
        if effort < size:
            for i in range(size):
                hope = states[i, 1] + lam * states[i, 0] + mu * states[i, 2]
                reach = max(reach, hope - loss[e])
            break

        n = -1 if x[e] else 1
        cuts -= n < 0
        adds -= n > 0
        most_adds = 0
        most_cuts = 0
        if counted:
            most_adds = min(adds, max(0, room + step + 1))
            most_cuts = min(cuts, max(0, step + 1 - room))
        need = (found.best + EPS * U) / share
        if step + 1 < len(core):
            need += loss[core[step + 1]]

        merged = _space(merged, 2 * size + 1)
        trail = _space(trail, found.nodes + size)
        added = (n * c[e], n * w[e], float(n))
        hopes = _Hope(lam, mu, need, most_adds, most_cuts)
        size, found, steps = _flip(states, size, merged, trail, found, e, added, hopes, counted)
        effort -= steps
        states, merged = merged, states

    best = found.best
    at = found.at
    while at > 0:
        x[trail[at, 1]] = not x[trail[at, 1]]
        at = trail[at, 0]
    for j in range(len(w)):
        if w[j] > best:  # so that no set is worth more than twice this one, whatever the effort
            best = w[j]
            x[:] = False
            x[j] = True
    return x, min(U, max(best / share, reach))


@compiled
def solve(
    w: Array, order: Array, costs: Array, mix: Array, rules: Rules
) -> tuple[Array, Array, bool]:
    """For each row of w (n, L): a best set, the share of the best that it may lack, and whether all
    weights are below +inf.
    """
    A = np.empty((len(w), rules.max_items), np.int64)
    A[:] = -1
    gap = np.empty(len(w))
    items = np.empty(len(order), np.int64)
    worth = np.empty(len(order))
    prices = np.empty(len(order))
    found = none_of(len(order))
    for b in range(len(w)):
        n = fit = 0
        total = 0.0
        gap[b] = 0
        for e in order:
            if not w[b, e] < np.inf:
                return A, gap, False
            if w[b, e] > 0 and costs[e] <= rules.budget:
                items[n] = e
                worth[n] = w[b, e]
                prices[n] = costs[e]
                n += 1
                total += costs[e]
                fit += total <= rules.budget
        if n > 0:
            chosen, bound = _search(worth[:n], prices[:n], fit, mix, rules)
            found[:] = False
            for j in range(n):
                found[items[j]] = chosen[j]
            gap[b] = gap_of(w[b], found, bound)
            into_row(found, A[b])
    return A, gap, True

"""Sets of items within a budget and limits on their numbers, by exchanges and a search; compiled.

With a price λ on cost and a bar for each group, no set is worth more than

    U - Σ_{e flipped} |w_e - λ c_e - bar_g(e)|

where flipped are the items in which it differs from the set x of items above their bar. A set is
improved by moves of the items that lose least: one leaves, one enters, or both; and by two such
moves at once, which together use the budget better. Then a search in depth goes through all flips
that lose less in sum than the set found, which proves that it is the best, or ends without proof.

w, c    (L,)      weights and costs; -inf for items that may not be chosen
y       (L,)      a feasible set
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled
from superarm.oracles.loops import copy_into, in_order, into_row, items_of, numbers, taken
from superarm.oracles.prices import (
    EPS,
    Limits,
    best_price,
    by_loss,
    choose,
    gap_of,
    reduced_by,
    sum_of,
)

_NEAR = 40  # items in doubt, of those chosen and of the others
_ROUNDS = 40  # at most, each one or two moves

EFFORT = 500_000
"""Flips to look at in a search, unless another number is given: some 5 ms."""


class _Problem(NamedTuple):
    """What a set is worth, and when it is feasible."""

    w: Array  # (L,)
    c: Array  # (L,)
    budget: float
    group: Array  # (L,)
    limits: Limits


class _Moves(NamedTuple):
    """m moves, the one that adds least to the cost first."""

    leaves: Array  # (m,) the item, -1 if none
    enters: Array  # (m,)
    cost: Array  # (m,) what it adds
    gain: Array  # (m,)


@compiled
def _fits(leave: tuple[int, int], enter: tuple[int, int], problem: _Problem, count: Array) -> bool:
    """Whether the limits allow that these items leave and enter a set with `count` (G,) items of
    each group; -1 is none.
    """
    size = 0
    for n in count:
        size += n
    for e in leave:
        size -= e >= 0
    for e in enter:
        size += e >= 0
    if size > problem.limits.total:
        return False

    group = problem.group
    for e in enter:
        if e < 0:
            continue
        g = group[e]
        n = count[g]
        for other in leave:
            n -= other >= 0 and group[other] == g
        for other in enter:
            n += other >= 0 and group[other] == g
        if n > problem.limits.most[g]:
            return False
    return True


@compiled
def _moves(problem: _Problem, y: Array, near: Array, count: Array) -> _Moves:
    """All moves of the items in doubt, the last of which is -1, that the limits allow."""
    w = problem.w
    c = problem.c
    most = len(near) ** 2
    leaves = np.empty(most, np.int64)
    enters = np.empty(most, np.int64)
    cost = np.zeros(most)
    gain = np.zeros(most)
    m = 0
    for i in near:
        for j in near:
            if (i >= 0 and not y[i]) or (j >= 0 and y[j]) or i == j:
                continue
            if not _fits((i, -1), (j, -1), problem, count):
                continue
            leaves[m] = i
            enters[m] = j
            if i >= 0:
                cost[m] -= c[i]
                gain[m] -= w[i]
            if j >= 0:
                cost[m] += c[j]
                gain[m] += w[j]
            m += 1
    order = in_order(numbers(m), cost)
    return _Moves(
        taken(leaves, order),
        taken(enters, order),
        taken(cost, order),
        taken(gain, order),
    )


@compiled
def _apart(moves: _Moves, a: int, b: int) -> bool:
    """Whether two moves have no item in common."""
    leaves, enters, _, _ = moves
    if leaves[a] >= 0 and leaves[a] == leaves[b]:
        return False
    return enters[a] < 0 or bool(enters[a] != enters[b])


@compiled
def _improve(problem: _Problem, y: Array, near: Array) -> float:
    """Make the move or the two moves that gain most. Returns the gain, 0 if nothing gains."""
    slack = problem.budget - sum_of(problem.c, y)
    count = np.zeros(len(problem.limits.most), np.int64)
    for e in range(len(y)):
        count[problem.group[e]] += y[e]
    moves = _moves(problem, y, near, count)
    m = len(moves.cost)
    best = np.zeros(m, np.int64)  # of the moves up to each one, that which gains most
    for a in range(1, m):
        best[a] = a if moves.gain[a] > moves.gain[best[a - 1]] else best[a - 1]

    gain = 0.0
    first = -1
    second = -1
    last = m - 1
    for a in range(m):
        if moves.cost[a] <= slack and moves.gain[a] > gain:
            gain = moves.gain[a]
            first = a
            second = -1
        while last >= 0 and moves.cost[last] > slack - moves.cost[a]:
            last -= 1
        if last < 0:
            break
        b = best[last]
        if moves.gain[a] + moves.gain[b] <= gain or not _apart(moves, a, b):
            continue
        leave = (moves.leaves[a], moves.leaves[b])
        enter = (moves.enters[a], moves.enters[b])
        if _fits(leave, enter, problem, count):
            gain = moves.gain[a] + moves.gain[b]
            first = a
            second = b

    for move in (first, second):
        if move < 0:
            continue
        if moves.leaves[move] >= 0:
            y[moves.leaves[move]] = False
        if moves.enters[move] >= 0:
            y[moves.enters[move]] = True
    return gain


@compiled
def _left(problem: _Problem, y: Array) -> tuple[float, int, Array]:
    """What the set y leaves: of the budget, of the places in all, and of those of each group."""
    slack = problem.budget - sum_of(problem.c, y)
    room = problem.limits.total
    places = problem.limits.most.copy()
    for e in items_of(y):
        room -= 1
        places[problem.group[e]] -= 1
    return slack, room, places


@compiled
def _spare(items: Array, y: Array, goal: Array) -> int:
    """The first of the items that is in y but not in the goal; -1 if none is."""
    for i in items:
        if y[i] and not goal[i]:
            return int(i)
    return -1


@compiled
def _toward(problem: _Problem, y: Array, goal: Array) -> None:
    """Bring y nearer to another set that the limits allow, item by item, within the budget.

    An item that enters takes the place of one of its group that is not in the goal if the group is
    full, or of any that is not if y is.
    """
    _, c, _, group, limits = problem
    slack, room, places = _left(problem, y)
    spares = items_of(y)
    for e in items_of(goal):
        if y[e]:
            continue
        g = group[e]
        leaves = -1
        if places[g] == 0:
            members = limits.order[limits.start[g] : limits.start[g + 1]]
            leaves = _spare(members, y, goal)
        elif room == 0:
            leaves = _spare(spares, y, goal)
        more = c[e]
        if leaves >= 0:
            more -= c[leaves]
        if more > slack:
            continue

        slack -= more
        y[e] = True
        room -= 1
        places[g] -= 1
        if leaves >= 0:
            y[leaves] = False
            room += 1
            places[group[leaves]] += 1


@compiled
def _fill(problem: _Problem, order: Array, y: Array) -> None:
    """Add to y what still fits, in this order of the items."""
    w, c, _, group, _ = problem
    slack, room, places = _left(problem, y)
    for e in order:
        g = group[e]
        fits = c[e] <= slack and room > 0 and places[g] > 0
        if fits and w[e] > 0 and not y[e]:
            y[e] = True
            slack -= c[e]
            room -= 1
            places[g] -= 1


@compiled
def _in_doubt(order: Array, w: Array, y: Array) -> Array:
    """The first items of y in this order, and the first outside; and -1."""
    near = np.empty(2 * _NEAR + 1, np.int64)
    near[:] = -1
    inside = 0
    outside = 0
    for e in order:
        if y[e] and inside < _NEAR:
            near[inside + outside] = e
            inside += 1
        elif not y[e] and w[e] > 0 and outside < _NEAR:
            near[inside + outside] = e
            outside += 1
    return near[: inside + outside + 1]


@compiled
def _turn(problem: _Problem, e: int, x: Array, count: Array) -> int:
    """Let item e leave x, or enter it. Returns how many items more there are beyond what its group
    may have: -1, 0 or 1.
    """
    g = problem.group[e]
    most = problem.limits.most[g]
    x[e] = not x[e]
    if x[e]:
        count[g] += 1
        return int(count[g] > most)
    count[g] -= 1
    return -int(count[g] >= most)


@compiled
def _search(
    problem: _Problem, U: float, loss: Array, x: Array, y: Array, order: Array, effort: int
) -> bool:
    """Put the best set into y, by all flips of x that lose less than y does, in this order of the
    items. Returns whether that is proven.
    """
    w, c, budget, _, limits = problem
    n = len(w)
    count = np.zeros(len(limits.most), np.int64)
    size = 0
    crowd = 0  # items beyond what groups may have
    for e in range(n):
        if x[e]:
            x[e] = False
            crowd += _turn(problem, e, x, count)
            size += 1

    # by the number of flips: the position of the last one, and the value, cost and loss
    last = np.empty(n + 1, np.int64)
    value = np.empty(n + 1)
    cost = np.empty(n + 1)
    lost = np.zeros(n + 1)
    value[0] = sum_of(w, x)
    cost[0] = sum_of(c, x)
    best = sum_of(w, y)
    depth = 0
    at = 0
    for _ in range(effort):
        fits = cost[depth] <= budget and size <= limits.total and crowd == 0
        if fits and value[depth] > best:
            best = value[depth]
            copy_into(y, x)
        if at < n and U - lost[depth] - loss[order[at]] > best + EPS * U:
            e = order[at]
            sign = -1 if x[e] else 1
            value[depth + 1] = value[depth] + sign * w[e]
            cost[depth + 1] = cost[depth] + sign * c[e]
            lost[depth + 1] = lost[depth] + loss[e]
            depth += 1
            last[depth] = at
        elif depth > 0:
            e = order[last[depth]]
            sign = -1 if x[e] else 1
            at = last[depth]
            depth -= 1
        else:
            return True
        crowd += _turn(problem, e, x, count)
        size += sign
        at += 1
    return False


@compiled
def _solve_row(problem: _Problem, mix: Array, effort: int) -> tuple[Array, float]:
    """A set y and a bound on what any set is worth."""
    w, c, budget, group, limits = problem
    lam, bar, y, beyond = best_price(w, c, budget, limits)
    reduced = w.copy()
    reduced_by(lam, w, c, reduced)
    x = y.copy()
    choose(reduced, limits, bar, x)
    U = sum_of(reduced, x) + lam * budget
    loss = np.empty(len(w))
    for e in range(len(w)):
        above = reduced[e] - bar[group[e]]
        loss[e] = abs(above) if abs(above) > EPS * w[e] else 0.0
        x[e] = above > 0 and loss[e] > 0

    order = by_loss(loss, mix)
    _toward(problem, y, beyond)
    _fill(problem, order, y)
    near = _in_doubt(order, w, y)
    for _ in range(_ROUNDS):
        if sum_of(w, y) >= U * (1 - EPS):
            return y, U
        if _improve(problem, y, near) <= EPS * U:
            break
    if _search(problem, U, loss, x, y, order, effort):
        return y, sum_of(w, y)
    return y, U


@compiled
def solve(
    w: Array, costs: Array, budget: float, group: Array, limits: Limits, mix: Array, effort: int
) -> tuple[Array, Array, bool]:
    """For each row of w (n, L): a set, the share of the best that it may lack, and whether all
    weights are below +inf.
    """
    A = np.empty((len(w), limits.total), np.int64)
    A[:] = -1
    gap = np.zeros(len(w))
    worth = np.empty(len(costs))
    for b in range(len(w)):
        for e in range(len(costs)):
            if not w[b, e] < np.inf:
                return A, gap, False
            worth[e] = w[b, e] if costs[e] <= budget else -np.inf
        y, U = _solve_row(_Problem(worth, costs, budget, group, limits), mix, effort)
        gap[b] = gap_of(worth, y, U)
        into_row(y, A[b])
    return A, gap, True

"""At most so many items of each group, where an item may be in several groups.

Prices μ_g >= 0 for a place in group g give a bound on what any set is worth,

    U(μ) = Σ_g μ_g limit_g + Σ_e max(0, w_e - Σ_{g of e} μ_g),

and an order in which to add items; subgradient steps lower U, and an item whose price exceeds its
weight by more than U is above the best set so far is in no better one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled, prange
from superarm.checks import require_count
from superarm.checks.tables import split_labels
from superarm.errors import ParameterError
from superarm.oracles.base import BaseOracle, require_whole, starts
from superarm.oracles.gaps import lacking, with_gaps
from superarm.oracles.loops import copy_into, in_order, into_row, numbers

ROUNDS = 300
"""Steps of the prices, unless a bound is reached before."""
_LAPS = 20  # over all items, at most, to exchange some
_PATIENCE = 10  # rounds without a better bound, after which steps are halved


class _Members(NamedTuple):
    """The groups of item e are group[start[e]:start[e+1]]."""

    start: Array  # (L + 1,)
    group: Array
    limit: Array  # (G,)


@compiled
def _moved(e: int, members: _Members, x: Array, left: Array, places: int) -> None:
    """Put item e into the set, if places is 1, or take it out, if -1."""
    start, group, _ = members
    x[e] = places > 0
    for p in range(start[e], start[e + 1]):
        left[group[p]] -= places


@compiled
def _added(w: Array, order: Array, members: _Members, x: Array, left: Array) -> None:
    """Make x the set of the items that still fit, in this order; `left` is how many places each
    group then has left.
    """
    start, group, limit = members
    x[:] = False
    copy_into(left, limit)
    for e in order:
        fits = w[e] > 0
        for p in range(start[e], start[e + 1]):
            fits = fits and left[group[p]] > 0
        if fits:
            _moved(e, members, x, left, 1)


@compiled
def _cheapest(w: Array, members: _Members, x: Array, least: Array) -> None:
    """Put into `least` the item of x in each group that is worth least, -1 if there is none."""
    start, group, _ = members
    least[:] = -1
    for e in range(len(x)):
        if not x[e]:
            continue
        for p in range(start[e], start[e + 1]):
            f = least[group[p]]
            if f < 0 or w[e] < w[f]:
                least[group[p]] = e


@compiled
def _gain(e: int, w: Array, members: _Members, left: Array, least: Array) -> float:
    """What is gained, at least, by letting item e in for the one worth least in each full group."""
    start, group, limit = members
    gain: float = w[e]
    for p in range(start[e], start[e + 1]):
        g = group[p]
        if limit[g] == 0:
            return -np.inf
        counted = left[g] > 0
        for q in range(start[e], p):  # one that makes room in two groups goes once
            h = group[q]
            counted |= left[h] == 0 and least[h] == least[g]
        if not counted:
            gain -= w[least[g]]
    return gain


@compiled
def _improved(w: Array, items: Array, members: _Members, x: Array, left: Array) -> float:
    """Add the items that fit in this order, then exchange some for those worth least in their full
    groups, as long as that gains something; returns what the set x is worth.
    """
    start, group, limit = members
    least = np.empty(len(limit), np.int64)
    _added(w, items, members, x, left)
    _cheapest(w, members, x, least)
    since = 0  # items looked at without a gain
    for i in range(_LAPS * len(items)):
        e = items[i % len(items)]
        if since == len(items):
            break
        since += 1
        if x[e] or _gain(e, w, members, left, least) <= 1e-12 * w[e]:
            continue
        for p in range(start[e], start[e + 1]):
            f = least[group[p]]
            if left[group[p]] == 0 and x[f]:
                _moved(f, members, x, left, -1)
        _moved(e, members, x, left, 1)
        _cheapest(w, members, x, least)
        since = 0
    worth = 0.0
    for e in items:
        if x[e]:
            worth += w[e]
    return worth


@compiled
def _priced(
    w: Array, items: Array, members: _Members, mu: Array, reduced: Array, slope: Array
) -> tuple[float, float]:
    """Take the prices off the weights of the items; returns U and the square of its slope.

    The slope is how many places the items worth their prices leave in a group, below 0 where they
    are too many; a price of 0 cannot fall.
    """
    start, group, limit = members
    U = 0.0
    for g in range(len(limit)):
        slope[g] = limit[g]
        U += mu[g] * limit[g]
    for e in items:
        reduced[e] = w[e]
        for p in range(start[e], start[e + 1]):
            reduced[e] -= mu[group[p]]
        if reduced[e] > 0:
            U += reduced[e]
            for p in range(start[e], start[e + 1]):
                slope[group[p]] -= 1

    steep = 0.0
    for g in range(len(limit)):
        if mu[g] == 0 and slope[g] > 0:
            slope[g] = 0
        steep += slope[g] ** 2
    return U, steep


@compiled
def _ordered(w: Array, items: Array) -> Array:
    """The items, the largest weights first; ties stay in their order."""
    key = np.empty(len(w))
    for e in items:
        key[e] = -w[e]
    return in_order(items, key)


@compiled
def _above(w: Array, items: Array, bar: float) -> Array:
    """Those of the items with a weight above the bar, in their order."""
    above = np.empty(len(items), np.int64)
    n = 0
    for e in items:
        if w[e] > bar:
            above[n] = e
            n += 1
    return above[:n]


@compiled
def _search(w: Array, members: _Members, rounds: int, best: Array) -> tuple[float, float]:
    """Make `best` the best set found, and return what it is worth and a bound on what any is."""
    items = _ordered(w, _above(w, numbers(len(w)), 0.0))
    x = best.copy()
    left = members.limit.copy()
    mu = np.zeros(len(left))
    slope = np.zeros(len(left))
    reduced = w.copy()
    bound = np.inf
    value = _improved(w, items, members, best, left)
    theta = 1.0
    since = 0

    for t in range(rounds):
        U, steep = _priced(w, items, members, mu, reduced, slope)
        since += 1
        if bound > U:
            bound = U
            since = 0
        if since >= _PATIENCE:
            theta /= 2
            since = 0
        if t % _PATIENCE == 1 or steep == 0:
            order = _ordered(reduced, items)
            found = _improved(w, order, members, x, left)
            if found > value:
                value = found
                copy_into(best, x)
            items = _above(reduced, items, value - U - 1e-9 * U)
        if steep == 0 or bound - value <= 1e-12 * bound:
            break
        step = theta * (U - value) / steep
        for g in range(len(mu)):
            mu[g] = max(mu[g] - step * slope[g], 0.0)
    return value, max(bound, value)


@compiled
def _searches(w: Array, members: _Members, rounds: int, K: int) -> tuple[Array, Array]:
    """The best set found for each row of w (n, L), (n, K) with -1 behind, and its value and bound,
    (n, 2).
    """
    n, L = w.shape
    A = np.empty((n, K), np.int64)
    A[:] = -1
    worth = np.empty((n, 2))
    for b in prange(n):
        x = np.zeros(L, np.bool_)
        value, bound = _search(w[b], members, rounds, x)
        worth[b, 0] = value
        worth[b, 1] = bound
        into_row(x, A[b])
    return A, worth


class GroupLimits(BaseOracle):
    """Sets with at most a given number of items of each group, where an item may be in several
    groups, or in none; of at most `max_items` items if that is given.

    Args:
        groups: the labels of the groups of each item, as [{"news", "berlin"}, {"sport"}, set()]: in
            the order of the items, or by id as a mapping or a pandas Series.
        limits: how many items of a group there may be, by its label; groups that are not named have
            no limit. One number holds for each group.
        max_items: how many items there may be in all.
        rounds: steps of the search per weight vector; most weights need fewer.

    Items whose weight is not positive are left out, so that no item at all is a feasible set; the
    others are returned in increasing order. The best set is hard to find in general. This one is at
    least what adding the best items that fit gives, and so at least 1/p of the best if no item is
    in more than p of the groups, `max_items` counted as one: that is `gap`. Mostly it is the best
    or lacks less than a hundredth, and `solve_with_gap` says how much at most. `Milp` finds the
    best, but takes far longer. Where groups do not overlap, `PartitionMatroid` and `Quota`
    are exact.

    >>> import numpy as np
    >>> from superarm import GroupLimits
    >>> topics = [{"news", "berlin"}, {"news"}, {"sport", "berlin"}, {"sport"}]
    >>> oracle = GroupLimits(topics, {"news": 1, "berlin": 1})
    >>> oracle(np.array([0.9, 0.8, 0.7, 0.1]))
    array([1, 2, 3])
    """

    K: int  # the most items it can return
    gap: float
    exchanges = True

    def __init__(
        self,
        groups: Sequence[Collection[Any]] | Mapping[Any, Collection[Any]],
        limits: Mapping[Any, int] | int,
        *,
        max_items: int | None = None,
        rounds: int = ROUNDS,
    ) -> None:
        require_count(rounds=rounds)
        listed, self.ids = split_labels(groups, ParameterError)
        labels = [_labels(e, given) for e, given in enumerate(listed)]
        if not labels:
            raise ParameterError("groups must name the groups of each item, got none")
        self.L = len(labels)
        self.max_items = max_items
        self.rounds = rounds
        by_label = _limits(limits, labels)
        if max_items is not None:
            require_count(max_items=max_items)
        self._members = _members(labels, by_label, max_items)
        many = np.diff(self._members.start)
        free = (many == 0).sum()
        room = int(free + self._members.limit.sum())
        self.K = min(self.L, room) if max_items is None else min(self.L, room, max_items)
        self.gap = 1 - 1 / max(1, int(many.max()))

    def __repr__(self) -> str:
        most = "" if self.max_items is None else f", max_items={self.max_items}"
        return f"GroupLimits({self.L} items{most})"

    def solve(self, rows: Array) -> Array:
        """The best set found for each row of weights (n, L): (n, K), -1 pads."""
        A, _ = self._solve(rows)
        return A

    def solve_with_gap(self, w: Any) -> tuple[Array, Array]:
        """The best sets found for the weights (*B, L), and for each the share of the best that it
        may lack: items (*B, K), gaps (*B,), where 0 is proven to be the best.

        Returns:
            items (*B, K) and gaps (*B,).

        >>> from superarm import GroupLimits
        >>> GroupLimits([{"a"}, {"a", "b"}, {"b"}], 1).solve_with_gap([0.6, 0.9, 0.5])
        (array([0, 2]), array(0.))
        """
        return with_gaps(self._solve, w, self.L)

    def _solve(self, rows: Array) -> tuple[Array, Array]:
        A, worth = _searches(rows, self._members, self.rounds, self.K)
        gaps = [lacking(value, bound) for value, bound in worth]
        return A, np.array(gaps)


def _labels(e: int, given: Any) -> set[Any]:
    """The labels of the groups of item e."""
    if isinstance(given, str) or not isinstance(given, Collection):
        raise ParameterError(
            f"groups must name the groups of each item, as {{'a', 'b'}}, got {given!r} for item {e}"
        )
    return set(given)


def _limits(limits: Mapping[Any, int] | int, labels: list[set[Any]]) -> Mapping[Any, int]:
    """The limit of each group by its label, checked."""
    if not isinstance(limits, Mapping):
        require_whole(limits, "limits")
        return dict.fromkeys(set().union(*labels), limits)
    for label, limit in limits.items():
        require_whole(limit, f"the limit of group {label!r}")
    return limits


def _members(labels: list[set[Any]], limits: Mapping[Any, int], max_items: int | None) -> _Members:
    """The groups of each item that can bind: those with more items than their limit, numbered in
    the order of the limits, and all items as the last.
    """
    size = dict.fromkeys(limits, 0)
    for given in labels:
        for label in given & limits.keys():
            size[label] += 1
    binding = [label for label in limits if size[label] > limits[label]]
    number = {label: g for g, label in enumerate(binding)}
    groups = [sorted(number[label] for label in given & number.keys()) for given in labels]
    limit = [limits[label] for label in binding]
    if max_items is not None and max_items < len(labels):
        for numbers in groups:
            numbers.append(len(limit))
        limit.append(max_items)
    start = starts(np.array([len(numbers) for numbers in groups]))
    flat = [g for numbers in groups for g in numbers]
    return _Members(start, np.array(flat, np.int64), np.array(limit, np.int64))

"""Budgets by the thousand: minutes, run by name."""

import itertools

import numpy as np

from superarm import Budget, Knapsack

SETS = {n: np.array(list(itertools.product([0, 1], repeat=n))) for n in range(1, 11)}


def linear_bound(w, c, budget):
    """The bound of linear programming: the best by weight per cost, the last one in part."""
    order = np.argsort(-w / c)
    whole = np.searchsorted(np.cumsum(c[order]), budget)
    left = budget - c[order[:whole]].sum()
    last = order[whole]
    return w[order[:whole]].sum() + left * w[last] / c[last]


def costs(rng, n):
    kinds = [
        rng.uniform(1, 10, n),
        np.round(rng.uniform(1, 100, n), 2),
        rng.lognormal(3, 1, n),
        rng.integers(1, 1000, n).astype(float),
    ]
    return kinds[rng.integers(len(kinds))]


def test_a_thousand_weights_that_follow_the_price():
    rng = np.random.default_rng(7)
    gaps = []
    for _ in range(1000):
        n = int(np.exp(rng.uniform(np.log(50), np.log(10_000))))
        c = costs(rng, n)
        fixed = rng.choice([0, 0.1, 1, 5]) * c.mean() * rng.random()
        noise = rng.choice([0, 1e-9, 1e-6, 1e-4, 1e-2]) * c.mean()
        w = np.abs(fixed + rng.uniform(0.2, 2) * c + noise * rng.standard_normal(n))
        budget = rng.uniform(0.05, 0.7) * c.sum()
        A, gap = Knapsack(c, budget).solve_with_gap(w)
        chosen = A[A >= 0]
        assert c[chosen].sum() <= budget * (1 + 1e-11)
        assert gap <= 1 - w[chosen].sum() / linear_bound(w, c, budget) + 1e-11
        gaps.append(gap)
    assert np.median(gaps) < 1e-4
    assert np.quantile(gaps, 0.99) < 1e-3


def test_small_ones_are_brute_force():
    """With any effort the gap is true; with enough it is 0."""
    rng = np.random.default_rng(0)
    for _ in range(20_000):
        n = int(rng.integers(1, 11))
        X = SETS[n]
        c = [rng.random(n), rng.integers(0, 5, n) * 1.0, costs(rng, n)][rng.integers(3)]
        follows = c * rng.uniform(0.5, 2) + rng.choice([0.0, 1.0])
        w = [rng.standard_normal(n), rng.integers(-2, 4, n) * 1.0, follows][rng.integers(3)]
        w[rng.random(n) < 0.1] = -np.inf
        budget = rng.uniform(0, 1.2) * c.sum()
        most = int(rng.integers(1, n + 1))
        groups = rng.integers(0, 3, n)
        each = int(rng.integers(0, 4))
        effort = int(rng.choice([1, 10, 100, 500_000]))

        fits = (X @ c <= budget * (1 + 1e-12)) & (X.sum(axis=1) <= most)
        apart = fits.copy()
        for g in range(3):
            apart &= X[:, groups == g].sum(axis=1) <= each
        worth = X @ np.maximum(w, 0)
        knapsack = Knapsack(c, budget, max_items=most, effort=effort)
        grouped = Budget(c, budget, groups=groups, maximum=each, max_items=most, effort=effort)
        for oracle, feasible in ((knapsack, fits), (grouped, apart)):
            A, gap = oracle.solve_with_gap(w)
            chosen = A[A >= 0]
            x = np.isin(np.arange(n), chosen)
            assert (X[feasible] == x).all(axis=1).any()
            best = worth[feasible].max()
            assert w[chosen].sum() >= (1 - gap) * best * (1 - 1e-11)
            assert effort < 500_000 or gap == 0

"""Budgets by the thousand: minutes, run by name."""

import numpy as np

from superarm import Knapsack


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

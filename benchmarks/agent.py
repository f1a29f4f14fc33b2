"""One decision and one update of an `Agent` against twenty lines of bare NumPy, interleaved in one run.

L = 6,000 items, d = 20 features, K = 10 chosen; Thompson sampling on a linear model. Run: make bench
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from superarm import Agent, CombLinTS, TopK
from superarm.arrays import Array

L, D, K = 6_000, 20, 10
LAM, SIGMA = 1.0, 0.5


class Bare:
    """What one would write by hand: a precision matrix, a Cholesky factor, argpartition, no checks."""

    def __init__(self, Phi: Array, seed: int) -> None:
        self.Phi, self.rng = Phi, np.random.default_rng(seed)
        self.P, self.b = np.eye(D) / LAM**2, np.zeros(D)

    def choose(self) -> Array:
        C = np.linalg.cholesky(self.P)
        mean = np.linalg.solve(C.T, np.linalg.solve(C, self.b))
        theta = mean + np.linalg.solve(C.T, self.rng.standard_normal(D))
        return np.argpartition(self.Phi @ theta, -K)[-K:]

    def observe(self, items: Array, w: Array) -> None:
        phi = self.Phi[items]
        self.P = self.P + phi.T @ phi / SIGMA**2
        self.b = self.b + phi.T @ w / SIGMA**2


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def main(repeats: int = 3_000) -> None:
    rng = np.random.default_rng(0)
    Phi, theta = rng.standard_normal((L, D)), rng.standard_normal(D)
    contestants: dict[str, Any] = {
        "superarm": Agent(CombLinTS(lam=LAM, sigma=SIGMA), features=Phi, oracle=TopK(K), seed=1),
        "bare NumPy": Bare(Phi, seed=1),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    with threadpool_limits(limits=1):
        for _ in range(repeats):
            for name, contestant in contestants.items():
                items, choose = timed(contestant.choose)
                w = Phi[items] @ theta + SIGMA * rng.standard_normal(K)
                _, observe = timed(contestant.observe, items, w)
                times[name].append((choose, observe))
    print(f"L={L:,} d={D} K={K}, one BLAS thread, medians of {repeats:,} interleaved repeats, microseconds\n")
    print(f"{'':12}{'choose':>10}{'observe':>10}{'both':>10}")
    both = {}
    for name, pairs in times.items():
        choose, observe = (1e6 * statistics.median(column) for column in zip(*pairs, strict=True))
        both[name] = choose + observe
        print(f"{name:12}{choose:10.1f}{observe:10.1f}{both[name]:10.1f}")
    print(f"\nratio superarm / bare NumPy: {both['superarm'] / both['bare NumPy']:.2f}")


if __name__ == "__main__":
    main()

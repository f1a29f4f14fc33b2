"""Contestants that take turns, and the table of their ratios.

Absolute times depend on the machine and its mood. So contestants take turns, repeat after repeat,
and medians are compared.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.formatting import format_columns

SIGMA = 0.5


class Row(NamedTuple):
    """One comparison."""

    what: str
    seconds: float
    reference: str
    ratio: float  # of ours to the reference
    asked: str
    spread: tuple[float, float] | None = None  # that four of five turns lie within


def turn_by_turn(
    contestants: Mapping[str, Callable[[], Any]], repeats: int
) -> dict[str, list[float]]:
    """Seconds of each in each turn; a first turn is not counted."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(repeats + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if repeat:
                times[name].append(time.perf_counter() - start)
    return times


def interleaved(contestants: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each, taking turns."""
    times = turn_by_turn(contestants, repeats)
    return {name: statistics.median(taken) for name, taken in times.items()}


class Bare:
    """What one would write by hand: a precision matrix, a Cholesky factor, argpartition, no
    checks.
    """

    def __init__(self, Phi: Array, k: int, seed: int) -> None:
        self.Phi = Phi
        self.k = k
        self.rng = np.random.default_rng(seed)
        self.P = np.eye(Phi.shape[1])
        self.b = np.zeros(Phi.shape[1])

    def choose(self) -> Array:
        """Thompson sampling."""
        C = np.linalg.cholesky(self.P)
        mean = np.linalg.solve(C.T, np.linalg.solve(C, self.b))
        theta = mean + np.linalg.solve(C.T, self.rng.standard_normal(len(mean)))
        return np.argpartition(self.Phi @ theta, -self.k)[-self.k :]

    def observe(self, items: Array, w: Array) -> None:
        """Add information."""
        phi = self.Phi[items]
        self.P = self.P + phi.T @ phi / SIGMA**2
        self.b = self.b + phi.T @ w / SIGMA**2


def turn_of(
    choose: Callable[[], Any],
    observe: Callable[[Any, Array], Any],
    mean: Array,
    seed: int,
    times: int = 1,
) -> Callable[[], None]:
    """Decisions, each with its feedback."""
    rng = np.random.default_rng(seed)

    def turn() -> None:
        for _ in range(times):
            items = choose()
            observe(items, mean[items] + SIGMA * rng.standard_normal(len(items)))

    return turn


def as_text(rows: list[Row]) -> str:
    """The table for a terminal."""
    lines = [("what", "time", "ratio", "to", "asked")]
    for row in rows:
        time_ = f"{1e3 * row.seconds:.3g} ms"
        ratio = fraction(row.ratio)
        if row.spread is not None:
            low, high = map(fraction, row.spread)
            ratio += f" ({low} to {high})"
        lines.append((row.what, time_, ratio, row.reference, row.asked))
    return format_columns(lines)


def fraction(ratio: float) -> str:
    """A ratio in short: small ones as one by so much."""
    if 0 < ratio < 0.3:
        return f"1/{1 / ratio:.3g}"
    return f"{ratio:.2f}"

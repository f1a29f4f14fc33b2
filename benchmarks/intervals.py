"""How often 95 % intervals of offline estimates hold the truth where clicks are rare.

Logs are simulated with known rates of clicks, about 0.3 to 5 % and different for each item; in a
fifth of the decisions all rates are six times those of the others, so that clicks within a decision
depend on each other. Each line shows the share of intervals that hold the truth, with its standard
error, and their mean width in units of the truth: of the gamma interval that `superarm.offline`
gives for weights of 0 and 1, and of Student's interval about the same estimates.

Run: python benchmarks/intervals.py [--logs 500]
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from superarm import CombTS, Greedy, TopK, offline
from superarm.arrays import Array
from superarm.offline import Estimate, Log

RATES = (0.003, 0.005, 0.007, 0.05)
DECISIONS = (1000, 4000)
LEVEL = 0.95
EAGER = np.array([0.5, 3.0])  # how many times the usual rate a decision has
SHARES = np.array([0.8, 0.2])  # of such decisions


class Case(NamedTuple):
    """A logging policy, which takes the K largest of its scores plus Gumbel noise, and a target."""

    name: str
    scores: Array  # (L,)
    K: int
    target: Array  # (L,)
    against: Array | None = None

    def decisions(self, rng: np.random.Generator, n: int) -> Array:
        """The items of n decisions, (n, K)."""
        noisy = self.scores + rng.gumbel(size=(n, len(self.scores)))
        return np.argpartition(-noisy, self.K - 1, axis=-1)[:, : self.K]

    def propensities(self) -> Array:
        """How likely each item is chosen, (L,), by 300,000 decisions."""
        A = self.decisions(np.random.default_rng(1), 300_000)
        return np.bincount(A.ravel(), minlength=len(self.scores)) / len(A)


def fixed(order: Array, K: int) -> Array:
    """The target that always chooses the first K of an order."""
    return np.isin(np.arange(len(order)), order[:K]).astype(float)


def cases(appeal: Array) -> Iterator[Case]:
    """Policies that log alike, differently, and mostly one item."""
    rng = np.random.default_rng(5)
    L = len(appeal)
    scores = rng.standard_normal(L)
    best = fixed(np.argsort(-appeal), 3)
    rarest = fixed(np.argsort(scores), 3)
    uniform = np.full(L, 3 / L)
    yield Case("uniform, best 3", np.zeros(L), 3, best)
    yield Case("softmax, best 3", scores, 3, best)
    yield Case("softmax, rarest 3", scores, 3, rarest)
    yield Case("softmax, uniform", scores, 3, uniform)
    other = Case("", rng.standard_normal(L), 3, best).propensities()
    yield Case("steep softmax, another softmax", 1.5 * scores, 3, other)
    yield Case("softmax, best 3 against uniform", scores, 3, best, uniform)
    mostly_first = np.log(np.where(np.arange(L) == 0, 0.82, 0.18 / (L - 1)))
    yield Case("greedy but for 18 %, another item", mostly_first, 1, np.eye(L)[1])
    yield Case("greedy but for 18 %, uniform", mostly_first, 1, np.full(L, 1 / L))


def logs(case: Case, ctr: Array, n: int, size: int) -> Iterator[Log]:
    """Logs of n decisions of a case."""
    rng = np.random.default_rng(3)
    p = case.propensities()
    Phi = np.eye(len(ctr))
    for _ in range(size):
        A = case.decisions(rng, n)
        eager = rng.choice(EAGER, size=(n, 1), p=SHARES)
        w = rng.random(A.shape) < eager * ctr[A]
        yield Log(A, w.astype(float), p[A], [Phi] * n)


class Coverage(NamedTuple):
    """The share of intervals that hold the truth, and their mean width."""

    share: float
    width: float
    logs: int

    @classmethod
    def of(cls, low: Array, high: Array, truth: Array) -> "Coverage":
        held = (low <= truth) & (truth <= high)
        width = (high - low).mean() / np.abs(truth).mean()
        return cls(float(held.mean()), float(width), len(low))

    def __str__(self) -> str:
        se = np.sqrt(self.share * (1 - self.share) / self.logs)
        return f"{self.share:.3f} ± {se:.3f} ({self.width:5.2f})"


def compared(found: list[Estimate], truth: Array) -> str:
    """The coverage of intervals as they are, and as Student's."""
    value, se, low, high, _, _, ess, *_ = np.array([e[:-1] for e in found]).T
    half = se * stdtrit(ess - 1, (1 + LEVEL) / 2)
    return (
        f"gamma {Coverage.of(low, high, truth)}   "
        f"Student's {Coverage.of(value - half, value + half, truth)}"
    )


def main(size: int) -> None:
    """Print the table."""
    appeal = np.exp(0.7 * np.random.default_rng(0).standard_normal(20))
    appeal /= appeal.mean()
    for rate in RATES:
        ctr = rate * appeal
        for n in DECISIONS:
            for case in cases(appeal):
                difference = case.target - (0 if case.against is None else case.against)
                truth = np.full(size, difference @ ctr)
                for normalized in (True, False):
                    found = [
                        offline.ips(log, case.target, against=case.against, normalized=normalized)
                        for log in logs(case, ctr, n, size)
                    ]
                    how = "self-normalized" if normalized else "unbiased"
                    label = f"{rate:.1%} {n:5} {case.name:33} {how:16}"
                    print(label, compared(found, truth), flush=True)
        slow(rate, ctr, list(cases(appeal))[1], size // 5)


def slow(rate: float, ctr: Array, case: Case, size: int) -> None:
    """Print the lines of `doubly_robust` and `replay`."""
    n = 500
    model = Greedy(lam=1.0, sigma=0.1)
    robust = [
        offline.doubly_robust(log, case.target, model=model) for log in logs(case, ctr, n, size)
    ]
    truth = np.full(size, case.target @ ctr)
    label = f"{rate:.1%} {n:5} {case.name:33} {'doubly robust':16}"
    print(label, compared(robust, truth), flush=True)
    runs = [
        offline.replay(log, CombTS(beta=100.0), TopK(3), rng=np.random.default_rng(i))
        for i, log in enumerate(logs(case, ctr, n, size))
    ]
    truth = np.array([ctr[run.A].sum(-1).mean() for run in runs])
    label = f"{rate:.1%} {n:5} {'softmax, CombTS':33} {'replay':16}"
    print(label, compared([run.estimate for run in runs], truth), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    main(parser.parse_args().logs)

"""CombLinTS that sets its own scales once, from the evidence of the first episodes."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, matvec, take_rows
from superarm.errors import ParameterError, require_count, require_positive
from superarm.gaussian import Gaussian, condition, prior, sample
from superarm.problem import Problem


class TunedBelief(NamedTuple):
    """A Gaussian belief, the scales it was formed with, and how much it has seen."""

    factor: Array
    log_scale: Array
    lam: Array
    sigma: Array
    rows: Array
    t: Array


def _statistics(belief: TunedBelief) -> tuple[Array, Array, float, int]:
    """XᵀX, Xᵀw, wᵀw and the number of rows, read off the factor: FᵀF holds them, scaled, beside the prior."""
    gram = float(belief.sigma) ** 2 * belief.factor.T @ belief.factor
    d = len(gram) - 1
    return gram[:d, :d] - (belief.sigma / belief.lam) ** 2 * np.eye(d), gram[:d, d], float(gram[d, d]), int(belief.rows)


def best_scales(XtX: Array, Xtw: Array, wtw: float, n: int) -> tuple[float, float]:
    """λ and σ that maximize the evidence N(w; 0, λ²XXᵀ + σ²I); the cost of a candidate does not grow with the rows."""
    from scipy.optimize import minimize

    eigenvalue, V = np.linalg.eigh(XtX)
    eigenvalue, projection = eigenvalue.clip(0), (V.T @ Xtw) ** 2

    def minus_evidence(log_scales: Array) -> float:
        lam2, sigma2 = np.exp(2 * log_scales)
        fit = (projection / (eigenvalue + sigma2 / lam2)).sum()
        log_det = n * math.log(2 * math.pi * sigma2) + np.log1p(lam2 / sigma2 * eigenvalue).sum()
        return float(log_det + (wtw - fit) / sigma2) / 2

    spread = math.log(math.sqrt(wtw / n))
    starts = [np.array([spread + a, spread + b]) for a in (-2.0, 0.0, 2.0) for b in (-2.0, 0.0)]
    bounds = [(spread - 7, spread + 7)] * 2
    best = min((minimize(minus_evidence, start, bounds=bounds) for start in starts), key=lambda found: found.fun)
    lam, sigma = np.exp(best.x)
    return float(lam), float(sigma)


@dataclass(frozen=True, kw_only=True)
class TunedCombLinTS:
    """CombLinTS(lam, sigma) for `after` episodes; then the scales with the largest evidence, and nothing forgotten.

    >>> TunedCombLinTS(lam=10.0, sigma=1.0)
    TunedCombLinTS(lam=10.0, sigma=1.0, after=20)
    """

    lam: float
    sigma: float
    after: int = 20

    def __post_init__(self) -> None:
        require_positive(lam=self.lam, sigma=self.sigma)
        require_count(after=self.after)

    def init(self, problem: Problem) -> TunedBelief:
        """The prior of the first scales."""
        if problem.batch:
            raise ParameterError("TunedCombLinTS plays one problem at a time")
        belief = prior(problem.d, self.lam)
        return TunedBelief(*belief, *map(np.asarray, (self.lam, self.sigma, 0, 0)))

    def weights(self, belief: TunedBelief, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t);  Φθ_t."""
        return matvec(problem.Phi, sample(Gaussian(belief.factor, belief.log_scale), rng))

    def update(self, belief: TunedBelief, problem: Problem, A: Array, w: Array) -> TunedBelief:
        """Algorithm 1, and in one episode the choice of scales."""
        before = Gaussian(belief.factor, belief.log_scale)
        after = condition(before, take_rows(problem.Phi, A), w, float(belief.sigma))
        grown = belief._replace(
            factor=after.factor, log_scale=after.log_scale, rows=belief.rows + (A >= 0).sum(), t=belief.t + 1
        )
        return self._rescaled(grown) if grown.t == self.after else grown

    def _rescaled(self, belief: TunedBelief) -> TunedBelief:
        XtX, Xtw, wtw, n = _statistics(belief)
        if not (n and wtw):  # nothing but zeros says nothing about scales
            return belief
        lam, sigma = best_scales(XtX, Xtw, wtw, n)
        gram = np.block([[XtX + (sigma / lam) ** 2 * np.eye(len(XtX)), Xtw[:, None]], [Xtw[None], np.array([[wtw]])]])
        factor = np.linalg.cholesky(gram).T / sigma
        log_scale = -len(XtX) * math.log(lam) - n * math.log(sigma * math.sqrt(2 * math.pi))
        rescaled = {"factor": factor, "log_scale": log_scale, "lam": lam, "sigma": sigma}
        return belief._replace(**{name: np.asarray(value) for name, value in rescaled.items()})

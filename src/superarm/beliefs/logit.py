"""The linear model of log-odds, for clicks: each observation becomes a Gaussian one by moment
matching.

    P(w_k = 1) = sigmoid(η_k),   η_k = φ_k·θ,   log p(w) = Σ v_k (w_k log p_k + (1 - w_k) log(1-p_k))

Under the belief before it, η_k ~ N(m, s²). After the observation its density is no longer Gaussian;
the Gaussian of the same mean and variance takes its place. That is what a linear model would
believe that had seen, instead of the click, a target y with precision a:

    1/s'² = 1/s² + a,   m'/s'² = m/s² + a y

So `gaussian.condition` on the targets is the update. The observations of a block are matched in
turns, each given all the others. Weights between 0 and 1 are shares: w of v is binomial.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    as_float64,
    as_like,
    diagonal,
    full,
    matvec,
    nonzero_rows,
    sigmoid,
    solve_rows,
    to_numpy,
    where,
)
from superarm.arrays.compiled import compiled
from superarm.beliefs.columns import LEVEL, is_level
from superarm.beliefs.linear import FactoredModel, faded, observed
from superarm.beliefs.mixed import Means, Mixed, MixedModel
from superarm.beliefs.tuned import TunedModel
from superarm.contracts import Feedback, Problem
from superarm.errors import WeightsError
from superarm.gaussian import Factored, Gaussian, condition

NODES = 129
"""Places at which a density is looked at; with that many the trapezoidal rule is exact to rounding
where s is below 10."""
STDS = 8.0
"""How far from its mean a Gaussian is looked at."""
NEGLIGIBLE = 40.0
"""Logarithm of the share of the highest density below which density does not count."""
PASSES = 5
"""How often the interval may be narrowed to where the density is."""
ENOUGH = 30
"""Clicks, and rows without, from which on λ is chosen."""
RARE = 0.05
"""Clicks per row below which p(1-p) is about p."""
BLOCK = 128
"""Rows that are matched under one joint covariance."""
SWEEPS = 20
"""How often the observations of a block take turns."""
TOLERANCE = 1e-6
"""The largest change in standard deviations after which they agree."""


@compiled
def _log_sigmoid(x: float) -> float:
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


@compiled
def _moments(m: float, variance: float, w: float, v: float) -> tuple[float, float, float]:
    """Mean, variance and log mass of N(m, s²) times the likelihood of w, by the trapezoidal rule.
    """
    height = np.empty(NODES)
    std = math.sqrt(variance)
    # the likelihood moves the mass by at most v s², up if w = 1 and down if w = 0
    low = m - STDS * std - v * (1 - w) * variance
    high = m + STDS * std + v * w * variance
    for _ in range(PASSES):
        step = (high - low) / (NODES - 1)
        for i in range(NODES):
            eta = low + i * step
            z = (eta - m) / std
            log_p = w * _log_sigmoid(eta) + (1 - w) * _log_sigmoid(-eta)
            height[i] = v * log_p - z * z / 2
        top = height.max()
        counts = np.flatnonzero(height > top - NEGLIGIBLE)
        first = low
        if len(counts) > NODES // 2:
            break
        low = first + (counts[0] - 1) * step
        high = first + (counts[-1] + 1) * step
    total = 0.0
    moved = 0.0
    for i in range(NODES):
        density = math.exp(height[i] - top)
        total += density
        moved += density * (first + i * step - m)
    mean = moved / total
    square = 0.0
    for i in range(NODES):
        square += math.exp(height[i] - top) * (first + i * step - m - mean) ** 2
    log_mass = top + math.log(total * step / (std * math.sqrt(2 * math.pi)))
    return mean, square / total, log_mass


@compiled
def _match(
    out: Array,
    m: Array,
    V: Array,
    w: Array,
    v: Array,
    present: Array,
) -> None:
    """Fill out (B, 3, K) with targets, precisions, and what is missing of the log evidence."""
    for b in range(len(m)):
        a = np.zeros(m.shape[1])  # precisions
        ay = np.zeros(m.shape[1])  # precisions times targets
        for _ in range(SWEEPS):
            largest = 0.0
            for k in range(m.shape[1]):
                if not present[b, k]:
                    continue
                now = 1 / V[b, k, k]
                without = 1 / max(now - a[k], 1e-12 * now)  # variance without this observation
                mean = (m[b, k] * now - ay[k]) * without
                change, left, log_mass = _moments(mean, without, w[b, k], v[b, k])
                # below 1e-12 of the variance it is rounding that speaks
                precision = max(1 / left - 1 / without, 1e-12 / without)
                y = mean + change * (1 + 1 / (precision * without))
                more = precision - a[k]
                shift = (precision * y - ay[k] - more * m[b, k]) / (1 + more / now)
                largest = max(largest, abs(more) / now, abs(shift) / math.sqrt(now))
                column = V[b, :, k].copy()
                m[b] += column * shift
                V[b] -= (more / (1 + more / now)) * np.outer(column, column)
                a[k] = precision
                ay[k] = precision * y
                spread = without + 1 / precision
                log_density = -(math.log(2 * math.pi * spread) + (y - mean) ** 2 / spread) / 2
                out[b, 0, k] = y
                out[b, 1, k] = precision
                out[b, 2, k] = log_mass - log_density
            if largest < TOLERANCE:
                break


class Targets(NamedTuple):
    """Gaussian observations, with noise of std 1/√precision, that say what clicks say."""

    y: Array  # (*B, K)
    precision: Array  # (*B, K), 1 where nothing is present
    missing: Array  # (*B,) the log evidence of the clicks less that of the targets


def targets(m: Array, V: Array, w: Array, v: Array, present: Array) -> Targets:
    """For log-odds that are believed to be N(m, V): (*B, K), (*B, K, K).

    Each of the weights w, of importance v, is matched given all the others, in turns, until they
    agree (expectation propagation).
    """
    *batch, K = m.shape
    out = np.zeros((*batch, 3, K))
    out[..., 1, :] = 1.0
    _match(
        out.reshape(-1, 3, K),
        to_numpy(m).reshape(-1, K).copy(),
        to_numpy(V).reshape(-1, K, K).copy(),
        to_numpy(as_float64(w)).reshape(-1, K),
        to_numpy(v).reshape(-1, K),
        to_numpy(present).reshape(-1, K),
    )
    found = as_like(m, out)
    return Targets(
        found[..., 0, :],
        found[..., 1, :],
        found[..., 2, :].sum(-1),
    )


def require_shares(w: Array, present: Array) -> None:
    """Refuse weights that are no shares of clicks."""
    outside = present & ~((w >= 0) & (w <= 1))
    if outside.any():
        raise WeightsError(
            f"the logit link needs weights in [0, 1], got {w[outside][0]}: rescale them"
        )


def _of_block(belief: Factored, block: Feedback) -> Targets:
    """The targets of a few rows under a belief about θ."""
    phi = as_float64(block.rows)
    present = nonzero_rows(phi)
    X = solve_rows(belief.factor, phi)
    return targets(
        matvec(phi, gaussian.mean(belief)),
        X @ X.mT,
        where(present, block.w, 0.0),
        full(block.w.shape, block.importance, X),
        present,
    )


class Matched(NamedTuple):
    """Clicks as Gaussian feedback with noise of std 1, and what its log evidence misses (*B,)."""

    feedback: Feedback
    missing: Array


def blocks(feedback: Feedback) -> list[slice]:
    """The feedback in parts of few rows, each with some of its beginning and of its end."""
    n = -(-feedback.w.shape[-1] // BLOCK)
    return [slice(start, None, n) for start in range(n)]


def matched(belief: Factored, feedback: Feedback) -> Matched:
    """What the clicks say, as Gaussian feedback, under a belief about θ."""
    require_shares(feedback.w, nonzero_rows(feedback.rows))
    v = full(feedback.w.shape, feedback.importance, belief.factor)
    y = full(v.shape, 0.0, v)
    precision = full(v.shape, 1.0, v)
    missing = full(v.shape[:-1], 0.0, v)
    for part in blocks(feedback):
        rows = feedback.rows[..., part, :]
        block = Feedback(feedback.A[..., part], rows, feedback.w[..., part], v[..., part])
        found = _of_block(belief, block)
        belief = condition(belief, rows, found.y, 1.0, found.precision)
        y[..., part] = found.y
        precision[..., part] = found.precision
        missing = missing + found.missing
    return Matched(feedback._replace(w=y, importance=precision), missing)


def condition_logit(
    belief: Factored,
    phi: Array,
    w: Array,
    importance: Array | float = 1.0,
) -> Gaussian:
    """The belief after rows phi (*B, K, d) showed the weights w (*B, K) in [0, 1].

    A row of `importance` v is a share of v throws.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> from superarm.beliefs.logit import condition_logit
    >>> clicked = np.arange(100) < 20
    >>> belief = condition_logit(gaussian.prior(1, lam=10.0), np.ones((100, 1)), clicked)
    >>> (1 / (1 + np.exp(-gaussian.mean(belief)))).round(2)
    array([0.2])
    """
    nowhere = full(w.shape, -1, belief.factor)
    of = matched(belief, Feedback(nowhere, phi, w, importance))
    after = observed(belief, of.feedback, 1.0)
    return after._replace(log_scale=after.log_scale + of.missing)


@dataclass(frozen=True)
class LogitModel(FactoredModel):
    """P(w = 1) = sigmoid(φ_e·θ) with θ ~ N(0, λ²I).

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.logit import LogitModel
    >>> model = LogitModel(lam=1.0)
    >>> problem = Problem(np.eye(2), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([1.0]))
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> model.response(model.mean(belief, problem)).round(2)
    array([0.6, 0.5])
    """

    lam: float
    forgetting: float = 1.0

    def learn(self, belief: Gaussian, problem: Problem, feedback: Feedback) -> Gaussian:
        """Bayes' rule by moment matching."""
        past = faded(belief, self.lam, self.forgetting)
        return condition_logit(past, feedback.rows, feedback.w, feedback.importance)

    def response(self, score: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(score)


class Clicks(NamedTuple):
    """`tuned.Tuned` on Gaussian targets, and what keeps these up to date."""

    factor: Array  # (*B, d+1, d+1)
    log_scale: Array  # (*B,)
    data: Array  # (*B, d+1, d+1) the factor of the targets [φ y], times √a
    rows: Array  # (*B,)
    columns: Array  # (*B, 4, d)
    spread: Array  # (*B, d)
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,)
    clicked: Array  # (*B,) Σ v w
    gram: Array  # (*B, d, d) Σ v φφᵀ
    formed: Array  # (*B,) Σ a


@dataclass(frozen=True)
class TunedLogitModel(TunedModel):
    """P(w = 1) = sigmoid(φ_e·θ) with a prior on θ that follows the columns of the features, at a λ
    of its own choosing: `TunedModel` on Gaussian targets.

    A target is as precise as its click was thought to tell when it came. Rare clicks are at first
    thought far more or far less likely than they turn out to be. So whenever λ is chosen anew, the
    level of the log-odds is too, and the precision of the targets: with c the coefficient of the
    constant, the clicks are Poisson with mean e^c · exposure, and Σ v p (1-p) is about their
    number.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.logit import TunedLogitModel
    >>> model = TunedLogitModel()
    >>> problem = Problem(np.column_stack([np.ones(500), np.arange(500) % 2]), TopK(1))
    >>> clicked = np.where(np.arange(500) % 2, np.arange(500) % 5 == 1, np.arange(500) % 50 == 0)
    >>> feedback = Feedback.of(problem, np.arange(500), clicked)
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> model.response(model.mean(belief, problem))[:2].round(2)
    array([0.04, 0.2 ])
    """

    known: Mapping[str, float] = field(default_factory=lambda: {"sigma": 1.0})
    wide: ClassVar[Mapping[str, float]] = {"lam": 1.0}
    size: ClassVar[float | None] = 1.0

    def prior(self, problem: Problem) -> Clicks:
        """Nothing observed."""
        d = problem.d
        nothing = full(problem.batch, 0.0, problem.Phi)
        gram = full((*problem.batch, d, d), 0.0, problem.Phi)
        return Clicks(*super().prior(problem), nothing, gram, nothing)

    def learn(self, belief: Clicks, problem: Problem, feedback: Feedback) -> Clicks:
        """Bayes' rule by moment matching, and at times the choice of a new λ and of new targets."""
        past = self._faded(belief)
        of = matched(past, feedback).feedback
        phi = as_float64(feedback.rows)
        present = nonzero_rows(phi)
        v = where(present, full(feedback.w.shape, feedback.importance, phi), 0.0)
        counted = belief._replace(
            clicked=belief.clicked + (v * where(present, feedback.w, 0.0)).sum(-1),
            gram=belief.gram + phi.mT @ (v[..., None] * phi),
            formed=belief.formed + where(present, of.importance, 0.0).sum(-1),
        )
        return super().learn(counted, problem, of)

    def _faded(self, belief: Clicks) -> Clicks:
        keep = self.forgetting
        past = super()._faded(belief)
        return past._replace(
            clicked=keep * belief.clicked,
            gram=keep * belief.gram,
            formed=keep * belief.formed,
        )

    def _refitted(self, belief: Clicks) -> Clicks:
        fresh = _refreshed(belief)
        if min(belief.clicked, belief.rows - belief.clicked) < ENOUGH:
            return self._made(fresh, belief.lam, belief.sigma)
        return super()._refitted(fresh)

    def merge(self, belief: Clicks, other: Clicks, problem: Problem) -> Clicks:
        """The targets of both, at the λ of the largest marginal likelihood."""
        both = belief._replace(
            clicked=belief.clicked + other.clicked,
            gram=belief.gram + other.gram,
            formed=belief.formed + other.formed,
        )
        return super().merge(both, other, problem)

    def response(self, score: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(score)

    def _level(self, belief: Clicks) -> Array:
        """The prior std of the log-odds of a typical item."""
        return full((), LEVEL)


def _refreshed(belief: Clicks) -> Clicks:
    """A single belief with targets of the level and the precision that rare clicks have."""
    level = is_level(belief.columns)
    S = float(belief.clicked)
    if not level.any() or not 1 <= S <= RARE * belief.rows:
        return belief
    d = len(level)
    c = belief.columns[2, level][0]
    G = belief.gram
    N = G[level, level][0] / c**2
    mean = G[level][0] / (N * c)
    slopes = np.where(level, 0.0, gaussian.mean(belief))
    of_slopes = mean @ slopes + (slopes @ G @ slopes / N - (mean @ slopes) ** 2) / 2
    R = belief.data[:d, :d]
    theta = np.linalg.lstsq(R, belief.data[:d, d], rcond=1e-12)[0]
    theta[level] = (math.log(S / N) - of_slopes) / c
    data = np.zeros_like(belief.data)
    data[:d, :d] = R * math.sqrt(min(1.0, S / belief.formed))
    data[:d, d] = data[:d, :d] @ theta
    return belief._replace(data=data, formed=min(belief.clicked, belief.formed))


@dataclass(frozen=True)
class MixedLogitModel(MixedModel):
    """P(w = 1) = sigmoid(φ_e·θ + δ_e): `MixedModel` on Gaussian targets.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.logit import MixedLogitModel
    >>> model = MixedLogitModel({"lam": 1.0, "sigma": 1.0, "tau": 1.0})
    >>> problem = Problem(np.ones((2, 1)), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([1.0]))
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> model.response(model.mean(belief, problem)).round(2)
    array([0.67, 0.59])
    """

    wide: ClassVar[Mapping[str, float]] = {"lam": 1.0, "sigma": 1.0, "tau": 1.0}
    size: ClassVar[float | None] = 1.0

    def learn(self, belief: Mixed, problem: Problem, feedback: Feedback) -> Mixed:
        """Bayes' rule by moment matching, and at times the choice of new scales."""
        present = nonzero_rows(feedback.rows) | (feedback.A >= 0)
        require_shares(feedback.w, present)
        v = full(feedback.w.shape, feedback.importance, belief.total)
        for part in blocks(feedback):
            rows = feedback.rows[..., part, :]
            block = Feedback(feedback.A[..., part], rows, feedback.w[..., part], v[..., part])
            belief = super().learn(belief, problem, self._matched(belief, block))
        return belief

    def _matched(self, belief: Mixed, block: Feedback) -> Feedback:
        """What the clicks say, as Gaussian feedback."""
        present = nonzero_rows(block.rows) | (block.A >= 0)
        of = self.rows_of(belief, block.A, as_float64(block.rows))
        X = solve_rows(belief.factor, of.rows)
        found = targets(
            matvec(of.rows, gaussian.mean(belief)) + of.pull,
            X @ X.mT + diagonal(of.variance),
            where(present, block.w, 0.0),
            block.importance,
            present,
        )
        return block._replace(w=found.y, importance=found.precision)

    def response(self, score: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(score)

    def _level(self, belief: Mixed, items: Means) -> Array:
        """The prior std of the log-odds of a typical item."""
        return full((), LEVEL)

"""Estimates and their intervals, from what each decision of a log says.

    symbol     code      shape     meaning
    M_i        M         (n,)      what a model predicts of the target in decision i; 0 without one
    N_i        N         (n,)      how many items the target chooses
    R_i, S_i   R, S      (n, K)    Σ_e q/p (w - ŵ) and Σ_e q/p, before they are summed over items
    a          a         (n, K)    what a click of this logged item adds to the estimate

The estimates and their terms, whose spread gives the standard error, are

    M̄ + R̄         M_i + R_i                                     unbiased
    M̄ + r N̄       M_i + r N_i + j_i N̄/S̄ (R_i - r S_i)           self-normalized: r = R̄/S̄

With j_i = (1 - 1/n)/(1 - S_i/ΣS) the last term is the jackknife's: how far r moves without decision
i. The terms are of whole decisions: clicks within one may depend on each other.

Intervals are Student's, with as many degrees of freedom as decisions count, less one: few that
weigh much are few. There is at least one degree, for with less quantiles are beyond all measure:
where one decision outweighed the others, the interval still held the truth in 96 % of cases.

But an estimate from few clicks is skewed, and says too little about its own spread. So for weights
of 0 and 1 the bounds are quantiles of gamma distributions, after Fay & Feuer (1997) on sums of
counts with weights: below, of the one with the mean Σ a w and the variance se²; above, as if there
were one more click, of the one with

    mean Σ a w + E a     variance se² + E a²     a drawn in proportion to itself, as the target does

Fay & Feuer add the largest a, which makes wide intervals, and Tiwari, Clegg & Zou (2006) the mean
of all, which makes them short where few a are much larger than others. In a difference, clicks that
count for and against it have gamma distributions of their own, whose bounds are put together as
standard errors are (Zou & Donner, 2008).
"""

import functools
import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import gammaincinv, stdtrit

from superarm.arrays import Array
from superarm.errors import NumericalError, ParameterError

ENOUGH_SUPPORT = 0.8
"""Of what a target chooses, what the log must hold. Below, intervals that are not self-normalized
held the truth in 26 to 67 % where they promised 95 %."""
ENOUGH_DECISIONS = 30
"""Effective sample size from which on intervals hold what they promise."""
ENOUGH_DRAWS = 5
"""Times that draws must have chosen an item for 1/p to be right on average, to a percent."""


class Estimate(NamedTuple):
    """A value with its standard error and its interval, and what they rest on.

    Printed, it says what to beware of; `warnings` are the same texts.

    Attributes:
        value: what the policy is worth per decision.
        se: its standard error; 0 where nothing was clicked, which says nothing.
        low: the lower end of the interval.
        high: the upper end of the interval.
        level: of the interval, such as 0.95.
        n: how many decisions.
        ess: effective sample size (Σ S_i)²/Σ S_i², how many decisions count.
        support: 1 in expectation; far below, the target chooses what is hardly logged.
        interval: how it was made.
        few_draws: the share that rests on propensities of few draws; 0 if not known.

    >>> from superarm.offline import Estimate
    >>> print(Estimate(2.31, 0.08, 2.15, 2.47, 0.95, 500, 231.4, 0.983))  # doctest: +ELLIPSIS
    2.31 ± 0.08, between 2.15 and 2.47 with 95 % confidence (Student's interval, 500 decisions ...
    >>> Estimate(2.31, 0.9, 0.33, 4.29, 0.95, 500, 12.3, 0.983).warnings  # doctest: +ELLIPSIS
    ('few decisions: all 500 count as much as 12 that weigh alike, ...
    """

    value: float
    se: float  # 0 where nothing was clicked, which says nothing: see the interval
    low: float
    high: float
    level: float  # of the interval
    n: int  # decisions
    ess: float  # effective sample size (Σ S_i)²/Σ S_i²: how many decisions count
    support: float  # S̄/N̄, 1 in expectation; far below, the target chooses what is hardly logged
    interval: Literal["Student's", "gamma"] = "Student's"
    few_draws: float = 0.0  # share of Σ S_i with propensities of few draws; 0 if it is not known

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to trust the interval, in words; empty where nothing speaks against it."""
        found = []
        if self.support < ENOUGH_SUPPORT:
            found.append(
                f"low support: the log holds {self.support:.0%} of what the target chooses; "
                "the rest was hardly ever logged, or propensities come from too few draws"
            )
        if self._exceeds_its_support():
            found.append(
                f"support far above 1: items were logged {self.support:.3g} times as often as "
                "their propensities say, so these are too small"
            )
        if self.ess < ENOUGH_DECISIONS:
            found.append(
                f"few decisions: all {self.n:,} count as much as {self.ess:.0f} that weigh alike, "
                f"and an interval is rough below {ENOUGH_DECISIONS}"
            )
        if self.few_draws > 0.1:
            found.append(
                f"few draws: {self.few_draws:.0%} of the estimate rests on propensities of items "
                f"that draws chose less than {ENOUGH_DRAWS} times; log with more draws"
            )
        return tuple(found)

    def _exceeds_its_support(self) -> bool:
        """Whether the ratios add up to more than chance explains."""
        chance = 1 / self.ess - 1 / self.n  # the squared relative standard error of Σ S_i
        error = self.support * math.sqrt(max(chance, 0.0))
        usual = max(1.25, 1 + 3 * error)
        # in expectation it is 1, and so above 20 in at most a twentieth of all logs (Markov)
        return self.support > min(20.0, usual)

    def __str__(self) -> str:
        found = (
            f"{self.value:.4g} ± {self.se:.2g}, between {self.low:.4g} and {self.high:.4g} "
            f"with {100 * self.level:g} % confidence"
        )
        if self.value == self.se == self.low == 0:
            found = f"no clicks, at most {self.high:.4g} with {100 * self.level:g} % confidence"
        basis = (
            f"({self.interval} interval, {self.n:,} decisions worth {self.ess:,.0f}, "
            f"support {self.support:.2f})"
        )
        warnings = [f"\nwarning: {warning}" for warning in self.warnings]
        return f"{found} {basis}{''.join(warnings)}"


class Parts(NamedTuple):
    """What the decisions say about the value of a policy, before R and S are summed over items."""

    M: Array  # (n,) or (1,)
    N: Array  # (n,) or (1,)
    R: Array  # (n, K)
    S: Array  # (n, K)


class Policy(NamedTuple):
    """The value of a policy, or by how much it is worth more, and what each decision says."""

    value: float
    terms: Array  # (n,)
    a: Array  # (n, K)
    ess: float
    support: float
    least: float  # the value if all were clicked that counts against it
    most: float  # the value if all others were clicked

    @property
    def se(self) -> float:
        """The standard error of the value."""
        n = len(self.terms)
        squares = (self.terms - self.value) ** 2
        variance = squares.mean() / (n - 1)
        return float(np.sqrt(variance))


class Bounds(NamedTuple):
    """An interval."""

    low: float
    high: float


def is_clicks(w: Array) -> bool:
    """Whether all weights are 0 or 1.

    >>> import numpy as np
    >>> is_clicks(np.array([[0.0, 1.0]])), is_clicks(np.array([[0.0, 0.5]]))
    (True, False)
    """
    fits = (w == 0) | (w == 1)
    return bool(fits.all())


def estimate(parts: list[Parts], w: Array, *, normalized: bool, level: float) -> Estimate:
    """The value of a policy, or by how much the first of two policies is worth more.

    Args:
        parts: what the decisions say about each policy.
        w: the observed weights (n, K).
        normalized: whether to estimate self-normalized.
        level: of the interval.
    """
    for each in parts:
        _require_matches(each)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        policies = [_policy(each, normalized) for each in parts]
        policy = functools.reduce(_difference, policies)
        se = policy.se
        gamma = is_clicks(w) and (normalized or not _mostly_clicked(policy, w))
        low, high = (_gamma_bounds if gamma else _student_bounds)(policy, w, level)
    n = len(policy.terms)
    if not math.isfinite(high - low + se):
        raise NumericalError(
            "no finite interval: weights or q/p are too large to square, "
            "or one decision outweighs all"
        )
    if se == 0 and (low == high or not gamma):
        raise ParameterError(
            f"all {n} decisions say {policy.value:.4g}, and an interval of no width would not be "
            "true: log more decisions"
        )
    return Estimate(
        policy.value,
        se,
        low,
        high,
        level,
        n,
        policy.ess,
        policy.support,
        "gamma" if gamma else "Student's",
    )


def _require_matches(parts: Parts) -> None:
    """Refuse a log in which the target hardly ever chooses what was logged."""
    logged = np.count_nonzero(parts.S.any(-1))
    if logged < 2:
        raise ParameterError(
            f"the target chooses what was logged in {logged} of {len(parts.S)} decisions: "
            "this log says too little about its value"
        )


def _policy(parts: Parts, normalized: bool) -> Policy:
    """The estimate of the value, self-normalized or not, and its terms."""
    M = parts.M
    N = parts.N
    R = parts.R.sum(-1)
    S = parts.S.sum(-1)
    n = len(S)
    support = S.mean() / N.mean()
    terms = M + R
    value = terms.mean()
    a = parts.S / n
    most = math.inf
    if normalized:
        r = R.mean() / S.mean()
        j = (1 - 1 / n) / (1 - S / S.sum())
        terms = M + r * N + j / support * (R - r * S)
        value = M.mean() + r * N.mean()
        a = a / support
        most = N.mean()
    return Policy(
        value=float(value),
        terms=terms,
        a=a,
        ess=float(S.sum() ** 2 / (S**2).sum()),
        support=float(support),
        least=0.0,
        most=float(most),
    )


def _difference(one: Policy, other: Policy) -> Policy:
    """By how much one policy is worth more than another."""
    return Policy(
        value=one.value - other.value,
        terms=one.terms - other.terms,
        a=one.a - other.a,
        ess=min(one.ess, other.ess),
        support=min(one.support, other.support),
        least=-other.most,
        most=one.most,
    )


def _mostly_clicked(policy: Policy, w: Array) -> bool:
    """Whether more than half of what the estimate rests on was clicked."""
    counts = policy.a != 0
    clicked = (w * counts).sum()
    return bool(clicked > counts.sum() / 2)


def _student_bounds(policy: Policy, w: Array, level: float) -> Bounds:
    """Student's interval, with as many degrees of freedom as decisions count, less one; one degree
    at least.
    """
    df = max(policy.ess - 1, 1.0)
    half = policy.se * float(stdtrit(df, (1 + level) / 2))
    return Bounds(
        policy.value - half,
        policy.value + half,
    )


def _gamma_bounds(policy: Policy, w: Array, level: float) -> Bounds:
    """The gamma interval: of what was clicked, or of what was not if that is less.

    With Σ a w = Σ a + Σ (-a) (1 - w), the one is as good as the other. The variance of the clicks
    is at most Σ_i (Σ_e a w)²; the rest of the standard error is that of the model's predictions,
    which Student's distribution bounds on both sides.
    """
    a = policy.a
    if _mostly_clicked(policy, w):
        a = -a
        w = 1 - w
    gains = _Side.of(np.maximum(a, 0), w)
    losses = _Side.of(np.maximum(-a, 0), w)
    squares = gains.squares + losses.squares
    if squares and not policy.se:  # as if each decision were clicked alike
        return Bounds(policy.value, policy.value)
    # the standard error is of both sides; each has its share in it
    share = min(policy.se**2 / squares, 1.0) if squares else 0.0
    gain_low, gain_high = gains.tails(share, level)
    loss_low, loss_high = losses.tails(share, level)
    of_model = _model_half_width(policy, squares, level)
    low = policy.value - math.hypot(gain_low, loss_high, of_model)
    high = policy.value + math.hypot(gain_high, loss_low, of_model)
    low = min(max(low, policy.least), policy.most, policy.value)
    high = max(min(high, policy.most), policy.least, policy.value)
    return Bounds(low, high)


def _model_half_width(policy: Policy, squares: float, level: float) -> float:
    """Student's half width of the variance that clicks do not explain."""
    excess = max(policy.se**2 - squares, 0.0)
    df = max(policy.ess - 1, 1.0)
    quantile = float(stdtrit(df, (1 + level) / 2))
    return math.sqrt(excess) * quantile


class _Side(NamedTuple):
    """A sum Σ a w of clicks, with weights a >= 0."""

    total: float
    squares: float  # Σ_i (Σ_e a w)²: its variance if whole decisions are Poisson
    click: float  # E a
    square: float  # E a²

    @classmethod
    def of(cls, a: Array, w: Array) -> "_Side":
        clicks = a * w
        whole = a.sum() or 1.0
        return cls(
            total=float(clicks.sum()),
            squares=float((clicks.sum(-1) ** 2).sum()),
            click=float((a**2).sum() / whole),
            square=float((a**3).sum() / whole),
        )

    def tails(self, share: float, level: float) -> tuple[float, float]:
        """How far the bounds lie below and above the sum, if its variance is so many squares."""
        variance = share * self.squares
        low = _gamma_quantile((1 - level) / 2, self.total, variance)
        high = _gamma_quantile(
            (1 + level) / 2,
            self.total + self.click,
            variance + self.square,
        )
        return self.total - low, high - self.total


def _gamma_quantile(level: float, mean: float, variance: float) -> float:
    """A quantile of the gamma distribution with this mean and variance."""
    if mean == 0 or variance == 0:
        return mean
    scale = variance / mean
    return float(scale * gammaincinv(mean / scale, level))

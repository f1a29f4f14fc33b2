"""Paired differences of regret between two learners on the same instances.

Replicate i has the same instance and the same weights for all learners, so that most of what makes
replicates differ cancels in the difference: its interval is far narrower than the intervals of the
two means.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from superarm.arrays import Array
from superarm.errors import ParameterError
from superarm.formatting import plus_minus


class Difference(NamedTuple):
    """A mean paired difference with its interval by Student's t; positive if the learner has more
    regret than the baseline.

    Attributes:
        learner: name of the learner.
        baseline: name of the learner that it is compared with.
        mean: the mean difference over the replicates.
        se: its standard error.
        low: the lower end of the interval.
        high: the upper end of the interval.
        replicates: number of pairs.
        confidence: of the interval.

    >>> from superarm.simulation import Difference
    >>> print(Difference("A", "B", mean=-30.0, se=10.0, low=-52.6, high=-7.4, replicates=10))
    A: 30 ± 10 less regret than B (95 % interval: -53 to -7)
    """

    learner: str
    baseline: str
    mean: float
    se: float
    low: float
    high: float
    replicates: int
    confidence: float = 0.95

    def __str__(self) -> str:
        se = self.se
        comparison = "less" if self.mean < 0 else "more"
        size = plus_minus(abs(self.mean), se)
        low = _format_end(self.low, se)
        high = _format_end(self.high, se)
        percentage = f"{100 * self.confidence:.4g} %"
        interval = f"{percentage} interval: {low} to {high}"
        return f"{self.learner}: {size} {comparison} regret than {self.baseline} ({interval})"


def _format_end(end: float, se: float) -> str:
    """The end of an interval, with as many digits as the mean."""
    text = plus_minus(end, se)
    digits, *_ = text.split(" ")
    return digits


def paired(
    learner: Array,
    baseline: Array,
    *,
    names: tuple[str, str] = ("learner", "baseline"),
    confidence: float = 0.95,
) -> Difference:
    """The mean of learner[i] - baseline[i] over the replicates i, with its interval.

    Args:
        learner: one number per replicate, such as the regret at the end.
        baseline: of the same replicates, in the same order.
        names: of the learner and of the baseline.
        confidence: of the interval, between 0 and 1.

    Returns:
        the mean difference, its standard error, and its interval.

    Raises:
        ParameterError: unless both have the same number of replicates, at least two.

    >>> from superarm.simulation import paired
    >>> difference = paired([3.0, 5.0, 7.0], [1.0, 4.0, 4.0])
    >>> difference.mean, round(difference.low, 2), round(difference.high, 2)
    (2.0, -0.48, 4.48)
    """
    x = np.asarray(learner, dtype=float)
    y = np.asarray(baseline, dtype=float)

    if x.ndim != 1 or x.shape != y.shape:
        raise ParameterError(
            f"paired differences need one number per replicate of both, got the shapes {x.shape} "
            f"and {y.shape}"
        )

    n = len(x)
    if n < 2:
        raise ParameterError(f"an interval needs two replicates or more, got {n}")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be between 0 and 1, got {confidence!r}")

    difference = x - y
    mean = float(difference.mean())
    se = float(difference.std(ddof=1) / np.sqrt(n))

    quantile = float(stdtrit(n - 1, (1 + confidence) / 2))
    low = mean - quantile * se
    high = mean + quantile * se
    return Difference(*names, mean, se, low, high, n, confidence)

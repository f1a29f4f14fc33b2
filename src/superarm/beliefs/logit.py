"""The linear model of log-odds, for clicks: the Laplace approximation, by Newton steps that are
linear updates.

    P(w_k = 1) = p_k = sigmoid(φ_k·θ),   log p(w) = Σ v_k (w_k log p_k + (1 - w_k) log(1 - p_k))

Near θ this is, to second order, the likelihood of weights φ_k·θ + (w_k - p_k)/(p_k (1 - p_k)) under
the linear model with noise variance 1/(p_k (1 - p_k)). So `gaussian.condition` on those is a Newton
step, and at the mode it is the Laplace approximation: mean and curvature of the posterior. Weights
between 0 and 1 are shares: w of v is binomial.

Feedback in many small blocks is approximated many times over, each time at the mode of its day.
With log-odds of a few units, intervals of 90 % then cover 82 to 87 % instead of 89 % in one block.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from superarm import gaussian
from superarm.arrays import (
    Array,
    as_float64,
    log_det,
    log_sigmoid,
    matvec,
    nonzero_rows,
    sigmoid,
    where,
)
from superarm.beliefs.linear import FactoredModel, faded
from superarm.contracts import Feedback, Problem
from superarm.errors import NumericalError, WeightsError
from superarm.gaussian import Factored, Gaussian, condition, log_evidence

MAX_STEPS = 100
TOLERANCE = 1e-9


def condition_logit(
    belief: Factored,
    phi: Array,
    w: Array,
    importance: Array | float = 1.0,
) -> Gaussian:
    """The belief after rows phi (*B, K, d) showed the weights w (*B, K) in [0, 1]: mode and
    curvature of the posterior.

    A row of `importance` v counts v times. The marginal likelihood goes on by Laplace's
    approximation.

    >>> import numpy as np
    >>> from superarm import gaussian
    >>> from superarm.beliefs.logit import condition_logit
    >>> clicked = np.arange(100) < 20
    >>> belief = condition_logit(gaussian.prior(1, lam=10.0), np.ones((100, 1)), clicked)
    >>> 1 / (1 + np.exp(-gaussian.mean(belief))).round(2)
    array([0.2])
    """
    phi = as_float64(phi)
    present = nonzero_rows(phi)
    outside = present & ~((w >= 0) & (w <= 1))
    if outside.any():
        raise WeightsError(
            f"the logit link needs weights in [0, 1], got {w[outside][0]}: rescale them"
        )
    w = where(present, w, 0.0)

    height = functools.partial(_log_posterior, belief, phi, w, importance)
    theta = gaussian.mean(belief)
    for _ in range(MAX_STEPS):
        step = _newton_step(belief, phi, w, importance, theta)
        direction = gaussian.mean(step) - theta
        tolerance = TOLERANCE * (1 + _norm(matvec(step.R, theta)))
        settled = _norm(matvec(step.R, direction)) <= tolerance
        if settled.all():
            return _with_evidence(step, belief, height(theta))
        # an entry of a batch that has settled stays, as it would alone
        theta = where(settled[..., None], theta, _climbed(height, theta, direction))
    raise NumericalError(f"no mode found in {MAX_STEPS} Newton steps: use smaller features, or lam")


def _newton_step(
    belief: Factored,
    phi: Array,
    w: Array,
    importance: Array | float,
    theta: Array,
) -> Gaussian:
    """The belief under the likelihood's second order at θ; its mean is where Newton's step goes."""
    eta = matvec(phi, theta)
    p = sigmoid(eta)
    q = sigmoid(-eta)

    slope = w * q - (1 - w) * p  # w - p, without cancellation
    if not (p * q > 0).all():
        raise NumericalError(
            f"log-odds of {abs(eta).max():.3g} are out of range: use smaller features, or lam"
        )
    return condition(belief, phi, eta + slope / (p * q), (p * q) ** -0.5, importance)


def _norm(x: Array) -> Array:
    length: Array = (x**2).sum(-1) ** 0.5
    return length


def _log_posterior(
    belief: Factored,
    phi: Array,
    w: Array,
    importance: Array | float,
    theta: Array,
) -> Array:
    """The log posterior density of θ, up to what does not depend on it: (*B,)."""
    eta = matvec(phi, theta)
    R = belief.factor[..., :-1, :-1]
    z = belief.factor[..., :-1, -1]
    log_p = w * log_sigmoid(eta) + (1 - w) * log_sigmoid(-eta)
    likelihood = (importance * nonzero_rows(phi) * log_p).sum(-1)
    height: Array = likelihood - ((matvec(R, theta) - z) ** 2).sum(-1) / 2
    return height


def _climbed(height: Callable[[Array], Array], theta: Array, direction: Array) -> Array:
    """θ + direction, or half of it, or a quarter, ...: the first that is no lower.

    As the posterior is concave, there is one.
    """
    least = height(theta)
    least = least - 1e-12 * (1 + abs(least))

    for _ in range(MAX_STEPS):
        too_far = ~(height(theta + direction) >= least)
        if not too_far.any():
            break
        direction = where(too_far[..., None], direction / 2, direction)
    return theta + direction


def _with_evidence(step: Gaussian, before: Factored, height: Array) -> Gaussian:
    """The step, with the marginal likelihood by Laplace.

    log p(w) = height of the mode + log det R before - log det R after, on top of what it was before
    """
    gain = height + log_det(before.factor[..., :-1, :-1]) - log_det(step.R)
    missing = log_evidence(before) + gain - log_evidence(step)
    return step._replace(log_scale=step.log_scale + missing)


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
        """Bayes' rule by Laplace's approximation."""
        past = faded(belief, self.lam, self.forgetting)
        return condition_logit(past, feedback.rows, feedback.w, feedback.importance)

    def response(self, score: Array) -> Array:
        """The probability of a click: probabilities add up over a set, log-odds do not."""
        return sigmoid(score)

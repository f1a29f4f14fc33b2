"""Clicks of a log that is larger than memory, by Newton's steps: around log-odds φ·θ, a click is a
Gaussian observation of them, and each step reads the whole log.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import Array, full, log_det, merge_column_statistics, qr_stack
from superarm.beliefs.coefficient_prior import INTERCEPT_STD, CoefficientPrior
from superarm.beliefs.logit import MIN_OUTCOMES, EmpiricalBayesLogit
from superarm.cluster import pieces
from superarm.cluster.pieces import Views
from superarm.cluster.reading import Log
from superarm.errors import NumericalError
from superarm.gaussian import Gaussian, RowFactor

STEPS = 50
"""Newton's steps at most."""
CLOSE = 1e-6
"""The step, in standard deviations, after which θ stays as it is: the next would be its square."""
LEAST = 1e-6
"""The least share of a step that is tried."""
ROUNDS = 6
"""How often another λ may be tried after θ was found."""
NEAR = 0.01
"""The relative step of λ that is not worth another search for θ; and the loss of log marginal
likelihood that is none."""


class Clicks(NamedTuple):
    """What is known of clicks once θ is found."""

    views: Views
    theta: Array  # (d,)
    gram: Array  # (d, d) Σ φφᵀ
    lam: float


def fit_clicks(model: Any, log: Log) -> Clicks:
    """θ of the largest posterior density, at the λ that is given or that the clicks ask for."""
    nothing = np.zeros(len(log.columns.features))
    views = log.read(pieces.read_views, pieces.merged_views, nothing)
    R = views.data[:-1, :-1]
    gram = 4 * R.T @ R  # at θ = 0, p(1-p) is a quarter
    start = Clicks(views, nothing, gram, math.nan)
    prior, _ = pieces.without_catalogue(model, len(nothing))
    lam = float(model.hyperparameters(prior)["lam"])
    first = _climbed(model, log, start, lam)
    few = min(views.clicked, views.rows - views.clicked) < MIN_OUTCOMES
    return first if few or "lam" in model.fixed else _at_best(model, log, first)


def _at_best(model: Any, log: Log, here: Clicks) -> Clicks:
    """θ at the λ that the views around it ask for.

    Where features tell clicks apart without an error, the marginal likelihood grows with λ until
    all outcomes are certain. Views of those say next to nothing, and ask for the λ of no data. So
    a λ is taken only if the clicks are no less likely there, if enough views are uncertain, each
    worth at most p(1-p) = 1/4, and if they ask for a λ on the same side of where it was.
    """
    wanted = _wanted(model, here)
    for _ in range(ROUNDS):
        step = wanted - here.lam
        if abs(step) <= NEAR * here.lam:
            break
        there = _climbed(model, log, here, wanted)
        next_wanted = _wanted(model, there)
        as_likely = _log_evidence(model, there) >= _log_evidence(model, here) - NEAR
        same_side = (next_wanted - here.lam) * step > 0
        uncertain = 4 * there.views.formed >= MIN_OUTCOMES
        if as_likely and uncertain and same_side:
            here = there
            wanted = next_wanted
        else:
            wanted = math.sqrt(here.lam * wanted)
    return here


def _wanted(model: Any, of: Clicks) -> float:
    """The λ of the largest marginal likelihood of the views."""
    start, _ = pieces.without_catalogue(model, len(of.theta))
    belief = with_clicks(model, start, of)
    rows = RowFactor(belief.observation_factor, belief.n_rows)
    return float(model.refit_to_groups(belief, [rows]).lam)


def _log_evidence(model: Any, of: Clicks) -> float:
    """Laplace's approximation of the log marginal likelihood of the clicks."""
    stds = _stds(model, of.views.columns, of.lam)
    prior = gaussian.prior(len(stds), stds)
    factor = qr_stack(prior.factor, of.views.data)
    widths = prior.log_normalizer - log_det(factor[:-1, :-1])
    return _height(stds, of.theta, of.views) + float(widths)


def _stds(model: Any, columns: Array, lam: float) -> Array:
    """The prior stds of θ."""
    prior = CoefficientPrior.from_columns(columns, isotropic="lam" in model.fixed)
    return prior.std(np.asarray(lam), np.asarray(INTERCEPT_STD))


def _height(stds: Array, theta: Array, views: Views) -> float:
    """The log posterior density of θ, but for what does not depend on it."""
    return views.log_likelihood - float(((theta / stds) ** 2).sum()) / 2


def _climbed(model: Any, log: Log, of: Clicks, lam: float) -> Clicks:
    """θ of the largest posterior density at λ from where it is, by Newton's steps, and the views
    around it.
    """
    views, theta = of.views, of.theta
    stds = _stds(model, views.columns, lam)
    prior = gaussian.prior(len(stds), stds)
    for _ in range(STEPS):
        after = Gaussian(qr_stack(prior.factor, views.data), prior.log_normalizer)
        step = gaussian.mean(after) - theta
        size = float(np.linalg.norm(after.R @ step))
        if size < CLOSE:
            theta = theta + step
            break
        theta, views = _uphill(log, stds, theta, views, step)
    return Clicks(views, theta, of.gram, lam)


def _uphill(log: Log, stds: Array, theta: Array, views: Views, step: Array) -> tuple[Array, Views]:
    """θ after the step, or after so small a share of it that the density does not fall; and the
    views around it.
    """
    best = _height(stds, theta, views)
    share = 1.0
    while share >= LEAST:
        there = theta + share * step
        seen = log.read(pieces.read_views, pieces.merged_views, there)
        if _height(stds, there, seen) >= best - 1e-9 * abs(best):
            return there, seen
        share /= 2
    raise NumericalError("clicks on these features cannot be climbed: rescale them")


def with_clicks(model: Any, start: Any, of: Clicks) -> Any:
    """The belief after all clicks: the Gaussian around θ at the λ that was found."""
    views = of.views
    if not isinstance(start, EmpiricalBayesLogit):
        factor = qr_stack(start.factor, views.data)
        # Laplace's approximation of the log marginal likelihood
        height = _height(_stds(model, views.columns, of.lam), of.theta, views)
        start_det = log_det(start.factor[:-1, :-1])
        return Gaussian(factor, start_det + height + factor[-1, -1] ** 2 / 2)
    belief = start._replace(
        observation_factor=views.data,
        n_rows=np.asarray(views.rows),
        column_statistics=views.columns,  # θ was found without a catalogue
        n_views=np.asarray(views.rows),
        n_clicks=np.asarray(views.clicked),
        gram=of.gram,
        target_precision=np.asarray(views.formed),
        log_normalizer=start.log_normalizer - views.rows * math.log(math.sqrt(2 * math.pi)),
        t=start.t + 1,
    )
    rebuilt = model.rebuild(belief, full((), of.lam), start.sigma)
    columns = merge_column_statistics(start.column_statistics, views.columns)
    return rebuilt._replace(column_statistics=columns)

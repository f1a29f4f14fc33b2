"""How likely each position of a slate is looked at, from logged slates: the position-based model by
EM.

symbol    code       shape
n_ek      shown      (items, K)    how often item e was shown in position k
c_ek      clicked    (items, K)    how often it was clicked there
p_k       p          (K,)          P(position k is looked at)
α_e       alpha      (items,)      P(item e is clicked | it is looked at)
μ_ek      mu         (items, K)    α_e p_k, the click rate
"""

from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.errors import ItemsError, NumericalError, ParameterError
from superarm.slates.feedback import as_clicks


class Examination(NamedTuple):
    """How likely each position is looked at, beside the one that is most likely.

    Its `p` is what `position_based`, `examined_weights` and `Slate` take.

    Attributes:
        p: per position, how likely it is looked at, 1 for the most examined one, (K,).
        se: the standard errors, 0 for that position, (K,).
    """

    p: Array  # (K,) p_k, 1 for the most examined position
    se: Array  # (K,) their standard errors, 0 for that position


ROUNDS = 100_000
"""Steps of EM, at most; rare clicks need many, as one that is missing says little."""
CLOSE = 1e-3
"""How far from the maximum EM may stop, in standard errors."""
STILL = 1e-9
"""Or how little a step may change: where an item was always clicked, the maximum is at α = 1, and
the score is not 0."""


def fit_examination(A: Any, clicks: Any) -> Examination:
    """Examination probabilities by maximum likelihood from logged slates, each position relative to
    the best one: the position-based model by EM.

    A click rate is p_k α_e, so that logs tell p up to a factor: the most examined position gets 1,
    and α_e then is the click rate of item e there. Where items stay in their positions, p and α
    cannot be told apart: the log must show items in several positions, best at random, and is
    refused if positions are not linked by such items. Attraction is a parameter per item, taken as
    the same in all slates: randomize the order also where it depends on users. Items that are shown
    a few times each and clicked mostly bias p upwards, by about a standard error.

    Args:
        A: items by position (n, K), as whole numbers; -1 pads.
        clicks: 1 where they were clicked, 0 where not, (n, K).

    Returns:
        the probabilities with their standard errors.

    Raises:
        ItemsError: if items are no table of whole numbers.
        ParameterError: if a position was never clicked, or positions are not linked by items that
            were shown in several.
        WeightsError: if clicks are not 0 and 1.

    >>> import numpy as np
    >>> from superarm import slates
    >>> rng = np.random.default_rng(0)
    >>> A = np.argsort(rng.random((5000, 20)))[:, :3]  # at random
    >>> attraction = np.linspace(0.1, 0.6, 20)
    >>> clicks = rng.random((5000, 3)) < attraction[A] * [1.0, 0.6, 0.3]
    >>> found = slates.fit_examination(A, clicks)
    >>> found.p.round(2), found.se.round(2)
    (array([1.  , 0.59, 0.3 ]), array([0.  , 0.02, 0.01]))
    """
    shown, clicked = _counts(A, clicks)
    _require_linked(shown, clicked)
    p = np.full(shown.shape[1], 0.5)
    alpha = np.full(shown.shape[0], 0.5)
    for step in range(ROUNDS):
        before = p
        p, alpha = _em_step(shown, clicked, p, alpha)
        if step % 20 == 0:
            fit = _Fit.at(shown, clicked, p, alpha)
            still = np.abs(p / before - 1).max() < STILL
            if still or fit.distance < CLOSE:
                return fit.examination(p)
    raise NumericalError(f"examination did not settle in {ROUNDS} steps of EM: log more clicks")


def _counts(A: Any, clicks: Any) -> tuple[Array, Array]:
    """How often each item was shown in each position, and clicked there: (items, K).

    Items without a click are left out: α = 0 explains them, whatever p is.
    """
    A = np.asarray(A)
    if A.ndim != 2 or A.dtype.kind not in "iu":
        raise ItemsError(
            f"slates must be whole numbers (n, K), -1 pads, got {A.dtype} of shape {A.shape}"
        )
    clicks = as_clicks(A, clicks)
    slate, position = np.nonzero(A >= 0)
    items, e = np.unique(A[slate, position], return_inverse=True)
    shown = np.zeros((len(items), A.shape[1]))
    clicked = np.zeros_like(shown)
    np.add.at(shown, (e, position), 1.0)
    np.add.at(clicked, (e, position), clicks[slate, position])
    tells = clicked.any(1)
    return shown[tells], clicked[tells]


def _require_linked(shown: Array, clicked: Array) -> None:
    """Refuse positions that are never clicked, or share no items with the first, also not by way of
    others.
    """
    K = shown.shape[1]
    dark = np.flatnonzero(clicked.sum(0) == 0)
    if dark.size:
        raise ParameterError(
            f"position {dark[0]} was never clicked: its examination cannot be told from this log"
        )
    linked = (shown > 0).T @ (shown > 0)
    for _ in range(K):
        linked = linked @ linked
    apart = np.flatnonzero(~linked[0])
    if apart.size:
        raise ParameterError(
            f"no item with a click links positions 0 and {apart[0]}: their examination cannot be "
            "told from attraction; show items in several positions"
        )


def _em_step(shown: Array, clicked: Array, p: Array, alpha: Array) -> tuple[Array, Array]:
    """The next p (K,) and α (items,), from how often positions were looked at and items attracted
    by what is believed now.
    """
    mu = np.outer(alpha, p)
    missed = (shown - clicked) / np.maximum(1 - mu, TINY)
    looked_at = clicked + missed * (p - mu)
    attracted = clicked + missed * (alpha[:, None] - mu)
    return (
        looked_at.sum(0) / shown.sum(0),
        attracted.sum(1) / shown.sum(1),
    )


TINY = 1e-6
"""How far below 1 click rates are kept where they divide."""


class _Fit(NamedTuple):
    """The likelihood around p and α, in terms of log p beside that of the best position."""

    best: int  # the position
    covariance: Array  # (K-1, K-1) of log p of the others
    distance: float  # to the maximum, in standard errors

    @classmethod
    def at(cls, shown: Array, clicked: Array, p: Array, alpha: Array) -> "_Fit":
        """By the score and the information of log μ = log α + log p, with log α eliminated."""
        # what was clicked n times of n has a rate near 1, not at 1, where all would be known
        mu = np.minimum(np.outer(alpha, p), 1 - 0.5 / (shown + 1))
        odds = mu / (1 - mu)
        score = clicked - (shown - clicked) * odds
        information = shown * odds
        share = information / information.sum(1, keepdims=True)
        score_p = score.sum(0) - score.sum(1) @ share
        information_p = np.diag(information.sum(0)) - information.T @ share
        best = int(p.argmax())
        others = np.arange(len(p)) != best
        score_p = score_p[others]
        information_p = information_p[others][:, others]
        covariance = np.linalg.inv(information_p)
        distance = score_p @ covariance @ score_p
        return cls(
            best,
            covariance,
            float(np.sqrt(max(distance, 0.0))),
        )

    def examination(self, p: Array) -> Examination:
        """P and its standard errors, relative to the best position."""
        relative = p / p[self.best]
        se_log = np.sqrt(self.covariance.diagonal())
        se_log = np.insert(se_log, self.best, 0.0)
        return Examination(
            relative,
            relative * se_log,
        )

"""What is expected of items, by what is believed."""

from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.beliefs.independent import BetaPosterior, Counts
from superarm.contracts import Learner, Problem


def expected(learner: Learner, belief: Any, problem: Problem) -> Array:
    """The weight that is expected of each item, (L,).

    >>> import numpy as np
    >>> from superarm import CombTS, Problem, TopK
    >>> from superarm.service.dashboard.expected import expected
    >>> learner = CombTS(alpha=3.0, beta=1.0)
    >>> problem = Problem(np.eye(2), TopK(1))
    >>> expected(learner, learner.model.prior(problem), problem)
    array([0.75, 0.75])
    """
    model: Any = learner.model
    mean = getattr(model, "mean", None)
    if mean is None:
        return _by_item(belief)
    return responded(learner, mean(belief, problem))


def responded(learner: Learner, scores: Array) -> Array:
    """The weights that scores stand for."""
    response = getattr(learner.model, "inverse_link", None)
    return scores if response is None else np.asarray(response(scores))


def _by_item(belief: Any) -> Array:
    """The means of learners that know of each item alone; 0 where nothing was observed."""
    if isinstance(belief, BetaPosterior):
        return np.asarray(belief.alpha / (belief.alpha + belief.beta))
    if isinstance(belief, Counts):
        return np.asarray(belief.total / np.where(belief.n > 0, belief.n, 1.0))
    raise TypeError(f"nothing is known of what {type(belief).__name__} expects")

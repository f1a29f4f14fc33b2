"""What is expected of items, by what is believed."""

from typing import Any

import numpy as np

from superarm.arrays import Array
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
    return responded(learner, learner.model.mean(belief, problem))


def responded(learner: Learner, scores: Array) -> Array:
    """The weights that scores stand for."""
    return np.asarray(learner.model.inverse_link(scores))

"""One decision: the oracle's answer to the learner's weights, without holding all of them where
there are many.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from superarm.arrays import Array, Rng, is_tensor, to_numpy
from superarm.beliefs.mixed import Mixed
from superarm.checks import as_features
from superarm.contracts import Learner, Problem
from superarm.errors import FeaturesError
from superarm.oracles import TopK
from superarm.oracles.base import Masked, as_oracle

LARGE = 2**18
"""Items above which the best k are looked for in one pass over parts of the catalogue."""
PART = 2**17
"""Items in a part."""


def checked(problem: Problem) -> Problem:
    """The problem with its features validated, and its oracle wrapped if it is a plain function."""
    return Problem(as_features(problem.Phi), as_oracle(problem.oracle))


def decide(learner: Learner[Any], belief: Any, problem: Problem, rng: Rng) -> Array:
    """The set to choose: ORACLE(weights), (*B, K).

    Learners that say `by_row` weigh each item by its feature row alone, so a part of the catalogue
    can be weighed on its own: with the same generator it meets the same θ.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import decide
    >>> problem, learner = Problem(np.eye(4), TopK(2)), CombLinTS(lam=1.0, sigma=1.0)
    >>> decide(learner, learner.init(problem), problem, np.random.default_rng(0))
    array([2, 0])
    """
    masked = problem.oracle if isinstance(problem.oracle, Masked) else None
    oracle, available = (masked.oracle, masked.available) if masked else (problem.oracle, None)
    # of the class itself: a subclass may weigh items otherwise
    by_row = vars(type(learner)).get("by_row", False) and not problem.batch
    if isinstance(oracle, TopK) and by_row and problem.L > LARGE and not is_tensor(problem.Phi):
        return oracle.of_parts(_parts(learner, belief, problem, available, rng))
    return problem.oracle(learner.weights(belief, problem, rng))


def in_context(learner: Learner[Any], belief: Any, problem: Problem, features: Any) -> Problem:
    """The problem with the features of one call; as it is if they are None.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import in_context
    >>> problem, learner = Problem(np.eye(4), TopK(2)), CombLinTS(lam=1.0, sigma=1.0)
    >>> today = in_context(learner, learner.init(problem), problem, 2 * np.eye(4))
    >>> bool((today.Phi == 2 * problem.Phi).all())
    True
    """
    if features is None:
        return problem
    if isinstance(belief, Mixed):
        raise FeaturesError(
            f"{type(learner).__name__} learns how items deviate from what their features say: "
            "the features must stay the same"
        )
    if is_tensor(features) and not is_tensor(problem.Phi):
        features = to_numpy(features)
    return problem._replace(Phi=as_features(features, problem.Phi.shape))


def _parts(
    learner: Learner[Any], belief: Any, problem: Problem, mask: Array | None, rng: Any
) -> Iterator[Array]:
    """The weights, a part of the catalogue at a time."""
    state = rng.bit_generator.state
    for start in range(0, problem.L, PART):
        rows = slice(start, start + PART)
        rng.bit_generator.state = state
        w = learner.weights(belief, problem._replace(Phi=problem.Phi[rows]), rng)
        yield w if mask is None else np.where(mask[rows], w, -np.inf)

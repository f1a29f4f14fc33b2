"""One decision: the oracle's answer to the learner's weights."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from superarm.arrays import Array, Features, Rng, is_sparse, is_tensor, to_numpy
from superarm.checks import as_features
from superarm.contracts import Learner, Problem, defines_both, features_stay
from superarm.errors import FeaturesError
from superarm.oracles import Slate, TopK
from superarm.oracles.base import Masked, as_oracle

LARGE = 2**18
"""Items above which the best k are looked for in one pass over parts of the catalogue."""
PART = 2**17
"""Items in a part."""


def checked(problem: Problem) -> Problem:
    """The problem with its features validated, and its oracle wrapped if it is a plain function."""
    return Problem(as_features(problem.Phi), as_oracle(problem.oracle))


def decide(learner: Learner, belief: Any, problem: Problem, rng: Rng) -> Array:
    """The set to choose: ORACLE(weights), (*B, K).

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import decide
    >>> learner = CombLinTS(lam=1.0, sigma=1.0)
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> decide(learner, learner.model.prior(problem), problem, np.random.default_rng(0))
    array([2, 0])
    """
    if problem.L > LARGE and defines_both(learner, "weights", "row_weights"):
        found = _decide_by_parts(learner, belief, problem, rng)
        if found is not None:
            return found

    return problem.oracle(learner.weights(belief, problem, rng))


def _decide_by_parts(learner: Any, belief: Any, problem: Problem, rng: Rng) -> Array | None:
    """The best k of many items in one pass that never holds all weights; None if it must."""
    oracle = problem.oracle
    available = None
    if isinstance(oracle, Masked):
        available = oracle.available
        oracle = oracle.oracle
    if not isinstance(oracle, Slate | TopK) or problem.batch:
        return None
    if is_tensor(problem.Phi) or is_sparse(problem.Phi):  # of which a part would be a copy
        return None
    return oracle.of_parts(_parts(learner.row_weights(belief, rng), problem.Phi, available))


def _parts(
    weights: Callable[[Features], Array], Phi: Features, available: Array | None
) -> Iterator[Array]:
    """The weights of one part of the catalogue after the other."""
    for start in range(0, Phi.shape[0], PART):
        rows = slice(start, start + PART)
        w = weights(Phi[rows])
        yield w if available is None else np.where(available[rows], w, -np.inf)


def in_context(learner: Learner, problem: Problem, features: Any) -> Problem:
    """The problem with the features of one call; as it is if they are None.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import in_context
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> today = in_context(CombLinTS(), problem, 2 * np.eye(4))
    >>> bool((today.Phi == 2 * problem.Phi).all())
    True
    """
    if features is None:
        return problem
    if features_stay(learner.model):
        raise FeaturesError(
            f"{type(learner).__name__} learns how items deviate from what their features say: "
            "the features must stay the same, unless it has contexts=True"
        )
    if is_tensor(features) and not is_tensor(problem.Phi):
        features = to_numpy(features)
    return problem._replace(Phi=as_features(features, problem.Phi.shape))

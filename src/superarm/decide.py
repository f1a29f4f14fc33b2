"""One decision: the oracle's answer to the learner's weights."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    Product,
    Rng,
    all_finite,
    broadcast,
    is_product,
    is_sparse,
    is_tensor,
    to_numpy,
    unbroadcast,
)
from superarm.arrays.compiled import one_blas_thread
from superarm.checks import as_features, as_numbers, require_unmasked
from superarm.contracts import Feedback, Learner, Oracle, Problem, defines_both, features_stay
from superarm.errors import FeaturesError, SuperarmError, WeightsError
from superarm.oracles.base import BaseOracle, Masked, as_oracle
from superarm.oracles.parts import Candidates

LARGE = 2**18
"""Items above which the best k are looked for in one pass over parts of the catalogue."""
PART = 2**17
"""Items in a part."""
USERS = 2**21
"""Numbers to hold for the users that are decided for at a time."""
SCORES = 20
"""Numbers to hold for each score: the score itself, and what it is made from."""
PLAIN_SCORES = 4
"""The same where a score is a function of the item's features alone."""


def validated(problem: Problem) -> Problem:
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
    if is_large(learner, problem):
        found = _decide_by_parts(learner, belief, problem, rng)
        if found is not None:
            return found

    return problem.oracle(learner.scores(belief, problem, rng))


def is_large(learner: Learner, problem: Problem) -> bool:
    """Whether there are so many items that they are weighed in parts, if the learner can."""
    return problem.L > LARGE and defines_both(learner, "scores", "row_scores")


def decide_each(learner: Learner, belief: Any, problem: Problem, rng: Rng) -> Array:
    """What to choose for each of n users, who share one belief but no draw from it: (n, K).

    Args:
        learner: any learner whose `weights` take batches.
        belief: a single one, whose fields per item are those of all users.
        problem: features of shape (n, L, d), or a `Product` with contexts of n users, as from
            `with_features_of_users`. Dense ones are checked here, where they are read. A `Masked`
            oracle has a mask (L,) for all, or (n, L).
        rng: one generator, or n: decision i then is what it would be alone, up to rounding.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import decide_each, with_features_of_users
    >>> learner = CombLinTS(lam=1.0, sigma=1.0)
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> belief = learner.model.prior(problem)
    >>> users = with_features_of_users(learner, problem, [2 * np.eye(4), np.eye(4), np.eye(4)])
    >>> decide_each(learner, belief, users, np.random.default_rng(0)).shape
    (3, 2)
    """
    n = problem.batch[0]
    most = _users_per_part(learner, problem.Phi)
    parts = math.ceil(n / most)
    found = []
    _let_memory_be_reused()
    with one_blas_thread():
        for i in range(parts):  # of about one size: BLAS takes long for few users
            part = slice(i * n // parts, (i + 1) * n // parts)
            some = Problem(_features_of(problem.Phi, part), _oracle_of(problem.oracle, part))
            generators = rng[part] if isinstance(rng, Sequence) else rng
            found.append(_decide_some(learner, belief, some, generators))
    return _stacked(found)


@functools.cache  # once in a process
def _let_memory_be_reused() -> None:
    """Free an array larger than those that come: from then on glibc keeps the memory of smaller
    ones for the next part of the users, where it would be mapped anew, page by page.
    """
    np.empty(USERS)


def _decide_some(learner: Learner, belief: Any, problem: Problem, rng: Rng) -> Array:
    """The sets for as many users as are looked at together."""
    n = problem.batch[0]
    weights = learner.scores(broadcast_belief(belief, n), problem, rng)
    if weights.shape != (n, problem.L):
        raise WeightsError(
            f"{type(learner).__name__}.scores must return scores of shape {(n, problem.L)} for "
            f"{n} users, got {weights.shape}"
        )
    if not (_show_in_weights(learner.model) and all_finite(weights)):
        as_features(problem.Phi)  # which names the first that is not finite
    return problem.oracle(weights)


def broadcast_belief(belief: Any, n: int) -> Any:
    """One belief as that of each of n users, who share it: no field is copied."""
    return type(belief)(*(broadcast(np.asarray(field), n) for field in belief))


def _show_in_weights(model: Any) -> bool:
    """Whether features that are not finite make weights that are not: so it is, unless the model
    ignores features or its response is bounded.
    """
    response = getattr(model, "inverse_link", None)
    if response is None or not model.uses_features:
        return False
    return not all_finite(response(np.array([np.inf])))


def _users_per_part(learner: Learner, Phi: Features) -> int:
    """How many users to decide for at a time: where they share features only scores are held for
    each.
    """
    L, d = Phi.shape[-2:]
    each = L * d
    if is_product(Phi) or unbroadcast(Phi) is not None:
        by_rows = defines_both(learner, "scores", "row_scores")
        each = L * (PLAIN_SCORES if by_rows else SCORES)
    return max(1, USERS // each)


def _features_of(Phi: Features, users: slice) -> Features:
    """The features of some of the users; what they share is repeated, so that it is told to be the
    same.
    """
    part = Phi[users]
    if not is_product(part) or part.left.ndim > 2 or is_sparse(part.left):
        return part
    return Product(broadcast(part.left, part.shape[0]), part.right)


def _oracle_of(oracle: Oracle, users: slice) -> Oracle:
    """The oracle of some of the users."""
    if isinstance(oracle, Masked) and oracle.available.ndim > 1:
        return replace(oracle, available=oracle.available[users])
    return oracle


def _stacked(found: list[Array]) -> Array:
    """Sets (m, k) of all parts in one array (n, K), -1 pads."""
    K = max(A.shape[-1] for A in found)
    return np.concatenate([_widened(A, K) for A in found])


def _widened(A: Array, K: int) -> Array:
    more = K - A.shape[-1]
    if not more:
        return A
    return np.pad(A, ((0, 0), (0, more)), constant_values=-1)


def _decide_by_parts(learner: Any, belief: Any, problem: Problem, rng: Rng) -> Array | None:
    """The best set of many items in one pass that never holds all weights; None if it must."""
    oracle = problem.oracle
    available = None
    if isinstance(oracle, Masked):
        available = oracle.available
        oracle = oracle.oracle
    if not isinstance(oracle, BaseOracle) or problem.batch:
        return None
    if is_tensor(problem.Phi) or is_sparse(problem.Phi):  # of which a part would be a copy
        return None
    if oracle.part(slice(0, 1)) is None:
        return None
    weights = learner.row_scores(belief, rng)
    return oracle.merged(_candidates(oracle, weights, problem.Phi, available))


def _candidates(
    oracle: BaseOracle,
    weights: Callable[[Features], Array],
    Phi: Features,
    available: Array | None,
) -> Iterator[Candidates]:
    """Those of one part of the catalogue after the other."""
    L = Phi.shape[0]
    for start in range(0, L, PART):
        rows = slice(start, min(start + PART, L))
        w = weights(Phi[rows])
        if available is not None:
            w = np.where(available[rows], w, -np.inf)
        part = oracle.part(rows)
        if part is not None:
            yield part.candidates(w)


def warm_up(learner: Learner, belief: Any, problem: Problem) -> None:
    """Compile what the first decision and the first update need: both are made, and thrown away.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import warm_up
    >>> learner = CombLinTS()
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> warm_up(learner, learner.model.prior(problem), problem)
    """
    A = _some_set(learner, belief, problem)
    w = np.linspace(0.0, 1.0, len(A))
    episodes = 1 + int(np.max(getattr(belief, "t", 0)))  # twice as many: scales are chosen anew
    feedback = Feedback.of(problem, A, w)._replace(episodes=episodes)
    learner.model.learn(belief, problem, feedback)


def _some_set(learner: Learner, belief: Any, problem: Problem) -> Array:
    """A set that may be chosen, without padding; the first item if there is none."""
    try:
        A = decide(learner, belief, problem, np.random.default_rng(0))
    except SuperarmError:  # as where this draw has no feasible set; what it compiled stays so
        A = np.array([-1])
    chosen = A[A >= 0]
    return chosen if len(chosen) else np.array([0])


def with_features(learner: Learner, problem: Problem, features: Any) -> Problem:
    """The problem with the features of one call; as it is if they are None.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import with_features
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> today = with_features(CombLinTS(), problem, 2 * np.eye(4))
    >>> bool((today.Phi == 2 * problem.Phi).all())
    True
    """
    if features is None:
        return problem
    _require_contexts(learner)
    if is_tensor(features) and not is_tensor(problem.Phi):
        features = to_numpy(features)
    return problem._replace(Phi=as_features(features, problem.Phi.shape))


def with_features_of_users(learner: Learner, problem: Problem, features: Any) -> Problem:
    """The problem with the features of n users, (n, L, d) or a `Product` of as many contexts.

    Whether dense features are finite is checked by `decide_each`, in the one pass that reads them.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import with_features_of_users
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> with_features_of_users(CombLinTS(), problem, np.ones((3, 4, 4))).batch
    (3,)
    """
    _require_contexts(learner)
    Phi = as_features(features) if is_product(features) else _as_floats(features)
    if len(Phi.shape) != 3 or Phi.shape[0] < 1 or Phi.shape[1:] != problem.Phi.shape:
        raise FeaturesError(
            f"the features of n users must have shape (n, {problem.L}, {problem.d}) with n at "
            f"least 1, got {Phi.shape}"
        )
    return problem._replace(Phi=Phi)


def _as_floats(features: Any) -> Array:
    """Features as an array of float32 or float64, used as it is where it is one."""
    try:
        given = to_numpy(require_unmasked(features))
        return given if given.dtype in (np.float32, np.float64) else as_numbers(given)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error


def _require_contexts(learner: Learner) -> None:
    """Refuse features that differ from call to call where the model cannot learn from them."""
    if features_stay(learner.model):
        raise FeaturesError(
            f"{type(learner).__name__} learns how items deviate from what their features say: "
            "the features must stay the same, unless it has contexts=True"
        )

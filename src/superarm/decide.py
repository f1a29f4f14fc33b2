"""One decision: the oracle's answer to the learner's scores."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    Product,
    Rng,
    Stream,
    all_finite,
    broadcast,
    is_product,
    is_sparse,
    is_tensor,
    to_numpy,
    unbroadcast,
)
from superarm.arrays.compiled import one_blas_thread
from superarm.base_learner import as_learner
from superarm.checks import as_features, as_numbers, require_unmasked
from superarm.contracts import Feedback, Learner, Model, Problem
from superarm.errors import FeaturesError, SuperarmError, WeightsError
from superarm.oracles.base import as_oracle

MAX_ITEMS_AT_ONCE = 2**18
"""Items above which a catalogue is scored in chunks."""
NUMBERS_PER_CHUNK = 2**21
"""Numbers to hold for the users of one chunk."""
NUMBERS_PER_SCORE = 20
"""Numbers to hold for each score: the score itself, and its terms."""
NUMBERS_PER_ROW_SCORE = 4
"""Numbers to hold for each score that depends on the item's feature row alone."""
FLOATS = (np.float32, np.float64)
UNLOCKED: AbstractContextManager[Any] = nullcontext()
"""The lock of a generator that no other thread uses: none."""


def validated(problem: Problem) -> Problem:
    """The problem with its features checked, and its oracle wrapped if it is a plain function."""
    Phi = as_features(problem.Phi)
    oracle = as_oracle(problem.oracle)
    return Problem(Phi, oracle)


def decide(
    learner: Learner,
    belief: Any,
    problem: Problem,
    rng: Rng,
    lock: AbstractContextManager[Any] = UNLOCKED,
) -> Array:
    """The set to choose: ORACLE(scores), (*B, K).

    A generator that other threads use has a lock, which is not held while the oracle solves.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import decide
    >>> learner = CombLinTS(lam=1.0, sigma=1.0)
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> decide(learner, learner.model.prior(problem), problem, np.random.default_rng(0))
    array([2, 0])
    """
    if scores_in_chunks(learner, problem):
        with lock:
            row_scores = as_learner(learner).row_scores(belief, rng)
            return as_oracle(problem.oracle).solve_by_parts(row_scores, problem.Phi)
    with lock:
        scores = learner.scores(belief, problem, rng)
    return problem.oracle(scores)


def scores_in_chunks(learner: Learner, problem: Problem) -> bool:
    """True if there are so many items that their scores are never held all at once."""
    if problem.L <= MAX_ITEMS_AT_ONCE or problem.batch or not as_learner(learner).scores_rows:
        return False
    Phi = problem.Phi
    if is_tensor(Phi) or is_sparse(Phi):  # chunks of these would be copies
        return False
    return as_oracle(problem.oracle).solves_by_parts


def decide_each(learner: Learner, belief: Any, problem: Problem, rng: Rng) -> Array:
    """The sets to choose for n users, who share one belief but no draw from it: (n, K).

    Args:
        learner: any learner whose `scores` take batches.
        belief: a single belief, without a batch.
        problem: features of shape (n, L, d), or a `Product` with contexts of n users, as from
            `with_features_of_users`. Dense ones are checked here, where they are read. A `Masked`
            oracle has a mask (L,) for all, or (n, L).
        rng: one generator, or n, or a `Stream` of n keys: decision i then is what it would be
            alone, up to rounding.

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
    n_chunks = math.ceil(n / _users_per_chunk(learner, problem.Phi))
    oracle = as_oracle(problem.oracle)
    sets = []
    with one_blas_thread():
        for i in range(n_chunks):  # of about equal size, as BLAS is slow for few users
            start = i * n // n_chunks
            stop = (i + 1) * n // n_chunks
            users = slice(start, stop)
            Phi = _features_of(problem.Phi, users)
            chunk = Problem(Phi, oracle.of_user(users))
            rngs = rng if isinstance(rng, np.random.Generator) else rng[users]
            A = _decide_chunk(learner, belief, chunk, rngs)
            sets.append(A)
    return _stacked(sets)


def _decide_chunk(learner: Learner, belief: Any, problem: Problem, rng: Rng) -> Array:
    """The sets of a chunk of users, who are scored together."""
    n = problem.batch[0]
    shape = (n, problem.L)
    beliefs = broadcast_belief(belief, n)
    scores = learner.scores(beliefs, problem, rng)
    if scores.shape != shape:
        raise WeightsError(
            f"{type(learner).__name__}.scores must return scores of shape {shape} for "
            f"{n} users, got {scores.shape}"
        )
    if not (_shows_bad_features(learner.model) and all_finite(scores)):
        as_features(problem.Phi)  # an error names the first number that is not finite
    return problem.oracle(scores)


def random_numbers(learner: Learner, seeds: int | Sequence[int] | Array) -> Rng:
    """Random numbers for one decision with a seed, or for one with each of many seeds.

    A `Stream` samples for all decisions at once. Learners that do not declare `takes_streams` get
    NumPy's generators, and may use any of their methods.

    >>> from superarm import CombLinTS
    >>> from superarm.decide import random_numbers
    >>> type(random_numbers(CombLinTS(), [7, 8])).__name__
    'Stream'
    """
    if as_learner(learner).takes_streams:
        return Stream(seeds)
    if isinstance(seeds, int):
        return np.random.default_rng(seeds)
    return [np.random.default_rng(int(seed)) for seed in seeds]


def broadcast_belief(belief: Any, n: int) -> Any:
    """The belief broadcast to n users, without copying its fields."""
    fields = map(np.asarray, belief)
    shared = [broadcast(field, n) for field in fields]
    kind = type(belief)
    return kind(*shared)


def _shows_bad_features(model: Model) -> bool:
    """True if features that are not finite show in the scores, as the link is unbounded."""
    if not model.uses_features:
        return False
    limit = model.inverse_link(np.array([np.inf]))
    return not all_finite(limit)


def _users_per_chunk(learner: Learner, Phi: Features) -> int:
    """Number of users whose decisions fit into memory at a time."""
    L, d = Phi.shape[-2:]
    numbers = L * d
    if is_product(Phi) or unbroadcast(Phi) is not None:
        scores_rows = as_learner(learner).scores_rows
        per_score = NUMBERS_PER_ROW_SCORE if scores_rows else NUMBERS_PER_SCORE
        numbers = L * per_score
    return max(1, NUMBERS_PER_CHUNK // numbers)


def _features_of(Phi: Features, users: slice) -> Features:
    """The features of some users; rows that all users share are broadcast, for `unbroadcast`."""
    features = Phi[users]
    if not is_product(features) or features.left.ndim > 2 or is_sparse(features.left):
        return features
    n = features.shape[0]
    left = broadcast(features.left, n)
    return Product(left, features.right)


def _stacked(sets: list[Array]) -> Array:
    """Sets (m, k) of all chunks in one array (n, K), -1 pads."""
    sizes = [A.shape[-1] for A in sets]
    K = max(sizes)
    padded = [_padded_to(A, K) for A in sets]
    return np.concatenate(padded)


def _padded_to(A: Array, K: int) -> Array:
    missing = K - A.shape[-1]
    if not missing:
        return A
    widths = ((0, 0), (0, missing))
    return np.pad(A, widths, constant_values=-1)


def compile_first_call(learner: Learner, belief: Any, problem: Problem) -> None:
    """Compile the kernels of a first decision and a first update, by making and discarding both.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.decide import compile_first_call
    >>> learner = CombLinTS()
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> compile_first_call(learner, learner.model.prior(problem), problem)
    """
    A = _any_feasible_set(learner, belief, problem)
    w = np.linspace(0.0, 1.0, len(A))
    t = belief._asdict().get("t", 0)
    # twice as many episodes, so that hyperparameters are estimated again
    episodes = 1 + int(np.max(t))
    feedback = Feedback.of(problem, A, w)._replace(episodes=episodes)
    learner.model.learn(belief, problem, feedback)


def _any_feasible_set(learner: Learner, belief: Any, problem: Problem) -> Array:
    """A feasible set without padding; the first item if there is none."""
    rng = random_numbers(learner, 0)
    try:
        A = decide(learner, belief, problem, rng)
    except SuperarmError:  # such as for scores without a feasible set; its kernels are compiled
        A = np.array([-1])
    chosen = A[A >= 0]
    if len(chosen) == 0:
        return np.array([0])
    return chosen


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
    Phi = as_features(features, problem.Phi.shape)
    return problem._replace(Phi=Phi)


def with_features_of_users(learner: Learner, problem: Problem, features: Any) -> Problem:
    """The problem with the features of n users, (n, L, d) or a `Product` of as many contexts.

    `decide_each` checks that dense features are finite, in the one pass that reads them.

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
    """Features as an array of float32 or float64, without a copy if they are one."""
    try:
        unmasked = require_unmasked(features)
        array = to_numpy(unmasked)
        return array if array.dtype in FLOATS else as_numbers(array)
    except ValueError as error:
        raise FeaturesError(f"features must be numbers, one row per item ({error})") from error


def _require_contexts(learner: Learner) -> None:
    """Refuse features that differ from call to call where the model cannot learn from them."""
    if learner.model.fixed_features:
        raise FeaturesError(
            f"{type(learner).__name__} learns how items deviate from what their features say: "
            "the features must stay the same, unless it has contexts=True"
        )

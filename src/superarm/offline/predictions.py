"""What a learner predicts of each logged decision, after it learned from the others."""

from typing import Any

import numpy as np
from scipy.linalg import block_diag

from superarm.arrays import (
    Array,
    ColumnSelection,
    Features,
    Product,
    as_float64,
    is_product,
    is_selection,
    is_sparse,
    sparse_arrays,
    take_rows,
)
from superarm.checks import require_count
from superarm.contracts import Feedback, Learner, Oracle, Problem, require_learner
from superarm.errors import FeaturesError, ParameterError, UnsupportedError
from superarm.offline.intervals import is_clicks
from superarm.offline.log import Log
from superarm.oracles import TopK
from superarm.oracles.base import Masked, as_oracle


def problem_of(log: Log, i: int, oracle: Oracle) -> Problem:
    """The problem of decision i."""
    if log.available is not None:
        oracle = Masked(as_oracle(oracle), log.available[i])
    return Problem(log.Phi[i], oracle)


def predicted(log: Log, q: Array, learner: Learner, folds: int, past: bool) -> tuple[Array, Array]:
    """M_i (n,), and ŵ_i of the logged items (n, K), by a learner that knows other decisions."""
    require_count(folds=folds)
    if not 2 <= folds <= log.n:
        raise ParameterError(
            f"folds must lie between 2 and the number of decisions, {log.n}; got {folds}"
        )
    require_learner(learner)
    model = learner.model
    if not model.uses_features:
        raise FeaturesError(
            f"{type(learner).__name__} learns nothing from features: "
            "take a linear model, as Greedy()"
        )
    rows = _logged_rows(log)
    adds_constant = is_clicks(log.w) and not _has_constant(rows[log.A >= 0])
    problem = problem_of(log, 0, TopK(1))
    if adds_constant:
        problem = problem._replace(Phi=_with_constant(problem.Phi))
        ones = log.A[..., None] >= 0  # none where A pads
        rows = np.concatenate([ones, rows], axis=-1)
    fold = np.arange(log.n) * folds // log.n
    q = np.broadcast_to(q, (log.n, log.L))
    direct = np.zeros(log.n)
    of_logged = np.zeros(log.A.shape)
    for k in range(folds):
        known = fold < k if past else fold != k
        belief = model.prior(problem)
        w = log.w[known].ravel()
        knows_more_than_zeros = bool(w.any())
        if knows_more_than_zeros:
            nowhere = np.full(len(w), -1)
            feedback = Feedback(nowhere, rows[known].reshape(-1, problem.d), w)
            belief = model.learn(belief, problem, feedback)
        Phi: Features | None = None
        for i in np.flatnonzero(fold == k):
            if Phi is not log.Phi[i]:
                Phi = log.Phi[i]
                seen = _with_constant(Phi) if adds_constant else Phi
                w_hat = np.zeros(log.L)
                if knows_more_than_zeros:
                    w_hat = _expected_weights(learner, belief, problem._replace(Phi=seen))
            direct[i] = q[i] @ w_hat
            of_logged[i] = w_hat[log.A[i]]
    return direct, np.where(log.A >= 0, of_logged, 0.0)


def _expected_weights(learner: Learner, belief: Any, problem: Problem) -> Array:
    """The expected weight of each item, (L,). A prediction samples nothing, unless the model has no
    mean: then it is what the learner scores.
    """
    model = learner.model
    try:
        mean = model.mean(belief, problem)
    except UnsupportedError:
        return learner.scores(belief, problem, np.random.default_rng(0))
    return model.inverse_link(mean)


def _logged_rows(log: Log) -> Array:
    """The features of the logged items, zero where A pads: (n, K, d)."""
    shared = log.Phi[0]
    if all(Phi is shared for Phi in log.Phi):
        flat = as_float64(take_rows(shared, log.A.reshape(-1)))
        rows: Array = flat.reshape(*log.A.shape, -1)
        return rows
    return np.stack([as_float64(take_rows(log.Phi[i], log.A[i])) for i in range(log.n)])


def _has_constant(rows: Array) -> bool:
    """Whether a feature is the same, and not 0, in all rows (n, d)."""
    first = rows[0]
    same = (rows == first).all(axis=0)
    constant = same & (first != 0)
    return bool(constant.any())


def _with_constant(Phi: Features) -> Features:
    """The features with one more before the others, which is 1 for all items."""
    if not is_product(Phi):
        return _with_ones(Phi)
    left = _with_ones(Phi.left)
    B = Phi.right
    if not is_selection(B):
        return Product(left, block_diag(1.0, B))
    source = np.append(0, B.source + 1)
    scale = np.append(1.0, B.scale)
    right = ColumnSelection(B.n_columns + 1, source, scale)
    return Product(left, right)


def _with_ones(rows: Array) -> Array:
    if is_sparse(rows):
        wider: Array = sparse_arrays().with_ones(rows)
        return wider
    one_each = (len(rows), 1)
    ones = np.ones(one_each, rows.dtype)
    return np.concatenate([ones, rows], axis=-1)

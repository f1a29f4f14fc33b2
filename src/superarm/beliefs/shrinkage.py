"""Shrinkage of item effects: their posterior given θ, and observations of items as rows for θ.

    η_e = φ_e·θ + δ_e,   θ ~ N(0, λ²I),   δ_e ~ N(0, τ²),   noise N(0, σ²)

The joint posterior of θ and all δ needs no L x L matrix. Integrating δ out leaves a Gaussian belief
about θ, and given θ the item effects are independent. An item needs its count n_e, the sum s_e of
its weights and, where features change from call to call, the mean φ̄_e of its feature rows:

    k_e = σ²/(σ² + n_e τ²)                                 the shrinkage factor
    δ_e | θ ~ N(τ² s_e/(σ² + n_e τ²) - (1 - k_e) φ̄_e·θ,    the offset, less what features explain
                τ² k_e)

An observation w of item e, given the earlier ones, is therefore

    w - offset = (φ_e - (1 - k_e) φ̄_e)·θ + noise of variance σ² + τ² k_e

which is a row for `gaussian.condition`. With features that stay the same the row is k_e φ_e.
"""

import math
from typing import NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    add_at,
    as_float64,
    backend,
    diagonal,
    full,
    is_tensor,
    log,
    matvec,
    nonzero_rows,
    qr_stack,
    solve_rows,
    take,
    take_rows,
    where,
    with_column,
)
from superarm.arrays.compiled import compiled
from superarm.beliefs.item_statistics import (
    RandomEffects,
    index_per_feature,
    mean_features,
    mean_features_of,
)
from superarm.beliefs.likelihoods import Likelihood
from superarm.contracts import Feedback
from superarm.gaussian import RowFactor

# --- item effects given θ -------------------------------------------------------------------------


class Shrinkage(NamedTuple):
    """Shrinkage of item effects: the shrinkage factor k, the offset and the variance."""

    share: Array  # (*B, K) k
    offset: Array  # (*B, K)
    variance: Array  # (*B, K) of δ_e given θ


def shrinkage(belief: RandomEffects, n: Array, weight_sums: Array) -> Shrinkage:
    """Shrinkage of the effects of items with these counts and sums."""
    sigma2 = belief.sigma[..., None] ** 2
    tau2 = belief.tau[..., None] ** 2
    total = sigma2 + n * tau2
    share = sigma2 / total
    ratio = tau2 / sigma2
    offset = weight_sums * (share * ratio)
    variance = tau2 * share
    return Shrinkage(share, offset, variance)


@compiled
def fill_moments(
    mean: Array,
    variance: Array,
    linear: Array,
    predicted: Array,
    n: Array,
    weight_sums: Array,
    sigma: Array,
    tau: Array,
    is_sum: bool,
) -> None:
    """Fill in mean and variance of the linear predictors η_e given θ.

    `linear` is φ_e·θ, and `predicted` is φ̄_e·θ for the observations of an item, or with `is_sum`
    n_e φ̄_e·θ.

    For 100 to 6,000 items 1.7 to 2.5 times as fast as array operations.
    """
    for b in range(len(mean)):
        sigma2 = sigma[b] ** 2
        tau2 = tau[b] ** 2
        ratio = tau2 / sigma2
        for e in range(mean.shape[1]):
            n_e = n[b, e]
            if n_e == 0:
                mean[b, e] = linear[b, e]
                variance[b, e] = tau2
                continue
            share = 1 / (1 + n_e * ratio)
            offset = weight_sums[b, e] * share * ratio
            prediction = predicted[b, e]
            if is_sum:
                prediction /= n_e
            explained = (1 - share) * prediction
            mean[b, e] = linear[b, e] + offset - explained
            variance[b, e] = tau2 * share


def effect_covariance(variance: Array, A: Array) -> Array:
    """Covariance of the effects of observed items, given their variances: (*B, K, K).

    Observations of an item share its effect; rows that belong to no item have one each.
    """
    has_item = A >= 0
    is_same = A[..., None] == A[..., None, :]
    is_shared = has_item[..., None] & is_same
    shared = where(is_shared, variance[..., None], 0.0)
    own_variance = where(has_item, 0.0, variance)
    separate = diagonal(own_variance)
    return shared + separate


class ResidualRows(NamedTuple):
    """Observations of items, given the earlier ones: w - offset = rows·θ + δ + noise."""

    rows: Array  # (*B, K, d)
    offset: Array  # (*B, K)
    variance: Array  # (*B, K) of δ


def residual_rows(belief: RandomEffects, A: Array, rows: Array) -> ResidualRows:
    """Observations of these items with these features, as rows for θ."""
    n = take(belief.n, A)
    weight_sums = take(belief.weight_sums, A)
    effect = shrinkage(belief, n, weight_sums)
    residual = residual_features(belief, A, rows, effect.share)
    return ResidualRows(residual, effect.offset, effect.variance)


def residual_features(belief: RandomEffects, A: Array, rows: Array, share: Array) -> Array:
    """φ - (1 - k) φ̄, where k is the shrinkage factor: (*B, K, d)."""
    if not belief.feature_sums.shape[-2]:
        return share[..., None] * rows
    mean = mean_features_of(belief, A)
    weight = 1 - share
    residual: Array = rows - weight[..., None] * mean
    return residual


def item_targets(belief: RandomEffects, feedback: Feedback, likelihood: Likelihood) -> Feedback:
    """Gaussian targets that stand for feedback about items under this belief."""
    if likelihood.is_gaussian:
        return feedback
    is_row = nonzero_rows(feedback.rows) | (feedback.A >= 0)
    residuals = residual_rows(belief, feedback.A, as_float64(feedback.rows))
    linear = matvec(residuals.rows, gaussian.mean(belief))
    X = solve_rows(belief.factor, residuals.rows)
    targets = likelihood.targets(
        linear + residuals.offset,
        X @ X.mT + effect_covariance(residuals.variance, feedback.A),
        feedback,
        is_row,
    )
    return targets.feedback


# --- one more observation of each item ------------------------------------------------------------


class ItemUpdates(NamedTuple):
    """Counts and sums after observations of items, and each observation given the earlier ones:
    w - offset = k φ·θ + noise, where features stay the same.
    """

    n: Array  # (*B, L)
    weight_sums: Array  # (*B, L)
    shrinkage: Array  # (*B, K) k
    offset: Array  # (*B, K)
    noise_std: Array  # (*B, K)
    between_weight: Array  # (*B, K) n v/(n + v)
    distance_to_mean: Array  # (*B, K) of w from the mean of its item
    log_importance: Array  # (*B, K) 0 for padding


def item_updates(belief: RandomEffects, A: Array, w: Array, v: Array) -> ItemUpdates:
    """Updates by items A (*B, K), where -1 is padding, with weights w and importance v."""
    if is_tensor(A):
        return _item_updates_of_tensors(belief, A, w, v)
    *batch, K = A.shape
    L = belief.n.shape[-1]
    n = belief.n.copy()
    weight_sums = belief.weight_sums.copy()
    out = np.zeros((6, *batch, K))
    _update_items(
        out.reshape(6, -1, K),
        n.reshape(-1, L),
        weight_sums.reshape(-1, L),
        A.reshape(-1, K),
        w.reshape(-1, K),
        v.reshape(-1, K),
        belief.sigma.reshape(-1),
        belief.tau.reshape(-1),
    )
    return ItemUpdates(n, weight_sums, *out)


@compiled
def _update_items(
    out: Array,
    n: Array,
    weight_sums: Array,
    A: Array,
    w: Array,
    v: Array,
    sigma: Array,
    tau: Array,
) -> None:
    """Add observations one after the other, and fill in the other fields of `ItemUpdates`.

    Eight to twelve times as fast as array operations, which take longer than the rest of an update.
    """
    for b in range(len(A)):
        sigma2 = sigma[b] ** 2
        tau2 = tau[b] ** 2
        for k in range(A.shape[1]):
            e = A[b, k]
            if e < 0:
                out[2, b, k] = 1.0
                continue
            n_e = n[b, e]
            sum_e = weight_sums[b, e]
            v_k = v[b, k]
            w_k = w[b, k]
            share = sigma2 / (sigma2 + n_e * tau2)
            noise_variance = sigma2 / v_k + tau2 * share
            new_n = n_e + v_k
            out[0, b, k] = share
            out[1, b, k] = sum_e * share * (tau2 / sigma2)
            out[2, b, k] = math.sqrt(noise_variance)
            if n_e > 0:
                out[3, b, k] = n_e * v_k / new_n
                out[4, b, k] = w_k - sum_e / n_e
            out[5, b, k] = math.log(v_k)
            n[b, e] = new_n
            weight_sums[b, e] = sum_e + v_k * w_k


def _item_updates_of_tensors(belief: RandomEffects, A: Array, w: Array, v: Array) -> ItemUpdates:
    has_item = A >= 0
    v = where(has_item, v, 0.0)
    w = where(has_item, w, 0.0)
    n = take(belief.n, A)
    weight_sums = take(belief.weight_sums, A)
    effect = shrinkage(belief, n, weight_sums)
    sigma2 = belief.sigma[..., None] ** 2
    safe_v = where(has_item, v, 1.0)
    noise_variance = sigma2 / safe_v + effect.variance
    mean = weight_sums / where(n > 0, n, 1.0)
    return ItemUpdates(
        n=add_at(belief.n, A, v),
        weight_sums=add_at(belief.weight_sums, A, v * w),
        shrinkage=where(has_item, effect.share, 0.0),
        offset=effect.offset,
        noise_std=noise_variance**0.5,
        between_weight=n * v / where(has_item, n + v, 1.0),
        distance_to_mean=w - mean,
        log_importance=log(safe_v),
    )


# --- observations that repeat items ---------------------------------------------------------------


def has_repeats(A: Array) -> bool:
    """True if an item occurs more than once in a row of A (*B, K), where -1 is padding."""
    ordered = backend(A).sort(A)
    item = ordered[..., 1:]
    is_repeat = item == ordered[..., :-1]
    has_item = item >= 0
    return bool((is_repeat & has_item).any())


class GroupedFeedback(NamedTuple):
    """Feedback split into the means of items, and rows around them."""

    means: Feedback  # each item once, with the importance of all its rows
    rows: Array  # (*B, K, d) √v (φ - φ̄)
    w: Array  # (*B, K) √v (w - w̄)
    n_residuals: Array  # (*B,) rows beyond one per item


def group_by_item(feedback: Feedback) -> GroupedFeedback:
    """Split repeated observations into item means and residuals.

    The mean is as precise as all rows together, and shares the item effect; the residuals tell of θ
    and of the noise alone.
    """
    order = backend(feedback.A).argsort(feedback.A, stable=True)
    A = take(feedback.A, order)
    rows = as_float64(take_rows(feedback.rows, order))
    has_item = A >= 0
    importance = full(A.shape, feedback.importance, feedback.w)
    v = where(has_item, take(importance, order), 0.0)
    w = where(has_item, take(feedback.w, order), 0.0)

    is_first, group = _group_numbers(A)
    items = add_at(full(A.shape, -1, A), group, is_first * (A + 1))
    zeros = full(v.shape, 0.0, v)
    n = add_at(zeros, group, v)
    safe_n = where(n > 0, n, 1.0)
    mean_w = add_at(zeros, group, v * w) / safe_n
    feature_sums = _group_sums(v[..., None] * rows, group)
    phi = mean_features(feature_sums, n)
    means = feedback._replace(A=items, rows=phi, w=mean_w, importance=safe_n)

    root = v**0.5
    phi_distance = rows - take_rows(phi, group)
    w_distance = w - take(mean_w, group)
    n_means = (items >= 0).sum(-1)
    return GroupedFeedback(
        means,
        rows=root[..., None] * phi_distance,
        w=root * w_distance,
        n_residuals=has_item.sum(-1) - n_means,
    )


def _group_numbers(A: Array) -> tuple[Array, Array]:
    """First members of groups of equal items in sorted A, as 0 and 1, and the group of each."""
    is_first = full(A.shape, 1, A)
    item = A[..., 1:]
    previous = A[..., :-1]
    is_first[..., 1:] = item != previous
    group = is_first.cumsum(-1) - 1
    return is_first, group


def _group_sums(rows: Array, group: Array) -> Array:
    """Sums of rows by their group: (*B, K, d), (*B, K) -> (*B, d, K)."""
    columns = rows.mT
    sums = full(columns.shape, 0.0, rows)
    index = index_per_feature(sums, group)
    return add_at(sums, index, columns)


def learn_within_items(belief: RandomEffects, grouped: GroupedFeedback) -> RandomEffects:
    """Learn from the rows around the means of items, once the means are learned."""
    rows = grouped.rows
    if not belief.feature_sums.shape[-2]:  # features stay the same: what differs is rounding
        rows = 0 * rows
    joined = with_column(rows, grouped.w, 1.0)
    residuals = RowFactor(joined, grouped.n_residuals)
    after = gaussian.condition_on_factor(belief, residuals, belief.sigma)
    return belief._replace(
        factor=after.factor,
        log_normalizer=after.log_normalizer,
        residual_factor=qr_stack(belief.residual_factor, joined),
        n_residuals=belief.n_residuals + grouped.n_residuals,
    )


def learn_residuals(belief: RandomEffects, feedback: Feedback) -> RandomEffects:
    """Learn from residual sums of squares, once the means of n observations are learned.

    They have n - 1 degrees of freedom, and tell of the noise alone.
    """
    has_item = feedback.A >= 0
    n_residuals = where(has_item, feedback.n_observations - 1.0, 0.0).sum(-1)
    residual_ss = where(has_item, feedback.residual_ss, 0.0).sum(-1)
    empty = 0 * belief.residual_factor
    residuals = RowFactor(gaussian.add_residual(empty, residual_ss), n_residuals)
    after = gaussian.condition_on_factor(belief, residuals, belief.sigma)
    return belief._replace(
        factor=after.factor,
        log_normalizer=after.log_normalizer,
        residual_factor=gaussian.add_residual(belief.residual_factor, residual_ss),
        n_residuals=belief.n_residuals + n_residuals,
    )

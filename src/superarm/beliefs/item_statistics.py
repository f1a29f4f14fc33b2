"""Statistics per item of the random-effects model: counts, sums and mean rows.

The equations are in `beliefs.shrinkage`.
"""

from typing import NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    as_float64,
    as_like,
    qr_stack,
    take,
    take_rows,
    to_numpy,
    where,
)
from superarm.arrays.namespace import backend
from superarm.contracts import Feedback
from superarm.gaussian import RowFactor


class RandomEffects(NamedTuple):
    """Posterior of θ, statistics per item, and the hyperparameters.

    Rows of importance v count v times. The mean row of an item is [φ̄ w̄].
    """

    factor: Array  # (*B, d+1, d+1) as in Gaussian, with the item effects integrated out
    log_normalizer: Array  # (*B,) as in Gaussian, less ½ Σ log v
    n: Array  # (*B, L) Σ v
    weight_sums: Array  # (*B, L) Σ v w
    feature_sums: Array  # (*B, d, L) Σ v φ in contexts, else (*B, 0, L)
    residual_factor: Array  # (*B, d+1, d+1) of all rows [φ w] less the mean rows of their items
    n_residuals: Array  # (*B,) rows behind it
    unknown_item_factor: Array  # (*B, d+1, d+1) of rows [φ w] of items outside the catalogue
    n_unknown_rows: Array  # (*B,) rows behind it
    column_statistics: Array  # (*B, 4, d) of the rows and the catalogue
    prior_std: Array  # (*B, d) of θ
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    tau: Array  # (*B,)
    t: Array  # (*B,) int, episodes


# --- mean rows ------------------------------------------------------------------------------------


def mean_features(feature_sums: Array, n: Array) -> Array:
    """φ̄ of items from Σ v φ (*B, d, K) and Σ v (*B, K): (*B, K, d), zero where n is."""
    safe_n = where(n > 0, n, 1.0)
    means: Array = feature_sums / safe_n[..., None, :]
    return means.mT


def mean_features_of(belief: RandomEffects, A: Array) -> Array:
    """φ̄ of these items: (*B, K) -> (*B, K, d)."""
    index = index_per_feature(belief.feature_sums, A)
    feature_sums = take(belief.feature_sums, index)
    n = take(belief.n, A)
    return mean_features(feature_sums, n)


def index_per_feature(feature_sums: Array, A: Array) -> Array:
    """Items repeated for each feature: (*B, d, L), (*B, K) -> (*B, d, K)."""
    *leading, _ = feature_sums.shape
    K = A.shape[-1]
    shape = (*leading, K)
    xp = backend(A)
    return xp.broadcast_to(A[..., None, :], shape)


class ItemMeans(NamedTuple):
    """Counts and mean rows of the items with observations."""

    n: Array  # (E,)
    rows: Array  # (E, d+1) [φ̄ w̄]


def item_means(belief: RandomEffects, Phi: Features) -> ItemMeans:
    """Counts and mean rows of all items that a single belief has observations of."""
    items = np.flatnonzero(belief.n)
    rows = mean_rows(belief, Phi, items)
    return ItemMeans(belief.n[items], rows)


def mean_rows(belief: RandomEffects, Phi: Features, items: Array) -> Array:
    """[φ̄ w̄] of items that a single belief has observations of."""
    n = belief.n[items]
    if len(belief.feature_sums):
        phi = mean_features(belief.feature_sums[:, items], n)
    else:
        rows = take_rows(Phi, as_like(Phi, items))
        phi = as_float64(to_numpy(rows))
    w = belief.weight_sums[items] / n
    return np.column_stack([phi, w])


def rms_weight(belief: RandomEffects, items: ItemMeans) -> float:
    """Root mean square of the mean weights of a single belief, each item counted by its rows."""
    mean_w = items.rows[:, -1]
    unknown_w = belief.unknown_item_factor[:, -1]
    known_ss = (items.n * mean_w**2).sum()
    sum_of_squares = known_ss + (unknown_w**2).sum()
    if sum_of_squares == 0:
        return 0.0
    mean_square = sum_of_squares / (items.n.sum() + belief.n_unknown_rows)
    return float(mean_square**0.5)


def mean_differences(belief: RandomEffects, other: RandomEffects) -> Array:
    """Differences between the mean rows of two beliefs, as rows [φ w] of `residual_factor`."""
    n = where(belief.n > 0, belief.n, 1.0)
    m = where(other.n > 0, other.n, 1.0)
    precision = belief.n * other.n / (n + m)
    weight = precision**0.5
    D = belief.residual_factor.shape[-1]
    rows = np.zeros((*weight.shape, D))
    w = belief.weight_sums / n
    other_w = other.weight_sums / m
    rows[..., -1] = weight * (w - other_w)
    if belief.feature_sums.shape[-2]:
        phi = mean_features(belief.feature_sums, belief.n)
        other_phi = mean_features(other.feature_sums, other.n)
        distance = phi - other_phi
        rows[..., :-1] = weight[..., None] * distance
    return rows


# --- items outside the catalogue ------------------------------------------------------------------


def learn_unknown_items(belief: RandomEffects, feedback: Feedback) -> RandomEffects:
    """Learn from rows of items outside the catalogue, each with an effect of its own.

    Their variance is σ²/v + τ², where a row of importance 1 has σ² + τ². A mean of n such rows is n
    times as precise.
    """
    sigma2 = belief.sigma[..., None] ** 2
    tau2 = belief.tau[..., None] ** 2
    n = feedback.n_observations
    variance = sigma2 * n / feedback.importance + tau2
    importance = n * (sigma2 + tau2) / variance
    weighted = feedback._replace(importance=importance)
    unit_variance = belief.sigma**2 + belief.tau**2
    std = unit_variance**0.5
    past = RowFactor(
        belief.unknown_item_factor,
        belief.n_unknown_rows,
    )
    after, rows = gaussian.condition_and_append(belief, past, weighted, std)
    return belief._replace(
        factor=after.factor,
        log_normalizer=after.log_normalizer - rows.half_log_v,
        unknown_item_factor=rows.factor,
        n_unknown_rows=rows.n,
    )


def drop_items(belief: RandomEffects, Phi: Features, items: Array) -> RandomEffects:
    """A single belief without the effects of these items; what they said about θ stays.

    For later searches of hyperparameters the mean of each becomes a row of an unknown item: of
    variance τ² + σ²/n, where such rows have σ² + τ². Rows around the means stay.
    """
    items = items[belief.n[items] > 0]
    if not len(items):
        return belief
    rows = mean_rows(belief, Phi, items)
    sigma2 = belief.sigma**2
    tau2 = belief.tau**2
    variance = tau2 + sigma2 / belief.n[items]
    importance = (sigma2 + tau2) / variance
    past = RowFactor(
        belief.unknown_item_factor,
        belief.n_unknown_rows,
    )
    phi = rows[:, :-1]
    w = rows[:, -1]
    unknown = gaussian.append_rows(past, phi, w, importance)
    return belief._replace(
        n_residuals=belief.n_residuals - len(items),
        unknown_item_factor=unknown.factor,
        n_unknown_rows=unknown.n,
    )


# --- less evidence, and more ----------------------------------------------------------------------


def discount_statistics(belief: RandomEffects, keep: float) -> RandomEffects:
    """The statistics of a belief counted `keep` times; items of next to none are forgotten."""
    n = keep * belief.n
    remains = n > gaussian.MIN_KEEP
    root = keep**0.5
    return belief._replace(
        n=where(remains, n, 0.0),
        weight_sums=where(remains, keep * belief.weight_sums, 0.0),
        feature_sums=where(remains, keep * belief.feature_sums, 0.0),
        residual_factor=root * belief.residual_factor,
        n_residuals=keep * belief.n_residuals,
        unknown_item_factor=root * belief.unknown_item_factor,
        n_unknown_rows=keep * belief.n_unknown_rows,
    )


def merge_statistics(belief: RandomEffects, other: RandomEffects) -> RandomEffects:
    """The statistics of two beliefs about one catalogue, but for those of columns."""
    residual_factor = qr_stack(belief.residual_factor, other.residual_factor)
    differences = mean_differences(belief, other)
    return belief._replace(
        n=belief.n + other.n,
        weight_sums=belief.weight_sums + other.weight_sums,
        feature_sums=belief.feature_sums + other.feature_sums,
        residual_factor=qr_stack(residual_factor, differences),
        n_residuals=belief.n_residuals + other.n_residuals,
        unknown_item_factor=qr_stack(belief.unknown_item_factor, other.unknown_item_factor),
        n_unknown_rows=belief.n_unknown_rows + other.n_unknown_rows,
        t=belief.t + other.t,
    )

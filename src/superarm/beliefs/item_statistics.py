"""What is known of items that deviate from what their features say.

    w̄(e) = φ_e·θ + δ_e,   θ ~ N(0, λ²I),   δ_e ~ N(0, τ²),   noise N(0, σ²)

The joint posterior over θ and all δ needs no L x L matrix. Integrating δ out leaves a Gaussian
belief about θ, and given θ the deviations are independent. An item needs its count n_e, the sum s_e
of its weights and, where features change from call to call, the mean φ̄_e of its feature rows:

    δ_e | θ ~ N(pull_e - (1 - keep_e) φ̄_e·θ, τ² keep_e),   keep_e = σ²/(σ² + n_e τ²)
    w̄(e) | θ = φ_e·θ + δ_e,                                pull_e = τ² s_e/(σ² + n_e τ²)

An observation w of item e, given the earlier ones, is therefore

    w - pull_e = (φ_e - (1 - keep_e) φ̄_e)·θ + noise of variance σ² + τ² keep_e

which is a row for `gaussian.condition`. With features that stay the same the row is keep_e φ_e.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    add_at,
    as_float64,
    as_like,
    diagonal,
    full,
    is_tensor,
    log,
    qr_stack,
    take,
    take_rows,
    to_numpy,
    where,
    with_column,
)
from superarm.arrays.compiled import compiled
from superarm.arrays.namespace import backend
from superarm.contracts import Feedback
from superarm.gaussian import RowFactor


class RandomEffects(NamedTuple):
    """The belief about θ, what is known of each item, and the scales."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian, with the deviations integrated out
    log_scale: Array  # (*B,) as in Gaussian, less ½ Σ log v over rows of importance v
    n: Array  # (*B, L) Σ v
    total: Array  # (*B, L) Σ v w
    past: Array  # (*B, d, L) Σ v φ in contexts, else (*B, 0, L)
    within: Array  # (*B, d+1, d+1) the factor of all rows [φ w] less the means of their items
    observed: Array  # (*B,) how many rows those are
    data: Array  # (*B, d+1, d+1) the factor of rows [φ w] that belong to none of the items
    rows: Array  # (*B,) how many those are
    column_statistics: Array  # (*B, 4, d) of the rows and the catalogue
    prior_std: Array  # (*B, d) of θ
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    tau: Array  # (*B,)
    t: Array  # (*B,) int, episodes


class Shares(NamedTuple):
    """What is left to the features of each item, what its own feedback says, and what is open."""

    keep: Array  # (*B, K)
    pull: Array  # (*B, K)
    variance: Array  # (*B, K) of w̄(e) given θ


def shares(belief: RandomEffects, n: Array, total: Array) -> Shares:
    """For items with these counts and sums."""
    sigma2 = belief.sigma[..., None] ** 2
    tau2 = belief.tau[..., None] ** 2
    keep = sigma2 / (sigma2 + n * tau2)
    return Shares(keep, total * (keep * (tau2 / sigma2)), tau2 * keep)


def effect_covariance(variance: Array, A: Array) -> Array:
    """Covariance of the effects of observed items, given their variances: (*B, K, K).

    Observations of an item share its effect; rows that belong to no item have one each.
    """
    own = A >= 0
    same = own[..., None] & (A[..., None] == A[..., None, :])
    return where(same, variance[..., None], 0.0) + diagonal(where(own, 0.0, variance))


class Rows(NamedTuple):
    """What observations of items say, given the earlier ones: w - pull = rows·θ + δ + noise."""

    rows: Array  # (*B, K, d)
    pull: Array  # (*B, K)
    variance: Array  # (*B, K) of δ


class Counted(NamedTuple):
    """Observations w of items, given the earlier ones: w - pull = keep φ·θ + noise, or what it is
    in contexts; and what is known of the items after them.
    """

    n: Array  # (*B, L)
    total: Array  # (*B, L)
    keep: Array  # (*B, K)
    pull: Array  # (*B, K)
    noise: Array  # (*B, K) its std
    between: Array  # (*B, K) n v/(n + v)
    apart: Array  # (*B, K) what w is away from the mean of its item
    log_v: Array  # (*B, K) 0 for padding


def counted(belief: RandomEffects, A: Array, w: Array, v: Any) -> Counted:
    """For items A (*B, K), of which -1 are padding, with weights w and importance v."""
    if is_tensor(A):
        return _counted_tensors(belief, A, w, v)
    *batch, K = A.shape
    L = belief.n.shape[-1]
    n = belief.n.copy()
    total = belief.total.copy()
    out = np.zeros((*batch, 6, K))
    _count(
        out.reshape(-1, 6, K),
        n.reshape(-1, L),
        total.reshape(-1, L),
        A.reshape(-1, K),
        w.reshape(-1, K),
        v.reshape(-1, K),
        belief.sigma.reshape(-1),
        belief.tau.reshape(-1),
    )
    return Counted(
        n,
        total,
        out[..., 0, :],
        out[..., 1, :],
        out[..., 2, :],
        out[..., 3, :],
        out[..., 4, :],
        out[..., 5, :],
    )


@compiled
def _count(
    out: Array,
    n: Array,
    total: Array,
    A: Array,
    w: Array,
    v: Array,
    sigma: Array,
    tau: Array,
) -> None:
    # compiled, as in NumPy's many passes this would take longer than all the rest of an update
    for b in range(len(out)):
        sigma2 = sigma[b] ** 2
        tau2 = tau[b] ** 2
        for k in range(A.shape[1]):
            e = A[b, k]
            if e < 0:
                out[b, 2, k] = 1.0
                continue
            keep = sigma2 / (sigma2 + n[b, e] * tau2)
            out[b, 0, k] = keep
            out[b, 1, k] = total[b, e] * keep * (tau2 / sigma2)
            out[b, 2, k] = math.sqrt(sigma2 / v[b, k] + tau2 * keep)
            if n[b, e] > 0:
                out[b, 3, k] = n[b, e] * v[b, k] / (n[b, e] + v[b, k])
                out[b, 4, k] = w[b, k] - total[b, e] / n[b, e]
            out[b, 5, k] = math.log(v[b, k])
            n[b, e] += v[b, k]
            total[b, e] += v[b, k] * w[b, k]


def _counted_tensors(belief: RandomEffects, A: Array, w: Array, v: Array) -> Counted:
    own = A >= 0
    v = where(own, v, 0.0)
    w = where(own, w, 0.0)
    n = take(belief.n, A)
    total = take(belief.total, A)
    of = shares(belief, n, total)
    variance = belief.sigma[..., None] ** 2 / where(own, v, 1.0) + of.variance
    return Counted(
        add_at(belief.n, A, v),
        add_at(belief.total, A, v * w),
        where(own, of.keep, 0.0),
        of.pull,
        variance**0.5,
        n * v / where(own, n + v, 1.0),
        w - total / where(n > 0, n, 1.0),
        log(where(own, v, 1.0)),
    )


def repeats(A: Array) -> bool:
    """Whether an item occurs more than once in a row of A (*B, K), where -1 is padding."""
    ordered = backend(A).sort(A)
    again = ordered[..., 1:] == ordered[..., :-1]
    return bool((again & (ordered[..., 1:] >= 0)).any())


class ByItem(NamedTuple):
    """Feedback in which items repeat, as the mean of each and what is around the means."""

    means: Feedback  # each item once, with the importance of all its rows
    rows: Array  # (*B, K, d) √v (φ - φ̄)
    w: Array  # (*B, K) √v (w - w̄)
    more: Array  # (*B,) how many rows there are beyond one per item


def by_item(feedback: Feedback) -> ByItem:
    """The rows of each item together, whose deviation they share: their mean, as precise as all
    of them, and what is around it, which tells of θ and of the noise alone.
    """
    order = backend(feedback.A).argsort(feedback.A, stable=True)
    A = take(feedback.A, order)
    rows = as_float64(take_rows(feedback.rows, order))
    own = A >= 0
    v = full(A.shape, feedback.importance, feedback.w)
    v = where(own, take(v, order), 0.0)
    w = where(own, take(feedback.w, order), 0.0)

    # groups of equal items, numbered in their order
    new = full(A.shape, 1, A)
    new[..., 1:] = A[..., 1:] != A[..., :-1]
    group = new.cumsum(-1) - 1
    item = add_at(full(A.shape, -1, A), group, new * (A + 1))

    nothing = full(v.shape, 0.0, v)
    of_rows = full((*rows.shape[:-2], rows.shape[-1], rows.shape[-2]), 0.0, v)
    V = add_at(nothing, group, v)
    total = add_at(of_rows, for_each_feature(of_rows, group), (v[..., None] * rows).mT)
    phi = mean_rows(total, V)
    mean = add_at(nothing, group, v * w) / where(V > 0, V, 1.0)
    means = feedback._replace(A=item, rows=phi, w=mean, importance=where(V > 0, V, 1.0))
    root = v**0.5
    return ByItem(
        means,
        root[..., None] * (rows - take_rows(phi, group)),
        root * (w - take(mean, group)),
        own.sum(-1) - (item >= 0).sum(-1),
    )


@compiled
def look_at(
    mean: Array,
    variance: Array,
    linear: Array,
    before: Array,
    n: Array,
    total: Array,
    sigma: Array,
    tau: Array,
    summed: bool,
) -> None:
    """Fill in mean and variance of w̄(e) given θ, from φ_e·θ and, as `before`, φ̄_e·θ; or, if it is
    `summed`, n_e φ̄_e·θ.
    """
    # compiled, as in NumPy's many passes this would take longer than all the rest of a decision
    for b in range(len(mean)):
        tau2 = tau[b] ** 2
        ratio = tau2 / sigma[b] ** 2
        for e in range(mean.shape[1]):
            if n[b, e] == 0:
                mean[b, e] = linear[b, e]
                variance[b, e] = tau2
                continue
            keep = 1 / (1 + n[b, e] * ratio)
            past = before[b, e] / n[b, e] if summed else before[b, e]
            own = total[b, e] * keep * ratio - (1 - keep) * past
            mean[b, e] = linear[b, e] + own
            variance[b, e] = tau2 * keep


def mean_rows(past: Array, n: Array) -> Array:
    """φ̄ of items from Σ v φ (*B, d, K) and Σ v (*B, K): (*B, K, d), zero for those never seen."""
    return (past / where(n > 0, n, 1.0)[..., None, :]).mT


def rows_before(belief: RandomEffects, A: Array) -> Array:
    """φ̄ of these items: (*B, K) -> (*B, K, d)."""
    return mean_rows(take(belief.past, for_each_feature(belief.past, A)), take(belief.n, A))


def for_each_feature(past: Array, A: Array) -> Array:
    """The items once per feature: (*B, d, L), (*B, K) -> (*B, d, K)."""
    shape = (*past.shape[:-1], A.shape[-1])
    return backend(A).broadcast_to(A[..., None, :], shape)


class Means(NamedTuple):
    """The items that were seen."""

    n: Array  # (E,)
    rows: Array  # (E, d+1) their mean rows [φ̄ w̄]


def means_of(belief: RandomEffects, Phi: Features) -> Means:
    """Of a single belief."""
    seen = np.flatnonzero(belief.n)
    return Means(belief.n[seen], mean_rows_of(belief, Phi, seen))


def mean_rows_of(belief: RandomEffects, Phi: Features, items: Array) -> Array:
    """[φ̄ w̄] of items that a single belief has seen."""
    n = belief.n[items]
    if len(belief.past):
        phi = mean_rows(belief.past[:, items], n)
    else:
        phi = as_float64(to_numpy(take_rows(Phi, as_like(Phi, items))))
    return np.column_stack([phi, belief.total[items] / n])


def some_rows(feedback: Feedback, rows: Array) -> Feedback:
    """Some of the rows, the others as padding."""
    if rows.all():
        return feedback
    return feedback._replace(rows=where(rows[..., None], feedback.rows, 0.0))


def learn_loose_rows(belief: RandomEffects, feedback: Feedback) -> RandomEffects:
    """From rows that belong to none of the items, with deviations of their own: of variance
    σ²/v + τ², where one of importance 1 has σ² + τ². A mean of n such rows is n times as precise.
    """
    sigma2 = belief.sigma[..., None] ** 2
    tau2 = belief.tau[..., None] ** 2
    variance = sigma2 * feedback.n_observations / feedback.importance + tau2
    v = feedback.n_observations * (sigma2 + tau2) / variance
    sigma = (belief.sigma**2 + belief.tau**2) ** 0.5
    past = RowFactor(belief.data, belief.rows)
    weighted = feedback._replace(importance=v)
    after, loose = gaussian.observe_rows(belief, past, weighted, sigma)
    return belief._replace(
        factor=after.factor,
        log_scale=after.log_scale - loose.half_log_v,
        data=loose.factor,
        rows=loose.n,
    )


def learn_around_means(belief: RandomEffects, of: ByItem) -> RandomEffects:
    """From what is around the means of items, once the means themselves are learned."""
    off = of.rows
    if not belief.past.shape[-2]:  # features stay the same: what differs is rounding
        off = 0 * off
    around = with_column(off, of.w, 1.0)
    after = gaussian.absorb(belief, RowFactor(around, of.more), belief.sigma)
    return belief._replace(
        **after._asdict(),
        within=qr_stack(belief.within, around),
        observed=belief.observed + of.more,
    )


def learn_within(belief: RandomEffects, feedback: Feedback) -> RandomEffects:
    """From what is around the means of n observations of items, once the means are learned: it has
    n - 1 degrees of freedom, and tells of the noise alone.
    """
    own = feedback.A >= 0
    more = where(own, feedback.n_observations - 1.0, 0.0).sum(-1)
    residual_ss = where(own, feedback.residual_ss, 0.0).sum(-1)
    around = gaussian.add_residual(0 * belief.within, residual_ss)
    after = gaussian.absorb(belief, RowFactor(around, more), belief.sigma)
    return belief._replace(
        **after._asdict(),
        within=gaussian.add_residual(belief.within, residual_ss),
        observed=belief.observed + more,
    )


def rows_between(belief: RandomEffects, other: RandomEffects) -> Array:
    """What the means of items in two beliefs differ by, as rows [φ w] of `within`."""
    n = where(belief.n > 0, belief.n, 1.0)
    m = where(other.n > 0, other.n, 1.0)
    weight = (belief.n * other.n / (n + m)) ** 0.5
    apart = weight * (belief.total / n - other.total / m)
    d = belief.data.shape[-1] - 1
    rows = np.zeros((*apart.shape, d + 1))
    rows[..., -1] = apart
    if belief.past.shape[-2]:
        off = mean_rows(belief.past, belief.n) - mean_rows(other.past, other.n)
        rows[..., :-1] = weight[..., None] * off
    return rows


def without(belief: RandomEffects, Phi: Features, items: Array) -> RandomEffects:
    """A single belief without what it knows of these items alone; what they said about θ stays.

    To find scales later, the mean of each becomes a loose row: of variance τ² + σ²/n where loose
    rows have σ² + τ². Rows around the means of their items stay: they tell of σ alone, or of θ.
    """
    items = items[belief.n[items] > 0]
    if not len(items):
        return belief
    n = belief.n[items]
    rows = mean_rows_of(belief, Phi, items)
    phi = rows[:, :-1]
    v = (belief.sigma**2 + belief.tau**2) / (belief.tau**2 + belief.sigma**2 / n)
    past = RowFactor(belief.data, belief.rows)
    loose = gaussian.append_rows(past, phi, rows[:, -1], v)
    return belief._replace(
        observed=belief.observed - len(items),
        data=loose.factor,
        rows=loose.n,
    )

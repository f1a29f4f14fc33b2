"""Linear model with the posterior stds √(φ_eᵀ Σ φ_e) of a catalogue kept up to date.

K rows of feedback change Σ by a term of rank K, Σ' = Σ - UᵀU, so that the variance of an item falls
by ‖Uφ_e‖²: that takes L d K operations, and computing all stds takes L d². Subtraction loses
digits; before they could matter, the stds are computed from Σ.

The stds are only a cache: if the features differ from the cached ones, they are recomputed.
Compared with computing them in every episode, the cache is 5.4 times as fast for 1,860 items with
200 features, 60 of them chosen, and 8.9 times for 6,000 with 100 features and 10 chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    as_float64,
    backend,
    diagonal,
    full,
    is_ill_conditioned,
    is_product,
    is_sparse,
    map_row_chunks,
    nonzero_rows,
    product_row_norms,
    solve_rows,
    summarize_columns,
    triangle,
    unbroadcast,
    where,
)
from superarm.beliefs.linear import LinearModel
from superarm.contracts import Feedback, Problem
from superarm.gaussian import Gaussian, HasFactor, RowFactor

REFRESH_BELOW = 0.01
"""Share of a variance below which it is computed from Σ: subtraction has taken two digits."""
MAX_UPDATES = 200
"""Updates, each with its rounding, before variances are computed from Σ."""
MAX_DIAGONAL_RATIO = 1e3
"""Largest ratio on the diagonal of R with which U is exact enough."""


class CachedStd(NamedTuple):
    """Gaussian belief and the variances of a catalogue under it."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian
    log_normalizer: Array  # (*B,)
    variance: Array  # (*B, L) φ_eᵀ Σ φ_e
    last_exact: Array  # (*B, L) the variance when it was last computed from Σ
    fingerprint: Array  # (*B, L) Φ probe, to detect changed features
    probe: Array  # (*B, d)
    updates: Array  # (*B,) since variances were computed from Σ; -1 if they are out of date


def with_exact_std(belief: HasFactor, Phi: Features) -> CachedStd:
    """The belief with the stds of these items; of a product, which is never formed, without."""
    if is_product(Phi):
        return without_std(belief, Phi)
    std = gaussian.std(belief, Phi)
    return _with_variance(belief, Phi, std**2)


def _with_variance(belief: HasFactor, Phi: Array, variance: Array) -> CachedStd:
    """The belief with these variances, computed from Σ."""
    probe = choose_probe(Phi)
    return CachedStd(
        belief.factor,
        belief.log_normalizer,
        variance,
        variance,
        project_rows(Phi, probe),
        probe,
        full(belief.log_normalizer.shape, 0.0, Phi),
    )


def without_std(belief: HasFactor, Phi: Features) -> CachedStd:
    """The belief with an empty cache: stds are computed when a decision needs them."""
    batch = belief.log_normalizer.shape
    zero = full((), 0.0, belief.factor)
    L = Phi.shape[-2]
    zeros = backend(zero).broadcast_to(zero, (*batch, L))
    return CachedStd(
        belief.factor,
        belief.log_normalizer,
        zeros,
        zeros,
        zeros,
        full((*batch, Phi.shape[-1]), 0.0, belief.factor),
        full(batch, -1.0, belief.factor),
    )


def item_std(belief: CachedStd, Phi: Features) -> Array:
    """√(φ_eᵀ Σ φ_e) of all items: from the cache if it holds these features, else computed."""
    is_up_to_date = (belief.updates >= 0).all()
    if is_up_to_date and _has_features(belief, Phi):
        return belief.variance**0.5
    return gaussian.std(belief, Phi)


def _has_features(belief: CachedStd, Phi: Features) -> bool:
    """True if the cache was computed for these features, by their fingerprint."""
    if is_product(Phi) or Phi.shape[:-1] != belief.fingerprint.shape:
        return False
    if unbroadcast(belief.factor) is not None:  # users of one belief have features of their own
        return False
    fingerprint = project_rows(Phi, belief.probe)
    return bool((fingerprint == belief.fingerprint).all())


def project_rows(Phi: Array, probe: Array) -> Array:
    """Φ probe, in float64: (*B, L, d), (*B, d) -> (*B, L)."""
    if is_sparse(Phi):
        return Phi @ probe
    xp = backend(Phi)
    return map_row_chunks(Phi, lambda rows: xp.matmul(rows, probe[..., None])[..., 0])


def choose_probe(Phi: Array) -> Array:
    """Direction with a component along every column, in ratios that features are unlikely to have:
    (*B, L, d) -> (*B, d).
    """
    low, high = _column_ranges(Phi)
    xp = backend(low)
    magnitude = xp.maximum(high, -low)
    scale = xp.where(magnitude > 0, as_float64(magnitude), 1.0)
    d = Phi.shape[-1]
    number = xp.arange(1.0, d + 1, dtype=xp.float64, device=low.device)
    return xp.cos(number**2) / scale


def _column_ranges(Phi: Array) -> tuple[Array, Array]:
    """Smallest and largest entry of each column: (*B, L, d) -> (*B, d) twice."""
    if is_sparse(Phi):
        _, _, low, high = summarize_columns(Phi)
        return low, high
    xp = backend(Phi)
    return xp.min(Phi, axis=-2), xp.max(Phi, axis=-2)


def _is_steep(belief: HasFactor) -> bool:
    """True if R is too ill-conditioned for updates of the variances."""
    factor = belief.factor
    R = factor[..., :-1, :-1]
    is_steep = is_ill_conditioned(R, MAX_DIAGONAL_RATIO)
    return bool(is_steep.any())


def covariance_downdate(factor: Array, rows: Array) -> Array:
    """U with Σ - UᵀU the covariance (RᵀR)⁻¹ = Σ after rows are added to R:
    (*B, D, D), (*B, K, d) -> (*B, K, d).

    Σ' = Σ - ΣXᵀ(I + XΣXᵀ)⁻¹XΣ, with V = XR⁻¹ and I + VVᵀ = CCᵀ:  U = C⁻¹V R⁻ᵀ.
    """
    K = rows.shape[-2]
    V = solve_rows(factor, rows)
    batch = V.shape[:-2]
    ones = full((*batch, K), 1.0, V)
    identity = diagonal(ones)
    stacked = backend(V).concat([identity, V.mT], axis=-2)
    # Cᵀ is made triangular, because the Cholesky factorization of I + VVᵀ could fail
    Ct = triangle(stacked)
    W = solve_rows(Ct, V.mT).mT
    return solve_rows(factor, W, True)


@dataclass(frozen=True)
class CachedStdModel(LinearModel):
    """Algorithm 1 with λ and σ fixed, for policies that need the std of every item.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.cached_std import CachedStdModel
    >>> model = CachedStdModel(lam=1.0, sigma=1.0)
    >>> problem = Problem(np.eye(2), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([3.0]))
    >>> model.std(model.learn(model.prior(problem), problem, feedback), problem).round(3)
    array([0.707, 1.   ])
    """

    def prior(self, problem: Problem) -> CachedStd:
        """Σ_1 = λ²I, θ̄_1 = 0, and λ‖φ_e‖."""
        belief = super().prior(problem)
        Phi = problem.Phi
        if is_product(Phi) or (shared := unbroadcast(Phi)) is None:
            return with_exact_std(belief, Phi)
        # all start alike, so that the stds of repeated features are computed once
        alone = super().prior(Problem(shared, problem.oracle))
        std = gaussian.std(alone, shared)
        variance = np.broadcast_to(std**2, Phi.shape[:-1])
        return _with_variance(belief, Phi, variance)

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> CachedStd:
        """The Gaussian with this factor, and the stds of the items under it."""
        posterior = super().from_factor(factor, problem, hyperparameters, t)
        return with_exact_std(posterior, problem.Phi)

    def std(self, belief: CachedStd, problem: Problem) -> Array:
        """√(φ_eᵀ Σ_t φ_e): (*B, L)."""
        return item_std(belief, problem.Phi)

    def learn(self, belief: CachedStd, problem: Problem, feedback: Feedback) -> CachedStd:
        """Algorithm 1 on the rows of the feedback, with the variances of the items updated."""
        if self.forgetting < 1 or not self.likelihood.is_gaussian:
            posterior = super().learn(belief, problem, feedback)
            return _out_of_date(belief, posterior)
        Phi = problem.Phi
        after = self.likelihood.condition(belief, feedback, self.sigma)
        if not nonzero_rows(feedback.rows).any():
            return belief._replace(**after._asdict())
        K, d = feedback.rows.shape[-2:]
        # with few features, computing stds at the next decision is as cheap, if it comes at all
        if d <= 2 * K or is_product(Phi):
            return _out_of_date(belief, after)
        if not _has_features(belief, Phi):  # as in contexts, whose stds may never be needed
            probe = choose_probe(Phi)
            return _out_of_date(belief, after)._replace(
                fingerprint=project_rows(Phi, probe), probe=probe
            )
        if (belief.updates < 0).any() or _is_steep(belief) or _is_steep(after):
            return with_exact_std(after, Phi)
        return self._downdate(belief, after, Phi, feedback)

    def _downdate(
        self, belief: CachedStd, after: Gaussian, Phi: Array, feedback: Feedback
    ) -> CachedStd:
        """Variances less what the feedback takes from them, or from Σ where that is due."""
        importance = full(feedback.w.shape, feedback.importance, feedback.w)
        precision = importance**0.5 / self.sigma
        is_nonzero = nonzero_rows(feedback.rows)
        scaled = feedback.rows * precision[..., None]
        rows = where(is_nonzero[..., None], scaled, 0.0)
        U = covariance_downdate(belief.factor, rows)
        variance = belief.variance - product_row_norms(Phi, U) ** 2
        updates = belief.updates + 1
        has_lost_digits = (variance < REFRESH_BELOW * belief.last_exact).any(-1)
        is_due = has_lost_digits | (updates > MAX_UPDATES)
        current = belief._replace(**after._asdict(), variance=variance, updates=updates)
        if not is_due.any():
            return current
        exact = gaussian.std(after, Phi) ** 2
        return current._replace(
            variance=where(is_due[..., None], exact, variance),
            last_exact=where(is_due[..., None], exact, belief.last_exact),
            updates=where(is_due, 0.0, updates),
        )

    def learn_factor(
        self, belief: CachedStd, problem: Problem, rows: RowFactor, column_statistics: Array
    ) -> CachedStd:
        """Condition on all rows of a factor, and compute the stds."""
        posterior = gaussian.condition_on_factor(belief, rows, self.sigma)
        return with_exact_std(posterior, problem.Phi)

    def forget(self, belief: CachedStd, problem: Problem, keep: float) -> CachedStd:
        """The belief with all evidence counted `keep` times, its stds out of date."""
        if keep == 1:
            return belief
        after = super().forget(belief, problem, keep)
        return _out_of_date(belief, after)

    def merge(self, belief: CachedStd, other: CachedStd, problem: Problem) -> CachedStd:
        """The belief after the evidence of both; each started from the prior."""
        both = super().merge(belief, other, problem)
        return with_exact_std(both, problem.Phi)

    def resize(self, belief: CachedStd, problem: Problem, to: Problem, source: Array) -> CachedStd:
        """The belief with the stds of another catalogue."""
        return with_exact_std(belief, to.Phi)

    def extend(self, belief: CachedStd, problem: Problem, to: Problem) -> CachedStd:
        """The belief with an empty cache."""
        return without_std(belief, to.Phi)


def _out_of_date(belief: CachedStd, after: HasFactor) -> CachedStd:
    """The belief with another factor, for which its variances do not hold."""
    updates = full(belief.updates.shape, -1.0, belief.updates)
    return belief._replace(
        factor=after.factor, log_normalizer=after.log_normalizer, updates=updates
    )

"""The linear model, with the widths √(φ_eᵀ Σ φ_e) of a catalogue kept up to date.

K rows of feedback change Σ by a term of rank K, Σ' = Σ - UᵀU, so that the squared width of an item
shrinks by ‖Uφ_e‖²: that takes L d K operations, and computing all widths takes L d². Subtracting
loses digits. Before they could matter, the widths are computed anew.

The widths are a cache and no knowledge of the items: whatever the features are, the right ones come
out, from the cache if its features are these.
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

LEAST = 0.01
"""The share of a squared width that may be left of it before it is computed anew: it has lost two
digits."""
OLDEST = 200
"""Updates, each with its rounding, before widths are computed anew."""
STEEPEST = 1e3
"""The largest ratio on the diagonal of R with which U is exact enough."""


class CachedStd(NamedTuple):
    """A Gaussian belief and the widths of a catalogue under it."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian
    log_scale: Array  # (*B,)
    squared: Array  # (*B, L) φ_eᵀ Σ φ_e
    anew: Array  # (*B, L) what it was when it was last computed from Σ
    probed: Array  # (*B, L) each feature row along `direction`, to tell whether rows have changed
    direction: Array  # (*B, d)
    age: Array  # (*B,) updates since the widths were computed; -1 if they are not up to date


def with_cached_std(belief: HasFactor, Phi: Features) -> CachedStd:
    """The belief with the widths of these items; those of a product, which is never formed, are
    left to be computed when they are asked for.
    """
    if is_product(Phi):
        return _without_widths(belief, Phi)
    return _with(belief, Phi, gaussian.std(belief, Phi) ** 2)


def _with(belief: HasFactor, Phi: Array, squared: Array) -> CachedStd:
    """The belief with these squared widths, which were computed just now."""
    direction = fingerprint_probe(Phi)
    return CachedStd(
        belief.factor,
        belief.log_scale,
        squared,
        squared,
        probe(Phi, direction),
        direction,
        full(belief.log_scale.shape, 0.0, Phi),
    )


def _without_widths(belief: HasFactor, Phi: Features) -> CachedStd:
    batch = belief.log_scale.shape
    zero = full((), 0.0, belief.factor)
    unknown = backend(zero).broadcast_to(zero, (*batch, Phi.shape[-2]))
    return CachedStd(
        belief.factor,
        belief.log_scale,
        unknown,
        unknown,
        unknown,
        full((*batch, Phi.shape[-1]), 0.0, belief.factor),
        full(batch, -1.0, belief.factor),
    )


def widths(belief: CachedStd, Phi: Features) -> Array:
    """√(φ_eᵀ Σ φ_e) of all items: as kept if the features are the same, else computed."""
    up_to_date = (belief.age >= 0).all() and _same(belief, Phi)
    return belief.squared**0.5 if up_to_date else gaussian.std(belief, Phi)


def _same(belief: CachedStd, Phi: Features) -> bool:
    if is_product(Phi) or Phi.shape[:-1] != belief.probed.shape:
        return False
    if unbroadcast(belief.factor) is not None:  # users of one belief have features of their own
        return False
    return bool((probe(Phi, belief.direction) == belief.probed).all())


def _steep(belief: HasFactor) -> bool:
    return bool(is_ill_conditioned(belief.factor[..., :-1, :-1], STEEPEST).any())


def probe(Phi: Array, direction: Array) -> Array:
    """The part of each row along the direction, in float64: (*B, L, d), (*B, d) -> (*B, L)."""
    if is_sparse(Phi):
        return Phi @ direction
    xp = backend(Phi)
    return map_row_chunks(
        Phi,
        lambda rows: xp.matmul(rows, direction[..., None])[..., 0],
    )


def _extremes(Phi: Array) -> tuple[Array, Array]:
    """The least and the largest entry of each column: (*B, L, d) -> (*B, d) twice."""
    if is_sparse(Phi):
        _, _, least, most = summarize_columns(Phi)
        return least, most
    xp = backend(Phi)
    return xp.min(Phi, axis=-2), xp.max(Phi, axis=-2)


def fingerprint_probe(Phi: Array) -> Array:
    """A direction with a share of every column, of no simple relation to one another:
    (*B, L, d) -> (*B, d).
    """
    least, most = _extremes(Phi)
    xp = backend(least)
    widest = xp.maximum(most, -least)
    scale = xp.where(
        widest > 0,
        as_float64(widest),
        1.0,
    )
    column = xp.arange(
        1.0,
        Phi.shape[-1] + 1,
        dtype=xp.float64,
        device=least.device,
    )
    return xp.cos(column**2) / scale


def covariance_downdate(factor: Array, rows: Array) -> Array:
    """U with Σ - UᵀU the covariance (RᵀR)⁻¹ = Σ after rows are added to R:
    (*B, D, D), (*B, K, d) -> (*B, K, d).

    Σ' = Σ - ΣXᵀ(I + XΣXᵀ)⁻¹XΣ, with V = XR⁻¹ and I + VVᵀ = CCᵀ:  U = C⁻¹V R⁻ᵀ.
    """
    K = rows.shape[-2]
    V = solve_rows(factor, rows)
    identity = diagonal(full((*V.shape[:-2], K), 1.0, V))
    # Cᵀ is made triangular, because the Cholesky factorization of I + VVᵀ could fail
    stacked = backend(V).concat(
        [identity, V.mT],
        axis=-2,
    )
    Ct = triangle(stacked)
    W = solve_rows(Ct, V.mT).mT
    return solve_rows(factor, W, True)


@dataclass(frozen=True)
class CachedStdModel(LinearModel):
    """Algorithm 1 with λ and σ given, for policies that ask for the width of every item.

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
        if is_product(Phi) or (one := unbroadcast(Phi)) is None:
            return with_cached_std(belief, Phi)
        # all start alike, so that the widths of repeated features are computed once
        alone = super().prior(Problem(one, problem.oracle))
        squared = np.broadcast_to(gaussian.std(alone, one) ** 2, Phi.shape[:-1])
        return _with(belief, Phi, squared)

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> CachedStd:
        """The Gaussian with this factor, and the stds of the items under it."""
        posterior = super().from_factor(factor, problem, hyperparameters, t)
        return with_cached_std(posterior, problem.Phi)

    def std(self, belief: CachedStd, problem: Problem) -> Array:
        """√(φ_eᵀ Σ_t φ_e): (*B, L)."""
        return widths(belief, problem.Phi)

    def learn(self, belief: CachedStd, problem: Problem, feedback: Feedback) -> CachedStd:
        """Algorithm 1 on the rows of the feedback, and what it does to the widths."""
        after = gaussian.observe(belief, feedback, self.sigma)
        if not nonzero_rows(feedback.rows).any():
            return belief._replace(**after._asdict())
        K, d = feedback.rows.shape[-2:]
        stale = belief._replace(**after._asdict(), age=full(belief.age.shape, -1.0, belief.age))
        # with few features, computing widths at the next choice is as cheap, if it comes at all
        if d <= 2 * K or is_product(problem.Phi):
            return stale
        if not _same(belief, problem.Phi):  # as in contexts, whose widths may never be asked for
            direction = fingerprint_probe(problem.Phi)
            return stale._replace(probed=probe(problem.Phi, direction), direction=direction)
        if (belief.age < 0).any() or _steep(belief) or _steep(after):
            return with_cached_std(after, problem.Phi)
        return self._shrunk(belief, after, problem.Phi, feedback)

    def absorb(
        self, belief: CachedStd, problem: Problem, rows: RowFactor, columns: Array
    ) -> CachedStd:
        """The belief after all rows of a factor; what their columns hold does not matter."""
        return with_cached_std(gaussian.absorb(belief, rows, self.sigma), problem.Phi)

    def _shrunk(
        self, belief: CachedStd, after: Gaussian, Phi: Array, feedback: Feedback
    ) -> CachedStd:
        """The widths less what the feedback takes from them, or computed anew where that is due."""
        precision = full(feedback.w.shape, feedback.importance, feedback.w) ** 0.5 / self.sigma
        present = nonzero_rows(feedback.rows)
        rows = where(present[..., None], feedback.rows * precision[..., None], 0.0)
        squared = (
            belief.squared - product_row_norms(Phi, covariance_downdate(belief.factor, rows)) ** 2
        )
        kept = belief._replace(**after._asdict(), squared=squared, age=belief.age + 1)
        due = (squared < LEAST * belief.anew).any(-1) | (kept.age > OLDEST)
        if not due.any():
            return kept
        fresh = gaussian.std(after, Phi) ** 2
        return kept._replace(
            squared=where(due[..., None], fresh, squared),
            anew=where(due[..., None], fresh, kept.anew),
            age=where(due, 0.0, kept.age),
        )

    def forget(self, belief: CachedStd, problem: Problem, keep: float) -> CachedStd:
        """The belief to which the past counts `keep` times what it did; widths are computed when
        they are next asked for.
        """
        if keep == 1:
            return belief
        after = super().forget(belief, problem, keep)
        return belief._replace(**after._asdict(), age=full(belief.age.shape, -1.0, belief.age))

    def merge(self, belief: CachedStd, other: CachedStd, problem: Problem) -> CachedStd:
        """The belief after the feedback of both, each of which started from the prior."""
        return with_cached_std(super().merge(belief, other, problem), problem.Phi)

    def resize(self, belief: CachedStd, problem: Problem, to: Problem, source: Array) -> CachedStd:
        """The belief with the widths of another catalogue."""
        return with_cached_std(belief, to.Phi)

    def extend(self, belief: CachedStd, problem: Problem, to: Problem) -> CachedStd:
        """The belief with all widths left to be computed when they are asked for."""
        return _without_widths(belief, to.Phi)

"""The widths √(φ_eᵀ Σ φ_e) of all items, kept up to date instead of computed anew for every choice.

K rows of feedback change Σ by a term of rank K, Σ' = Σ - UᵀU, so that w²(e) shrinks by ‖Uφ_e‖²: L d
K operations where anew it takes L d². Subtracting loses digits: before they could matter, the
widths are computed anew.
"""

from typing import NamedTuple

from superarm.arrays import (
    Array,
    Features,
    Product,
    full,
    is_steep,
    nonzero_rows,
    probe,
    probe_direction,
    product_norms,
    shrinkage,
    where,
)
from superarm.gaussian import Factored, condition, std

LEAST = 0.01
"""The share of a squared width that may be left of it before it is computed anew: two digits are
lost."""
OLDEST = 200
"""Updates, each with its rounding, before widths are computed anew."""
STEEPEST = 1e3
"""The largest ratio on the diagonal of R with which U is as exact as it need be."""


class Widths(NamedTuple):
    """A Gaussian belief and the widths of a catalogue under it."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian
    log_scale: Array  # (*B,)
    squared: Array  # (*B, L) φ_eᵀ Σ φ_e
    anew: Array  # (*B, L) the same when it was last computed anew
    probed: Array  # (*B, L) the part of each feature row along a direction, to tell whether the rows are the same
    direction: Array  # (*B, d)
    age: Array  # (*B,) updates since the widths were computed; -1 if they are not up to date


def with_widths(belief: Factored, Phi: Array) -> Widths:
    """The widths, computed anew."""
    squared, direction = std(belief, Phi) ** 2, probe_direction(Phi)
    age = full(belief.log_scale.shape, 0.0, Phi)
    return Widths(
        belief.factor, belief.log_scale, squared, squared, probe(Phi, direction), direction, age
    )


def widths(belief: Widths, Phi: Features) -> Array:
    """√(φ_eᵀ Σ φ_e) of all items: as they are kept if the features are the same, else computed."""
    up_to_date = (belief.age >= 0).all() and _same(belief, Phi)
    return belief.squared**0.5 if up_to_date else std(belief, Phi)


def _steep(belief: Factored) -> bool:
    return bool(is_steep(belief.factor[..., :-1, :-1], STEEPEST).any())


def _same(belief: Widths, Phi: Features) -> bool:
    return not isinstance(Phi, Product) and bool(
        (probe(Phi, belief.direction) == belief.probed).all()
    )


def condition_widths(
    belief: Widths, Phi: Features, phi: Array, w: Array, sigma: float, importance: Array | float
) -> Widths:
    """`gaussian.condition` on rows phi, and the widths of the items after it."""
    after = condition(belief, phi, w, sigma, importance)
    present = nonzero_rows(phi)
    if not present.any():
        return belief._replace(**after._asdict())
    K, d = phi.shape[-2:]
    stale = belief._replace(**after._asdict(), age=full(belief.age.shape, -1.0, belief.age))
    if d <= 2 * K:  # computing them at the next choice is as cheap, and may be the only time
        return stale
    if isinstance(Phi, Product):
        return stale
    if not _same(belief, Phi):  # as with contexts, whose widths nobody may ask for again
        direction = probe_direction(Phi)
        return stale._replace(probed=probe(Phi, direction), direction=direction)
    if (belief.age < 0).any() or _steep(belief) or _steep(after):
        return with_widths(after, Phi)
    rows = where(
        present[..., None], phi * (full(w.shape, importance, w) ** 0.5 / sigma)[..., None], 0.0
    )
    squared = belief.squared - product_norms(Phi, shrinkage(belief.factor, rows)) ** 2
    kept = belief._replace(**after._asdict(), squared=squared, age=belief.age + 1)
    due = (squared < LEAST * belief.anew).any(-1) | (kept.age > OLDEST)
    if not due.any():
        return kept
    fresh = std(after, Phi) ** 2
    return kept._replace(
        squared=where(due[..., None], fresh, squared),
        anew=where(due[..., None], fresh, kept.anew),
        age=where(due, 0.0, kept.age),
    )

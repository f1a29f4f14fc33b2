"""A belief about θ that sets λ and σ itself, from the evidence of what it has seen.

Beside the belief at its present scales it keeps the rows themselves, as the triangular factor of [φ
w] without prior and noise. So it can start again at other scales with nothing lost. It does so
after 1, 2, 4, 8, ... episodes.
"""

from typing import NamedTuple

from superarm.arrays import Array, Features, full, nonzero_rows, qr_update, scaled_identity, where
from superarm.beliefs.scales import best_scales, refit_where, require_squares, summary_of_rows
from superarm.contracts import Problem
from superarm.gaussian import Gaussian, absorb, condition, forget, prior

WIDE = {"lam": 10.0, "sigma": 1.0, "tau": 1.0}
"""The scales before any feedback. The first choice does not depend on their size, only on their
ratios."""


class Tuned(NamedTuple):
    """A Gaussian belief, what it was made from, and its scales."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian, at the scales below
    log_scale: Array  # (*B,)
    data: Array  # (*B, d+1, d+1) the factor of all rows [φ w]
    rows: Array  # (*B,)
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,) int, episodes


def tuned_prior(problem: Problem, known: dict[str, float]) -> Tuned:
    """Nothing observed; scales that are not `known` start wide."""
    d, batch, Phi = problem.d, problem.batch, problem.Phi
    lam, sigma = (full(batch, (WIDE | known)[name], Phi) for name in ("lam", "sigma"))
    start, none = prior(d, lam, batch, Phi), full(batch, 0.0, Phi)
    return Tuned(*start, no_rows(d, batch, Phi), none, lam, sigma, full(batch, 0, Phi))


def no_rows(d: int, batch: tuple[int, ...], like: Features | None = None) -> Array:
    """The factor of [φ w] before any row."""
    return scaled_identity(0.0, 0, d + 1, batch, like)


def with_rows(data: Array, phi: Array, w: Array, importance: Array | float) -> Array:
    """The factor of [φ w] with rows added; those of zero features are padding."""
    require_squares(phi, where(nonzero_rows(phi), w, 0.0))
    return condition(
        Gaussian(data, full(data.shape[:-2], 0.0, data)), phi, w, 1.0, importance
    ).factor


def doubled(t: Array) -> Array:
    """Whether a count of episodes has just reached 1, 2, 4, 8, ..."""
    power: Array = (t > 0) & ((t & (t - 1)) == 0)
    return power


def tuned_condition(
    belief: Tuned, phi: Array, w: Array, importance: Array | float, known: dict[str, float]
) -> Tuned:
    """`gaussian.condition` at the present scales, and at times the choice of new ones."""
    present = nonzero_rows(phi)
    grown = belief._replace(
        **condition(belief, phi, w, belief.sigma[..., None], importance)._asdict(),
        data=with_rows(belief.data, phi, w, importance),
        rows=belief.rows + where(present, importance, 0.0).sum(-1),
        t=belief.t + present.any(-1),
    )
    due = present.any(-1) & doubled(grown.t)
    return refit_where(due, grown, lambda entry, _: _refitted(entry, known))


def _refitted(belief: Tuned, known: dict[str, float]) -> Tuned:
    """A single belief made anew from its rows, at the scales of the largest evidence."""
    lam, sigma = float(belief.lam), float(belief.sigma)
    if (belief.data[:, -1] ** 2).sum() > 0:  # nothing but zeros says nothing about scales
        lam, sigma, _ = best_scales(
            summary_of_rows(belief.data, float(belief.rows)), **known, tau=0.0
        )
    anew = absorb(prior(belief.data.shape[-1] - 1, lam), belief.data, belief.rows, sigma)
    return belief._replace(**anew._asdict(), lam=full((), lam), sigma=full((), sigma))


def tuned_merge(belief: Tuned, other: Tuned, known: dict[str, float]) -> Tuned:
    """All rows of both, at the scales of the largest evidence."""
    both = belief._replace(
        data=qr_update(belief.data, other.data, nonzero_rows(other.data)),
        rows=belief.rows + other.rows,
        t=belief.t + other.t,
    )
    return refit_where(both.rows >= 0, both, lambda entry, _: _refitted(entry, known))


def tuned_forget(belief: Tuned, keep: float) -> Tuned:
    """`gaussian.forget`, of the belief and of what it was made from."""
    start = prior(belief.data.shape[-1] - 1, belief.lam, belief.rows.shape, belief.data)
    return belief._replace(
        **forget(belief, start, keep)._asdict(),
        data=keep**0.5 * belief.data,
        rows=keep * belief.rows,
    )

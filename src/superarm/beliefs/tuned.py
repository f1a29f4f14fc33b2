"""The linear model with λ and σ chosen by the marginal likelihood of what was observed.

Beside the belief at its present scales it keeps the rows themselves, as the triangular factor of
[φ w] without prior and noise. So it can start again at other scales with nothing lost. It does so
after 1, 2, 4, 8, ... episodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    full,
    nonzero_rows,
    stacked_rows,
    where,
)
from superarm.beliefs.linear import FactoredModel, observed
from superarm.beliefs.scales import best_scales, refit_where, require_squares, summary_of_rows
from superarm.contracts import Feedback, Problem
from superarm.gaussian import Gaussian

WIDE = {"lam": 10.0, "sigma": 1.0, "tau": 1.0}
"""The scales before any feedback. The first choice depends on their ratios, not on their size."""


class Tuned(NamedTuple):
    """A Gaussian belief, what it was made from, and its scales."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian, at the scales below
    log_scale: Array  # (*B,)
    data: Array  # (*B, d+1, d+1) the factor of all rows [φ w]
    rows: Array  # (*B,) how many they are
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,) int, episodes


def no_rows(d: int, batch: tuple[int, ...], like: Features | None = None) -> Array:
    """The factor of [φ w] before any row."""
    return full((*batch, d + 1, d + 1), 0.0, like)


def with_rows(data: Array, feedback: Feedback) -> Array:
    """The factor of [φ w] with the rows of the feedback; those of zero features are padding."""
    require_squares(feedback.rows, where(nonzero_rows(feedback.rows), feedback.w, 0.0))
    unscaled = Gaussian(data, full(data.shape[:-2], 0.0, data))
    return observed(unscaled, feedback, 1.0).factor


def doubled(t: Array) -> Array:
    """Whether a count of episodes has just reached 1, 2, 4, 8, ..."""
    power: Array = (t > 0) & ((t & (t - 1)) == 0)
    return power


@dataclass(frozen=True)
class TunedModel(FactoredModel):
    """Algorithm 1 at scales of its own choosing, but for those that are `known`.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.tuned import TunedModel
    >>> rng = np.random.default_rng(0)
    >>> problem = Problem(rng.standard_normal((500, 3)), TopK(5))
    >>> w = problem.Phi @ [1.0, -1.0, 2.0] + 0.1 * rng.standard_normal(500)
    >>> model = TunedModel(known={})
    >>> feedback = Feedback.of(problem, np.arange(500), w)
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> float(belief.sigma.round(2))
    0.1
    """

    known: Mapping[str, float]
    forgetting: float = 1.0

    def prior(self, problem: Problem) -> Tuned:
        """Nothing observed, and wide scales."""
        batch = problem.batch
        like = problem.Phi
        scales = WIDE | dict(self.known)
        lam = full(batch, scales["lam"], like)
        nothing = full(batch, 0.0, like)
        return Tuned(
            *gaussian.prior(problem.d, lam, batch, like),
            data=no_rows(problem.d, batch, like),
            rows=nothing,
            lam=lam,
            sigma=full(batch, scales["sigma"], like),
            t=full(batch, 0, like),
        )

    def learn(self, belief: Tuned, problem: Problem, feedback: Feedback) -> Tuned:
        """Algorithm 1 at the present scales, and at times the choice of new ones."""
        past = self._faded(belief)
        present = nonzero_rows(feedback.rows)
        seen = present.any(-1)

        after = observed(past, feedback, past.sigma[..., None])
        grown = past._replace(
            **after._asdict(),
            data=with_rows(past.data, feedback),
            rows=past.rows + where(present, feedback.importance, 0.0).sum(-1),
            t=past.t + seen,
        )
        return refit_where(seen & doubled(grown.t), grown, lambda entry, _: self._refitted(entry))

    def _faded(self, belief: Tuned) -> Tuned:
        """`gaussian.forget`, of the belief and of what it was made from."""
        keep = self.forgetting
        if keep == 1:
            return belief
        d = belief.data.shape[-1] - 1
        start = gaussian.prior(d, belief.lam, belief.rows.shape, belief.data)
        return belief._replace(
            **gaussian.forget(belief, start, keep)._asdict(),
            data=keep**0.5 * belief.data,
            rows=keep * belief.rows,
        )

    def _refitted(self, belief: Tuned) -> Tuned:
        """A single belief made anew from its rows, at the best scales."""
        lam = float(belief.lam)
        sigma = float(belief.sigma)
        if (belief.data[:, -1] ** 2).sum() > 0:  # nothing but zeros says nothing about scales
            summary = summary_of_rows(belief.data, float(belief.rows))
            lam, sigma, _ = best_scales(summary, **self.known, tau=0.0)
        start = gaussian.prior(belief.data.shape[-1] - 1, lam)
        anew = gaussian.absorb(start, belief.data, belief.rows, sigma)
        return belief._replace(**anew._asdict(), lam=full((), lam), sigma=full((), sigma))

    def merge(self, belief: Tuned, other: Tuned, problem: Problem) -> Tuned:
        """All rows of both, at the scales of the largest marginal likelihood."""
        both = belief._replace(
            data=stacked_rows(belief.data, other.data),
            rows=belief.rows + other.rows,
            t=belief.t + other.t,
        )
        return refit_where(both.rows >= 0, both, lambda entry, _: self._refitted(entry))

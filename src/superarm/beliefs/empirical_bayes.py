"""The linear model with λ and σ chosen by the marginal likelihood of what was observed.

Beside the belief at its present scales it keeps the rows themselves, as the triangular factor of
[φ w] without prior and noise. So it can start again at other scales with nothing lost. It does so
after 1, 2, 4, 8, ... episodes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    add_rows,
    broadcast,
    full,
    is_product,
    log,
    merge_column_statistics,
    nonzero_rows,
    qr_stack,
    summarize_columns,
    take_rows,
    unbroadcast,
    where,
)
from superarm.beliefs.columns import LEVEL, Sizes, equal_sizes, merge_with_catalogue, sizes
from superarm.beliefs.exploration_bonus import log_growth
from superarm.beliefs.hyperparameters import map_entries, optimal_lam_sigma, require_squares
from superarm.beliefs.linear import FactoredModel, faded
from superarm.beliefs.marginal_likelihood import pool_statistics, statistics_of_rows
from superarm.contracts import Feedback, Problem, last_rows
from superarm.gaussian import RowFactor


class EmpiricalBayes(NamedTuple):
    """A Gaussian belief, what it was made from, and its scales."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian, at the scales below
    log_scale: Array  # (*B,)
    data: Array  # (*B, d+1, d+1) the factor of all rows [φ w]
    rows: Array  # (*B,) how many they are
    columns: Array  # (*B, 4, d) what they and the catalogue hold
    spread: Array  # (*B, d) prior stds of θ
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,) int, episodes


class Prior(NamedTuple):
    """What the prior stds of θ follow, but for λ."""

    sizes: Sizes
    level: Array  # the prior std of what a constant column adds

    def stds(self, lam: Array) -> Array:
        """The prior stds of θ: (d,)."""
        return self.sizes.stds(lam, self.level)


def crossed_power_of_two(before: Array, after: Array) -> Array:
    """Whether a count of episodes has reached one of 1, 2, 4, 8, ... on its way: (*B,) int both.

    >>> import numpy as np
    >>> from superarm.beliefs.empirical_bayes import crossed_power_of_two
    >>> crossed_power_of_two(np.array([0, 3, 5, 5]), np.array([1, 4, 7, 9]))
    array([ True,  True, False,  True])
    """
    # both lose their leading bit if it is the same
    reached: Array = (before ^ after) > before
    return reached


@dataclass(frozen=True)
class EmpiricalBayesModel(FactoredModel):
    """Algorithm 1 at scales of its own choosing, but for those that are `known`.

    With λ to be chosen, the prior std of each coefficient follows its column: see
    `beliefs.columns`. A λ that is known is that of every coefficient.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
    >>> rng = np.random.default_rng(0)
    >>> problem = Problem(rng.standard_normal((500, 3)), TopK(5))
    >>> w = problem.Phi @ [1.0, -1.0, 2.0] + 0.1 * rng.standard_normal(500)
    >>> model = EmpiricalBayesModel(known={})
    >>> feedback = Feedback.of(problem, np.arange(500), w)
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> float(belief.sigma.round(2))
    0.1
    """

    known: Mapping[str, float]
    forgetting: float = 1.0
    fits_row_factors: ClassVar[bool] = True
    fits_hyperparameters: ClassVar[bool] = True
    wide: ClassVar[Mapping[str, float]] = {"lam": 10.0, "sigma": 1.0}
    """The scales before any feedback. The first choice depends on their ratio, not on their size.
    """
    size: ClassVar[float | None] = None
    """What weights are expected to vary by; None for what they do."""
    widest: ClassVar[float] = math.inf
    """The largest λ that is chosen."""

    def prior(self, problem: Problem) -> Any:
        """Nothing observed, and wide scales."""
        batch = problem.batch
        like = problem.Phi
        scales = {**self.wide, **self.known}
        lam = full(batch, scales["lam"], like)
        nothing = full(batch, 0.0, like)
        columns = summarize_columns(problem.Phi)
        spread = self._sizes(columns).stds(lam, full(batch, LEVEL, like))
        return EmpiricalBayes(
            *gaussian.prior(problem.d, spread, batch, like),
            data=gaussian.empty_factor(problem.d, batch, like),
            rows=nothing,
            columns=columns,
            spread=spread,
            lam=lam,
            sigma=full(batch, scales["sigma"], like),
            t=full(batch, 0, like),
        )

    def hyperparameters(self, belief: Any) -> dict[str, Array | float]:
        """λ and σ of the last search."""
        return {"lam": belief.lam, "sigma": belief.sigma}

    def prior_std(self, belief: Any, problem: Problem) -> Array:
        """The prior std of each coefficient at the last λ, (*B, d)."""
        std: Array = belief.spread
        return std

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> Any:
        """The belief with this factor at these hyperparameters, and no rows to choose others by."""
        batch = factor.shape[:-2]
        shared = None if is_product(problem.Phi) else unbroadcast(problem.Phi)
        if shared is None:
            start = self.prior(problem)
        else:  # all start alike
            alone = self.prior(Problem(shared, problem.oracle))
            start = type(alone)(*(broadcast(np.asarray(x), batch[0]) for x in alone))
        return start._replace(
            factor=factor,
            log_scale=full(batch, 0.0, factor),
            lam=full(batch, hyperparameters["lam"], factor),
            sigma=full(batch, hyperparameters["sigma"], factor),
            t=t,
        )

    def ucb_growth(self, std: Array, belief: Any) -> Array | float:
        """As `log_growth`: bounds of items never seen may be wrong at first."""
        return log_growth(std, belief.sigma, belief.t)

    def _sizes(self, columns: Array) -> Sizes:
        """What coefficients are relative to; a λ that is known is that of all."""
        return equal_sizes(columns) if "lam" in self.known else sizes(columns)

    def learn(self, belief: Any, problem: Problem, feedback: Feedback) -> Any:
        """Algorithm 1 at the present scales, and at times the choice of new ones."""
        keep = gaussian.keep_after(self.forgetting, feedback.episodes)
        past = self.forget(belief, problem, keep)
        return self._observe(past, feedback)

    def _observe(self, past: Any, feedback: Feedback) -> Any:
        """Condition on feedback; refit when the number of episodes crosses a power of two."""
        rows = RowFactor(past.data, past.rows)
        after, rows = gaussian.observe_rows(past, rows, feedback, past.sigma)
        require_squares(rows.factor)
        present = nonzero_rows(feedback.rows)
        n = where(present, feedback.n_observations, 0.0)
        t = past.t + feedback.episodes * present.any(-1)
        observed = past._replace(
            **after._asdict(),
            data=rows.factor,
            rows=rows.n,
            columns=add_rows(past.columns, feedback.rows, n),
            t=t,
        )
        due = crossed_power_of_two(past.t, t)
        return map_entries(due, observed, lambda entry, _: self._refitted(entry))

    def absorb(self, belief: Any, problem: Problem, rows: RowFactor, columns: Array) -> Any:
        """The belief after all rows of a factor, whose columns hold this (4, d), as one episode; at
        the best scales.
        """
        after = gaussian.absorb(belief, rows, belief.sigma)
        observed = belief._replace(
            **after._asdict(),
            data=qr_stack(belief.data, rows.factor),
            rows=belief.rows + rows.n,
            columns=merge_column_statistics(belief.columns, columns),
            t=belief.t + 1,
        )
        return self._refitted(observed)

    def forget(self, belief: Any, problem: Problem, keep: float) -> Any:
        """The belief, and what it was made from, to which the past counts `keep` times what it
        did.
        """
        if keep == 1:
            return belief
        return belief._replace(
            **faded(belief, belief.spread, keep)._asdict(),
            data=keep**0.5 * belief.data,
            rows=keep * belief.rows,
        )

    def _refitted(self, belief: Any) -> Any:
        """A single belief made anew from its rows, at the best scales."""
        return self.pooled(belief, [belief.data], [float(belief.rows)])

    def pooled(self, belief: Any, data: Sequence[Array], rows: Sequence[float]) -> Any:
        """A single belief made anew from its rows, at the best scales if each of the factors of
        [φ w], of so many rows, has a θ of its own.
        """
        prior = self._prior_of(belief)
        unit = np.ones(belief.data.shape[-1])
        unit[:-1] = prior.stds(np.ones(()))
        constant = prior.sizes.constant
        flat = int(constant.argmax()) if constant.any() else None
        parts = [statistics_of_rows(one * unit, n, flat) for one, n in zip(data, rows, strict=True)]
        found = optimal_lam_sigma(pool_statistics(parts), self.known, self.size)
        if found is None:
            return self._made(belief, belief.lam, belief.sigma, prior)
        lam, sigma = found
        if "lam" not in self.known:
            lam = min(lam, self.widest)
        return self._made(belief, np.asarray(lam), np.asarray(sigma), prior)

    def _made(self, belief: Any, lam: Array, sigma: Array, prior: Prior) -> Any:
        """A single belief made anew from its rows, at these scales."""
        spread = prior.stds(lam)
        start = gaussian.prior(len(spread), spread)
        rows = RowFactor(belief.data, belief.rows, _of_importance(belief))
        anew = gaussian.absorb(start, rows, float(sigma))
        return belief._replace(
            **anew._asdict(),
            spread=spread,
            lam=lam,
            sigma=sigma,
        )

    def _prior_of(self, belief: Any) -> Prior:
        """What the prior stds of θ follow in a single belief."""
        of = self._sizes(belief.columns)
        return Prior(of, self._level(belief, of.constant))

    def _level(self, belief: Any, constant: Array) -> Array:
        """The prior std of what a constant column adds: LEVEL √(Σ w²/Σ 1)."""
        if not constant.any():
            return full((), LEVEL)
        squares = (belief.data**2).sum(-2)
        if squares[-1] == 0:
            return full((), LEVEL)
        c = belief.columns[2, constant]
        ones = squares[:-1][constant] / c**2
        return np.asarray(LEVEL * (squares[-1] / ones[0]) ** 0.5)

    def merge(self, belief: Any, other: Any, problem: Problem) -> Any:
        """All rows of both, at the scales of the largest marginal likelihood."""
        rows = belief.rows + other.rows
        extra = other.rows * log(belief.sigma * math.sqrt(2 * math.pi))
        both = belief._replace(
            data=qr_stack(belief.data, other.data),
            rows=rows,
            columns=merge_with_catalogue(
                belief.columns, other.columns, summarize_columns(problem.Phi)
            ),
            log_scale=belief.log_scale - extra + _of_importance(other),
            t=belief.t + other.t,
        )
        return map_entries(rows >= 0, both, lambda entry, _: self._refitted(entry))

    def resize(self, belief: Any, problem: Problem, to: Problem, source: Array) -> Any:
        """The belief with what the columns of new items hold; all that was learned stays."""
        new = np.flatnonzero(source < 0)
        if not len(new):
            return belief
        return self._with_items(belief, take_rows(to.Phi, new))

    def extend(self, belief: Any, problem: Problem, to: Problem) -> Any:
        """The belief with what the columns of the new items hold."""
        n = to.L - problem.L
        if not n:
            return belief
        return self._with_items(belief, last_rows(to, n))

    def _with_items(self, belief: Any, rows: Array) -> Any:
        """The belief made anew with a prior that follows the columns of new items too."""
        columns = merge_column_statistics(belief.columns, summarize_columns(rows))
        known = belief._replace(columns=columns)
        return self._made(known, belief.lam, belief.sigma, self._prior_of(known))


def _of_importance(belief: Any) -> Array:
    """½ Σ log v over the rows: what their importance adds to the logarithm of their density."""
    prior = -log(belief.spread).sum(-1)
    noise = belief.rows * log(belief.sigma * math.sqrt(2 * math.pi))
    missing: Array = belief.log_scale - prior + noise
    return missing

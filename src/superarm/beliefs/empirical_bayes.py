"""Empirical Bayes: the linear model with λ and σ of the largest marginal likelihood.

Beside the posterior at its present hyperparameters, a belief keeps the rows themselves, as the
triangular factor of [φ w] without prior and noise. So it can be rebuilt at others with nothing
lost. It is refitted after 1, 2, 4, 8, ... episodes.

    field               shape
    observation_factor          (*B, d+1, d+1)   factor of all rows √v [φ w]
    column_statistics   (*B, 4, d)       of the rows and the catalogue, by `summarize_columns`
    prior_std           (*B, d)          prior std of each coefficient
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Rng,
    add_rows,
    broadcast,
    full,
    is_product,
    log,
    matvec,
    merge_column_statistics,
    nonzero_rows,
    qr_stack,
    summarize_columns,
    take_rows,
    unbroadcast,
    where,
)
from superarm.beliefs.coefficient_prior import (
    INTERCEPT_STD,
    CoefficientPrior,
    merge_with_catalogue,
)
from superarm.beliefs.exploration_bonus import log_growth
from superarm.beliefs.hyperparameters import map_entries, optimal_lam_sigma, require_squares
from superarm.beliefs.likelihoods import GaussianNoise, Likelihood
from superarm.beliefs.marginal_likelihood import pool_statistics, statistics_of_rows
from superarm.contracts import Feedback, Model, Problem
from superarm.gaussian import LOG_ROOT_2PI, RowFactor


def crossed_power_of_two(before: Array, after: Array) -> Array:
    """True where a count has reached one of 1, 2, 4, 8, ... on its way: (*B,) int both.

    >>> import numpy as np
    >>> from superarm.beliefs.empirical_bayes import crossed_power_of_two
    >>> crossed_power_of_two(np.array([0, 3, 5, 5]), np.array([1, 4, 7, 9]))
    array([ True,  True, False,  True])
    """
    # both lose their leading bit if it is the same
    crossed: Array = (before ^ after) > before
    return crossed


class EmpiricalBayes(NamedTuple):
    """Gaussian posterior of θ, its hyperparameters, and what it is rebuilt from."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian, at the hyperparameters below
    log_normalizer: Array  # (*B,)
    observation_factor: Array  # (*B, d+1, d+1)
    n_rows: Array  # (*B,)
    column_statistics: Array  # (*B, 4, d)
    prior_std: Array  # (*B, d)
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    t: Array  # (*B,) int, episodes


@dataclass(frozen=True)
class EmpiricalBayesModel(Model):
    """Algorithm 1 with the values in `fixed`, and else λ and σ of the largest marginal likelihood.

    The prior std of each coefficient follows its column, see `coefficient_prior`; a fixed λ is the
    prior std of every coefficient.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
    >>> rng = np.random.default_rng(0)
    >>> problem = Problem(rng.standard_normal((500, 3)), TopK(5))
    >>> w = problem.Phi @ [1.0, -1.0, 2.0] + 0.1 * rng.standard_normal(500)
    >>> model = EmpiricalBayesModel(fixed={})
    >>> feedback = Feedback.of(problem, np.arange(500), w)
    >>> belief = model.learn(model.prior(problem), problem, feedback)
    >>> float(belief.sigma.round(2))
    0.1
    """

    fixed: Mapping[str, float]
    forgetting: float = 1.0
    likelihood: ClassVar[Likelihood] = GaussianNoise()
    takes_statistics: ClassVar[bool] = True
    fits_hyperparameters: ClassVar[bool] = True
    max_lam: ClassVar[float] = math.inf

    @property
    def fits_row_factors(self) -> bool:
        """True if all it learns of feedback is the `gaussian.RowFactor` of its rows."""
        return self.likelihood.is_gaussian

    @property
    def is_gaussian(self) -> bool:
        """True if weights are linear predictors with Gaussian noise."""
        return self.likelihood.is_gaussian

    @property
    def unit_weights(self) -> bool:
        """True if weights must lie in [0, 1]."""
        return self.likelihood.unit_weights

    def hyperparameters(self, belief: Any) -> dict[str, Array | float]:
        """λ and σ of the last fit."""
        return {"lam": belief.lam, "sigma": belief.sigma}

    def prior(self, problem: Problem) -> Any:
        """The prior at the initial hyperparameters, without rows."""
        batch = problem.batch
        like = problem.Phi
        initial = {"lam": self.likelihood.initial_lam, "sigma": 1.0, **self.fixed}
        lam = full(batch, initial["lam"], like)
        column_statistics = summarize_columns(problem.Phi)
        coefficients = self.coefficient_prior(column_statistics)
        prior_std = coefficients.std(lam, full(batch, INTERCEPT_STD, like))
        return EmpiricalBayes(
            *gaussian.prior(problem.d, prior_std, batch, like),
            observation_factor=gaussian.empty_factor(problem.d, batch, like),
            n_rows=full(batch, 0.0, like),
            column_statistics=column_statistics,
            prior_std=prior_std,
            lam=lam,
            sigma=full(batch, initial["sigma"], like),
            t=full(batch, 0, like),
        )

    def from_factor(
        self, factor: Array, problem: Problem, hyperparameters: Mapping[str, float], t: Array
    ) -> Any:
        """The belief with this factor at these hyperparameters, without rows for later fits."""
        batch = factor.shape[:-2]
        shared = None if is_product(problem.Phi) else unbroadcast(problem.Phi)
        if shared is None:
            start = self.prior(problem)
        else:  # all start alike
            alone = self.prior(Problem(shared, problem.oracle))
            start = type(alone)(*(broadcast(np.asarray(x), batch[0]) for x in alone))
        return start._replace(
            factor=factor,
            log_normalizer=full(batch, 0.0, factor),
            lam=full(batch, hyperparameters["lam"], factor),
            sigma=full(batch, hyperparameters["sigma"], factor),
            t=t,
        )

    def prior_std(self, belief: Any, problem: Problem) -> Array:
        """Prior std of each coefficient at the λ of the last fit, (*B, d)."""
        std: Array = belief.prior_std
        return std

    def coefficient_prior(self, column_statistics: Array) -> CoefficientPrior:
        """Prior stds given λ; a fixed λ is the prior std of every coefficient."""
        has_fixed_lam = "lam" in self.fixed
        return CoefficientPrior.from_columns(column_statistics, isotropic=has_fixed_lam)

    # --- the posterior ------------------------------------------------------------------------

    def coefficients(self, belief: Any) -> Array:
        """θ̄_t: (*B, d)."""
        return gaussian.mean(belief)

    def mean(self, belief: Any, problem: Problem) -> Array:
        """φ_e·θ̄_t: (*B, L)."""
        theta = gaussian.mean(belief)
        return matvec(problem.Phi, theta)

    def std(self, belief: Any, problem: Problem) -> Array:
        """√(φ_eᵀ Σ_t φ_e): (*B, L)."""
        return gaussian.std(belief, problem.Phi)

    def sample(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """φ_e·θ_t with θ_t ~ N(θ̄_t, Σ_t): (*B, L)."""
        theta = gaussian.sample(belief, rng)
        return matvec(problem.Phi, theta)

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight of a linear predictor."""
        return self.likelihood.inverse_link(linear_predictor)

    def ucb_growth(self, width: Array, belief: Any) -> Array | float:
        """As `log_growth`: bounds of items never seen may be wrong at first."""
        return log_growth(width, belief.sigma, belief.t)

    # --- learning -----------------------------------------------------------------------------

    def learn(self, belief: Any, problem: Problem, feedback: Feedback) -> Any:
        """Algorithm 1 at the present hyperparameters; a new fit where it is due."""
        keep = gaussian.keep_after(
            self.forgetting,
            feedback.episodes,
        )
        past = self.forget(belief, problem, keep)
        targets, _ = self.likelihood.as_gaussian(past, feedback)
        return self._learn_rows(past, targets)

    def _learn_rows(self, past: Any, feedback: Feedback) -> Any:
        """Condition on feedback; refit when the number of episodes crosses a power of two."""
        rows = RowFactor(past.observation_factor, past.n_rows)
        posterior, rows = gaussian.condition_and_append(
            past,
            rows,
            feedback,
            past.sigma,
        )
        require_squares(rows.factor)
        present = nonzero_rows(feedback.rows)
        n = where(present, feedback.n_observations, 0.0)
        t = past.t + feedback.episodes * present.any(-1)
        observed = past._replace(
            **posterior._asdict(),
            observation_factor=rows.factor,
            n_rows=rows.n,
            column_statistics=add_rows(past.column_statistics, feedback.rows, n),
            t=t,
        )
        due = crossed_power_of_two(past.t, t)
        return map_entries(due, observed, lambda entry, _: self._refit(entry))

    def learn_factor(
        self, belief: Any, problem: Problem, rows: RowFactor, column_statistics: Array
    ) -> Any:
        """Condition on all rows of a factor as one episode, and refit.

        Args:
            belief: a single belief.
            problem: not used.
            rows: the factor of the rows.
            column_statistics: count, squares, least and largest of each column, (4, d).
        """
        posterior = gaussian.condition_on_factor(belief, rows, belief.sigma)
        observed = belief._replace(
            **posterior._asdict(),
            observation_factor=qr_stack(belief.observation_factor, rows.factor),
            n_rows=belief.n_rows + rows.n,
            column_statistics=merge_column_statistics(belief.column_statistics, column_statistics),
            t=belief.t + 1,
        )
        return self._refit(observed)

    def _refit(self, belief: Any) -> Any:
        """Single belief rebuilt at the hyperparameters of the largest marginal likelihood."""
        rows = RowFactor(belief.observation_factor, belief.n_rows)
        return self.refit_to_groups(belief, [rows])

    def refit_to_groups(self, belief: Any, groups: Sequence[RowFactor]) -> Any:
        """Single belief rebuilt at the best hyperparameters for groups of rows, each with a θ of
        its own.
        """
        coefficients = self.coefficient_prior(belief.column_statistics)
        intercept = coefficients.intercept_column
        intercept_std = self._intercept_std(belief, intercept)
        unit_std = coefficients.std(np.ones(()), intercept_std)
        units = np.append(unit_std, 1.0)
        parts = []
        for rows in groups:
            part = statistics_of_rows(rows.factor * units, float(rows.n), intercept)
            parts.append(part)
        optimum = optimal_lam_sigma(
            pool_statistics(parts),
            self.fixed,
            self.likelihood.expected_size,
        )
        lam, sigma = optimum or (belief.lam, belief.sigma)
        if optimum and "lam" not in self.fixed:
            lam = min(lam, self.max_lam)
        prior_std = coefficients.std(np.asarray(lam), intercept_std)
        return self._rebuild(
            belief,
            prior_std,
            np.asarray(lam),
            np.asarray(sigma),
        )

    def rebuild(self, belief: Any, lam: Array, sigma: Array) -> Any:
        """Single belief made of its rows at other hyperparameters."""
        coefficients = self.coefficient_prior(belief.column_statistics)
        intercept_std = self._intercept_std(belief, coefficients.intercept_column)
        prior_std = coefficients.std(lam, intercept_std)
        return self._rebuild(belief, prior_std, lam, sigma)

    def _rebuild(self, belief: Any, prior_std: Array, lam: Array, sigma: Array) -> Any:
        """Single belief made of its rows at these prior stds of the coefficients."""
        prior = gaussian.prior(len(prior_std), prior_std)
        rows = RowFactor(
            belief.observation_factor,
            belief.n_rows,
            _half_log_importance(belief),
        )
        posterior = gaussian.condition_on_factor(prior, rows, float(sigma))
        return belief._replace(
            **posterior._asdict(),
            prior_std=prior_std,
            lam=lam,
            sigma=sigma,
        )

    def _intercept_std(self, belief: Any, intercept: int | None) -> Array:
        """Prior std of the level: relative to √(Σ w²/Σ 1), or to the expected size."""
        size = self.likelihood.expected_size
        if size is None and intercept is not None:
            size = _rms_weight(belief, intercept)
        return np.asarray(INTERCEPT_STD * (size or 1.0))

    # --- beliefs that change without feedback -------------------------------------------------

    def forget(self, belief: Any, problem: Problem, keep: float) -> Any:
        """The belief with all evidence counted `keep` times, and the prior in full."""
        if keep == 1:
            return belief
        prior = gaussian.prior_like(belief, belief.prior_std)
        return belief._replace(
            **gaussian.forget(belief, prior, keep)._asdict(),
            observation_factor=keep**0.5 * belief.observation_factor,
            n_rows=keep * belief.n_rows,
        )

    def merge(self, belief: Any, other: Any, problem: Problem) -> Any:
        """All rows of both, at the hyperparameters of the largest marginal likelihood."""
        n_rows = belief.n_rows + other.n_rows
        other_noise = _log_noise(other._replace(sigma=belief.sigma))
        both = belief._replace(
            observation_factor=qr_stack(belief.observation_factor, other.observation_factor),
            n_rows=n_rows,
            column_statistics=merge_with_catalogue(
                belief.column_statistics,
                other.column_statistics,
                summarize_columns(problem.Phi),
            ),
            log_normalizer=belief.log_normalizer - other_noise + _half_log_importance(other),
            t=belief.t + other.t,
        )
        return map_entries(n_rows >= 0, both, lambda entry, _: self._refit(entry))

    def resize(self, belief: Any, problem: Problem, to: Problem, source: Array) -> Any:
        """The belief with the columns of new items; all that was learned stays."""
        new = np.flatnonzero(source < 0)
        if not len(new):
            return belief
        return self._extend_columns(belief, take_rows(to.Phi, new))

    def extend(self, belief: Any, problem: Problem, to: Problem) -> Any:
        """The belief with the columns of items behind those of `problem`."""
        n = to.L - problem.L
        if not n:
            return belief
        return self._extend_columns(belief, to.last_rows(n))

    def _extend_columns(self, belief: Any, rows: Array) -> Any:
        """The belief rebuilt with a prior that follows the columns of new rows too."""
        columns = merge_column_statistics(
            belief.column_statistics,
            summarize_columns(rows),
        )
        extended = belief._replace(column_statistics=columns)
        return self.rebuild(extended, belief.lam, belief.sigma)


def _rms_weight(belief: Any, intercept: int) -> float:
    """Root mean square √(Σ v w²/Σ v) of the weights of a single belief; 1 if all are 0."""
    squares = (belief.observation_factor**2).sum(-2)
    if squares[-1] == 0:
        return 1.0
    constant = belief.column_statistics[2, intercept]
    n = squares[intercept] / constant**2
    mean_square = squares[-1] / n
    return float(mean_square**0.5)


def _log_noise(belief: Any) -> Array:
    """Σ log(σ √2π) over the rows of a belief."""
    log_noise_of_row = log(belief.sigma) + LOG_ROOT_2PI
    log_noise: Array = belief.n_rows * log_noise_of_row
    return log_noise


def _half_log_importance(belief: Any) -> Array:
    """½ Σ log v over the rows of a belief."""
    log_prior = -log(belief.prior_std).sum(-1)
    log_noise = _log_noise(belief)
    half_log_v: Array = belief.log_normalizer - log_prior + log_noise
    return half_log_v

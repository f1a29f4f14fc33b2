"""Linear model with item effects: what features explain, and each item's deviation from it.

    η_e = φ_e·θ + δ_e,   θ ~ N(0, λ²I),   δ_e ~ N(0, τ²),   noise N(0, σ²)

The linear predictor η_e is the mean weight of the item, or its log-odds if weights are clicks. The
equations are in `beliefs.shrinkage`. Linear models forget in every episode. This one forgets in
steps of 5 %, as each step rebuilds the belief.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    Rng,
    add_at,
    add_rows,
    as_like,
    as_stream,
    full,
    is_tensor,
    item_normal,
    log,
    matvec,
    merge_column_statistics,
    nonzero_rows,
    qr_stack,
    summarize_columns,
    take_rows,
    where,
    with_column,
)
from superarm.beliefs.coefficient_prior import (
    INTERCEPT_STD,
    CoefficientPrior,
    merge_with_catalogue,
)
from superarm.beliefs.empirical_bayes import crossed_power_of_two
from superarm.beliefs.hyperparameters import map_entries, optimal_hyperparameters, require_squares
from superarm.beliefs.item_statistics import (
    ItemMeans,
    RandomEffects,
    discount_statistics,
    drop_items,
    index_per_feature,
    item_means,
    learn_unknown_items,
    mean_features_of,
    merge_statistics,
    rms_weight,
)
from superarm.beliefs.likelihoods import GaussianNoise, Likelihood
from superarm.beliefs.marginal_likelihood import statistics_of_items
from superarm.beliefs.shrinkage import (
    fill_moments,
    group_by_item,
    has_repeats,
    item_targets,
    item_updates,
    learn_residuals,
    learn_within_items,
    residual_features,
    residual_rows,
    shrinkage,
)
from superarm.contracts import Feedback, Model, Moments, Problem
from superarm.gaussian import RowFactor

FORGET_STEP = 0.05
"""Share of the evidence that is forgotten in one step."""


@dataclass(frozen=True)
class RandomEffectsModel(Model):
    """Linear model with item effects. Hyperparameters not in `fixed` are fitted by empirical Bayes.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.random_effects import RandomEffectsModel
    >>> model = RandomEffectsModel(fixed={"lam": 1.0, "sigma": 0.1, "tau": 1.0})
    >>> problem = Problem(np.ones((2, 1)), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([3.0]))
    >>> model.mean(model.learn(model.prior(problem), problem, feedback), problem).round(2)
    array([2.99, 1.49])
    """

    fixed: Mapping[str, float]
    forgetting: float = 1.0
    contexts: bool = False
    """True if the features of an item may differ from call to call."""
    likelihood: Likelihood = field(default_factory=GaussianNoise)
    per_item: ClassVar[tuple[str, ...]] = ("n", "weight_sums", "feature_sums")
    takes_statistics: ClassVar[bool] = True

    @property
    def is_gaussian(self) -> bool:
        """True if weights are linear predictors with Gaussian noise."""
        return self.likelihood.is_gaussian

    @property
    def unit_weights(self) -> bool:
        """True if weights must lie in [0, 1]."""
        return self.likelihood.unit_weights

    @property
    def fixed_features(self) -> bool:
        """True if the features of an item must stay the same: without `contexts`."""
        return not self.contexts

    def prior(self, problem: Problem) -> RandomEffects:
        """Nothing observed, with the initial hyperparameters."""
        batch = problem.batch
        like = problem.Phi
        d = problem.d
        values = {"lam": self.likelihood.initial_lam, "sigma": 1.0, "tau": 1.0, **self.fixed}
        lam = full(batch, values["lam"], like)
        zero = full(batch, 0.0, like)
        zeros = full((*batch, problem.L), 0.0, like)
        column_statistics = summarize_columns(problem.Phi)
        prior_std = self._prior_std(column_statistics, lam, full(batch, INTERCEPT_STD, like))
        return RandomEffects(
            *gaussian.prior(d, prior_std, batch, like),
            n=zeros,
            weight_sums=zeros,
            feature_sums=full((*batch, d * self.contexts, problem.L), 0.0, like),
            residual_factor=gaussian.empty_factor(d, batch, like),
            n_residuals=zero,
            unknown_item_factor=gaussian.empty_factor(d, batch, like),
            n_unknown_rows=zero,
            column_statistics=column_statistics,
            prior_std=prior_std,
            lam=lam,
            sigma=full(batch, values["sigma"], like),
            tau=full(batch, values["tau"], like),
            t=full(batch, 0, like),
        )

    def hyperparameters(self, belief: RandomEffects) -> dict[str, Array | float]:
        """λ, σ and τ of the last search, or as fixed."""
        return {"lam": belief.lam, "sigma": belief.sigma, "tau": belief.tau}

    # --- the posterior ------------------------------------------------------------------------

    def coefficients(self, belief: RandomEffects) -> Array:
        """θ̄_t: (*B, d)."""
        return gaussian.mean(belief)

    def conditional_moments(self, belief: RandomEffects, problem: Problem, theta: Array) -> Moments:
        """Mean and variance of the linear predictors given θ: (*B, L) each."""
        linear = matvec(problem.Phi, theta)
        predicted = matvec(belief.feature_sums.mT, theta) if self.contexts else linear
        if is_tensor(linear):
            n = where(belief.n > 0, belief.n, 1.0) if self.contexts else 1.0
            effect = shrinkage(belief, belief.n, belief.weight_sums)
            explained = (1 - effect.share) * predicted / n
            mean = linear + effect.offset - explained
            return Moments(mean, effect.variance)
        L = linear.shape[-1]
        moments = Moments(np.empty(linear.shape), np.empty(linear.shape))
        fill_moments(
            moments.mean.reshape(-1, L),
            moments.variance.reshape(-1, L),
            linear.reshape(-1, L),
            predicted.reshape(-1, L),
            belief.n.reshape(-1, L),
            belief.weight_sums.reshape(-1, L),
            belief.sigma.reshape(-1),
            belief.tau.reshape(-1),
            self.contexts,
        )
        return moments

    def mean(self, belief: RandomEffects, problem: Problem) -> Array:
        """Posterior mean of the linear predictors, E η_e: (*B, L)."""
        theta = gaussian.mean(belief)
        return self.conditional_moments(belief, problem, theta).mean

    def item_effects(self, belief: RandomEffects, problem: Problem) -> Array:
        """E δ_e: (*B, L)."""
        theta = gaussian.mean(belief)
        linear = matvec(problem.Phi, theta)
        effects: Array = self.mean(belief, problem) - linear
        return effects

    def std(self, belief: RandomEffects, problem: Problem, explore: float = 1.0) -> Array:
        """√(var E[η_e | θ] + explore² E[var(η_e | θ)]): (*B, L), std of η_e if explore=1."""
        effect = shrinkage(belief, belief.n, belief.weight_sums)
        if self.contexts:
            item = as_like(belief.n, np.arange(problem.L))
            items = item + full(belief.n.shape, 0, belief.n)
            rows = take_rows(problem.Phi, items)
            residuals = residual_rows(belief, items, rows)
            linear_std = gaussian.std(belief, residuals.rows)
        else:
            linear_std = effect.share * gaussian.std(belief, problem.Phi)
        variance = linear_std**2 + explore**2 * effect.variance
        std: Array = variance**0.5
        return std

    def sample(
        self, belief: RandomEffects, problem: Problem, rng: Rng, explore: float = 1.0
    ) -> Array:
        """E[η_e | θ_t] + explore·N(0, var(η_e | θ_t)) with θ_t ~ N(θ̄_t, Σ_t): (*B, L)."""
        theta = gaussian.sample(belief, rng)
        moments = self.conditional_moments(belief, problem, theta)
        if explore == 0 or not belief.tau.any():
            return moments.mean
        std = explore * moments.variance**0.5
        stream = as_stream(rng, belief.tau)
        noise = item_normal(stream, moments.mean)
        scores: Array = moments.mean + std * noise
        return scores

    def deviation_variance(self, belief: RandomEffects) -> Array:
        """Variance of δ_e given θ: (*B, L)."""
        effect = shrinkage(belief, belief.n, belief.weight_sums)
        return effect.variance

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight of a linear predictor."""
        return self.likelihood.inverse_link(linear_predictor)

    # --- learning -----------------------------------------------------------------------------

    def learn(self, belief: RandomEffects, problem: Problem, feedback: Feedback) -> RandomEffects:
        """Condition θ and the item effects on feedback; refit where it is due."""
        for block in self.likelihood.blocks(feedback):
            belief = self._learn_block(belief, problem, block)
        return belief

    def _learn_block(
        self, belief: RandomEffects, problem: Problem, feedback: Feedback
    ) -> RandomEffects:
        """Condition on feedback; refit when the number of episodes crosses a power of two."""
        is_row = (feedback.A >= 0) | nonzero_rows(feedback.rows)
        t = belief.t + feedback.episodes * is_row.any(-1)
        past = self._forget_until(belief, problem, t)
        targets = item_targets(past, feedback, self.likelihood)
        after = self._learn_targets(past, targets)._replace(t=t)
        is_free = len(self.fixed) < 3
        is_due = crossed_power_of_two(belief.t, t) & is_free
        return self._refit_entries(is_due, after, problem)

    def _learn_targets(self, belief: RandomEffects, feedback: Feedback) -> RandomEffects:
        """Condition on feedback at the present hyperparameters."""
        has_item = feedback.A >= 0
        is_nonzero = nonzero_rows(feedback.rows)
        is_unknown = is_nonzero & ~has_item
        require_squares(feedback.rows, where(is_nonzero | has_item, feedback.w, 0.0))
        importance = full(feedback.w.shape, feedback.importance, belief.sigma)
        n = full(feedback.w.shape, feedback.n_observations, belief.sigma)
        weighted = feedback._replace(importance=importance)
        if has_item.any():
            belief = self._learn_items(belief, weighted)
        if is_unknown.any():
            rows = where(is_unknown[..., None], feedback.rows, 0.0)
            belief = learn_unknown_items(belief, weighted._replace(rows=rows))
        counts = where(is_nonzero, n, 0.0)
        column_statistics = add_rows(belief.column_statistics, feedback.rows, counts)
        return belief._replace(column_statistics=column_statistics)

    def _learn_items(self, belief: RandomEffects, feedback: Feedback) -> RandomEffects:
        """Condition on observations of items of the catalogue, which may repeat.

        Where features stay the same, repeated observations are counted one after the other.
        """
        one_by_one = not self.contexts and not is_tensor(feedback.A)
        if one_by_one or not has_repeats(feedback.A):
            after = self._condition_on_items(belief, feedback)
        else:
            grouped = group_by_item(feedback)
            after = self._condition_on_items(belief, grouped.means)
            after = learn_within_items(after, grouped)
        return learn_residuals(after, feedback) if feedback.is_summed else after

    def _condition_on_items(self, belief: RandomEffects, feedback: Feedback) -> RandomEffects:
        """Observations of an item, given its earlier ones, are rows for `gaussian.condition`.

        An observation of importance v is as precise as v observations.
        """
        A = feedback.A
        has_item = A >= 0
        rows = where(has_item[..., None], feedback.rows, 0.0)
        w = where(has_item, feedback.w, 0.0)
        v = full(A.shape, feedback.importance, w)
        update = item_updates(belief, A, w, v)
        residual = residual_features(belief, A, rows, update.shrinkage)
        posterior = gaussian.condition(belief, residual, w - update.offset, update.noise_std)
        after = belief._replace(
            factor=posterior.factor,
            log_normalizer=posterior.log_normalizer - update.log_importance.sum(-1) / 2,
            n=update.n,
            weight_sums=update.weight_sums,
            n_residuals=belief.n_residuals + has_item.sum(-1),
        )
        if not self.contexts:
            residual_ss = (update.between_weight * update.distance_to_mean**2).sum(-1)
            residual_factor = gaussian.add_residual(belief.residual_factor, residual_ss)
            return after._replace(residual_factor=residual_factor)
        off_mean = with_column(rows - mean_features_of(belief, A), update.distance_to_mean, 1.0)
        weighted = update.between_weight[..., None] ** 0.5 * off_mean
        index = index_per_feature(belief.feature_sums, A)
        new_features = where(has_item, v, 0.0)[..., None] * rows
        return after._replace(
            residual_factor=qr_stack(belief.residual_factor, weighted),
            feature_sums=add_at(belief.feature_sums, index, new_features.mT),
        )

    # --- beliefs at other hyperparameters, or with less evidence ------------------------------

    def _refit_entries(self, due: Array, belief: RandomEffects, problem: Problem) -> RandomEffects:
        """The batch of beliefs with those that are due refitted."""
        return map_entries(due, belief, lambda entry, i: self._refit(entry, problem.Phi[i]))

    def _refit(self, belief: RandomEffects, Phi: Features) -> RandomEffects:
        """A single belief at the hyperparameters of the largest marginal likelihood."""
        items = item_means(belief, Phi)
        column_scale = full(belief.prior_std.shape, 1.0)
        flat_column = None
        if "lam" not in self.fixed:
            level_std = self._level_std(belief, items)
            column_scale = self._prior_std(belief.column_statistics, full((), 1.0), level_std)
            flat_column = CoefficientPrior.from_columns(belief.column_statistics).intercept_column
        units = np.append(column_scale, 1.0)
        statistics, moments = statistics_of_items(
            items.n,
            items.rows * units,
            belief.residual_factor * units,
            float(belief.n_residuals),
            flat_column=flat_column,
            unknown_items=belief.unknown_item_factor * units,
            n_unknown=float(belief.n_unknown_rows),
        )
        expected_size = self.likelihood.expected_size
        optimum = optimal_hyperparameters(statistics, moments, self.fixed, expected_size)
        if optimum is None:
            return self._rebuild(belief, Phi, belief.lam, belief.sigma, belief.tau)
        return self._rebuild(belief, Phi, *map(np.asarray, optimum))

    def _rebuild(
        self, belief: RandomEffects, Phi: Features, lam: Array, sigma: Array, tau: Array
    ) -> RandomEffects:
        """A single belief at these hyperparameters: of item means, residuals and unknown items."""
        items = item_means(belief, Phi)
        level_std = self._level_std(belief, items)
        prior_std = self._prior_std(belief.column_statistics, lam, level_std)
        posterior = gaussian.prior(len(prior_std), prior_std)
        noise = (tau**2 + sigma**2 / items.n) ** 0.5
        posterior = gaussian.condition(posterior, items.rows[:, :-1], items.rows[:, -1], noise)
        residuals = RowFactor(belief.residual_factor, belief.n_residuals - len(items.n))
        posterior = gaussian.condition_on_factor(posterior, residuals, float(sigma))
        unknown = RowFactor(belief.unknown_item_factor, belief.n_unknown_rows)
        posterior = gaussian.condition_on_factor(
            posterior, unknown, float((sigma**2 + tau**2) ** 0.5)
        )
        # all rows of an item have the density of their mean times √(2πσ²/n) Π √(v/2πσ²); the
        # belief leaves out Π √v
        return belief._replace(
            factor=posterior.factor,
            log_normalizer=posterior.log_normalizer - log(items.n).sum() / 2,
            prior_std=prior_std,
            lam=lam,
            sigma=sigma,
            tau=tau,
        )

    def _prior_std(self, column_statistics: Array, lam: Array, level_std: Array) -> Array:
        """Prior std of each coefficient: (*B, d)."""
        has_fixed_lam = "lam" in self.fixed
        prior = CoefficientPrior.from_columns(column_statistics, isotropic=has_fixed_lam)
        return prior.std(lam, level_std)

    def _level_std(self, belief: RandomEffects, items: ItemMeans) -> Array:
        """Prior std of the level: relative to √(Σ w²/Σ 1), or to the expected size."""
        size = self.likelihood.expected_size
        if size is None:
            size = rms_weight(belief, items) or 1.0
        return np.asarray(INTERCEPT_STD * size)

    def _forget_until(self, belief: RandomEffects, problem: Problem, t: Array) -> RandomEffects:
        """The belief in episode t, after the steps of forgetting that lie between."""
        if self.forgetting == 1:
            return belief
        episodes_per_step = max(1, round(FORGET_STEP / (1 - self.forgetting)))
        steps = t // episodes_per_step - belief.t // episodes_per_step

        def forget(entry: RandomEffects, index: tuple[int, ...]) -> RandomEffects:
            keep = gaussian.keep_after(self.forgetting, episodes_per_step * int(steps[index]))
            return self._forget_entry(entry, problem.Phi[index], keep)

        return map_entries(steps > 0, belief, forget)

    def forget(self, belief: RandomEffects, problem: Problem, keep: float) -> RandomEffects:
        """The belief with all evidence counted `keep` times, rebuilt from its statistics."""
        gaussian.require_keep(keep)
        if keep == 1:
            return belief
        return map_entries(
            belief.t >= 0,
            belief,
            lambda entry, i: self._forget_entry(entry, problem.Phi[i], keep),
        )

    def _forget_entry(self, belief: RandomEffects, Phi: Features, keep: float) -> RandomEffects:
        """A single belief with all evidence counted `keep` times."""
        after = discount_statistics(belief, keep)
        return self._rebuild(after, Phi, belief.lam, belief.sigma, belief.tau)

    def merge(self, belief: RandomEffects, other: RandomEffects, problem: Problem) -> RandomEffects:
        """The belief after the evidence of both, refitted."""
        catalogue = summarize_columns(problem.Phi)
        columns = merge_with_catalogue(belief.column_statistics, other.column_statistics, catalogue)
        both = merge_statistics(belief, other)
        both = both._replace(column_statistics=columns)
        return self._refit_entries(both.t >= 0, both, problem)

    # --- other catalogues ---------------------------------------------------------------------

    def resize(
        self, belief: RandomEffects, problem: Problem, to: Problem, source: Array
    ) -> RandomEffects:
        """The belief about another catalogue; items that leave become unknown items."""
        gone = np.setdiff1d(np.arange(problem.L), source)
        dropped = drop_items(belief, problem.Phi, gone)
        after: RandomEffects = super().resize(dropped, problem, to, source)
        new = np.flatnonzero(source < 0)
        if not len(new):
            return after
        return self._extend_columns(after, to.Phi, take_rows(to.Phi, new))

    def extend(self, belief: RandomEffects, problem: Problem, to: Problem) -> RandomEffects:
        """The belief about a catalogue with more items behind those of `problem`."""
        n = to.L - problem.L
        if not n:
            return belief
        rows = to.last_rows(n)
        start = self.prior(Problem(rows, to.oracle))
        return self._extend_columns(self.append_items(belief, start), to.Phi, rows)

    def _extend_columns(self, belief: RandomEffects, Phi: Features, rows: Array) -> RandomEffects:
        """The belief with a prior that follows the columns of new items too."""
        new_columns = summarize_columns(rows)
        columns = merge_column_statistics(belief.column_statistics, new_columns)
        after = belief._replace(column_statistics=columns)
        return self._rebuild(after, Phi, belief.lam, belief.sigma, belief.tau)

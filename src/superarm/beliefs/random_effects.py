"""The mixed-effects model: what the features explain, and each item's own deviation from it.

    w̄(e) = φ_e·θ + δ_e,   θ ~ N(0, λ²I),   δ_e ~ N(0, τ²),   noise N(0, σ²)

The equations are in `beliefs.item_statistics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    Rng,
    add_at,
    add_rows,
    as_float64,
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
    solve_rows,
    summarize_columns,
    take,
    take_rows,
    where,
    with_column,
)
from superarm.beliefs.empirical_bayes import (
    INTERCEPT_STD,
    CoefficientPrior,
    crossed_power_of_two,
    merge_with_catalogue,
)
from superarm.beliefs.expectation_propagation import expectation_propagation
from superarm.beliefs.hyperparameters import map_entries, optimal_hyperparameters, require_squares
from superarm.beliefs.item_statistics import (
    Means,
    RandomEffects,
    Rows,
    by_item,
    counted,
    effect_covariance,
    for_each_feature,
    learn_around_means,
    learn_loose_rows,
    learn_within,
    look_at,
    means_of,
    repeats,
    rows_before,
    rows_between,
    shares,
    some_rows,
    without,
)
from superarm.beliefs.likelihoods import GaussianNoise, Likelihood
from superarm.beliefs.marginal_likelihood import statistics_of_items
from superarm.contracts import Feedback, Model, Moments, Problem, last_rows
from superarm.gaussian import RowFactor

FADED = 0.05
"""The share of the past that may be forgotten at once."""


@dataclass(frozen=True)
class RandomEffectsModel(Model):
    """A linear model and deviations per item, at scales of its own choosing where not `fixed`.

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
    per_item: ClassVar[tuple[str, ...]] = ("n", "total", "past")
    takes_statistics: ClassVar[bool] = True

    @property
    def unit_weights(self) -> bool:
        """True if weights must lie in [0, 1]."""
        return self.likelihood.unit_weights

    def prior(self, problem: Problem) -> RandomEffects:
        """Nothing observed, with wide scales where they are not known."""
        batch = problem.batch
        like = problem.Phi
        d = problem.d
        scales = {"lam": self.likelihood.initial_lam, "sigma": 1.0, "tau": 1.0, **self.fixed}
        lam = full(batch, scales["lam"], like)
        nothing = full(batch, 0.0, like)
        unseen = full((*batch, problem.L), 0.0, like)
        columns = summarize_columns(problem.Phi)
        spread = self._spread(columns, lam, full(batch, INTERCEPT_STD, like))
        return RandomEffects(
            *gaussian.prior(d, spread, batch, like),
            n=unseen,
            total=unseen,
            past=full((*batch, d * self.contexts, problem.L), 0.0, like),
            within=gaussian.empty_factor(d, batch, like),
            observed=nothing,
            data=gaussian.empty_factor(d, batch, like),
            rows=nothing,
            column_statistics=columns,
            prior_std=spread,
            lam=lam,
            sigma=full(batch, scales["sigma"], like),
            tau=full(batch, scales["tau"], like),
            t=full(batch, 0, like),
        )

    @property
    def fixed_features(self) -> bool:
        """True if the features of an item must stay the same: without `contexts`."""
        return not self.contexts

    def hyperparameters(self, belief: RandomEffects) -> dict[str, Array | float]:
        """λ, σ and τ of the last search, or as fixed."""
        return {"lam": belief.lam, "sigma": belief.sigma, "tau": belief.tau}

    def _spread(self, columns: Array, lam: Array, level: Array) -> Array:
        """The prior stds of θ: (*B, d)."""
        return CoefficientPrior.from_columns(columns, isotropic="lam" in self.fixed).std(lam, level)

    # --- what is believed ---------------------------------------------------------------------

    def coefficients(self, belief: RandomEffects) -> Array:
        """θ̄_t: (*B, d)."""
        return gaussian.mean(belief)

    def conditional_moments(self, belief: RandomEffects, problem: Problem, theta: Array) -> Moments:
        """Mean and variance of w̄(e) given θ, of all items: (*B, L) each."""
        linear = matvec(problem.Phi, theta)
        before = linear
        if self.contexts:
            before = matvec(belief.past.mT, theta)
        if is_tensor(linear):
            if self.contexts:
                before = before / where(belief.n > 0, belief.n, 1.0)
            of = shares(belief, belief.n, belief.total)
            return Moments(linear + of.pull - (1 - of.keep) * before, of.variance)
        L = linear.shape[-1]
        out = Moments(np.empty(linear.shape), np.empty(linear.shape))
        look_at(
            out.mean.reshape(-1, L),
            out.variance.reshape(-1, L),
            linear.reshape(-1, L),
            before.reshape(-1, L),
            belief.n.reshape(-1, L),
            belief.total.reshape(-1, L),
            belief.sigma.reshape(-1),
            belief.tau.reshape(-1),
            self.contexts,
        )
        return out

    def mean(self, belief: RandomEffects, problem: Problem) -> Array:
        """E w̄(e): (*B, L)."""
        return self.conditional_moments(belief, problem, gaussian.mean(belief)).mean

    def item_effects(self, belief: RandomEffects, problem: Problem) -> Array:
        """E δ_e: (*B, L)."""
        theta = gaussian.mean(belief)
        deviation: Array = self.mean(belief, problem) - matvec(problem.Phi, theta)
        return deviation

    def std(self, belief: RandomEffects, problem: Problem, explore: float = 1.0) -> Array:
        """√(var E[w̄(e) | θ] + explore² E[var(w̄(e) | θ)]): (*B, L); with 1 that of w̄(e)."""
        of = shares(belief, belief.n, belief.total)
        if self.contexts:
            place = as_like(belief.n, np.arange(problem.L))
            every = place + full(belief.n.shape, 0, belief.n)
            rows = self.rows_of(belief, every, take_rows(problem.Phi, every)).rows
            linear = gaussian.std(belief, rows)
        else:
            linear = of.keep * gaussian.std(belief, problem.Phi)
        width: Array = (linear**2 + explore**2 * of.variance) ** 0.5
        return width

    def sample(
        self, belief: RandomEffects, problem: Problem, rng: Rng, explore: float = 1.0
    ) -> Array:
        """E[w̄(e) | θ_t] + explore·N(0, var(w̄(e) | θ_t)) with θ_t ~ N(θ̄_t, Σ_t): (*B, L)."""
        of = self.conditional_moments(belief, problem, gaussian.sample(belief, rng))
        if explore == 0 or not belief.tau.any():
            return of.mean
        noise = item_normal(as_stream(rng, belief.tau), of.mean)
        scores: Array = of.mean + explore * of.variance**0.5 * noise
        return scores

    def deviation_variance(self, belief: RandomEffects) -> Array:
        """The variance of δ_e given θ: (*B, L)."""
        return shares(belief, belief.n, belief.total).variance

    # --- learning -----------------------------------------------------------------------------

    def inverse_link(self, linear_predictor: Array) -> Array:
        """Mean weight of a linear predictor."""
        return self.likelihood.inverse_link(linear_predictor)

    def learn(self, belief: RandomEffects, problem: Problem, feedback: Feedback) -> RandomEffects:
        """Bayes' rule for θ and δ together; a new fit where it is due."""
        for block in self.likelihood.blocks(feedback):
            belief = self._learn_block(belief, problem, block)
        return belief

    def _learn_block(
        self, belief: RandomEffects, problem: Problem, feedback: Feedback
    ) -> RandomEffects:
        """Condition on feedback; refit when the number of episodes crosses a power of two."""
        own = feedback.A >= 0
        present = nonzero_rows(feedback.rows)
        loose = present & ~own
        t = belief.t + feedback.episodes * (own | loose).any(-1)
        past = self._past(belief, problem, t)
        known = self._absorbed(past, self._as_gaussian(past, feedback))
        due = crossed_power_of_two(belief.t, t) & (len(self.fixed) < 3)
        return self._where(due, known._replace(t=t), problem, self._refitted)

    def _as_gaussian(self, belief: RandomEffects, feedback: Feedback) -> Feedback:
        """Gaussian targets that stand for the feedback."""
        if not self.likelihood.unit_weights:
            return feedback
        present = nonzero_rows(feedback.rows) | (feedback.A >= 0)
        of = self.rows_of(belief, feedback.A, as_float64(feedback.rows))
        X = solve_rows(belief.factor, of.rows)
        sites = expectation_propagation(
            matvec(of.rows, gaussian.mean(belief)) + of.pull,
            X @ X.mT + effect_covariance(of.variance, feedback.A),
            where(present, feedback.w, 0.0),
            full(feedback.w.shape, feedback.importance, X),
            present,
        )
        return feedback._replace(w=sites.y, importance=sites.precision)

    def _absorbed(self, belief: RandomEffects, feedback: Feedback) -> RandomEffects:
        """The belief with what the feedback says at the present scales."""
        own = feedback.A >= 0
        present = nonzero_rows(feedback.rows)
        loose = present & ~own
        require_squares(feedback.rows, where(present | own, feedback.w, 0.0))
        v = full(feedback.w.shape, feedback.importance, belief.total)
        feedback = feedback._replace(importance=v)
        if own.any():
            belief = self._learn_items(belief, feedback)
        if loose.any():
            belief = learn_loose_rows(belief, some_rows(feedback, loose))
        times = where(present, full(present.shape, feedback.n_observations, belief.total), 0.0)
        return belief._replace(
            column_statistics=add_rows(belief.column_statistics, feedback.rows, times)
        )

    def rows_of(self, belief: RandomEffects, A: Array, rows: Array) -> Rows:
        """What observations of these items, with these features, say about θ."""
        n = take(belief.n, A)
        of = shares(belief, n, take(belief.total, A))
        left = self._left(belief, A, rows, of.keep)
        return Rows(left, of.pull, of.variance)

    def _left(self, belief: RandomEffects, A: Array, rows: Array, keep: Array) -> Array:
        """What the items' own past leaves to θ of their features: (*B, K, d)."""
        if not self.contexts:
            return keep[..., None] * rows
        left: Array = rows - (1 - keep)[..., None] * rows_before(belief, A)
        return left

    def _learn_items(self, belief: RandomEffects, feedback: Feedback) -> RandomEffects:
        """From items of the catalogue, which may repeat: the belief is that of one after the other.

        On the CPU features that stay the same are counted so.
        """
        in_order = not self.contexts and not is_tensor(feedback.A)
        if in_order or not repeats(feedback.A):
            known = self._learn_each(belief, feedback)
        else:
            of = by_item(feedback)
            known = learn_around_means(self._learn_each(belief, of.means), of)
        return learn_within(known, feedback) if feedback.is_summed else known

    def _learn_each(self, belief: RandomEffects, feedback: Feedback) -> RandomEffects:
        """From items of the catalogue. One of importance v is as precise as v observations."""
        A = feedback.A
        own = A >= 0
        rows = where(own[..., None], feedback.rows, 0.0)
        w = where(own, feedback.w, 0.0)
        of = counted(belief, A, w, full(A.shape, feedback.importance, w))
        left = self._left(belief, A, rows, of.keep)
        after = gaussian.condition(belief, left, w - of.pull, of.noise)
        grown = belief._replace(
            factor=after.factor,
            log_scale=after.log_scale - of.log_v.sum(-1) / 2,
            n=of.n,
            total=of.total,
            observed=belief.observed + own.sum(-1),
        )
        if not self.contexts:
            residual_ss = (of.between * of.apart**2).sum(-1)
            return grown._replace(within=gaussian.add_residual(belief.within, residual_ss))
        off = with_column(rows - rows_before(belief, A), of.apart, 1.0)
        v = where(own, feedback.importance, 0.0)
        return grown._replace(
            within=qr_stack(belief.within, of.between[..., None] ** 0.5 * off),
            past=add_at(belief.past, for_each_feature(belief.past, A), (v[..., None] * rows).mT),
        )

    def _past(self, belief: RandomEffects, problem: Problem, t: Array) -> RandomEffects:
        """The belief on its way to episode t: it fades in steps, as each makes it anew."""
        if self.forgetting == 1:
            return belief
        span = max(1, round(FADED / (1 - self.forgetting)))
        steps = t // span - belief.t // span

        def fade(one: RandomEffects, b: tuple[int, ...]) -> RandomEffects:
            keep = gaussian.keep_after(self.forgetting, span * int(steps[b]))
            return self._faded(one, problem.Phi[b], keep)

        return map_entries(steps > 0, belief, fade)

    def forget(self, belief: RandomEffects, problem: Problem, keep: float) -> RandomEffects:
        """The belief made anew from all that was observed, which counts `keep` times what it
        did.
        """
        gaussian.require_keep(keep)
        if keep == 1:
            return belief
        return self._where(
            belief.t >= 0, belief, problem, lambda one, Phi: self._faded(one, Phi, keep)
        )

    def _where(
        self, due: Array, belief: RandomEffects, problem: Problem, make: Any
    ) -> RandomEffects:
        return map_entries(due, belief, lambda one, b: make(one, problem.Phi[b]))

    def _faded(self, belief: RandomEffects, Phi: Features, keep: float) -> RandomEffects:
        """A single belief to which all of the past counts `keep` times what it did."""
        known = keep * belief.n > gaussian.MIN_KEEP
        past = belief._replace(
            n=where(known, keep * belief.n, 0.0),
            total=where(known, keep * belief.total, 0.0),
            past=where(known, keep * belief.past, 0.0),
            observed=keep * belief.observed,
            rows=keep * belief.rows,
            within=keep**0.5 * belief.within,
            data=keep**0.5 * belief.data,
        )
        return self._made(past, Phi, past.lam, past.sigma, past.tau)

    def _refitted(self, belief: RandomEffects, Phi: Features) -> RandomEffects:
        """A single belief made anew from counts, sums and loose rows, at the best scales."""
        items = means_of(belief, Phi)
        unit = full(belief.prior_std.shape, 1.0)
        flat = None
        if "lam" not in self.fixed:
            unit = self._spread(belief.column_statistics, full((), 1.0), self._level(belief, items))
            flat = CoefficientPrior.from_columns(belief.column_statistics).intercept_column
        columns = np.append(unit, 1.0)
        statistics, moments = statistics_of_items(
            items.n,
            items.rows * columns,
            belief.within * columns,
            float(belief.observed),
            flat_column=flat,
            unknown_items=belief.data * columns,
            n_unknown=float(belief.rows),
        )
        expected_size = self.likelihood.expected_size
        optimum = optimal_hyperparameters(statistics, moments, self.fixed, expected_size)
        if optimum is None:
            return self._made(belief, Phi, belief.lam, belief.sigma, belief.tau)
        return self._made(belief, Phi, *map(np.asarray, optimum))

    def _made(
        self, belief: RandomEffects, Phi: Features, lam: Array, sigma: Array, tau: Array
    ) -> RandomEffects:
        """A single belief made anew from counts, sums and loose rows, at these scales."""
        items = means_of(belief, Phi)
        spread = self._spread(belief.column_statistics, lam, self._level(belief, items))
        start = gaussian.prior(len(spread), spread)
        noise = (tau**2 + sigma**2 / items.n) ** 0.5
        anew = gaussian.condition(start, items.rows[:, :-1], items.rows[:, -1], noise)
        around = RowFactor(belief.within, belief.observed - len(items.n))
        anew = gaussian.absorb(anew, around, float(sigma))
        loose = RowFactor(belief.data, belief.rows)
        anew = gaussian.absorb(anew, loose, float((sigma**2 + tau**2) ** 0.5))
        # the density of all rows of an item is that of its mean times √(2πσ²/n) Π √(v/2πσ²), of
        # which Π √v is left out
        return belief._replace(
            factor=anew.factor,
            log_scale=anew.log_scale - log(items.n).sum() / 2,
            prior_std=spread,
            lam=lam,
            sigma=sigma,
            tau=tau,
        )

    def _level(self, belief: RandomEffects, items: Means) -> Array:
        """Prior std of the level: relative to √(Σ w²/Σ 1), or to the expected size."""
        if self.likelihood.expected_size is not None:
            return full((), INTERCEPT_STD * self.likelihood.expected_size)
        squares = (items.n * items.rows[:, -1] ** 2).sum() + (belief.data[:, -1] ** 2).sum()
        count = items.n.sum() + belief.rows
        if squares == 0:
            return full((), INTERCEPT_STD)
        return np.asarray(INTERCEPT_STD * (squares / count) ** 0.5)

    # --- what happens to a belief -------------------------------------------------------------

    def merge(self, belief: RandomEffects, other: RandomEffects, problem: Problem) -> RandomEffects:
        """What is known of the items and loose rows of both, and the belief they make."""
        added = ("n", "total", "past", "observed", "rows", "t")
        between = rows_between(belief, other)
        both = belief._replace(
            **{name: getattr(belief, name) + getattr(other, name) for name in added},
            within=qr_stack(qr_stack(belief.within, other.within), between),
            data=qr_stack(belief.data, other.data),
            column_statistics=merge_with_catalogue(
                belief.column_statistics, other.column_statistics, summarize_columns(problem.Phi)
            ),
        )
        return self._where(both.t >= 0, both, problem, self._refitted)

    def resize(
        self, belief: RandomEffects, problem: Problem, to: Problem, source: Array
    ) -> RandomEffects:
        """For another catalogue: what items that leave said about θ stays, as loose rows."""
        gone = np.setdiff1d(np.arange(problem.L), source)
        left: RandomEffects = super().resize(
            without(belief, problem.Phi, gone), problem, to, source
        )
        new = np.flatnonzero(source < 0)
        if not len(new):
            return left
        return self._with_items(left, to.Phi, take_rows(to.Phi, new))

    def extend(self, belief: RandomEffects, problem: Problem, to: Problem) -> RandomEffects:
        """For a catalogue with more items behind those of `problem`."""
        n = to.L - problem.L
        if not n:
            return belief
        rows = last_rows(to, n)
        unseen = self.prior(Problem(rows, to.oracle))
        return self._with_items(self.append_items(belief, unseen), to.Phi, rows)

    def _with_items(self, belief: RandomEffects, Phi: Features, rows: Array) -> RandomEffects:
        """The belief made anew with a prior that follows the columns of new items too."""
        columns = merge_column_statistics(belief.column_statistics, summarize_columns(rows))
        known = belief._replace(column_statistics=columns)
        return self._made(known, Phi, belief.lam, belief.sigma, belief.tau)

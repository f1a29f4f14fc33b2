"""The mixed-effects model: what the features explain, and each item's own deviation from it.

    w̄(e) = φ_e·θ + δ_e,   θ ~ N(0, λ²I),   δ_e ~ N(0, τ²),   noise N(0, σ²)

The joint posterior over θ and all δ needs no L x L matrix. Integrating δ out leaves a Gaussian
belief about θ, and given θ the deviations are independent, each with its count n_e and sum s_e:

    δ_e | θ ~ N(pull_e - (1 - keep_e) φ_e·θ, τ² keep_e),   keep_e = σ²/(σ² + n_e τ²)
    w̄(e) | θ ~ N(keep_e φ_e·θ + pull_e, τ² keep_e),        pull_e = τ² s_e/(σ² + n_e τ²)

An observation w of item e, given the earlier ones, is therefore  w - pull_e = keep_e φ_e·θ + noise
of variance σ² + τ² keep_e:  a row for `gaussian.condition`. The features of an item must stay the
same, as its deviation is from them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    Features,
    Rng,
    add_at,
    entry_of,
    flatnonzero,
    full,
    is_tensor,
    log,
    matvec,
    nonzero_rows,
    seeds,
    stacked_rows,
    take,
    take_rows,
    where,
)
from superarm.arrays.compiled import compiled
from superarm.arrays.normals import fill_normal
from superarm.beliefs.changes import gathered
from superarm.beliefs.linear import observed
from superarm.beliefs.scales import best_scales, refit_where, require_squares, summary_of_items
from superarm.beliefs.tuned import WIDE, doubled, no_rows, with_rows
from superarm.contracts import Feedback, Problem
from superarm.errors import ParameterError


class Mixed(NamedTuple):
    """The belief about θ, counts and sums of the items, and the scales."""

    factor: Array  # (*B, d+1, d+1) as in Gaussian, with the deviations integrated out
    log_scale: Array  # (*B,)
    n: Array  # (*B, L)
    total: Array  # (*B, L)
    squares: Array  # (*B,) Σ w²
    data: Array  # (*B, d+1, d+1) the factor of rows [φ w] that belong to none of the items
    rows: Array  # (*B,) how many those are
    lam: Array  # (*B,)
    sigma: Array  # (*B,)
    tau: Array  # (*B,)
    t: Array  # (*B,) int, episodes


class Shares(NamedTuple):
    """What is left to the features of each item, what its own feedback says, and what is open."""

    keep: Array  # (*B, K)
    pull: Array  # (*B, K)
    variance: Array  # (*B, K) of w̄(e) given θ


def shares(belief: Mixed, n: Array, total: Array) -> Shares:
    """For items with these counts and sums."""
    sigma2 = belief.sigma[..., None] ** 2
    tau2 = belief.tau[..., None] ** 2
    keep = sigma2 / (sigma2 + n * tau2)
    return Shares(keep, total * (keep * (tau2 / sigma2)), tau2 * keep)


@compiled
def _draw(
    out: Array,
    linear: Array,
    n: Array,
    total: Array,
    sigma: Array,
    tau: Array,
    seed: Array,
    explore: float,
) -> None:
    # compiled, as in NumPy's many passes this would take longer than all the rest of a decision
    for b in range(len(out)):
        sigma2 = sigma[b] ** 2
        tau2 = tau[b] ** 2
        unseen = explore * tau[b]
        if unseen > 0:
            fill_normal(out[b], seed[b])
        for e in range(out.shape[1]):
            w = linear[b, e]
            if n[b, e] > 0:
                keep = sigma2 / (sigma2 + n[b, e] * tau2)
                pull = total[b, e] * (keep * (tau2 / sigma2))
                out[b, e] = keep * w + pull + unseen * math.sqrt(keep) * out[b, e]
            else:
                out[b, e] = w + unseen * out[b, e]


@dataclass(frozen=True)
class MixedModel:
    """A linear model and deviations per item, at scales of its own choosing where not `known`.

    >>> import numpy as np
    >>> from superarm import Feedback, Problem, TopK
    >>> from superarm.beliefs.mixed import MixedModel
    >>> model = MixedModel(known={"lam": 1.0, "sigma": 0.1, "tau": 1.0})
    >>> problem = Problem(np.ones((2, 1)), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([0]), np.array([3.0]))
    >>> model.mean(model.learn(model.prior(problem), problem, feedback), problem).round(2)
    array([2.99, 1.49])
    """

    known: Mapping[str, float]
    per_item: ClassVar[tuple[str, ...]] = ("n", "total")
    uses_features: ClassVar[bool] = True

    def prior(self, problem: Problem) -> Mixed:
        """θ ~ N(0, λ²I), δ_e ~ N(0, τ²), with wide scales where they are not known."""
        if is_tensor(problem.Phi):
            raise ParameterError(
                "CombMixTS and CombMixUCB run on the CPU only: leave the device out"
            )
        batch = problem.batch
        scales = WIDE | dict(self.known)
        lam = full(batch, scales["lam"])
        nothing = full(batch, 0.0)
        unseen = full((*batch, problem.L), 0.0)
        return Mixed(
            *gaussian.prior(problem.d, lam, batch),
            n=unseen,
            total=unseen,
            squares=nothing,
            data=no_rows(problem.d, batch),
            rows=nothing,
            lam=lam,
            sigma=full(batch, scales["sigma"]),
            tau=full(batch, scales["tau"]),
            t=full(batch, 0),
        )

    def coefficients(self, belief: Mixed) -> Array:
        """θ̄_t: (*B, d)."""
        return gaussian.mean(belief)

    def mean(self, belief: Mixed, problem: Problem) -> Array:
        """E w̄(e) = keep_e φ_e·θ̄_t + pull_e: (*B, L)."""
        of = shares(belief, belief.n, belief.total)
        return of.keep * matvec(problem.Phi, gaussian.mean(belief)) + of.pull

    def deviation(self, belief: Mixed, problem: Problem) -> Array:
        """E δ_e = pull_e - (1 - keep_e) φ_e·θ̄_t: (*B, L)."""
        of = shares(belief, belief.n, belief.total)
        linear = matvec(problem.Phi, gaussian.mean(belief))
        deviation: Array = of.pull - (1 - of.keep) * linear
        return deviation

    def std(self, belief: Mixed, problem: Problem, explore: float = 1.0) -> Array:
        """√(var E[w̄(e) | θ] + explore² E[var(w̄(e) | θ)]): (*B, L); with 1 that of w̄(e)."""
        of = shares(belief, belief.n, belief.total)
        linear = of.keep * gaussian.std(belief, problem.Phi)
        width: Array = (linear**2 + explore**2 * of.variance) ** 0.5
        return width

    def sample(self, belief: Mixed, problem: Problem, rng: Rng, explore: float = 1.0) -> Array:
        """E[w̄(e) | θ_t] + explore·N(0, var(w̄(e) | θ_t)) with θ_t ~ N(θ̄_t, Σ_t): (*B, L)."""
        linear = matvec(problem.Phi, gaussian.sample(belief, rng))
        if not belief.tau.any():
            explore = 0.0
        seed = seeds(rng, belief.tau) if explore else belief.t  # without draws any number will do
        L = linear.shape[-1]
        out = full(linear.shape, 0.0)
        _draw(
            out.reshape(-1, L),
            linear.reshape(-1, L),
            belief.n.reshape(-1, L),
            belief.total.reshape(-1, L),
            belief.sigma.reshape(-1),
            belief.tau.reshape(-1),
            seed.reshape(-1),
            explore,
        )
        return out

    def learn(self, belief: Mixed, problem: Problem, feedback: Feedback) -> Mixed:
        """Bayes' rule for θ and δ together."""
        known = feedback.A >= 0
        loose = nonzero_rows(feedback.rows) & ~known
        if not loose.any():
            return self._learn_items(belief, problem, feedback)
        if known.any():
            own = feedback._replace(rows=where(known[..., None], feedback.rows, 0.0))
            belief = self._learn_items(belief, problem, own)
        apart = feedback._replace(rows=where(loose[..., None], feedback.rows, 0.0))
        return self._learn_rows(belief, problem, apart)

    def _learn_items(self, belief: Mixed, problem: Problem, feedback: Feedback) -> Mixed:
        """From items of the catalogue. One of importance v is the mean of v observations."""
        A = feedback.A
        w = where(A >= 0, feedback.w, 0.0)
        v = full(A.shape, feedback.importance)
        require_squares(feedback.rows, w)
        of = shares(belief, take(belief.n, A), take(belief.total, A))
        noise = (belief.sigma[..., None] ** 2 / v + of.variance) ** 0.5
        phi = of.keep[..., None] * feedback.rows
        grown = belief._replace(
            **gaussian.condition(belief, phi, w - of.pull, noise)._asdict(),
            n=add_at(belief.n, A, v),
            total=add_at(belief.total, A, v * w),
            squares=belief.squares + (v * w**2).sum(-1),
        )
        return self._counted(grown, problem, (A >= 0).any(-1))

    def _learn_rows(self, belief: Mixed, problem: Problem, feedback: Feedback) -> Mixed:
        """From rows that belong to none of the items: their deviations are as good as noise."""
        present = nonzero_rows(feedback.rows)
        noise = (belief.sigma**2 + belief.tau**2)[..., None] ** 0.5
        grown = belief._replace(
            **observed(belief, feedback, noise)._asdict(),
            data=with_rows(belief.data, feedback),
            rows=belief.rows + (present * feedback.importance).sum(-1),
        )
        return self._counted(grown, problem, present.any(-1))

    def _counted(self, belief: Mixed, problem: Problem, seen: Any) -> Mixed:
        """One more episode where something was observed, and at times new scales."""
        belief = belief._replace(t=belief.t + seen)
        due = seen & doubled(belief.t) & (len(self.known) < len(WIDE))
        return self._refit_where(due, belief, problem)

    def _refit_where(self, due: Array, belief: Mixed, problem: Problem) -> Mixed:
        return refit_where(
            due, belief, lambda entry, b: self._refitted(entry, entry_of(problem.Phi, b))
        )

    def _refitted(self, belief: Mixed, Phi: Features) -> Mixed:
        """A single belief made anew from counts, sums and loose rows, at the best scales."""
        seen = flatnonzero(belief.n)
        n = belief.n[seen]
        phi = take_rows(Phi, seen)
        mean = belief.total[seen] / n
        within = belief.squares - (n * mean**2).sum()
        lam = float(belief.lam)
        sigma = float(belief.sigma)
        tau = float(belief.tau)
        if belief.squares + (belief.data[:, -1] ** 2).sum() > 0:  # zeros say nothing about scales
            summary = summary_of_items(n, phi, mean, within, belief.data, float(belief.rows))
            lam, sigma, tau = best_scales(summary, **self.known)
        start = gaussian.prior(Phi.shape[-1], lam)
        anew = gaussian.condition(start, phi, mean, (tau**2 + sigma**2 / n) ** 0.5)
        anew = gaussian.absorb(anew, belief.data, belief.rows, (sigma**2 + tau**2) ** 0.5)
        # p(w) = p(means) p(deviations from them), the latter without θ
        repeats = (n - 1).sum() * math.log(2 * math.pi * sigma**2)
        apart = log(n).sum() + repeats + within / sigma**2
        return belief._replace(
            factor=anew.factor,
            log_scale=anew.log_scale - apart / 2,
            lam=full((), lam),
            sigma=full((), sigma),
            tau=full((), tau),
        )

    def merge(self, belief: Mixed, other: Mixed, problem: Problem) -> Mixed:
        """Counts, sums and loose rows of both, and the belief they make."""
        added = ("n", "total", "squares", "rows", "t")
        both = belief._replace(
            **{name: getattr(belief, name) + getattr(other, name) for name in added},
            data=stacked_rows(belief.data, other.data),
        )
        return self._refit_where(both.t >= 0, both, problem)

    def move(self, belief: Mixed, problem: Problem, to: Problem, source: Array) -> Mixed:
        """For another catalogue: what items that leave said about θ stays, as loose rows."""
        gone = np.setdiff1d(np.arange(problem.L), source)
        left: Mixed = gathered(self, without(belief, problem.Phi, gone), to, source)
        return left


def without(belief: Mixed, Phi: Features, items: Array) -> Mixed:
    """A single belief without what it knows of these items alone; what they said about θ stays.

    To find scales later, the mean of each becomes a loose row: of variance τ² + σ²/n where loose
    rows have σ² + τ². What the weights of an item varied around their mean is taken to be its share
    of all such variation.
    """
    seen = belief.n[belief.n > 0]
    items = items[belief.n[items] > 0]
    n = belief.n[items]
    mean = belief.total[items] / n
    phi = take_rows(Phi, items)
    within = belief.squares - (belief.total[belief.n > 0] ** 2 / seen).sum()
    loose = (belief.sigma**2 + belief.tau**2) / (belief.tau**2 + belief.sigma**2 / n)
    return belief._replace(
        squares=belief.squares - (n * mean**2).sum() - _share(n, seen) * within,
        data=with_rows(belief.data, Feedback(items, phi, mean, loose)),
        rows=belief.rows + nonzero_rows(phi).sum(),
    )


def _share(n: Array, seen: Array) -> float:
    """The share of all repeated observations that is of items with counts n."""
    repeats = where(n > 1, n - 1, 0.0).sum()
    all_repeats = where(seen > 1, seen - 1, 0.0).sum()
    if len(n) == len(seen) or all_repeats == 0:
        return float(len(n) == len(seen))
    return float(repeats / all_repeats)

"""The belief of a mixed-effects model: what the features explain, and each item's own deviation
from it.

    w̄(e) = φ_e·θ + δ_e,   θ ~ N(0, λ²I),   δ_e ~ N(0, τ²),   noise N(0, σ²)

The joint posterior over θ and all δ needs no L x L matrix. Integrating δ out leaves a Gaussian
belief about θ, and given θ the deviations are independent, each with its count n_e and its sum s_e:

    δ_e | θ ~ N(pull_e - (1 - keep_e) φ_e·θ, τ² keep_e),   keep_e = σ²/(σ² + n_e τ²),   pull_e = τ² s_e/(σ² + n_e τ²)
    w̄(e) | θ ~ N(keep_e φ_e·θ + pull_e, τ² keep_e)

An observation w of item e, given the earlier ones, is therefore  w - pull_e = keep_e φ_e·θ + noise
of variance σ² + τ² keep_e:  a row for `gaussian.condition`. The features of an item must stay the
same.
"""

import math
from typing import Any, NamedTuple

from superarm.arrays import (
    Array,
    Features,
    Rng,
    add_at,
    flatnonzero,
    full,
    log,
    nonzero_rows,
    qr_update,
    seeds,
    take,
    take_rows,
    where,
)
from superarm.arrays.compiled import compiled
from superarm.arrays.normals import fill_normal
from superarm.beliefs.scales import best_scales, refit_where, require_squares, summary_of_items
from superarm.beliefs.tuned import WIDE, doubled, no_rows, with_rows
from superarm.contracts import Problem
from superarm.gaussian import absorb, condition, prior


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


def mixed_prior(problem: Problem, known: dict[str, float]) -> Mixed:
    """Nothing observed; scales that are not `known` start wide."""
    d, batch = problem.d, problem.batch
    lam, sigma, tau = (full(batch, (WIDE | known)[name]) for name in ("lam", "sigma", "tau"))
    items, none = full((*batch, problem.L), 0.0), full(batch, 0.0)
    start = prior(d, lam, batch)
    return Mixed(
        *start, items, items, none, no_rows(d, batch), none, lam, sigma, tau, full(batch, 0)
    )


def shares(belief: Mixed, n: Array, total: Array) -> tuple[Array, Array, Array]:
    """keep, pull and the variance of w̄(e) given θ, of items with these counts and sums."""
    sigma2, tau2 = belief.sigma[..., None] ** 2, belief.tau[..., None] ** 2
    keep = sigma2 / (sigma2 + n * tau2)
    return keep, total * (keep * (tau2 / sigma2)), tau2 * keep


def drawn(belief: Mixed, linear: Array, explore: float, rng: Rng) -> Array:
    """keep·linear + pull + explore·N(0, var(w̄(e) | θ)) of all items, where linear = Φθ: (*B,
    L).
    """
    L, out = linear.shape[-1], full(linear.shape, 0.0)
    explore = explore if belief.tau.any() else 0.0
    seed = seeds(rng, belief.tau) if explore else belief.t  # without draws any number will do
    w, x, n, total = (a.reshape(-1, L) for a in (out, linear, belief.n, belief.total))
    sigma, tau, seed = (a.reshape(-1) for a in (belief.sigma, belief.tau, seed))
    _draw(w, x, n, total, sigma, tau, seed, explore)
    return out


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
        sigma2, tau2, unseen = sigma[b] ** 2, tau[b] ** 2, explore * tau[b]
        if unseen > 0:
            fill_normal(out[b], seed[b])
        for e in range(out.shape[1]):
            w = linear[b, e]
            if n[b, e] > 0:
                keep = sigma2 / (sigma2 + n[b, e] * tau2)
                out[b, e] = (
                    keep * w
                    + total[b, e] * (keep * (tau2 / sigma2))
                    + unseen * math.sqrt(keep) * out[b, e]
                )
            else:
                out[b, e] = w + unseen * out[b, e]


def mixed_condition(
    belief: Mixed,
    problem: Problem,
    A: Array,
    w: Array,
    importance: Array | float,
    known: dict[str, float],
) -> Mixed:
    """The belief after the items A showed the weights w. One of importance v is the mean of v
    observations.
    """
    w, v = where(A >= 0, w, 0.0), full(A.shape, importance)
    keep, pull, spread2 = shares(belief, take(belief.n, A), take(belief.total, A))
    noise = (belief.sigma[..., None] ** 2 / v + spread2) ** 0.5
    phi = take_rows(problem.Phi, A)
    require_squares(phi, w)
    grown = belief._replace(
        **condition(belief, keep[..., None] * phi, w - pull, noise)._asdict(),
        n=add_at(belief.n, A, v),
        total=add_at(belief.total, A, v * w),
        squares=belief.squares + (v * w**2).sum(-1),
    )
    return _counted(grown, problem, (A >= 0).any(-1), known)


def mixed_learn(
    belief: Mixed,
    problem: Problem,
    phi: Array,
    w: Array,
    importance: Array | float,
    known: dict[str, float],
) -> Mixed:
    """The belief after rows that belong to none of the items: their deviations are as good as
    noise.
    """
    noise, present = (belief.sigma**2 + belief.tau**2)[..., None] ** 0.5, nonzero_rows(phi)
    grown = belief._replace(
        **condition(belief, phi, w, noise, importance)._asdict(),
        data=with_rows(belief.data, phi, w, importance),
        rows=belief.rows + (present * importance).sum(-1),
    )
    return _counted(grown, problem, present.any(-1), known)


def mixed_merge(belief: Mixed, other: Mixed, problem: Problem, known: dict[str, float]) -> Mixed:
    """Counts, sums and loose rows of both, and the belief they make."""
    both = belief._replace(
        **{
            name: getattr(belief, name) + getattr(other, name)
            for name in ("n", "total", "squares", "rows", "t")
        },
        data=qr_update(belief.data, other.data, nonzero_rows(other.data)),
    )
    return refit_where(both.t >= 0, both, lambda entry, b: _refitted(entry, problem.Phi[b], known))


def mixed_without(belief: Mixed, Phi: Features, items: Array) -> Mixed:
    """A single belief without what it knows of these items alone; what they said about θ stays.

    To find scales later, the mean of each becomes a loose row: of variance τ² + σ²/n where loose
    rows have σ² + τ². What the weights of an item varied around their mean is taken to be its share
    of all such variation.
    """
    seen, items = belief.n[belief.n > 0], items[belief.n[items] > 0]
    n, mean, phi = belief.n[items], belief.total[items] / belief.n[items], take_rows(Phi, items)
    within = belief.squares - (belief.total[belief.n > 0] ** 2 / seen).sum()
    repeats, all_repeats = (where(x > 1, x - 1, 0.0).sum() for x in (n, seen))
    share = (
        repeats / all_repeats
        if len(n) < len(seen) and all_repeats > 0
        else float(len(n) == len(seen))
    )
    loose = (belief.sigma**2 + belief.tau**2) / (belief.tau**2 + belief.sigma**2 / n)
    return belief._replace(
        squares=belief.squares - (n * mean**2).sum() - share * within,
        data=with_rows(belief.data, phi, mean, loose),
        rows=belief.rows + nonzero_rows(phi).sum(),
    )


def _counted(belief: Mixed, problem: Problem, observed: Any, known: dict[str, float]) -> Mixed:
    """One more episode where something was observed, and at times new scales."""
    belief = belief._replace(t=belief.t + observed)
    due = observed & doubled(belief.t) & (len(known) < 3)
    return refit_where(due, belief, lambda entry, b: _refitted(entry, problem.Phi[b], known))


def _refitted(belief: Mixed, Phi: Features, known: dict[str, float]) -> Mixed:
    """A single belief made anew from counts, sums and loose rows, at the scales of the largest
    evidence.
    """
    seen = flatnonzero(belief.n)
    n, phi, mean = belief.n[seen], take_rows(Phi, seen), belief.total[seen] / belief.n[seen]
    within = belief.squares - (n * mean**2).sum()
    lam, sigma, tau = float(belief.lam), float(belief.sigma), float(belief.tau)
    if (
        belief.squares + (belief.data[:, -1] ** 2).sum() > 0
    ):  # nothing but zeros says nothing about scales
        lam, sigma, tau = best_scales(
            summary_of_items(n, phi, mean, within, belief.data, float(belief.rows)), **known
        )
    anew = condition(prior(Phi.shape[-1], lam), phi, mean, (tau**2 + sigma**2 / n) ** 0.5)
    anew = absorb(anew, belief.data, belief.rows, (sigma**2 + tau**2) ** 0.5)
    # p(w) = p(means) p(deviations from them), the latter without θ
    apart = log(n).sum() + (n - 1).sum() * math.log(2 * math.pi * sigma**2) + within / sigma**2
    return belief._replace(
        factor=anew.factor,
        log_scale=anew.log_scale - apart / 2,
        **{name: full((), value) for name, value in (("lam", lam), ("sigma", sigma), ("tau", tau))},
    )

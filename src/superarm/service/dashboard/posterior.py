"""What choices are worth by what is believed, with intervals that know that items share features.

    V(θ) = 1/n Σ_i Σ_{e ∈ A_i} w̄_i(e; θ)

is the mean return of n decisions. It is computed for draws of all that is unknown together: stds of
single items, added up, would be far too small.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.agent.asked import Asked
from superarm.arrays import Array, as_float64, take_rows
from superarm.contracts import Learner, Model, Problem
from superarm.errors import UnsupportedError
from superarm.oracles import TopK
from superarm.service.dashboard.expected import responded
from superarm.service.dashboard.shapes import Interval

DRAWS = 200
"""From what is believed. The error of an interval's width is 1/√(2·200) = 5 %."""
WIDE = 1.96
"""Standard errors of a 95 % interval."""


class Rows(NamedTuple):
    """Items that were chosen, one after the other."""

    decision: Array  # (n,) which decision chose it
    item: Array  # (n,) its place in the catalogue
    phi: Array  # (n, d) its features then


def rows_of(calls: Sequence[Asked], choices: Sequence[Sequence[Array]]) -> Rows:
    """The items of some choices in each of some decisions."""
    decision = []
    item = []
    phi = []
    for i, (call, some) in enumerate(zip(calls, choices, strict=True)):
        together = np.concatenate(some)
        chosen = together[together >= 0]
        decision.append(np.full(len(chosen), i))
        item.append(chosen)
        phi.append(as_float64(take_rows(call.problem.Phi, chosen)))
    return Rows(np.concatenate(decision), np.concatenate(item), np.concatenate(phi))


def worth(
    learner: Learner,
    belief: Any,
    calls: Sequence[Asked],
    choices: Sequence[Sequence[Array]],
    rng: np.random.Generator,
) -> Interval | None:
    """The mean return of choices by what is believed now, and its 95 % interval: of what is not
    known, and of which decisions happen to be in the sample. None if the learner has no posterior.

    Args:
        learner: who believes.
        belief: what is believed of the items of the catalogue.
        calls: what was asked for.
        choices: what is chosen in each, as many times as in any other: (K,) each, -1 pads.
        rng: for draws from the posterior.
    """
    n = len(calls)
    if n < 2:
        return None
    rows = rows_of(calls, choices)
    try:
        weights = drawn(learner, belief, rows, rng)
    except UnsupportedError:
        return None
    returns = np.zeros((n, DRAWS))
    np.add.at(returns, rows.decision, weights.T)
    returns /= len(choices[0])
    of_beliefs = returns.mean(axis=0).var(ddof=1)
    of_sample = returns.mean(axis=1).var(ddof=1) / n
    value = float(returns.mean())
    width = WIDE * math.sqrt(of_beliefs + of_sample)
    if not math.isfinite(value + width):
        return None
    return Interval(value=value, low=value - width, high=value + width, n=n)


def drawn(learner: Learner, belief: Any, rows: Rows, rng: np.random.Generator) -> Array:
    """Weights drawn from what is believed of all rows together: (DRAWS, n)."""
    model: Any = learner.model
    places, which = np.unique(rows.item, return_inverse=True)
    if not model.uses_features:
        problem = Problem(np.zeros((len(places), 1)), TopK(1))
        own = model.select_items(belief, places)
        scores = [model.sample(own, problem, rng)[which] for _ in range(DRAWS)]
    elif model.per_item:
        own = model.select_items(belief, rows.item)
        problem = Problem(rows.phi, TopK(1))
        scores = [_mixed(model, own, problem, which, len(places), rng) for _ in range(DRAWS)]
    else:
        scores = [rows.phi @ gaussian.sample(belief, rng) for _ in range(DRAWS)]
    return responded(learner, np.stack(scores))


def _mixed(
    model: Model,
    belief: Any,
    problem: Problem,
    which: Array,
    items: int,
    rng: np.random.Generator,
) -> Array:
    """Scores with the deviations of items, which are the same wherever an item is chosen."""
    moments = model.conditional_moments(belief, problem, gaussian.sample(belief, rng))
    noise = rng.standard_normal(items)
    scores: Array = moments.mean + np.sqrt(moments.variance) * noise[which]
    return scores

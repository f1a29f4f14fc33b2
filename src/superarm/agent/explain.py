"""Why an item is chosen, or not: what is believed about it, and how often it is chosen."""

import time
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, as_float64, take_rows
from superarm.checks import fault_of_set, require_count
from superarm.checks.tables import Names
from superarm.contracts import Learner, Problem
from superarm.decide import decide
from superarm.errors import FeaturesError, ItemsError, ParameterError

SHOWN = 4
"""Contributions that a printed explanation shows per item."""


class TooManyDraws(ParameterError):
    """More draws than can be made in the time that there is."""


class Explanation(NamedTuple):
    """What a belief says about some items; printed, a table.

    The score is φ_e·θ̄, plus the item's own deviation where the learner has one; with the logit
    link it is log-odds.

    Attributes:
        items: the items that are explained, (n,).
        score: the mean of each score, (n,).
        std: its standard deviation, (n,).
        contributions: what each feature adds, φ_ej θ̄_j, (n, d).
        deviation: what the features do not explain, (n,); a score is the sum of its contributions
            and this.
        chosen: the probability of being chosen, the propensity, (n,).
        chosen_se: its standard error, (n,).
        draws: how many decisions the probability was estimated from.
        names: of the features, if they have names.
    """

    items: Array  # (n,)
    score: Array  # (n,) its mean
    std: Array  # (n,) its standard deviation
    contributions: Array  # (n, d) φ_ej θ̄_j
    deviation: Array  # (n,) what the features do not explain; score = contributions + deviation
    chosen: Array  # (n,) the probability of being chosen: the propensity
    chosen_se: Array  # (n,) its standard error
    draws: int  # decisions it was estimated from
    names: Names = None  # (d,) of the features

    def __str__(self) -> str:
        names = self.names or [f"[{j}]" for j in range(self.contributions.shape[1])]
        width = max([8, *(len(str(item)) for item in self.items)])
        lines = [
            f"{'item':>{width}}  {'score':>16}  {'chosen':>15}  contributions, the largest first"
        ]
        for item, mean, std, parts, own, p, se in zip(*self[:7], strict=True):
            score = f"{mean:.3g} ± {std:.2g}"
            chosen = f"{p:.1%} ± {se:.1%}"
            largest = np.argsort(-np.abs(parts), kind="stable")[:SHOWN]
            terms = [f"{names[j]} {parts[j]:+.3g}" for j in largest]
            if own:
                terms.append(f"own {own:+.3g}")
            lines.append(f"{item!s:>{width}}  {score:>16}  {chosen:>15}  {'  '.join(terms)}")
        lines.append(f"chosen: the share of {self.draws:,} decisions under the present belief")
        return "\n".join(lines)


def times_chosen(
    learner: Learner,
    belief: Any,
    problem: Problem,
    *,
    draws: int,
    rng: Rng,
    seconds: float = np.inf,
) -> Array:
    """How often each item of a single problem is chosen, (L,), in `draws` decisions that are not
    acted on, and that must be made within some seconds.
    """
    times = np.zeros(problem.L)
    end = time.perf_counter() + seconds
    for i in range(draws):
        if time.perf_counter() > end:
            raise TooManyDraws(f"{i} of {draws} draws took {seconds:g} seconds: ask for fewer")
        A = decide(learner, belief, problem, rng)
        chosen = A[A >= 0]
        times[chosen] += 1
    return times


def propensities(
    learner: Learner,
    belief: Any,
    problem: Problem,
    A: Any,
    *,
    rng: Rng,
    draws: int = 1000,
    seconds: float = np.inf,
) -> Array:
    """The propensities to log with a decision A that was made at this belief, from `draws` further
    ones: one per item of A.

    Of m draws that choose an item X times, (X+1)/(m+1): the decision itself counts. For it is 1/p
    that is averaged, and E[(m+1)/(X+1)] = (1 - (1-p)^(m+1))/p, short of 1/p by a share that
    vanishes once m p is above 5 or so. X/m would at times be 0.

    Returns:
        per item of A, the probability of being chosen.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK
    >>> from superarm.agent.explain import propensities
    >>> problem = Problem(np.eye(4), TopK(2))
    >>> learner = CombLinTS(lam=1.0, sigma=0.1)
    >>> belief = learner.model.prior(problem)
    >>> propensities(learner, belief, problem, [2, 0], rng=np.random.default_rng(0)).round(3)
    array([0.476, 0.521])
    """
    require_count(draws=draws)
    items = np.asarray(A, dtype=None if len(A) else np.int64)
    if fault := fault_of_set(items[items != -1], problem.L):
        raise ItemsError(fault)
    times = times_chosen(learner, belief, problem, draws=draws, rng=rng, seconds=seconds)
    p = (times + 1) / (draws + 1)
    return np.where(items >= 0, p[items], 1.0)


def explain(
    learner: Learner,
    belief: Any,
    problem: Problem,
    items: Array,
    *,
    rng: Rng,
    draws: int = 1000,
    seconds: float = np.inf,
    times: Array | None = None,
) -> Explanation:
    """The explanation of some items of a single problem, by `draws` decisions that are not acted
    on; `times` says how often those chose each item, (L,), if they are made already.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Feedback, Problem, TopK
    >>> from superarm.agent.explain import explain
    >>> learner = CombLinTS(lam=1.0, sigma=0.1)
    >>> problem = Problem(np.eye(3), TopK(1))
    >>> feedback = Feedback.of(problem, np.array([1]), np.array([5.0]))
    >>> belief = learner.model.learn(learner.model.prior(problem), problem, feedback)
    >>> rng = np.random.default_rng(0)
    >>> found = explain(learner, belief, problem, np.array([1, 2]), rng=rng, draws=100)
    >>> found.score.round(2), found.chosen
    (array([4.95, 0.  ]), array([1., 0.]))
    """
    require_count(draws=draws)
    if not len(items):
        raise ItemsError("give at least one item to explain")
    model = learner.model
    if not model.uses_features:
        raise FeaturesError(
            f"{type(learner).__name__} knows nothing of features, so there is nothing to explain "
            "by them"
        )
    phi = as_float64(take_rows(problem.Phi, items))
    part = problem._replace(Phi=phi)
    own = model.select_items(belief, items)
    contributions = phi * model.coefficients(belief)
    linear = contributions.sum(-1)
    deviation = model.item_effects(own, part)
    std = model.std(own, part)
    if times is None:
        times = times_chosen(learner, belief, problem, draws=draws, rng=rng, seconds=seconds)
    p = times[items] / draws
    return Explanation(
        items,
        score=linear + deviation,
        std=std,
        contributions=contributions,
        deviation=deviation,
        chosen=p,
        chosen_se=np.sqrt(p * (1 - p) / draws),
        draws=draws,
    )

"""What another policy would have earned, estimated from the logged decisions of one that ran.

    symbol     code      shape     meaning
    A_i, w_i   A, w      (n, K)    the items of decision i, and the weights observed of them
    p_i(e)     p         (n, K)    P(e ∈ A_i), the propensity: how likely the logging policy chose e
    q_i(e)     target    (n, L)    how likely the policy to evaluate chooses e; (L,) if always alike
    ŵ_i(e)     model               a prediction without decision i; 0 in `ips` and `replay`
    V          value               E Σ_e q_i(e) w̄_i(e), the expected return of a decision

The return of a set is the sum of its items' weights. So the probability of each item is enough, and
that of the whole set, which may be minute, is never asked for. With

    M_i = Σ_e q_i ŵ_i     R_i = Σ_{e ∈ A_i} q_i/p_i (w_i - ŵ_i)
    N_i = Σ_e q_i         S_i = Σ_{e ∈ A_i} q_i/p_i

V is estimated by M̄ + R̄, or self-normalized by M̄ + N̄ R̄/S̄; `offline.intervals` says how well.

Decisions are taken as drawn alike, contexts and all. Where the logging policy learned as it went,
R_i is still right given the past (in `doubly_robust` with `past`), but weights that change along
the log make intervals a little short.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Catalogue
from superarm.agent.constraints import constraints
from superarm.agent.explain import times_chosen
from superarm.arrays import Array
from superarm.checks import as_numbers, is_real, require_count
from superarm.contracts import Feedback, Learner, Oracle, require_learner
from superarm.decide import decide
from superarm.errors import FeaturesError, ParameterError
from superarm.learners import Greedy
from superarm.offline.intervals import ENOUGH_DRAWS, Estimate, Parts, estimate
from superarm.offline.lists import align_items, padded
from superarm.offline.log import Log, refuse_first
from superarm.offline.predictions import predicted, problem_of


class Replay(NamedTuple):
    """A learner's run through a log: what it is worth, what it chose, and what it believes in the
    end.

    Attributes:
        estimate: what the run is worth per decision.
        A: the choices, (n, K); -1 pads.
        overlap: the share of them that was logged, and so was learned from.
        belief: what is believed in the end.
    """

    estimate: Estimate
    A: Array  # (n, K) its choices, -1 pads
    overlap: float  # the share of them that was logged, and so was learned from
    belief: Any


def ips(
    log: Log,
    target: Any,
    *,
    against: Any = None,
    normalized: bool = True,
    level: float = 0.95,
) -> Estimate:
    """The value of a policy by inverse propensities, one per item.

    Args:
        log: the decisions.
        target: the probability with which the policy chooses each item, (L,) or (n, L), in their
            order or by id, as a mapping, series or data frame: for a fixed set of items
            np.isin(range(L), items), for another learner `probabilities`.
        against: another policy, given alike, or "logged", for that which made the decisions: the
            estimate is then by how much the target is worth more.
        normalized: divide by what the ratios q/p add up to, not by what they should: mostly the
            smaller error, for a bias of the order of 1/ess. Without, the estimate is unbiased.
        level: of the interval.

    Returns:
        the value with its interval; printed, it says what to beware of.

    >>> import numpy as np
    >>> from superarm import offline
    >>> rng = np.random.default_rng(0)
    >>> A = np.argsort(rng.random((400, 4)))[:, :2]  # any two of four items
    >>> clicks = rng.random(A.shape) < np.array([0.1, 0.2, 0.4, 0.8])[A]
    >>> log = offline.Log.of(A, clicks, np.full(A.shape, 0.5), np.eye(4))
    >>> estimate = offline.ips(log, np.isin(range(4), [2, 3]))  # in truth 1.2
    >>> print(estimate)  # doctest: +NORMALIZE_WHITESPACE
    1.241 ± 0.046, between 1.142 and 1.328 with 95 % confidence
    (gamma interval, 400 decisions worth 301, support 1.01)
    """
    _check_log(log, level)
    nothing = np.zeros(1)  # is predicted
    parts = [_parts(log, q, nothing, nothing) for q in _targets(log, target, against)]
    beside = _beside(log, against)
    return _estimate(log, parts, beside=beside, normalized=normalized, level=level)


def doubly_robust(
    log: Log,
    target: Any,
    *,
    against: Any = None,
    model: Learner | None = None,
    folds: int = 5,
    past: bool = False,
    normalized: bool = True,
    level: float = 0.95,
) -> Estimate:
    """The value of a policy by a model of the weights, and by inverse propensities of what the
    model got wrong.

    The better the model, the smaller the error. However wrong it is, with the right propensities
    the interval holds: no decision is predicted from itself.

    Args:
        log: the decisions.
        target: as in `ips`.
        against: as in `ips`.
        model: what predicts, by its mean, after it learned from the rows of other decisions:
            `Greedy()` by default, or Greedy(lam=1.0, link="logit") for clicks. Where weights are 0
            and 1 and no feature is constant, it is shown one more that is: the rate of clicks.
        folds: parts of the log; decisions of a part are predicted from the others.
        past: predict from earlier parts only. Where the logging policy learned as it went, its
            later choices tell of the weights before; the bias of ignoring this is of the order of
            1/n.
        normalized: as in `ips`, of what the model got wrong.
        level: of the interval.

    Returns:
        the value per decision with its interval; with `against`, the difference between the two.

    >>> import numpy as np
    >>> from superarm import offline
    >>> rng = np.random.default_rng(0)
    >>> A = np.argsort(rng.random((400, 4)))[:, :2]
    >>> clicks = rng.random(A.shape) < np.array([0.1, 0.2, 0.4, 0.8])[A]
    >>> log = offline.Log.of(A, clicks, np.full(A.shape, 0.5), np.eye(4))
    >>> estimate = offline.doubly_robust(log, np.isin(range(4), [2, 3]))  # in truth 1.2
    >>> print(estimate)  # doctest: +NORMALIZE_WHITESPACE
    1.214 ± 0.043, between 1.123 and 1.296 with 95 % confidence
    (gamma interval, 400 decisions worth 301, support 1.01)
    """
    _check_log(log, level)
    learner = Greedy() if model is None else model
    targets = _targets(log, target, against)
    parts = [_parts(log, q, *predicted(log, q, learner, folds, past)) for q in targets]
    beside = _beside(log, against)
    return _estimate(log, parts, beside=beside, normalized=normalized, level=level)


def replay(
    log: Log,
    learner: Learner,
    oracle: Any,
    *,
    rng: np.random.Generator,
    belief: Any = None,
    normalized: bool = True,
    level: float = 0.95,
) -> Replay:
    """Run a learner through the log as if live: it chooses by its belief, and sees of its choice
    what was logged.

    The estimate is of this run: the mean over the log of f(A_t, w̄_t). Live it would have seen all
    of its choices, and so likely have earned more. A choice is made before the weights of its
    decision are seen, so that inverse propensities are right given the past.

    Args:
        log: the decisions, in their order.
        learner: any learner.
        oracle: over the feasible sets, or any function from L weights to items.
        rng: for the learner's choices.
        belief: to start from; by default the learner's prior.
        normalized: as in `ips`.
        level: of the interval.

    Returns:
        the estimate, what was chosen in each decision, how much of it the log held, and the belief
        at the end.

    >>> import numpy as np
    >>> from superarm import CombLinTS, TopK, offline
    >>> rng = np.random.default_rng(0)
    >>> A = np.argsort(rng.random((400, 4)))[:, :2]
    >>> clicks = rng.random(A.shape) < np.array([0.1, 0.2, 0.4, 0.8])[A]
    >>> log = offline.Log.of(A, clicks, np.full(A.shape, 0.5), np.eye(4))
    >>> run = offline.replay(log, CombLinTS(lam=1.0, sigma=0.5), TopK(2), rng=rng)
    >>> print(run.estimate)  # doctest: +NORMALIZE_WHITESPACE
    1.209 ± 0.046, between 1.11 and 1.297 with 95 % confidence
    (gamma interval, 400 decisions worth 305, support 1.02)
    >>> round(run.overlap, 2), run.A[-1]
    (0.51, array([3, 2]))
    """
    _check_log(log, level)
    oracle = _aligned(oracle, log)
    _check_learner(log, learner, belief, oracle, rng)
    model = learner.model
    if belief is None:
        belief = model.prior(problem_of(log, 0, oracle))
    ratio = np.zeros(log.A.shape)
    choices = []
    for i, logged in enumerate(log.A):
        problem = problem_of(log, i, oracle)
        A = decide(learner, belief, problem, rng)
        choices.append(A[A >= 0])
        both = np.isin(logged, choices[i])
        seen = Feedback.of(problem, np.where(both, logged, -1), log.w[i])
        belief = model.learn(belief, problem, seen)
        ratio[i] = both / log.p[i]
    N = np.full(log.n, np.mean([len(A) for A in choices]))  # of this run, whose sizes are fixed
    parts = Parts(np.zeros(1), N, ratio * log.w, ratio)
    found = _estimate(log, [parts], normalized=normalized, level=level)
    overlap = float((ratio > 0).sum() / N.sum())
    return Replay(found, padded(choices, -1), overlap, belief)


def _parts(log: Log, q: Array, M: Array, predicted: Array) -> Parts:
    """The parts for a target q, (n, L) or (1, L), with the predictions M (n,) and ŵ (n, K)."""
    places = np.maximum(log.A, 0)
    chosen = np.take_along_axis(q, places, axis=-1)
    S = np.where(log.A >= 0, chosen, 0.0) / log.p
    wrong = log.w - predicted
    return Parts(M, q.sum(-1), S * wrong, S)


def _beside(log: Log, against: Any) -> list[Parts]:
    """What the decisions say about the policy that made them, if it is compared with: that needs no
    propensities.
    """
    if not _is_logged(against):
        return []
    chosen = (log.A >= 0).astype(np.float64)
    return [Parts(np.zeros(1), chosen.sum(-1), chosen * log.w, chosen)]


def _is_logged(against: Any) -> bool:
    return isinstance(against, str) and against == "logged"


def _estimate(
    log: Log,
    parts: list[Parts],
    *,
    beside: Sequence[Parts] = (),
    normalized: bool,
    level: float,
) -> Estimate:
    """The estimate from what the decisions say, and how much of it rests on few draws."""
    found = estimate([*parts, *beside], log.w, normalized=normalized, level=level)
    if log.draws is None:
        return found
    times = log.p * (log.draws[:, None] + 1)  # X+1 of p = (X+1)/(m+1)
    few = (log.draws[:, None] > 0) & (times < ENOUGH_DRAWS - 0.5)
    shares = [each.S[few].sum() / each.S.sum() for each in parts]
    return found._replace(few_draws=float(max(shares)))


def probabilities(
    log: Log,
    learner: Learner,
    belief: Any,
    oracle: Any,
    *,
    rng: np.random.Generator,
    draws: int = 100,
    learns: bool = False,
) -> Array:
    """The target that a learner is at a belief, (n, L): the share of `draws` decisions in which it
    chooses each item.

    The draws are made anew for each logged decision. So their error is independent between
    decisions, does not bias an estimate, and is part of its interval: even one draw is valid, and
    more make the interval shorter.

    Args:
        log: the decisions, in their order.
        learner: any learner.
        belief: what it believes; None: its prior.
        oracle: over the feasible sets, or any function from L weights to items.
        rng: for the learner's choices.
        draws: per decision.
        learns: whether it learns from each logged decision before the next one. Each choice then
            knows what was logged before and nothing else, so that estimates hold; in
            `doubly_robust` with `past`.

    Returns:
        the probability of each item in each logged decision, (n, L); a target for `ips` and
        `doubly_robust`.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, TopK, offline
    >>> log = offline.Log.of([[0], [1]], [[1.0], [0.0]], [[0.5], [0.5]], np.eye(2))
    >>> learner = CombLinTS(lam=1.0, sigma=0.1)
    >>> belief = learner.model.prior(Problem(np.eye(2), TopK(1)))
    >>> rng = np.random.default_rng(0)
    >>> offline.probabilities(log, learner, belief, TopK(1), rng=rng, draws=1000)
    array([[0.506, 0.494],
           [0.495, 0.505]])
    """
    require_count(draws=draws)
    oracle = _aligned(oracle, log)
    _check_learner(log, learner, belief, oracle, rng)
    model = learner.model
    if belief is None:
        first = problem_of(log, 0, oracle)
        belief = model.prior(first)
    times = []
    for i in range(log.n):
        problem = problem_of(log, i, oracle)
        chosen = times_chosen(learner, belief, problem, draws=draws, rng=rng)
        times.append(chosen)
        if learns:
            seen = Feedback.of(problem, log.A[i], log.w[i])
            belief = model.learn(belief, problem, seen)
    return np.stack(times) / draws


def _aligned(oracle: Any, log: Log) -> Oracle:
    """The oracle over the items of the log, by their ids where it is built by id."""
    catalogue = Catalogue(log.ids, log.L)
    return constraints(oracle, catalogue).fitted(catalogue)


def _targets(log: Log, target: Any, against: Any) -> list[Array]:
    """The target and the one it is compared with, if there is one."""
    alone = against is None or _is_logged(against)
    given = [target] if alone else [target, against]
    return [_target(log, q) for q in given]


def _target(log: Log, target: Any) -> Array:
    """Probabilities (n, L), or (1, L) if they are the same in all decisions."""
    ids = np.arange(log.L) if log.ids is None else log.ids
    given = align_items("target", target, ids, ParameterError)
    try:
        q = as_numbers(given)
    except ValueError as error:
        raise ParameterError(f"target must be probabilities, one per item ({error})") from error
    shapes = ((log.L,), (log.n, log.L))
    if q.shape not in shapes:
        raise ParameterError(f"target must have shape {shapes[0]} or {shapes[1]}, got {q.shape}")
    q = q.reshape(-1, log.L)
    if log.available is not None:
        refuse_first(
            (q > 0) & ~log.available,
            ParameterError,
            "target chooses item {1} in decision {0}, where it was not available: "
            "give (n, L) other probabilities",
        )
    fault = "target must be probabilities: that of item {1} is {q}"
    refuse_first(~((q >= 0) & (q <= 1)), ParameterError, fault, q=q)
    return q


def _check_log(log: Log, level: float) -> None:
    if log.n < 2:
        raise ParameterError("an interval needs a log of at least 2 decisions")
    if not (is_real(level) and 0 < level < 1):
        raise ParameterError(f"level must lie between 0 and 1, got {level!r}")


def _check_learner(log: Log, learner: Any, belief: Any, oracle: Oracle, rng: Any) -> None:
    """Refuse what is no learner, and a belief about other items or features than the log's."""
    require_learner(learner)
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(
            f"rng must be a generator, as np.random.default_rng(0), got {rng!r:.60}"
        )
    model = learner.model
    start = model.prior(problem_of(log, 0, oracle))
    if model.fixed_features and any(Phi is not log.Phi[0] for Phi in log.Phi):
        raise FeaturesError(
            "a mixed-effects learner learns how items deviate from their features: they must stay, "
            "unless it has contexts=True"
        )
    if belief is None:
        return
    alike = type(belief) is type(start)
    if not alike or list(map(np.shape, belief)) != list(map(np.shape, start)):
        raise ParameterError(
            f"the belief is not one of {type(learner).__name__} for {log.L} items with "
            f"{log.Phi[0].shape[-1]} features"
        )

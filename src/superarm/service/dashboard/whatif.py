"""What another learner, or another constraint, would have earned: estimated from the log."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.asked import asked
from superarm.agent.specs import learner_of, oracle_of
from superarm.agent.state import State
from superarm.arrays import Array
from superarm.contracts import Learner, Oracle
from superarm.errors import SuperarmError
from superarm.offline import Estimate, Log, doubly_robust, ips, probabilities
from superarm.offline.intervals import ENOUGH_DECISIONS, ENOUGH_SUPPORT
from superarm.service import evaluation
from superarm.service.asking import limited, plain
from superarm.service.dashboard.shapes import Interval, Verdict, WhatIf, WhatIfs
from superarm.service.dashboard.spread import interval
from superarm.service.dashboard.words import constraint_words, learner_words
from superarm.service.decisions import seconds_of_one
from superarm.service.engine import Limits, Service
from superarm.service.evaluation import Among
from superarm.service.fold import Folded
from superarm.service.problems import Unfit

DRAWS = 4
"""Choices of the learner in each decision."""
MOST = 20_000
"""Decisions that are looked at for those with propensities."""
SECONDS = 20.0
"""That running a learner through the log may take, about."""
PLENTY = 100
"""Effective sample size from which on it is enough."""
ENOUGH = "enough"
LITTLE = "little"
TOO_LITTLE = "too little to say"
LEARNED = (
    "before each decision it had learned from all that was logged before, and from nothing else"
)

Estimator = Callable[..., Estimate]


class Other(NamedTuple):
    """What is put in the place of the agent's own, where anything is."""

    learner: Learner
    oracle: Oracle
    learner_spec: dict[str, Any]
    oracle_spec: dict[str, Any]


def what_if(service: Service, name: str, body: WhatIf) -> WhatIfs:
    """Run a learner through the last decisions, and say what its choices in the second half of them
    are worth: in the first it only learns.
    """
    folded, state = service.ready(name)
    other = _other(service.limits, folded, state, body)
    last = min(body.last, affordable(service.limits, state))
    connection = service.database.read()
    found = evaluation.logged(connection, folded, state, last, Among(most=MOST))
    judged, target = _run_through(found, other)
    robust = partial(doubly_robust, past=True)
    estimators: dict[str, Estimator] = {"ips": ips, "doubly robust": robust}
    earned = judged.w.sum(axis=1)
    value = interval(len(earned), float(earned.sum()), float((earned**2).sum()))
    if value is None:
        raise Unfit("the weights of these decisions leave the range of float64")
    return WhatIfs(
        learner=learner_words(other.learner_spec),
        constraint=constraint_words(other.oracle_spec, state.catalogue.n),
        logged=value,
        decisions=judged.n,
        verdicts=[verdict(word, by, judged, target) for word, by in estimators.items()],
    )


def _run_through(found: Log, other: Other) -> tuple[Log, Array]:
    """The second half of the log, and how likely the learner chooses each item in its decisions:
    before each of them it has learned all that was logged before.
    """
    rng = np.random.default_rng(0)
    try:
        target = probabilities(
            found,
            other.learner,
            None,
            other.oracle,
            rng=rng,
            draws=DRAWS,
            learns=True,
        )
    except SuperarmError as error:
        raise Unfit(f"this learner cannot decide under this constraint: {error}") from error
    half = found.n // 2
    judged = found._replace(
        A=found.A[half:],
        w=found.w[half:],
        p=found.p[half:],
        Phi=found.Phi[half:],
        available=None if found.available is None else found.available[half:],
        draws=None if found.draws is None else found.draws[half:],
    )
    return judged, target[half:]


def affordable(limits: Limits, state: State) -> int:
    """How many decisions can be run through."""
    call = asked(state, None, None, None)
    by_time = int(min(SECONDS, limits.evaluate_seconds) / seconds_of_one(call) / DRAWS)
    by_memory = limits.masks // (8 * state.catalogue.L)  # the probability of each item
    return max(evaluation.FEWEST, min(by_time, by_memory))


def _other(limits: Limits, folded: Folded, state: State, body: WhatIf) -> Other:
    learner = state.learner
    oracle = state.problem.oracle
    oracle_spec = folded.oracle or folded.created.oracle
    if body.learner is not None:
        learner = learner_of(plain(body.learner, "/learner"))
    if body.oracle is not None:
        oracle_spec = limited(limits, body.oracle)
        oracle = oracle_of(oracle_spec, numbers=folded.numbers)
    learner_spec = body.learner or folded.created.learner
    return Other(learner, oracle, learner_spec, oracle_spec)


def verdict(word: str, by: Estimator, found: Log, target: Array) -> Verdict:
    """What an estimator says; no number where there is none."""
    chosen = np.take_along_axis(target, np.maximum(found.A, 0), axis=1) * (found.A >= 0)
    matched = float(chosen.any(axis=1).mean())
    seen = f"in {matched:.0%} of the decisions it would have chosen something that was shown"
    try:
        value = by(found, target)
    except SuperarmError as error:
        return _nothing(word, [str(error), seen, LEARNED])
    words = [*value.warnings, seen, LEARNED]
    support = support_of(value)
    if support == TOO_LITTLE:
        return _nothing(word, words, value.ess)
    difference = None
    try:
        difference = shown(by(found, target, against="logged"))
    except SuperarmError as error:
        words.append(str(error))
    return Verdict(
        estimator=word,
        earned=shown(value),
        difference=difference,
        effective=value.ess,
        support=support,
        words=words,
    )


def _nothing(word: str, words: list[str], effective: float | None = None) -> Verdict:
    return Verdict(
        estimator=word,
        earned=None,
        difference=None,
        effective=effective,
        support=TOO_LITTLE,
        words=words,
    )


def shown(value: Estimate) -> Interval | None:
    """An estimate as it is shown; None if it left the range of float64."""
    if not np.isfinite([value.value, value.low, value.high]).all():
        return None
    return Interval(
        value=float(value.value),
        low=float(value.low),
        high=float(value.high),
        n=value.n,
    )


def support_of(value: Estimate) -> str:
    """Whether there is enough in the log to trust an estimate."""
    if value.ess < ENOUGH_DECISIONS or value.support < ENOUGH_SUPPORT:
        return TOO_LITTLE
    if value.ess < PLENTY or value.warnings:
        return LITTLE
    return ENOUGH

"""What another learner would have earned, from the log of a running service."""

from typing import Any, NamedTuple

import numpy as np

from superarm.agent.asked import asked
from superarm.agent.specs import learner_of
from superarm.agent.state import State
from superarm.contexts import InContext
from superarm.errors import SuperarmError
from superarm.offline import Log, replay
from superarm.service import log
from superarm.service.asking import plain
from superarm.service.database import Connection
from superarm.service.decisions import seconds_of_one
from superarm.service.engine import Limits
from superarm.service.events import Decided, decoded
from superarm.service.fold import Folded, decision_of
from superarm.service.problems import TooLarge, Unfit
from superarm.service.wire import Evaluate, Evaluated

FEWEST = 10
"""Decisions with propensities and feedback that an evaluation needs."""


ANSWERED = (
    "SELECT e.position, e.time, e.body, f.seen FROM events e "
    "JOIN feedback f ON f.decision = e.position "
    "WHERE e.agent = ? AND e.kind = 'decided' AND e.body IS NOT NULL "
    "AND e.position >= ? AND e.position < ? ORDER BY e.position DESC LIMIT ?"
)


class Among(NamedTuple):
    """The decisions to look at."""

    since: int = 0  # positions in the log
    until: int = log.WHOLE
    most: int = 2**62


EVERYTHING = Among()


def require_affordable(limits: Limits, state: State, last: int) -> None:
    """Refuse to run through more decisions than there is time or memory for."""
    call = asked(state, None, None, None)
    seconds = seconds_of_one(call)
    by_time = int(limits.evaluate_seconds / seconds)
    by_memory = limits.masks // state.catalogue.L
    most = min(by_time, by_memory)
    if last > most:
        raise TooLarge(f"of this agent the last {most} decisions can be run through", "/last")


def evaluate(connection: Connection, folded: Folded, state: State, body: Evaluate) -> Evaluated:
    """Run another learner through the last decisions, as if it had made them."""
    found = logged(connection, folded, state, body.last)
    learner = learner_of(plain(body.learner, "/learner"))
    rng = np.random.default_rng(body.seed)
    try:
        run = replay(found, learner, state.problem.oracle, rng=rng)
    except SuperarmError as error:
        raise Unfit(str(error)) from error
    estimate = run.estimate
    if not np.isfinite([estimate.value, estimate.low, estimate.high]).all():
        raise Unfit("the weights of these decisions leave the range of float64, or are too few")
    return Evaluated(
        value=float(estimate.value),
        se=float(estimate.se) if np.isfinite(estimate.se) else None,
        low=float(estimate.low),
        high=float(estimate.high),
        logged=float(found.w.sum(axis=1).mean()),
        decisions=found.n,
        warnings=list(estimate.warnings),
        text=str(estimate),
    )


def logged(
    connection: Connection,
    folded: Folded,
    state: State,
    last: int,
    among: Among = EVERYTHING,
) -> Log:
    """The last decisions that have propensities, and feedback on all their items."""
    rows = connection.rows(ANSWERED, (folded.created_at, *among))
    decisions = []
    weights = []
    features: list[Any] = []
    masks = []
    for position, time, body, seen in rows:
        event: Decided = decoded(body)
        known = log.places(seen)
        if not _is_usable(event, len(known), state):
            continue
        entry = log.Entry(position, folded.created_at, time, event)
        decisions.append(decision_of(entry, state))
        weights.append([known[place].weight for place in range(len(event.items))])
        features.append(_features(event, state))
        masks.append(_mask(event, state))
        if len(decisions) == last:
            break
    if len(decisions) < FEWEST:
        raise Unfit(
            f"an evaluation needs {FEWEST} decisions with propensities and feedback on all their "
            f"items, of those that are there now; there are {len(decisions)}: decide with draws, "
            "as 1000"
        )
    for listed in (decisions, weights, features, masks):
        listed.reverse()
    Phi = features if isinstance(state.problem.Phi, InContext) else state.problem.Phi
    try:
        return Log.of_decisions(
            decisions,
            weights,
            Phi,
            items=state.catalogue.ids,
            available=np.array(masks),
        )
    except SuperarmError as error:
        raise Unfit(str(error)) from error


def _is_usable(event: Decided, known: int, state: State) -> bool:
    """Whether a decision tells what another learner would have earned, among the items of now."""
    if event.propensity is None or known < len(event.items) or not event.items:
        return False
    if event.oracle is not None:
        return False
    return all(_is_as_it_was(event, place, state) for place in range(len(event.items)))


def _is_as_it_was(event: Decided, place: int, state: State) -> bool:
    """Whether an item is still there, with the features that it had."""
    at = state.catalogue.get(event.items[place])
    if at < 0:
        return False
    Phi = state.problem.Phi
    rows = Phi.rows if isinstance(Phi, InContext) else Phi
    return bool((rows[at] == event.features.array()[place]).all())


def _features(event: Decided, state: State) -> Any:
    Phi = state.problem.Phi
    if isinstance(Phi, InContext):
        return Phi.of(np.array(event.context))
    return Phi


def _mask(event: Decided, state: State) -> Any:
    """Which of the items of now could be chosen then."""
    if event.available is None:
        return np.ones(state.catalogue.L, np.bool_)
    mask = np.zeros(state.catalogue.L, np.bool_)
    places = [state.catalogue.get(item) for item in event.available]
    mask[[place for place in places if place >= 0]] = True
    return mask

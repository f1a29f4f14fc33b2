"""A decision with its reasons, what was nearly chosen, and what came back."""

import math
import time
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.asked import Asked
from superarm.agent.explain import explain
from superarm.arrays import Array
from superarm.decide import decide
from superarm.errors import SuperarmError
from superarm.oracles.base import as_oracle
from superarm.service import commits, log
from superarm.service.dashboard.coefficients import feature_names
from superarm.service.dashboard.sampling import again
from superarm.service.dashboard.shapes import CameBack, Opened, Runner
from superarm.service.dashboard.words import constraint_words
from superarm.service.database import Connection
from superarm.service.engine import Service
from superarm.service.events import Decided, Id, Observed, decoded
from superarm.service.fold import Folded
from superarm.service.log import Entry, Place
from superarm.service.looking import contribution
from superarm.service.wire import Contribution

DRAWS = 200
"""Decisions that are not acted on, to see how often each item is chosen."""
SECONDS = 0.3
"""That they may take; fewer are made if they would take longer."""
RUNNERS = 5
"""Items that were not chosen, and are shown."""


def opened(service: Service, name: str, key: str) -> Opened:
    """A decision, explained by what is believed now."""
    folded = service.view(name)
    connection = service.database.read()
    entry = commits.find_decision(connection, folded.created_at, key)
    event: Decided = entry.event
    spec = event.oracle or folded.oracle or folded.created.oracle
    n = 0 if folded.state is None else folded.state.catalogue.n
    candidates = n if event.available is None else len(event.available)
    came_back = _came_back(connection, entry)
    weights = [one.weight for one in came_back if one.weight is not None]
    why = _why(service, name, event)
    return Opened(
        id=key,
        time=entry.time,
        items=event.items,
        context=_context(folded, event),
        candidates=candidates,
        constraint=constraint_words(spec, candidates),
        explored=event.explored,
        believed=event.believed,
        explained=folded.position,
        reasons=why.reasons,
        runners_up=why.runners,
        came_back=came_back,
        earned=sum(weights) if weights else None,
    )


def _context(folded: Folded, event: Decided) -> dict[str, float] | None:
    if event.context is None or folded.created.context is None:
        return None
    return dict(zip(folded.created.context["names"], event.context, strict=False))


# --- what came back -------------------------------------------------------------------------------


def _came_back(connection: Connection, entry: Entry) -> list[CameBack]:
    """Feedback on each item, and when it first came."""
    event: Decided = entry.event
    known = log.seen(connection, entry.position)
    first = _first(connection, {place.position for place in known.values()}, entry.position)
    made = datetime.fromisoformat(entry.time)
    found = []
    for i, item in enumerate(event.items):
        place = known.get(i)
        if place is None:
            nothing = CameBack(
                item=item, weight=None, time=None, delay=None, by_default=False, corrected=False
            )
            found.append(nothing)
        else:
            found.append(_one_back(item, i, place, first.get(place.position), made))
    return found


class _First(NamedTuple):
    """The first feedback on a decision, in one event."""

    time: str
    weights: dict[int, float]  # by place


def _first(connection: Connection, positions: set[int], decision: int) -> dict[int, _First]:
    """The events in which feedback on a decision first came, by position."""
    found = {}
    for position in positions:
        rows = connection.execute("SELECT time, body FROM events WHERE position = ?", (position,))
        for time_, body in rows:
            event: Observed = decoded(body)
            weights: dict[int, float] = {}
            for seen in event.seen:
                if seen.decision == decision:
                    weights.update(zip(seen.places, seen.weights, strict=True))
            found[position] = _First(time_, weights)
    return found


def _one_back(item: Id, i: int, place: Place, first: _First | None, made: datetime) -> CameBack:
    delay = None
    corrected = False
    if first is not None:
        delay = (datetime.fromisoformat(first.time) - made).total_seconds()
        corrected = first.weights.get(i) != place.weight
    return CameBack(
        item=item,
        weight=place.weight,
        time=None if first is None else first.time,
        delay=delay,
        by_default=place.by_default,
        corrected=corrected,
    )


# --- why ------------------------------------------------------------------------------------------


class Why(NamedTuple):
    """Why items were chosen, and which ones nearly were."""

    reasons: list[Any]
    runners: list[Runner]


def _why(service: Service, name: str, event: Decided) -> Why:
    """Reasons by what is believed now; none where the decision could not be made now."""
    try:
        folded, state = service.ready(name)
        call = again(service.limits, folded, state, event)
        chosen = [e for e in map(state.catalogue.get, event.items) if e >= 0]
        times, draws = _times(call, folded.position)
        scores = _scores(call)
        runners = _runners(call, times / draws, scores, chosen)
        if not chosen:
            return Why([], runners)
        if not call.learner.model.uses_features:
            return Why(_plain_reasons(call, chosen, times / draws, draws, scores), runners)
        found = explain(
            call.learner,
            call.belief,
            call.problem,
            np.array(chosen),
            rng=np.random.default_rng(0),
            draws=draws,
            times=times,
        )
    except (SuperarmError, ArithmeticError):
        return Why([], [])
    if not all(np.isfinite(numbers).all() for numbers in found[1:7]):
        return Why([], runners)
    named = found._replace(items=call.ids(found.items), names=tuple(feature_names(state)))
    return Why([contribution(named, i) for i in range(len(chosen))], runners)


def _scores(call: Asked) -> Array:
    """What is expected of each item, as scores, which with the logit link are log-odds."""
    return np.asarray(call.learner.model.mean(call.belief, call.problem))


def _times(call: Asked, seed: int) -> tuple[Array, int]:
    """How often each item is chosen, and in how many decisions."""
    rng = np.random.default_rng(seed)
    times = np.zeros(call.problem.L)
    end = time.perf_counter() + SECONDS
    draws = 0
    while draws < DRAWS and (draws == 0 or time.perf_counter() < end):
        A = decide(call.learner, call.belief, call.problem, rng)
        times[A[A >= 0]] += 1
        draws += 1
    return times, draws


def _runners(call: Asked, chance: Array, scores: Array, chosen: list[int]) -> list[Runner]:
    """The items that were not chosen, and are so most often; those with the best scores first."""
    oracle = as_oracle(call.problem.oracle)
    others = oracle.allowed(call.problem.L)
    others[chosen] = False
    places = np.flatnonzero(others)
    best = places[np.lexsort((-oracle.sense * scores[places], -chance[places]))][:RUNNERS]
    found = []
    for item, e in zip(call.ids(best).tolist(), best.tolist(), strict=True):
        found.append(Runner(item=item, score=float(scores[e]), chosen=float(chance[e])))
    return [one for one in found if math.isfinite(one.score)]


def _plain_reasons(
    call: Asked,
    chosen: list[int],
    chance: Array,
    draws: int,
    scores: Array,
) -> list[Contribution]:
    """What is believed of items by a learner that knows nothing of features."""
    found = []
    for item, e in zip(call.ids(np.array(chosen)).tolist(), chosen, strict=True):
        p = float(chance[e])
        one = Contribution(
            item=item,
            score=float(scores[e]),
            std=0.0,
            deviation=0.0,
            chosen=p,
            chosen_se=math.sqrt(p * (1 - p) / draws),
            contributions={},
        )
        found.append(one)
    return found

"""Decisions, and feedback on them."""

import asyncio
import secrets
import time
from functools import partial

import msgspec
import numpy as np

from superarm.agent.asked import Asked, asked
from superarm.agent.fields import MOST_SEEDS
from superarm.agent.record import record
from superarm.agent.specs import oracle_of
from superarm.agent.state import State
from superarm.contexts import InContext
from superarm.errors import ItemsError, MaskError
from superarm.service import commits, log
from superarm.service.asking import (
    checked_ids,
    digest_of,
    given_of,
    in_context,
    limited,
    needs_fractions,
    require_fractions,
)
from superarm.service.engine import Limits, Service
from superarm.service.events import Decided
from superarm.service.fold import Folded, features_to_keep
from superarm.service.problems import TooLarge, Unfit
from superarm.service.wire import (
    Decide,
    Erased,
    Explain,
    FullDecision,
    GiveFeedback,
    Made,
    Taken,
)


async def decide(service: Service, name: str, body: Decide, key: str | None = None) -> Made:
    """A decision, once it is on disk.

    Args:
        service: where the agent is.
        name: of the agent.
        body: what is asked for.
        key: with the same key, the same decision is made but once.
    """
    work = partial(_decided, service, name, body, key)
    made: Made = await service.decided(work, _whose(name, body), 1 + body.draws)
    return made


def _whose(name: str, body: Decide) -> str:
    """Of what decisions take about as long: an agent, with its oracle or one of today."""
    kind = None if body.oracle is None else body.oracle.get("kind")
    return f"{name} {kind!r:.60}"


def _decided(service: Service, name: str, body: Decide, key: str | None) -> commits.Work:
    """Decide by what is believed now; what comes back writes it down."""
    folded, state = service.ready(name)
    call = asked_by(service.limits, folded, state, body)
    seed = secrets.randbelow(MOST_SEEDS)
    rng = np.random.default_rng(seed)
    start = time.perf_counter()
    chosen = call.decided(rng)
    service.took(_whose(name, body), time.perf_counter() - start)
    made = record(call, chosen, seed, rng, body.draws, service.limits.decide_seconds)
    if len(made.items) > service.limits.chosen:
        raise TooLarge(f"a decision may be of {service.limits.chosen} items")
    Phi = made.features
    event = Decided(
        token=commits.token(),
        items=list(made.items),
        features=features_to_keep(made),
        seed=seed,
        believed=folded.position,
        context=Phi.x.tolist() if isinstance(Phi, InContext) else None,
        propensity=None if made.propensity is None else list(made.propensity),
        draws=made.draws,
        user=body.user,
        available=body.available,
        oracle=body.oracle,
    )
    work = commits.decide(folded.created_at, event)
    return commits.once(key, digest_of(name, body), work)


def asked_by(
    limits: Limits,
    folded: Folded,
    state: State,
    body: Decide | Explain,
    *,
    alone: bool = True,
) -> Asked:
    """What a request asks of an agent; with `alone`, few available items are looked at alone."""
    features = in_context(state, body.context)
    oracle = None
    if body.oracle is not None:
        oracle = oracle_of(limited(limits, body.oracle), numbers=folded.numbers)
    available = None
    if body.available is not None:
        available = checked_ids(body.available, folded, "/available")
    try:
        return asked(state, features, available, oracle, alone=alone)
    except (ItemsError, MaskError) as error:
        raise Unfit(str(error), "/available") from error


def seconds_of_one(call: Asked) -> float:
    """How long a decision takes: the shorter of two, as the first may be held up."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2):
        start = time.perf_counter()
        call.decided(rng)
        found.append(time.perf_counter() - start)
    return min(found)


def decision(service: Service, name: str, key: str) -> FullDecision:
    """A decision with all that is known of it."""
    folded = service.view(name)
    connection = service.database.read()
    entry = commits.find_decision(connection, folded.created_at, key)
    event: Decided = entry.event
    known = log.seen(connection, entry.position)
    weights = []
    for place, seen in sorted(known.items()):
        weights.append(
            {
                "item": event.items[place],
                "weight": seen.weight,
                "importance": seen.importance,
                "by_default": seen.by_default,
            }
        )
    made = msgspec.to_builtins(commits.made(entry.position, entry.time, event))
    return FullDecision(
        **made,
        agent=name,
        features=event.features.array().tolist(),
        context=event.context,
        user=event.user,
        weights=weights,
    )


async def feedback(
    service: Service,
    name: str,
    body: GiveFeedback,
    key: str | None = None,
) -> Taken:
    """Feedback, once it is on disk; it is learned soon after.

    Args:
        service: where the agent is.
        name: of the agent.
        body: what was observed.
        key: with the same key, the same answer is given.
    """
    folded = service.view(name)
    given = given_of(body)
    if folded.state is not None and needs_fractions(folded.state.learner):
        require_fractions(given)
    work = commits.feedback(folded.created_at, given, correct=body.correct)
    taken: Taken = await service.written(commits.once(key, digest_of(name, body), work))
    return taken


async def forget(service: Service, user: str) -> Erased:
    """Erase the decisions of a user, and unlearn what was learned from them."""
    decisions, observed = await service.written(commits.forget(user))
    clean = getattr(service.database, "clean", None)
    if clean is not None:
        await asyncio.to_thread(clean)
    return Erased(decisions=decisions, feedback=observed)

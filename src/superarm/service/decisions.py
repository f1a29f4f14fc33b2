"""Decisions, and feedback on them."""

import asyncio
import itertools
import secrets
import time
from typing import Any, NamedTuple

import msgspec
import numpy as np

from superarm.agent.asked import Asked, asked
from superarm.agent.fields import SEED_BITS
from superarm.agent.record import Chosen, chosen_each, record
from superarm.agent.specs import oracle_of
from superarm.agent.state import State
from superarm.arrays import broadcast
from superarm.contexts import InContext
from superarm.decide import random_numbers
from superarm.errors import ItemsError, MaskError, SuperarmError
from superarm.service import commits, log
from superarm.service import feedback as written
from superarm.service.asking import (
    checked_ids,
    digest_of,
    given_of,
    in_context,
    limited,
    needs_fractions,
    require_fractions,
)
from superarm.service.commits import Work
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
    """A decision, once it is on disk."""
    return await decided(service, name, body, key)


def decided(
    service: Service,
    name: str,
    body: Decide,
    key: str | None = None,
) -> "asyncio.Future[Made]":
    """A decision that is there once it is on disk.

    Args:
        service: where the agent is.
        name: of the agent.
        body: what is asked for.
        key: with the same key, the same decision is made but once.
    """
    wanted = Wanted(name, body, key)
    return service.decided(decide_all, wanted, wanted.whose, 1 + body.draws)


class Wanted(NamedTuple):
    """A decision that is waited for."""

    name: str
    body: Decide
    key: str | None

    @property
    def is_plain(self) -> bool:
        """Whether it can be made together with others: items, constraints and all else are the
        agent's own.
        """
        body = self.body
        return body.available is None and body.oracle is None and not body.draws

    @property
    def whose(self) -> str:
        """Of what decisions take about as long: an agent, with its oracle or one of today."""
        if self.body.oracle is None:
            return self.name
        return f"{self.name} {self.body.oracle.get('kind')!r:.60}"


def decide_all(service: Service, wanted: list[Wanted]) -> list[Work | Exception]:
    """Decide for all that wait, by what is believed now: what writes each decision down."""
    found: list[Work | Exception] = []
    for name, group in itertools.groupby(wanted, lambda one: one.name if one.is_plain else None):
        some = list(group)
        if name is None or len(some) == 1:
            found += [_decided(service, one) for one in some]
        else:
            found += _decided_together(service, name, some)
    return found


def _decided(service: Service, wanted: Wanted) -> Work | Exception:
    """One decision."""
    try:
        folded, state = service.ready(wanted.name)
        call = asked_by(service.limits, folded, state, wanted.body)
        (seed,) = _seeds(1)
        (token,) = commits.tokens(1)
        rng = random_numbers(state.learner, seed)
        start = time.perf_counter()
        chosen = call.decided(rng)
        service.took(wanted.whose, time.perf_counter() - start)
        seconds = service.limits.decide_seconds
        made = record(call, chosen, seed, rng, wanted.body.draws, seconds)
        explored = service.looks.explored(wanted.name, call, chosen)
        one = Chosen(chosen, list(made.items), made.features)
        return _work(service.limits, folded, wanted, one, seed, token, explored, made.propensity)
    except Exception as error:  # who waits is told, and the others are decided for
        return error


def _decided_together(service: Service, name: str, wanted: list[Wanted]) -> list[Work | Exception]:
    """Decisions of one agent, of which all read the features at once."""
    try:
        folded, state = service.ready(name)
        contexts = [in_context(state, one.body.context) for one in wanted]
        seeds = _seeds(len(wanted))
        rngs = random_numbers(state.learner, seeds)
        start = time.perf_counter()
        call = asked(state, _shared(state, contexts), None, None)
        chosen = service.screens.decided(name, state, call, rngs)
        service.took(wanted[0].whose, (time.perf_counter() - start) / len(wanted))
        made = chosen_each(call, chosen)
        explored: list[bool | None] = [None] * len(wanted)
        explored[0] = service.looks.explored(name, call.of_user(0), chosen[0])
        tokens = commits.tokens(len(wanted))
        each = zip(wanted, made, seeds, tokens, explored, strict=True)
        return [_work(service.limits, folded, *one) for one in each]
    except SuperarmError:  # of one of them, or of a learner whose features stay
        return [_decided(service, one) for one in wanted]


def _seeds(n: int) -> list[int]:
    """Seeds that nobody can guess."""
    words = np.frombuffer(secrets.token_bytes(8 * n), np.uint64)
    seeds: list[int] = (words >> (64 - SEED_BITS)).tolist()
    return seeds


def _shared(state: State, contexts: list[Any]) -> Any:
    """The features of several calls as one: the same items, each in its own context if any."""
    Phi: Any = state.problem.Phi
    if isinstance(Phi, InContext):
        return Phi.of(np.stack([one.x for one in contexts]))
    return broadcast(Phi, len(contexts))


def _work(
    limits: Limits,
    folded: Folded,
    wanted: Wanted,
    chosen: Chosen,
    seed: int,
    token: str,
    explored: bool | None,
    propensity: tuple[float, ...] | None = None,
) -> Work:
    """What writes a decision down."""
    if len(chosen.items) > limits.chosen:
        raise TooLarge(f"a decision may be of {limits.chosen} items")
    body = wanted.body
    Phi = chosen.features
    event = Decided(
        token=token,
        items=chosen.items,
        features=features_to_keep(Phi),
        seed=seed,
        believed=folded.position,
        context=Phi.x.tolist() if isinstance(Phi, InContext) else None,
        propensity=None if propensity is None else list(propensity),
        draws=body.draws or None,
        user=body.user,
        available=body.available,
        oracle=body.oracle,
        explored=explored,
    )
    work = commits.record_decision(folded.created_at, event)
    if wanted.key is None:
        return work
    return commits.once(wanted.key, digest_of(wanted.name, body), work)


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
    """Feedback, once it is on disk; it is learned soon after."""
    return await told(service, name, body, key)


def told(
    service: Service,
    name: str,
    body: GiveFeedback,
    key: str | None = None,
) -> "asyncio.Future[Taken]":
    """What is said to feedback once it is on disk.

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
    work = written.feedback(folded.created_at, given, correct=body.correct)
    if key is not None:
        work = commits.once(key, digest_of(name, body), work)
    return service.written(work)


async def forget(service: Service, user: str) -> Erased:
    """Erase the decisions of a user, and unlearn what was learned from them."""
    decisions, observed = await service.written(commits.erase_from_log(user))
    clean = getattr(service.database, "clean", None)
    if clean is not None:
        await asyncio.to_thread(clean)
    return Erased(decisions=decisions, feedback=observed)

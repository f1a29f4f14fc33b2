"""What is written to the log in one transaction: each checks first, and then writes.

All are called by one thread at a time, with the end of the log. What they raise leaves the
log as it was.
"""

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from superarm.service import log, snapshots
from superarm.service.database import Connection
from superarm.service.events import (
    Corrected,
    Created,
    Decided,
    Event,
    Forgotten,
    ItemsPut,
    Observed,
    Removed,
    decoded,
    encoded,
)
from superarm.service.log import Tail
from superarm.service.problems import Conflict, NotFound, Unfit
from superarm.service.wire import Made

TOKEN = 16
"""Letters of what makes the id of a decision one that nobody can guess: 64 bits."""

Work = Callable[[Tail], Any]


def once(key: str, digest: bytes, work: Work) -> Work:
    """Work that is done once per key: whoever asks again gets the same answer, as bytes."""

    def answered(tail: Tail) -> Any:
        found = tail.tx.execute("SELECT digest, reply FROM requests WHERE key = ?", (key,))
        if found:
            if bytes(found[0][0]) != digest:
                raise Unfit("this idempotency key was used for another request: take a new one")
            return msgspec.Raw(bytes(found[0][1]))
        reply = work(tail)
        kept = msgspec.json.encode(reply)
        tail.tx.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)",
            (key, tail.time, tail.position, digest, kept),
        )
        return reply

    return answered


# --- agents and items -----------------------------------------------------------------------------


def create(event: Created, items: ItemsPut | None) -> Work:
    """A new agent, maybe with items."""

    def work(tail: Tail) -> int:
        if tail.tx.execute("SELECT 1 FROM agents WHERE name = ?", (event.name,)):
            raise Conflict(f"there is an agent {event.name!r} already", "/name")
        agent = tail.append(None, event)
        tail.tx.execute("INSERT INTO agents VALUES (?, ?, ?)", (event.name, agent, agent))
        if items is not None:
            tail.append(agent, items)
        return tail.position

    return work


def change(name: str, agent: int, event: Event, seen: int) -> Work:
    """Other items or settings, if they are still those that were looked at: up to `seen`."""

    def work(tail: Tail) -> int:
        _require_agent(tail, name, agent)
        newer = tail.tx.execute(
            "SELECT 1 FROM events WHERE agent = ? AND position > ? AND kind <> 'decided' "
            "AND kind NOT IN ('observed', 'corrected', 'forgotten') LIMIT 1",
            (agent, seen),
        )
        if newer:
            raise Conflict("the agent was changed by somebody else just now: try again")
        other_learner = getattr(event, "learner", None) is not None
        if other_learner and agent <= tail.base:
            raise Conflict(
                "the log of this agent was compacted, so that another learner could not learn from "
                "its beginning: create another agent",
                "/learner",
            )
        position = tail.append(agent, event)
        if other_learner:
            snapshots.drop(tail.tx, agent, agent)
        return position

    return work


def remove(name: str, agent: int) -> Work:
    """An agent taken out of service; its log stays."""

    def work(tail: Tail) -> int:
        _require_agent(tail, name, agent)
        tail.tx.execute("DELETE FROM agents WHERE name = ?", (name,))
        return tail.append(agent, Removed())

    return work


def _require_agent(tail: Tail, name: str, agent: int) -> None:
    if tail.tx.execute("SELECT agent FROM agents WHERE name = ?", (name,)) != [(agent,)]:
        raise NotFound(f"there is no agent {name!r}")


# --- decisions and feedback -----------------------------------------------------------------------


def record_decision(agent: int, event: Decided) -> Work:
    """A decision that was made."""

    def work(tail: Tail) -> Made:
        position = tail.append(agent, event, event.user)
        return made(position, tail.time, event)

    return work


def made(position: int, time: str, event: Decided) -> Made:
    """The answer to who asked for a decision."""
    return Made(
        id=f"{position}-{event.token}",
        items=event.items,
        time=time,
        seed=event.seed,
        believed=event.believed,
        propensity=event.propensity,
        draws=event.draws,
    )


def tokens(n: int) -> list[str]:
    """What makes the ids of decisions such as nobody can guess."""
    text = secrets.token_hex(n * TOKEN // 2)
    return [text[i : i + TOKEN] for i in range(0, n * TOKEN, TOKEN)]


def position_of(key: str) -> int | None:
    """The position in an id of a decision; None if it is no id."""
    head = key.partition("-")[0]
    if not (head.isascii() and head.isdigit() and len(head) < 19):
        return None
    return int(head)


def token_of(key: str) -> str:
    """The token in an id of a decision."""
    return key.partition("-")[2]


def find_decision(connection: Connection, agent: int, key: str) -> log.Entry:
    """The decision of an agent with an id."""
    position = position_of(key)
    if position is None:
        raise NotFound(f"there is no decision {key!r:.60}", "/decision")
    try:
        found = log.decision(connection, position)
    except NotFound as error:
        raise NotFound(f"there is no decision {key!r:.60}", "/decision") from error
    if found.agent != agent or found.event.token != token_of(key):
        raise NotFound(f"there is no decision {key!r:.60}", "/decision")
    return found


# --- the right to be forgotten --------------------------------------------------------------------


def erase_from_log(user: str) -> Work:
    """Erase the decisions of a user, and what was observed of them."""

    def work(tail: Tail) -> tuple[int, int]:
        rows = tail.tx.execute(
            "SELECT agent, position FROM events WHERE person = ? ORDER BY position", (user,)
        )
        by_agent: dict[int, list[int]] = {}
        for agent, position in rows:
            by_agent.setdefault(agent, []).append(position)
        observed = 0
        for agent, decisions in by_agent.items():
            observed += _forget(tail, agent, decisions)
        return len(rows), observed

    return work


def _forget(tail: Tail, agent: int, decisions: list[int]) -> int:
    """Erase decisions of one agent; returns how many weights were observed of them."""
    tx = tail.tx
    gone = set(decisions)
    touched: set[int] = set()
    observed = 0
    for decision in decisions:
        known = log.seen(tx, decision)
        observed += len(known)
        touched.update(x.position for x in known.values() if x.position > tail.base)
    rows = tx.execute(
        "SELECT position FROM events WHERE agent = ? AND kind <> 'decided' "
        "AND kind = 'corrected' AND position > ?",
        (agent, min(decisions)),
    )
    since = min(touched, default=log.WHOLE)
    erased = sorted(touched) + [position for (position,) in rows]
    rewritten = [position for position in erased if _rewrite(tail, position, gone)]
    for decision in decisions:
        tx.execute("UPDATE events SET body = NULL, person = NULL WHERE position = ?", (decision,))
        tx.execute("DELETE FROM feedback WHERE decision = ?", (decision,))
        tx.execute("DELETE FROM requests WHERE position = ?", (decision,))
    tail.append(agent, Forgotten(decisions, rewritten))
    snapshots.drop(tx, agent, since)
    return observed


def _rewrite(tail: Tail, position: int, gone: set[int]) -> bool:
    """Take what was observed of some decisions out of an event; returns whether there was any."""
    ((body,),) = tail.tx.execute("SELECT body FROM events WHERE position = ?", (position,))
    event = decoded(body)
    if isinstance(event, Observed):
        left: Any = Observed([x for x in event.seen if x.decision not in gone], event.by_default)
    else:
        left = Corrected([x for x in event.corrections if x.decision not in gone])
    if left == event:
        return False
    tail.tx.execute("UPDATE events SET body = ? WHERE position = ?", (encoded(left), position))
    return True

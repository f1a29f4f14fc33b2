"""What is written to the log in one transaction: each checks first, and then writes.

All are called by the one thread that writes, with the end of the log. What they raise leaves the
log as it was.
"""

import itertools
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from superarm.agent.specs import as_number
from superarm.service import log, snapshots
from superarm.service.database import Connection
from superarm.service.events import (
    Corrected,
    Correction,
    Created,
    Decided,
    Event,
    Forgotten,
    ItemsPut,
    Observed,
    Removed,
    Seen,
    decoded,
    encoded,
)
from superarm.service.log import Place, Tail
from superarm.service.problems import Conflict, NotFound, Unfit
from superarm.service.wire import Made, Taken
from superarm.service.wire import Seen as Given

Work = Callable[[Tail], Any]


def once(key: str | None, digest: bytes, work: Work) -> Work:
    """Work that is done once per key: whoever asks again gets the same answer, as bytes."""
    if key is None:
        return work

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


def decide(agent: int, event: Decided) -> Work:
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


def token() -> str:
    """What makes the id of a decision one that nobody can guess."""
    return secrets.token_hex(8)


def find_decision(connection: Connection, agent: int, key: str) -> log.Entry:
    """The decision of an agent with an id."""
    head, _, rest = key.partition("-")
    if not (head.isascii() and head.isdigit() and len(head) < 19):
        raise NotFound(f"there is no decision {key!r:.60}", "/decision")
    try:
        found = log.decision(connection, int(head))
    except NotFound as error:
        raise NotFound(f"there is no decision {key!r:.60}", "/decision") from error
    if found.agent != agent or found.event.token != rest:
        raise NotFound(f"there is no decision {key!r:.60}", "/decision")
    return found


class _Feedback:
    """Feedback on decisions as it is compared with what is known."""

    def __init__(self, tail: Tail, agent: int, correct: bool) -> None:
        self.tail = tail
        self.agent = agent
        self.correct = correct
        self.known: dict[int, dict[int, Place]] = {}
        self.earned: dict[int, tuple[int, float]] = {}  # how many weights, and their sum
        self.seen: list[Seen] = []
        self.corrections: list[Correction] = []
        self.learned = 0
        self.repeated = 0

    def add(self, given: Given, pointer: str) -> None:
        """One decision's."""
        decision = find_decision(self.tail.tx, self.agent, given.decision)
        log.require_kept(decision.position, self.tail.base)
        values = values_of(given, decision.event, pointer)
        places = self.known.get(decision.position)
        if places is None:
            places = log.seen(self.tail.tx, decision.position)
            self.note(decision.position, places)
        new: list[int] = []
        for place, (weight, importance) in values.items():
            before = places.get(place)
            if before is None:
                places[place] = Place(weight, importance, 0)
                new.append(place)
            elif _is_same(before, weight, importance):
                self._repeat(before)
            else:
                item = decision.event.items[place]
                self._correct(decision.position, place, before, values[place], item, pointer)
        if new:
            self.learn(decision.position, new, values)

    def note(self, decision: int, places: dict[int, Place]) -> None:
        """Take down what is known of a decision before anything is added."""
        self.known[decision] = places
        self.earned[decision] = (len(places), sum(one.weight for one in places.values()))

    def _repeat(self, before: Place) -> None:
        self.repeated += 1
        if before.by_default:
            before.by_default = False  # what was taken for granted is certain now

    def learn(self, decision: int, new: list[int], values: dict[int, Any]) -> None:
        """Take what was observed at places of which nothing was known."""
        self.learned += len(new)
        weights = [values[place][0] for place in new]
        importance = [values[place][1] for place in new]
        counts = None
        if any(one is not None for one in importance):
            counts = [1.0 if one is None else one for one in importance]
        known, earned = self.earned[decision]
        before = earned if known else None
        self.seen.append(Seen(decision, new, weights, counts, known, before))
        self.earned[decision] = (known + len(new), earned + sum(weights))

    def _correct(
        self,
        decision: int,
        place: int,
        before: Place,
        value: tuple[float, float | None],
        item: Any,
        pointer: str,
    ) -> None:
        if not (self.correct or before.by_default):
            raise Conflict(
                f"item {item!r:.60} of this decision was observed to be {before.weight:g} before, "
                f'not {value[0]:g}: to correct it, give "correct": true',
                pointer,
            )
        if not before.position:
            raise Unfit(f"item {item!r:.60} of this decision is there twice", pointer)
        weight, importance = value
        if importance is None:  # it stays what it was
            importance = before.importance
        correction = Correction(decision, place, weight, before.position, importance, before.weight)
        self.corrections.append(correction)
        before.weight = weight
        before.importance = importance
        before.by_default = False

    def write(self, *, by_default: bool = False) -> None:
        """Append what is new, and note what is known by now."""
        tail = self.tail
        if self.seen:
            position = tail.append(self.agent, Observed(self.seen, by_default))
            for seen in self.seen:
                for place in seen.places:
                    self.known[seen.decision][place].position = position
                    self.known[seen.decision][place].by_default = by_default
        if self.corrections:
            tail.append(self.agent, Corrected([self._since(one) for one in self.corrections]))
            since = min(one.observed for one in self.corrections)
            snapshots.drop(tail.tx, self.agent, since)
        for decision, places in self.known.items():
            log.note_seen(tail.tx, decision, places)

    def _since(self, one: Correction) -> Correction:
        """A correction with what its decision came to before it, and after what was new."""
        known, earned = self.earned[one.decision]
        self.earned[one.decision] = (known, earned + one.weight - (one.before or 0.0))
        return msgspec.structs.replace(one, earned=earned)


def _is_same(before: Place, weight: float, importance: float | None) -> bool:
    """Whether feedback says what is known; of an importance that is left out it says nothing."""
    if importance is None:
        return before.weight == weight
    known = 1.0 if before.importance is None else before.importance
    return (before.weight, known) == (weight, importance)


def feedback(agent: int, given: list[Given], *, correct: bool) -> Work:
    """Feedback on decisions: each weight learned once, or all refused."""

    def work(tail: Tail) -> Taken:
        found = _Feedback(tail, agent, correct)
        many = len(given) > 1
        for i, one in enumerate(given):
            found.add(one, f"/feedback/{i}/weights" if many else "/weights")
        found.write()
        return Taken(
            learned=found.learned,
            repeated=found.repeated,
            corrected=len(found.corrections),
            position=tail.position,
        )

    return work


def values_of(
    given: Given,
    decision: Decided,
    pointer: str,
) -> dict[int, tuple[float, float | None]]:
    """Weight and importance by place in the decision."""
    weights = _by_place(given.weights, decision.items, pointer)
    share = given.importance
    if share is None or isinstance(share, float | int):
        shares = dict.fromkeys(weights, share)
    else:
        shares = _by_place(share, decision.items, pointer.replace("weights", "importance"))
        if shares.keys() != weights.keys():
            raise Unfit("importance must be of the items that have weights", pointer)
    found = {}
    for place, weight in weights.items():
        importance = shares[place]
        if importance is not None and not 0 < importance <= 1e12:
            raise Unfit(f"importance must be positive, got {importance:g}", pointer)
        found[place] = (float(weight), None if importance is None else float(importance))
    return found


def _by_place(values: Any, items: list[Any], pointer: str) -> dict[int, float]:
    """Numbers by place in a decision, from a list in its order or from an object by item."""
    if isinstance(values, list):
        if len(values) != len(items):
            raise Unfit(
                f"this decision has {len(items)} items, but there are {len(values)} numbers",
                pointer,
            )
        return dict(enumerate(values))
    numbers = bool(items) and isinstance(items[0], int)
    places = {item: place for place, item in enumerate(items)}
    found = {}
    for key, value in values.items():
        item = as_number(key, pointer) if numbers else key
        if item not in places:
            raise Unfit(f"item {item!r:.60} was not chosen in this decision", pointer)
        found[places[item]] = value
    return found


def sweep(name: str, agent: int, weight: float, before: str, most: int = 200) -> Work:
    """Take for granted what was not observed of decisions made before a time; returns whether there
    may be more.
    """

    def work(tail: Tail) -> bool:
        rows = tail.tx.execute("SELECT swept FROM agents WHERE name = ?", (name,))
        if not rows:
            return False
        due = _until(tail, rows[0][0], before, most)
        if not due:
            return False
        found = _Feedback(tail, agent, correct=False)
        for position, of_agent, kind, body in due:
            if of_agent != agent or kind != "decided" or body is None:
                continue
            decision = decoded(body)
            known = log.seen(tail.tx, position)
            left = [place for place in range(len(decision.items)) if place not in known]
            if not left:
                continue
            found.note(position, known)
            for place in left:
                known[place] = Place(weight, None, 0)
            found.learn(position, left, dict.fromkeys(left, (weight, None)))
        found.write(by_default=True)
        tail.tx.execute("UPDATE agents SET swept = ? WHERE name = ?", (due[-1][0], name))
        return len(due) == most

    return work


def _until(tail: Tail, after: int, before: str, most: int) -> list[Any]:
    """The events after a position that happened before a time, up to the first that did not."""
    rows = tail.tx.rows(
        "SELECT position, agent, kind, body, time FROM events WHERE position > ? "
        "ORDER BY position LIMIT ?",
        (after, most),
    )
    return [row[:4] for row in itertools.takewhile(lambda row: row[4] < before, rows)]


# --- the right to be forgotten --------------------------------------------------------------------


def forget(user: str) -> Work:
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

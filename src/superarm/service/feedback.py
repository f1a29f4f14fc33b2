"""Feedback as it is written to the log: each weight is learned once, or all is refused."""

import itertools
from typing import Any, NamedTuple

import msgspec

from superarm.agent.specs import as_number
from superarm.service import log, snapshots
from superarm.service.commits import Work, find_decision, position_of, token_of
from superarm.service.events import (
    Chosen,
    Corrected,
    Correction,
    Observed,
    Seen,
    chosen,
    decoded,
)
from superarm.service.log import Entry, Known, Place, Tail, Told
from superarm.service.problems import Conflict, Unfit
from superarm.service.wire import Seen as Given
from superarm.service.wire import Taken


def feedback(agent: int, given: list[Given], *, correct: bool) -> Work:
    """Feedback on decisions: each weight learned once, or all refused."""

    def work(tail: Tail) -> Taken:
        found = _Feedback(tail, agent, correct=correct)
        found.look([one.decision for one in given])
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


class Values(NamedTuple):
    """What is said to have been observed at places of a decision."""

    places: list[int]
    weights: list[float]
    importance: list[float] | None

    def at(self, i: int) -> tuple[float, float | None]:
        """Weight and importance at one of the places."""
        return self.weights[i], None if self.importance is None else self.importance[i]

    def part(self, some: list[int]) -> "Values":
        """What is said of some of the places."""
        importance = None
        if self.importance is not None:
            importance = [self.importance[i] for i in some]
        weights = [self.weights[i] for i in some]
        return Values([self.places[i] for i in some], weights, importance)


class Earned(NamedTuple):
    """What is known of a decision in two numbers."""

    known: int  # places
    total: float  # of their weights


NOTHING = Earned(0, 0.0)


class _Feedback:
    """Feedback on decisions as it is compared with what is known."""

    def __init__(self, tail: Tail, agent: int, *, correct: bool, by_default: bool = False) -> None:
        self.tail = tail
        self.agent = agent
        self.correct = correct
        self.by_default = by_default
        self.position = tail.position + 1
        """Where the event will be with all that is new."""
        self.made: dict[str, Entry] = {}  # by id
        self.known: dict[int, Known] = {}
        self.earned: dict[int, Earned] = {}
        self.seen: list[Seen] = []
        self.corrections: list[Correction] = []
        self.learned = 0
        self.repeated = 0

    def look(self, keys: list[str]) -> None:
        """Read the decisions with these ids, and what is known of them, as far as they exist."""
        positions = {key: position_of(key) for key in keys}
        wanted = [at for at in set(positions.values()) if at is not None]
        made = log.decisions(self.tail.tx, wanted, chosen)
        for decision, places in log.seen_each(self.tail.tx, made).items():
            self.note(decision, places)
        for key, position in positions.items():
            if position in made:
                self.made[key] = made[position]

    def note(self, decision: int, places: dict[int, Place]) -> None:
        """Take down what is known of a decision before anything is added."""
        self.known[decision] = places
        if places:
            total = sum(one.weight for one in places.values())
            self.earned[decision] = Earned(len(places), total)

    def _decision(self, key: str) -> Entry:
        """The decision with an id."""
        found = self.made.get(key)
        if found is None or found.agent != self.agent or found.event.token != token_of(key):
            return find_decision(self.tail.tx, self.agent, key)  # which says what is wrong
        log.require_kept(found.position, self.tail.base)
        return found

    def _by_place(self, decision: int) -> dict[int, Place]:
        """What is known of a decision by now, to be added to."""
        known = self.known[decision]
        if isinstance(known, Told):
            known = known.by_place()
            self.known[decision] = known
        return known

    def add(self, given: Given, pointer: str) -> None:
        """One decision's."""
        decision = self._decision(given.decision)
        values = values_of(given, decision.event, pointer)
        if self.known[decision.position]:
            values = self._new(decision, values, pointer)
        self.learn(decision.position, values)

    def _new(self, decision: Entry, values: Values, pointer: str) -> Values:
        """What is said of places of which nothing was known; of the others, it is compared."""
        known = self._by_place(decision.position)
        new = []
        for i, place in enumerate(values.places):
            before = known.get(place)
            if before is None:
                new.append(i)
            elif _is_same(before, *values.at(i)):
                self.repeated += 1
                before.by_default = False  # what was taken for granted is certain now
            else:
                self._correct(decision, place, before, *values.at(i), pointer)
        return values.part(new)

    def learn(self, decision: int, values: Values) -> None:
        """Take what was observed at places of which nothing was known."""
        if not values.places:
            return
        self.learned += len(values.places)
        told = Told(self.position, self.by_default, *values)
        if self.known[decision]:
            self._by_place(decision).update(told.by_place())
        else:
            self.known[decision] = told
        earned = self.earned.get(decision, NOTHING)
        before = earned.total if earned.known else None
        self.seen.append(Seen(decision, *values, earned.known, before))
        total = earned.total + sum(values.weights)
        self.earned[decision] = Earned(earned.known + len(values.places), total)

    def _correct(
        self,
        decision: Entry,
        place: int,
        before: Place,
        weight: float,
        importance: float | None,
        pointer: str,
    ) -> None:
        item = decision.event.items[place]
        if not (self.correct or before.by_default):
            raise Conflict(
                f"item {item!r:.60} of this decision was observed to be {before.weight:g} before, "
                f'not {weight:g}: to correct it, give "correct": true',
                pointer,
            )
        if before.position == self.position:
            raise Unfit(f"item {item!r:.60} of this decision is there twice", pointer)
        if importance is None:  # it stays what it was
            importance = before.importance
        correction = Correction(
            decision.position, place, weight, before.position, importance, before.weight
        )
        self.corrections.append(correction)
        before.weight = weight
        before.importance = importance
        before.by_default = False

    def write(self) -> None:
        """Append what is new, and note what is known by now."""
        tail = self.tail
        if self.seen:
            tail.append(self.agent, Observed(self.seen, self.by_default))
        if self.corrections:
            tail.append(self.agent, Corrected([self._since(one) for one in self.corrections]))
            since = min(one.observed for one in self.corrections)
            snapshots.drop(tail.tx, self.agent, since)
        log.note_seen(tail.tx, self.known)

    def _since(self, one: Correction) -> Correction:
        """A correction with what its decision came to before it, and after what was new."""
        known, total = self.earned[one.decision]
        self.earned[one.decision] = Earned(known, total + one.weight - (one.before or 0.0))
        return msgspec.structs.replace(one, earned=total)


def _is_same(before: Place, weight: float, importance: float | None) -> bool:
    """Whether feedback says what is known; of an importance that is left out it says nothing."""
    if importance is None:
        return before.weight == weight
    known = 1.0 if before.importance is None else before.importance
    return (before.weight, known) == (weight, importance)


def values_of(given: Given, decision: Chosen, pointer: str) -> Values:
    """What feedback says, by place in the decision."""
    if isinstance(given.weights, list) and given.importance is None:
        _require_length(given.weights, decision.items, pointer)
        return Values(list(range(len(decision.items))), list(map(float, given.weights)), None)
    weights = _by_place(given.weights, decision.items, pointer)
    places = list(weights)
    share = given.importance
    importance = None
    if isinstance(share, float | int):
        importance = [float(share)] * len(places)
    elif share is not None:
        shares = _by_place(share, decision.items, pointer.replace("weights", "importance"))
        if shares.keys() != weights.keys():
            raise Unfit("importance must be of the items that have weights", pointer)
        importance = [float(shares[place]) for place in places]
    for one in importance or ():
        if not 0 < one <= 1e12:
            raise Unfit(f"importance must be positive, got {one:g}", pointer)
    return Values(places, list(map(float, weights.values())), importance)


def _by_place(values: Any, items: list[Any], pointer: str) -> dict[int, float]:
    """Numbers by place in a decision, from a list in its order or from an object by item."""
    if isinstance(values, list):
        _require_length(values, items, pointer)
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


def _require_length(values: list[float], items: list[Any], pointer: str) -> None:
    if len(values) != len(items):
        raise Unfit(
            f"this decision has {len(items)} items, but there are {len(values)} numbers",
            pointer,
        )


# --- feedback that does not come ------------------------------------------------------------------


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
        found = _Feedback(tail, agent, correct=False, by_default=True)
        known = log.seen_each(tail.tx, [position for position, *_ in due])
        for position, of_agent, kind, body in due:
            if of_agent != agent or kind != "decided" or body is None:
                continue
            decision = decoded(body)
            left = [place for place in range(len(decision.items)) if place not in known[position]]
            if left:
                found.note(position, known[position])
                found.learn(position, Values(left, [weight] * len(left), None))
        found.write()
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

"""Visitors who decide, give feedback, repeat and correct it, and write down all that was
acknowledged; and what is wrong with a log in the light of that.
"""

import json
from collections import Counter
from contextlib import contextmanager

import numpy as np
from serving import Lost

from superarm.service import log, snapshots
from superarm.service.door import hidden
from superarm.service.events import Corrected, Decided, Observed, decoded
from superarm.service.fold import fold

ITEMS = [f"item {e}" for e in range(8)]
AGENTS = {
    "lin": {"learner": {"kind": "CombLinTS"}},
    "counts": {"learner": {"kind": "CombUCB1"}, "default": {"after": 0.3, "weight": 0.0}},
}


def create(name):
    """The request that creates an agent."""
    features = np.random.default_rng(7).integers(-8, 9, (len(ITEMS), 3)) / 8
    return {
        "name": name,
        "oracle": {"kind": "TopK", "k": 3},
        "items": {"items": ITEMS, "features": features.tolist()},
        **AGENTS[name],
    }


class Said:
    """All that was acknowledged."""

    def __init__(self):
        self.decisions = {}  # items, by id
        self.agent = {}  # by id of a decision
        self.weights = {}  # by id of a decision and item
        self.corrections = Counter()  # by id of a decision and item
        self.replies = {}  # path, body and reply, by idempotency key
        self.wrong = []  # answers that should not have been

    def __len__(self):
        return len(self.decisions) + len(self.weights)


class Visitor:
    """One who asks, one request after the other.

    Args:
        agent: the agent that is asked.
        name: part of the idempotency keys.
        send: takes path, body and key; returns status and reply, or raises Lost.
        said: where to write down what was acknowledged.
    """

    def __init__(self, agent, name, send, said):
        self.agent = agent
        self.name = name
        self.send = send
        self.said = said
        self.rng = np.random.default_rng([len(agent), name])
        self.sent = 0
        self.mine = []  # ids of decisions
        self.lost = 0

    async def ask(self, kind, body, *, keyed=True):
        """The answer, however often it takes."""
        path = f"/v1/agents/{self.agent}/{kind}"
        self.sent += 1
        key = f"{self.agent} {self.name} {self.sent}" if keyed else None
        while True:
            try:
                status, reply = await self.send(path, body, key)
            except Lost:
                self.lost += 1
                continue
            if keyed and status < 300:
                self.said.replies[key] = (path, body, reply)
            return status, reply

    async def go_on(self):
        """Do one thing."""
        chance = self.rng.random()
        if chance < 0.4 or not self.mine:
            await self.decide()
        elif chance < 0.45:
            await self.ask_again()
        else:
            recent = self.mine[-20:]
            await self.give(recent[self.rng.integers(len(recent))])

    async def decide(self):
        status, made = await self.ask("decisions", {}, keyed=self.rng.random() < 0.8)
        if status != 201:
            self.said.wrong.append(("decide", status, made))
            return
        self.said.decisions[made["id"]] = made["items"]
        self.said.agent[made["id"]] = self.agent
        self.mine.append(made["id"])

    async def ask_again(self):
        """What was acknowledged is asked again with its key: the answer is the same."""
        own = [key for key in self.said.replies if key.startswith(f"{self.agent} {self.name} ")]
        key = own[self.rng.integers(max(0, len(own) - 50), len(own))] if own else None
        if key is None:
            return
        path, body, reply = self.said.replies[key]
        try:
            again = await self.send(path, body, key)
        except Lost:
            return
        if again[1] != reply:
            self.said.wrong.append(("another answer", key, reply, again))

    async def give(self, decision):
        """Feedback on some items: new, the same again, a correction, or a contradiction."""
        items = self.said.decisions[decision]
        n = self.rng.integers(1, len(items) + 1)
        chosen = [items[i] for i in self.rng.permutation(len(items))[:n]]
        weights = {}
        known = 0
        changed = 0
        for item in chosen:
            before = self.said.weights.get((decision, item))
            weight = int(self.rng.integers(0, 9)) / 8
            if before is not None and self.rng.random() < 0.5:
                weight = before
            known += before is not None
            changed += before is not None and weight != before
            weights[item] = weight
        correct = bool(self.rng.random() < 0.7)
        body = {"decision": decision, "weights": weights, "correct": correct}
        status, taken = await self.ask("feedback", body, keyed=self.rng.random() < 0.6)
        wanted = 409 if changed and not correct else 200
        if status != wanted:
            self.said.wrong.append(("feedback", wanted, status, taken))
        if status != 200:
            return
        if sum(taken[name] for name in ("learned", "repeated", "corrected")) != len(weights):
            self.said.wrong.append(("counts", taken, weights))
        for item, weight in weights.items():
            before = self.said.weights.get((decision, item))
            self.said.corrections[decision, item] += before not in (None, weight)
            self.said.weights[decision, item] = weight


# --- what is wrong --------------------------------------------------------------------------------


@contextmanager
def still(database):
    """A log as it is now, while others go on writing."""
    connection = database.read()
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")


def faults(connection, said):
    """All that is wrong with a log, once nobody waits for an answer any more."""
    found = [*said.wrong, *log.verify(connection)]
    rows = connection.execute("SELECT position, kind, body FROM events ORDER BY position")
    events = {position: decoded(body) for position, _, body in rows}
    observed = Counter()
    corrected = Counter()
    true = {}
    for event in events.values():
        if isinstance(event, Observed):
            for seen in event.seen:
                for place, weight in zip(seen.places, seen.weights, strict=True):
                    observed[seen.decision, place] += 1
                    true[seen.decision, place] = weight
        elif isinstance(event, Corrected):
            for one in event.corrections:
                corrected[one.decision, one.place] += 1
                true[one.decision, one.place] = one.weight
    found += [("learned twice", place, n) for place, n in observed.items() if n != 1]
    table = {}
    for decision, seen in connection.execute("SELECT decision, seen FROM feedback"):
        for place, value in log.places(seen).items():
            table[decision, place] = value.weight
    if table != true:
        found.append(("table of feedback", set(table.items()) ^ set(true.items())))
    for key, items in said.decisions.items():
        position, _, token = key.partition("-")
        event = events.get(int(position))
        if not isinstance(event, Decided) or (event.token, event.items) != (token, items):
            found.append(("decision lost", key))
    for (key, item), weight in said.weights.items():
        place = (int(key.partition("-")[0]), said.decisions[key].index(item))
        if true.get(place) != weight:
            found.append(("feedback lost", key, item, weight, true.get(place)))
        least = said.corrections[key, item]  # a default may have been corrected beside
        if not least <= corrected[place] <= least + 1:
            found.append(("corrections", key, item, least, corrected[place]))
    replies = dict(connection.execute("SELECT key, reply FROM requests"))
    kept = {key.rpartition(":")[2]: json.loads(reply) for key, reply in replies.items()}
    for key, (_, _, reply) in said.replies.items():
        if kept.get(key, kept.get(hidden(key))) != reply:
            found.append(("answer lost", key))
    return found


def is_sum(connection, folded):
    """Whether the belief of an agent that counts is what sums over its whole log give."""
    n = Counter()
    total = Counter()
    rows = connection.execute(
        "SELECT e.body, f.seen FROM feedback f JOIN events e ON e.position = f.decision "
        "WHERE e.agent = ?",
        (folded.created_at,),
    )
    for body, seen in rows:
        items = decoded(body).items
        for place, value in log.places(seen).items():
            n[items[place]] += 1
            total[items[place]] += value.weight
    belief = folded.state.belief
    wanted = [(n[item], total[item]) for item in folded.state.catalogue.ids.tolist()]
    return list(zip(belief.n, belief.weight_sums, strict=True)) == wanted


def belief_bits(belief):
    """The bytes of all fields of a belief."""
    return [np.asarray(field).tobytes() for field in belief]


def same(one, other):
    """Whether all that was learned is the same, bit by bit."""
    mine = (one.learned, one.unfit, one.time)
    if mine != (other.learned, other.unfit, other.time):
        return False
    return belief_bits(one.state.belief) == belief_bits(other.state.belief)


def require_same_folds(connection):
    """The fold over the whole log is the fold from the last snapshot on, and what was counted."""
    for name, agent in log.agents(connection).items():
        folded = fold(connection, agent)
        start = snapshots.newest(connection, agent, log.WHOLE)
        assert start is not None, "there is no snapshot"
        assert same(fold(connection, agent, start), folded), name
        assert name != "counts" or is_sum(connection, folded)

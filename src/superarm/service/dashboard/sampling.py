"""Decisions of the log, some of many: what they could choose from, and in which context."""

from typing import NamedTuple

import numpy as np

from superarm.agent.asked import Asked
from superarm.agent.state import State
from superarm.errors import SuperarmError
from superarm.service import log
from superarm.service.dashboard.ranges import iso
from superarm.service.database import Connection
from superarm.service.decisions import asked_by
from superarm.service.engine import Limits
from superarm.service.events import Decided, decoded
from superarm.service.fold import Folded
from superarm.service.wire import Explain

MOST = 5000
"""Decisions that a sample is drawn from."""
NEXT = "SELECT position, time FROM events WHERE position >= ? ORDER BY position LIMIT 1"
POSITIONS = (
    "SELECT position FROM events WHERE agent = ? AND kind = 'decided' "
    "AND position >= ? AND position < ? ORDER BY position LIMIT ?"
)
ONE = "SELECT body FROM events WHERE position = ?"
NTH = (
    "SELECT position FROM events WHERE agent = ? AND kind = 'decided' "
    "ORDER BY position LIMIT 1 OFFSET ?"
)


class Part(NamedTuple):
    """A part of the log."""

    since: int  # positions
    until: int


def position_at(connection: Connection, seconds: float) -> int:
    """The first position at or after a time: times only grow, so that it is found by halves."""
    wanted = iso(seconds)
    low = log.base(connection) + 1
    high = log.head(connection)[0] + 1
    while low < high:
        middle = (low + high) // 2
        rows = connection.execute(NEXT, (middle,))
        if rows and rows[0][1] < wanted:
            low = rows[0][0] + 1
        else:
            high = middle
    return low


def sampled(
    connection: Connection,
    limits: Limits,
    folded: Folded,
    state: State,
    part: Part,
    n: int,
    rng: np.random.Generator,
) -> list[Asked]:
    """What some decisions in a part of the log asked for, among the items of now."""
    chosen = _positions(connection, folded.created_at, part, n, rng)
    found = []
    for position in chosen:
        for (body,) in connection.execute(ONE, (position,)):
            if body is None:
                continue
            try:
                found.append(again(limits, folded, state, decoded(body)))
            except SuperarmError:  # it could not be asked for now
                continue
    return found


def again(limits: Limits, folded: Folded, state: State, event: Decided) -> Asked:
    """What a decision asked for, to be asked again."""
    here = event.available
    if here is not None:
        here = [item for item in here if state.catalogue.get(item) >= 0]
    wanted = Explain(context=event.context, available=here, oracle=event.oracle)
    return asked_by(limits, folded, state, wanted, alone=False)


def _positions(
    connection: Connection,
    agent: int,
    part: Part,
    n: int,
    rng: np.random.Generator,
) -> list[int]:
    """Where some decisions of an agent are; of very many, some that follow on each other."""
    rows = connection.execute(POSITIONS, (agent, *part, MOST))
    if len(rows) == MOST:
        start = int(rng.integers(part.since, part.until))
        rows = connection.execute(POSITIONS, (agent, start, part.until, MOST)) or rows
    listed = np.array([position for (position,) in rows], np.int64)
    if len(listed) > n:
        listed = np.sort(rng.choice(listed, n, replace=False))
    found: list[int] = listed.tolist()
    return found

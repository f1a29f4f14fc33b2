"""The policy of an agent's first day: what it believed then, to be compared with."""

import threading
from collections import OrderedDict
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from superarm.agent.state import State
from superarm.base_learner import as_learner
from superarm.contracts import Learner
from superarm.errors import SuperarmError
from superarm.service import log, snapshots
from superarm.service.dashboard import tallies
from superarm.service.dashboard.counting import seconds_of
from superarm.service.dashboard.ranges import DAY
from superarm.service.dashboard.sampling import NTH, position_at
from superarm.service.database import Connection
from superarm.service.engine import Service
from superarm.service.fold import Folded, fold

FOLDED = 20_000
"""Events that are folded at most, where there is no snapshot."""
FEWEST = 20
"""Decisions of which a tenth is worth looking at."""
REMEMBERED = 8
"""Policies that are remembered."""
TIME = "SELECT time FROM events WHERE position <= ? ORDER BY position DESC LIMIT 1"
FOLDED_AT = (
    "SELECT position FROM events WHERE agent = ? AND position > ? AND kind <> 'decided' "
    "ORDER BY position LIMIT 1 OFFSET ?"
)


class Policy(NamedTuple):
    """A learner with what it believed."""

    learner: Learner
    belief: Any  # of the items of now
    time: str
    words: str


_known: WeakKeyDictionary[Service, OrderedDict[tuple[int, int], Folded]] = WeakKeyDictionary()
_lock = threading.Lock()


def policy(service: Service, folded: Folded, state: State, moment: float) -> Policy | None:
    """The policy of the first day; of an agent that is younger, that after about a tenth of its
    decisions. None if there is none.
    """
    connection = service.database.read()
    agent = folded.created_at
    first = connection.execute(NTH, (agent, 0))
    if not first:
        return None
    began = seconds_of(_time(connection, first[0][0]))
    if moment - began >= DAY:
        position = position_at(connection, began + DAY) - 1
        words = "the first day's policy is what was believed at {time}"
        then = snapshots.newest(connection, agent, position + 1)
        if then is None or then.position < first[0][0]:
            then = _folded(service, agent, position)
    else:
        n = tallies.ever(connection, agent).decisions
        if n < FEWEST:
            return None
        k = 2 ** ((n // 10).bit_length() - 1)  # so that it is not another one every second
        words = "the agent is younger than a day: its first day's policy is what it believed "
        words += f"after {k:,} decisions, about a tenth of all"
        position = connection.execute(NTH, (agent, k))[0][0]
        then = _folded(service, agent, position)
    if then is None or then.state is None:
        return None
    return _fitted(then, state, _time(connection, then.position), words)


def _time(connection: Connection, position: int) -> str:
    found = connection.execute(TIME, (position,))
    return str(found[0][0]) if found else ""


def _folded(service: Service, agent: int, position: int) -> Folded | None:
    """What was believed at a position, or after as many events as can be folded."""
    with _lock:
        known = _known.setdefault(service, OrderedDict())
        if (agent, position) not in known:
            known[agent, position] = _fold(service.database.read(), agent, position)
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return known.get((agent, position))


def _fold(connection: Connection, agent: int, position: int) -> Any:
    start = snapshots.newest(connection, agent, position + 1)
    after = agent - 1 if start is None else start.position
    if start is None and agent <= log.base(connection):
        return None  # the log does not go back as far
    rows = connection.execute(FOLDED_AT, (agent, after, FOLDED))
    upto = min(position, rows[0][0]) if rows else position
    try:
        return fold(connection, agent, start, upto)
    except (LookupError, SuperarmError):
        return None


def _fitted(then: Folded, state: State, time: str, words: str) -> Policy | None:
    """The policy with its belief about the items of now."""
    before: Any = then.state
    if before.problem.d != state.problem.d:
        return None
    source = np.array([before.catalogue.get(item) for item in state.catalogue.ids.tolist()])
    learner = as_learner(before.learner).resize(source)
    try:
        belief = learner.model.resize(before.belief, before.problem, state.problem, source)
    except (SuperarmError, ArithmeticError, np.linalg.LinAlgError):
        return None
    return Policy(learner, belief, time, words.format(time=time[:16].replace("T", " ")))

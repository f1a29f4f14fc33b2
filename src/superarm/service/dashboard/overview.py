"""All agents, and how the service does."""

import threading
import time

from superarm.agent.decisions import now
from superarm.service import log
from superarm.service.dashboard import tallies
from superarm.service.dashboard.counting import seconds_of
from superarm.service.dashboard.history import Steps, steps
from superarm.service.dashboard.ranges import Range, iso
from superarm.service.dashboard.shapes import AgentLine, Overview
from superarm.service.dashboard.spread import interval
from superarm.service.dashboard.words import constraint_words, learner_words
from superarm.service.database import Connection
from superarm.service.engine import Service
from superarm.service.fold import Folded

POINTS = 60
"""Of the small plot of an agent."""
FRESH = 0.9
"""Seconds for which an answer is given again: many may look at once."""
REST = 20.0
"""After an answer, as many times as long as it took it is given again: of very many agents, 5 % of
the time is spent on it at most."""
TIME_OF_NEXT = "SELECT time FROM events WHERE position > ? ORDER BY position LIMIT 1"


def overview(service: Service, wanted: Range) -> Overview:
    """All agents over a range of time."""
    connection = service.database.read()
    moment = now().timestamp()
    end, _ = log.head(connection)
    views = sorted(service.learner.views.items())
    learned = service.learner.position
    return Overview(
        time=iso(moment),
        since=iso(wanted.since),
        agents=[_line(connection, name, folded, wanted) for name, folded in views],
        behind=max(0, end - learned),
        behind_seconds=_behind(connection, learned, moment),
        uncounted=max(0, end - tallies.counted(connection).upto),
        storage=service.database.size(),
        events=end - log.base(connection),
    )


def _behind(connection: Connection, learned: int, moment: float) -> float:
    """How old the first event is that is not learned from."""
    rows = connection.execute(TIME_OF_NEXT, (learned,))
    return max(0.0, moment - seconds_of(rows[0][0])) if rows else 0.0


def _line(connection: Connection, name: str, folded: Folded, wanted: Range) -> AgentLine:
    found = steps(connection, folded.created_at, wanted, POINTS)
    total = found.total
    n = 0 if folded.state is None else folded.state.catalogue.n
    since = max(found.start[0], seconds_of(folded.began))
    minutes = max(1.0, wanted.until - since) / 60
    return AgentLine(
        name=name,
        learner=learner_words(folded.created.learner),
        constraint=constraint_words(folded.oracle or folded.created.oracle, n),
        items=n,
        decisions=total.decisions,
        feedback=total.weights,
        decisions_per_minute=total.decisions / minutes,
        feedback_per_minute=total.weights / minutes,
        answered=total.answered / total.decisions if total.decisions else None,
        delay=total.median_delay,
        earned=interval(total.answered, total.earned, total.squares),
        curve=small_curve(found, wanted.until),
    )


def small_curve(found: Steps, until: float) -> list[float | None]:
    """Return per decision in each step. A last step that goes on is left out where others say
    something: few decisions are in it, and part of their feedback has yet to come.
    """
    means = [interval(x.answered, x.earned, x.squares) for x in found.tallies]
    values = [None if x is None else x.value for x in means]
    goes_on = found.start[-1] + found.step > until
    earlier = values[:-1]
    is_enough = any(value is not None for value in earlier)
    return earlier if goes_on and is_enough else values


class Shared:
    """Overviews of the last minutes, made once for all who look at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[int, tuple[float, Overview]] = {}

    def last(self, service: Service, seconds: int) -> Overview:
        """The overview of the last seconds, as of a second ago."""
        with self._lock:
            due, found = self._made.get(seconds, (0.0, None))
            start = time.monotonic()
            if found is None or start > due:
                moment = now().timestamp()
                found = overview(service, Range(moment - seconds, moment))
                if len(self._made) > 16:
                    self._made.clear()
                end = time.monotonic()
                self._made[seconds] = (start + max(FRESH, REST * (end - start)), found)
            return found

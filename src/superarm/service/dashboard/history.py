"""An agent over time."""

import math
from typing import NamedTuple

from superarm.service.dashboard import tallies
from superarm.service.dashboard.following import SCALES
from superarm.service.dashboard.ranges import Range, iso, span_of
from superarm.service.dashboard.shapes import History
from superarm.service.dashboard.spread import interval
from superarm.service.dashboard.tallies import Tally
from superarm.service.database import Connection
from superarm.service.engine import Service

NOTHING = Tally(delays={}, scales={})
"""Of all steps in which nothing happened; to be read only."""


class Steps(NamedTuple):
    """Tallies of a range of time in steps."""

    step: int
    start: list[int]  # when each begins
    tallies: list[Tally]

    @property
    def total(self) -> Tally:
        """All of them together."""
        found = Tally(delays={}, scales={})
        for tally in self.tallies:
            if tally is not NOTHING:
                found.add(tally)
        return found


def steps(connection: Connection, agent: int, wanted: Range, points: int) -> Steps:
    """What was counted in a range of time, in at most so many steps and one more, as they begin at
    whole minutes, hours or days.
    """
    step = wanted.step(points)
    first = math.floor(wanted.since / step) * step
    start = list(range(first, math.ceil(wanted.until), step))
    found: dict[int, Tally] = {}
    for at, tally in tallies.between(connection, agent, span_of(step), first, wanted.until):
        known = found.setdefault((at - first) // step, tally)
        if known is not tally:
            known.add(tally)
    return Steps(step, start, [found.get(i, NOTHING) for i in range(len(start))])


def history(service: Service, name: str, wanted: Range, points: int) -> History:
    """An agent over time, a column per step."""
    agent = service.view(name).created_at
    found = steps(service.database.read(), agent, wanted, points)
    earned = [interval(x.answered, x.earned, x.squares) for x in found.tallies]
    scales = {}
    for scale in SCALES:
        values = [x.scales.get(scale) for x in found.tallies]
        if any(value is not None for value in values):
            scales[scale] = values
    return History(
        since=iso(wanted.since),
        until=iso(wanted.until),
        step=found.step,
        time=found.start,
        decisions=[x.decisions for x in found.tallies],
        answered=[x.answered for x in found.tallies],
        feedback=[x.weights for x in found.tallies],
        delay=[x.mean_delay for x in found.tallies],
        earned=[None if x is None else x.value for x in earned],
        low=[None if x is None else x.low for x in earned],
        high=[None if x is None else x.high for x in earned],
        explored=[x.explored / x.looked_at if x.looked_at else None for x in found.tallies],
        looked_at=[x.looked_at for x in found.tallies],
        scales=scales,
    )

"""Ranges of time, as they are asked for, and the steps they are shown in."""

import math
from datetime import UTC, datetime
from typing import NamedTuple

from superarm.agent.decisions import as_time, now
from superarm.service.dashboard.tallies import HOUR, MINUTE
from superarm.service.problems import Unfit

STEPS = (60, 120, 300, 600, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
"""Seconds of a step; longer ones are whole days."""
DAY = 86_400
LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


class Range(NamedTuple):
    """A range of time, in seconds since 1970."""

    since: float
    until: float

    def step(self, points: int) -> int:
        """The shortest step that makes at most so many."""
        wanted = (self.until - self.since) / max(1, points)
        for step in STEPS:
            if step >= wanted:
                return step
        return DAY * math.ceil(wanted / DAY)


def span_of(step: int) -> int:
    """The buckets that a step is made of."""
    return MINUTE if step < HOUR else HOUR


def range_of(since: str | None, until: str | None, length: float) -> Range:
    """The range that two times mean: by default the last `length` seconds.

    >>> from superarm.service.dashboard.ranges import range_of
    >>> range_of("2026-01-31T00:00:00Z", "1769904000", 60.0)
    Range(since=1769817600.0, until=1769904000.0)
    """
    end = now().timestamp() if until is None else moment(until, "/until")
    start = end - length if since is None else moment(since, "/since")
    if start >= end:
        raise Unfit("since must be before until", "/since")
    return Range(start, end)


def moment(text: str, field: str) -> float:
    """The seconds since 1970 of a time: ISO 8601, of UTC where no zone is named, or seconds."""
    try:
        seconds = _seconds(text)
    except (OverflowError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < LATEST:
        raise Unfit(
            f"a time is such as 2026-01-31T12:00:00Z, or seconds since 1970; got {text!r:.60}",
            field,
        )
    return seconds


def _seconds(text: str) -> float:
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def iso(seconds: float) -> str:
    """A time as the service writes it."""
    return as_time(datetime.fromtimestamp(seconds, UTC))

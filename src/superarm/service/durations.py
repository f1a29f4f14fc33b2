"""Times as people write them: "30 min", "2 h", "7 d", or seconds."""

import math
import re

from superarm.service.problems import Unfit

UNITS = {"s": 1, "sec": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds_of(given: str | float, field: str) -> float:
    """The seconds that a text or a number means.

    >>> from superarm.service.durations import seconds_of
    >>> seconds_of("30 min", "/default/after")
    1800.0
    """
    value = -1.0
    if isinstance(given, str):
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([a-z]{1,3})", given)
        if found is not None and found[2] in UNITS:
            value = float(found[1]) * UNITS[found[2]]
    elif math.isfinite(given):
        value = float(given)
    if not 0 < value <= 10 * 365 * 86400:
        raise Unfit(
            f'a time is a number of seconds, or such as "30 min", "2 h" or "7 d", of at most ten '
            f"years; got {given!r:.60}",
            field,
        )
    return value

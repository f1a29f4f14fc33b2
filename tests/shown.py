"""A service whose log is counted at once, to look at."""

import time
from contextlib import contextmanager

from hosted import Hosted
from superarm.service.dashboard import following, tallies


@contextmanager
def counting(folder, monkeypatch, **options):
    """A service that counts as soon as anything happens."""
    monkeypatch.setattr(following, "EVERY", 0.01)
    monkeypatch.setattr(following, "BYTES_PER_SECOND", 2**30)
    with Hosted(folder, **options) as host:
        yield host


def settle(host):
    """Until all that happened is counted."""
    end, _ = host.head
    for _ in range(50_000):
        found = tallies.counted(host.database.read())
        if found.least >= end:
            return
        time.sleep(0.002)
    raise AssertionError(f"counted up to {found}, not {end}")


def visit(host, n, name="news", draws=0, **given):
    """Decisions with feedback on all items; returns them."""
    made = []
    for i in range(n):
        one = host.decide(name, draws=draws, **given)
        weights = [
            float(str(item) in "ac") / 2 + (i + place) % 3 / 10
            for place, item in enumerate(one["items"])
        ]
        host.observe(one, weights, name)
        made.append(one | {"weights": weights})
    return made

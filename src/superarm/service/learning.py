"""The one thread that learns: it reads the log in its order and folds what is new into what is
believed.

Decisions go by what was published last, and never wait.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from superarm.agent.decisions import as_time, now
from superarm.errors import SuperarmError
from superarm.service import commits, log, snapshots
from superarm.service.database import Database
from superarm.service.durations import seconds_of
from superarm.service.fold import Folded, earliest, fold
from superarm.service.problems import Unavailable
from superarm.service.worker import Worker

POLL = 0.25
"""Seconds between looks at the log when nobody says that there is something new."""
APART = 64
"""Events between what is remembered to go back to."""
REMEMBERED = 256 * 2**20
"""Bytes of beliefs that are remembered to go back to."""

_logger = logging.getLogger("superarm.service")


class Learner:
    """Keeps what every agent believes up to date with the log.

    Args:
        database: where the log is.
        writer: who writes to it.
        snapshot_every: seconds between snapshots of what changed.
        lead: whether this process is the one that learns; the others follow its snapshots.
    """

    def __init__(
        self,
        database: Database,
        writer: Worker,
        *,
        snapshot_every: float = 10.0,
        lead: Callable[[], bool] = lambda: True,
    ) -> None:
        self._database = database
        self._writer = writer
        self._every = snapshot_every
        self._lead = lead
        self._wake = threading.Event()
        self._stopping = False
        self._past: dict[int, list[Folded]] = {}  # by agent, the newest last
        self._saved: dict[int, int] = {}  # by agent, the position of its last snapshot
        self._saved_at = time.monotonic()
        self._swept_at = 0.0
        self._purged_at = 0.0
        self.leading = False
        self.position = 0
        """All events up to here are folded, or followed."""
        self.views: Mapping[str, Folded] = {}
        """What is believed, by the name of the agent; replaced, never changed."""
        self._thread = threading.Thread(target=self._run, name="superarm-learner", daemon=True)

    def start(self) -> None:
        """Read the whole log, and go on from there in a thread."""
        self.catch_up()
        self._thread.start()

    def stop(self) -> None:
        """End, with a snapshot of what was learned."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Say that there is something new in the log."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(POLL)
            self._wake.clear()
            try:
                self.catch_up()
                self._keep_house()
            except Unavailable as error:
                _logger.warning("learning waits: %s", error)
                time.sleep(POLL)
            except Exception:  # a learner that died would learn nothing more, in silence
                _logger.exception("learning failed and is tried again")
                time.sleep(POLL)
        if self.leading:
            self._snapshot()

    # --- the fold ---------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Fold, or follow, all that is in the log by now."""
        self.leading = self._lead()
        connection = self._database.read()
        end, _ = log.head(connection)
        names = {name: at for name, at in log.agents(connection).items() if at <= end}
        stale = {agent for agent in names.values() if agent not in self._past}
        if not self.leading:
            stale = set(names.values())  # whose snapshots come after the events
        elif end > self.position > 0:
            stale |= self._touched(end)
        views = {}
        for name, agent in names.items():
            if agent in stale:
                self._advance(agent, end)
            if agent in self._past:
                views[name] = self._past[agent][-1]
        self.views = views
        self.position = end
        for agent in set(self._past) - set(names.values()):
            del self._past[agent]

    def _touched(self, end: int) -> set[int]:
        """The agents with anything new to fold."""
        rows = self._database.read().execute(
            "SELECT DISTINCT agent FROM events "
            "WHERE position > ? AND position <= ? AND kind <> 'decided'",
            (self.position, end),
        )
        return {agent for (agent,) in rows}

    def _advance(self, agent: int, end: int) -> None:
        """Bring one agent to the end of the log."""
        if self.leading:
            self._fold(agent, end)
        else:
            self._follow(agent)

    def _fold(self, agent: int, end: int) -> None:
        connection = self._database.read()
        past = self._past.get(agent, [])
        after = past[-1].position if past else agent - 1
        since = earliest(log.folded(connection, agent, after, end)) if past else log.WHOLE
        past = [folded for folded in past if folded.position < since]
        start = past[-1] if past else snapshots.newest(connection, agent, min(since, end + 1))
        folded = fold(connection, agent, start, end)._replace(position=end)
        self._past[agent] = remembered([*past, folded])

    def _follow(self, agent: int) -> None:
        """Take over the last snapshot of the one that learns."""
        connection = self._database.read()
        known = self._past.get(agent)
        if known and snapshots.position(connection, agent) == known[-1].position:
            return
        found = snapshots.newest(connection, agent, log.WHOLE)
        if found is not None:
            self._past[agent] = [found]

    # --- what is done now and then ----------------------------------------------------------------

    def _keep_house(self) -> None:
        if not self.leading:
            return
        moment = time.monotonic()
        if moment - self._saved_at >= self._every:
            self._snapshot()
            self._saved_at = time.monotonic()
        if moment - self._swept_at >= POLL:
            self._swept_at = moment
            self._sweep(now())
        if moment - self._purged_at > 3600:
            self._purged_at = moment
            self._purge(now() - timedelta(days=7))

    def _snapshot(self) -> None:
        """Keep snapshots of all that changed since the last ones."""
        for past in list(self._past.values()):
            folded = past[-1]
            agent = folded.created_at
            if self._saved.get(agent) == folded.position:
                continue
            work = snapshots.prepared(agent, folded, self.position)
            try:
                self._writer.submit(work).result()
                self._saved[agent] = folded.position
            except SuperarmError as error:
                _logger.warning("no snapshot was kept: %s", error)

    def _sweep(self, moment: datetime) -> None:
        """Take for granted the feedback that did not come in time."""
        for name, folded in self.views.items():
            default = folded.default or folded.created.default
            if default is None:
                continue
            before = moment - timedelta(seconds=seconds_of(default["after"], "/default/after"))
            work = commits.sweep(name, folded.created_at, default["weight"], as_time(before))
            while self._writer.submit(work).result() and not self._stopping:
                continue

    def _purge(self, before: datetime) -> None:
        """Forget the answers to requests that nobody asks for again."""

        def work(tail: log.Tail) -> Any:
            tail.tx.execute("DELETE FROM requests WHERE time < ?", (as_time(before),))

        self._writer.submit(work).result()


def remembered(past: list[Folded]) -> list[Folded]:
    """Those states that are worth remembering: the older, the farther apart, and few if they are
    large.
    """
    if len(past) > 1 and len(past) > 2 and past[-2].position - past[-3].position < APART:
        del past[-2]
    positions = [folded.position for folded in past]
    kept = set(snapshots.thinned(positions))
    found = [folded for folded in past if folded.position in kept]
    size = max(1, _bytes(found[-1]))
    most = max(1, REMEMBERED // size)
    return found[-most:]


def _bytes(folded: Folded) -> int:
    if folded.state is None:
        return 0
    return sum(np.asarray(field).nbytes for field in folded.state.belief)

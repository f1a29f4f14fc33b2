"""The one thread that learns: it reads the log in its order and folds what is new into what is
believed.

Decisions go by what was published last, and never wait.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.decisions import as_time, now
from superarm.errors import SuperarmError
from superarm.service import feedback, log, snapshots
from superarm.service.database import Database
from superarm.service.durations import seconds_of
from superarm.service.fold import Folded, earliest, fold
from superarm.service.problems import Unavailable
from superarm.service.worker import Worker

POLL = 0.1
"""Seconds between looks at the log when nobody says that there is something new."""
REST = 2.0
"""After learning for some time, as many times that are rested: who decides or writes goes first."""
LONGEST_REST = 0.5
"""Seconds."""
YIELDS = 0.25
"""Seconds for which learning waits for a writer that is busy, at most."""
SHARED = 0.5
"""Seconds between snapshots that other servers follow, at most."""
SWEPT = 1.0
"""Seconds between looks for feedback that did not come in time."""
PATIENCE = 20.0
"""Seconds that the end of a service waits for what is being folded."""
APART = 64
"""Events between what is remembered to go back to."""
REMEMBERED = 256 * 2**20
"""Bytes of beliefs that are remembered to go back to."""

_logger = logging.getLogger("superarm.service")


class Kept(NamedTuple):
    """A snapshot that is in the database."""

    position: int
    catalogue: int  # the position of the last event before it that changed items or settings


class BeliefUpdater:
    """Keeps what every agent believes up to date with the log.

    Args:
        database: where the log is.
        writer: who writes to it.
        snapshot_every: seconds between snapshots of what changed; where other servers follow them
            they come twice a second, and at once if there are other items or settings.
    """

    def __init__(
        self,
        database: Database,
        writer: Worker,
        *,
        snapshot_every: float = 10.0,
    ) -> None:
        self._database = database
        self._writer = writer
        self._every = min(snapshot_every, SHARED) if database.shared else snapshot_every
        self._pause = self._every
        self._epoch: int | None = None
        self._caught_up: int | None = None  # the epoch in which all agents were folded
        self._wake = threading.Event()
        self._stopping = False
        self._past: dict[int, list[Folded]] = {}  # by agent, the newest last
        self._saved: dict[int, Kept] = {}  # by agent, its last snapshot
        self._saved_at = time.monotonic()
        self._swept_at = 0.0
        self._purged_at = 0.0
        self._failed: set[int] = set()  # agents to try again
        self.position = 0
        """All events up to here are folded, or followed."""
        self.views: Mapping[str, Folded] = {}
        """What is believed, by the name of the agent; replaced, never changed."""
        self._thread = threading.Thread(target=self._run, name="superarm-learner", daemon=True)

    @property
    def leading(self) -> bool:
        """Whether this server is the one that learns; the others follow its snapshots."""
        return self._epoch is not None

    def start(self) -> None:
        """Read the whole log, and go on from there in a thread."""
        self.catch_up()
        self._thread.start()

    def stop(self) -> None:
        """End, with a snapshot of what was learned. A fold over a long log is not waited for: it is
        done again at the next start.
        """
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def wake(self) -> None:
        """Say that there is something new in the log."""
        self._wake.set()

    def _run(self) -> None:
        waits = False
        while not self._stopping:
            self._wake.wait(POLL)
            self._wake.clear()
            self._writer.let_go_first(YIELDS)  # what is learned together is learned faster
            start = time.monotonic()
            try:
                self.catch_up()
                self._keep_house()
                waits = False
                time.sleep(min(REST * (time.monotonic() - start), LONGEST_REST))
            except Unavailable as error:
                if not waits:
                    _logger.warning("learning waits: %s (%s)", error, error.__cause__)
                waits = True
                time.sleep(POLL)
            except Exception:  # a learner that died would learn nothing more, in silence
                if self._stopping:
                    return
                _logger.exception("learning failed and is tried again")
                time.sleep(POLL)
        self._finish()

    def _finish(self) -> None:
        """Learn what came last, and keep a snapshot of it, so that the next start is quick."""
        try:
            self.catch_up()
            if self.leading:
                self._snapshot(everything=True)
        except Exception as error:  # nothing is lost: the log has it
            _logger.warning("ended without a snapshot: %s", error)

    # --- the fold ---------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Fold, or follow, all that is in the log by now."""
        self._note(self._database.lead())
        connection = self._database.read()
        end, _ = log.head(connection)
        names = {name: agent for name, agent in log.agents(connection).items() if agent <= end}
        agents = set(names.values())
        if self.leading:
            self._each(self._fold, self._stale(agents, end), end)
        else:
            self._each(self._follow, self._behind(agents), end)
        self._past = {agent: past for agent, past in self._past.items() if agent in agents}
        self.views = {
            name: self._past[agent][-1] for name, agent in names.items() if agent in self._past
        }
        self.position = end
        self._caught_up = self._epoch

    def _note(self, epoch: int | None) -> None:
        if self._database.shared and epoch != self._epoch:
            _logger.info("this server %s", "follows" if epoch is None else f"learns, epoch {epoch}")
        self._epoch = epoch

    def _each(self, advance: Callable[[int, int], None], agents: set[int], end: int) -> None:
        """Bring agents to the end of the log; one that cannot learn is not in the way of others."""
        self._failed = set()
        for agent in agents:
            try:
                advance(agent, end)
            except Unavailable:
                raise
            except Exception:
                _logger.exception("learning of the agent at position %d failed", agent)
                self._failed.add(agent)

    def _stale(self, agents: set[int], end: int) -> set[int]:
        """The agents that may have anything new to fold: all of them after another one led, whose
        last snapshots may be older than the events that were read.
        """
        if self._caught_up != self._epoch:
            return agents
        return agents & (self._touched(end) | self._failed | (agents - self._past.keys()))

    def _touched(self, end: int) -> set[int]:
        """The agents with events since the last look."""
        rows = self._database.read().execute(
            "SELECT DISTINCT agent FROM events "
            "WHERE position > ? AND position <= ? AND kind <> 'decided'",
            (self.position, end),
        )
        return {agent for (agent,) in rows}

    def _fold(self, agent: int, end: int) -> None:
        """Bring one agent to the end of the log."""
        connection = self._database.read()
        past = self._past.get(agent, [])
        after = past[-1].position if past else agent - 1
        since = earliest(log.folded(connection, agent, after, end)) if past else log.WHOLE
        past = [folded for folded in past if folded.position < since]
        start = past[-1] if past else snapshots.newest(connection, agent, min(since, end + 1))
        folded = fold(connection, agent, start, end)
        if folded is not start:
            self._past[agent] = remembered([*past, folded._replace(position=end)])
        elif not past:
            self._take(folded)

    def _behind(self, agents: set[int]) -> set[int]:
        """The agents of which there is a newer snapshot, or of which nothing is known."""
        newest = snapshots.positions(self._database.read())
        return {agent for agent in agents if newest.get(agent, 0) > self._known(agent)}

    def _known(self, agent: int) -> int:
        """The position up to which an agent is known; -1 if it is not."""
        past = self._past.get(agent)
        return past[-1].position if past else -1

    def _follow(self, agent: int, end: int) -> None:
        """Take over the last snapshot of the one that learns, unless more is known already:
        where a correction dropped some, newer ones come. An agent without any is folded.
        """
        found = snapshots.newest(self._database.read(), agent, log.WHOLE)
        if found is None:
            self._fold(agent, end)
        elif found.position > self._known(agent):
            self._take(found)

    def _take(self, snapshot: Folded) -> None:
        """Go on from a snapshot."""
        self._past[snapshot.created_at] = [snapshot]
        self._saved[snapshot.created_at] = Kept(snapshot.position, snapshot.catalogue)

    # --- what is done now and then ----------------------------------------------------------------

    def _keep_house(self) -> None:
        if not self.leading:
            return
        moment = time.monotonic()
        is_due = moment - self._saved_at >= self._pause
        self._snapshot(everything=is_due)
        if is_due:
            self._saved_at = time.monotonic()
            # large beliefs take a tenth of the time at most
            self._pause = max(self._every, 10 * (self._saved_at - moment))
        if moment - self._swept_at >= SWEPT:
            self._swept_at = moment
            self._sweep(now())
        if moment - self._purged_at > 3600:
            self._purged_at = moment
            self._purge(now() - timedelta(days=7))

    def _snapshot(self, *, everything: bool) -> None:
        """Keep snapshots of all that changed since the last ones, or only of what others wait for:
        other items and settings.
        """
        for past in list(self._past.values()):
            folded = past[-1]
            if self._is_kept(folded, everything):
                continue
            agent = folded.created_at
            work = snapshots.prepared(agent, folded, self.position, self._epoch)
            try:
                if self._writer.submit(work).result():
                    self._saved[agent] = Kept(folded.position, folded.catalogue)
            except SuperarmError as error:
                _logger.warning("no snapshot was kept: %s", error)

    def _is_kept(self, folded: Folded, everything: bool) -> bool:
        kept = self._saved.get(folded.created_at, Kept(0, 0))
        if everything:
            return kept.position == folded.position
        return not self._database.shared or kept.catalogue == folded.catalogue

    def _sweep(self, moment: datetime) -> None:
        """Take for granted the feedback that did not come in time."""
        works = []
        for name, folded in self.views.items():
            default = folded.default or folded.created.default
            if default is None:
                continue
            before = moment - timedelta(seconds=seconds_of(default["after"], "/default/after"))
            weight = default["weight"]
            works.append(feedback.sweep(name, folded.created_at, weight, as_time(before)))
        while works and not self._stopping:  # those of all agents in one transaction
            answers = [self._writer.submit(work) for work in works]
            works = [work for work, more in zip(works, answers, strict=True) if more.result()]

    def _purge(self, before: datetime) -> None:
        """Forget the answers to requests that nobody asks for again."""

        def work(tail: log.Tail) -> Any:
            tail.tx.execute("DELETE FROM requests WHERE time < ?", (as_time(before),))

        self._writer.submit(work).result()


def remembered(past: list[Folded]) -> list[Folded]:
    """Those states that are worth remembering: the older, the farther apart, and few if they are
    large.
    """
    if len(past) > 2 and past[-2].position - past[-3].position < APART:
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

"""The threads of a service: some decide for all that wait at once, by what was published last; one
writes all that waits in one transaction, while they decide for the next; one learns. Whoever asks
is answered after the commit.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from superarm.agent.decisions import now
from superarm.agent.explain import TooManyDraws
from superarm.agent.state import State
from superarm.decide import compile_first_call
from superarm.errors import FeaturesError, ItemsError, SuperarmError
from superarm.service import log, screens
from superarm.service.commits import Work
from superarm.service.dashboard.exploring import Looks
from superarm.service.dashboard.following import Follower
from superarm.service.database import Database
from superarm.service.fold import Folded
from superarm.service.learning import BeliefUpdater
from superarm.service.log import Tail
from superarm.service.problems import Busy, NotFound, Refused, TooLarge, Unavailable, Unfit
from superarm.service.screens import Screens
from superarm.service.worker import Job, Worker


class Limits(NamedTuple):
    """How much one request, or all of them, may ask for."""

    body: int = 64 * 2**20  # bytes
    bodies: int = 512 * 2**20  # bytes of all that are worked on
    items: int = 1_000_000  # per agent
    features: int = 2_000  # per item, multiplied by those of the context
    chosen: int = 10_000  # items of a decision
    agents: int = 1_000
    waiting: int = 2_000  # requests that wait at once
    oracle_seconds: float = 1.0  # of solvers that know a time limit
    deciders: int = 2  # threads
    slow_deciders: int = 1  # threads for decisions that take long
    slow_waiting: int = 100  # decisions that wait for those
    decide_seconds: float = 10.0  # of all the draws of a decision, or of an explanation
    evaluate_seconds: float = 300.0
    masks: int = 2**28  # bytes: decisions of an evaluation, multiplied by items
    streams: int = 100  # that look on at the same time
    stream_seconds: float = 3600.0  # after which they ask again


LIMITS = Limits()
FIELDS = {FeaturesError: "/features", ItemsError: "/items"}
"""The fields that the library's errors are about."""
SLOW = 0.02
"""Seconds of a decision that must not be in the way of others."""
FIRST = 1e-4
"""Seconds that a decision of an agent takes that has made none yet, by a guess."""

Deciding: TypeAlias = Callable[["Service", list[Any]], list[Work | Exception]]
"""What decides for several that wait: for each, what writes its decision down, or an error."""


class Service:
    """Agents over a log.

    Args:
        database: where the log is.
        limits: how much may be asked for.
        snapshot_every: seconds between snapshots.

    >>> import asyncio, tempfile
    >>> from superarm.service import agents, decisions
    >>> from superarm.service.engine import Service
    >>> from superarm.service.sqlite import Sqlite
    >>> from superarm.service.wire import CreateAgent, Decide, GiveFeedback, Items
    >>> items = Items(items=["a", "b", "c"], features=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> news = CreateAgent(name="news", oracle={"kind": "TopK", "k": 2}, items=items)
    >>> async def visit(service):
    ...     await agents.create(service, news)
    ...     made = await decisions.decide(service, "news", Decide())
    ...     given = GiveFeedback(decision=made.id, weights={made.items[0]: 1.0})
    ...     return await decisions.feedback(service, "news", given)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     service = Service(Sqlite(folder + "/superarm.db"))
    ...     taken = asyncio.run(visit(service))
    ...     service.close()
    >>> taken.learned
    1
    """

    def __init__(
        self,
        database: Database,
        *,
        limits: Limits = LIMITS,
        snapshot_every: float = 10.0,
    ) -> None:
        self.database = database
        self.limits = limits
        self.aside = 0
        """Long requests that are worked on."""
        self.trouble: Unavailable | None = None
        """Why the last transaction failed; None if it did not."""
        self.stopping = threading.Event()
        """Set once it is known that the service will end: who only looks on is sent away."""
        self.writer = Worker("superarm-writer", self._commit)
        self.learner = BeliefUpdater(database, self.writer, snapshot_every=snapshot_every)
        self.learner.start()
        self.tallies = Follower(
            database,
            self.writer,
            lambda: self.learner.views,
            lambda: self.learner.leading,
        )
        self.tallies.start()
        self.looks = Looks()
        self.screens = Screens()
        self._seconds: dict[str, float] = {}  # that the last decision took, by whose
        self.deciders = self._workers("decider", limits.deciders)
        self.slow_deciders = self._workers("slow-decider", limits.slow_deciders)

    def _workers(self, name: str, n: int) -> list[Worker]:
        return [Worker(f"superarm-{name}-{i}", self._decide) for i in range(n)]

    def close(self) -> None:
        """Finish what was begun, keep a snapshot, and let go of the log."""
        self.stopping.set()
        for decider in (*self.deciders, *self.slow_deciders):
            decider.stop()
        self.learner.stop()
        self.tallies.stop()
        self.writer.stop()
        self.database.close()

    def warm_up(self) -> None:
        """Compile what the first decision and the first update of each agent need."""
        for folded in list(self.learner.views.values()):
            state = folded.state
            if state is not None:
                screens.warm_up()
                compile_first_call(state.learner, state.belief, state.problem)

    @property
    def waiting(self) -> int:
        """How many decisions and commits wait."""
        return self.writer.waiting + _waiting(self.deciders) + _waiting(self.slow_deciders)

    # --- writing ----------------------------------------------------------------------------------

    def _commit(self, jobs: list[Job]) -> list[Job]:
        """Write all that waits in one transaction."""
        try:
            self._attempt(jobs)
        except Unavailable as error:
            self.trouble = error
            for job in jobs:
                job.error = error
        except Exception:
            # one of them failed after it had written: each gets a transaction of its own
            for job in jobs:
                self._alone(job)
        return jobs

    def _alone(self, job: Job) -> None:
        try:
            self._attempt([job])
        except Exception as error:
            job.error = error

    def _attempt(self, jobs: list[Job]) -> None:
        with self.database.transaction(alone=not self.database.shared) as tx:
            tail = Tail(tx, now())
            for job in jobs:
                job.result = None
                job.error = None
                try:
                    job.result = job.work(tail)
                except Unavailable:  # the transaction is lost, and with it all that waits for it
                    raise
                except Refused as error:  # raised before anything was written
                    job.error = error
            tail.finish()
        if tail.appended:
            self.trouble = None
        if tail.to_learn:
            self.learner.wake()

    def written(self, work: Work) -> "asyncio.Future[Any]":
        """The result of work that is done in the next transaction, once that is on disk."""
        self._refuse_if_busy()
        return self.writer.ask(work)

    async def require_writable(self) -> None:
        """Raise if nothing can be written now.

        After a failure something is written that takes new room, and removed again: a service that
        gets no requests because it is not ready would not notice that there is room again.
        """
        if self.trouble is None:
            await self.written(_look)
            return
        await self.written(_fill)
        await self.written(_clear)
        self.trouble = None

    def _refuse_if_busy(self) -> None:
        if self.waiting >= self.limits.waiting:
            raise Busy("too many requests wait: try again later")

    async def published(self, position: int, name: str) -> None:
        """Wait until what was written is what decisions go by."""
        for _ in range(20_000):
            view = self.learner.views.get(name)
            if view is not None and view.position >= position:
                return
            if self.learner.position >= position and view is None:  # it is gone
                return
            self.learner.wake()
            await asyncio.sleep(0.003)

    # --- deciding ---------------------------------------------------------------------------------

    def decided(
        self,
        decide: Deciding,
        wanted: Any,
        whose: str,
        times: int,
    ) -> "asyncio.Future[Any]":
        """The result of work that a decision leads to, once that is on disk; `decide` runs in a
        thread, for all that want the same of it at once, where quick ones do not wait for slow
        ones.

        Args:
            decide: makes decisions.
            wanted: what it is given.
            whose: decisions with the same word take about as long.
            times: how often it decides for this.
        """
        self._refuse_if_busy()
        if times * self._seconds.get(whose, FIRST) > SLOW:
            if _waiting(self.slow_deciders) >= self.limits.slow_waiting:
                raise Busy("too many decisions wait that take long: try again later")
            decider = min(self.slow_deciders, key=lambda worker: worker.waiting)
            return decider.ask((decide, wanted))
        # the first takes all, so that as many as can be are decided for together
        free = [worker for worker in self.deciders if not worker.is_stuck]
        decider = free[0] if free else min(self.deciders, key=lambda worker: worker.waiting)
        return decider.ask((decide, wanted))

    def took(self, whose: str, seconds: float) -> None:
        """Note how long a decision took."""
        if len(self._seconds) > 10 * self.limits.agents:
            self._seconds.clear()
        self._seconds[whose] = seconds

    def _decide(self, jobs: list[Job]) -> list[Job]:
        """Decide, and leave it to the writer to write all decisions down and to answer; returns
        those of which there is none.
        """
        made = []
        failed = []
        by_way: dict[Deciding, list[Job]] = {}
        for job in jobs:
            by_way.setdefault(job.work[0], []).append(job)
        for decide, some in by_way.items():
            wanted = [job.work[1] for job in some]
            for job, work in zip(some, decide(self, wanted), strict=True):
                if isinstance(work, Exception):
                    job.error = as_refused(work)
                    failed.append(job)
                else:
                    job.work = work
                    made.append(job)
        self.writer.take(made)
        return failed

    # --- what is believed -------------------------------------------------------------------------

    def view(self, name: str) -> Folded:
        """What is believed now by an agent."""
        found = self.learner.views.get(name)
        if found is not None:
            return found
        if self.database.shared and name in log.agents(self.database.read()):
            raise Unavailable(f"agent {name!r} was created just now elsewhere: try again")
        raise NotFound(f"there is no agent {name!r:.100}")

    def ready(self, name: str) -> tuple[Folded, State]:
        """The same of an agent that has items."""
        folded = self.view(name)
        state = folded.at(now())
        if state is None:
            raise Unfit(f"agent {name!r} has no items yet: put some first")
        return folded, state


def _waiting(workers: list[Worker]) -> int:
    return sum(worker.waiting for worker in workers)


def _look(tail: Tail) -> None:
    """Work that only sees whether there is somebody to do it."""


def _fill(tail: Tail) -> None:
    """Take as much room as many events do."""
    _clear(tail)
    tail.tx.execute("INSERT INTO meta VALUES ('room', ?)", ("." * 2**18,))


def _clear(tail: Tail) -> None:
    """Give it back."""
    tail.tx.execute("DELETE FROM meta WHERE name = 'room'")


def as_refused(error: Exception) -> Exception:
    """What the library refuses is a request that cannot be meant."""
    if isinstance(error, MemoryError):
        return TooLarge("this needs more memory than there is")
    if isinstance(error, TooManyDraws):
        return TooLarge(str(error), "/draws")
    if isinstance(error, SuperarmError) and not isinstance(error, Refused):
        return Unfit(str(error), getattr(error, "field", FIELDS.get(type(error))))
    return error

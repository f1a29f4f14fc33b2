"""A log without its beginning: what was learned by then is kept as the snapshots it begins from.

What came later is folded from those with the same bits as from the whole log. Decisions from before
are kept where feedback came later, so that it can be folded.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from superarm.agent.decisions import as_time, now
from superarm.errors import ParameterError
from superarm.service import log, snapshots
from superarm.service.database import Connection, Transaction
from superarm.service.durations import seconds_of
from superarm.service.events import Observed, decoded
from superarm.service.fold import fold
from superarm.service.log import Tail
from superarm.service.problems import Unavailable, Unfit
from superarm.service.sqlite import Sqlite

ANSWERED = timedelta(days=7)
"""After this time nobody asks for the answer to a request again."""


class Compacted(NamedTuple):
    """What was dropped."""

    events: int
    answers: int
    snapshots: int
    base: int  # the position before the first event that is kept


def moment_of(text: str) -> datetime:
    """The time that a duration before now, or a date, means.

    >>> from superarm.service.compaction import moment_of
    >>> moment_of("2026-01-31").isoformat()
    '2026-01-31T00:00:00+00:00'
    """
    if re.fullmatch(r"[0-9.]+ ?[a-z]+", text):
        try:
            return now() - timedelta(seconds=seconds_of(text, ""))
        except Unfit as error:
            raise ParameterError(str(error)) from error
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ParameterError(
            f"a time is such as 30d, 12h or 2026-01-31, got {text!r:.60}"
        ) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def compact(database: Sqlite, before: datetime | None = None) -> Compacted:
    """Drop what is not needed any more, and give its room back to the disk.

    Args:
        database: of a service that does not run.
        before: events before this time are dropped too; by default none are.
    """
    with database.transaction() as tx:
        start = log.base(tx)
        base = start
        if before is not None:
            base = max(start, _cut(tx, min(before, now())))
        dropped = 0
        if base > start:
            dropped = _shorten(tx, base)
        answers = _count(
            tx,
            "DELETE FROM requests WHERE time < ? OR position <= ?",
            (as_time(now() - ANSWERED), base),
        )
        old = _drop_snapshots(tx, base)
    database.shrink()
    return Compacted(dropped, answers, old, base)


def _cut(tx: Connection, before: datetime) -> int:
    """The last position before a time, and before the first decision whose feedback is yet to be
    taken for granted: between two transactions, as what was committed together is learned together.
    """
    time = as_time(before)
    for agent, folded, swept in _agents(tx, log.WHOLE):
        if (folded.default or folded.created.default) is None:
            continue
        ((first,),) = tx.execute(
            "SELECT min(time) FROM events WHERE agent = ? AND position > ? AND kind = 'decided'",
            (agent, swept),
        )
        time = min(time, first or time)
    ((found,),) = tx.execute("SELECT max(position) FROM events WHERE time < ?", (time,))
    return found or 0


def _agents(tx: Connection, upto: int) -> list[tuple[int, Any, int]]:
    """The agents that were there at a position, as they were with all that is known by now, and up
    to where their feedback was taken for granted.
    """
    found = []
    for agent, swept in tx.execute("SELECT agent, swept FROM agents WHERE agent <= ?", (upto,)):
        start = snapshots.newest(tx, agent, upto + 1)
        folded = fold(tx, agent, start, upto, knowing=log.WHOLE)
        found.append((agent, folded, swept))
    return found


def _shorten(tx: Transaction, base: int) -> int:
    """Let the log begin after a position; returns how many events were dropped."""
    agents = _agents(tx, base)
    needed = json.dumps(sorted(_needed(tx, base)))
    _note(tx, "base chain", _chain(tx, base).hex())
    _note(tx, "base", str(base))
    for agent, folded, _ in agents:
        keep = snapshots.prepared(agent, folded._replace(position=base), log.WHOLE)
        if not keep(Tail(tx, now())):
            raise Unavailable("the snapshot that the log should begin from was not kept")
    tx.execute("UPDATE agents SET swept = max(swept, ?)", (base,))
    unneeded = "<= ?1 AND {} NOT IN (SELECT value FROM json_each(?2))"
    given = (base, needed)
    tx.execute(f"DELETE FROM feedback WHERE decision {unneeded.format('decision')}", given)
    return _count(tx, f"DELETE FROM events WHERE position {unneeded.format('position')}", given)


def _note(tx: Connection, name: str, value: str) -> None:
    tx.execute("DELETE FROM meta WHERE name = ?", (name,))
    tx.execute("INSERT INTO meta VALUES (?, ?)", (name, value))


def _chain(tx: Connection, upto: int) -> bytes:
    """The hash of the log up to a position."""
    chain = log.base_chain(tx)
    rows = tx.rows(
        "SELECT position, agent, kind, time, digest FROM events "
        "WHERE position > ? AND position <= ? ORDER BY position",
        (log.base(tx), upto),
    )
    for *row, digest in rows:
        chain = log.linked(chain, row, bytes(digest))
    return chain


def _needed(tx: Connection, base: int) -> set[int]:
    """The decisions up to a position that feedback after it is on."""
    needed: set[int] = set()
    rows = tx.rows("SELECT body FROM events WHERE position > ? AND kind = 'observed'", (base,))
    for (body,) in rows:
        event: Observed = decoded(body)
        for seen in event.seen:
            if seen.decision <= base:
                needed.add(seen.decision)
    return needed


def _drop_snapshots(tx: Connection, base: int) -> int:
    """Keep of each agent in service the last snapshot, and that from which its log begins."""
    dropped = _count(
        tx,
        "DELETE FROM snapshots WHERE agent NOT IN (SELECT agent FROM agents) OR position <> ? AND "
        "position < (SELECT max(s.position) FROM snapshots s WHERE s.agent = snapshots.agent)",
        (base,),
    )
    tx.execute(
        "DELETE FROM catalogues WHERE NOT EXISTS (SELECT 1 FROM snapshots s "
        "WHERE s.agent = catalogues.agent AND s.catalogue = catalogues.position)"
    )
    return dropped


def _count(tx: Connection, sql: str, given: Any) -> int:
    """How many rows a statement changes."""
    tx.execute(sql, given)
    ((found,),) = tx.execute("SELECT changes()")
    return int(found)

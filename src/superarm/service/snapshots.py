"""Snapshots of what was folded from the log: they save time and hold nothing that the log does not.

The items are kept apart from the belief, which changes far more often.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from superarm.agent.specs import of_learner
from superarm.contexts import InContext
from superarm.service.database import Connection
from superarm.service.events import Created, Id, ItemsPut, Matrix
from superarm.service.fold import Folded, begun
from superarm.service.log import HASH, Tail, base, hashed
from superarm.service.problems import Unavailable

FOLD = 1
"""The version of the arithmetic: beliefs that were folded by another one are folded anew."""
KEPT = 2
"""Snapshots that are kept of each age: of ages that double."""

_logger = logging.getLogger("superarm.service")


class Damaged(Exception):
    """A snapshot that is not what was kept."""


class Catalogue(msgspec.Struct, frozen=True):
    """The items of an agent, and their features."""

    items: list[Id]
    features: Matrix
    names: list[str] | None


class Belief(msgspec.Struct, frozen=True):
    """All else that was folded."""

    created: Created
    learner: dict[str, Any]  # with what it knows per item moved to where the items are by now
    fields: dict[str, Matrix]
    time: str
    oracle: dict[str, Any] | None
    default: dict[str, Any] | None
    learned: int
    unfit: int
    removed: bool
    created_at: int
    began: str


_beliefs = msgspec.msgpack.Decoder(Belief)
_catalogues = msgspec.msgpack.Decoder(Catalogue)


def config(created: Created) -> bytes:
    """What tells the settings that a belief depends on from others."""
    words = [FOLD, created.learner, created.context, created.half_life]
    text = msgspec.json.encode(words, order="sorted")
    return hashlib.blake2b(text, digest_size=16).digest()


def belief_body(folded: Folded) -> bytes:
    """What was learned, as bytes."""
    state = folded.state
    fields = {}
    learner = folded.created.learner
    if state is not None:
        learner = of_learner(state.learner)
        fields = {name: Matrix.of(value) for name, value in state.belief._asdict().items()}
    found = Belief(
        created=folded.created,
        learner=learner,
        fields=fields,
        time=folded.time,
        oracle=folded.oracle,
        default=folded.default,
        learned=folded.learned,
        unfit=folded.unfit,
        removed=folded.removed,
        created_at=folded.created_at,
        began=folded.began,
    )
    return _sealed(msgspec.msgpack.encode(found))


def catalogue_body(folded: Folded) -> bytes:
    """The items, as bytes."""
    state = folded.state
    if state is None:
        return _sealed(msgspec.msgpack.encode(Catalogue([], Matrix.of(np.empty((0, 0))), None)))
    Phi = state.problem.Phi
    names = state.catalogue.names
    if isinstance(Phi, InContext):
        names = Phi.item_names
        Phi = Phi.rows
    listed = None if names is None else list(names)
    found = Catalogue(state.catalogue.ids.tolist(), Matrix.of(Phi), listed)
    return _sealed(msgspec.msgpack.encode(found))


def _sealed(content: bytes) -> bytes:
    """Bytes after their hash."""
    return hashed(content) + content


def _unsealed(body: bytes) -> bytes:
    """What was sealed; raises if it was changed."""
    content = body[HASH:]
    if body[:HASH] != hashed(content):
        raise Damaged("the snapshot was changed")
    return content


def restored(position: int, catalogue_at: int, belief: bytes, catalogue: bytes) -> Folded:
    """What was folded up to a position, bit by bit."""
    kept = _beliefs.decode(_unsealed(belief))
    items = _catalogues.decode(_unsealed(catalogue))
    folded = Folded(
        created=kept.created,
        created_at=kept.created_at,
        position=position,
        time=kept.time,
        oracle=kept.oracle,
        default=kept.default,
        catalogue=catalogue_at,
        learned=kept.learned,
        unfit=kept.unfit,
        removed=kept.removed,
        began=kept.began,
    )
    if not items.items:
        return folded
    put = ItemsPut(items.items, items.features, items.names)
    start = folded._replace(created=with_learner(kept.created, kept.learner))
    state: Any = begun(start, put, kept.time).state
    return folded._replace(state=with_belief(state, kept.fields))


def with_belief(state: Any, fields: dict[str, Matrix]) -> Any:
    """A state with a belief from a snapshot."""
    prior = state.belief
    found = {}
    for name, value in prior._asdict().items():
        like = np.asarray(value)
        found[name] = fields[name].array().astype(like.dtype, copy=False)
    return state._replace(belief=type(prior)(**found))


def with_learner(created: Created, learner: dict[str, Any]) -> Created:
    """The settings with another learner."""
    return msgspec.structs.replace(created, learner=learner)


# --- in the database ------------------------------------------------------------------------------


def prepared(
    agent: int,
    folded: Folded,
    seen: int,
    epoch: int | None = 0,
) -> Callable[[Tail], bool]:
    """Work that keeps a snapshot, unless something after `seen` changed what it was folded from, or
    another server learns since then, in a later epoch; its result is whether it was kept.
    """
    belief = belief_body(folded)
    settings = config(folded.created)
    at = folded.catalogue

    def work(tail: Tail) -> bool:
        tx = tail.tx
        if _epoch(tx) != epoch or _outdated(tx, agent, seen):
            return False
        if not tx.execute("SELECT 1 FROM catalogues WHERE agent = ? AND position = ?", (agent, at)):
            items = catalogue_body(folded)
            tx.execute("INSERT INTO catalogues VALUES (?, ?, ?)", (agent, at, items))
        tx.execute(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?) ON CONFLICT (agent, position) DO UPDATE "
            "SET config = excluded.config, catalogue = excluded.catalogue, body = excluded.body",
            (agent, folded.position, settings, at, belief),
        )
        _thin(tx, agent)
        return True

    return work


def _epoch(tx: Connection) -> int:
    """The epoch of the server that learns; 0 where there never was but one."""
    found = tx.execute("SELECT epoch FROM leader")
    return int(found[0][0]) if found else 0


def _outdated(tx: Connection, agent: int, seen: int) -> bool:
    found = tx.execute(
        "SELECT 1 FROM events WHERE agent = ? AND position > ? AND kind <> 'decided' "
        "AND kind IN ('corrected', 'forgotten', 'changed') LIMIT 1",
        (agent, seen),
    )
    return bool(found)


def _thin(tx: Connection, agent: int) -> None:
    """Keep few old snapshots: the older, the farther apart; and the items of those alone."""
    rows = tx.execute("SELECT position FROM snapshots WHERE agent = ?", (agent,))
    positions = [position for (position,) in rows]
    for position in sorted(set(positions) - {base(tx), *thinned(positions)}):
        tx.execute("DELETE FROM snapshots WHERE agent = ? AND position = ?", (agent, position))
    tx.execute(
        "DELETE FROM catalogues WHERE agent = ? AND position NOT IN "
        "(SELECT catalogue FROM snapshots WHERE agent = ?)",
        (agent, agent),
    )


def thinned(positions: list[int]) -> list[int]:
    """Those of the positions that are kept: few of each age, for ages that double.

    >>> from superarm.service.snapshots import thinned
    >>> thinned(list(range(100)))
    [0, 1, 36, 37, 68, 69, 84, 85, 92, 93, 96, 97, 98, 99]
    """
    newest = max(positions, default=0)
    of_age: dict[int, int] = {}
    kept = []
    for position in sorted(positions):
        age = (newest - position).bit_length()
        if of_age.get(age, 0) < KEPT or position == newest:
            of_age[age] = of_age.get(age, 0) + 1
            kept.append(position)
    first = min(positions, default=0)
    return sorted({*kept, first} & set(positions))


def drop(tx: Connection, agent: int, since: int) -> None:
    """Throw away the snapshots that a change of the feedback since a position makes wrong; not that
    from which the log begins.
    """
    tx.execute(
        "DELETE FROM snapshots WHERE agent = ? AND position >= ? AND position <> ?",
        (agent, since, base(tx)),
    )


def newest(connection: Connection, agent: int, before: int) -> Folded | None:
    """The last snapshot before a position whose settings are still in force, or that from which the
    log begins; None if there is none.
    """
    rows = connection.execute(
        "SELECT s.position, s.catalogue, s.config, s.body, c.body FROM snapshots s "
        "JOIN catalogues c ON c.agent = s.agent AND c.position = s.catalogue "
        "WHERE s.agent = ? AND s.position < ? ORDER BY s.position DESC LIMIT 1",
        (agent, before),
    )
    for position, at, settings, body, items in rows:
        try:
            found = restored(position, at, bytes(body), bytes(items))
        except Damaged as error:
            if position == base(connection):
                raise Unavailable(
                    "what the log begins from is damaged: restore a backup of it"
                ) from error
            _logger.warning("a snapshot at position %d is damaged: an older one is used", position)
            return newest(connection, agent, position)
        if bytes(settings) == config(found.created) or position == base(connection):
            return found
        return newest(connection, agent, position)
    return None


def positions(connection: Connection) -> dict[int, int]:
    """The position of the last snapshot, by agent."""
    return dict(connection.execute("SELECT agent, max(position) FROM snapshots GROUP BY agent"))

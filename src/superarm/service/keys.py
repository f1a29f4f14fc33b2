"""Keys: 256 random bits each, of which only a hash is kept, with scopes."""

import hashlib
import hmac
import secrets
from typing import Any, NamedTuple

from superarm.agent.decisions import as_time, now
from superarm.errors import ParameterError
from superarm.service.database import Connection, Database

SCOPES = ("decide", "feedback", "read", "admin")
"""What a key may be for; admin is for everything."""
PREFIX = "sa_"
"""What keys begin with, so that one that leaked can be searched for."""


class Key(NamedTuple):
    """What is known of a key; not the key itself."""

    id: str
    scopes: tuple[str, ...]
    note: str
    created: str
    revoked: str | None

    def may(self, scope: str) -> bool:
        """Whether the key is for this."""
        return scope in self.scopes or "admin" in self.scopes


def create(database: Database, scopes: Any, note: str = "") -> str:
    """A new key, which is shown this once.

    >>> import tempfile
    >>> from superarm.service import keys
    >>> from superarm.service.sqlite import Sqlite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Sqlite(folder + "/superarm.db")
    ...     key = keys.create(database, ["decide"])
    ...     found = keys.find(database.read(), key)
    ...     database.close()
    >>> found.may("decide"), found.may("admin")
    (True, False)
    """
    listed = list(dict.fromkeys(scopes))
    for scope in listed:
        if scope not in SCOPES:
            raise ParameterError(f"a scope is one of {', '.join(SCOPES)}, got {scope!r:.60}")
    if not listed:
        raise ParameterError(f"a key needs a scope: {', '.join(SCOPES)}")
    key = PREFIX + secrets.token_urlsafe(32)
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, NULL)",
            (secrets.token_hex(4), _hash(key), " ".join(listed), note[:200], as_time(now())),
        )
    return key


def find(connection: Connection, key: str) -> Key | None:
    """What is known of a key; None if it is not one, or was revoked."""
    wanted = _hash(key)
    found = None
    for row in connection.execute("SELECT id, scopes, note, created, revoked, hash FROM keys"):
        # every hash is compared, whole, so that the time it takes tells nothing
        if hmac.compare_digest(bytes(row[5]), wanted):
            found = _key(row)
    if found is None or found.revoked is not None:
        return None
    return found


def by_id(connection: Connection, key_id: str) -> Key | None:
    """What is known of the key with this id; None if there is none, or it was revoked."""
    rows = connection.execute(
        "SELECT id, scopes, note, created, revoked FROM keys WHERE id = ? AND revoked IS NULL",
        (key_id,),
    )
    return _key(rows[0]) if rows else None


def listed(connection: Connection) -> list[Key]:
    """All keys, also those that were revoked."""
    rows = connection.execute(
        "SELECT id, scopes, note, created, revoked FROM keys ORDER BY created"
    )
    return [_key(row) for row in rows]


def revoke(database: Database, key_id: str) -> None:
    """Let a key be none from now on."""
    with database.transaction() as tx:
        known = tx.execute("SELECT 1 FROM keys WHERE id = ?", (key_id,))
        if not known:
            raise ParameterError(f"there is no key {key_id!r:.60}: superarm keys list shows them")
        tx.execute(
            "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL",
            (as_time(now()), key_id),
        )


def _key(row: Any) -> Key:
    return Key(row[0], tuple(row[1].split()), row[2], row[3], row[4])


def _hash(key: str) -> bytes:
    """Keys are random, so that a plain hash gives none of them away."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()

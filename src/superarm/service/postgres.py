"""The log in a Postgres database, for any number of servers."""

from typing import Any


class Postgres:
    """A database that several servers share; one of them learns."""

    def __init__(self, url: str) -> None:
        raise NotImplementedError(url)

    def transaction(self) -> Any:
        """A transaction."""

    def read(self) -> Any:
        """A connection to read by."""

    def close(self) -> None:
        """Let go."""

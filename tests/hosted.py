"""A service in this process, asked over HTTP without a network."""

import asyncio
import json
import time
from types import TracebackType
from typing import Any

import httpx
import numpy as np

from documented import Documented
from superarm.service import keys, log
from superarm.service.engine import LIMITS, Limits, Service
from superarm.service.events import Observed, decoded
from superarm.service.fold import fold
from superarm.service.http import application
from superarm.service.sqlite import Sqlite

ROWS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0], [0.0, 0.5]]
ITEMS = {"items": ["a", "b", "c", "d", "e"], "features": ROWS}
NEWS = {
    "name": "news",
    "learner": {"kind": "CombLinTS", "lam": 1.0, "sigma": 0.5},
    "oracle": {"kind": "TopK", "k": 2},
    "items": ITEMS,
}

DOCUMENTED = Documented()
"""Against which every answer is held."""


class Hosted:
    """A service with a key for everything, whose streams end at once.

    Args:
        folder: where its file is.
        limits: how much may be asked for.
    """

    def __init__(self, folder: Any, limits: Limits = LIMITS) -> None:
        limits = limits._replace(stream_seconds=0.0)
        self.database = Sqlite(folder / "superarm.db")
        self.service = Service(self.database, limits=limits, snapshot_every=3600.0)
        self.app = application(self.service)
        self.key = keys.create(self.database, ["admin"])
        self.loop = asyncio.new_event_loop()
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
            base_url="http://test",
            headers={"authorization": f"Bearer {self.key}"},
        )

    def __enter__(self) -> "Hosted":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.loop.run_until_complete(self.client.aclose())
        self.service.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    # --- asking -----------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """The answer to a request with a body of JSON's."""
        return self.loop.run_until_complete(self.asking(method, path, body, **options))

    def together(self, *asked: tuple[Any, ...]) -> list[httpx.Response]:
        """The answers to requests that are made at once."""

        async def gathered() -> list[httpx.Response]:
            return await asyncio.gather(*(self.asking(*one) for one in asked))

        return self.loop.run_until_complete(gathered())

    async def asking(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        if body is not None:
            options["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await self.client.request(method, path, headers=headers, **options)
        DOCUMENTED.require(method, path, reply)
        return reply

    def done(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """What a request that is not refused is answered."""
        reply = self.ask(method, path, body, **options)
        assert reply.is_success, reply.text
        return reply.json() if reply.content else None

    def create(self, **given: Any) -> Any:
        """An agent such as `NEWS`, with other settings."""
        return self.done("POST", "/v1/agents", NEWS | given)

    def decide(self, name: str = "news", **given: Any) -> Any:
        return self.done("POST", f"/v1/agents/{name}/decisions", given)

    def feedback(self, name: str = "news", **given: Any) -> Any:
        return self.done("POST", f"/v1/agents/{name}/feedback", given)

    def observe(self, made: Any, weights: Any, name: str = "news", **given: Any) -> Any:
        return self.feedback(name, decision=made["id"], weights=weights, **given)

    # --- looking ----------------------------------------------------------------------------------

    def settle(self, name: str = "news") -> Any:
        """What is believed once everything is learned."""
        end, _ = self.head
        learner = self.service.learner
        for _ in range(100_000):
            if learner.position >= end:
                break
            learner.wake()
            time.sleep(0.001)
        assert learner.position >= end and not learner._failed
        return self.service.view(name)

    def belief(self, name: str = "news") -> dict[str, np.ndarray]:
        """The numbers of what is believed once everything is learned."""
        return numbers(self.settle(name))

    @property
    def head(self) -> tuple[int, bytes]:
        """Where the log ends, and the hash of all of it."""
        return log.head(self.database.read())

    def is_untouched(self, before: tuple[int, bytes]) -> bool:
        """Whether nothing was written since, but feedback that was taken for granted."""
        if self.head == before:
            return True
        rows = self.database.read().execute(
            "SELECT body FROM events WHERE position > ?", (before[0],)
        )
        events = [decoded(body) for (body,) in rows]
        return all(isinstance(event, Observed) and event.by_default for event in events)

    def require_sound(self) -> None:
        """The log is whole, and what is served is what it says."""
        connection = self.database.read()
        connection.execute("BEGIN")  # what is written meanwhile is not seen
        assert list(log.verify(connection)) == []
        connection.execute("COMMIT")
        for name, agent in log.agents(connection).items():
            served = self.settle(name)
            folded = fold(connection, agent, None, served.position)
            assert (served.learned, served.unfit) == (folded.learned, folded.unfit)
            require_same(numbers(served), numbers(folded))


def numbers(folded: Any) -> dict[str, np.ndarray]:
    """The arrays of a belief, and of the features it is about."""
    if folded.state is None:
        return {}
    Phi = folded.state.problem.Phi
    found = {name: np.asarray(value) for name, value in folded.state.belief._asdict().items()}
    return found | {"Phi": np.asarray(getattr(Phi, "rows", Phi))}


def require_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """Both have the same numbers, bit by bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.shape == other[name].shape, name
        assert value.dtype == other[name].dtype, name
        assert value.tobytes() == other[name].tobytes(), name

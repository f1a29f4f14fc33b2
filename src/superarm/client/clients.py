"""Clients: one waits for answers, the other one awaits them. What they say is the same."""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from superarm.checks import require_positive
from superarm.client import words
from superarm.client.remote import AsyncRemoteAgent, RemoteAgent, Words
from superarm.client.steps import Answer, Failure, Request, Wait, Work, steps
from superarm.errors import ParameterError
from superarm.oracles.base import require_whole

if TYPE_CHECKING:
    import httpx

TIMEOUT = 30.0
"""Seconds to wait for an answer."""
RETRIES = 5
"""Times that a request is sent again."""


class _Client(Words):
    """What both clients share.

    Args:
        url: of the service, such as http://127.0.0.1:8000.
        key: a key of the service.
        timeout: seconds to wait for an answer.
        retries: how many times a request is sent again, after longer and longer waits, if the
            service is busy, cannot write now or does not answer. Decisions and feedback carry a key
            of their own, so that they are made and learned once however often they are sent.
        options: for httpx, such as verify or proxy.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        **options: Any,
    ) -> None:
        if not str(url).startswith(("http://", "https://")):
            raise ParameterError(f"a url begins with http:// or https://, got {url!r:.100}")
        if not (isinstance(key, str) and key.isascii() and key.isprintable() and key):
            raise ParameterError("a key is text such as superarm keys create prints")
        require_positive(timeout=timeout)
        require_whole(retries, "retries")
        self.url = str(url).rstrip("/")
        self._retries = retries
        self._http = self._connected(
            timeout=timeout,
            headers={"Authorization": f"Bearer {key}"},
            **options,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _connected(self, **options: Any) -> Any:
        raise NotImplementedError

    def _built(self, request: Request) -> Any:
        return self._http.build_request(
            request.method,
            self.url + request.path,
            content=request.content,
            headers=request.headers,
        )

    def agent(self, name: str) -> Any:
        """An agent of the service by its name; whether there is one shows when it is asked.

        Returns:
            the agent by which to decide and observe. Nothing is sent yet.
        """
        raise NotImplementedError

    def agents(self) -> Any:
        """All agents of the service.

        Returns:
            an `AgentInfo` per agent.
        """
        return self._do(words.agents())

    def create_agent(
        self,
        name: str,
        *,
        oracle: Any,
        learner: Any = None,
        features: Any = None,
        items: Any = None,
        context: Any = None,
        half_life: Any = None,
        default: Any = None,
    ) -> Any:
        """Create an agent.

        Args:
            name: letters, digits, points, dashes and underscores.
            oracle: one of superarm's, by items in the order of their ids or by id; or its
                description in terms of JSON.
            learner: one of superarm's; by default `CombLinTS()`.
            features: one row per item: an array, or a pandas or polars data frame. May come later,
                by `put_items`.
            items: the ids, whole numbers or text; by default the index of a pandas data frame, else
                0..L-1.
            context: the names of the features of a context, which are multiplied with those of the
                items; or {"kind": "concatenated", "names": [...]}, if they stand beside them.
            half_life: after this time, what was learned counts half as much: a timedelta.
            default: the feedback that is taken for granted if none comes, as
                {"after": timedelta(minutes=30), "weight": 0.0}.

        Returns:
            the new agent, by which to decide and observe, as a `RemoteAgent`.
        """
        work = words.create(name, learner, oracle, features, items, context, half_life, default)
        return self._do(self._then_agent(work, name))

    def _then_agent(self, work: Work[None], name: str) -> Work[Any]:
        yield from work
        return self.agent(name)

    def forget(self, user: str) -> Any:
        """Erase the decisions of a user, of all agents, and unlearn what was learned from them.

        Args:
            user: as given to `decide`.

        Returns:
            how many decisions and weights were erased, as an `Erased`.
        """
        return self._do(words.erase(user))


class Client(_Client):
    """A client of a service that waits for its answers; it may be used by many threads.

    Args:
        url: of the service, such as http://127.0.0.1:8000.
        key: a key of the service.
        timeout: seconds to wait for an answer.
        retries: how many times a request is sent again, after longer and longer waits, if the
            service is busy, cannot write now or does not answer. Decisions and feedback carry a key
            of their own, so that they are made and learned once however often they are sent.
        options: for `httpx.Client`, such as verify or proxy.

    What is refused or not answered raises `ServiceError`.

    >>> from superarm.client import Client
    >>> client = Client("http://127.0.0.1:8000", key="sa_...")
    >>> client.agent("news")
    RemoteAgent('news' at http://127.0.0.1:8000)
    >>> client.close()
    """

    def _connected(self, **options: Any) -> "httpx.Client":
        client: httpx.Client = _httpx().Client(**options)
        return client

    def _do(self, work: Work[Any]) -> Any:
        found = steps(work, self._retries)
        outcome = None
        try:
            while True:
                outcome = self._act(found.send(outcome))
        except StopIteration as end:
            return end.value

    def _act(self, step: Request | Wait) -> Answer | Failure | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        try:
            return _answer(self._http.send(self._built(step)))
        except _httpx().RequestError as error:
            return _failure(error)

    def agent(self, name: str) -> RemoteAgent:
        """An agent of the service by its name; whether there is one shows when it is asked.

        Returns:
            the agent by which to decide and observe. Nothing is sent yet.
        """
        return RemoteAgent(self, name)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(_Client):
    """A client of a service whose words are awaited, as those of its agents; else as `Client`.

    Args:
        url: of the service, such as http://127.0.0.1:8000.
        key: a key of the service.
        timeout: seconds to wait for an answer.
        retries: how many times a request is sent again, as with `Client`.
        options: for `httpx.AsyncClient`, such as verify or proxy.

    >>> import asyncio
    >>> from superarm.client import AsyncClient
    >>> async def visit():
    ...     async with AsyncClient("http://127.0.0.1:8000", key="sa_...") as client:
    ...         return client.agent("news")  # and then: await client.agent("news").decide()
    >>> asyncio.run(visit())
    AsyncRemoteAgent('news' at http://127.0.0.1:8000)
    """

    def _connected(self, **options: Any) -> "httpx.AsyncClient":
        client: httpx.AsyncClient = _httpx().AsyncClient(**options)
        return client

    async def _do(self, work: Work[Any]) -> Any:
        found = steps(work, self._retries)
        outcome = None
        try:
            while True:
                outcome = await self._act(found.send(outcome))
        except StopIteration as end:
            return end.value

    async def _act(self, step: Request | Wait) -> Answer | Failure | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return _answer(await self._http.send(self._built(step)))
        except _httpx().RequestError as error:
            return _failure(error)

    def agent(self, name: str) -> AsyncRemoteAgent:
        """An agent of the service by its name; whether there is one shows when it is asked.

        Returns:
            the agent by which to decide and observe. Nothing is sent yet.
        """
        return AsyncRemoteAgent(self, name)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ParameterError("a client needs httpx: pip install 'superarm[client]'") from error
    return httpx


def _answer(response: Any) -> Answer:
    headers: Mapping[str, str] = response.headers
    return Answer(response.status_code, headers, response.content)


def _failure(error: Exception) -> Failure:
    """Why there is no answer, and whether the request may have arrived."""
    httpx = _httpx()
    unsent = (
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.PoolTimeout,
        httpx.UnsupportedProtocol,
    )
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure(text, not isinstance(error, unsent))

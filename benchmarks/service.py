"""How fast the service is: decisions and feedback that are on disk before they are answered.

All in one run on the same cores, with clients that keep their connections:

- the empty route, which is what HTTP itself costs here;
- decisions, durable;
- feedback, one decision per request and a hundred, durable;
- SQLite alone: the same rows in group commits, without anything around them.

    python benchmarks/service.py [--clients 32] [--seconds 5]
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

L, D, K = 10_000, 32, 10
BULK = 100
"""Decisions whose feedback is sent in one request."""


class Load(NamedTuple):
    """What came of a load: answers per second, and how long they took."""

    name: str
    per_second: float
    p50: float  # milliseconds
    p99: float


class Connection:
    """One keep-alive connection; as little work per request as there can be."""

    async def open(self, port: int, key: str) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        self.head = f"host: x\r\nauthorization: Bearer {key}\r\n"
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of the answer; anything but 2xx is an error."""
        head = (
            f"{method} {path} HTTP/1.1\r\n{self.head}content-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", answer)
        content = await self.reader.readexactly(int(length))
        if not answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(answer.decode() + content.decode())
        return content


@contextmanager
def served(folder: str) -> Any:
    """A server of its own process; its port and key."""
    command = [sys.executable, "-m", "superarm", "serve", "--data", folder, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out: Any = process.stdout
    key = ""
    for line in out:
        key = key or (re.findall(r"sa_\S+", line) or [""])[0]
        if line.startswith("serving"):
            port = int(re.findall(r":(\d+)", line)[0])
            break
    try:
        yield port, key
    finally:
        process.terminate()
        process.wait()


async def under_load(
    name: str,
    connections: list[Connection],
    seconds: float,
    request: Callable[[], tuple[str, str, bytes] | None],
    seen: Callable[[bytes], None] = lambda answer: None,
) -> Load:
    """Let all clients ask as fast as they are answered."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def client(connection: Connection) -> None:
        while time.perf_counter() < end:
            wanted = request()
            if wanted is None:
                return
            start = time.perf_counter()
            seen(await connection.ask(*wanted))
            taken.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*map(client, connections))
    rate = len(taken) / (time.perf_counter() - start)
    p50, p99 = 1000 * np.quantile(taken, [0.5, 0.99])
    return Load(name, rate, p50, p99)


async def measured(port: int, key: str, clients: int, seconds: float) -> list[Load]:
    connections = [await Connection().open(port, key) for _ in range(clients)]
    await connections[0].ask("POST", "/v1/agents", catalogue())
    decided: list[str] = []

    def note(answer: bytes) -> None:
        decided.append(json.loads(answer)["id"])

    def feedback() -> tuple[str, str, bytes] | None:
        if not decided:
            return None
        body = {"decision": decided.pop(), "weights": weights()}
        return "POST", "/v1/agents/page/feedback", json.dumps(body).encode()

    def bulk() -> tuple[str, str, bytes] | None:
        if len(decided) < BULK:
            return None
        some = [{"decision": decided.pop(), "weights": weights()} for _ in range(BULK)]
        return "POST", "/v1/agents/page/feedback", json.dumps({"feedback": some}).encode()

    def decide() -> tuple[str, str, bytes]:
        return "POST", "/v1/agents/page/decisions", b"{}"

    def empty() -> tuple[str, str, bytes]:
        return "GET", "/healthz", b""

    loads = []
    await under_load("warm-up", connections, 1, decide, note)
    loads.append(await under_load("empty route", connections, seconds, empty))
    loads.append(await under_load("decide", connections, seconds, decide, note))
    loads.append(await under_load("feedback, one per request", connections, seconds / 2, feedback))
    await under_load("more decisions", connections, seconds, decide, note)
    loads.append(await under_load(f"feedback, {BULK} per request", connections, seconds, bulk))
    loads.append(await under_load("empty route again", connections, seconds, empty))
    return loads


def weights() -> list[float]:
    return [0.0, 1.0] * (K // 2)


def catalogue() -> bytes:
    rng = np.random.default_rng(0)
    items = {"items": list(range(L)), "features": rng.normal(size=(L, D)).tolist()}
    agent = {"name": "page", "oracle": {"kind": "TopK", "k": K}, "items": items}
    return json.dumps(agent).encode()


def bare_commits(folder: str, group: int, seconds: float) -> float:
    """Rows per second that SQLite alone makes durable, in commits of so many rows: what feedback on
    one decision takes in the log, an event and what was observed.
    """
    import apsw

    connection = apsw.Connection(f"{folder}/bare.db")
    list(connection.execute("PRAGMA journal_mode = WAL"))
    list(connection.execute("PRAGMA synchronous = FULL"))
    connection.execute("CREATE TABLE events (position INTEGER PRIMARY KEY, body BLOB)")
    connection.execute("CREATE TABLE feedback (decision INTEGER PRIMARY KEY, seen BLOB)")
    rows = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(group):
            rows += 1
            connection.execute("INSERT INTO events VALUES (?, ?)", (rows, bytes(150)))
            connection.execute("INSERT INTO feedback VALUES (?, ?)", (rows, bytes(150)))
        connection.execute("COMMIT")
    return rows / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with served(folder) as (port, key):
            loads = asyncio.run(measured(port, key, arguments.clients, arguments.seconds))
        bare = bare_commits(folder, arguments.clients, arguments.seconds)
    empty = np.mean([load.per_second for load in loads if load.name.startswith("empty")])
    print(f"{L:,} items, {D} features, {K} chosen, {arguments.clients} clients, 2 cores in all")
    print(f"{'':28}{'per second':>12}{'of empty':>10}{'p50 ms':>9}{'p99 ms':>9}{'p99/p50':>9}")
    for load in loads:
        share = load.per_second / empty
        spread = load.p99 / load.p50
        print(
            f"{load.name:28}{load.per_second:12,.0f}{share:10.2f}"
            f"{load.p50:9.1f}{load.p99:9.1f}{spread:9.1f}"
        )
    print(f"{'SQLite alone, decisions':28}{bare:12,.0f}")
    many = next(load for load in loads if str(BULK) in load.name)
    print(
        f"feedback on {many.per_second * BULK:,.0f} decisions per second: "
        f"{many.per_second * BULK / bare:.2f} of SQLite alone"
    )


if __name__ == "__main__":
    main()

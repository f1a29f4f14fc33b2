"""How fast the service is: decisions and feedback that are on disk before they are answered.

All in one run on the same cores, with clients that keep their connections:

- the empty route, which is what HTTP itself costs here;
- decisions, durable;
- feedback, one decision per request and a hundred, durable;
- SQLite alone: the same rows in group commits, without anything around them.

The clients are one thread with plain sockets, so that the service is measured and not they. Beside
answers per second stands what each costs in CPU time, of the service and of the clients: that says
the same on a machine that is busy with other work.

    python benchmarks/service.py [--clients 32] [--seconds 5]
"""

import argparse
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

L, D, K = 10_000, 32, 10
BULK = 100
"""Decisions whose feedback is sent in one request."""
TICKS = os.sysconf("SC_CLK_TCK")
LENGTH = re.compile(rb"content-length: (\d+)\r\n", re.IGNORECASE)


class Load(NamedTuple):
    """What came of a load: answers per second, how long they took, and what each cost."""

    name: str
    per_second: float
    p50: float  # milliseconds
    p99: float
    server: float  # microseconds of CPU time per answer
    client: float


class Served(NamedTuple):
    """A service in a process of its own."""

    pid: int
    port: int
    key: str

    @property
    def seconds(self) -> float:
        """CPU time of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request."""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Client:
    """One connection that is kept, with at most one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""
        self.since = 0.0

    def send(self, request: bytes) -> None:
        """Ask; the answer comes later."""
        self.since = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """The body of the answer, None if it is not all there; anything but 2xx is an error."""
        part = self.socket.recv(2**16)
        if not part:
            raise ConnectionError("the service hung up")
        self._read += part
        head, end, body = self._read.partition(b"\r\n\r\n")
        if not end:
            return None
        length = LENGTH.search(head + b"\r\n")
        if length is None or len(body) < int(length[1]):
            return None
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(self._read.decode())
        self._read = b""
        return body


@contextmanager
def served(folder: str) -> Iterator[Served]:
    """A service in a process of its own, until the end of the block."""
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
        yield Served(process.pid, port, key)
    finally:
        process.terminate()
        process.wait()


class Clients:
    """Clients of one service."""

    def __init__(self, service: Served, n: int) -> None:
        self.service = service
        self.all = [Client(service.port) for _ in range(n)]
        self._selector = selectors.DefaultSelector()
        for client in self.all:
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def ask(self, request: bytes) -> bytes:
        """The answer to one request."""
        client = self.all[0]
        client.send(request)
        while True:
            answer = client.receive()
            if answer is not None:
                return answer

    def under_load(
        self,
        name: str,
        seconds: float,
        request: Callable[[], bytes | None],
        seen: Callable[[bytes], None] = lambda answer: None,
    ) -> Load:
        """Let all clients ask as fast as they are answered, as long as there are requests."""
        taken: list[float] = []
        before = self.service.seconds
        own = time.process_time()
        start = time.perf_counter()
        asking = 0
        for client in self.all:
            asking += self._ask_next(client, request, start + seconds)
        while asking:
            for ready, _ in self._selector.select():
                client = ready.data
                answer = client.receive()
                if answer is None:
                    continue
                taken.append(time.perf_counter() - client.since)
                seen(answer)
                asking -= 1 - self._ask_next(client, request, start + seconds)
        rate = len(taken) / (time.perf_counter() - start)
        p50, p99 = 1000 * np.quantile(taken, [0.5, 0.99])
        server = 1e6 * (self.service.seconds - before) / len(taken)
        client_time = 1e6 * (time.process_time() - own) / len(taken)
        return Load(name, rate, p50, p99, server, client_time)

    def _ask_next(self, client: Client, request: Callable[[], bytes | None], end: float) -> bool:
        """Send the next request, if there is time for it; returns whether there was."""
        wanted = request() if time.perf_counter() < end else None
        if wanted is None:
            return False
        client.send(wanted)
        return True


def measured(service: Served, n: int, seconds: float) -> list[Load]:
    clients = Clients(service, n)
    clients.ask(service.request("POST", "/v1/agents", catalogue()))
    decided: list[bytes] = []
    identity = re.compile(rb'"id":"([^"]+)"')
    empty = service.request("GET", "/healthz")
    decide = service.request("POST", "/v1/agents/page/decisions", b"{}")
    weights = json.dumps([0.0, 1.0] * (K // 2)).encode()

    def note(answer: bytes) -> None:
        decided.extend(identity.findall(answer))

    def seen() -> bytes:
        return b'{"decision":"%b","weights":%b}' % (decided.pop(), weights)

    def feedback() -> bytes | None:
        if not decided:
            return None
        return service.request("POST", "/v1/agents/page/feedback", seen())

    def bulk() -> bytes | None:
        if len(decided) < BULK:
            return None
        body = b'{"feedback":[%b]}' % b",".join(seen() for _ in range(BULK))
        return service.request("POST", "/v1/agents/page/feedback", body)

    loads = []
    clients.under_load("warm-up", 1, lambda: decide, note)
    loads.append(clients.under_load("empty route", seconds, lambda: empty))
    loads.append(clients.under_load("decide", seconds, lambda: decide, note))
    loads.append(clients.under_load("feedback, one per request", seconds / 2, feedback))
    clients.under_load("more decisions", 2 * seconds, lambda: decide, note)
    loads.append(clients.under_load(f"feedback, {BULK} per request", seconds, bulk))
    loads.append(clients.under_load("empty route again", seconds, lambda: empty))
    return loads


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
        with served(folder) as service:
            loads = measured(service, arguments.clients, arguments.seconds)
        bare = bare_commits(folder, arguments.clients, arguments.seconds)
    empty = np.mean([load.per_second for load in loads if load.name.startswith("empty")])
    print(f"{L:,} items, {D} features, {K} chosen, {arguments.clients} clients, 2 cores in all")
    print(
        f"{'':28}{'per second':>12}{'of empty':>10}{'p50 ms':>9}{'p99 ms':>9}{'p99/p50':>9}"
        f"{'server µs':>11}{'client µs':>11}"
    )
    for load in loads:
        share = load.per_second / empty
        spread = load.p99 / load.p50
        print(
            f"{load.name:28}{load.per_second:12,.0f}{share:10.2f}"
            f"{load.p50:9.1f}{load.p99:9.1f}{spread:9.1f}{load.server:11.0f}{load.client:11.0f}"
        )
    print(f"{'SQLite alone, decisions':28}{bare:12,.0f}")
    many = next(load for load in loads if str(BULK) in load.name)
    print(
        f"feedback on {many.per_second * BULK:,.0f} decisions per second: "
        f"{many.per_second * BULK / bare:.2f} of SQLite alone"
    )


if __name__ == "__main__":
    main()

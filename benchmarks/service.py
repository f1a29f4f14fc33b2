"""How fast the service is: decisions and feedback that are on disk before they are answered.

In rounds, in which all of these take turns on the same cores, with clients that keep their
connections:

- the empty route, which is what HTTP itself costs here;
- decisions, durable;
- feedback, one decision per request and a hundred, durable;
- SQLite alone: the same rows in group commits, without anything around them.

Ratios are those within a round, and medians of all rounds. The clients are one thread with plain
sockets, so that the service is measured and not they; what an answer costs in CPU time, of the
service and of the clients, is shown beside it.

    python benchmarks/service.py [--clients 32] [--seconds 1] [--rounds 7]
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
AGENT = "/v1/agents/page"
IDENTITY = re.compile(rb'"id":"([^"]+)"')
LENGTH = re.compile(rb"content-length: (\d+)\r\n", re.IGNORECASE)


class Load(NamedTuple):
    """What came of a load: answers per second, how long they took, and what each cost."""

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
        fields = (
            Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
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
        if not taken:
            raise RuntimeError("there was nothing to ask for: give more --seconds")
        rate = len(taken) / (time.perf_counter() - start)
        p50, p99 = 1000 * np.quantile(taken, [0.5, 0.99])
        server = 1e6 * (self.service.seconds - before) / len(taken)
        client_time = 1e6 * (time.process_time() - own) / len(taken)
        return Load(rate, p50, p99, server, client_time)

    def _ask_next(self, client: Client, request: Callable[[], bytes | None], end: float) -> bool:
        """Send the next request, if there is time for it; returns whether there was."""
        wanted = request() if time.perf_counter() < end else None
        if wanted is None:
            return False
        client.send(wanted)
        return True


class Bare(NamedTuple):
    """Commits of SQLite alone."""

    per_second: float  # decisions
    cpu: float  # microseconds per decision


class Round(NamedTuple):
    """One turn of each."""

    empty: Load
    decide: Load
    feedback: Load
    bulk: Load
    bare: Bare
    learned: float  # decisions per second, from the first bulk of feedback until all is learned


class Visitors:
    """Clients that let an agent decide, and tell what came of it."""

    def __init__(self, service: Served, n: int) -> None:
        self.service = service
        self.clients = Clients(service, n)
        self.clients.ask(service.request("POST", "/v1/agents", catalogue()))
        self._decided: list[bytes] = []
        self._position = 0  # of the last feedback that was taken
        self._weights = json.dumps([0.0, 1.0] * (K // 2)).encode()
        self._empty = service.request("GET", "/healthz")
        self._decide = service.request("POST", f"{AGENT}/decisions", b"{}")
        self._agent = service.request("GET", AGENT)

    def warm_up(self, seconds: float) -> None:
        """Ask for everything once, so that all is compiled."""
        self.clients.under_load(seconds, lambda: self._decide, self._note)
        self.clients.under_load(seconds, self._feedback, self._note_position)
        self._wait_until_learned()

    def round(self, folder: str, seconds: float) -> Round:
        """One turn of each."""
        bare = bare_commits(folder, len(self.clients.all), seconds / 2)
        empty = self.clients.under_load(seconds, lambda: self._empty)
        decide = self.clients.under_load(seconds, lambda: self._decide, self._note)
        feedback = self.clients.under_load(seconds / 4, self._feedback, self._note_position)
        self._wait_until_learned()
        before = len(self._decided)
        start = time.perf_counter()
        bulk = self.clients.under_load(seconds, self._bulk, self._note_position)
        self._wait_until_learned()
        learned = (before - len(self._decided)) / (time.perf_counter() - start)
        return Round(empty, decide, feedback, bulk, bare, learned)

    def _note(self, answer: bytes) -> None:
        self._decided.extend(IDENTITY.findall(answer))

    def _seen(self) -> bytes:
        return b'{"decision":"%b","weights":%b}' % (self._decided.pop(), self._weights)

    def _feedback(self) -> bytes | None:
        if not self._decided:
            return None
        return self.service.request("POST", f"{AGENT}/feedback", self._seen())

    def _bulk(self) -> bytes | None:
        if len(self._decided) < BULK:
            return None
        body = b'{"feedback":[%b]}' % b",".join(self._seen() for _ in range(BULK))
        return self.service.request("POST", f"{AGENT}/feedback", body)

    def _note_position(self, answer: bytes) -> None:
        self._position = max(self._position, json.loads(answer)["position"])

    def _wait_until_learned(self) -> None:
        """Until all feedback that was taken is part of what is believed."""
        while json.loads(self.clients.ask(self._agent))["position"] < self._position:
            time.sleep(0.01)


def catalogue() -> bytes:
    rng = np.random.default_rng(0)
    items = {"items": list(range(L)), "features": rng.normal(size=(L, D)).tolist()}
    agent = {"name": "page", "oracle": {"kind": "TopK", "k": K}, "items": items}
    return json.dumps(agent).encode()


def bare_commits(folder: str, group: int, seconds: float) -> Bare:
    """What SQLite alone makes durable, in commits of so many decisions: what feedback on one takes
    in the log, an event and what was observed.
    """
    import apsw

    connection = apsw.Connection(f"{folder}/bare.db")
    list(connection.execute("PRAGMA journal_mode = WAL"))
    list(connection.execute("PRAGMA synchronous = FULL"))
    connection.execute("CREATE TABLE IF NOT EXISTS events (at INTEGER PRIMARY KEY, body BLOB)")
    connection.execute("CREATE TABLE IF NOT EXISTS feedback (at INTEGER PRIMARY KEY, seen BLOB)")
    ((before,),) = connection.execute("SELECT coalesce(max(at), 0) FROM events")
    rows = before
    own = time.process_time()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(group):
            rows += 1
            connection.execute("INSERT INTO events VALUES (?, ?)", (rows, bytes(150)))
            connection.execute("INSERT INTO feedback VALUES (?, ?)", (rows, bytes(150)))
        connection.execute("COMMIT")
    n = rows - before
    found = Bare(n / (time.perf_counter() - start), 1e6 * (time.process_time() - own) / n)
    connection.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(folder) as service:
        visitors = Visitors(service, arguments.clients)
        visitors.warm_up(arguments.seconds)
        rounds = [visitors.round(folder, arguments.seconds) for _ in range(arguments.rounds)]
    print(f"{L:,} items, {D} features, {K} chosen, {arguments.clients} clients, 2 cores in all")
    print(
        f"{'medians of rounds':28}{'per second':>12}{'of empty':>10}{'p50 ms':>9}{'p99 ms':>9}"
        f"{'p99/p50':>9}{'server µs':>11}{'client µs':>11}"
    )
    shown("empty route", [each.empty for each in rounds], rounds)
    shown("decide", [each.decide for each in rounds], rounds)
    shown("feedback, one per request", [each.feedback for each in rounds], rounds)
    shown(f"feedback, {BULK} per request", [each.bulk for each in rounds], rounds)
    bare, cpu = np.transpose([each.bare for each in rounds])
    told = BULK * np.array([each.bulk.per_second for each in rounds])
    learned = np.array([each.learned for each in rounds])
    print(f"{'SQLite alone, decisions':28}{np.median(bare):12,.0f}{np.median(cpu):48.1f}")
    print(
        f"feedback on {np.median(told):,.0f} decisions per second: {np.median(told / bare):.2f} of "
        f"SQLite alone; {np.median(learned):,.0f} until all is learned"
    )


def shown(name: str, loads: list[Load], rounds: list[Round]) -> None:
    """Print the medians of a load."""
    empty = [each.empty.per_second for each in rounds]
    share = np.median(np.divide([load.per_second for load in loads], empty))
    spread = np.median([load.p99 / load.p50 for load in loads])
    rate, p50, p99, server, client = np.median(np.array(loads), axis=0)
    print(
        f"{name:28}{rate:12,.0f}{share:10.2f}{p50:9.1f}{p99:9.1f}{spread:9.1f}"
        f"{server:11.0f}{client:11.0f}"
    )


if __name__ == "__main__":
    main()

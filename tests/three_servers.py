"""Servers on one Postgres that are killed while visitors ask them; what must hold afterwards."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import httpx
import numpy as np

from superarm import Agent, TopK
from superarm.service import log
from superarm.service.fold import fold
from superarm.service.postgres import Postgres

N = 3
ITEMS = [f"i{i}" for i in range(20)]


def command(*words):
    return [sys.executable, "-m", "superarm", *words]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Servers:
    """Some servers, each on a port of its own."""

    def __init__(self, url, folder, n=N):
        self.url = url
        self.folder = Path(folder)
        self.ports = [free_port() for _ in range(n)]
        self.processes = [None] * n
        made = subprocess.run(
            command("keys", "create", "--database", url, "--scope", "admin"),
            capture_output=True,
            text=True,
            check=True,
        )
        self.key = made.stdout.strip()

    def start(self, i):
        words = command("serve", "--database", self.url, "--port", str(self.ports[i]))
        with (self.folder / f"server-{i}.log").open("ab") as said:
            self.processes[i] = subprocess.Popen(words, stdout=said, stderr=said)

    def kill(self, i):
        self.processes[i].send_signal(signal.SIGKILL)
        self.processes[i].wait()

    def stop(self):
        for process in self.processes:
            if process is not None:
                process.terminate()
        codes = [process.wait(60) for process in self.processes if process is not None]
        return set(codes)

    def client(self, i):
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.ports[i]}",
            headers={"authorization": f"Bearer {self.key}"},
            timeout=30,
        )

    def ready(self, i):
        """What a server says of itself; None if it is not ready."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.ports[i]}/readyz", timeout=5)
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def up(self, fewest):
        """Those that are ready, once there are enough of them."""
        while True:
            found = [i for i in range(len(self.ports)) if self.ready(i)]
            if len(found) >= fewest:
                return found
            time.sleep(0.1)

    def wait(self, i, seconds=90):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.ready(i):
                return
            assert self.processes[i].poll() is None, "a server ended by itself"
            time.sleep(0.05)
        raise AssertionError("a server is not ready")


class Visitor(threading.Thread):
    """Asks any of the servers, again and again until it is answered, and remembers the answers."""

    def __init__(self, servers, seed):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.clients = [servers.client(i) for i in range(len(servers.ports))]
        self.ends = threading.Event()
        self.decisions = {}  # items by id
        self.weights = {}  # by id and item, the last that was acknowledged
        self.retries = 0
        self.wrong = []

    def run(self):
        while not self.ends.is_set():
            made = self.asked("/v1/agents/news/decisions", {})
            self.decisions[made["id"]] = made["items"]
            seen = {item: self.weight() for item in made["items"] if self.rng.random() < 0.8}
            self.observe(made["id"], seen)
            if self.rng.random() < 0.2:
                item = made["items"][0]
                self.observe(made["id"], {item: self.weight()}, correct=True)
        for client in self.clients:
            client.close()

    def weight(self):
        return float(self.rng.integers(0, 1000)) / 1000

    def observe(self, decision, weights, correct=False):
        if not weights:
            return
        body = {"decision": decision, "weights": weights, "correct": correct}
        self.asked("/v1/agents/news/feedback", body)
        self.weights.update({(decision, item): w for item, w in weights.items()})

    def asked(self, path, body):
        """The answer of the first server that gives one."""
        headers = {"idempotency-key": uuid.uuid4().hex}
        while True:
            client = self.clients[self.rng.integers(len(self.clients))]
            try:
                answer = client.post(path, json=body, headers=headers)
            except httpx.TransportError:
                self.retries += 1
                time.sleep(0.1)
                continue
            if answer.status_code in (200, 201):
                return answer.json()
            if answer.status_code != 503:
                self.wrong.append((answer.status_code, answer.text))
            self.retries += 1
            time.sleep(0.02)


def created(servers, i):
    rng = np.random.default_rng(0)
    body = {
        "name": "news",
        "oracle": {"kind": "TopK", "k": 3},
        "items": {"items": ITEMS, "features": rng.standard_normal((len(ITEMS), 4)).tolist()},
    }
    with servers.client(i) as client:
        answer = client.post("/v1/agents", json=body)
    assert answer.status_code == 201, answer.text


def belief_of(servers, i):
    """What a server believes, by the file of its agent."""
    with servers.client(i) as client:
        answer = client.get("/v1/agents/news/snapshot")
    assert answer.status_code == 200, answer.text
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        path.write_bytes(answer.content)
        return Agent.load(path, oracle=TopK(3)).belief


def same(one, other):
    """Whether two beliefs are so bit by bit."""
    pairs = zip(one, other, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def killed(cluster, kills, visitors=4, seed=0):
    """Kill servers under load; returns some numbers."""
    rng = np.random.default_rng(seed)
    url = cluster.database()
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(url, folder)
        try:
            for i in range(N):
                servers.start(i)
            for i in range(N):
                servers.wait(i)
            created(servers, 1)
            people = [Visitor(servers, seed + 1 + i) for i in range(visitors)]
            for person in people:
                person.start()
            leaders = 0
            for _ in range(kills):
                time.sleep(rng.uniform(0, 0.5))
                victim = rng.choice(servers.up(1 if rng.random() < 0.1 else 2))
                leaders += bool((servers.ready(victim) or {}).get("leading"))
                servers.kill(victim)
                servers.start(victim)
            for person in people:
                person.ends.set()
            for person in people:
                person.join(120)
                assert not person.is_alive()
            for i in range(N):
                servers.wait(i)
            numbers = checked(servers, people)
            assert servers.stop() <= {0, -signal.SIGTERM}
        except BaseException:
            for i in range(N):
                print(f"--- server {i}", (servers.folder / f"server-{i}.log").read_text()[-5000:])
            raise
        finally:
            for process in servers.processes:
                if process is not None and process.poll() is None:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
    return {"kills": kills, "of the leader": leaders, **numbers}


def checked(servers, people):
    """Nothing lost, nothing twice, all of one belief."""
    assert [person.wrong for person in people] == [[]] * len(people)
    decisions = {key: items for person in people for key, items in person.decisions.items()}
    weights = {key: w for person in people for key, w in person.weights.items()}
    database = Postgres(servers.url)
    connection = database.read()
    try:
        assert list(log.verify(connection)) == []
        agent = log.agents(connection)["news"]
        rows = connection.execute("SELECT position FROM events WHERE kind = 'decided'")
        assert {position for (position,) in rows} == {int(key.split("-")[0]) for key in decisions}
        assert len(rows) == len(decisions)
        known = {}
        for key, items in decisions.items():
            entry = log.decision(connection, int(key.split("-")[0]))
            assert f"{entry.position}-{entry.event.token}" == key
            assert entry.event.items == items
            for place, seen in log.seen(connection, entry.position).items():
                known[key, items[place]] = seen.weight
        assert known == weights
        fresh = fold(connection, agent)
        assert fresh.learned == len(weights)
        took = converged(servers, fresh)
    finally:
        database.close()
    return {
        "decisions": len(decisions),
        "weights": len(weights),
        "retries": sum(person.retries for person in people),
        "events": fresh.position,
        "seconds to converge": round(took, 2),
    }


def converged(servers, fresh, seconds=20):
    """The seconds until all servers believe what the log says."""
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        found = [belief_of(servers, i) for i in range(len(servers.ports))]
        if all(same(belief, fresh.state.belief) for belief in found):
            return time.monotonic() - start
        time.sleep(0.1)
    raise AssertionError("the servers do not believe the same")

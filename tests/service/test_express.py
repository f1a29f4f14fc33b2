"""The short way answers as the general way does, over real connections."""

import asyncio
import json
import socket
import threading
import time
from contextlib import closing

import pytest
import uvicorn

from hosted import Hosted
from superarm.service.engine import LIMITS
from superarm.service.express import Connection

DECISIONS = "/v1/agents/news/decisions"
FEEDBACK = "/v1/agents/news/feedback"
JSON = "content-type: application/json"


class Listening:
    """A service that listens on a port, with short ways or without."""

    def __init__(self, host, protocol):
        config = uvicorn.Config(
            host.app,
            port=0,
            http=protocol,
            server_header=False,
            date_header=False,
            log_level="critical",
            lifespan="off",
        )
        self.key = host.key
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run)
        self._started = threading.Event()
        self._thread.start()
        self._started.wait(30)
        (server,) = self._server.servers
        self.port = server.sockets[0].getsockname()[1]

    def _run(self):
        async def serve():
            running = asyncio.create_task(self._server.serve())
            while not self._server.started:
                await asyncio.sleep(0.01)
            self._started.set()
            await running

        asyncio.run(serve())

    def connect(self):
        return closing(socket.create_connection(("127.0.0.1", self.port), timeout=30))

    def stop(self):
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    limits = LIMITS._replace(body=1000)
    with Hosted(tmp_path_factory.mktemp("express"), limits) as found:
        found.create()
        yield found
        found.require_sound()


@pytest.fixture(scope="module")
def short(host):
    found = Listening(host, Connection)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def general(host):
    found = Listening(host, "httptools")
    yield found
    found.stop()


def request(key, method, path, headers, body, length=None):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: here"]
    lines += [f"authorization: Bearer {key}" if line == "key" else line for line in headers]
    if length is None:
        length = len(body)
    if length >= 0:
        lines.append(f"content-length: {length}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def answers(connection, n):
    """Status, headers and body of n answers that come on a connection."""
    read = b""
    found = []
    while len(found) < n:
        head, end, rest = read.partition(b"\r\n\r\n")
        status, *headers = head.split(b"\r\n")
        sizes = [
            int(line.split(b": ")[1]) for line in headers if line.startswith(b"content-length")
        ]
        if end and sizes and len(rest) >= sizes[0]:
            found.append((status, sorted(headers), rest[: sizes[0]]))
            read = rest[sizes[0] :]
            continue
        part = connection.recv(2**16)
        assert part, f"the service hung up after {read!r}"
        read += part
    assert not read
    return found


def answer(service, *asked, **options):
    """What a service answers to one request."""
    with service.connect() as connection:
        connection.sendall(request(service.key, *asked, **options))
        (found,) = answers(connection, 1)
    return found


REQUESTS = {
    "no key": ("POST", DECISIONS, [JSON], b"{}"),
    "another word": ("POST", DECISIONS, [JSON, "authorization: Basic x"], b"{}"),
    "an unknown key": ("POST", DECISIONS, [JSON, "authorization: Bearer x"], b"{}"),
    "two keys": ("POST", DECISIONS, [JSON, "key", "key"], b"{}"),
    "no JSON": ("POST", DECISIONS, [JSON, "key"], b"{nothing"),
    "not UTF-8": ("POST", DECISIONS, [JSON, "key"], b'{"user": "\xff"}'),
    "an unknown field": ("POST", DECISIONS, [JSON, "key"], b'{"users": "ada"}'),
    "a type": ("POST", DECISIONS, ["key", "content-type: text/csv"], b"{}"),
    "a coding": ("POST", DECISIONS, [JSON, "key", "content-encoding: gzip"], b"{}"),
    "too long": ("POST", DECISIONS, [JSON, "key"], b" " * 1001),
    "a context": ("POST", DECISIONS, [JSON, "key"], b'{"context": [1.0]}'),
    "two once": (
        "POST",
        DECISIONS,
        [JSON, "key", "idempotency-key: a", "idempotency-key: b"],
        b"{}",
    ),
    "an odd once": ("POST", DECISIONS, [JSON, "key", "idempotency-key: \xe4"], b"{}"),
    "another agent": ("POST", "/v1/agents/olds/decisions", [JSON, "key"], b"{}"),
    "no agent": ("POST", "/v1/agents//decisions", [JSON, "key"], b"{}"),
    "an agent of two": ("POST", "/v1/agents/a/b/decisions", [JSON, "key"], b"{}"),
    "an agent of two, hidden": ("POST", "/v1/agents/a%2Fb/decisions", [JSON, "key"], b"{}"),
    "another method": ("PUT", DECISIONS, [JSON, "key"], b"{}"),
    "nothing there": ("POST", "*", [JSON, "key"], b"{}"),
    "no decision": (
        "POST",
        FEEDBACK,
        [JSON, "key"],
        b'{"decision": "7-abc", "weights": [1.0, 0.0]}',
    ),
    "nothing said": ("POST", FEEDBACK, [JSON, "key"], b"{}"),
    "no body": ("POST", FEEDBACK, [JSON, "key"], b""),
    "no feedback": ("POST", FEEDBACK, [JSON, "key"], b'{"feedback": []}'),
    "the last": ("POST", DECISIONS, [JSON, "connection: close"], b"{}"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_both_ways_answer_alike(short, general, name):
    assert answer(short, *REQUESTS[name]) == answer(general, *REQUESTS[name])


def test_a_decision_and_feedback_on_it(monkeypatch, host, short):
    shortened = []
    answer_by_itself = Connection._answer

    def noted(self, cycle, wanted):
        shortened.append(wanted.way.route.path)
        answer_by_itself(self, cycle, wanted)

    monkeypatch.setattr(Connection, "_answer", noted)
    status, headers, body = answer(short, "POST", DECISIONS, [JSON, "key"], b"{}")
    assert status == b"HTTP/1.1 201 Created"
    assert headers == [
        b"content-length: %d" % len(body),
        b"content-type: application/json",
    ]
    made = json.loads(body)
    given = b'{"decision": "%b", "weights": [1.0, 0.0]}' % made["id"].encode()
    status, _, body = answer(short, "POST", FEEDBACK, [JSON, "key"], given)
    assert status == b"HTTP/1.1 200 OK"
    assert json.loads(body)["learned"] == 2
    assert [path.rpartition("/")[2] for path in shortened] == ["decisions", "feedback"]


def test_one_request_after_the_other_on_one_connection(host, short):
    once = [JSON, "key", "idempotency-key: again"]
    with short.connect() as connection:
        found = []
        for _ in range(3):
            connection.sendall(request(short.key, "POST", DECISIONS, once, b"{}"))
            found += answers(connection, 1)
    assert found[0] == found[1] == found[2]


def test_a_body_that_comes_in_pieces(short):
    whole = request(short.key, "POST", DECISIONS, [JSON, "key"], b'{"user": "ada"}')
    with short.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(whole), 7):
            connection.sendall(whole[i : i + 7])
        ((status, _, _),) = answers(connection, 1)
    assert status == b"HTTP/1.1 201 Created"


def test_a_body_in_chunks(short):
    asked = request(
        short.key,
        "POST",
        DECISIONS,
        [JSON, "key", "transfer-encoding: chunked"],
        b"2\r\n{}\r\n0\r\n\r\n",
        length=-1,
    )
    with short.connect() as connection:
        connection.sendall(asked)
        ((status, _, _),) = answers(connection, 1)
    assert status == b"HTTP/1.1 201 Created"


def test_a_body_that_waits_to_be_asked_for(short):
    asked = request(short.key, "POST", DECISIONS, [JSON, "key", "expect: 100-continue"], b"{}")
    with short.connect() as connection:
        connection.sendall(asked[:-2])
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(asked[-2:])
        ((status, _, _),) = answers(connection, 1)
    assert status == b"HTTP/1.1 201 Created"


def test_requests_before_the_last_was_answered_are_answered_in_their_order(host, short):
    health = request(short.key, "GET", "/healthz", [], b"")
    each = [
        request(short.key, "POST", DECISIONS, [JSON, "key", f"idempotency-key: {i}"], b"{}")
        for i in range(5)
    ]
    with short.connect() as connection:
        connection.sendall(b"".join([each[0], health, *each[1:], health]))
        found = answers(connection, 7)
    words = [status.split(b" ")[1] for status, _, _ in found]
    assert words == [b"201", b"200", b"201", b"201", b"201", b"201", b"200"]
    again = [
        answer(short, "POST", DECISIONS, [JSON, "key", f"idempotency-key: {i}"], b"{}")
        for i in range(5)
    ]
    made = [found[0], *found[2:6]]
    assert [one[2] for one in made] == [one[2] for one in again]


def test_the_last_request_of_a_connection(short):
    with short.connect() as connection:
        asked = request(short.key, "POST", DECISIONS, [JSON, "key", "connection: close"], b"{}")
        connection.sendall(asked)
        ((status, headers, _),) = answers(connection, 1)
        assert connection.recv(1) == b""
    assert status == b"HTTP/1.1 201 Created"
    assert b"connection: close" in headers


def test_a_client_that_leaves_before_it_is_answered(host, short):
    before, _ = host.head
    for _ in range(20):
        with short.connect() as connection:
            connection.sendall(request(short.key, "POST", DECISIONS, [JSON, "key"], b"{}"))
    for _ in range(3000):  # what was asked for is decided, whoever is there to hear of it
        if host.head[0] == before + 20:
            break
        time.sleep(0.01)
    assert host.head[0] == before + 20
    assert answer(short, "POST", DECISIONS, [JSON, "key"], b"{}")[0].endswith(b"Created")


def test_what_is_answered_is_counted(host, short):
    answer(short, "POST", DECISIONS, [JSON, "key"], b"{}")
    answer(short, "POST", DECISIONS, [JSON], b"{}")
    text = host.ask("GET", "/metrics").text
    for status in (201, 401):
        route = 'method="POST",route="/v1/agents/{agent}/decisions"'
        assert f'superarm_requests_total{{{route},status="{status}"}}' in text

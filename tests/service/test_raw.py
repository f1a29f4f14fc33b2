"""Bytes that are no HTTP, or hardly, to a real server."""

import os
import random
import re
import socket
import threading
import time

import pytest
import uvicorn

from hosted import Hosted
from superarm.service.engine import Limits

MUTATIONS = int(os.environ.get("SUPERARM_RAW", "150"))
"""Requests with some bytes changed; `make endurance` sends more."""

WEBSOCKET = ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")


class Server:
    """A service behind uvicorn, as `superarm serve` runs it."""

    def __init__(self, folder):
        self.host = Hosted(folder, Limits(body=100_000))
        self.host.create()
        self.host.decide()  # so that nothing is left to compile
        config = uvicorn.Config(
            self.host.app, port=0, log_level="critical", server_header=False, lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self.host.close()

    def send(self, content, *, patience=0.5):
        """What comes back, until the server closes or waits for more."""
        found = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as connection:
            try:
                connection.sendall(content)
                while part := connection.recv(65536):
                    found += part
            except OSError:
                pass
        return found

    def is_well(self):
        return b"200 OK" in self.send(
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("raw"))
    yield found
    found.close()


def statuses(content):
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3})", content)]


def post(key, body, *headers, path="/v1/agents/news/decisions"):
    """A request as bytes; its length is among the headers, or not."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        "Connection: close",
        f"Authorization: Bearer {key}",
    ]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def get(path, *headers):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def cases(key):
    """Requests, and the statuses that they may be answered with; none where the server closes."""
    length = "Content-Length: {}".format
    chunked = "Transfer-Encoding: chunked"
    upgrade = ("Upgrade: websocket", "Connection: upgrade")
    endless = b"20000\r\n" + b"x" * 0x20000 + b"\r\n"
    return {
        "as meant": (post(key, b"{}", length(2)), {201}),
        "in chunks": (post(key, b"2\r\n{}\r\n0\r\n\r\n", chunked), {201}),
        "longer than said": (post(key, b"{}   {}", length(2)), {201, 400}),
        "length that is none": (post(key, b"{}", length("x")), {400}),
        "negative length": (post(key, b"{}", length(-1)), {400}),
        "two lengths": (post(key, b"{}", length(2), length(3)), {400}),
        "length and chunks": (post(key, b"2\r\n{}\r\n0\r\n\r\n", length(2), chunked), {400}),
        "immense length": (post(key, b"{}", length(10**30)), {400, 413}),
        "large length": (post(key, b"{}", length(10**9)), {413}),
        "too much in chunks": (post(key, endless, chunked), {413}),
        "bad chunk": (post(key, b"zz\r\n{}\r\n", chunked), {400}),
        "two keys": (post(key, b"{}", length(2), f"Authorization: Bearer {key}"), {401}),
        "key not in ASCII": (post("\xe9\xff", b"{}", length(2)), {401}),
        "odd idempotency key": (
            post(key, b"{}", length(2), "Idempotency-Key: \xe9\x01"),
            {400, 422},
        ),
        "two idempotency keys": (
            post(key, b"{}", length(2), "Idempotency-Key: a", "Idempotency-Key: b"),
            {422},
        ),
        "many headers": (post(key, b"{}", length(2), *[f"X-{i}: y" for i in range(500)]), {201}),
        "long header": (post(key, b"{}", length(2), "X: " + "y" * 60_000), {201, 400, 431}),
        "NUL in a header": (post(key, b"{}", length(2), "X: a\0b"), {400}),
        "header without a name": (post(key, b"{}", length(2), ": y"), {400}),
        "address not in ASCII": (
            post(key, b"{}", length(2), path="/v1/agents/\xe9/decisions"),
            {400, 404},
        ),
        "space in the address": (post(key, b"{}", length(2), path="/v1 /agents"), {400}),
        "dots in the address": (
            post(key, b"{}", length(2), path="/v1/agents/../../etc/passwd"),
            {404},
        ),
        "another host in the address": (
            post(key, b"{}", length(2), path="http://[/v1/agents"),
            {400, 404, 405},
        ),
        "long address": (post(key, b"{}", length(2), path="/" + "a" * 60_000), {400, 404, 414}),
        "odd method": (b"BREW /v1/agents HTTP/1.1\r\nHost: x\r\n\r\n", {400, 405}),
        "no host": (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 400}),
        "bad host": (b"GET /v1/agents/ HTTP/1.1\r\nHost: [\r\nConnection: close\r\n\r\n", {404}),
        "old HTTP": (b"GET /healthz HTTP/1.0\r\n\r\n", {200}),
        "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 404}),
        "upgrade": (get("/healthz", *upgrade), {200, 400, 403, 404}),
        "websocket": (get("/v1/agents", *upgrade, *WEBSOCKET), {400, 401, 403, 404}),
        "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), {400}),
        "nothing": (b"", set()),
        "line ends": (b"\r\n" * 50, set()),
        "zeros": (bytes(1000), {400}),
        "half a request": (b"GET /v1/agents HT", set()),
    }


def test_bytes_that_are_hardly_http(server):
    wrong = {}
    for name, (content, wanted) in cases(server.host.key).items():
        found = statuses(server.send(content))
        if not set(found) <= wanted or bool(found) != bool(wanted):
            wrong[name] = found
    assert wrong == {}
    assert server.is_well()


def test_changed_bytes(server):
    rng = random.Random(0)
    whole = list(cases(server.host.key).values())
    for i in range(MUTATIONS):
        content = bytearray(rng.choice(whole)[0][:2000])
        for _ in range(rng.randrange(1, 6)):
            if content:
                content[rng.randrange(len(content))] = rng.randrange(256)
        found = statuses(
            server.send(bytes(content[: rng.randrange(len(content) + 1) or None]), patience=0.05)
        )
        assert all(code < 500 for code in found), (i, bytes(content), found)
    assert server.is_well()
    server.host.require_sound()

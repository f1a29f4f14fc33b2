"""The short way answers as the general way does."""

import asyncio

import pytest

from hosted import Hosted
from superarm.service.engine import LIMITS

DECISIONS = "/v1/agents/news/decisions"
FEEDBACK = "/v1/agents/news/feedback"
JSON = (b"content-type", b"application/json")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    limits = LIMITS._replace(body=1000)
    with Hosted(tmp_path_factory.mktemp("express"), limits) as found:
        found.create()
        yield found
        found.require_sound()


def answer(host, app, method, path, headers, body):
    """Status, headers and body of what an application answers."""
    sent = []
    messages = [{"type": "http.request", "body": body[:9], "more_body": True}]
    messages.append({"type": "http.request", "body": body[9:], "more_body": False})

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
        "server": ("here", 80),
        "http_version": "1.1",
    }
    host.loop.run_until_complete(app(scope, receive, send))
    start, *parts = sent
    content = b"".join(part.get("body", b"") for part in parts)
    return start["status"], sorted(start["headers"]), content


REQUESTS = {
    "no key": ("POST", DECISIONS, [JSON], b"{}"),
    "another word": ("POST", DECISIONS, [JSON, (b"authorization", b"Basic x")], b"{}"),
    "an unknown key": ("POST", DECISIONS, [JSON, (b"authorization", b"Bearer x")], b"{}"),
    "two keys": ("POST", DECISIONS, [JSON, "key", "key"], b"{}"),
    "no JSON": ("POST", DECISIONS, [JSON, "key"], b"{nothing"),
    "not UTF-8": ("POST", DECISIONS, [JSON, "key"], b'{"user": "\xff"}'),
    "an unknown field": ("POST", DECISIONS, [JSON, "key"], b'{"users": "ada"}'),
    "a type": ("POST", DECISIONS, ["key", (b"content-type", b"text/csv")], b"{}"),
    "a coding": ("POST", DECISIONS, [JSON, "key", (b"content-encoding", b"gzip")], b"{}"),
    "too long": ("POST", DECISIONS, [JSON, "key", (b"content-length", b"1001")], b"{}"),
    "longer than it says": ("POST", DECISIONS, [JSON, "key"], b" " * 2000),
    "a context": ("POST", DECISIONS, [JSON, "key"], b'{"context": [1.0]}'),
    "two once": (
        "POST",
        DECISIONS,
        [JSON, "key", (b"idempotency-key", b"a"), (b"idempotency-key", b"b")],
        b"{}",
    ),
    "an odd once": ("POST", DECISIONS, [JSON, "key", (b"idempotency-key", b"\xe4\x01")], b"{}"),
    "another agent": ("POST", "/v1/agents/olds/decisions", [JSON, "key"], b"{}"),
    "no agent": ("POST", "/v1/agents//decisions", [JSON, "key"], b"{}"),
    "an agent of two": ("POST", "/v1/agents/a/b/decisions", [JSON, "key"], b"{}"),
    "another method": ("PUT", DECISIONS, [JSON, "key"], b"{}"),
    "nothing there": ("POST", "*", [JSON, "key"], b"{}"),
    "no decision": (
        "POST",
        FEEDBACK,
        [JSON, "key"],
        b'{"decision": "7-abc", "weights": [1.0, 0.0]}',
    ),
    "nothing said": ("POST", FEEDBACK, [JSON, "key"], b"{}"),
    "no feedback": ("POST", FEEDBACK, [JSON, "key"], b'{"feedback": []}'),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_both_ways_answer_alike(monkeypatch, host, name):
    method, path, headers, body = REQUESTS[name]
    key = (b"authorization", f"Bearer {host.key}".encode())
    given = [key if one == "key" else one for one in headers]
    short = answer(host, host.app, method, path, given, body)
    monkeypatch.setattr(host.app.express, "_ways", {})
    assert short == answer(host, host.app, method, path, given, body)


def test_a_client_that_leaves_is_not_answered_twice(host):
    async def receive():
        return {"type": "http.disconnect"}

    sent = []

    async def send(message):
        sent.append(message)

    headers = [JSON, (b"authorization", f"Bearer {host.key}".encode())]
    scope = {"type": "http", "method": "POST", "path": DECISIONS, "headers": headers}
    assert asyncio.run(host.app.express.answers(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 400

"""Logging in by a browser: who is let in, for how long, and who cannot ride along."""

import json
import re
from datetime import timedelta

import httpx
import pytest

from hosted import NEWS, Hosted
from superarm.agent.decisions import as_time, now
from superarm.service import door, keys
from superarm.service.dashboard import sessions

DECISIONS = "/v1/agents/news/decisions"


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(door, "REMEMBERED", 0.0)  # a key is looked up each time
    with Hosted(tmp_path) as found:
        found.create()
        yield found
        found.require_sound()


class Browser:
    """Keeps cookies, and has no key among its headers."""

    def __init__(self, host, base="http://test"):
        self._host = host
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(host.app, raise_app_exceptions=False), base_url=base
        )
        self.csrf = ""
        self.cookie = ""

    def ask(self, method, path, body=None, csrf=None, **headers):
        given = {"x-csrf-token": self.csrf if csrf is None else csrf} | headers
        given = {name.replace("_", "-"): value for name, value in given.items() if value}
        content = None if body is None else json.dumps(body).encode()
        reply = self._host.loop.run_until_complete(
            self._client.request(method, path, content=content, headers=given)
        )
        self.cookie = reply.headers.get("set-cookie", self.cookie)
        return reply

    def visit(self):
        """Load the page: who is logged in?"""
        found = self.ask("GET", "/session").json()
        self.csrf = found["csrf"]
        return found["key"]

    def log_in(self, key, **headers):
        self.visit()
        reply = self.ask("POST", "/session", {"key": key}, **headers)
        if reply.is_success:
            self.csrf = reply.json()["csrf"]
        return reply

    @property
    def token(self):
        (found,) = self._client.cookies.values()
        return found

    def close(self):
        self._host.loop.run_until_complete(self._client.aclose())


@pytest.fixture
def browser(host):
    found = Browser(host)
    yield found
    found.close()


# --- in and out -----------------------------------------------------------------------------------


def test_from_the_first_visit_to_the_end(host, browser):
    assert browser.visit() is None
    assert browser.ask("GET", "/v1/agents").status_code == 401
    reply = browser.log_in(host.key)
    assert reply.status_code == 200
    assert reply.json()["key"]["scopes"] == ["admin"]
    assert browser.ask("GET", "/v1/agents").status_code == 200
    assert browser.ask("POST", DECISIONS, {}).status_code == 201
    assert browser.visit()["id"] == reply.json()["key"]["id"]
    token = browser.token
    assert browser.ask("DELETE", "/session").status_code == 204
    assert browser.ask("GET", "/v1/agents").status_code == 401
    assert sessions.find(host.database.read(), token) is None  # also for who copied the cookie


def test_the_cookie_is_for_nobody_else(host, browser):
    browser.log_in(host.key)
    words = browser.cookie.lower().split("; ")
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= set(words)
    assert "secure" not in words


@pytest.mark.parametrize(
    "header", [{}, {"origin": "https://behind.a.proxy", "host": "behind.a.proxy"}]
)
def test_over_tls_the_cookie_is_for_tls_alone(host, header):
    browser = Browser(host, "http://test" if header else "https://test")
    browser.visit()
    browser.ask("POST", "/session", {"key": host.key}, **header)
    assert "; secure" in browser.cookie.lower()
    browser.close()


def test_two_services_of_one_machine_have_cookies_of_their_own(host):
    found = set()
    for base in ("http://test", "http://test:8000", "http://test:9000"):
        browser = Browser(host, base)
        browser.visit()
        found.add(browser.cookie.split("=")[0])
        browser.close()
    assert len(found) == 3


def test_only_a_hash_of_a_session_is_kept(host, browser):
    browser.log_in(host.key)
    kept = host.database.read().execute("SELECT name, value FROM meta")
    assert not any(browser.token in name + value for name, value in kept)
    assert any(name.startswith("session ") for name, _ in kept)


def test_a_token_from_before_the_login_is_worth_nothing(host, browser):
    """Who planted a cookie before somebody logged in is not logged in with them."""
    browser.visit()
    planted = browser.token
    browser.log_in(host.key)
    assert browser.token != planted
    assert sessions.find(host.database.read(), planted) is None


def test_tabs_that_wait_to_log_in_do_not_hinder_each_other(host, browser):
    browser.visit()
    first = browser.csrf
    browser.visit()
    assert browser.csrf == first
    assert browser.ask("POST", "/session", {"key": host.key}, csrf=first).is_success


# --- ends -----------------------------------------------------------------------------------------


def test_a_revoked_key_ends_its_sessions(host, browser):
    key = keys.create(host.database, ["read"])
    browser.log_in(key)
    assert browser.ask("GET", "/v1/agents").status_code == 200
    keys.revoke(host.database, keys.find(host.database.read(), key).id)
    reply = browser.ask("GET", "/v1/agents")
    assert reply.status_code == 401
    assert "revoked" in reply.json()["detail"]
    assert browser.visit() is None


def test_a_session_ends_by_itself(host, browser, monkeypatch):
    browser.log_in(host.key)
    later = now() + sessions.LASTS + timedelta(seconds=1)
    monkeypatch.setattr(sessions, "now", lambda: later)
    assert browser.ask("GET", "/v1/agents").status_code == 401
    old = browser.token
    browser.log_in(host.key)
    kept = host.database.read().execute("SELECT name, value FROM meta WHERE name >= 'session '")
    assert all(value > as_time(later) for name, value in kept if name.startswith("session "))
    assert sessions.find(host.database.read(), old) is None


def test_a_key_is_believed_for_a_second_at_most(host, browser, monkeypatch):
    monkeypatch.setattr(door, "REMEMBERED", 1.0)
    moment = [100.0]
    monkeypatch.setattr("superarm.service.door.time.monotonic", lambda: moment[0])
    key = keys.create(host.database, ["read"])
    browser.log_in(key)
    assert browser.ask("GET", "/v1/agents").status_code == 200
    keys.revoke(host.database, keys.find(host.database.read(), key).id)
    moment[0] += 1.01
    assert browser.ask("GET", "/v1/agents").status_code == 401


# --- who may do what ------------------------------------------------------------------------------


def test_a_session_has_the_scopes_of_its_key(host, browser):
    browser.log_in(keys.create(host.database, ["read"]))
    reply = browser.ask("POST", DECISIONS, {})
    assert reply.status_code == 403
    assert "'decide'" in reply.json()["detail"]


def test_tokens_are_no_keys_and_keys_no_tokens(host, browser):
    browser.log_in(host.key)
    as_key = {"authorization": f"Bearer {browser.token}"}
    assert host.ask("GET", "/v1/agents", headers=as_key).status_code == 401
    as_token = {"authorization": "", "cookie": f"superarm={host.key}"}
    assert host.ask("GET", "/v1/agents", headers=as_token).status_code == 401


def test_a_key_goes_before_a_cookie(host, browser):
    """A request that names a key is not allowed by a cookie beside it."""
    browser.log_in(host.key)
    assert browser.ask("GET", "/v1/agents", authorization="Bearer wrong").status_code == 401
    assert browser.ask(
        "POST", DECISIONS, {}, csrf="", authorization=f"Bearer {host.key}"
    ).is_success


# --- other sites ----------------------------------------------------------------------------------

FOREIGN = [
    {"csrf": ""},
    {"csrf": "0" * 64},
    {"csrf": sessions.csrf_of("another")},
    {"csrf": "é".encode()},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://test.evil.example"},
    {"origin": "http://test:81"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_requests_of_other_pages_change_nothing(host, browser, headers):
    browser.log_in(host.key)
    before = host.head
    for method, path, body in (
        ("POST", DECISIONS, {}),
        ("POST", "/v1/agents", NEWS | {"name": "other"}),
        ("DELETE", "/v1/agents/news", None),
        ("DELETE", "/session", None),
        ("POST", "/session", {"key": host.key}),
    ):
        assert browser.ask(method, path, body, **headers).status_code == 403, (method, path)
    assert host.head == before
    assert browser.visit() is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-origin", "origin": "https://public.example"},  # behind a proxy
        {"origin": "http://test"},
        {},
    ],
    ids=str,
)
def test_requests_of_the_page_itself_are_taken(host, headers):
    browser = Browser(host, headers.get("origin", "http://test").replace("public.example", "test"))
    assert browser.log_in(host.key, **headers).is_success
    assert browser.ask("POST", DECISIONS, {}, **headers).status_code == 201
    browser.close()


# --- wrong keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "x", "sa_" + "a" * 43, "é", "\0", "a" * 1500])
def test_wrong_keys(host, browser, key):
    assert browser.log_in(key).status_code == 401
    assert browser.visit() is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"key": 1}', b'{"key": "a", "b": 1}', b"\xff"]
)
def test_what_is_no_login(host, browser, body):
    browser.visit()
    reply = host.loop.run_until_complete(
        browser._client.post("/session", content=body, headers={"x-csrf-token": browser.csrf})
    )
    assert reply.status_code == 400


def test_a_login_is_short(host, browser):
    assert browser.log_in("a" * 3000).status_code == 413


def test_guessing_is_slow(host, browser, monkeypatch):
    moment = [1000.0]
    monkeypatch.setattr("superarm.service.dashboard.sessions.time.monotonic", lambda: moment[0])
    for _ in range(sessions.FAILURES):
        assert browser.log_in("wrong").status_code == 401
    reply = browser.log_in(host.key)
    assert reply.status_code == 429
    assert re.search("try again", reply.json()["detail"])
    moment[0] += 61
    assert browser.log_in(host.key).is_success


def test_several_servers_of_one_database(host, browser, tmp_path):
    """A session is one of the database, not of the process."""
    from superarm.service.http import application

    browser.log_in(host.key)
    other = application(host.service)
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(other),
        base_url="http://test",
        cookies=browser._client.cookies,
    )
    reply = host.loop.run_until_complete(client.get("/v1/agents"))
    host.loop.run_until_complete(client.aclose())
    assert reply.status_code == 200

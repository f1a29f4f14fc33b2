"""Who may do what."""

import hashlib
import hmac

import pytest

from hosted import Hosted
from superarm.errors import ParameterError
from superarm.service import keys
from superarm.service.http import ROUTES

OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/"),
    ("GET", "/session"),
}
PAGE = {("GET", "/static/{name:path}"), ("POST", "/session"), ("DELETE", "/session")}
"""What the page is made of and how one logs in, with tests of their own."""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Hosted(tmp_path_factory.mktemp("keys")) as found:
        found.create()
        yield found


def addresses(host):
    """All that is answered, from the application itself."""
    for route in host.app.routes:
        for method in sorted(route.methods - {"HEAD"}):
            yield method, route.path


def scopes():
    found = {(route.method, route.path): route.scope for route in ROUTES if route.scope}
    return found | {("GET", "/metrics"): "read"}


def test_every_address_has_a_scope_or_is_open(host):
    assert set(addresses(host)) == OPEN | PAGE | scopes().keys()


def asked(host, method, path, key):
    address = path.replace("{agent}", "news").replace("{decision}", "1-x")
    headers = {"authorization": f"Bearer {key}".encode("latin-1") if key else b""}
    return host.ask(method, address, headers=headers)


def require_problem(reply, status):
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["status"] == status


def test_every_route_refuses_other_keys(host):
    revoked = keys.create(host.database, ["admin"])
    keys.revoke(host.database, keys.find(host.database.read(), revoked).id)
    wrong = ["", "x", revoked, host.key[:-1], host.key + "x", host.key.swapcase(), "sa_" + "é" * 43]
    for (method, path), scope in scopes().items():
        for key in wrong:
            reply = asked(host, method, path, key)
            require_problem(reply, 401)
            assert reply.headers["www-authenticate"] == "Bearer"
        narrow = [other for other in keys.SCOPES if other not in (scope, "admin")]
        require_problem(asked(host, method, path, keys.create(host.database, narrow)), 403)


def test_a_key_for_it_is_let_in(host):
    for (method, path), scope in scopes().items():
        if method != "DELETE":
            reply = asked(host, method, path, keys.create(host.database, [scope]))
            assert reply.status_code not in (401, 403)


def test_what_is_open(host):
    for method, path in OPEN:
        assert asked(host, method, path, "").status_code == 200


def test_two_keys_are_none(host):
    headers = [("authorization", f"Bearer {host.key}"), ("authorization", "Bearer x")]
    reply = host.loop.run_until_complete(host.client.request("GET", "/v1/agents", headers=headers))
    require_problem(reply, 401)


def test_a_revoked_key_is_none_within_a_second(host, monkeypatch):
    key = keys.create(host.database, ["read"])
    assert asked(host, "GET", "/v1/agents", key).status_code == 200
    keys.revoke(host.database, keys.find(host.database.read(), key).id)
    monkeypatch.setattr("superarm.service.door.REMEMBERED", 0.0)
    require_problem(asked(host, "GET", "/v1/agents", key), 401)


def test_only_hashes_are_kept(host, tmp_path):
    rows = host.database.read().execute("SELECT * FROM keys")
    kept = [value for row in rows for value in row]
    assert host.key not in kept
    assert hashlib.sha256(host.key.encode()).digest() in kept
    host.database.clean()
    for path in host.database.path.parent.iterdir():
        assert host.key[3:].encode() not in path.read_bytes()
    assert len(host.key) >= 3 + 43  # 256 bits in base 64


def test_every_hash_is_compared_whole(host, monkeypatch):
    """The time it takes says neither which key is meant nor how much of it is right."""
    compared = []

    class Compare:
        @staticmethod
        def compare_digest(one, other):
            compared.append((len(one), len(other)))
            return hmac.compare_digest(one, other)

    monkeypatch.setattr("superarm.service.keys.hmac", Compare)
    n = len(host.database.read().execute("SELECT 1 FROM keys"))
    for key in (host.key, "x"):
        compared.clear()
        keys.find(host.database.read(), key)
        assert compared == [(32, 32)] * n


def test_bad_scopes(host):
    for scopes_ in ([], ["root"]):
        with pytest.raises(ParameterError):
            keys.create(host.database, scopes_)

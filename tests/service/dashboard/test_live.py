"""The stream of overviews, and keys that end it."""

import asyncio
import json

import pytest

from hosted import Hosted
from superarm.service import keys
from superarm.service.dashboard import live


@pytest.fixture
def host(tmp_path):
    with Hosted(tmp_path) as found:
        found.create()
        yield found


def events(text):
    """Names and contents of events."""
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_an_event(host):
    reply = host.ask("GET", "/v1/live?seconds=600")
    ((name, data),) = events(reply.text)
    assert name == "overview"
    assert [line["name"] for line in data["agents"]] == ["news"]
    assert reply.headers["cache-control"] == "no-store"


def lasting(host, monkeypatch, seconds=60.0):
    """A service whose streams last, with events that come quickly."""
    monkeypatch.setattr(live, "EVERY", 0.02)
    monkeypatch.setattr(live, "SLICE", 0.01)
    host.service.limits = host.service.limits._replace(stream_seconds=seconds)
    return host.service


def collected(host, service, allow, n=1000):
    """Events until the stream ends, or there are n of them."""

    async def read():
        found = []
        response = live.stream(service, 600, allow)
        async for part in response.body_iterator:
            found += events(part.decode())
            if len(found) == n:
                service.stopping.set()
        return found

    return host.loop.run_until_complete(asyncio.wait_for(read(), 30))


def test_it_goes_on_until_the_service_ends(host, monkeypatch):
    service = lasting(host, monkeypatch)
    found = collected(host, service, lambda: None, n=5)
    assert [name for name, _ in found] == ["overview"] * 5


def test_a_revoked_key_ends_it(host, monkeypatch):
    """The key is looked at again before each event."""
    lasting(host, monkeypatch)
    monkeypatch.setattr("superarm.service.door.REMEMBERED", 0.0)
    key = keys.create(host.database, ["read"])

    async def look():
        headers = {"authorization": f"Bearer {key}"}
        looking = asyncio.create_task(host.asking("GET", "/v1/live", headers=headers))
        await asyncio.sleep(0.3)
        assert not looking.done()
        keys.revoke(host.database, keys.find(host.database.read(), key).id)
        return await asyncio.wait_for(looking, 30)

    found = events(host.loop.run_until_complete(look()).text)
    names = [name for name, _ in found]
    assert names == ["overview"] * (len(names) - 1) + ["refused"]
    assert len(names) > 1
    assert found[-1][1]["status"] == 401


def test_few_may_look_at_once(host):
    host.service.limits = host.service.limits._replace(streams=0)
    assert host.ask("GET", "/v1/live").status_code == 429


def test_keys_over_http(host):
    made = keys.create(host.database, ["read"], "for the page")
    found = host.done("GET", "/v1/keys")["keys"]
    (line,) = [one for one in found if one["note"] == "for the page"]
    assert line["scopes"] == ["read"] and line["revoked"] is None
    assert made not in json.dumps(found)
    assert host.ask("DELETE", f"/v1/keys/{line['id']}").status_code == 204
    (line,) = [one for one in host.done("GET", "/v1/keys")["keys"] if one["id"] == line["id"]]
    assert line["revoked"] is not None
    assert keys.find(host.database.read(), made) is None
    assert host.ask("DELETE", "/v1/keys/nobody").status_code == 404

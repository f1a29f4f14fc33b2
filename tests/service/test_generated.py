"""No request makes the service fail by what is in it, and what is refused leaves no trace."""

import os

import pytest

from hosted import Hosted
from hostile import AGENTS, Generator
from superarm.service import log
from superarm.service.engine import Limits

REQUESTS = int(os.environ.get("SUPERARM_REQUESTS", "1000"))
"""Requests in all, of which `make endurance` sends a hundred times as many."""
LIMITS = Limits(body=2**20, items=50, features=30, chosen=20, agents=10, oracle_seconds=0.05)


@pytest.fixture
def host(tmp_path):
    with Hosted(tmp_path, LIMITS) as found:
        yield found


def create_missing(host, generator):
    """Let there be agents to ask."""
    for name in AGENTS:
        if name not in host.service.learner.views:
            agent = generator.agent(name) | {"items": generator.items(name)}
            host.ask("POST", "/v1/agents", agent | {"oracle": {"kind": "TopK", "k": 2}})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers may be at the end of their range
@pytest.mark.parametrize("seed", [int(os.environ.get("SUPERARM_SEED", "0"))])
def test_generated_requests(host, seed):
    generator = Generator(seed)
    statuses = {}
    for i in range(REQUESTS):
        if i % 50 == 0:
            create_missing(host, generator)
        method, path, body, headers = generator.request()
        before = host.head
        reply = host.ask(method, path, body, headers=headers)
        status = reply.status_code
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, (i, method, path, body, headers, reply.text)
        if status >= 400:
            assert host.is_untouched(before), (method, path, body)
        if status == 201 and path.endswith("/decisions"):
            generator.decisions = [*generator.decisions[-20:], reply.json()["id"]]
        if i % 2000 == 1999:
            host.require_sound()
    host.require_sound()
    print(dict(sorted(statuses.items())), log.head(host.database.read())[0], "events")
    assert statuses[201] > REQUESTS / 50
    assert statuses[200] > REQUESTS / 50
    assert statuses[422] > REQUESTS / 10

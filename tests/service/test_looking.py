"""Why items are chosen, what another learner would have earned, and agents as files."""

from dataclasses import replace

import numpy as np
import pytest

from hosted import ITEMS, NEWS, Hosted, require_same
from superarm import Agent, TopK
from superarm.errors import DecisionError


@pytest.fixture
def host(tmp_path):
    with Hosted(tmp_path) as found:
        yield found
        found.require_sound()


def test_explanations(host):
    host.create(items=ITEMS | {"names": ["x", "y"]})
    made = host.decide()
    host.observe(made, [1.0, 1.0])
    host.settle()
    found = host.done("POST", "/v1/agents/news/explanations", {"items": ["c"], "draws": 100})
    (one,) = found["items"]
    assert one["score"] == pytest.approx(sum(one["contributions"].values()))
    assert 0 <= one["chosen"] <= 1
    assert len(host.done("POST", "/v1/agents/news/explanations", {"draws": 10})["items"]) == 2


def test_another_learner_evaluated(host):
    host.create()
    for _ in range(15):
        made = host.decide(draws=50)
        host.observe(made, [1.0, 0.0])
    body = {"learner": {"kind": "RandomChoice"}}
    found = host.done("POST", "/v1/agents/news/evaluations", body)
    assert found["decisions"] == 15
    assert found["low"] <= found["value"] <= found["high"]
    assert found["logged"] == 1.0


def test_snapshots_are_files_of_agents(host, tmp_path):
    host.create()
    made = host.decide()
    host.observe(made, [1.0, 0.0])
    left = host.decide()
    host.settle()
    reply = host.ask("GET", "/v1/agents/news/snapshot")
    path = tmp_path / "agent.npz"
    path.write_bytes(reply.content)
    agent = Agent.load(path, oracle=TopK(2))
    belief = agent.snapshot().state.belief
    require_same(
        {name: np.asarray(value) for name, value in belief._asdict().items()},
        {name: value for name, value in host.belief().items() if name != "Phi"},
    )
    full = host.done("GET", f"/v1/agents/news/decisions/{made['id']}")
    record = replace(
        agent.decide(),
        id=made["id"],
        items=tuple(made["items"]),
        features=np.array(full["features"]),
        time=made["time"],
    )
    with pytest.raises(DecisionError):
        agent.observe(record, [1.0, 0.0])
    empty = {name: value for name, value in NEWS.items() if name != "items"}
    host.done("POST", "/v1/agents", empty | {"name": "copy"})
    shown = host.done("PUT", "/v1/agents/copy/snapshot", reply.content)
    assert shown["items"] == 5
    require_same(host.belief("copy"), host.belief("news"))
    host.decide("copy")
    assert host.ask("PATCH", "/v1/agents/copy", {"learner": {"kind": "Greedy"}}).status_code == 422
    assert left["id"] != made["id"]


def test_numbers_at_the_end_of_their_range_are_not_explained(host):
    """JSON has no infinite numbers."""
    host.create(items={"items": ["a", "b"], "features": [[1e150, 1e150], [1.0, 0.0]]})
    wide = {"learner": {"kind": "CombLinTS", "lam": 1e150, "sigma": 1.0}}
    host.ask("PATCH", "/v1/agents/news", wide)
    reply = host.ask("POST", "/v1/agents/news/explanations", {"items": ["a"], "draws": 1})
    assert reply.status_code in (200, 422)
    assert "null" not in reply.text

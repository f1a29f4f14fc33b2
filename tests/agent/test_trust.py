import dataclasses
import json

import numpy as np
import pytest

from superarm import Agent, CombLinTS, CombMixTS, Decision, TopK
from superarm.agent.state import reach
from superarm.agent.trust import require_key, signed, verify
from superarm.arrays import Product
from superarm.contexts import Concatenated, Outer, hashed
from superarm.errors import DecisionError, ParameterError
from support import FEATURES, K, make, state

KEY = bytes(range(32))


def test_a_signature_travels_and_verifies():
    decision = signed(make().decide(draws=3), KEY)
    back = Decision.from_json(decision.to_json())
    assert back == decision
    verify(back, KEY)
    for options in ({"parse_int": float}, {}):
        verify(Decision.from_json(json.loads(decision.to_json(), **options)), KEY)


def test_any_change_and_any_other_key_is_noticed():
    decision = signed(make().decide(draws=3), KEY)
    changes = [
        {"id": "x"},
        {"items": decision.items[::-1]},
        {"features": decision.features + 1e-9},
        {"time": "2026-01-01T00:00:00.000000+00:00"},
        {"seed": decision.seed + 1},
        {"propensity": None},
        {"names": ("a", "b", "c", "d")},
        {"signature": "0" * 64},
        {"signature": "\ud800é"},
        {"signature": 5},
    ]
    for change in changes:
        with pytest.raises(DecisionError, match="signed with another key, or changed since"):
            verify(dataclasses.replace(decision, **change), KEY)
    with pytest.raises(DecisionError, match="signed with another key"):
        verify(decision, KEY + b"x")
    with pytest.raises(DecisionError, match="is not signed, and this agent has a key"):
        verify(dataclasses.replace(decision, signature=None), KEY)


def test_the_signature_is_that_of_the_standard():
    """HMAC-SHA256 by its definition, H(K xor opad, H(K xor ipad, text))."""
    import hashlib

    decision = make().decide()
    key = KEY.ljust(64, b"\0")
    inner, outer = (bytes(b ^ pad for b in key) for pad in (0x36, 0x5C))
    message = b"superarm decision\n" + decision.content()
    wanted = hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).hexdigest()
    assert signed(decision, KEY).signature == wanted


def test_keys():
    for key in (None, "a text of more than 16 characters", b"short", bytearray(32), 5):
        with pytest.raises(ParameterError, match="must be bytes, 16 or more"):
            signed(make().decide(), key)
        with pytest.raises(ParameterError, match="must be bytes, 16 or more"):
            require_key(key)
    require_key(b"x" * 16)


def test_records_without_a_signature_are_written_as_before():
    record = json.loads(make().decide().to_json())
    assert "signature" not in record
    assert record["version"] == 1


def test_the_reach_of_features():
    assert reach(FEATURES) == np.abs(FEATURES).max()
    assert reach(np.zeros((3, 0))) == 0.0
    rows = hashed({"a": ["x", "y", "z"]}, buckets=8, sparse=True)
    assert reach(3.0 * rows) == 3.0
    for features in (Outer(FEATURES)([1.0, -7.0]), Concatenated(FEATURES)([1.0, -7.0])):
        assert reach(features) >= np.abs(np.asarray(features)).max()
    formed = Product(FEATURES, np.full((4, 2), 0.5))
    assert reach(formed) == reach(FEATURES) * 0.5


def of_other_magnitude(agent, factor):
    decision = agent.decide()
    return dataclasses.replace(decision, features=factor * decision.features)


@pytest.mark.parametrize(
    ("learner", "far"),
    [(CombMixTS(lam=1.0, sigma=0.3, tau=0.1), 1e7), (CombLinTS(lam=1.0, sigma=0.3), 1e13)],
)
def test_features_that_the_agent_cannot_have_had(learner, far):
    agent = make(learner)
    before = state(agent)
    for factor, message in (
        (far, "reach .*, those of the agent 2"),
        (1e300, "they are not of this agent"),
        (np.nan, "are not finite"),
        (np.inf, "are not finite"),
    ):
        with pytest.raises(DecisionError, match=message):
            agent.observe(of_other_magnitude(agent, factor), np.ones(K))
        assert state(agent) == before
    agent.observe(of_other_magnitude(agent, far / 100), np.ones(K))
    narrow = agent.decide()
    narrow = dataclasses.replace(narrow, features=narrow.features[:, :3])
    with pytest.raises(DecisionError, match="items with 3 features, not 4"):
        agent.observe(narrow, np.ones(K))


def test_agents_with_a_key_sign_and_verify(tmp_path):
    key = b"a secret of sixteen bytes or more"
    plain = make()
    agent, other = (
        Agent(
            CombLinTS(lam=1.0, sigma=0.3), features=FEATURES, oracle=TopK(K), seed=0, record_key=k
        )
        for k in (key, b"another secret of sixteen bytes")
    )
    decision = Decision.from_json(agent.decide().to_json())
    before = state(other)
    with pytest.raises(DecisionError, match="signed with another key, or changed since"):
        other.observe(decision, np.ones(K))
    with pytest.raises(DecisionError, match="is not signed, and this agent has a key"):
        other.observe(plain.decide(), np.ones(K))
    forged = dataclasses.replace(decision, items=decision.items[::-1])
    with pytest.raises(DecisionError, match="changed since"):
        agent.observe([decision, forged], [np.ones(K), np.ones(K)])
    assert state(other) == before
    assert not agent.ledger.observed
    agent.observe(decision, np.ones(K))
    agent.save(tmp_path / "agent.npz")
    assert key not in (tmp_path / "agent.npz").read_bytes()
    back = Agent.load(tmp_path / "agent.npz", oracle=TopK(K), record_key=key)
    back.observe(agent.decide(), np.ones(K))
    many = agent.decide(features=np.stack([FEATURES, FEATURES]))
    back.observe(many, [np.ones(K)] * 2)
    with pytest.raises(ParameterError, match="must be bytes, 16 or more"):
        Agent.load(tmp_path / "agent.npz", oracle=TopK(K), record_key=b"short")

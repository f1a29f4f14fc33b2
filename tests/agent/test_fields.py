"""Records that no agent made: an error of superarm's, and the agent as it was."""

import dataclasses
import json
import os
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest

from superarm import Agent, CombLinTS, Decision, TopK
from superarm.agent import fields
from superarm.contexts import Concatenated, Outer
from superarm.errors import DecisionError
from support import FRAME, K, peak_memory, state

RECORDS = int(os.environ.get("SUPERARM_FORGED_RECORDS", "1000"))


def agent_of_names(oracle=None):
    return Agent(CombLinTS(lam=1.0, sigma=1.0), features=FRAME, oracle=oracle or TopK(K), seed=0)


def heaviest(w):
    """As TopK, which would be compiled where tests are only collected."""
    return np.argsort(-w)[:K]


HONEST = agent_of_names(heaviest).decide(draws=5)
ROWS = HONEST.features

# each a record whose checksum is right: anyone can compute it
FORGED = [
    {"id": "a\0b"},
    {"id": "x" * 201},
    {"id": 7},
    {"id": None},
    {"id": ["a"]},
    {"items": ("a\0", "b", "c")},
    {"items": ("a" * 1001, "b", "c")},
    {"items": ("a", "a", "b")},
    {"items": (1, 1.0, 2)},
    {"items": ("a", "b")},
    {"items": ("a", "b", "c", "d")},
    {"items": ("a", "b", 2**63)},
    {"items": ("a", "b", 1e300)},
    {"items": ("a", "b", 0.5)},
    {"items": ("a", "b", None)},
    {"items": ("a", "b", True)},
    {"items": ("a", "b", ["c"])},
    {"items": ("a", "b", {"c": 1})},
    {"items": tuple(range(100_001))},
    {"propensity": (0.5, 0.5)},
    {"propensity": (0.5,) * 4},
    {"propensity": (0.5, 0.5, 0.0)},
    {"propensity": (0.5, 0.5, -1.0)},
    {"propensity": (0.5, 0.5, 1.5)},
    {"propensity": (0.5, 0.5, "0.5")},
    {"propensity": (0.5, 0.5, True)},
    {"propensity": (0.5, 0.5, None)},
    {"propensity": "abc"},
    {"propensity": 0.5},
    {"names": ("a", "b")},
    {"names": ("a", "b", "c", "d", "e")},
    {"names": ("a", "b", "c", "c")},
    {"names": ("a", "b", "c", "d\0")},
    {"names": ("a", "b", "c", "d" * 1001)},
    {"names": ("a", "b", "c", 4)},
    {"names": "abcd"},
    {"names": {"a": 1}},
    {"features": ROWS[:2]},
    {"features": ROWS[:, :2]},
    {"features": np.vstack([ROWS, ROWS])},
    {"features": ROWS[0]},
    {"features": ROWS[None]},
    {"features": np.zeros((3, 0))},
    {"time": "9999-12-31T23:59:59.000000-14:00"},
    {"time": "2026-01-01T00:00:00.000000"},
    {"time": "2026-01-01"},
    {"time": "yesterday"},
    {"time": "2026-01-01T00:00:00+00:00" + " " * 100},
    {"time": 5},
    {"time": None},
    {"seed": -1},
    {"seed": 2**53},
    {"seed": 1e300},
    {"seed": "5"},
    {"seed": None},
    {"seed": True},
    {"seed": [1]},
    {"signature": "x"},
    {"signature": "f" * 63},
    {"signature": "F" * 64},
    {"signature": 5},
    {"signature": ["f" * 64]},
]


@pytest.mark.parametrize("changes", FORGED, ids=lambda changes: f"{changes!r:.60}")
def test_forged_records_are_refused(changes):
    with pytest.raises(DecisionError, match="damaged"):
        Decision.from_json(dataclasses.replace(HONEST, **changes).to_json())


VALUES = [
    None,
    True,
    "",
    "x",
    "\0",
    "x" * 2000,
    [],
    {},
    [[]],
    [[1, 2], [3]],
    [["1.5"] * 4] * 3,
    [[None] * 4] * 3,
    [[True] * 4] * 3,
    [[1e999] * 4] * 3,
    [[10**400] * 4] * 3,
    [[[1.0]] * 4] * 3,
    {"0": [1.0]},
    -5,
    2.5,
    10**4000,
    1e999,
    float("nan"),
    Decimal("1e999999999"),
    Decimal("nan"),
]


def written_otherwise(rng):
    """A record in which some field has a value of another kind."""
    record = json.loads(HONEST.to_json())
    for name in rng.choice(sorted(record), size=rng.integers(1, 4), replace=False):
        record[str(name)] = VALUES[rng.integers(len(VALUES))]
    return record


def deep(rng):
    n = int(rng.integers(1, 20_000))
    deep = "[" * n + "]" * n
    text = HONEST.to_json()
    return text.replace(f'"seed": {HONEST.seed}', f'"seed": {deep}')


def changed_bytes(rng):
    record = bytearray(HONEST.to_json().encode())
    for at in rng.integers(len(record), size=rng.integers(1, 4)):
        record[at] = int(rng.integers(256))
    return bytes(record)


def cut(rng):
    text = HONEST.to_json()
    return text[: rng.integers(len(text))]


def random_bytes(rng):
    return rng.bytes(int(rng.integers(500)))


def random_json(rng):
    def value(depth):
        kind = rng.integers(8 if depth < 4 else 5)
        if kind < 5:
            return VALUES[rng.integers(7)]
        size = int(rng.integers(4))
        if kind == 5:
            return [value(depth + 1) for _ in range(size)]
        return {str(rng.choice(KEYS)): value(depth + 1) for _ in range(size)}

    return {"superarm": "decision", "version": 1, **{key: value(0) for key in KEYS}}


def forged(rng):
    return dataclasses.replace(HONEST, **FORGED[rng.integers(len(FORGED))]).to_json()


def of_another_time(rng):
    """A right checksum, and a date that would push all others out of the ledger."""
    year = int(rng.integers(2200, 10_000))
    return dataclasses.replace(HONEST, time=f"{year}-01-01T00:00:00.000000+00:00").to_json()


KEYS = sorted(json.loads(HONEST.to_json()))
ATTACKS = [
    written_otherwise,
    deep,
    changed_bytes,
    cut,
    random_bytes,
    random_json,
    forged,
    of_another_time,
]


@pytest.mark.parametrize("items", ["abc", {"a": 1, "b": 2, "c": 3}, 3, [["a"], {"uid": "b"}, "c"]])
def test_items_that_are_no_list_of_ids(items):
    record = json.loads(HONEST.to_json()) | {"items": items}
    with pytest.raises(DecisionError, match=r"is not a list|is no id"):
        Decision.from_json(json.dumps(record))


def test_forged_and_random_records_change_nothing(tmp_path):
    """The memory is that which Python and NumPy ask for, against that of the file of the agent."""
    agent = Agent(
        CombLinTS(lam=1.0, sigma=1.0), features=np.ones((100_000, 4)), oracle=TopK(K), seed=0
    )
    agent.save(tmp_path / "agent.npz")
    room = 2 * (tmp_path / "agent.npz").stat().st_size
    before = state(agent)
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        for i in range(RECORDS):
            record = ATTACKS[i % len(ATTACKS)](rng)
            held = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            try:
                decision = Decision.from_json(record)
                if decision == HONEST:  # of which a byte was changed that means the same
                    continue
                agent.observe(decision, [0.0] * len(decision.items))
                pytest.fail(f"learned from {record!r:.200}")
            except DecisionError:
                pass
            assert tracemalloc.get_traced_memory()[1] - held < room
    finally:
        tracemalloc.stop()
    assert state(agent) == before


def test_a_text_too_long_is_not_parsed():
    text = " " * fields.LONGEST_RECORD + "{}"
    for record in (text, text.encode()):
        with pytest.raises(DecisionError, match="at most 16777216 characters, got 16777218"):
            Decision.from_json(record)


def test_errors_stay_short():
    for record in ("x" * 10**6, {"x": "y" * 10**6}, ["z"] * 10**6, "[" * 10**6):
        with pytest.raises(DecisionError) as error:
            Decision.from_json(record)
        assert len(str(error.value)) < 400


def test_limits_are_allowed():
    largest = dataclasses.replace(
        HONEST,
        id="x" * 200,
        items=("a" * 1000, "", "\ud800"),
        names=("b" * 1000, "", "\ud800", "d"),
        seed=2**53 - 1,
        propensity=(1.0, 1e-300, 0.5),
    )
    assert Decision.from_json(largest.to_json()) == largest
    numbered = dataclasses.replace(HONEST, items=(2**63 - 1, -(2**63), 0))
    assert Decision.from_json(numbered.to_json()) == numbered


def test_a_short_record_makes_no_large_features():
    """One of 40 kB speaks of four million products; it is refused before they are made."""
    x = np.zeros(2000)
    Phi = Outer(np.zeros((1, 2000)))(x)
    forged = dataclasses.replace(HONEST, items=("a",), features=Phi, names=None, propensity=None)
    record = forged.to_json()

    def read():
        with pytest.raises(DecisionError, match="may have 131072 features"):
            Decision.from_json(record)

    assert peak_memory(read) < 20 * len(record)
    wide = Concatenated(np.zeros((1, 2000)))(x)  # these add up
    fine = dataclasses.replace(forged, features=wide)
    assert Decision.from_json(fine.to_json()) == fine

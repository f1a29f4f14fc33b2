"""Whatever an agent is called with, it either works or raises an error of superarm's and stays as
it was."""

import numpy as np
import pytest

from superarm import (
    Agent,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombUCB1,
    Decision,
    GridPath,
    Quota,
    TopK,
)
from superarm.errors import SuperarmError
from support import FEATURES, NAN_FEATURES, D, K, L, make, state

NONSENSE = [
    None,
    "text",
    b"bytes",
    3.5,
    object(),
    [[1], [2, 3]],
    [None],
    [object()],
    [1j],
    ["x", 2],
    {"a": 1},
    [[0]],
]
BAD_ITEMS = [
    *(x for x in NONSENSE if x is not None),
    [0, 0],
    [99],
    [-1],
    [0.5],
    ["nobody"],
    [True],
    [2**70],
]
BAD_WEIGHTS = [
    *NONSENSE,
    [np.nan] * 3,
    [np.inf] * 3,
    [1.0],
    [[1.0] * 3],
    1.0,
    ["1", "2", "3"],
    [1e308, 1e308, -1e308],
]
BAD_FEATURES = [
    *(x for x in NONSENSE if x is not None),
    FEATURES[0],
    FEATURES[1:],
    FEATURES[:, 1:],
    NAN_FEATURES,
]
BAD_FEATURES += [FEATURES[None, None], -np.inf * np.ones((L, D)), FEATURES + 1j]
BAD_MASKS = [
    *(x for x in NONSENSE if x is not None),
    np.ones(L),
    np.ones(L - 1, bool),
    [True],
    {99},
    {"nobody"},
    {None},
]
BAD_MASKS += [np.zeros(L, bool), set(), np.ones((L, 1), bool)]
BAD_ORACLES = [
    "text",
    7,
    lambda w: [0, 0],
    lambda w: [99],
    lambda w: ["a"],
    lambda w: None,
    lambda w: [[1], [2, 3]],
]
BAD_ORACLES += [lambda w: 1.5, GridPath(3), Quota([0, 1], {0: 1, 1: 1})]
BAD_IMPORTANCE = [
    *(x for x in NONSENSE if x not in (None, 3.5)),
    0.0,
    -1.0,
    np.nan,
    np.inf,
    [1.0],
    [1.0, 0.0, 1.0],
]
BAD_RECORDS = [
    "",
    "{",
    "[]",
    "{}",
    None,
    b"\xff",
    {"superarm": "decision"},
    '{"superarm": "decision", "version": 1}',
]


def malformed(agent, decision, observed, rng):
    """A random call that must not work, of any method."""

    def some(bad):
        return bad[rng.integers(len(bad))]

    items = agent.items[rng.choice(L, K, replace=False)]
    record = bytearray(decision.to_json().encode())
    record[rng.integers(len(record) - 20)] = 0xFF
    ask = some([agent.choose, agent.decide])
    calls = [
        lambda: ask(features=some(BAD_FEATURES)),
        lambda: ask(available=some(BAD_MASKS)),
        lambda: ask(oracle=some(BAD_ORACLES)),
        lambda: ask(
            features=some(BAD_FEATURES), available=some(BAD_MASKS), oracle=some(BAD_ORACLES)
        ),
        lambda: agent.decide(draws=some([-1, 1.5, "many", None])),
        lambda: agent.decide(seed=some([-1, 1.5, "seed", 2**53])),
        lambda: agent.observe(some(BAD_ITEMS), some([[1.0], [1.0, 0.0], [0.0] * 3])),
        lambda: agent.observe(items, some(BAD_WEIGHTS)),
        lambda: agent.observe(items, [0.0, 1.0, 1.0], some(BAD_FEATURES)),
        lambda: agent.observe(items, [0.0, 1.0, 1.0], importance=some(BAD_IMPORTANCE)),
        lambda: agent.observe(decision, some([w for w in BAD_WEIGHTS if not isinstance(w, dict)])),
        lambda: agent.observe(decision, {some(["nobody", 99, None, (1,)]): 1.0}),
        lambda: agent.observe(decision, {decision.items[0]: some([None, "x", np.nan, 1j, [1.0]])}),
        lambda: agent.observe(decision, [0.0, 1.0, 1.0], importance=some(BAD_IMPORTANCE)),
        lambda: agent.observe(decision, [0.0, 1.0, 1.0], FEATURES),
        lambda: agent.observe(observed, {observed.items[rng.integers(K)]: 1.0}),
        lambda: agent.observe(
            Decision.from_json(some([*BAD_RECORDS, bytes(record)])), [0.0, 1.0, 1.0]
        ),
        lambda: agent.learn(
            some([*BAD_FEATURES[:11], FEATURES[0], FEATURES[:, 1:], NAN_FEATURES]), [0.0]
        ),
        lambda: agent.learn(FEATURES[:3], some(BAD_WEIGHTS)),
        lambda: agent.learn(FEATURES[:3], [0.0, 1.0, 1.0], importance=some(BAD_IMPORTANCE)),
        lambda: agent.explain(some(BAD_ITEMS), draws=2),
        lambda: agent.explain(items, draws=some([0, -1, 2.5, "many"])),
        lambda: agent.explain(items, some(BAD_FEATURES), some(BAD_MASKS), draws=2),
        lambda: agent.add_items(
            some([NAN_FEATURES, FEATURES[0], FEATURES[:, 1:], "text", None, 7]), ["x"]
        ),
        lambda: agent.add_items(
            FEATURES[:2], some([["x"], [None, "y"], ["x", "x"], agent.items[:2], "xy", 7])
        ),
        lambda: agent.remove_items(some([*BAD_ITEMS, agent.items, None])),
        lambda: agent.merge(
            some(
                [None, "agent.npz", make(CombLinTS(lam=9.0, sigma=9.0)), make(CombUCB1(scale=2.0))]
            )
        ),
    ]
    return some(calls)


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=1.0, sigma=0.3),
        CombLinTS(),
        CombLinTS(lam=1.0, link="logit", forgetting=0.9),
        CombLinUCB(lam=1.0, sigma=0.3, c=1.0),
        CombMixTS(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("ids", [None, [f"item {e}" for e in range(L)]], ids=["numbers", "text"])
def test_a_thousand_malformed_calls_change_nothing(learner, ids):
    """Ten times a thousand in all."""
    agent = Agent(learner, features=FEATURES, items=ids, oracle=TopK(K), seed=7)
    rng = np.random.default_rng(0)
    for _ in range(5):
        observed = agent.decide()
        agent.observe(observed, rng.integers(0, 2, K))
    decision = agent.decide()
    before = state(agent)
    for _ in range(1000):
        call = malformed(agent, decision, observed, rng)
        with pytest.raises(SuperarmError):
            call()
        assert state(agent) == before

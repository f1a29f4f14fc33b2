"""Learners and oracles survive JSON: what is made again chooses the same sets."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import superarm
from superarm import (
    Agent,
    Assignment,
    BipartiteMatching,
    Budget,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    DagPath,
    Greedy,
    GridPath,
    GroupLimits,
    Intervals,
    Knapsack,
    LaminarMatroid,
    Milp,
    Orienteering,
    PartitionMatroid,
    Quota,
    RandomChoice,
    ShortestPath,
    Slate,
    SpanningTree,
    TopK,
    Tour,
    VehicleRoutes,
    learners,
    minimize,
    network_flow,
    steiner_tree,
    with_gap,
)
from superarm.agent import specs
from superarm.agent.specs import learner_of, of_learner, of_oracle, oracle_of
from superarm.errors import ParameterError

DIAMOND = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
ORACLES = {  # made in the tests: some compile their kernels
    "TopK": lambda: (TopK(np.int64(2)), 6),
    "TopK, at most": lambda: (TopK(k=3, at_most=True), 6),
    "Slate": lambda: (Slate(2, examination=np.array([1.0, 0.5])), 6),
    "Quota": lambda: (Quota(np.array([0, 1] * 3), {0: 1, 1: 1}), 6),
    "Quota by words": lambda: (Quota(list("abab"), counts={"a": 1, "b": 1}), 4),
    "Quota of fractions": lambda: (Quota([0.5, 1.5, 0.5, 1.5], {0.5: 1, 1.5: 1}), 4),
    "Quota of truths": lambda: (Quota([True, False, True, False], {True: 1, False: 1}), 4),
    "PartitionMatroid": lambda: (PartitionMatroid([0, 0, 1, 1, 1, 1], {0: 1, 1: 2}), 6),
    "PartitionMatroid of negative labels": lambda: (
        PartitionMatroid([-1, -1, 2, 2], {-1: 1, 2: 1}),
        4,
    ),
    "LaminarMatroid": lambda: (LaminarMatroid(6, sets=[[0, 1, 2]], capacities=[1]), 6),
    "LaminarMatroid of sets": lambda: (LaminarMatroid(6, sets=[{0, 1, 2}], capacities=(1,)), 6),
    "GridPath": lambda: (GridPath(2), 12),
    "DagPath": lambda: (DagPath(DIAMOND, 0, 3), 5),
    "ShortestPath": lambda: (ShortestPath(DIAMOND, 0, 3, clip=True), 5),
    "SpanningTree": lambda: (SpanningTree(np.array(DIAMOND)), 5),
    "Assignment": lambda: (Assignment(2, 3), 6),
    "BipartiteMatching": lambda: (BipartiteMatching([(0, 0), (0, 1), (1, 1), (2, 1)]), 4),
    "Knapsack": lambda: (Knapsack(np.array([1.0, 2.0, 3.0, 1.0]), 3.0), 4),
    "Budget": lambda: (Budget([1.0, 2.0, 3.0, 1.0], 3.0, groups=list("aabb"), maximum=1), 4),
    "Budget per group": lambda: (
        Budget([1.0, 2.0, 3.0, 1.0], 4.0, groups=[1, 1, 2, 2], maximum={1: 2, 2: 1}),
        4,
    ),
    "Quota of a total": lambda: (
        Quota([1, 1, 2, 2], total=2, minimum={1: 1}, maximum={2: 1}),
        4,
    ),
    "GroupLimits": lambda: (GroupLimits([["a"], ["a", "b"], ["b"], []], {"a": 1, "b": 1}), 4),
    "GroupLimits of numbers": lambda: (GroupLimits([[1], [1, 2], [2], []], {1: 1, 2: 1}), 4),
    "Intervals": lambda: (Intervals([0, 1, 2, 3], [2, 3, 4, 5]), 4),
    "Milp": lambda: (Milp(np.ones((1, 4)), [2.0]), 4),
    "Milp, sparse": lambda: (
        Milp(scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0, 1.0]])), [2.0]),
        4,
    ),
    "Milp, sides in order": lambda: (Milp([[1, 1, 0, 0], [0, 0, 1, 1]], pd.Series([1, 2])), 4),
    "Milp with conflicts": lambda: (Milp([[1, 1, 1, 1]], [3], conflicts=[(0, 1)], max_items=2), 4),
    "Knapsack of polars": lambda: (Knapsack(pl.Series([1.0, 2.0, 3.0, 1.0]), 3.0), 4),
    "capacities": lambda: (
        BipartiteMatching([(0, 0), (0, 1), (1, 1), (2, 1)], right_capacity=pd.Series([1, 2])),
        4,
    ),
    "Tour": lambda: (Tour(5), 10),
    "Orienteering": lambda: (Orienteering(1 - np.eye(5), 3.0, iterations=10), 4),
    "VehicleRoutes": lambda: (VehicleRoutes([1, 1], [2], iterations=10), 6),
    "steiner_tree": lambda: (steiner_tree(DIAMOND, [0, 3]), 5),
    "network_flow": lambda: (network_flow(DIAMOND, {0: 1, 3: -1}), 5),
    "minimize": lambda: (minimize(TopK(2)), 5),
    "minimize, ShortestPath": lambda: (minimize(ShortestPath(DIAMOND, 0, 3)), 5),
}


def through_json(oracle, *, numbers=False):
    return oracle_of(json.loads(json.dumps(of_oracle(oracle), allow_nan=False)), numbers=numbers)


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_made_again_chooses_the_same_sets(name):
    oracle, L = ORACLES[name]()
    again = through_json(oracle)
    for w in np.random.default_rng(0).normal(size=(20, L)):
        given = np.abs(w) if name == "minimize, ShortestPath" else w
        np.testing.assert_array_equal(again(given), oracle(given))
    assert of_oracle(again) == of_oracle(oracle)


def test_every_oracle_that_is_allowed_is_tested():
    made = [of()[0] for of in ORACLES.values()]
    assert {type(oracle).__name__ for oracle in made} >= set(specs.ORACLES)


WHOLE = [30, 10, 20, 40]
TEXT = ["d", "b", "c", "a"]


def by_id(kind, ids):
    """Constraints by id, in another order than the agent's items."""
    first, second, third, fourth = ids
    groups = {fourth: 7, first: 7, third: 8, second: 8}
    costs = {second: 2.0, fourth: 1.0, third: 3.0, first: 1.5}
    starts = {second: 1, first: 0, fourth: 3, third: 2}
    ends = {fourth: 5, third: 4, second: 3, first: 2}
    limits = {first: ["x"], second: ["x", "y"], fourth: [], third: ["y"]}
    made = {
        "Quota": lambda f: Quota(f(groups), {7: 1, 8: 1}),
        "PartitionMatroid": lambda f: PartitionMatroid(f(groups), {7: 1, 8: 2}),
        "Budget": lambda f: Budget(f(costs), 4.0, groups=f(groups), maximum={7: 1, 8: 1}),
        "Knapsack": lambda f: Knapsack(f(costs), 4.0),
        "Intervals": lambda f: Intervals(f(starts), f(ends)),
        "GroupLimits": lambda f: GroupLimits(f(limits), {"x": 1, "y": 1}),
    }
    return made[kind]


@pytest.mark.parametrize("ids", [WHOLE, TEXT], ids=["whole numbers", "text"])
@pytest.mark.parametrize("given", [dict, pd.Series], ids=["mapping", "series"])
@pytest.mark.parametrize(
    "kind", ["Quota", "PartitionMatroid", "Budget", "Knapsack", "Intervals", "GroupLimits"]
)
def test_constraints_by_id_stay_by_id(kind, given, ids):
    oracle = by_id(kind, ids)(given)
    again = through_json(oracle, numbers=ids is WHOLE)
    order = [ids[2], ids[0], ids[3], ids[1]]
    agents = [
        Agent(CombLinTS(lam=1.0, sigma=0.5), features=np.eye(4), items=order, oracle=one, seed=3)
        for one in (oracle, again)
    ]
    for _ in range(10):
        chosen = [agent.choose().tolist() for agent in agents]
        assert chosen[0] == chosen[1]


LEARNERS = [
    CombGaussianTS(lam=1.0, sigma=0.5),
    CombLinTS(),
    CombLinTS(lam=np.float64(0.5), sigma=0.25, forgetting=0.99, link="identity"),
    CombLinUCB(c=0.5),
    CombMixTS(lam=1.0, sigma=2.0),
    CombMixUCB(c=1),
    CombTS(),
    CombUCB1(),
    Greedy(),
    RandomChoice(),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_learners_survive_json(learner):
    again = learner_of(json.loads(json.dumps(of_learner(learner), allow_nan=False)))
    assert again == learner and type(again) is type(learner)


def test_every_learner_is_tested():
    assert {type(learner).__name__ for learner in LEARNERS} == set(learners.__all__)


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (None, "/oracle", "an object such as"),
        ({}, "/oracle/kind", "must be one of"),
        ({"kind": "os.system"}, "/oracle/kind", "must be one of"),
        ({"kind": ["TopK"]}, "/oracle/kind", "must be one of"),
        ({"kind": "Matroid", "L": 3}, "/oracle/kind", "must be one of"),
        ({"kind": "TopK", "k": 2, "size": 3}, "/oracle/size", "no parameter 'size'"),
        ({"kind": "TopK"}, "/oracle", "k"),
        ({"kind": "TopK", "k": "2"}, "/oracle", "k must be"),
        ({"kind": "TopK", "k": {"__class__": 1}}, "/oracle", "k must be"),
        ({"kind": "TopK", "k": 2, "minimize": 1}, "/oracle/minimize", "true or false"),
        ({"kind": "Quota", "groups": {"x": 1}, "counts": {}}, "/oracle/groups", "whole numbers"),
        ({"kind": "Quota", "groups": {"07": 1}, "counts": {}}, "/oracle/groups", "whole numbers"),
        ({"kind": "Knapsack", "costs": [1, None], "budget": 2}, "/oracle", "costs"),
        ({"kind": "GridPath", "m": -1}, "/oracle", "GridPath|m"),
    ],
)
def test_descriptions_of_no_oracle_name_their_field(spec, field, message):
    with pytest.raises(specs.SpecError, match=message) as caught:
        oracle_of(spec, numbers=True)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("CombLinTS", "/learner"),
        ({"kind": "eval"}, "/learner/kind"),
        ({"kind": "CombLinTS", "lambda": 1}, "/learner/lambda"),
        ({"kind": "CombLinTS", "lam": -1}, "/learner"),
        ({"kind": "CombLinTS", "model": 1}, "/learner/model"),
    ],
)
def test_descriptions_of_no_learner_name_their_field(spec, field):
    with pytest.raises(specs.SpecError) as caught:
        learner_of(spec)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "oracle",
    [
        np.argmax,
        with_gap(TopK(2), 0.2),
        minimize(with_gap(TopK(2), 0.2)),
        superarm.Matroid(6, lambda items: len(items) <= 2),
        Quota([Decimal(1), Decimal(2)], {Decimal(1): 1, Decimal(2): 1}),
        Knapsack({(1, 2): 1.0, (1, 3): 1.0}, 1.0),
        Knapsack({1: 1.0, "1": 1.0}, 1.0),
        Milp(pd.DataFrame({"a": [1.0], "b": [1.0]}), [1.0]),
        Intervals(
            np.array(["2026-01-01", "2026-01-02"], "M8[D]"),
            np.array(["2026-01-03", "2026-01-04"], "M8[D]"),
        ),
    ],
    ids=[
        "function",
        "gap",
        "gap of costs",
        "Matroid",
        "labels",
        "tuples",
        "alike",
        "data frame",
        "dates",
    ],
)
def test_what_json_cannot_say_is_refused(oracle):
    with pytest.raises(ParameterError):
        of_oracle(oracle)

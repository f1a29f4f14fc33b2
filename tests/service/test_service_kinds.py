"""Every kind of learner and of oracle over HTTP."""

import pytest

from hosted import Hosted
from superarm.agent.specs import LEARNERS, ORACLES

LEARNER = {
    "CombGaussianTS": {"lam": 1.0, "sigma": 1.0},
    "CombLinTS": {"lam": 1.0, "sigma": 1.0},
    "CombLinUCB": {"lam": 1.0, "sigma": 1.0, "c": 1.0},
    "CombMixTS": {},
    "CombMixUCB": {"c": 1.0},
    "CombTS": {},
    "CombUCB1": {},
    "Greedy": {"lam": 1.0, "sigma": 1.0},
    "RandomChoice": {},
}
DIAMOND = [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
UNIT = [[float(i != j) for j in range(5)] for i in range(5)]  # distances
GROUPS = dict(zip("abcd", "xxyy", strict=True))
COSTS = dict(zip("abcd", [1.0, 2.0, 3.0, 1.0], strict=True))
ORACLE = {
    "Assignment": ({"n_rows": 2, "n_cols": 3}, 6),
    "BipartiteMatching": ({"edges": [[0, 0], [0, 1], [1, 1], [2, 1]]}, 4),
    "Budget": ({"costs": COSTS, "budget": 3.0, "groups": GROUPS, "maximum": 1}, 4),
    "DagPath": ({"edges": DIAMOND, "source": 0, "target": 3}, 5),
    "GridPath": ({"m": 2}, 12),
    "GroupLimits": ({"groups": [["x"], ["x", "y"], ["y"], []], "limits": {"x": 1, "y": 1}}, 4),
    "Intervals": ({"start": [0, 1, 2, 3], "end": [2, 3, 4, 5]}, 4),
    "Knapsack": ({"costs": COSTS, "budget": 3.0}, 4),
    "LaminarMatroid": ({"L": 6, "sets": [[0, 1, 2]], "capacities": [1]}, 6),
    "Milp": ({"A": [[1.0, 1.0, 1.0, 1.0]], "b": [2.0]}, 4),
    "Orienteering": ({"distances": UNIT, "max_length": 3.0, "iterations": 10}, 4),
    "PartitionMatroid": ({"groups": GROUPS, "capacities": {"x": 1, "y": 2}}, 4),
    "Quota": ({"groups": GROUPS, "counts": {"x": 1, "y": 1}}, 4),
    "ShortestPath": ({"edges": DIAMOND, "source": 0, "target": 3, "clip": True}, 5),
    "Slate": ({"k": 2, "examination": [1.0, 0.5]}, 4),
    "SpanningTree": ({"edges": DIAMOND, "minimize": True}, 5),
    "TopK": ({"k": 2}, 4),
    "Tour": ({"n_cities": 5}, 10),
    "VehicleRoutes": ({"demands": [1, 1], "capacities": [2], "iterations": 10}, 6),
}


def test_all_kinds_are_here():
    assert LEARNER.keys() == set(LEARNERS)
    assert ORACLE.keys() == set(ORACLES)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Hosted(tmp_path_factory.mktemp("kinds")) as found:
        yield found
        found.require_sound()


def visit(host, name, learner, oracle, n):
    """Create, decide and learn."""
    items = {"items": list("abcdefghijkl"[:n]), "features": [[1.0, i / n] for i in range(n)]}
    host.create(name=name, learner=learner, oracle=oracle, items=items)
    for weight in (0.0, 1.0) * 4:
        made = host.decide(name)
        assert set(made["items"]) <= set(items["items"])
        host.observe(made, [weight] * len(made["items"]), name)
    shown = host.settle(name)
    assert shown.unfit == 0
    assert shown.learned > 0


@pytest.mark.parametrize("kind", LEARNER)
def test_learners(host, kind):
    visit(host, kind, {"kind": kind} | LEARNER[kind], {"kind": "TopK", "k": 2}, 4)


@pytest.mark.parametrize("kind", ORACLE)
def test_oracles(host, kind):
    parameters, n = ORACLE[kind]
    learner = {"kind": "CombLinTS", "lam": 1.0, "sigma": 1.0}
    visit(host, kind, learner, {"kind": kind} | parameters, n)
    reply = host.ask("GET", f"/v1/agents/{kind}/snapshot")
    assert reply.status_code == 200


@pytest.mark.parametrize("kind", LEARNER)
def test_a_weight_is_refused_or_learned_but_never_dropped(host, kind):
    name = f"{kind}-weights"
    host.create(name=name, learner={"kind": kind} | LEARNER[kind])
    made = host.decide(name)
    body = {"decision": made["id"], "weights": [2.0, -1.0]}
    reply = host.ask("POST", f"/v1/agents/{name}/feedback", body)
    shown = host.settle(name)
    assert shown.unfit == 0
    assert shown.learned == (2 if reply.status_code == 200 else 0)

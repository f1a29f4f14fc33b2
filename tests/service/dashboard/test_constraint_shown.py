"""Constraints in words, and how often their parts bind, counted by hand."""

import itertools
from collections import Counter

import numpy as np
import pytest

from shown import counting
from superarm.agent.specs import ORACLES
from superarm.learners import __all__ as LEARNERS
from superarm.service.dashboard.words import constraint_words, learner_words

EDGES = [[0, 1], [1, 2], [0, 2]]
SPECS = [
    ({"kind": "Assignment", "n_rows": 2, "n_cols": 3}, "2 rows"),
    ({"kind": "BipartiteMatching", "edges": EDGES}, "share no end"),
    (
        {"kind": "Budget", "costs": [1, 2], "budget": 9.5, "groups": ["a", "b"], "maximum": 2},
        "costs of at most 9.5, at most 2 of each group",
    ),
    ({"kind": "DagPath", "edges": EDGES, "source": 0, "target": 2}, "path from 0 to 2"),
    ({"kind": "GridPath", "m": 2}, "grid"),
    (
        {"kind": "GroupLimits", "groups": [["a"]], "limits": {"a": 2}, "max_items": 4},
        "at most 4 items, at most 2 of 'a'",
    ),
    ({"kind": "Intervals", "start": [1], "end": [2]}, "do not overlap"),
    ({"kind": "Knapsack", "costs": [1], "budget": 12000}, "costs of at most 12,000"),
    ({"kind": "LaminarMatroid", "L": 3, "sets": [[0]], "capacities": [1]}, "1 sets"),
    ({"kind": "Milp", "A": [[1, 1]], "b": [1]}, "1 inequalities"),
    ({"kind": "Orienteering", "distances": [[0]], "max_length": 7}, "at most 7 long"),
    (
        {"kind": "PartitionMatroid", "groups": ["a"], "capacities": {"a": 1}},
        "at most 1 of 'a'",
    ),
    (
        {"kind": "Quota", "groups": ["f", "m"], "counts": {"f": 1, "m": 2}},
        "3 of 60 items: 1 of 'f', 2 of 'm'",
    ),
    ({"kind": "ShortestPath", "edges": EDGES, "source": 0, "target": 2}, "path from 0 to 2"),
    ({"kind": "Slate", "k": 3, "examination": [1, 1, 1]}, "3 of 60 items, in an order"),
    ({"kind": "SpanningTree", "edges": EDGES}, "spanning tree"),
    ({"kind": "TopK", "k": 10}, "10 of 60 items"),
    ({"kind": "Tour", "n_cities": 5}, "5 cities"),
    ({"kind": "VehicleRoutes", "demands": [1, 2], "capacities": [3]}, "1 vehicles to 2 stops"),
]


@pytest.fixture
def host(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as found:
        yield found


def test_every_oracle_has_words():
    assert {spec["kind"] for spec, _ in SPECS} == set(ORACLES)


@pytest.mark.parametrize(("spec", "part"), SPECS, ids=lambda x: x if isinstance(x, str) else "")
def test_words(spec, part):
    assert part in constraint_words(spec, 60)
    assert constraint_words(spec | {"minimize": True}, 60).endswith("at the least cost")


def test_words_of_learners():
    for kind in LEARNERS:
        words = learner_words({"kind": kind})
        assert words.startswith(f"{kind}: ") and "a learner" not in words


def test_few_groups_are_named():
    limits = {f"group {i}": 1 for i in range(8)}
    spec = {"kind": "PartitionMatroid", "groups": [], "capacities": limits}
    assert constraint_words(spec, 9).endswith("and 3 more")


GROUPS = ["f", "m", "f", "m", "x", "x"]
TAGS = [["a"], ["a", "b"], ["b"], [], ["b"], ["c"]]
COSTS = [3.0, 1.5, 2.0, 4.0, 1.0, 2.5]
BOUND = [
    {"kind": "TopK", "k": 3},
    {"kind": "TopK", "k": 3, "at_most": True},
    {"kind": "Quota", "groups": GROUPS, "counts": {"f": 1, "m": 1, "x": 1}},
    {"kind": "Quota", "groups": GROUPS, "total": 3, "minimum": {"f": 1}, "maximum": {"m": 1}},
    {"kind": "PartitionMatroid", "groups": GROUPS, "capacities": {"f": 1, "m": 2, "x": 1}},
    {"kind": "GroupLimits", "groups": TAGS, "limits": {"a": 1, "b": 2}, "max_items": 3},
    {"kind": "GroupLimits", "groups": TAGS, "limits": 1},
    {"kind": "Knapsack", "costs": COSTS, "budget": 6.0, "max_items": 3},
    {"kind": "Budget", "costs": COSTS, "budget": 6.0, "groups": GROUPS, "maximum": {"f": 1}},
]


def by_id(values):
    return dict(zip("uvwxyz", values, strict=True))


def expected(spec, decisions):
    """How often each part leaves nothing, and how much of it is used, in the plainest way."""
    groups = by_id(GROUPS)
    tags = by_id(TAGS)
    costs = by_id(COSTS)
    found = {}

    def note(words, pairs, most=None):
        """Pairs of what is used, and whether nothing is left."""
        used = [amount / most for amount, _ in pairs] if most else [0.0]
        found[words] = (
            np.mean([binds for _, binds in pairs]),
            np.mean(used) if most else None,
        )

    def at_most(words, n, amounts):
        note(words, [(x, x >= n) for x in amounts], n)

    sizes = [len(items) for items in decisions]
    in_group = {g: [Counter(groups[e] for e in items)[g] for items in decisions] for g in "fmx"}
    with_tag = {t: [sum(t in tags[e] for e in items) for items in decisions] for t in "abc"}
    kind = spec["kind"]
    if kind == "TopK":
        at_most("3 items", 3, sizes)
    if "counts" in spec:
        for g, n in spec["counts"].items():
            at_most(f"{n} of '{g}'", n, in_group[g])
    if "total" in spec:
        at_most("3 items", 3, sizes)
        note("at least 1 of 'f'", [(x, x == 1) for x in in_group["f"]])
        at_most("at most 1 of 'm'", 1, in_group["m"])
    if kind == "PartitionMatroid":
        for g, n in spec["capacities"].items():
            at_most(f"at most {n} of '{g}'", n, in_group[g])
    if kind == "GroupLimits":
        limits = spec["limits"]
        limits = limits if isinstance(limits, dict) else dict.fromkeys("abc", limits)
        for t, n in limits.items():
            at_most(f"at most {n} of '{t}'", n, with_tag[t])
    if "max_items" in spec:
        at_most("at most 3 items", 3, sizes)
    if "budget" in spec:
        spent = [sum(costs[e] for e in items) for items in decisions]
        others = [min(costs[e] for e in costs if e not in items) for items in decisions]
        pairs = [(x, x + y > 6.0) for x, y in zip(spent, others, strict=True)]
        note("costs of at most 6", pairs, 6.0)
    if kind == "Budget":
        at_most("at most 1 of 'f'", 1, in_group["f"])
    return found


@pytest.mark.parametrize("named", [False, True], ids=["in order", "by id"])
@pytest.mark.parametrize("spec", BOUND, ids=lambda spec: spec["kind"])
def test_how_often_it_binds(host, spec, named):
    if named:
        per_item = {name: by_id(spec[name]) for name in ("groups", "costs") if name in spec}
        spec = spec | per_item
    rows = np.random.default_rng(0).normal(size=(6, 2)).tolist()
    host.create(oracle=spec, items={"items": list("uvwxyz"), "features": rows})
    decisions = [host.decide()["items"] for _ in range(40)]
    found = host.done("GET", "/v1/agents/news/constraint")
    assert found["decisions"] == 40
    kept = {bound["words"]: (bound["binds"], bound["used"]) for bound in found["bounds"]}
    wanted = expected(spec, decisions)
    assert kept.keys() == wanted.keys()
    for words, (binds, used) in kept.items():
        assert binds == pytest.approx(wanted[words][0]), words
        assert used == pytest.approx(wanted[words][1]), words


def test_decisions_under_other_constraints_are_left_out(host):
    host.create()
    for _ in range(4):
        host.decide()
    host.decide(oracle={"kind": "TopK", "k": 4})
    found = host.done("GET", "/v1/agents/news/constraint")
    assert found["decisions"] == 4
    host.done("PATCH", "/v1/agents/news", {"oracle": {"kind": "TopK", "k": 1}})
    host.decide()
    found = host.done("GET", "/v1/agents/news/constraint")
    assert (found["words"], found["decisions"]) == ("1 of 5 items", 1)


def test_kinds_without_parts_have_words(host):
    spec = {"kind": "Intervals", "start": [1, 2, 3, 4, 5], "end": [2, 3, 4, 5, 6]}
    host.create(oracle=spec)
    host.decide()
    found = host.done("GET", "/v1/agents/news/constraint")
    assert found["bounds"] == [] and "overlap" in found["words"]
    assert found["parameters"]["start"] == [1, 2, 3, 4, 5]


def test_very_long_parameters_are_not_sent(host):
    n = 1500
    groups = dict(zip(map(str, range(n)), itertools.cycle("ab"), strict=False))
    spec = {"kind": "PartitionMatroid", "groups": groups, "capacities": {"a": 1, "b": 1}}
    host.create(oracle=spec, items={"items": [str(i) for i in range(n)], "features": [[1.0]] * n})
    found = host.done("GET", "/v1/agents/news/constraint")
    assert found["parameters"]["groups"] == "1,500 entries"

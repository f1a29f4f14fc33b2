"""Constraints, contexts, weights and masks go by id, whatever order they come in."""

from dataclasses import dataclass
from uuid import UUID

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest

from superarm import (
    Agent,
    Budget,
    CombLinTS,
    CombMixTS,
    CombTS,
    DagPath,
    Decision,
    Greedy,
    Knapsack,
    Milp,
    PartitionMatroid,
    Quota,
    ShortestPath,
    TopK,
    Tour,
    VehicleRoutes,
    minimize,
    with_gap,
)
from superarm.base_learner import BaseLearner
from superarm.contexts import Concatenated, Outer
from superarm.errors import (
    FeaturesError,
    InfeasibleError,
    ItemsError,
    MaskError,
    ParameterError,
    WeightsError,
)
from superarm.oracles.base import Masked
from support import Stubborn

L, D, N = 30, 3, 200
NAMES = [f"item {e}" for e in range(L)]
FRAME = pd.DataFrame(
    np.random.default_rng(0).standard_normal((L, D)), index=NAMES, columns=["a", "b", "c"]
)
GENDER = pd.Series(np.where(np.arange(L) % 2, "f", "m"), index=NAMES)
PRICE = pd.Series(np.random.default_rng(1).uniform(0.5, 5.0, L), index=NAMES)
SHUFFLED = np.random.default_rng(2).permutation(L)
LEARNER = CombLinTS(lam=1.0, sigma=0.5)


def chosen(agent, n=N):
    return [agent.choose().tolist() for _ in range(n)]


def broken(agent, gender=GENDER):
    return sum((gender[items] == "f").sum() != 2 or len(items) != 4 for items in chosen(agent))


@pytest.mark.parametrize(
    "groups",
    [GENDER, GENDER.iloc[SHUFFLED], GENDER.iloc[SHUFFLED].to_dict(), GENDER.to_numpy()],
    ids=["series", "shuffled series", "mapping", "array"],
)
def test_quotas_hold_for_constraints_in_any_order(groups):
    agent = Agent(LEARNER, features=FRAME, oracle=Quota(groups, {"f": 2, "m": 2}), seed=0)
    assert broken(agent) == 0
    agent.remove_items(["item 3", "item 4"])
    assert broken(agent) == 0
    assert agent.problem.L == L - 2  # without gaps
    assert broken(agent) == 0


def test_quotas_hold_when_one_item_leaves_and_another_comes():
    later = pd.concat([GENDER, pd.Series({"new": "f"})])
    agent = Agent(LEARNER, features=FRAME, oracle=Quota(later, {"f": 2, "m": 2}), seed=0)
    agent.remove_items(["item 0"])
    agent.add_items(FRAME.iloc[:1].set_axis(["new"]))
    assert broken(agent, later) == 0

    by_position = Agent(LEARNER, features=FRAME, oracle=Quota(GENDER.tolist(), {"f": 2, "m": 2}))
    by_position.remove_items(["item 0"])
    before = by_position.items.tolist()
    with pytest.raises(ItemsError, match="says nothing of item 'new': give an oracle that covers"):
        by_position.add_items(FRAME.iloc[:1].set_axis(["new"]))
    assert by_position.items.tolist() == before
    again = Quota(later[[*before, "new"]].tolist(), {"f": 2, "m": 2})
    by_position.add_items(FRAME.iloc[:1].set_axis(["new"]), oracle=again)
    assert broken(by_position, later) == 0


@pytest.mark.parametrize("order", [np.arange(L), SHUFFLED], ids=["in order", "shuffled"])
def test_no_budget_is_overspent(order):
    oracle = Knapsack(PRICE.iloc[order], budget=12.0)
    agent = Agent(LEARNER, features=FRAME, oracle=oracle, seed=0)
    spent = [PRICE[items].sum() for items in chosen(agent)]
    assert max(spent) <= 12.0 * (1 + 1e-9)
    today = [PRICE[agent.choose(oracle=Knapsack(PRICE.iloc[order], 5.0))].sum() for _ in range(50)]
    assert max(today) <= 5.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda order: PartitionMatroid(GENDER.iloc[order], {"f": 2, "m": 3}),
        lambda order: minimize(Quota(GENDER.iloc[order], {"f": 2, "m": 3})),
        lambda order: Milp(
            pd.DataFrame({"f": GENDER == "f", "m": GENDER == "m"}).T.astype(float).iloc[:, order],
            pd.Series({"m": 3.0, "f": 2.0}),
        ),
    ],
    ids=["PartitionMatroid", "minimize", "Milp"],
)
def test_other_oracles_align_too(make):
    agents = [
        Agent(CombTS(), features=FRAME, oracle=make(order), seed=0)
        for order in (np.arange(L), SHUFFLED)
    ]
    for items, others in zip(chosen(agents[0], 20), chosen(agents[1], 20), strict=True):
        assert set(items) == set(others)
        assert (GENDER[items] == "f").sum() == 2
        assert (GENDER[items] == "m").sum() == 3


def test_bounds_of_other_constraints_are_refused():
    with pytest.raises(ParameterError, match="a bound for each row of A"):
        Milp(pd.DataFrame([[1.0]], index=["budget"]), pd.Series({"bugdet": 3.0}))


@pytest.mark.parametrize("seed", [None, 0])
def test_oracles_of_another_size_are_refused_at_once(seed, tmp_path):
    with pytest.raises(ItemsError, match="is for 29 items, but there are 30"):
        Agent(LEARNER, features=FRAME, oracle=Knapsack([1.0] * 29, 3.0))
    Agent(LEARNER, features=FRAME, oracle=TopK(2)).save(tmp_path / "agent.npz")
    with pytest.raises(ItemsError, match="is for 29 items, but there are 30"):
        Agent.load(tmp_path / "agent.npz", oracle=Knapsack([1.0] * 29, 3.0), seed=seed)
    with pytest.raises(ItemsError, match="says nothing of item 'item 0'"):
        Agent.load(tmp_path / "agent.npz", oracle=Knapsack(PRICE.iloc[1:], 3.0), seed=seed)
    with pytest.raises(ItemsError, match=r"give .to_numpy\(\)"):
        Agent(LEARNER, features=FRAME, oracle=Knapsack(PRICE.reset_index(drop=True), 3.0))
    with pytest.raises(ParameterError, match="the items as its index, each once"):
        Knapsack(pd.Series([1.0, 2.0], index=["a", "a"]), 3.0)


def test_a_function_that_knows_its_size_is_aligned_too():
    class Fixed:
        L = K = L
        gap = None

        def __call__(self, w):
            assert len(w) == L
            return [e for e in (3, 7, 11) if w[e] > -np.inf]

    agent = Agent(LEARNER, features=FRAME, oracle=Fixed(), seed=0)
    assert agent.choose().tolist() == ["item 3", "item 7", "item 11"]
    agent.remove_items(["item 0", "item 7"])
    assert agent.choose().tolist() == ["item 3", "item 11"]
    assert agent.problem.L == L - 2
    assert agent.choose().tolist() == ["item 3", "item 11"]


def test_what_a_quota_can_no_longer_hold_is_said():
    agent = Agent(LEARNER, features=FRAME, oracle=Quota(GENDER, {"f": 15, "m": 0}), seed=0)
    agent.remove_items(["item 1"])
    with pytest.raises(InfeasibleError, match="Quota"):
        agent.choose()


def test_edges_are_aligned_by_what_they_are():
    graph = nx.DiGraph([("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "d")])
    cost = {("a", "b"): 1.0, ("b", "d"): 1.0, ("a", "c"): 5.0, ("c", "d"): 5.0, ("a", "d"): 9.0}
    oracle = DagPath.from_networkx(graph, "a", "d")
    edges = list(cost)[::-1]
    agent = Agent(
        CombLinTS(lam=10.0, sigma=0.1), features=np.eye(5), items=edges, oracle=oracle, seed=0
    )
    for _ in range(30):
        path = agent.choose().tolist()
        assert path[0][0] == "a" and path[-1][1] == "d"
        agent.observe(path, [-cost[edge] for edge in path])
    assert agent.choose().tolist() == [("a", "b"), ("b", "d")]
    other = ShortestPath.from_networkx(graph, "a", "d")
    with pytest.raises(ItemsError, match=r"says nothing of item \('x', 'y'\)"):
        Agent(CombTS(), features=np.eye(5), items=[("x", "y"), *edges[1:]], oracle=other)
    Agent(CombTS(), features=np.eye(5), items=[(e,) for e in range(5)], oracle=other)  # by position


@pytest.mark.parametrize("oracle", [Tour(5), VehicleRoutes([1, 1, 1], [2, 2], iterations=10)])
def test_edges_of_an_array_are_aligned_too(oracle):
    """Whatever is drawn, each city is left and entered as it should be."""
    edges = [tuple(edge) for edge in oracle.items.tolist()]
    agent = Agent(LEARNER, features=np.eye(oracle.L), items=edges[::-1], oracle=oracle, seed=0)
    for _ in range(5):
        ends = np.array(agent.choose().tolist())
        visits = np.bincount(ends.ravel())
        assert (visits[1:] == 2).all()


def test_a_function_sees_the_weights_of_the_items_there_are():
    """By position, in the order of `agent.items`, also after items left and for few available."""
    seen = []

    def best(w):
        assert len(w) == len(agent.items)
        allowed = [int(name.split()[1]) >= 10 for name in agent.items]
        seen.append(np.count_nonzero(w > -np.inf))
        return [int(np.argmax(np.where(allowed, w, -np.inf)))]

    for oracle in (best, minimize(best)):
        agent = Agent(LEARNER, features=FRAME, oracle=oracle, seed=0)
        agent.remove_items(["item 0", "item 12"])
        for _ in range(20):
            (item,) = agent.choose()
            assert int(item.split()[1]) >= 10
        assert agent.choose(available=["item 3", "item 11"]).tolist() == ["item 11"]
        assert seen[-1] == 2


def test_a_worse_oracle_is_the_same_among_few_items():
    """What makes it worse goes by the positions of the items, so they must be those of all."""
    agent = Agent(Greedy(), features=FRAME, oracle=with_gap(TopK(1), 0.9), seed=0)
    agent.learn(FRAME, np.arange(L) % 7)
    scores = agent.learner.scores(agent.belief, agent.problem, None)
    for first in range(9):
        few = NAMES[first::9]
        mask = Masked(with_gap(TopK(1), 0.9), np.isin(NAMES, few))
        expected = [NAMES[e] for e in mask(scores)]
        assert agent.choose(available=few).tolist() == expected


@dataclass(frozen=True, kw_only=True)
class Moving(Stubborn, BaseLearner):
    """The same, and it says where its favourite goes."""

    scores_subsets = True

    def resize(self, source):
        return Moving(favourite=int(np.flatnonzero(source == self.favourite)[0]))


@pytest.mark.parametrize("learner", [Stubborn(favourite=7), Moving(favourite=7)], ids=repr)
def test_learners_that_go_by_position_choose_alike_among_few_items(learner):
    agent = Agent(learner, features=FRAME, oracle=TopK(1), seed=0)
    assert agent.choose(available=["item 9", "item 7", "item 8"]).tolist() == ["item 7"]
    if isinstance(learner, Moving):
        agent.remove_items(["item 2"])
        assert agent.choose(available=["item 9", "item 7", "item 8"]).tolist() == ["item 7"]


# --- contexts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Outer, Concatenated])
@pytest.mark.parametrize("learner", [LEARNER, CombMixTS(contexts=True)], ids=repr)
def test_contexts_keep_ids_and_names(make, learner, tmp_path):
    """Shown and learned is the same whatever the order of rows, columns and context."""
    rng = np.random.default_rng(0)
    plain, shuffled = make(FRAME), make(FRAME.iloc[SHUFFLED][["c", "a", "b"]])
    agents = [
        Agent(learner, features=plain({"old": 1.0, "urban": 0.5}), oracle=TopK(4), seed=0)
        for _ in range(2)
    ]
    assert agents[0].items.tolist() == NAMES
    assert ("old·a" in agents[0].names) == (make is Outer)
    for _ in range(40):
        old, urban = rng.standard_normal(2)
        one = plain({"old": old, "urban": urban})
        two = shuffled(pd.Series({"urban": urban, "old": old}))
        items, others = agents[0].choose(features=one), agents[1].choose(features=two)
        assert items.tolist() == others.tolist()
        w = rng.standard_normal(4)
        agents[0].observe(items, w, features=one)
        agents[1].observe(others, w, features=two)
    np.testing.assert_allclose(agents[0].belief.factor, agents[1].belief.factor, atol=1e-9)
    agents[0].save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", oracle=TopK(4), seed=0)
    assert back.names == agents[0].names
    assert set(back.choose(features=two)) <= set(NAMES)


def test_a_context_of_other_items_or_names_is_refused():
    agent = Agent(LEARNER, features=Outer(FRAME)({"old": 1.0}), oracle=TopK(4), seed=0)
    with pytest.raises(FeaturesError, match="no row for item 'item 0'"):
        agent.choose(features=Outer(FRAME.iloc[1:])({"old": 1.0}))
    with pytest.raises(FeaturesError, match=r"feature 'old' is missing|'young' is not one"):
        agent.choose(features=Outer(FRAME)({"young": 1.0}))
    with pytest.raises(FeaturesError, match="learned from Outer: got Concatenated"):
        agent.choose(features=Concatenated(FRAME)({"old": 1.0}))
    agent.remove_items(["item 7"])
    with pytest.raises(FeaturesError, match="a row for item 'item 7', which the agent does not"):
        agent.choose(features=Outer(FRAME)({"old": 1.0}))
    agent.add_items(FRAME.loc[["item 7"]][["b", "c", "a"]])
    last = np.asarray(agent.problem.Phi)[-1]
    np.testing.assert_array_equal(last, FRAME.loc["item 7"])


def test_columns_of_truth_values_make_contexts():
    table = pd.DataFrame({"live": [True, False], "tempo": [0.5, 0.1]}, index=["x", "y"])
    agent = Agent(LEARNER, features=Outer(table)([2.0]), oracle=TopK(1), seed=0)
    np.testing.assert_array_equal(np.asarray(agent.problem.Phi), [[2.0, 1.0], [0.0, 0.2]])
    assert agent.items.tolist() == ["x", "y"]
    flags = Outer(table[["live"]])([1.0])
    np.testing.assert_array_equal(np.asarray(flags), [[1.0], [0.0]])


# --- weights and masks ----------------------------------------------------------------------------


def test_a_series_of_weights_is_never_read_by_position():
    """Not even if its index is 0..n-1, as the items themselves may be."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((4, 2))
    by_series, by_list = (
        Agent(LEARNER, features=features, oracle=TopK(4), seed=0) for _ in range(2)
    )
    for _ in range(40):
        items = by_series.choose()
        assert items.tolist() == by_list.choose().tolist()
        worth = pd.Series(rng.standard_normal(4))  # of the items 0, 1, 2, 3
        by_series.observe(items, worth)
        by_list.observe(items, worth.to_numpy()[items])
        np.testing.assert_allclose(by_series.belief.factor, by_list.belief.factor, atol=1e-12)
    with pytest.raises(WeightsError, match="goes by its index"):
        by_series.observe([3, 2], pd.Series([1.0, 0.0]))
    decision = by_series.decide(oracle=TopK(2))
    if set(decision.items) != {0, 1}:
        with pytest.raises(ItemsError, match="was not chosen"):
            by_series.observe(decision, pd.Series([1.0, 0.0]))


def test_masked_entries_are_refused():
    agent = Agent(LEARNER, features=FRAME, oracle=TopK(2), seed=0)
    hidden = np.ma.masked_array([1.0, 99.0], mask=[False, True])
    with pytest.raises(WeightsError, match="entry 1 is masked: fill it or leave it out"):
        agent.observe(NAMES[:2], hidden)
    agent.observe(NAMES[:2], np.ma.masked_array([1.0, 2.0], mask=False))
    masked = np.ma.masked_greater(FRAME.to_numpy(), 1.0)
    with pytest.raises(FeaturesError, match="is masked"):
        agent.choose(features=masked)
    with pytest.raises(FeaturesError, match="is masked"):
        Agent(LEARNER, features=masked, oracle=TopK(2))
    plain = Agent(LEARNER, features=FRAME.to_numpy(), oracle=TopK(2), seed=0)
    with pytest.raises(ItemsError, match="masked"):
        plain.observe(np.ma.masked_array([1, 2], mask=[False, True]), [1.0, 2.0])
    with pytest.raises(ItemsError, match="masked"):
        Agent(LEARNER, features=FRAME, items=np.ma.masked_equal(np.arange(L), 3), oracle=TopK(2))


@pytest.mark.parametrize(
    "only",
    [
        NAMES[3:8],
        np.array(NAMES[3:8]),
        pd.Index(NAMES[3:8]),
        pd.Series(NAMES[3:8]),
        dict.fromkeys(NAMES[3:8]).keys(),
        frozenset(NAMES[3:8]),
        {name: name in NAMES[3:8] for name in NAMES[::-1]},
        pd.Series([name in NAMES[3:8] for name in NAMES[::-1]], index=NAMES[::-1]),
        [name in NAMES[3:8] for name in NAMES],
    ],
    ids=lambda only: type(only).__name__,
)
def test_any_collection_of_ids_is_available(only):
    agent = Agent(LEARNER, features=FRAME, oracle=TopK(2), seed=0)
    assert set(np.concatenate([agent.choose(available=only) for _ in range(50)])) == set(NAMES[3:8])


def test_a_data_frame_of_truth_values_goes_by_its_columns():
    agent = Agent(LEARNER, features=FRAME, oracle=TopK(2), seed=0)
    users = np.stack([FRAME.to_numpy()] * 3)
    only = [NAMES[:4], NAMES[4:7], NAMES[7:20]]
    backwards = NAMES[::-1]
    table = pd.DataFrame([np.isin(backwards, some) for some in only], columns=backwards)
    for chosen, some in zip(agent.choose(features=users, available=table), only, strict=True):
        assert set(chosen) <= set(some)
    with pytest.raises(MaskError, match="no row for item 'item 29'"):
        agent.choose(features=users, available=table.rename(columns={"item 29": "item 30"}))
    with pytest.raises(MaskError, match="a mask of 30 booleans"):
        agent.choose(available=table[:1])  # of one user it would be a mask, and no list of items


def test_a_list_of_polars_frames_goes_by_its_columns():
    agent = Agent(LEARNER, features=FRAME, oracle=TopK(2), seed=0)
    table = pl.from_pandas(FRAME)
    other = table.select(["c", "b", "a"])
    for made in (*agent.decide(features=[other, table]), *agent.decide(features=(other,))):
        np.testing.assert_array_equal(made.features, FRAME.loc[list(made.items)])
    mixed = agent.decide(features=[FRAME.to_numpy().tolist(), other])
    np.testing.assert_array_equal(mixed[1].features, FRAME.loc[list(mixed[1].items)])


UUIDS = [UUID(int=e + 10**30) for e in range(4)]
EDGES = [("a", 1), ("a", 2), ("b", ("x", 7)), ("c", UUIDS[0])]


@pytest.mark.parametrize("ids", [UUIDS, EDGES], ids=["UUIDs", "tuples"])
def test_ids_that_are_uuids_or_tuples(ids, tmp_path):
    agent = Agent(CombTS(), features=np.eye(4), items=ids, oracle=TopK(2), seed=0)
    decision = agent.decide(available=ids[1:])
    again = Decision.from_json(decision.to_json())
    assert again == decision
    assert again.items == decision.items
    agent.observe(again, {decision.items[0]: 1.0})
    agent.observe(agent.choose(), [1.0, 0.0])
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", oracle=TopK(2), seed="saved")
    assert back.items.tolist() == ids
    assert back.choose().tolist() == agent.choose().tolist()
    back.remove_items([ids[0]])
    back.add_items(np.eye(4)[:1], [ids[0]])
    assert back.items.tolist() == [*ids[1:], ids[0]]
    linear = Agent(LEARNER, features=np.eye(4), items=ids, oracle=TopK(2), seed=0)
    found = linear.explain(ids[:1], draws=3)
    assert found.items.tolist() == ids[:1]
    assert str(ids[0]) in str(found)


def test_an_index_of_several_levels_holds_ids():
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    table = pd.DataFrame(np.eye(3), index=index)
    groups = pd.Series(["x", "y", "y"], index=index[::-1])
    agent = Agent(LEARNER, features=table, oracle=Quota(groups, {"x": 1, "y": 1}), seed=0)
    assert agent.items.tolist() == list(index)
    assert all(("b", 1) in agent.choose().tolist() for _ in range(20))


@pytest.mark.parametrize(
    "make",
    [
        lambda hidden: Knapsack(hidden, 3.0),
        lambda hidden: Quota(hidden, {1.0: 1, 2.0: 1}),
        lambda hidden: PartitionMatroid(hidden, {1.0: 1, 2.0: 1}),
        lambda hidden: Budget([1.0, 1.0], 2.0, groups=hidden, maximum=1),
        lambda hidden: Milp(hidden[None], [3.0]),
        lambda hidden: Milp(np.eye(2), hidden),
    ],
    ids=["Knapsack", "Quota", "PartitionMatroid", "Budget", "Milp of A", "Milp of b"],
)
def test_masked_entries_of_constraints_are_refused(make):
    with pytest.raises(ParameterError, match="is masked: fill it or leave it out"):
        make(np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    make(np.ma.masked_array([1.0, 2.0], mask=False))


def test_costs_that_are_texts_are_no_numbers():
    with pytest.raises(ParameterError, match="costs must be numbers, one per item"):
        Knapsack(["1.0", "2,0"], 3.0)
    with pytest.raises(ParameterError, match="costs must be numbers, one per item"):
        Knapsack(["1.0", "2.0"], 3.0)

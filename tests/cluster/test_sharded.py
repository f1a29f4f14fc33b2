import itertools
import os
import signal
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from pieces import insist

from superarm import (
    Agent,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    Feedback,
    Greedy,
    GridPath,
    LaminarMatroid,
    Matroid,
    PartitionMatroid,
    Problem,
    Quota,
    Statistics,
    TopK,
    minimize,
    sharded,
)
from superarm.arrays import Stream
from superarm.cluster import cutting, shards
from superarm.cluster.columns import as_column
from superarm.contexts import Concatenated, Outer
from superarm.decide import decide
from superarm.engine import ray_nodes
from superarm.errors import (
    ClusterError,
    DecisionError,
    FeaturesError,
    FileError,
    InfeasibleError,
    ItemsError,
    MaskError,
    OracleError,
    ParameterError,
    WeightsError,
)
from superarm.files import archive

L = 900
CUTS = (0, 200, 650, L)
ROWS = np.random.default_rng(0).standard_normal((L, 4))
GROUPS = [("a", "b", "c")[e % 3] for e in range(L)]
NESTED = LaminarMatroid(L, sets=[range(L), range(300), range(100, 250)], capacities=[6, 2, 1])
TS = CombLinTS(lam=1.0, sigma=0.5)
MIX = CombMixTS(lam=1.0, sigma=0.5, tau=0.3)
DECISIONS = int(os.environ.get("SUPERARM_DECISIONS", "60"))


def parts(rows=ROWS, cuts=CUTS):
    return [rows[i:j] for i, j in itertools.pairwise(cuts)]


def two_parts():
    return parts(cuts=(0, 400, L))


class OneProcess:
    """The same decisions by the functions of one machine, for which all items are in one array."""

    def __init__(self, learner, oracle, contexts=None, seed=5):
        self.learner = learner
        self.oracle = oracle
        self.contexts = contexts
        self.rng = np.random.default_rng(seed)
        self.belief = None

    def choose(self, x=None):
        self.problem = Problem(ROWS if x is None else self.contexts(ROWS)(x), self.oracle)
        if self.belief is None:
            self.belief = self.learner.model.prior(self.problem)
        (seed,) = self.rng.integers(2**63, size=1).tolist()
        self.A = decide(self.learner, self.belief, self.problem, Stream(seed))
        return self.A

    def observe(self, w):
        feedback = Feedback.of(self.problem, self.A, w)
        self.belief = self.learner.model.learn(self.belief, self.problem, feedback)


def assert_same_decisions(learner, oracle, n, contexts=None, cluster=None, disturb=None):
    """That n decisions and what is learned from them are those of one process."""
    cut = parts() if cluster is None else two_parts()
    one = OneProcess(learner, oracle, contexts)
    rng = np.random.default_rng(2)
    own = 0.3 * rng.standard_normal(L)
    with sharded.Agent(
        learner, features=cut, oracle=oracle, contexts=contexts, seed=5, cluster=cluster
    ) as agent:
        for t in range(n):
            if disturb is not None:
                disturb(agent, t)
            x = None if contexts is None else rng.standard_normal(3)
            chosen = agent.choose(x)
            np.testing.assert_array_equal(chosen.items, one.choose(x))
            theta = np.linspace(-1, 1, chosen.rows.shape[1])
            w = chosen.rows @ theta + own[chosen.items] + 0.5 * rng.standard_normal(len(one.A))
            agent.observe(chosen, w)
            one.observe(w)


@pytest.mark.parametrize(
    "learner",
    [
        TS,
        CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
        MIX,
        CombMixTS(lam=1.0, sigma=0.5, tau=0.3, explore=1.0),
        Greedy(lam=1.0, sigma=0.5),
    ],
)
@pytest.mark.parametrize(
    "oracle",
    [
        TopK(5),
        TopK(3, at_most=True),
        Quota(GROUPS, {"a": 2, "b": 1, "c": 1}),
        Quota(GROUPS, total=4, minimum={"a": 1}, maximum={"b": 1}),
        PartitionMatroid(GROUPS, {"a": 2, "b": 1, "c": 0}),
        NESTED,
    ],
)
def test_decisions_are_those_of_one_process(learner, oracle):
    assert_same_decisions(learner, oracle, DECISIONS)


@pytest.mark.parametrize("contexts", [Outer, Concatenated])
@pytest.mark.parametrize("learner", [TS, CombMixTS(lam=1.0, sigma=0.5, tau=0.3, contexts=True)])
def test_contexts(learner, contexts):
    assert_same_decisions(learner, TopK(4), DECISIONS, contexts)


@pytest.mark.parametrize("contexts", [None, Outer, Concatenated])
@pytest.mark.parametrize(
    "learner",
    [CombLinTS(lam=1.0, link="logit"), CombLinTS(link="logit"), CombMixTS(contexts=True)],
    ids=repr,
)
def test_clicks_and_scales_in_contexts(learner, contexts):
    """Scales start from the features in a context of ones."""
    one = OneProcess(learner, TopK(4), contexts)
    ones = ROWS if contexts is None else contexts(ROWS)(np.ones(3))
    one.belief = learner.model.prior(Problem(ones, TopK(4)))
    rng = np.random.default_rng(2)
    agent = sharded.Agent(learner, features=parts(), oracle=TopK(4), contexts=contexts, seed=5)
    for _ in range(30):
        x = None if contexts is None else rng.standard_normal(3)
        chosen = agent.choose(x)
        np.testing.assert_array_equal(chosen.items, one.choose(x))
        w = rng.integers(0, 2, 4).astype(float)
        agent.observe(chosen, w)
        one.observe(w)


def test_scales_that_are_found_take_the_features_of_a_sample():
    assert_same_decisions(CombLinTS(), TopK(4), 60)  # of 900 items all are in the sample


def one_of_each_hundred(items):
    return len({e // 100 for e in items}) == len(items)


def test_rows_are_looked_at_in_parts(monkeypatch):
    monkeypatch.setattr(shards, "CHUNK_ITEMS", 64)
    assert_same_decisions(MIX, Quota(GROUPS, {"a": 2, "b": 1, "c": 1}), 30)
    assert_same_decisions(TS, NESTED, 30)
    assert_same_decisions(TS, Matroid(L, one_of_each_hundred, bases=False), 10)


@pytest.mark.parametrize("learner", [TS, MIX, CombLinUCB(lam=1.0, sigma=0.5, c=1.0)])
def test_many_at_once_are_as_one_after_the_other(learner):
    together = sharded.Agent(learner, features=parts(), oracle=TopK(5), seed=1)
    alone = sharded.Agent(learner, features=parts(), oracle=TopK(5), seed=1)
    for _ in range(3):
        many = together.choose_many(n=40)
        for chosen in many:
            single = alone.choose()
            np.testing.assert_array_equal(chosen.items, single.items)
            np.testing.assert_array_equal(chosen.rows, single.rows)
        for agent in (together, alone):
            agent.observe(many[0], many[0].rows.sum(1))


def test_large_rows_are_asked_for(monkeypatch):
    monkeypatch.setattr(shards, "MOST_SENT", 0)
    assert_same_decisions(MIX, TopK(5), 20)
    assert_same_decisions(TS, TopK(5, at_most=True), 5)


def test_many_contexts_at_once():
    x = np.random.default_rng(3).standard_normal((30, 3))
    together = sharded.Agent(TS, features=parts(), oracle=TopK(5), contexts=Outer, seed=1)
    alone = sharded.Agent(TS, features=parts(), oracle=TopK(5), contexts=Outer, seed=1)
    exclude = [[i, 899 - i] for i in range(30)]
    for i, chosen in enumerate(together.choose_many(x, exclude=exclude)):
        single = alone.choose(x[i], exclude=exclude[i])
        np.testing.assert_array_equal(chosen.items, single.items)
        np.testing.assert_array_equal(chosen.rows, np.asarray(Outer(ROWS)(x[i]))[chosen.items])


def test_masks_by_column_and_exclusions():
    columns = {"country": parts(np.array(GROUPS)), "stock": parts(np.arange(L) % 2 == 0)}
    agent = sharded.Agent(TS, features=parts(), oracle=TopK(5), columns=columns)
    for _ in range(20):
        items = agent.choose(where={"country": ["a", "c"], "stock": True}).items
        assert all(GROUPS[e] != "b" and e % 2 == 0 for e in items)
        again = agent.choose(where={"country": "b"}, exclude=items).items
        assert all(GROUPS[e] == "b" for e in again)
        assert not set(agent.choose(exclude=again).items) & set(again)
    with pytest.raises(MaskError, match="no column 'color'"):
        agent.choose(where={"color": "red"})
    with pytest.raises(InfeasibleError):
        agent.choose(where={"country": "nowhere"})


def test_items_come_and_go():
    columns = {"country": parts(np.array(GROUPS))}
    agent = sharded.Agent(
        Greedy(lam=1.0, sigma=0.1), features=parts(), oracle=TopK(3), columns=columns
    )
    theta = np.array([1.0, 2.0, 0.0, -1.0])
    for _ in range(30):
        chosen = agent.choose()
        agent.observe(chosen, chosen.rows @ theta)
    best = np.argsort(-ROWS @ theta)
    np.testing.assert_array_equal(agent.choose().items, best[:3])
    agent.remove_items(best[:2])
    np.testing.assert_array_equal(agent.choose().items, best[2:5])
    great = np.array([[9.0, 9.0, 0.0, -9.0], [8.0, 9.0, 0.0, -9.0], [-9.0, 0.0, 0.0, 0.0]])
    numbers = agent.add_items(great, {"country": ["a", "b", "a"]})
    np.testing.assert_array_equal(numbers, [900, 901, 902])
    chosen = agent.choose()
    np.testing.assert_array_equal(chosen.items, [900, 901, best[2]])
    np.testing.assert_array_equal(chosen.rows[:2], great[:2])
    assert agent.choose(where={"country": "b"}).items[0] == 901
    agent.remove_items([900])
    assert agent.choose().items[0] == 901


def test_items_may_come_before_the_first_decision():
    agent = sharded.Agent(Greedy(lam=1.0, sigma=0.1), features=parts(), oracle=TopK(3))
    agent.add_items(np.ones((2, 4)))
    agent.remove_items([900])
    for _ in range(5):
        assert 900 not in agent.choose(exclude=[1]).items


def test_an_oracle_for_all_items_grows_with_them():
    agent = sharded.Agent(MIX, features=parts(), oracle=Quota(GROUPS, {"a": 1, "b": 1, "c": 1}))
    with pytest.raises(OracleError, match="is for 900 items, but there are 901"):
        agent.add_items(np.ones((1, 4)))
    more = [*GROUPS, "d"]
    agent.add_items(np.ones((1, 4)), oracle=Quota(more, {"a": 1, "b": 1, "c": 1, "d": 1}))
    chosen = agent.choose().items
    assert sorted(more[e] for e in chosen) == ["a", "b", "c", "d"]


# --- files ----------------------------------------------------------------------------------------


def saved(folder, arrays, name="items"):
    paths = [folder / f"{name}-{i}.npy" for i in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths


def test_files_are_as_arrays(tmp_path):
    small = ROWS.astype(np.float32)
    files = saved(tmp_path, parts(small))
    whole = saved(tmp_path, [small], "whole")
    agents = [
        sharded.Agent(MIX, features=parts(small), oracle=TopK(5), seed=0),
        sharded.Agent(MIX, features=files, oracle=TopK(5), seed=0),
        sharded.Agent(MIX, features=str(whole[0]), oracle=TopK(5), seed=0, shards=3),
        sharded.Agent(MIX, features=whole[0], oracle=TopK(5), seed=0),
    ]
    for _ in range(5):
        chosen = [agent.choose() for agent in agents]
        for agent, one in zip(agents, chosen, strict=True):
            np.testing.assert_array_equal(one.items, chosen[0].items)
            agent.observe(one, one.rows.sum(1))


def test_relative_paths_are_of_the_folder_where_they_were_given(tmp_path, monkeypatch):
    """A shard may open its files in another, as those on the nodes of a cluster do."""
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, [ROWS])
    saved(tmp_path, [np.arange(L)], "number")
    (source,) = cutting.cut("items-0.npy")
    (columns,) = cutting.cut_columns({"number": "number-0.npy"}, [source], listed=False)
    (tmp_path / "another").mkdir()
    monkeypatch.chdir(tmp_path / "another")
    saved(tmp_path / "another", [-ROWS])
    np.testing.assert_array_equal(source.rows(), ROWS)
    np.testing.assert_array_equal(columns["number"].rows(), np.arange(L))


@pytest.mark.parametrize("name", ["items", "number"])
@pytest.mark.parametrize("other", [lambda x: x[:-1], lambda x: x.astype(np.float16)])
def test_a_stale_copy_of_a_file_is_refused(tmp_path, monkeypatch, name, other):
    """A node may have another file under the path than the one that was looked at where the agent
    was made."""
    tables = {"items": ROWS, "number": np.arange(L)}
    paths = {each: saved(tmp_path, [table], each)[0] for each, table in tables.items()}

    def cut_before_it_changes(*given):
        found = cutting.cut_columns(*given)
        np.save(paths[name], other(tables[name]))
        return found

    monkeypatch.setattr(sharded, "cut_columns", cut_before_it_changes)
    columns = {"number": paths["number"]}
    with pytest.raises(FileError, match=rf"{name}-0\.npy has shape .* here, and \(900,.* of "):
        sharded.Agent(TS, features=paths["items"], oracle=TopK(3), shards=2, columns=columns)


def test_a_shard_is_sent_no_rows_of_others():
    sources = cutting.cut(ROWS, 3)
    columns = cutting.cut_columns({"number": np.arange(L)}, sources, listed=False)
    for i, (source, own) in enumerate(zip(sources, columns, strict=True)):
        mine = slice(300 * i, 300 * (i + 1))
        assert len(source.table) == len(own["number"].table) == 300
        np.testing.assert_array_equal(source.rows(), ROWS[mine])
        np.testing.assert_array_equal(own["number"].rows(), np.arange(L)[mine])


CLICKS = CombLinTS(link="logit")
AUTO_MIX = CombMixTS(contexts=True)


@pytest.mark.parametrize(
    ("learner", "contexts"), [(MIX, None), (AUTO_MIX, Outer), (CLICKS, Concatenated), (TS, None)]
)
def test_loaded_is_as_never_stopped(tmp_path, learner, contexts):
    """In other shards, with items that came and went, to the last bit."""
    columns = {"country": np.array(GROUPS), "stock": np.arange(L) % 2 == 0}
    counts = {"a": 1, "b": 1, "c": 1}
    quota = Quota([*GROUPS, "a", "b"], counts)
    rng = np.random.default_rng(0)
    few = {"shards": 3, "columns": columns, "seed": 4}
    agent = sharded.Agent(
        learner, features=ROWS, oracle=Quota(GROUPS, counts), contexts=contexts, **few
    )
    new = {"country": ["a", "b"], "stock": [True, False]}
    agent.add_items(9 * np.ones((2, 4)), new, oracle=quota)
    agents = [agent]
    for t in range(30):
        if t == 15:
            agent.remove_items([3, 4])
            agent.save(tmp_path / "agent")
            for shards in (1, 5):
                options = {"shards": shards, "columns": columns, "oracle": quota, "seed": "saved"}
                agents.append(sharded.Agent.load(tmp_path / "agent", features=ROWS, **options))
        x = None if contexts is None else rng.standard_normal(3)
        where = {"stock": True} if t % 2 else {"country": ["a", "b", "c"]}
        chosen = [one.choose(x, where=where) for one in agents]
        w = rng.integers(0, 2, len(chosen[0].items)).astype(float)
        for one, found in zip(agents, chosen, strict=True):
            np.testing.assert_array_equal(found.items, chosen[0].items)
            one.observe(found, w)
    for one in agents[1:]:
        np.testing.assert_array_equal(one.belief.factor, agent.belief.factor)


def test_a_file_that_would_not_load_takes_no_place(tmp_path):
    agent, _ = two_agents()
    agent.observe(agent.choose(), np.ones(3))
    agent.save(tmp_path / "agent")
    before = (tmp_path / "agent").read_bytes()
    agent.belief = agent.belief._replace(factor=np.nan * agent.belief.factor)
    with pytest.raises(FileError, match="stays as it was"):
        agent.save(tmp_path / "agent")
    assert (tmp_path / "agent").read_bytes() == before


def test_saved_before_the_first_decision(tmp_path):
    sharded.Agent(TS, features=parts(), oracle=TopK(3), seed=1).save(tmp_path / "agent")
    loaded = sharded.Agent.load(tmp_path / "agent", features=parts(), oracle=TopK(3), seed="saved")
    agent = sharded.Agent(TS, features=parts(), oracle=TopK(3), seed=1)
    np.testing.assert_array_equal(loaded.choose().items, agent.choose().items)
    other = sharded.Agent.load(tmp_path / "agent", features=parts(), oracle=TopK(3), seed=2)
    again = sharded.Agent(TS, features=parts(), oracle=TopK(3), seed=2)
    np.testing.assert_array_equal(other.choose().items, again.choose().items)


def test_files_of_agents_that_do_not_fit(tmp_path):
    agent = sharded.Agent(MIX, features=parts(), oracle=TopK(3))
    agent.observe(agent.choose(), np.ones(3))
    path = tmp_path / "agent"
    agent.save(path)
    for features, says in (
        (parts(ROWS[:, :3]), "900 items of 4 features, not with 900 of 3"),
        (parts(ROWS[:800], cuts=(0, 800)), "not with 800 of 4"),
        (parts(ROWS[::-1].copy()), "or in another order"),
    ):
        with pytest.raises(FeaturesError, match=says):
            sharded.Agent.load(path, features=features, oracle=TopK(3))
    with pytest.raises(OracleError, match="is for 5 items"):
        sharded.Agent.load(path, features=parts(), oracle=Quota(["a"] * 5, {"a": 1}))
    with pytest.raises(FileError, match="was saved with the learner CombMixTS"):
        sharded.Agent.load(path, features=parts(), oracle=TopK(3), learner=TS)
    with pytest.raises(FileError, match="holds a superarm sharded agent, an agent is needed"):
        Agent.load(path, oracle=TopK(3))
    meta, arrays = archive.read_archive(path, "sharded agent")
    for name, value in (
        ("known", np.array([0, 900])),
        ("removed", np.array([-1])),
        ("belief.factor", np.full((5, 5), np.nan)),
        ("added", np.ones((1, 3))),
        ("held", arrays["held"][:5]),
    ):
        archive.write_archive(path, "sharded agent", meta, {**arrays, name: value})
        with pytest.raises(FileError, match="damaged or does not fit"):
            sharded.Agent.load(path, features=parts(), oracle=TopK(3))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileError, match="truncated"):
        sharded.Agent.load(path, features=parts(), oracle=TopK(3))


def damaged(kind, path):
    rows = ROWS[:100].copy()
    if kind == "missing":
        path.unlink()
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-8])
    elif kind == "foreign":
        path.write_bytes(b"a,b\n1,2\n")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "wide":
        np.save(path, np.ones((100, 5)))
    elif kind == "float32":
        np.save(path, rows.astype(np.float32))
    elif kind == "text":
        np.save(path, np.array([["a"]]))
    elif kind == "flat":
        np.save(path, rows[0])
    else:
        rows[7, 2] = np.nan
        np.save(path, rows)


@pytest.mark.parametrize(
    "kind",
    ["missing", "truncated", "foreign", "empty", "wide", "float32", "text", "flat", "nan"],
)
def test_a_bad_file_is_named(tmp_path, kind):
    files = saved(tmp_path, parts())
    damaged(kind, files[1])
    with pytest.raises(FileError, match=r"items-1\.npy"):
        sharded.Agent(TS, features=files, oracle=TopK(5))


def test_bad_columns(tmp_path):
    short = saved(tmp_path, [np.zeros(200), np.zeros(3), np.zeros(250)], "stock")
    with pytest.raises(FileError, match=r"stock-1\.npy has shape \(3,\)"):
        sharded.Agent(TS, features=parts(), oracle=TopK(5), columns={"stock": short})
    with pytest.raises(FeaturesError, match="one file or array per shard, 3, got 2"):
        sharded.Agent(TS, features=parts(), oracle=TopK(5), columns={"stock": short[:2]})


@pytest.mark.parametrize(
    ("learner", "oracle", "options", "error", "message"),
    [
        (CombTS(), TopK(5), {}, ParameterError, "without features"),
        (TS, GridPath(3), {}, OracleError, "cannot be solved by parts"),
        (TS, minimize(TopK(3)), {}, OracleError, "cannot be solved by parts"),
        (TS, Quota(["a"] * 5, {"a": 1}), {}, OracleError, "is for 5 items, but there are 900"),
        (TS, TopK(5), {"shards": 2}, ParameterError, "a single file or array"),
    ],
)
def test_bad_agents(learner, oracle, options, error, message):
    with pytest.raises(error, match=message):
        sharded.Agent(learner, features=parts(), oracle=oracle, **options)


def test_bad_calls_change_nothing():
    agent = sharded.Agent(TS, features=parts(), oracle=TopK(5), seed=3)
    twin = sharded.Agent(TS, features=parts(), oracle=TopK(5), seed=3)
    with pytest.raises(DecisionError, match="no decision yet"):
        agent.observe(sharded.Choice(np.array([1]), ROWS[1:2]), [1.0])
    with pytest.raises(ItemsError, match="item 900 is not one of the items"):
        agent.choose(exclude=[900])
    with pytest.raises(ItemsError, match="integers"):
        agent.remove_items(["a"])
    with pytest.raises(ItemsError, match="flat list"):
        agent.remove_items([[1]])
    with pytest.raises(FeaturesError, match="only if"):
        agent.choose([1.0])
    with pytest.raises(ParameterError, match="as many calls"):
        agent.choose_many(exclude=[[1]], n=2)
    with pytest.raises(ParameterError, match="n must be"):
        agent.choose_many(n=-1)
    with pytest.raises(MaskError, match="no column"):
        agent.choose(where={"x": 1})
    with pytest.raises(FeaturesError, match=r"shape \(n, 4\)"):
        agent.add_items(np.ones((2, 3)))
    with pytest.raises(MaskError, match="columns"):
        agent.add_items(np.ones((2, 4)), {"x": [1, 2]})
    chosen = agent.choose()
    np.testing.assert_array_equal(chosen.items, twin.choose().items)
    for weights in ([1.0], [np.nan] * 5, ["a"] * 5):
        with pytest.raises(WeightsError):
            agent.observe(chosen, weights)
    np.testing.assert_array_equal(agent.choose().items, twin.choose().items)
    contextual = sharded.Agent(TS, features=parts(), oracle=TopK(5), contexts=Outer)
    with pytest.raises(FeaturesError, match="only if"):
        contextual.choose()
    contextual.choose([1.0, 2.0])
    with pytest.raises(FeaturesError, match="a context has 2 features, got 3"):
        contextual.choose([1.0, 2.0, 3.0])
    fixed = sharded.Agent(MIX, features=parts(), oracle=TopK(5), contexts=Outer)
    with pytest.raises(FeaturesError, match="needs contexts=True"):
        fixed.choose([1.0])


# --- what callers give ----------------------------------------------------------------------------


def assert_same_from_now_on(agent, twin, *context):
    """That two agents choose the same items, and learn the same from them."""
    for _ in range(2):
        chosen = agent.choose(*context)
        np.testing.assert_array_equal(chosen.items, twin.choose(*context).items)
        for one in (agent, twin):
            one.observe(chosen, np.ones(len(chosen.items)))
    np.testing.assert_array_equal(agent.belief.factor, twin.belief.factor)


def two_agents(learner=TS, **options):
    given = {"features": parts(), "oracle": TopK(3), "seed": 1, **options}
    return [sharded.Agent(learner, **given) for _ in range(2)]


@pytest.mark.parametrize("learner", [TS, MIX, CLICKS], ids=repr)
@pytest.mark.parametrize(
    ("chosen", "weights", "error", "message"),
    [
        (sharded.Choice(np.array([1]), np.ones((1, 5))), [1], FeaturesError, "rows of 4 features"),
        (sharded.Choice(np.array([1]), np.ones((2, 4))), [1], FeaturesError, "rows of 4 features"),
        (sharded.Choice(np.array([1]), np.ones(4)), [1], FeaturesError, "rows of 4 features"),
        (sharded.Choice(np.array([1]), np.full((1, 4), np.nan)), [1], FeaturesError, "finite"),
        (sharded.Choice(np.array([1]), [["a"] * 4]), [1], FeaturesError, "a row of numbers"),
        (sharded.Choice(np.array([977]), ROWS[:1]), [1], ItemsError, "item 977 is not one"),
        (sharded.Choice(np.array([-2]), ROWS[:1]), [1], ItemsError, "item -2 is not one"),
        (sharded.Choice(np.array([3, 3]), ROWS[:2]), [1, 1], ItemsError, "item 3 is repeated"),
        (sharded.Choice(np.array([3.0]), ROWS[:1]), [1], ItemsError, "must be integers"),
        (sharded.Choice(np.array(["a"]), ROWS[:1]), [1], ItemsError, "must be integers"),
        (sharded.Choice(np.array([[3]]), ROWS[None, :1]), [1], ItemsError, "flat list"),
        ([1, 2, 3], [1, 1, 1], ItemsError, "the Choice that choose returned"),
        (sharded.Choice(np.arange(3), ROWS[:3]), Statistics(5, 2.0, 1.5), WeightsError, "3 num"),
    ],
)
def test_feedback_that_does_not_fit(learner, chosen, weights, error, message):
    agent, twin = two_agents(learner)
    for one in (agent, twin):
        one.choose()
    with pytest.raises(error, match=message):
        agent.observe(chosen, weights)
    assert_same_from_now_on(agent, twin)


def test_rows_in_context_are_as_wide_as_what_is_learned():
    agent = sharded.Agent(TS, features=parts(), oracle=TopK(3), contexts=Outer)
    chosen = agent.choose([1.0, 2.0])
    with pytest.raises(FeaturesError, match=r"rows of 8 features.*\(3, 4\)"):
        agent.observe(sharded.Choice(chosen.items, ROWS[chosen.items]), np.ones(3))
    agent.observe(chosen, np.ones(3))


def test_padding_is_not_learned_from():
    agent, twin = two_agents(MIX, oracle=TopK(L, at_most=True))
    chosen, same = (one.choose(exclude=range(100, L)) for one in (agent, twin))
    there = chosen.items >= 0
    n = there.sum()
    assert 0 < n <= 100
    assert not chosen.rows[~there].any()
    agent.observe(chosen, np.ones(n))
    twin.observe(sharded.Choice(same.items[:n], same.rows[:n]), np.ones(n))
    np.testing.assert_array_equal(agent.belief.factor, twin.belief.factor)


@pytest.mark.parametrize("learner", [TS, MIX])
def test_statistics_and_weights_by_item(learner):
    """Statistics of one observation are that observation."""
    agent, twin = two_agents(learner)
    chosen, _ = (one.choose() for one in (agent, twin))
    w = np.array([1.0, 0.0, 2.0])
    agent.observe(chosen, Statistics(np.ones(3), w, w**2))
    twin.observe(chosen, dict(zip(chosen.items.tolist(), w, strict=True)))
    np.testing.assert_allclose(agent.belief.factor, twin.belief.factor, atol=1e-12)


@pytest.mark.parametrize("learner", [TS, MIX])
def test_weights_too_large_for_the_features(learner):
    small = ROWS.astype(np.float32)
    agent, twin = two_agents(learner, features=small)
    chosen, _ = (one.choose() for one in (agent, twin))
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        agent.observe(chosen, [1e40, 0, 0])
    assert_same_from_now_on(agent, twin)


@pytest.mark.parametrize("learner", [TS, MIX])
def test_weights_too_large_for_the_size_of_the_features(learner):
    """The coefficients, of up to 1e30, would fit into float32; scores would not."""
    large = (1e10 * ROWS).astype(np.float32)
    agent, twin = two_agents(learner, features=large)
    chosen, _ = (one.choose() for one in (agent, twin))
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        agent.observe(chosen, [1e40, 0, 0])
    assert_same_from_now_on(agent, twin)


def test_a_first_call_that_fails_leaves_the_width_of_contexts_open():
    agent, twin = two_agents(contexts=Outer)
    with pytest.raises(InfeasibleError):
        agent.choose(np.ones(7), exclude=range(L))
    with pytest.raises(MaskError):
        agent.choose(np.ones(7), where={"x": 1})
    with pytest.raises(DecisionError, match="no decision yet"):
        agent.observe(sharded.Choice(np.array([1]), np.ones((1, 28))), [1.0])
    assert_same_from_now_on(agent, twin, np.ones(2))


@pytest.mark.parametrize("learner", [TS, MIX])
def test_a_closed_agent(learner, tmp_path):
    agent = sharded.Agent(learner, features=parts(), oracle=TopK(3), seed=1)
    chosen = agent.choose()
    agent.observe(chosen, np.ones(3))
    agent.close()
    agent.close()
    for call in (
        agent.choose,
        agent.choose_many,
        lambda: agent.observe(chosen, np.ones(3)),
        lambda: agent.add_items(np.ones((1, 4))),
        lambda: agent.remove_items([1]),
    ):
        with pytest.raises(ClusterError, match="was closed"):
            call()
    agent.save(tmp_path / "agent")
    loaded = sharded.Agent.load(tmp_path / "agent", features=parts(), oracle=TopK(3))
    np.testing.assert_array_equal(loaded.belief.factor, agent.belief.factor)


@pytest.mark.parametrize(
    ("exclude", "error", "message"),
    [
        ([], ParameterError, "there must be one call"),
        (5, ItemsError, "a list with a list of items for each call"),
        ("ab", ItemsError, "a list with a list of items for each call"),
        (np.array(5), ItemsError, "a list with a list of items for each call"),
        ([5], ItemsError, "flat list"),
        ([[[1], [2, 3]]], ItemsError, "flat list"),
        ([[1, None]], ItemsError, "must be integers"),
    ],
)
def test_bad_exclusions(exclude, error, message):
    agent = sharded.Agent(TS, features=parts(), oracle=TopK(3))
    with pytest.raises(error, match=message):
        agent.choose_many(exclude=exclude)


def test_exclusions_in_an_array():
    listed, array = two_agents()
    exclude = [[1, 2], [3, 4]]
    for one, same in zip(
        listed.choose_many(exclude=exclude),
        array.choose_many(exclude=np.array(exclude)),
        strict=True,
    ):
        np.testing.assert_array_equal(one.items, same.items)
    best = [chosen.items for chosen in listed.choose_many(n=2)]
    for before, after in zip(best, array.choose_many(exclude=np.array(best)), strict=True):
        assert not set(before) & set(after.items)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": "x"}, "seed must be"),
        ({"seed": -1}, "seed must be"),
        ({"shards": 2.5}, "shards must be"),
        ({"shards": "2"}, "shards must be"),
        ({"shards": 0}, "shards must be"),
        ({"shards": True}, "shards must be"),
        ({"contexts": "Outer"}, "contexts must be the class"),
        ({"contexts": True}, "contexts must be the class"),
        ({"contexts": Outer(ROWS)}, "contexts must be the class"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ParameterError, match=message):
        sharded.Agent(TS, features=ROWS, oracle=TopK(3), **options)


HIDDEN = np.ma.array([1, 2], mask=[False, True])
HIDDEN_ROW = np.ma.array([1.0, 1e6, 1.0, 1.0], mask=[False, True, False, False])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda agent: agent.remove_items(HIDDEN), ItemsError),
        (lambda agent: agent.choose(exclude=HIDDEN), ItemsError),
        (lambda agent: agent.choose_many(exclude=[[3], HIDDEN]), ItemsError),
        (lambda agent: agent.choose_many(exclude=np.ma.stack([HIDDEN, HIDDEN])), ItemsError),
        (lambda agent: agent.choose(where={"whole": HIDDEN}), ParameterError),
        (lambda agent: agent.choose(where={"whole": HIDDEN[1]}), ParameterError),
        (lambda agent: agent.choose(where={"whole": [1, HIDDEN[1]]}), ParameterError),
        (lambda agent: agent.add_items([HIDDEN_ROW], {"whole": [1]}), FeaturesError),
        (lambda agent: agent.add_items(HIDDEN_ROW[None], {"whole": [1]}), FeaturesError),
        (lambda agent: agent.add_items(np.ones((2, 4)), {"whole": HIDDEN}), MaskError),
        (
            lambda agent: agent.observe(sharded.Choice(HIDDEN, ROWS[1:3]), [1.0, 1.0]),
            FeaturesError,
        ),
    ],
)
def test_what_is_masked_is_refused(call, error):
    agent, twin = (with_columns(["whole"]) for _ in range(2))
    assert_same_from_now_on(agent, twin)
    with pytest.raises(error, match="masked"):
        call(agent)
    assert_same_from_now_on(agent, twin)
    np.testing.assert_array_equal(agent.add_items(np.ones((1, 4)), {"whole": [1]}), [L])


def test_what_is_masked_in_a_context_is_refused():
    agent, twin = (
        sharded.Agent(TS, features=ROWS, oracle=TopK(3), contexts=Outer, seed=0) for _ in range(2)
    )
    for one in (agent, twin):
        one.choose(HIDDEN_ROW.filled(1.0))
    for contexts in ([HIDDEN_ROW], [np.ones(4), HIDDEN_ROW], np.ma.stack([HIDDEN_ROW])):
        with pytest.raises(FeaturesError, match="masked"):
            agent.choose_many(contexts)
    assert_same_from_now_on(agent, twin, np.ones(4))


def test_masks_that_hide_nothing_are_no_matter():
    agent, twin = (with_columns(["whole"]) for _ in range(2))
    agent.remove_items(np.ma.array([1, 2]))
    twin.remove_items([1, 2])
    chosen = agent.choose(where={"whole": np.ma.array([1, 2])}, exclude=np.ma.array([3]))
    same = twin.choose(where={"whole": [1, 2]}, exclude=[3])
    np.testing.assert_array_equal(chosen.items, same.items)


# --- columns --------------------------------------------------------------------------------------


def in_files(folder, kind):
    """Something that is no column, in a file of its own."""
    if kind == "npz":
        np.savez(folder / "column.npz", np.zeros(L))
        return folder / "column.npz"
    np.save(folder / "column.npy", np.zeros(L + 1))
    return folder / "column.npy"


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        (np.zeros(999), FeaturesError, r"\(999,\) where column 'c' needs .* each of 900 items"),
        (np.zeros(99), FeaturesError, r"\(99,\) where column 'c' needs .* each of 900 items"),
        ([0] * 901, FeaturesError, r"\(901,\) where column 'c'"),
        (np.zeros((L, 1)), FeaturesError, r"\(900, 1\) where column 'c'"),
        (np.zeros(()), FeaturesError, r"\(\) where column 'c'"),
        (5, FeaturesError, r"\(\) where column 'c'"),
        ([[1], [2, 3]], FeaturesError, "column 'c' needs a flat list"),
        ("npz", FileError, r"column\.npz is an archive"),
        ("long", FileError, r"column\.npy has shape \(901,\) where column 'c'"),
    ],
)
def test_columns_that_do_not_fit(tmp_path, shards, column, error, message):
    given = in_files(tmp_path, column) if isinstance(column, str) else column
    with pytest.raises(error, match=message):
        sharded.Agent(TS, features=ROWS, oracle=TopK(3), shards=shards, columns={"c": given})


def test_columns_of_shards_that_do_not_fit(tmp_path):
    options = {"features": parts(), "oracle": TopK(3)}
    long = [np.zeros(200), np.zeros(451), np.zeros(250)]
    with pytest.raises(FeaturesError, match=r"\(451,\) where column 'c' needs .* each of 450"):
        sharded.Agent(TS, columns={"c": long}, **options)
    files = saved(tmp_path, long, "column")
    with pytest.raises(FileError, match=r"column-1\.npy has shape \(451,\)"):
        sharded.Agent(TS, columns={"c": files}, **options)
    mixed = [np.zeros(200), np.array(["a"] * 450), np.zeros(250)]
    with pytest.raises(FeaturesError, match="numbers in shard 0, and text in shard 1"):
        sharded.Agent(TS, columns={"c": mixed}, **options)
    with pytest.raises(ParameterError, match="columns must be a mapping"):
        sharded.Agent(TS, columns=[np.zeros(L)], **options)
    np.savez(tmp_path / "items.npz", ROWS)
    with pytest.raises(FileError, match=r"items\.npz is an archive"):
        sharded.Agent(TS, features=tmp_path / "items.npz", oracle=TopK(3))
    with pytest.raises(FeaturesError, match="one row per item"):
        sharded.Agent(TS, features=[[[1.0], [2.0, 3.0]]], oracle=TopK(3))


@pytest.mark.parametrize("shards", [None, 1, 3])
@pytest.mark.parametrize("column", [GROUPS, np.array(GROUPS), np.array(GROUPS, dtype=object)])
def test_plain_lists_are_columns(shards, column):
    options = {"features": ROWS, "oracle": TopK(3), "shards": shards}
    agent = sharded.Agent(TS, columns={"c": column}, **options)
    assert all(GROUPS[e] == "b" for e in agent.choose(where={"c": "b"}).items)
    with pytest.raises(ParameterError, match="column 'c' holds text"):
        agent.choose(where={"c": 1})


DAYS = np.datetime64("2026-01-01") + np.arange(L) % 5
COLUMNS = {
    "text": np.array(GROUPS),
    "whole": np.arange(L) % 5,
    "small": (np.arange(L) % 5).astype(np.uint8),
    "number": np.arange(L) % 5 / 2,
    "truth": np.arange(L) % 5 == 1,
    "day": DAYS,
    "span": DAYS - DAYS[0],
}


def with_columns(names=tuple(COLUMNS), **options):
    columns = {name: COLUMNS[name] for name in names}
    given = {"features": ROWS.astype(np.float32), "oracle": TopK(3), "shards": 3, "seed": 1}
    return sharded.Agent(TS, columns=columns, **{**given, **options})


@pytest.mark.parametrize(
    ("name", "wanted", "same"),
    [
        ("text", frozenset(["a", "b"]), ["a", "b"]),
        ("text", {"a": 1, "b": 2}.keys(), ["a", "b"]),
        ("text", iter(["a", "b"]), ["a", "b"]),
        ("text", np.array("longer"), ["longer"]),
        ("whole", range(1, 3), [1, 2]),
        ("whole", np.array([1, 2]), [1, 2]),
        ("whole", (1.0, 2.0), [1, 2]),
        ("small", [1, 300], [1]),
        ("number", {1, 0.5}, [1.0, 0.5]),
        ("truth", True, [True]),
        ("truth", np.bool_(True), [True]),
        ("day", date(2026, 1, 2), [np.datetime64("2026-01-02")]),
        ("day", [datetime(2026, 1, 2), np.datetime64("2026-01-03")], DAYS[1:3]),
        ("span", timedelta(days=1), [np.timedelta64(1, "D")]),
        ("text", [], []),
        ("day", [], []),
    ],
)
def test_values_of_any_collection(name, wanted, same):
    expected = np.isin(
        COLUMNS[name], np.array(same, dtype=None if len(same) else COLUMNS[name].dtype)
    )
    agent = with_columns(oracle=TopK(L, at_most=True))
    agent.choose()
    items = agent.choose(where={name: wanted}).items
    free = with_columns(oracle=TopK(L, at_most=True))
    free.choose()
    every = free.choose().items
    np.testing.assert_array_equal(items[items >= 0], [e for e in every if e >= 0 and expected[e]])


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ({"whole": "1"}, ParameterError, "'whole' holds whole numbers.* got '1' of type str"),
        ({"whole": [1, "x"]}, ParameterError, "'whole' holds whole numbers.* of type str"),
        ({"text": [1, "x"]}, ParameterError, "'text' holds text.* got 1 of type int"),
        ({"text": None}, ParameterError, "'text' holds text.* of type NoneType"),
        ({"text": b"a"}, ParameterError, "'text' holds text.* of type bytes"),
        ({"text": [["a"]]}, ParameterError, "flat collection.* of type list"),
        ({"text": np.array([["a"]])}, ParameterError, "flat collection"),
        ({"text": {"a": 1}}, ParameterError, "flat collection.* of type dict"),
        ({"day": "2026-01-01"}, ParameterError, "'day' holds dates.* of type str"),
        ({"day": timedelta(days=1)}, ParameterError, "'day' holds dates.* of type timedelta"),
        ({"truth": "yes"}, ParameterError, "'truth' holds truth values"),
        ("text", ParameterError, "where must be a mapping"),
        ([("text", "a")], ParameterError, "where must be a mapping"),
        ({"color": "red"}, MaskError, "no column 'color'"),
    ],
)
def test_values_of_another_kind(where, error, message):
    with pytest.raises(error, match=message):
        with_columns().choose(where=where)


def test_what_leaves_nothing_is_named():
    agent = with_columns()
    with pytest.raises(InfeasibleError, match=r"too few are left by where$"):
        agent.choose(where={"text": "z"})
    with pytest.raises(InfeasibleError, match="too few are left by where and exclude"):
        agent.choose(where={"text": "z"}, exclude=[1])
    agent.remove_items(range(L))
    with pytest.raises(InfeasibleError) as caught:
        agent.choose()
    assert "left by" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("whole", ["a", "b"]),
        ("whole", [1, "b"]),
        ("whole", [1.5, 2.0]),
        ("truth", ["a", "b"]),
        ("truth", [1, 0]),
        ("text", ["a", None]),
        ("text", ["a", 1]),
        ("text", [["a"], ["b"]]),
        ("text", [["a"], ["b", "c"]]),
        ("text", "a"),
        ("text", ["a"]),
        ("text", ["a", "b", "c"]),
        ("day", ["2026-01-01", "2026-01-02"]),
    ],
)
def test_entries_of_another_kind_are_not_added(name, values):
    agent, twin = (with_columns([name]) for _ in range(2))
    with pytest.raises(MaskError, match=f"column '{name}'"):
        agent.add_items(np.ones((2, 4)), {name: values})
    same = COLUMNS[name][:2]
    for one in (agent, twin):
        np.testing.assert_array_equal(one.add_items(np.ones((2, 4)), {name: same}), [L, L + 1])
    np.testing.assert_array_equal(
        agent.choose(where={name: same}).items, twin.choose(where={name: same}).items
    )


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [("text", ["longer"], "longer"), ("small", [300], 300), ("number", [7], 7.0)],
)
def test_entries_of_the_kind_are_added(name, values, wanted):
    agent = with_columns([name], oracle=TopK(1))
    agent.add_items(np.ones((1, 4)), {name: values})
    np.testing.assert_array_equal(agent.choose(where={name: wanted}).items, [L])


LARGE = 2**60 + np.arange(6)


def numbered(column, **options):
    """A catalogue of one item per entry."""
    given = {"features": np.eye(len(column)), "oracle": TopK(1), "seed": 0, **options}
    return sharded.Agent(TS, columns={"c": column}, **given)


def found(agent, wanted):
    """All items that may be chosen with these entries."""
    items = []
    with suppress(InfeasibleError):
        while True:
            items += agent.choose(where={"c": wanted}, exclude=items).items.tolist()
    return sorted(items)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize(
    "wanted",
    [
        2**60 + 3,
        np.int64(2**60 + 3),
        np.uint64(2**60 + 3),
        [2**60 + 3, 2**63],
        [2**60 + 3, -1],
        [2**60 + 3, 0.5, np.inf, 2.0**64],
        LARGE[3:4].astype(np.int64),
        LARGE[3:4].astype(np.uint64),
    ],
)
def test_large_whole_numbers_are_told_apart(tmp_path, dtype, shards, wanted):
    column = LARGE.astype(dtype)
    agent = numbered(column, shards=shards)
    assert found(agent, wanted) == [3]
    for entries in ([5], np.array([5], np.uint64), np.array([2**60 + 3])):
        agent.add_items(np.ones((1, 6)), {"c": entries})
    assert found(agent, wanted) == [3, 8]
    agent.save(tmp_path / "agent")
    given = {"features": np.eye(6), "columns": {"c": column}, "oracle": TopK(1)}
    assert found(sharded.Agent.load(tmp_path / "agent", **given), wanted) == [3, 8]


def test_whole_numbers_of_a_list_are_not_rounded():
    column = [2**63 + 1, 5, 2**63 + 2]
    agent = numbered(column)
    assert found(agent, 2**63 + 1) == [0]
    agent.add_items(np.eye(3), {"c": column})
    assert found(agent, 2**63 + 1) == [0, 3]
    with pytest.raises(FeaturesError, match="int64 cannot hold all of the whole numbers"):
        numbered([-1, 2**63 + 1])


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.int64, [2**63]),
        (np.int8, [2**63]),
        (np.uint64, [-1]),
        (np.uint8, np.array([-1])),
        (np.int64, [-1, 2**63]),
        (np.int64, [2**64]),
    ],
)
def test_whole_numbers_that_do_not_fit_are_not_added(dtype, values):
    agent = numbered(np.arange(6, dtype=dtype))
    with pytest.raises(MaskError, match="column 'c'"):
        agent.add_items(np.ones((len(values), 6)), {"c": values})
    np.testing.assert_array_equal(agent.add_items(np.ones((1, 6)), {"c": [3]}), [6])
    assert found(agent, 3) == [3, 6]


def test_whole_numbers_of_shards_that_no_type_holds():
    columns = [LARGE[:3], LARGE[3:].astype(np.uint64)]
    with pytest.raises(FeaturesError, match="whole numbers of int64 and uint64, which no type"):
        sharded.Agent(TS, features=[np.eye(3), np.eye(3)], oracle=TopK(1), columns={"c": columns})


TENTHS = np.arange(6) / 10


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("wanted", [0.1, [0.1, 0.55], np.array([0.1, 0.55]), [0.1, 1e300]])
def test_numbers_are_asked_for_as_they_are_held(tmp_path, dtype, wanted):
    column = TENTHS.astype(dtype)
    column[0] = np.inf
    agent = numbered(column)
    assert found(agent, wanted) == [1]
    assert found(agent, column[1]) == [1]
    for entries in ([0.1], [7], np.array([0.1])):
        agent.add_items(np.ones((1, 6)), {"c": entries})
    assert found(agent, wanted) == [1, 6, 8]
    assert found(agent, 7) == [7]
    agent.save(tmp_path / "agent")
    given = {"features": np.eye(6), "columns": {"c": column}, "oracle": TopK(1)}
    loaded = sharded.Agent.load(tmp_path / "agent", **given)
    assert found(loaded, column[1]) == [1, 6, 8]


def test_numbers_of_shards_in_two_types():
    columns = [TENTHS.astype(np.float32), TENTHS]
    options = {"features": [np.eye(6), np.eye(6)], "oracle": TopK(1)}
    agent = sharded.Agent(TS, columns={"c": columns}, **options)
    assert found(agent, 0.1) == [1, 7]


def test_numbers_beyond_their_type_are_not_added():
    agent = numbered(TENTHS.astype(np.float32))
    with pytest.raises(MaskError, match=r"is of float32, which cannot hold entry 1, 1e\+300"):
        agent.add_items(np.ones((2, 6)), {"c": [0.1, 1e300]})
    agent.add_items(np.ones((1, 6)), {"c": [np.inf]})
    assert found(agent, np.inf) == [6]
    assert found(agent, 0.1) == [1]


TIMES = np.datetime64("2024-01-01", "ns") + np.arange(6)


@pytest.mark.parametrize(
    "wanted",
    [
        pd.Timestamp(TIMES[3]),
        [pd.Timestamp(TIMES[3]), date(3000, 1, 1), pd.NaT],
        [TIMES[3], np.datetime64(3000, "Y")],
        pd.Series(TIMES[3:4]),
        pd.DatetimeIndex(TIMES[3:4]),
    ],
)
def test_times_to_the_nanosecond(wanted):
    assert found(numbered(TIMES), wanted) == [3]
    assert found(numbered(np.array(["NaT", *TIMES[1:].astype(str)], "M8[ns]")), wanted) == [3]


@pytest.mark.parametrize(
    "wanted",
    [
        pd.Timedelta(3, "ns"),
        [pd.Timedelta(3, "ns"), timedelta(days=1)],
        pd.Series(TIMES[3:4] - TIMES[0]),
        pd.TimedeltaIndex(TIMES[3:4] - TIMES[0]),
    ],
)
def test_durations_to_the_nanosecond(wanted):
    assert found(numbered(TIMES - TIMES[0]), wanted) == [3]


@pytest.mark.parametrize(
    "wanted",
    [
        datetime(2024, 1, 1, tzinfo=UTC),
        pd.Timestamp(TIMES[0], tz="UTC"),
        pd.DatetimeIndex(TIMES[:1], tz="UTC"),
    ],
)
def test_time_zones_are_refused(wanted):
    agent = numbered(TIMES)
    with pytest.raises(ParameterError, match=r"'c' holds dates without time zones.* tz"):
        agent.choose(where={"c": wanted})
    listed = wanted if isinstance(wanted, pd.DatetimeIndex) else [wanted]
    with pytest.raises(MaskError, match="'c' holds dates without time zones"):
        agent.add_items(np.ones((1, 6)), {"c": listed})


@pytest.mark.parametrize(
    "values",
    [
        [date(2026, 1, 2), datetime(2026, 1, 3)],
        [np.datetime64("2026-01-02"), pd.Timestamp("2026-01-03")],
        pd.DatetimeIndex(["2026-01-02", "2026-01-03"]),
        np.array(["2026-01-02", "2026-01-03"], "M8[s]"),
    ],
)
def test_days_are_added(values):
    agent = numbered(DAYS[:6])
    agent.add_items(np.ones((2, 6)), {"c": values})
    assert found(agent, date(2026, 1, 2)) == [1, 6]
    assert found(agent, [date(2026, 1, 3), datetime(2026, 1, 2, 12)]) == [2, 7]


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ([date(2026, 1, 1), date(2026, 1, 2)], "M8[D]"),
        ([date(2026, 1, 1), datetime(2026, 1, 2, 12)], "M8[us]"),
        ([datetime(2026, 1, 1), pd.Timestamp(TIMES[1])], "M8[ns]"),
        ([timedelta(days=1), timedelta(microseconds=1)], "m8[us]"),
        ([pd.Timedelta(1, "ns"), timedelta(days=1)], "m8[ns]"),
        ([date(2026, 1, 1), pd.Timestamp(TIMES[1]), date(9999, 1, 1)], object),
        ([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2)], object),
        ([date(2026, 1, 1), timedelta(days=1)], object),
        ([date(2026, 1, 1), None], object),
        (np.array(["at", "de", ""], np.dtypes.StringDType()), "U2"),
        (np.array(["at", None], np.dtypes.StringDType(na_object=None)), object),
    ],
)
def test_lists_of_moments_and_text_of_any_length_have_types(column, dtype):
    entries = as_column(column)
    assert entries.dtype == dtype
    exact = {"M": pd.Timestamp, "m": pd.Timedelta}.get(entries.dtype.kind, lambda entry: entry)
    assert list(map(exact, entries)) == list(map(exact, column))


@pytest.mark.parametrize(
    "column",
    [
        [date(2020, 1, 1), date(2021, 1, 1)],
        [timedelta(days=1), timedelta(hours=1)],
        np.array(["at", "longer"], np.dtypes.StringDType()),
    ],
)
def test_items_are_added_to_lists_of_moments_and_text_of_any_length(tmp_path, column):
    agent = numbered(column)
    agent.add_items(np.eye(2), {"c": column})
    agent.save(tmp_path / "agent")
    given = {"features": np.eye(2), "columns": {"c": column}, "oracle": TopK(1)}
    for one in (agent, sharded.Agent.load(tmp_path / "agent", **given)):
        assert found(one, column[1]) == [1, 3]


@pytest.mark.parametrize(
    "values",
    [[datetime(2026, 1, 2, 12)], np.array(["2026-01-02T12"], "M8[h]"), [timedelta(days=1)]],
)
def test_times_that_do_not_fit_are_not_added(values):
    agent = numbered(DAYS[:6])
    with pytest.raises(MaskError, match="column 'c'"):
        agent.add_items(np.ones((1, 6)), {"c": values})
    assert found(agent, date(2026, 1, 2)) == [1]


def test_features_beyond_their_type_are_not_added():
    agent, twin = (with_columns([]) for _ in range(2))
    with pytest.raises(FeaturesError, match=r"float32.* up to 3\.4e\+38"):
        agent.add_items(np.full((1, 4), 1e39))
    with pytest.raises(ParameterError, match="columns must be a mapping"):
        agent.add_items(np.ones((1, 4)), ["a"])
    for one in (agent, twin):
        np.testing.assert_array_equal(one.add_items(np.ones((1, 4))), [L])
    assert_same_from_now_on(agent, twin)


def test_loaded_with_other_columns(tmp_path):
    path = tmp_path / "agent"
    few = {"features": ROWS.astype(np.float32), "oracle": TopK(3)}
    agent = with_columns(["text"])
    agent.save(path)
    sharded.Agent.load(path, columns={"whole": COLUMNS["whole"]}, **few).choose(where={"whole": 1})
    agent.add_items(np.ones((2, 4)), {"text": ["a", "b"]})
    agent.save(path)
    for columns in (
        None,
        {"renamed": COLUMNS["text"]},
        {"text": COLUMNS["text"], "whole": COLUMNS["whole"]},
        {"text": COLUMNS["whole"]},
    ):
        with pytest.raises(MaskError, match=r"2 items were added .* columns \('text',\)"):
            sharded.Agent.load(path, columns=columns, **few)
    sharded.Agent.load(path, columns={"text": COLUMNS["text"]}, **few).choose(where={"text": "a"})


@pytest.mark.parametrize(
    ("saved_as", "now", "entry"),
    [
        (np.float32, np.float64, 0.1),
        (np.int8, np.float64, 7),
        (bool, np.int64, 1),
        ("M8[D]", "M8[us]", date(2026, 1, 2)),
    ],
)
def test_entries_that_were_saved_are_of_the_type_of_the_column_given(
    tmp_path, saved_as, now, entry
):
    """So that they are found by the same values before and after others are added."""
    agent = numbered(np.zeros(3, saved_as))
    held = np.array([entry]).astype(saved_as)
    agent.add_items(np.ones((1, 3)), {"c": held})
    agent.save(tmp_path / "agent")
    given = {"features": np.eye(3), "columns": {"c": np.zeros(3, now)}, "oracle": TopK(1)}
    loaded = sharded.Agent.load(tmp_path / "agent", **given)
    assert loaded._added.columns["c"].dtype == now
    before = [found(loaded, value) for value in (entry, held[0])]
    assert before[1] == [3]
    loaded.add_items(np.ones((1, 3)), {"c": np.zeros(1, now)})
    assert [found(loaded, value) for value in (entry, held[0])] == before


@pytest.mark.parametrize(
    "column",
    [
        *COLUMNS.values(),
        TIMES,
        TIMES - TIMES[0],
        np.array(["2026", "NaT", "2027"], "M8[Y]"),
        np.array([b"at", b"\xff\x00\x01", b""]),
        np.array([0.1, 0.2, np.inf], np.float16),
        np.array([7, 2**40, -1], ">i8"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_all_kinds_of_added_entries_are_saved(tmp_path, column):
    agent = numbered(column[:3])
    given = {"features": np.eye(3), "columns": {"c": column[:3]}, "oracle": TopK(1)}
    for entries in (column[:2], column[1:3]):
        agent.add_items(np.ones((2, 3)), {"c": entries})
        agent.save(tmp_path / "agent")
        agent = sharded.Agent.load(tmp_path / "agent", **given)
    both = np.concatenate([column[:3], column[:2], column[1:3]])
    for entry in column[:3]:
        assert found(agent, entry) == np.flatnonzero(both == entry).tolist()


def test_added_truth_values_saved_without_types(tmp_path):
    column = np.array([True, False, False])
    agent = numbered(column)
    agent.add_items(np.eye(3), {"c": column})
    agent.save(tmp_path / "agent")
    meta, arrays = archive.read_archive(tmp_path / "agent", "sharded agent")
    del meta["types"]
    archive.write_archive(tmp_path / "agent", "sharded agent", meta | {"booleans": ["c"]}, arrays)
    given = {"features": np.eye(3), "columns": {"c": column}, "oracle": TopK(1)}
    assert found(sharded.Agent.load(tmp_path / "agent", **given), True) == [0, 3]


@pytest.mark.parametrize("types", [[], {"c": 5}, {"c": "S3"}, {"c": "no type"}, {"c": "O"}])
def test_types_of_entries_that_were_changed(tmp_path, types):
    agent = numbered(DAYS[:3])
    agent.add_items(np.eye(3), {"c": DAYS[:3]})
    agent.save(tmp_path / "agent")
    meta, arrays = archive.read_archive(tmp_path / "agent", "sharded agent")
    archive.write_archive(tmp_path / "agent", "sharded agent", meta | {"types": types}, arrays)
    given = {"features": np.eye(3), "columns": {"c": DAYS[:3]}, "oracle": TopK(1)}
    with pytest.raises((FileError, MaskError), match=r"damaged|do not fit those given"):
        sharded.Agent.load(tmp_path / "agent", **given)


@pytest.mark.parametrize("column", [[1, "a", None], [1j, 2.0, 3.0]])
def test_what_cannot_be_saved_is_not_added(tmp_path, column):
    agent = numbered(column)
    with pytest.raises(MaskError, match=r"column 'c' is of .* no file can hold what is added"):
        agent.add_items(np.eye(3), {"c": column})
    agent.save(tmp_path / "agent")
    given = {"features": np.eye(3), "columns": {"c": column}, "oracle": TopK(1)}
    assert found(sharded.Agent.load(tmp_path / "agent", **given), column[0]) == [0]


@pytest.mark.parametrize("name", [1, None, ("a", "b"), b"c", "a\0b", "\ud800"])
def test_names_of_columns_are_text(name):
    with pytest.raises(ParameterError, match="names of columns must be printable text, got"):
        sharded.Agent(TS, features=ROWS, oracle=TopK(1), columns={name: GROUPS})


def test_a_number_that_is_not_finite_is_named_by_its_item(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK_ITEMS", 64)
    rows = ROWS.copy()
    rows[777, 2] = np.nan
    rows[5, 1] = 1e200  # whose square is not finite
    for given, options in (
        (saved(tmp_path, parts(rows)), {}),
        (saved(tmp_path, [rows], "whole")[0], {"shards": 4}),
    ):
        with pytest.raises(FileError, match=r"\.npy: .* feature 2 of item 777 is nan"):
            sharded.Agent(TS, features=given, oracle=TopK(3), **options)


# --- on Ray ---------------------------------------------------------------------------------------


def process_of(agent, i):
    return agent._shards.processes()[i]


class Kills:
    """Kills the process of one shard after the other, every so many decisions."""

    def __init__(self, every):
        self.every = every
        self.done = 0

    def __call__(self, agent, t):
        if t and t % self.every == 0:
            shard = self.done % len(agent._shards)
            os.kill(process_of(agent, shard), signal.SIGKILL)
            self.done += 1


def test_killed_shards_change_no_decision(ray):
    kills = Kills(every=4)
    cycle = int(os.environ.get("SUPERARM_SHARD_KILLS", "1"))
    assert_same_decisions(MIX, TopK(5), 4 * cycle + 3, cluster="ray", disturb=kills)
    assert kills.done == cycle


def test_what_a_lost_shard_refused_is_not_counted(ray, monkeypatch, tmp_path):
    """A shard is killed that is given no further try; it comes back, knows what came and went, and
    is told again what it did not hear."""
    twin = sharded.Agent(MIX, features=two_parts(), oracle=TopK(5), seed=1)
    numbers = twin.add_items(50 * np.ones((3, 4)))
    twin.save(tmp_path / "agent")
    monkeypatch.setattr(ray_nodes, "RETRIES", 0)
    options = {"oracle": TopK(5), "seed": "saved", "cluster": "ray"}
    with sharded.Agent.load(tmp_path / "agent", features=two_parts(), **options) as agent:
        for one in (agent, twin):
            one.remove_items([numbers[1], *range(50)])
        chosen = agent.choose()
        np.testing.assert_array_equal(chosen.items, twin.choose().items)
        shard = int(agent._owners(chosen.items)[0])
        os.kill(process_of(agent, shard), signal.SIGKILL)
        shown = chosen.rows.sum(1)
        with pytest.raises(ClusterError):
            agent.observe(chosen, shown)
        insist(agent.observe, chosen, shown)
        twin.observe(chosen, shown)
        for _ in range(3):
            np.testing.assert_array_equal(agent.choose().items, twin.choose().items)
        np.testing.assert_array_equal(agent.belief.factor, twin.belief.factor)


def test_an_error_in_a_shard_names_the_node(ray, tmp_path):
    files = saved(tmp_path, [ROWS])
    damaged("nan", files[0])
    with pytest.raises(FileError, match=r"items-0\.npy") as caught:
        sharded.Agent(TS, features=files, oracle=TopK(5), cluster="ray")
    assert "of the Ray cluster" in caught.value.__notes__[0]


class Failing:
    """A shard that fails where others have changed already."""

    def __init__(self, shard):
        self.shard = shard

    def __getattr__(self, name):
        raise MemoryError


@pytest.mark.parametrize("change", ["observe", "add", "remove"])
def test_a_change_that_fails_in_one_shard_is_undone_in_the_others(monkeypatch, change):
    agent, twin = (sharded.Agent(MIX, features=parts(), oracle=TopK(5), seed=1) for _ in range(2))
    chosen = agent.choose()
    twin.choose()
    changes = {
        "observe": lambda one: one.observe(chosen, chosen.rows.sum(1)),
        "add": lambda one: one.add_items(9 * np.ones((6, 4))),
        "remove": lambda one: one.remove_items(chosen.items),
    }
    last = agent._shards._things[int(agent._owners(chosen.items).max())]
    with monkeypatch.context() as patch:
        patch.setattr(last, "thing", Failing(last.thing))
        with pytest.raises(MemoryError):
            changes[change](agent)
    np.testing.assert_array_equal(agent.choose().items, twin.choose().items)
    for one in (agent, twin):
        changes[change](one)
    for _ in range(5):
        np.testing.assert_array_equal(agent.choose().items, twin.choose().items)
    np.testing.assert_array_equal(agent.belief.factor, twin.belief.factor)

import numpy as np
import pandas as pd
import polars as pl
import pytest

from superarm import Agent, CombLinTS, CombMixTS, CombTS, Quota, TopK
from superarm.agent.catalogue import Catalogue
from superarm.checks.tables import align_by_item, as_mapping
from superarm.contexts import Outer, as_table
from superarm.errors import FeaturesError, ItemsError, MaskError, WeightsError
from support import COLUMNS, FEATURES, FRAME, NAMES, K, L, state


def make(learner=None, **options):
    options = {"features": FEATURES, "oracle": TopK(K), "seed": 7} | options
    return Agent(learner or CombLinTS(lam=1.0, sigma=0.3), **options)


def test_positions_and_ids():
    items = Catalogue(["b", "a", "c"])
    assert items.positions(["c", "b"]).tolist() == [2, 0]
    assert items.positions(np.array(["a"])).tolist() == [1]
    assert items.positions([]).tolist() == []
    assert items.ids_of(np.array([2, 1])).tolist() == ["c", "a"]
    numbers = Catalogue(np.array([70, 5, 12]))
    assert numbers.positions([np.int32(12), 70]).tolist() == [2, 0]
    assert numbers.get(6) == -1
    assert not numbers.plain


@pytest.mark.parametrize("ids", [range(4), [0, 1, 2, 3], np.arange(4), pd.RangeIndex(4)])
def test_ids_that_are_positions_need_no_table(ids):
    assert Catalogue(ids).plain
    assert Catalogue(ids).ids.tolist() == [0, 1, 2, 3]
    assert Catalogue(ids).get(3) == 3
    assert Catalogue(ids).get(4) == -1


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "a", "b"], "item 'a' is there twice"),
        ([3, 5, 3], "item 3 is there twice"),
        (["a", 1], "all whole numbers, all text, all UUIDs or all tuples of such, got text, whole"),
        ([1.0, 2.0], "all tuples of such, got float"),
        ([True, False], "got bool"),
        ([None], "got NoneType"),
        ([("a", 1.5)], "got tuple of float"),
        ([("a", 1), "b"], "got text, tuples"),
        (["a\0"], "NUL"),
        ([2**70], "64 bits"),
        ("abc", "must be a flat list"),
        (7, "must be a flat list"),
        ([[1], [2]], "got list"),
    ],
)
def test_bad_ids(ids, message):
    with pytest.raises(ItemsError, match=message):
        Catalogue(ids)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["b", "z"], "item 'z' is not one of the 3 items"),
        (["b", "b"], "item 'b' is repeated"),
        ([0], "flat list of text, as the ids are; got 0"),
        ("b", "flat list, got 'b'"),
        ([["b"]], "flat list of text"),
        (None, "flat list"),
        (np.array("b"), "flat list"),
        ([b"b"], "flat list of text"),
    ],
)
def test_bad_items(items, message):
    with pytest.raises(ItemsError, match=message):
        Catalogue(["b", "a", "c"]).positions(items)


def test_whole_numbers_are_not_looked_up_by_what_merely_equals_them():
    for wrong in (5.0, True, "5"):
        with pytest.raises(ItemsError, match="whole numbers"):
            Catalogue([5, 1]).positions([wrong])


def test_the_number_of_ids_must_fit():
    with pytest.raises(ItemsError, match="12 rows of features need as many ids, got 2"):
        make(items=["a", "b"])
    assert Catalogue(None, 3).plain


def test_an_agent_speaks_in_ids():
    plain, named = make(), make(items=NAMES)
    for _ in range(20):
        items = plain.choose()
        chosen = named.choose()
        assert chosen.tolist() == [NAMES[e] for e in items]
        plain.observe(items, [0.0, 1.0, 0.5])
        named.observe(chosen, [0.0, 1.0, 0.5])
    np.testing.assert_array_equal(plain.belief.factor, named.belief.factor)
    assert named.items.tolist() == NAMES
    only = set(NAMES[:4])
    assert set(named.choose(available=only)) <= only
    assert named.explain([NAMES[3]], draws=5).items.tolist() == [NAMES[3]]
    with pytest.raises(ItemsError, match="'nobody' is not one of the 12 items"):
        named.choose(available={"nobody"})
    with pytest.raises(ItemsError, match="flat list of text"):
        named.observe([0], [1.0])


def test_a_set_of_items_is_a_mask():
    assert set(make().choose(available={1, 2, 3})) == {1, 2, 3}
    with pytest.raises(ItemsError, match="item 12 is not one of"):
        make().choose(available={1, 2, 12})


@pytest.mark.parametrize(
    "frame", [FRAME, pl.DataFrame(FEATURES, schema=COLUMNS), FRAME.reset_index(drop=True)]
)
def test_data_frames(frame):
    plain, framed = make(), make(features=frame)
    assert framed.names == tuple(COLUMNS)
    np.testing.assert_array_equal(framed.problem.Phi, FEATURES)
    ids = NAMES if frame is FRAME else range(L)
    assert framed.choose().tolist() == [ids[e] for e in plain.choose()]
    assert "tempo" in str(framed.explain(framed.items[:2], draws=5))


def test_polars_columns_of_ids():
    table = pl.DataFrame({"name": NAMES, **dict(zip(COLUMNS, FEATURES.T, strict=True))})
    agent = make(features=table.drop("name"), items=table["name"])
    assert agent.items.tolist() == NAMES


def test_a_frame_of_a_call_is_put_into_order():
    agent, plain = make(features=FRAME), make()
    today = pd.DataFrame(2 * FEATURES, index=NAMES, columns=COLUMNS)
    shuffled = today.sample(frac=1, random_state=0)[["fame", "age", "mood", "tempo"]]
    chosen, items = agent.choose(features=shuffled), plain.choose(features=2 * FEATURES)
    assert chosen.tolist() == [NAMES[e] for e in items]
    agent.observe(chosen, [1.0, 0.0, 1.0], features=shuffled)
    plain.observe(items, [1.0, 0.0, 1.0], features=2 * FEATURES)
    np.testing.assert_array_equal(agent.belief.factor, plain.belief.factor)
    agent.learn(shuffled.head(3), [0.0, 1.0, 0.0])
    plain.learn(
        today[COLUMNS].to_numpy()[[NAMES.index(x) for x in shuffled.index[:3]]], [0.0, 1.0, 0.0]
    )
    np.testing.assert_array_equal(agent.belief.factor, plain.belief.factor)
    mask = pd.Series(np.arange(L) < 4, index=NAMES).sample(frac=1, random_state=1)
    assert set(agent.choose(available=mask)) <= set(NAMES[:4])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.drop(columns="tempo"), "feature 'tempo' is missing"),
        (
            FRAME.rename(columns={"tempo": "time"}),
            "feature 'tempo' is missing|'time' is not one of those learned from",
        ),
        (FRAME.assign(extra=1.0), "feature 'extra' is not one of those learned from"),
        (FRAME.iloc[1:], "no row for item 'artist 0'"),
        (
            FRAME.reset_index(drop=True),
            "no row for item 'artist 0'; if the rows are in the order of agent.items",
        ),
        (
            pd.concat([FRAME, FRAME.iloc[:1].set_axis(["new"])]),
            "a row for item 'new', which the agent does not have",
        ),
        (FRAME.assign(tempo="fast"), "feature 'tempo' is (object|str), not numbers without gaps"),
        (FRAME.assign(tempo=np.nan), "feature 1 of item 0 is nan"),
        (
            FRAME.assign(tempo=pd.array([None] * L, dtype="Int64")),
            "feature 1 of item 0 is nan|is object, not numbers",
        ),
        (FRAME[["age", "age", "fame", "mood"]], "feature 'age' is there twice"),
    ],
)
def test_bad_frames_change_nothing(frame, message):
    agent = make(features=FRAME)
    before = state(agent)
    with pytest.raises(FeaturesError, match=message):
        agent.choose(features=frame)
    assert state(agent) == before


def test_repeated_rows_and_masks_that_do_not_fit():
    agent = make(features=FRAME)
    with pytest.raises(ItemsError, match="'artist 0' is there twice"):
        agent.choose(features=pd.concat([FRAME.iloc[:1], FRAME.iloc[:-1]]))
    with pytest.raises(MaskError, match="no row for item 'artist 0'"):
        agent.choose(available=pd.Series([True] * L))
    with pytest.raises(ItemsError, match=r"flat list of text, as the ids are; got 1.0"):
        agent.choose(available=pd.Series([1.0] * L, index=NAMES))


def test_tables_that_are_none():
    assert as_table([[1.0]]).names is None
    assert as_table(pd.DataFrame(index=[3, 4])).values.shape == (2, 0)
    values = Catalogue(NAMES).rows(as_table(FRAME))
    np.testing.assert_array_equal(values, FEATURES)
    assert Catalogue(["a", "b"]).order_of(["b", "a"]).tolist() == [1, 0]
    assert Catalogue(range(2)).order_of([0, 1]) == slice(None)


# --- catalogues that change -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner", [CombLinTS(), CombTS(), CombMixTS(lam=1.0, sigma=0.3, tau=0.2)], ids=repr
)
def test_items_come_and_go(learner):
    agent = make(learner, features=FRAME.iloc[:8])
    for _ in range(10):
        agent.observe(agent.choose(), [0.0, 1.0, 1.0])
    agent.add_items(FRAME.iloc[8:])
    assert agent.items.tolist() == NAMES
    agent.remove_items(["artist 0", "artist 9"])
    assert agent.items.tolist() == [x for x in NAMES if x not in ("artist 0", "artist 9")]
    np.testing.assert_array_equal(agent.problem.Phi, np.delete(FEATURES, [0, 9], axis=0))
    for _ in range(10):
        items = agent.choose()
        assert not {"artist 0", "artist 9"} & set(items)
        agent.observe(items, [0.0, 1.0, 1.0])
    with pytest.raises(ItemsError, match="'artist 0' is not one of the 10 items"):
        agent.observe(["artist 0"], [1.0])


def test_numbers_stay_with_their_items():
    agent = make()
    agent.remove_items([3])
    assert agent.items.tolist() == [0, 1, 2, *range(4, L)]
    with pytest.raises(ItemsError, match="give the new ones theirs, as items="):
        agent.add_items(FEATURES[3:4])
    agent.add_items(FEATURES[3:4], [3])
    assert agent.items.tolist() == [0, 1, 2, *range(4, L), 3]
    plain = make()
    plain.add_items(FEATURES[:2])
    assert plain.items.tolist() == list(range(L + 2))
    assert plain.snapshot()[0].catalogue.plain


def test_oracles_that_fit_the_new_catalogue():
    agent = make(oracle=Quota([0, 1] * 6, {0: 1, 1: 1}))
    agent.add_items(FEATURES[:1], oracle=Quota([0, 1] * 6 + [1], {0: 1, 1: 2}))
    assert len(agent.choose()) == 3
    agent.remove_items([0])
    assert len(agent.choose()) == 3  # of the same groups
    with pytest.raises(ItemsError, match="says nothing of item 20: give an oracle"):
        agent.add_items(FEATURES[:1], [20])
    agent.remove_items([1], oracle=TopK(2))
    assert len(agent.choose()) == 2


def test_items_in_a_context_grow_by_items():
    user = np.array([1.0, 0.5])
    agent = make(features=Outer(FEATURES[:8])(user))
    agent.add_items(FEATURES[8:10])
    agent.add_items(Outer(FEATURES[10:])(2 * user))  # of whatever context
    np.testing.assert_array_equal(np.asarray(agent.problem.Phi), np.asarray(Outer(FEATURES)(user)))
    agent.remove_items([0])
    assert agent.problem.L == L - 1
    with pytest.raises(FeaturesError, match=r"shape \(n, 4\), got \(1, 8\)"):
        agent.add_items(np.zeros((1, 8)), [20])


BAD_MOVES = [
    (
        lambda a: a.add_items(FRAME.iloc[:1]),
        ItemsError,
        "'artist 0' is there already: give new items",
    ),
    (lambda a: a.add_items(FRAME.iloc[:1], [3]), ItemsError, "must be text, as the others; got 3"),
    (lambda a: a.add_items(FEATURES[:1]), ItemsError, "give the new ones theirs"),
    (
        lambda a: a.add_items(FEATURES[:2], ["x"]),
        ItemsError,
        "2 rows of features need as many ids, got 1",
    ),
    (
        lambda a: a.add_items(FEATURES[:1, :2], ["x"]),
        FeaturesError,
        r"shape \(n, 4\), got \(1, 2\)",
    ),
    (lambda a: a.add_items(np.full((1, 4), np.nan), ["x"]), FeaturesError, "finite"),
    (lambda a: a.add_items(FEATURES[0], ["x"]), FeaturesError, "shape"),
    (lambda a: a.add_items([[1.0], [2.0, 3.0]], ["x", "y"]), FeaturesError, "numbers"),
    (lambda a: a.add_items(5, ["x"]), FeaturesError, "shape"),
    (lambda a: a.add_items(FRAME.iloc[:1, :3], ["x"]), FeaturesError, "feature 'mood' is missing"),
    (lambda a: a.add_items(np.empty((0, 4)), []), FeaturesError, "at least one item"),
    (lambda a: a.remove_items(["nobody"]), ItemsError, "'nobody' is not one of the 12"),
    (lambda a: a.remove_items(["artist 1", "artist 1"]), ItemsError, "'artist 1' is repeated"),
    (lambda a: a.remove_items(NAMES), ItemsError, "at least one item must be left"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_MOVES)
def test_bad_moves_change_nothing(call, error, message):
    agent = make(features=FRAME)
    agent.observe(agent.choose(), [0.0, 1.0, 1.0])
    before, items = state(agent), agent.items.tolist()
    with pytest.raises(error, match=message):
        call(agent)
    assert state(agent) == before
    assert agent.items.tolist() == items
    agent.remove_items([])
    assert state(agent) == before


def test_a_series_is_put_in_order_by_its_index():
    by_series, by_list = make(items=NAMES), make(items=NAMES)
    items, w = ["artist 3", "artist 1", "artist 8"], [1.0, 0.0, 5.0]
    series = pd.Series(w, index=items)
    by_series.observe(
        items, series.iloc[::-1], importance=pd.Series([1.0, 2.0, 3.0], index=items).iloc[::-1]
    )
    by_list.observe(items, w, importance=[1.0, 2.0, 3.0])
    decision = by_series.decide()
    by_series.observe(decision, pd.Series([0.0, 1.0], index=list(decision.items[:2])).iloc[::-1])
    by_list.observe(decision, dict(zip(decision.items[:2], [0.0, 1.0], strict=True)))
    np.testing.assert_allclose(
        by_series.belief.factor, by_list.belief.factor, rtol=1e-12, atol=1e-12
    )
    before = state(by_series)
    for bad, message in (
        ("nobody", "exactly these items as labels; a pandas object goes by its index"),
        ("artist 1", "as its index, each once"),
    ):
        with pytest.raises(WeightsError, match=message):
            by_series.observe(items, series.rename({"artist 3": bad}))
        with pytest.raises((ItemsError, WeightsError), match=f"{message}|was not chosen"):
            by_series.observe(decision, series.rename({"artist 3": bad}))
    assert state(by_series) == before


@pytest.mark.parametrize("ids", [None, NAMES], ids=["numbers", "text"])
def test_a_set_is_in_no_order(ids):
    agent = make(items=ids)
    first = set(agent.items[:2].tolist())
    with pytest.raises(ItemsError):
        agent.observe(first, [1.0, 0.0])
    agent.remove_items(first)
    assert agent.problem.L == L - 2


def test_numbers_are_not_given_out_again(tmp_path):
    agent = make(CombTS())
    decision = agent.decide(available={9, 10, 11})
    agent.remove_items([11])
    agent.save(tmp_path / "agent.npz")
    for again in (agent, Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))):
        with pytest.raises(ItemsError, match="some were removed: give the new ones theirs"):
            again.add_items(FEATURES[:1])
        with pytest.raises(
            ItemsError, match="CombTS learns of items alone: give a mapping from the others"
        ):
            again.observe(decision, [1.0, 0.0, 1.0])
        again.add_items(FEATURES[:1], [12])


def test_an_item_that_came_back_as_another_is_not_taken_for_it():
    agent = make(CombMixTS(lam=1.0, sigma=0.3, tau=0.2), items=NAMES)
    decision = agent.decide()
    agent.remove_items([decision.items[0]])
    agent.add_items(np.full((1, 4), 9.0), [decision.items[0]])
    agent.observe(decision, [1.0, 0.0, 1.0])
    assert agent.belief.n[-1] == 0
    assert agent.belief.n.sum() == 2
    assert agent.belief.n_unknown_rows == 1


def test_float32_catalogues_stay_float32():
    agent = make(features=FEATURES.astype(np.float32))
    agent.add_items(FEATURES[:1])
    assert agent.problem.Phi.dtype == np.float32
    with pytest.raises(FeaturesError, match="feature 0 of item 0 is inf"):
        agent.add_items([[1e39, 0.0, 0.0, 0.0]])
    products = make(features=Outer(FEATURES.astype(np.float32))([1.0, 0.5]))
    products.add_items(Outer(FEATURES[:1])([1.0, 0.5]))
    assert products.problem.Phi.left.dtype == np.float32


def test_long_texts_take_the_room_they_need(tmp_path):
    ids = ["x" * 1000, *map(str, range(L - 1))]
    agent = make(items=ids)
    agent.save(tmp_path / "agent.npz")
    assert (tmp_path / "agent.npz").stat().st_size < 12_000
    with pytest.raises(ItemsError, match="nor more than 1000 characters"):
        make(items=["x" * 1001, *ids[1:]])
    assert Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K)).items.tolist() == ids
    odd = make(items=["", "ü", "\ud800", *map(str, range(L - 3))])
    odd.save(tmp_path / "agent.npz")
    assert (
        Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K)).items.tolist()
        == odd.items.tolist()
    )


def test_a_series_goes_by_its_index_always():
    items = ["b", "a"]
    assert align_by_item([1.0, 2.0], items) == [1.0, 2.0]
    assert align_by_item(None, items) is None
    assert align_by_item(pd.Series([1.0, 2.0], index=["a", "b"]), items) == [2.0, 1.0]
    with pytest.raises(WeightsError, match=r"if it is in the right order, give .to_numpy\(\)"):
        align_by_item(pd.Series([1.0, 2.0]), items)
    assert align_by_item({"a": 1.0, "b": 2.0}, items) == [2.0, 1.0]
    with pytest.raises(WeightsError, match="exactly these items as labels"):
        align_by_item(pd.Series([1.0], index=["a"]), items)
    with pytest.raises(WeightsError, match="each once"):
        as_mapping(pd.Series([1.0, 2.0], index=["a", "a"]))

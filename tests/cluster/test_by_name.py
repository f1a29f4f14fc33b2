"""What carries names goes by them on more than one machine too, or is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from superarm import CombLinTS, PartitionMatroid, Population, Quota, TopK, sharded
from superarm.contexts import Outer
from superarm.errors import FeaturesError, MaskError, OracleError, WeightsError

L = 12
ROWS = np.random.default_rng(0).standard_normal((L, 3))
IDS = [f"item {e}" for e in range(L)]
SHUFFLED = np.random.default_rng(1).permutation(L)
TS = CombLinTS(lam=1.0, sigma=0.5)
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])


def catalogue(**options):
    return sharded.Agent(TS, **{"features": ROWS, "oracle": TopK(2), "seed": 0, **options})


def users(**options):
    return Population(TS, **{"features": ROWS, "oracle": TopK(2), "seed": 0, **options})


# --- a catalogue in shards ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features",
    [FRAME, FRAME.iloc[SHUFFLED], pl.DataFrame(ROWS, schema=["a", "b", "c"]), [FRAME, FRAME]],
    ids=["frame", "shuffled", "polars", "list"],
)
def test_features_in_a_table_are_refused(features):
    with pytest.raises(FeaturesError, match="features go by their order here, and a DataFrame by"):
        catalogue(features=features)


def test_columns_in_a_series_are_refused():
    country = pd.Series(["at", "de"] * 6, index=SHUFFLED)
    with pytest.raises(FeaturesError, match="column 'country' go by their order"):
        catalogue(columns={"country": country})
    agent = catalogue(columns={"country": country.to_numpy()})
    with pytest.raises(MaskError, match="column 'country' go by their order"):
        agent.add_items(ROWS[:2], {"country": country[:2]})
    with pytest.raises(FeaturesError, match="features go by their order here"):
        agent.add_items(FRAME[["c", "b", "a"]][:2], {"country": ["at", "de"]})
    assert agent.add_items(ROWS[:2], {"country": pl.Series(["at", "de"])}).tolist() == [12, 13]


def test_contexts_in_a_table_are_refused():
    agent = catalogue(contexts=Outer)
    with pytest.raises(FeaturesError, match="features of a context go by their order"):
        agent.choose(pd.Series({"age": 1.0, "height": 2.0}))
    with pytest.raises(FeaturesError, match="features of a context go by their order"):
        agent.choose_many(FRAME)
    assert len(agent.choose_many([pl.Series([1.0, 2.0]), [0.5, 0.1]])) == 2


@pytest.mark.parametrize("make", [Quota, PartitionMatroid])
def test_groups_of_a_catalogue_are_in_the_order_of_its_items(make):
    groups = pd.Series(["f", "m", "m"] * 4, index=SHUFFLED)
    most = {"f": 2, "m": 1}
    for given in (groups, groups.to_dict(), pd.Series(groups.to_numpy(), index=IDS)):
        with pytest.raises(OracleError, match=r"names its items, but here .* 0, 1, \.\.\., 11"):
            catalogue(oracle=make(given, most))
    agent = catalogue(oracle=make(groups.sort_index(), most))
    chosen = groups[agent.choose().items].tolist()
    assert chosen.count("f") <= 2
    assert chosen.count("m") <= 1
    with pytest.raises(OracleError, match=r"names its items, but here .* 0, 1, \.\.\., 13"):
        agent.add_items(ROWS[:2], oracle=make({**groups, 20: "f", 21: "m"}, most))


def test_excluded_items_may_be_a_set():
    agent, same = catalogue(), catalogue()
    np.testing.assert_array_equal(
        agent.choose(exclude={3, 1, 8}).items, same.choose(exclude=[1, 3, 8]).items
    )


# --- a population ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2])
def test_groups_of_shared_items_go_by_id(shards):
    groups = pd.Series(["f", "m", "m"] * 4, index=[IDS[e] for e in SHUFFLED])
    frame = FRAME.set_axis(IDS)
    for given in (groups, groups.to_dict()):
        population = users(features=frame, oracle=Quota(given, {"f": 2, "m": 1}), shards=shards)
        for items in population.choose(["ann", "bob", "cid"]):
            assert sorted(groups[items]) == ["f", "f", "m"]
    with pytest.raises(ValueError, match="says nothing of item 'item 3'"):
        users(features=frame, oracle=Quota(groups.drop("item 3"), {"f": 2, "m": 1}))


def test_a_loaded_population_keeps_to_groups_by_id(tmp_path):
    groups = pd.Series(["f", "m", "m"] * 4, index=[IDS[e] for e in SHUFFLED])
    quota = Quota(groups, {"f": 2, "m": 1})
    users(features=FRAME.set_axis(IDS), oracle=quota).save(tmp_path / "population.npz")
    loaded = Population.load(tmp_path / "population.npz", oracle=quota)
    assert sorted(groups[loaded.choose(["ann"])[0]]) == ["f", "f", "m"]


def test_weights_by_item_are_aligned():
    plain, by_id = users(), users()
    items = [[4, 1], [7]]
    plain.observe(["ann", "bob"], items, [[0.5, 0.2], [1.0]])
    by_id.observe(["ann", "bob"], items, [pd.Series([0.2, 0.5], index=[1, 4]), {7: 1.0}])
    for user in ("ann", "bob"):
        np.testing.assert_array_equal(plain.belief(user).factor, by_id.belief(user).factor)
    for wrong in (pd.Series([0.2, 0.5]), {1: 0.2}, {1: 0.2, 5: 0.5}):
        with pytest.raises(WeightsError, match=r"^values by item must have exactly these"):
            plain.observe(["ann"], [[4, 1]], [wrong])


def test_masked_weights_of_users_are_refused():
    population = users()
    masked = np.ma.array([0.5, 0.2], mask=[False, True])
    for weights in ([masked, masked], np.ma.stack([masked, masked])):
        with pytest.raises(WeightsError, match="entry 1 is masked"):
            population.observe(["ann", "bob"], [[4, 1], [2, 3]], weights)
    assert len(population) == 0

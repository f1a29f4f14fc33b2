from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from superarm import Agent, CombLinTS, TopK, offline
from superarm.arrays import Product
from superarm.contexts import Outer
from superarm.errors import (
    DecisionError,
    FeaturesError,
    ItemsError,
    MaskError,
    ParameterError,
    WeightsError,
)
from superarm.offline import Log

ITEMS, WEIGHTS, PROPENSITIES = [[2, 0], [1], []], [[0.5, 1.0], [0.0], []], [[0.3, 0.9], [1.0], []]
EYE = np.eye(3)


def test_ragged_lists_and_padded_arrays_are_the_same_log():
    ragged = Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE)
    nan = np.nan
    padded = Log.of(
        ragged.A, [[0.5, 1.0], [0.0, nan], [nan, nan]], [[0.3, 0.9], [1.0, nan], [nan, nan]], EYE
    )
    assert (ragged.n, ragged.L) == (3, 3)
    for one, other in zip(ragged[:3], padded[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(ragged.A, [[2, 0], [1, -1], [-1, -1]])
    np.testing.assert_array_equal(ragged.w, [[0.5, 1.0], [0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(ragged.p, [[0.3, 0.9], [1.0, 1.0], [1.0, 1.0]])


def test_iterators_are_read_once():
    log = Log.of(iter(ITEMS), iter(WEIGHTS), iter(PROPENSITIES), EYE)
    np.testing.assert_array_equal(log.A, Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE).A)


def test_features_of_all_decisions_or_of_each():
    contexts = np.random.default_rng(0).standard_normal((3, 2))
    each = [Outer(EYE)(x) for x in contexts]
    formed = np.stack([np.asarray(Phi) for Phi in each])
    batch = Product(EYE, np.stack([Phi.right for Phi in each]))
    for features in (each, tuple(each), formed, list(formed), formed.tolist(), batch):
        log = Log.of(ITEMS, WEIGHTS, PROPENSITIES, features)
        np.testing.assert_array_equal(np.stack([np.asarray(Phi) for Phi in log.Phi]), formed)
    for features in (EYE, EYE.tolist(), each[0]):
        log = Log.of(ITEMS, WEIGHTS, PROPENSITIES, features)
        assert len(log.Phi) == 3 and all(Phi is log.Phi[0] for Phi in log.Phi)
    assert (
        len({id(Phi) for Phi in Log.of(ITEMS, WEIGHTS, PROPENSITIES, [EYE, EYE, 2 * EYE]).Phi}) == 2
    )


def test_masks():
    assert Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE).available is None
    mask = np.array([[True, False, True], [True, True, True], [False, False, False]])
    np.testing.assert_array_equal(
        Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE, available=mask).available, mask
    )
    assert Log.of(
        ITEMS, WEIGHTS, PROPENSITIES, EYE, available=np.ones(3, bool)
    ).available.shape == (3, 3)


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ([[2, 0], [3], []], ItemsError, "decision 1: item 3 is not one of the items 0..2"),
        ([[2, 0], [-2], []], ItemsError, "decision 1: item -2 is not"),
        ([[2, 2], [1], []], ItemsError, "decision 0: item 2 is repeated"),
        (
            [[2.0, 0.0], [1], []],
            ItemsError,
            "decision 0: items must be a flat list of integers, got float64",
        ),
        ([[[2], [0]], [1], []], ItemsError, r"decision 0: items must be .* shape \(2, 1\)"),
        ([[[2], 0], [1], []], ItemsError, "items must be a list of integers for each decision"),
        (7, ItemsError, "items must be a list of integers or ids for each decision"),
        ([], ItemsError, "the log holds no items"),
        ([[], [], []], ItemsError, "the log holds no items"),
    ],
)
def test_items_that_are_refused(items, error, message):
    with pytest.raises(error, match=message):
        Log.of(items, WEIGHTS, PROPENSITIES, EYE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.5, np.nan], [0.1], []], "decision 0: the {} of item 0 is nan"),
        ([[0.5, 0.1], [-np.inf], []], "decision 1: the {} of item 1 is -inf"),
        ([[0.5], [0.1], []], "decision 0 has 1 .* for 2 items"),
        ([[0.5, 0.1], [0.1]], "of 2 decisions, but items of 3"),
        ([["a", "b"], [0.1], []], "decision 0: .* must be a flat list of numbers, got <U1"),
    ],
)
def test_weights_and_propensities_that_are_refused(values, message):
    with pytest.raises(WeightsError, match=message.format("weight")):
        Log.of(ITEMS, values, PROPENSITIES, EYE)
    with pytest.raises(ParameterError, match=message.format("propensity")):
        Log.of(ITEMS, WEIGHTS, values, EYE)


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1])
def test_propensities_are_probabilities(p):
    with pytest.raises(
        ParameterError, match=f"the propensity of item 1 is {p}: it must be a probability above 0"
    ):
        Log.of(ITEMS, WEIGHTS, [[0.3, 0.9], [p], []], EYE)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.full((3, 2), np.nan), "must be finite"),
        (np.zeros((2, 3, 2)), "features of 2 decisions, but items of 3"),
        ([EYE, EYE], "features of 2 decisions, but items of 3"),
        ([EYE, EYE, np.eye(4)], r"decision 2: features must have shape \(3, 3\)"),
        ([EYE, EYE * np.nan, EYE], "decision 1: features must be finite"),
        (np.zeros((1, 3, 3, 2)), "features must have shape"),
        (np.zeros(3), "features must have shape"),
    ],
)
def test_features_that_are_refused(features, message):
    with pytest.raises(FeaturesError, match=message):
        Log.of(ITEMS, WEIGHTS, PROPENSITIES, features)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones(3), r"booleans of shape \(3,\) or \(3, 3\), or sets of items, got float64"),
        (np.ones(2, bool), r"got bool of shape \(2,\)"),
        (np.array([False, True, True]), "decision 0: item 0 was chosen, but"),
        ([[True], [True, False]], r"available must be booleans of shape .* \("),
    ],
)
def test_masks_that_are_refused(mask, message):
    with pytest.raises(MaskError, match=message):
        Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE, available=mask)


def test_records_of_decisions_become_a_log():
    ids = ["a", "b", "c", "d"]
    agent = Agent(CombLinTS(), features=np.eye(4), items=ids, oracle=TopK(2), seed=0)
    decisions = [agent.decide(draws=20) for _ in range(6)]
    weights = [{item: float(ids.index(item)) for item in reversed(d.items)} for d in decisions]
    log = Log.of_decisions(decisions, weights, np.eye(4), items=agent.items)
    assert [[ids[e] for e in row] for row in log.A] == [list(d.items) for d in decisions]
    np.testing.assert_array_equal(log.w, log.A)
    np.testing.assert_array_equal(log.p, [d.propensity for d in decisions])
    lists = Log.of_decisions(
        decisions, [list(w.values())[::-1] for w in weights], np.eye(4), items=ids
    )
    np.testing.assert_array_equal(lists.w, log.w)
    plain = Agent(CombLinTS(), features=np.eye(4), oracle=TopK(2), seed=0).decide(draws=20)
    assert Log.of_decisions([plain], [[1.0, 0.0]], np.eye(4)).A.tolist() == [list(plain.items)]


@pytest.mark.parametrize(
    ("weights", "options", "error", "message"),
    [
        ([], {}, WeightsError, "weights of 0 decisions, but 1 decisions"),
        (
            [{"a": 1.0}],
            {},
            WeightsError,
            "decision 0: the weight of item '[bcd]' is missing: give",
        ),
        ([{"nobody": 1.0}], {}, ItemsError, "'nobody' was not chosen in this decision"),
        ([[1.0, 0.0]], {"items": ["x", "y"]}, ItemsError, "4 rows of features need as many ids"),
        ([[1.0]], {}, WeightsError, "decision 0 has 1 weights for 2 items"),
    ],
)
def test_bad_feedback_of_decisions(weights, options, error, message):
    agent = Agent(
        CombLinTS(),
        features=np.diag([9.0, 1, 1, 1]),
        items=["a", "b", "c", "d"],
        oracle=TopK(2),
        seed=0,
    )
    decision = next(d for d in iter(lambda: agent.decide(draws=5), None) if "a" in d.items)
    with pytest.raises(error, match=message):
        Log.of_decisions([decision], weights, np.eye(4), **{"items": agent.items} | options)


def test_decisions_without_propensities():
    decision = Agent(CombLinTS(), features=np.eye(4), oracle=TopK(2), seed=0).decide()
    with pytest.raises(
        DecisionError, match=r"decision 0 has no propensities: make it with agent.decide"
    ):
        Log.of_decisions([decision], [[1.0, 0.0]], np.eye(4))


def test_records_and_features_must_agree():
    frame = pd.DataFrame(np.arange(8.0).reshape(4, 2), index=list("abcd"), columns=["x", "y"])
    agent = Agent(CombLinTS(), features=frame, oracle=TopK(2), seed=0)
    decision = agent.decide(draws=20)
    record, w = decision.to_json(), pd.Series([1.0, 2.0], index=list(decision.items))
    log = Log.of_decisions([record], [w.iloc[::-1]], frame.iloc[::-1])
    assert log.w.tolist() == [[1.0, 2.0]]
    assert [list("dcba")[e] for e in log.A[0]] == list(decision.items)
    turned = Log.of_decisions([record], [w], frame[["y", "x"]], items=agent.items)
    assert turned.Phi[0][0].tolist() == [1.0, 0.0]
    for features, items in (
        (frame.to_numpy()[::-1], agent.items),
        (2 * frame.to_numpy() + 1, agent.items),
    ):
        with pytest.raises(
            DecisionError, match=r"decision 0: the features of item '.' are not those of the record"
        ):
            Log.of_decisions([record], [w], features, items=items)
    with pytest.raises(DecisionError, match="decision 0 is of items with 2 features, not 3"):
        Log.of_decisions([record], [w], np.ones((4, 3)), items=agent.items)
    with pytest.raises(
        ItemsError,
        match=r"decision 0: item '.' is not one of the 1 items; give the items of its time",
    ):
        Log.of_decisions([record], [w], frame.iloc[:1])


def test_parts_of_a_log():
    log = Log.of(
        [[0], [1], [2]],
        [[1.0], [2.0], [3.0]],
        [[0.5], [0.5], [0.5]],
        EYE,
        available=np.ones((3, 3), bool),
    )
    later = log.part(slice(1, None))
    assert later.n == 2
    assert later.w.tolist() == [[2.0], [3.0]]
    assert later.available.shape == (2, 3)
    assert log.part([2]).A.tolist() == [[2]]
    assert log.part(log.w[:, 0] > 1.5).n == 2


def delivered(n=6):
    """Records of an agent, their clicks, and the features and ids of its items."""
    agent = Agent(CombLinTS(), features=np.eye(4), items=list("abcd"), oracle=TopK(2), seed=0)
    decisions = [agent.decide(draws=20) for _ in range(n)]
    clicks = [{item: float(item in "ab") for item in d.items} for d in decisions]
    return decisions, clicks, np.eye(4), agent.items


def test_a_decision_that_was_delivered_twice_counts_once():
    decisions, clicks, features, ids = delivered()
    single = Log.of_decisions(decisions, clicks, features, items=ids)
    again = [*decisions, decisions[1].to_json(), decisions[4]]
    feedback = [*clicks, clicks[1], [clicks[4][item] for item in decisions[4].items]]
    twice = Log.of_decisions(again, feedback, features, items=ids, available=set("abcd"))
    assert (single.n, twice.n, twice.available.shape) == (6, 6, (6, 4))
    for one, other in zip(single[:3], twice[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    target = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}
    assert offline.ips(twice, target) == offline.ips(single, target)


@pytest.mark.parametrize("what", ["weights", "items", "propensities"])
def test_a_decision_that_contradicts_itself_is_refused(what):
    decisions, clicks, features, ids = delivered(2)
    first = decisions[0]
    forged = {
        "weights": first,
        "items": replace(first, items=("a", "c"), features=np.eye(4)[[0, 2]]),
        "propensities": replace(first, propensity=(0.9, 0.8)),
    }[what]
    came = dict.fromkeys(forged.items, 0.5) if what == "weights" else [*clicks[0].values()]
    message = f"decision '{first.id}' is in the log twice, with other {what} in entry 2 than in en"
    with pytest.raises(DecisionError, match=message):
        Log.of_decisions([*decisions, forged], [*clicks, came], features, items=ids)


def test_ids_of_decisions_in_lists_and_frames():
    rows = pd.DataFrame(
        {"item": [0, 1, 0, 2], "w": [1.0, 0.0, 1.0, 0.5], "id": ["x", "y", "x", "z"]}
    )
    p = rows["w"] * 0 + 0.5
    log = Log.of(rows["item"], rows["w"], p, EYE, decisions=rows["id"], draws=[10, 20, 30, 40])
    assert log.A.tolist() == [[0], [1], [2]]
    assert log.draws.tolist() == [10, 20, 40]
    in_another_order = Log.of(
        [[2, 0], [0, 2]],
        [[0.5, 1.0], [1.0, 0.5]],
        [[0.3, 0.9], [0.9, 0.3]],
        EYE,
        decisions=[7, np.int64(7)],
    )
    assert in_another_order.A.tolist() == [[2, 0]]
    one_row_per_item = {"decisions": ["x", "x", "y", "y"]}
    with pytest.raises(DecisionError, match=r"with other items .* give each decision once, as a l"):
        Log.of([0, 1, 0, 2], [1.0] * 4, [0.5] * 4, EYE, **one_row_per_item)
    with pytest.raises(DecisionError, match="'x' is in the log twice, with other features"):
        Log.of([[0], [0]], [[1.0]] * 2, [[0.5]] * 2, [EYE, 2 * EYE], decisions=["x", "x"])
    with pytest.raises(ItemsError, match="items and decisions have different indexes"):
        Log.of(rows["item"], rows["w"], p, EYE, decisions=rows["id"].iloc[::-1])


@pytest.mark.parametrize("bad", [None, float("nan"), pd.NA, [1], ([1],)])
def test_what_is_no_id_of_a_decision(bad):
    with pytest.raises(DecisionError, match="decision 1 needs an id, as a text or a number, got"):
        Log.of([[0], [0]], [[1.0]] * 2, [[0.5]] * 2, EYE, decisions=["x", bad])


def test_numbers_of_ids_and_draws():
    with pytest.raises(DecisionError, match="there are ids of 1 decisions, but items of 3"):
        Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE, decisions=["x"])
    with pytest.raises(ParameterError, match="there are draws of 1 decisions, but items of 3"):
        Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE, draws=[5])
    for draws in (0, 2.5, "many", [1, 2, 0]):
        with pytest.raises(ParameterError, match="draws"):
            Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE, draws=draws)
    assert Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE).draws is None
    assert Log.of(ITEMS, WEIGHTS, PROPENSITIES, EYE, draws=[3, None, 4]).draws.tolist() == [3, 0, 4]

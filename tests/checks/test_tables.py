"""Labelled input in any order gives what sorted input gives; other labels are refused."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from superarm import Agent, Budget, CombLinTS, Intervals, Knapsack, Milp, TopK
from superarm.contexts import Outer
from superarm.errors import FeaturesError, MaskError, ParameterError, SuperarmError, WeightsError
from superarm.offline import Log, ips

IDS = list("abcd")
ROWS = np.random.default_rng(0).standard_normal((4, 2))
NUMBERS = np.array([0.5, 0.1, 0.9, 0.3])
TRUTHS = np.array([True, False, True, True])
FRAME = pd.DataFrame(ROWS, index=IDS, columns=["x", "y"])
ORDERS = [list(order) for order in itertools.permutations(range(4))]


def series(values, order, labels=IDS):
    return pd.Series(values[order], index=[labels[i] for i in order])


def mapping(values, order, labels=IDS):
    return {labels[i]: values[i] for i in order}


def make_agent(oracle=None, features=FRAME):
    oracle = TopK(2) if oracle is None else oracle
    return Agent(CombLinTS(lam=1.0, sigma=0.5), features=features, oracle=oracle, seed=3)


def features_of_an_agent(form, order):
    columns = ["x", "y"] if order[0] % 2 else ["y", "x"]
    return make_agent().choose(features=FRAME.iloc[order][columns]).tolist()


def available_items(form, order):
    return make_agent().choose(available=form(TRUTHS, order)).tolist()


def available_items_of_users(form, order):
    agent = make_agent()
    mask = pd.DataFrame([TRUTHS, TRUTHS[::-1]], columns=IDS).iloc[:, order]
    chosen = agent.choose(features=np.stack([ROWS, -ROWS]), available=mask)
    return [list(items) for items in chosen]


def weights_and_importance(form, order):
    agent = make_agent()
    agent.observe(IDS, form(NUMBERS, order), importance=form(2 * NUMBERS, order[::-1]))
    return agent.belief.factor.tolist()


def costs(form, order):
    return sorted(make_agent(Knapsack(form(NUMBERS, order), 1.0)).choose())


def costs_and_groups(form, order):
    groups = form(np.array(list("ABAB")), order)
    prices = form(NUMBERS, order[::-1])
    oracle = Budget(prices, 1.0, groups=groups, maximum={"A": 1, "B": 2})
    return sorted(make_agent(oracle).choose())


def start_and_end(form, order):
    end = form(NUMBERS + 0.3, order[::-1])
    return sorted(make_agent(Intervals(form(NUMBERS, order), end)).choose())


def bounds_of_rows(form, order):
    A = pd.DataFrame(np.eye(4)[:, :2], index=IDS)
    return Milp(A, form(NUMBERS + 0.2, order))(np.array([1.0, 2.0])).tolist()


def context(form, order):
    outer = Outer(FRAME)
    agent = make_agent(features=outer({"p": 1.0, "q": 2.0}))
    of_two = [i for i in order if i < 2]
    return agent.choose(features=outer(form(np.array([0.5, -1.0]), of_two, "pq"))).tolist()


def log(form, order):
    pair = [i for i in order if i < 2]
    weights = [form(np.array(w), pair, "ac") for w in ([0.5, 0.9], [0.1, 0.8])]
    p = form(np.array([0.4, 0.6]), pair, "ac")
    available = form(TRUTHS, order)
    data = Log.of([["a", "c"]] * 2, weights, [p] * 2, FRAME, available=available)
    estimate = ips(data, form(np.array([0.6, 0.0, 0.4, 1.0]), order))
    return [data.w.tolist(), data.p.tolist(), data.available.tolist(), repr(estimate)]


CALLERS = [
    features_of_an_agent,
    available_items,
    available_items_of_users,
    weights_and_importance,
    costs,
    costs_and_groups,
    start_and_end,
    bounds_of_rows,
    context,
    log,
]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("form", [series, mapping])
def test_any_order_gives_what_sorted_input_gives(caller, form):
    expected = caller(series, ORDERS[0])
    for order in ORDERS:
        assert caller(form, order) == expected


def observe(weights):
    make_agent().observe(IDS, weights)


REFUSED = {
    "rows": (
        lambda: make_agent().choose(features=FRAME.iloc[:3]),
        FeaturesError,
        "there is no row for item 'd'; if the rows are in the order of agent.items, give .to_num",
    ),
    "more rows": (
        lambda: make_agent().choose(features=pd.concat([FRAME, FRAME.rename({"a": "e"})[:1]])),
        FeaturesError,
        "there is a row for item 'e', which the agent does not have: use add_items first",
    ),
    "columns": (
        lambda: make_agent().choose(features=FRAME.rename(columns={"y": "z"})),
        FeaturesError,
        "feature 'y' is missing",
    ),
    "more columns": (
        lambda: make_agent().choose(features=FRAME.assign(a=1.0)),
        FeaturesError,
        "feature 'a' is not one of those learned from",
    ),
    "repeated columns": (
        lambda: make_agent(features=FRAME.set_axis(["x", "x"], axis=1)),
        FeaturesError,
        "feature 'x' is there twice",
    ),
    "mask": (
        lambda: make_agent().choose(available=series(TRUTHS, ORDERS[0], "abce")),
        MaskError,
        "there is no row for item 'd'",
    ),
    "weights": (
        lambda: observe(mapping(NUMBERS, ORDERS[0], "abce")),
        WeightsError,
        "values by item must have exactly these items as labels",
    ),
    "series of weights": (
        lambda: observe(pd.Series(NUMBERS)),
        WeightsError,
        "labels; a pandas object goes by its index; if it is in the right order, give",
    ),
    "repeated labels": (
        lambda: observe(pd.Series(NUMBERS, index=list("aabc"))),
        WeightsError,
        "a series must have the items as its index, each once",
    ),
    "costs and groups": (
        lambda: Budget({"a": 1.0}, 1.0, groups={"b": "A"}, maximum=1),
        ParameterError,
        "costs and groups must name the same items, or both be in their order",
    ),
    "start with ids, end without": (
        lambda: Intervals({"a": 1.0}, [2.0]),
        ParameterError,
        "start and end must name the same items, or both be in their order",
    ),
    "masked costs": (
        lambda: Knapsack(np.ma.masked_equal(NUMBERS, 0.1), 1.0),
        ParameterError,
        "entry 1 is masked: fill it or leave it out",
    ),
    "masked weights": (
        lambda: observe(np.ma.masked_equal(NUMBERS, 0.1)),
        WeightsError,
        "entry 1 is masked: fill it or leave it out",
    ),
    "bounds": (
        lambda: Milp(pd.DataFrame(np.eye(2)), {0: 1.0, 2: 1.0}),
        ParameterError,
        "b must have a bound for each row of A, by its name, and no other",
    ),
    "weights in a log": (
        lambda: Log.of([["a", "c"]], [{"a": 1.0, "b": 1.0}], [[0.5, 0.5]], FRAME),
        WeightsError,
        "decision 0: weights are of ['a', 'b'], but its items are ['a', 'c']: give one for each",
    ),
    "mask in a log": (
        lambda: Log.of([["a"]], [[1.0]], [[0.5]], FRAME, available={"a": True, "e": True}),
        MaskError,
        "available must name each of the 4 items once and nothing else: see 'e'; or give .to_num",
    ),
    "indexes of a log": (
        lambda: Log.of(pd.Series(["a"]), pd.Series([1.0], index=[3]), [0.5], FRAME),
        SuperarmError,
        "items and weights have different indexes: take them from one data frame, or give",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_labels_are_refused(case):
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=re.escape(message)):
        call()

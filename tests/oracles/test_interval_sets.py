import datetime as dt
import itertools

import numpy as np
import pandas as pd
import pytest

from superarm import Agent, CombLinTS, Intervals
from superarm.arrays.compiled import ENOUGH_FOR_ALL_CORES
from superarm.errors import ParameterError
from superarm.testing import check_oracle

START = [0, 2, 1, 3, 5, 4]
END = [2, 4, 3, 6, 7, 5]


def overlap(start, end, a, b):
    return start[a] < end[b] and start[b] < end[a]


def family(start, end, max_items=None):
    L = len(start)
    clashes = [p for p in itertools.combinations(range(L), 2) if overlap(start, end, *p)]
    most = L if max_items is None else max_items
    return [
        s
        for k in range(most + 1)
        for s in itertools.combinations(range(L), k)
        if not any(a in s and b in s for a, b in clashes)
    ]


@pytest.mark.parametrize("max_items", [None, 1, 2, 9])
def test_contract(max_items):
    oracle = Intervals(START, END, max_items=max_items)
    sets = family(START, END, max_items)
    check_oracle(oracle, 6, family=sets)
    assert max(map(len, sets)) == oracle.K
    assert oracle.gap == 0.0


def test_items_come_in_the_order_of_time():
    rng = np.random.default_rng(0)
    start = rng.integers(0, 8, 30)
    end = start + rng.integers(1, 4, 30)
    for max_items in (None, 3):
        for items in Intervals(start, end, max_items=max_items)(rng.random((20, 30))):
            chosen = items[items >= 0]
            assert len(chosen) > 1
            assert (np.diff(start[chosen]) > 0).all()


def test_many_intervals_are_a_linear_program():
    """The constraints "at most one at a time" have a totally unimodular matrix, so that the linear
    program has a whole solution."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    start = 100 * rng.random(400)
    end = start + rng.exponential(3.0, 400)
    w = rng.standard_normal(400)
    at_once = (start <= start[:, None]) & (end > start[:, None])
    best = -linprog(-w, at_once.astype(float), np.ones(400), bounds=(0, 1)).fun
    A = Intervals(start, end)(w)
    assert w[A[A >= 0]].sum() == pytest.approx(best, rel=1e-9)


def test_a_large_batch_is_its_rows():
    oracle = Intervals(START, END, max_items=2)
    w = np.random.default_rng(0).standard_normal((ENOUGH_FOR_ALL_CORES // 6 + 1, 6))
    A = oracle(w)
    for i in range(0, len(w), 5000):
        np.testing.assert_array_equal(A[i], oracle(w[i]))


def test_of_two_at_the_same_time_the_first_is_chosen():
    assert Intervals([0, 0, 0], [1, 1, 1])(np.ones(3)).tolist() == [0]


HOURS = [dt.datetime(2024, 5, 1, h) for h in range(10)]
BERLIN = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    "time",
    [
        lambda t: [HOURS[i] for i in t],
        lambda t: [HOURS[i].replace(tzinfo=BERLIN) for i in t],
        lambda t: [dt.date(2024, 5, 1 + i) for i in t],
        lambda t: np.array(t, "datetime64[h]"),
        lambda t: pd.Series(pd.to_datetime([HOURS[i] for i in t], utc=True), index=list("abcdef")),
        lambda t: pd.Series([pd.Timedelta(hours=i) for i in t]),
        lambda t: dict(zip("abcdef", [0.5 * i for i in t], strict=True)),
    ],
)
def test_times_may_be_dates(time):
    w = np.random.default_rng(0).random((20, 6))
    np.testing.assert_array_equal(Intervals(time(START), time(END))(w), Intervals(START, END)(w))


def test_an_agent_aligns_times_by_id():
    talks = pd.DataFrame({"start": START, "end": END}, index=list("abcdef"))
    shuffled = talks.sample(frac=1.0, random_state=0)
    features = pd.DataFrame(np.eye(6), index=talks.index)
    oracle = Intervals(shuffled["start"], talks["end"])
    agent = Agent(CombLinTS(), features=features, oracle=oracle, seed=0)
    for _ in range(20):
        chosen = agent.choose()
        for a, b in itertools.combinations(chosen, 2):
            assert not overlap(talks["start"], talks["end"], a, b)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ([0, 1], [1, 1], "each item must end after it starts, but 1 goes from 1 to 1"),
        ({"a": 0.0, "b": 1.0}, {"b": np.nan, "a": 1.0}, "'b' goes from 1.0 to nan"),
        ([0, 1], [1], "2 starts need as many ends, got 1"),
        (
            [],
            [],
            r"start must be a time per item, as numbers or dates, got float64 of shape \(0,\)",
        ),
        ([[0]], [[1]], r"got int64 of shape \(1, 1\)"),
        (["09:00"], ["10:00"], "start must be a time per item"),
        ([0], [[1], [1, 2]], "end must be a time per item"),
        ([0], [dt.date(2024, 5, 1)], "start and end must be of one kind"),
        ({"a": 0}, {"b": 1}, "start and end must name the same items"),
        ({"a": 0}, [1], "start and end must name the same items"),
        ([0], {"a": 1}, "start and end must name the same items"),
        (np.ma.array([0, 1], mask=[0, 1]), [1, 2], "entry 1 is masked"),
    ],
)
def test_bad_times_are_refused(start, end, message):
    with pytest.raises(ParameterError, match=message):
        Intervals(start, end)


def test_max_items_is_a_count():
    with pytest.raises(ParameterError, match="max_items must be a whole number of at least 1"):
        Intervals([0], [1], max_items=0)
    assert repr(Intervals([0], [1], max_items=3)) == "Intervals(1 items, max_items=3)"

"""Feedback on many decisions at once is what it is one decision at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import CombLinTS, CombMixTS, CombUCB1, TopK
from superarm.agent import Decision
from superarm.agent import feedback as by_decision
from superarm.agent.growing import Growing
from superarm.agent.state import started, with_items, without_items
from superarm.contexts import Outer
from superarm.errors import DecisionError
from superarm.service.events import Decided, Matrix, Seen
from superarm.service.observed import features_of, feedback_of, noted

D = 3
ITEMS = {"numbers": list(range(8)), "others": [3, 1, 4, 15, 9, 2, 6, 5], "text": list("abcdefgh")}
LEARNERS = (CombLinTS(), CombMixTS(), CombUCB1())
IN_CONTEXT = "in a context"


def state_of(learner, kind, gap=False):
    """An agent with eight items, of which one was removed if there is a gap."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((8, D))
    if kind == IN_CONTEXT:
        return started(learner, Outer(rows)(np.ones(2)), TopK(2), ITEMS["text"])
    state = started(learner, rows, TopK(2), ITEMS[kind])
    return without_items(state, ITEMS[kind][2:3], None) if gap else state


@st.composite
def decisions(draw, kind):
    """What was decided, and what was seen of it."""
    ids = ITEMS["text" if kind == IN_CONTEXT else kind]
    unknown = 99 if isinstance(ids[0], int) else "zz"
    items = draw(st.lists(st.sampled_from([*ids, unknown]), min_size=1, max_size=4, unique=True))
    places = draw(st.sets(st.sampled_from(range(len(items))), min_size=1).map(sorted))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    features = rng.standard_normal((len(items), D))
    if draw(st.booleans()):
        features = features.astype(np.float32)
    if draw(st.booleans()) and kind != IN_CONTEXT:  # as they are now
        now = state_of(CombLinTS(), kind).problem.Phi
        known = [place for place in range(len(items)) if items[place] in ids]
        features[known] = now[[ids.index(items[place]) for place in known]]
    importance = None
    if draw(st.booleans()):
        importance = rng.random(len(places)).tolist()
    context = rng.standard_normal(2).tolist() if kind == IN_CONTEXT else None
    made = Decided("token", items, Matrix.of(features), 7, 1, context)
    return made, Seen(draw(st.integers(1, 9)), places, rng.random(len(places)).tolist(), importance)


def one_by_one(state, found):
    """Feedback by the library's own records."""
    parts = []
    for one in found:
        record = Decision("id", tuple(one.made.items), features_of(one.made, state), "", 7)
        observed = by_decision.Observed(record, one.places, np.array(one.w), np.array(one.v))
        parts.append(by_decision.of_decision(state, observed))
    return by_decision.together(parts)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("kind", [*ITEMS, IN_CONTEXT])
@given(data=st.data())
@settings(max_examples=50)
def test_together_as_one_by_one(learner, kind, data):
    if kind == IN_CONTEXT and isinstance(learner, CombMixTS):
        learner = CombMixTS(contexts=True)
    state = state_of(learner, kind, gap=data.draw(st.booleans()))
    found = []
    for made, seen in data.draw(st.lists(decisions(kind), min_size=1, max_size=5)):
        found += noted(state, made, seen, {})
    if not found:
        return
    for there, expected in zip(feedback_of(state, found), one_by_one(state, found), strict=True):
        np.testing.assert_array_equal(there, expected, strict=True)


def test_what_was_corrected_is_what_was_seen():
    state = state_of(CombLinTS(), "text")
    made = Decided("token", ["a", "b"], Matrix.of(np.ones((2, D))), 7, 1)
    seen = Seen(5, [0, 1], [0.25, 0.5], [2.0, 3.0])
    truth = {(5, 1): (0.75, None), (4, 0): (9.0, 9.0)}
    ((_, places, w, v),) = noted(state, made, seen, truth)
    assert (places, w, v) == ([0, 1], [0.25, 0.75], [2.0, 3.0])
    ((_, _, w, v),) = noted(state, made, seen, {(5, 0): (1.0, 4.0)})
    assert (w, v) == ([1.0, 0.5], [4.0, 3.0])


def test_decisions_of_other_features_are_refused():
    state = state_of(CombLinTS(), "text")
    fit = Decided("token", ["a"], Matrix.of(np.ones((1, D))), 7, 1)
    wide = Decided("token", ["a"], Matrix.of(np.ones((1, D + 1))), 7, 1)
    seen = Seen(5, [0], [1.0])
    found = [*noted(state, fit, seen, {}), *noted(state, wide, seen, {})]
    with pytest.raises(DecisionError, match="4 features, not 3"):
        feedback_of(state, found)


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("kind", ITEMS)
def test_places_of_many_items(kind, gap):
    state = state_of(CombLinTS(), kind, gap)
    more = with_items(state, np.ones((1, D)), [20] if kind != "text" else ["t"], None, Growing())
    for catalogue in (state.catalogue, more.catalogue):
        asked = [*ITEMS[kind], *ITEMS[kind][:2], -1, 8, 20, "a", "t", True, 1.0, None]
        expected = [catalogue.get(item) for item in asked]
        assert catalogue.get_each(asked).tolist() == expected
        assert catalogue.get_each(asked[:12]).tolist() == expected[:12]
    assert catalogue.get_each([]).tolist() == []

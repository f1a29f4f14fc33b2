"""What was observed of decisions, in terms of the items and features that there are by now; that of
many decisions at once, so that each costs little.
"""

from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from superarm.agent.state import State
from superarm.arrays import Array, Features, take_rows
from superarm.checks import check_features
from superarm.contexts import InContext, remade
from superarm.contracts import Feedback
from superarm.errors import DecisionError
from superarm.service.events import Decided, Id, Matrix, Seen

Corrections: TypeAlias = dict[tuple[int, int], tuple[float, float | None]]
"""True weights, and importance where that was corrected too, by decision and place."""


class Noted(NamedTuple):
    """What was observed at places of a decision, as it is known to be true."""

    made: Decided
    places: list[int]
    w: list[float]
    v: list[float]  # importance


def noted(state: State, made: Decided, seen: Seen, truth: Corrections) -> list[Noted]:
    """What was observed of a decision, as it is known to be true; nothing if all of it is of items
    of which nothing can be learned.
    """
    importance = seen.importance or [1.0] * len(seen.places)
    if state.learner.model.uses_features and not truth:
        return [Noted(made, seen.places, seen.weights, importance)]
    found = Noted(made, [], [], [])
    for place, said, share in zip(seen.places, seen.weights, importance, strict=True):
        weight, corrected = truth.get((seen.decision, place), (said, None))
        if is_known(state, made.items[place]):
            found.places.append(place)
            found.w.append(weight)
            found.v.append(share if corrected is None else corrected)
    return [found] if found.places else []


def is_known(state: State, item: Id) -> bool:
    """Whether anything can be learned of an item: if it is gone, from its features alone."""
    return bool(state.learner.model.uses_features) or state.catalogue.get(item) >= 0


def feedback_of(state: State, found: list[Noted]) -> Feedback:
    """Feedback on decisions as one.

    What is known about an item itself grows only if it still is what it was.
    """
    model = state.learner.model
    A = state.catalogue.get_each([one.made.items[place] for one in found for place in one.places])
    w = np.array(list(chain.from_iterable(one.w for one in found)))
    v = np.array(list(chain.from_iterable(one.v for one in found)))
    if not model.uses_features:
        return Feedback(A, np.zeros((len(A), state.problem.d)), w, v, len(found))
    rows = check_features(_rows(state, found))
    if model.fixed_features:
        same = take_rows(state.problem.Phi, A) == rows
        A = np.where(same.all(axis=-1), A, -1)
    return Feedback(A, rows, w, v, len(found))


def _rows(state: State, found: list[Noted]) -> Array:
    """The features of the items that were observed, then: (n, d)."""
    kinds = {one.made.features.kind for one in found}
    if isinstance(state.problem.Phi, InContext) or len(kinds) > 1:
        each = [features_of(one.made, state) for one in found]
        _require_width(state, [features.shape for features in each])
        observed = zip(each, found, strict=True)
        return np.concatenate([np.asarray(features[one.places]) for features, one in observed])
    _require_width(state, [one.made.features.shape for one in found])
    sizes = [len(one.made.items) for one in found]
    data = b"".join([one.made.features.data for one in found])
    rows = Matrix(kinds.pop(), (sum(sizes), state.problem.d), data).array()
    starts = np.cumsum([0, *sizes[:-1]])
    first = np.repeat(starts, [len(one.places) for one in found])
    places = first + [place for one in found for place in one.places]
    return rows if len(places) == len(rows) and (np.diff(places) == 1).all() else rows[places]


def _require_width(state: State, shapes: list[tuple[int, ...]]) -> None:
    d = state.problem.d
    for shape in shapes:
        if shape[1] != d:
            raise DecisionError(f"this decision is of items with {shape[1]} features, not {d}")


def features_of(made: Decided, state: State) -> Features:
    """The features of the chosen items, then."""
    rows = made.features.array()
    own = state.problem.Phi
    if not isinstance(own, InContext):
        return rows
    x = np.array(made.context or [])
    return remade(own.made, own.made.side(rows), x, own.x_names, own.item_names)

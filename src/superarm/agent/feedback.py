"""Feedback in terms of the items and features that there are by now: on items, on records of
decisions, on one or on many at once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.asked import problem_of
from superarm.agent.decisions import Decision, Ledger
from superarm.agent.state import State
from superarm.arrays import Array, take_rows
from superarm.checks import (
    are_plain_feedback,
    centered_statistics,
    check_features,
    check_feedback,
    check_importance,
)
from superarm.checks.tables import align_by_item, align_columns, as_mapping
from superarm.contexts import as_table
from superarm.contracts import Feedback, Statistics
from superarm.errors import DecisionError, FeaturesError, ItemsError, ParameterError, WeightsError

NOWHERE = np.full(1000, -1)
"""The places of rows that are of no item in particular."""
NOWHERE.flags.writeable = False


class Observed(NamedTuple):
    """Places of a decision, and what was observed there."""

    decision: Decision
    places: list[int]
    w: Array
    importance: Array | float
    times: Array | float = 1.0
    within: Array | float = 0.0


class Shown(NamedTuple):
    """What items or rows showed, in their order: weights, or the means of many."""

    w: Array
    importance: Array | float
    times: Array | float = 1.0
    within: Array | float = 0.0


def shown(weights: Any, importance: Any, items: list[Any]) -> Shown:
    """Weights or `Statistics`, by item or in the order of the items, and how often each counts."""
    if not isinstance(weights, Statistics):
        w = check_feedback(align_by_item(weights, items), len(items), "item")
        return Shown(w, importance_of(importance, items, w))
    return _summed(
        Statistics(*(align_by_item(each, items) for each in weights)), importance, len(items)
    )


def _summed(statistics: Statistics, importance: Any, n: int) -> Shown:
    if importance is not None:
        raise ParameterError(
            "statistics say by n how often their weights count: leave importance out"
        )
    means = centered_statistics(*statistics)
    if means.w.shape != (n,):
        raise WeightsError(f"statistics need {n} numbers each, got shape {means.w.shape}")
    return Shown(means.w, means.n, means.n, means.residual_ss)


def _feedback(state: State, A: Array, rows: Array, of: Shown) -> Feedback:
    """What items with these feature rows showed; statistics only if the model learns from them."""
    feedback = Feedback(
        A, rows, of.w, of.importance, n_observations=of.times, residual_ss=of.within
    )
    if feedback.is_summed and not state.learner.model.takes_statistics:
        raise ParameterError(
            f"{type(state.learner).__name__} cannot learn from statistics: its model has no "
            "attribute takes_statistics, see superarm.contracts.Model; give means with importance n"
        )
    return feedback


def of_items(state: State, items: Any, weights: Any, features: Any, importance: Any) -> Feedback:
    """Feedback on items as they are now, or as they were in the context of a call."""
    problem = problem_of(state, features)
    if problem.batch:
        return _of_users(state._replace(problem=problem), items, weights, importance)
    A = state.catalogue.positions(items)
    ids = state.catalogue.ids_of(A).tolist()
    of = shown(weights, importance, ids)
    return _feedback(state, A, take_rows(problem.Phi, A), of)


def _of_users(state: State, items: Any, weights: Any, importance: Any) -> Feedback:
    """Feedback on the items of many users, each with features of their own."""
    problem = state.problem
    (n,) = problem.batch
    shares = many(n, importance)
    for what, given in (("items", items), ("weights", weights)):
        if not isinstance(given, Sequence | np.ndarray) or len(given) != n:
            raise ItemsError(f"features of {n} users need {n} lists of {what}, got {given!r:.100}")
    parts = []
    for i in range(n):
        own = state._replace(problem=problem._replace(Phi=problem.Phi[i]))
        parts.append(of_items(own, items[i], weights[i], None, shares[i]))
    return together(parts)


def many(n: int, importance: Any) -> list[Any]:
    """The importance for each of n decisions: one number for all, or a list of n."""
    if not isinstance(importance, Sequence | np.ndarray):
        return [importance] * n
    if len(importance) != n:
        raise ParameterError(
            f"importance must be one number, or one entry for each of {n} decisions"
        )
    return list(importance)


def together(parts: Sequence[Feedback]) -> Feedback:
    """All feedback as one."""
    summed = {}
    if any(part.is_summed for part in parts):
        summed["n_observations"] = _each([part.n_observations for part in parts], parts)
        summed["residual_ss"] = _each([part.residual_ss for part in parts], parts)
    return Feedback(
        np.concatenate([part.A for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.w for part in parts]),
        _each([part.importance for part in parts], parts),
        episodes=len(parts),
        **summed,
    )


def _each(values: Sequence[Array | float], parts: Sequence[Feedback]) -> Array:
    """One value per weight of all parts, each of which has one per weight, or one."""
    pairs = zip(values, parts, strict=True)
    return np.concatenate([np.broadcast_to(value, part.w.shape) for value, part in pairs])


def importance_of(importance: Any, items: list[Any], w: Array) -> Array | float:
    """How often each of the weights counts, in the order of the items."""
    if importance is None:
        return 1.0
    return check_importance(align_by_item(importance, items), w)


def is_decisions(items: Any) -> bool:
    """Whether these are a decision, or a list of them, and not items."""
    first = items[0] if isinstance(items, list | tuple) and items else items
    return isinstance(first, Decision)


def observed(decision: Decision, weights: Any, importance: Any) -> Observed:
    """What was observed of a decision, checked."""
    some = as_mapping(weights.n if isinstance(weights, Statistics) else weights)
    places = decision.places(decision.items if some is None else some)
    items = [decision.items[place] for place in places]
    return Observed(decision, places, *shown(weights, importance, items))


def observed_of(decisions: Any, weights: Any, importance: Any) -> list[Observed]:
    """What was observed of a decision, or of many."""
    if isinstance(decisions, Decision):
        return [observed(decisions, weights, importance)]
    for decision in decisions:
        if not isinstance(decision, Decision):
            raise DecisionError(f"all must be decisions, got {decision!r:.100}")
    if not isinstance(weights, Sequence | np.ndarray) or len(weights) != len(decisions):
        raise WeightsError(
            f"{len(decisions)} decisions need a list of as many weights: numbers or a mapping each"
        )
    shares = many(len(decisions), importance)
    given = zip(decisions, weights, shares, strict=True)
    return [observed(*each) for each in given]


def refuse_repeated(ledger: Ledger, found: Sequence[Observed]) -> None:
    """Refuse what was observed before, or is there twice."""
    seen: set[tuple[str, int]] = set()
    for decision, places, *_ in found:
        ledger.refuse_observed(decision, places)
        for place in places:
            if (decision.id, place) in seen:
                raise DecisionError(
                    f"item {decision.items[place]!r} of decision {decision.id} is there twice"
                )
            seen.add((decision.id, place))


def of_decision(state: State, found: Observed) -> Feedback:
    """Feedback on a decision in terms of the items and features that there are by now.

    What is known about an item itself grows only if it still is what it was.
    """
    decision = found.decision
    places = found.places
    of = Shown(found.w, found.importance, found.times, found.within)
    catalogue = state.catalogue
    model = state.learner.model
    d = state.problem.d
    items = [decision.items[place] for place in places]
    A = np.array([catalogue.get(item) for item in items], dtype=np.int64)
    if not model.uses_features:
        if A.min(initial=0) < 0:
            raise ItemsError(
                f"item {items[A.argmin()]!r} of this decision is not one of "
                f"the {catalogue.n} items, and {type(state.learner).__name__} learns of "
                "items alone: give a mapping from the others to their weights"
            )
        return _feedback(state, A, np.zeros((len(A), d)), of)
    width = decision.features.shape[1]
    if width != d:
        raise DecisionError(f"this decision is of items with {width} features, not {d}")
    rows = np.asarray(decision.features[places])
    rows = check_features(rows[:, align_columns(decision.names, catalogue.names, DecisionError)])
    if model.fixed_features:
        same = take_rows(state.problem.Phi, A) == rows
        A = np.where(same.all(axis=-1), A, -1)
    if model.per_item and np.ndim(of.times):
        of = _of_single_items(of, A < 0)
    return _feedback(state, A, rows, of)


def _of_single_items(of: Shown, gone: Array) -> Shown:
    """What items showed, where a mean of an item that is gone is one observation of it, as precise
    as many: what such an item adds of its own is the same in all of them.
    """
    return of._replace(times=np.where(gone, 1.0, of.times), within=np.where(gone, 0.0, of.within))


def of_rows(state: State, rows: Any, weights: Any, importance: Any) -> Feedback:
    """Feedback on logged rows, of items that need not be there."""
    require_features(state)
    if not are_plain_feedback(rows, weights, state.problem.d):
        rows, weights = _checked(state, rows, weights)
    nowhere = _nowhere(len(rows))
    if isinstance(weights, Statistics):
        return _feedback(state, nowhere, rows, _summed(weights, importance, len(rows)))
    v = 1.0 if importance is None else check_importance(importance, weights)
    return Feedback(nowhere, rows, weights, v)


def _nowhere(n: int) -> Array:
    """`NOWHERE` of n rows."""
    if n <= len(NOWHERE):
        return NOWHERE[:n]
    places = np.full(n, -1)
    places.flags.writeable = False
    return places


def _checked(state: State, rows: Any, weights: Any) -> tuple[Array, Any]:
    """Logged rows as features of the agent, and their weights or `Statistics`."""
    d = state.problem.d
    values = state.catalogue.columns(as_table(rows))
    try:
        shape = np.shape(values)
    except ValueError as error:
        raise FeaturesError(f"rows must be numbers of shape (n, {d}) ({error})") from error
    if shape[1:] != (d,) and shape != (0,):
        raise FeaturesError(f"rows must have shape (n, {d}), got {shape}")
    n = shape[0]
    Phi = check_features(values) if n else np.empty((0, d))
    if isinstance(weights, Statistics):
        return Phi, weights
    return Phi, check_feedback(weights, n, "row")


def require_features(state: State) -> None:
    """Refuse a learner that knows nothing of features."""
    if not state.learner.model.uses_features:
        raise FeaturesError(
            f"{type(state.learner).__name__} learns one item at a time, and nothing from "
            "features: use observe()"
        )

"""What agents know together, after a time, or to begin with."""

from datetime import timedelta

import numpy as np

from superarm.agent.state import State, require_scores
from superarm.checks import is_real
from superarm.contexts import alike
from superarm.errors import FeaturesError, ItemsError, ParameterError
from superarm.gaussian import MIN_KEEP


def merged(own: State, other: State) -> State:
    """All that two agents learned, each from the prior."""
    if own.learner != other.learner:
        raise ParameterError(
            f"merging needs the same learner, got {own.learner} and {other.learner}"
        )
    require_same_features(own, other)
    model = own.learner.model
    if model.per_item and not np.array_equal(own.catalogue.ids, other.catalogue.ids):
        raise ItemsError("merging what was learned of items needs the same items in the same order")
    if model.fixed_features and not alike(own.problem.Phi, other.problem.Phi):
        raise FeaturesError("merging how items deviate from their features needs the same features")
    belief = model.merge(own.belief, other.belief, own.problem)
    require_scores(own, belief)
    return own._replace(belief=belief)


def require_same_features(own: State, other: State) -> None:
    """Refuse agents that learn from other features."""
    same_names = own.catalogue.names == other.catalogue.names
    if own.problem.d != other.problem.d or not same_names:
        raise FeaturesError("merging needs the same features")


def started_from(own: State, other: State, discount: float) -> State:
    """An agent that has learned nothing yet, with `discount` times what another one learned."""
    if not (is_real(discount) and 0 < discount <= 1):
        raise ParameterError(f"discount must lie in (0, 1], got {discount!r}")
    if own.learner != other.learner:
        raise ParameterError(
            f"a prior needs the same learner, got {own.learner} and {other.learner}"
        )
    require_same_features(own, other)
    model = own.learner.model
    past = model.forget(other.belief, other.problem, discount)
    source = np.array([other.catalogue.get(item) for item in own.catalogue.ids.tolist()])
    belief = model.resize(past, other.problem, own.problem, source)
    require_scores(own, belief)
    return own._replace(belief=belief)


NOTICED = 1 / 64
"""The share of the past that must have faded before anything is done about it."""


def aged(state: State, elapsed: timedelta, half_life: timedelta) -> State:
    """What was learned, after a time in which it fades; the same state if that was short."""
    forward = max(elapsed, timedelta())  # a clock may be set back
    keep = max(0.5 ** (forward / half_life), MIN_KEEP)
    if keep > 1 - NOTICED:
        return state
    belief = state.learner.model.forget(state.belief, state.problem, keep)
    return state._replace(belief=belief)


def require_half_life(half_life: timedelta | None, state: State) -> None:
    """Refuse a half-life that is no positive time, or a model that cannot fade."""
    if half_life is None:
        return
    if not isinstance(half_life, timedelta) or half_life <= timedelta():
        raise ParameterError(
            f"half_life must be a positive datetime.timedelta, got {half_life!r:.100}"
        )
    state.learner.model.forget(state.belief, state.problem, 1.0)  # which some models refuse

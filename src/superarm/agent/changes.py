"""What several agents know together."""

import numpy as np

from superarm.agent.state import State
from superarm.contexts import alike
from superarm.contracts import features_stay, method_of
from superarm.errors import FeaturesError, ItemsError, ParameterError


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
    if features_stay(model) and not alike(own.problem.Phi, other.problem.Phi):
        raise FeaturesError("merging how items deviate from their features needs the same features")
    merge = method_of(model, "merge")
    return own._replace(belief=merge(own.belief, other.belief, own.problem))


def require_same_features(own: State, other: State) -> None:
    """Refuse agents that learn from other features."""
    same_names = own.catalogue.names == other.catalogue.names
    if own.problem.d != other.problem.d or not same_names:
        raise FeaturesError("merging needs the same features")

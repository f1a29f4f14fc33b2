"""Checks of numbers, features, weights and items, with errors that say what is needed."""

from superarm.checks.features import (
    are_plain_feedback,
    as_features,
    check_features,
)
from superarm.checks.numbers import (
    as_array,
    as_numbers,
    as_weights,
    check_feedback,
    check_importance,
    check_weights,
    fault_of_set,
    first_repeated,
    is_real,
    is_whole,
    positive_each,
    raise_bad_weight,
    require_count,
    require_positive,
    require_scale,
    require_unmasked,
    sum_of_squares_is_finite,
)
from superarm.checks.statistics import (
    CenteredStatistics,
    centered_statistics,
    require_unit,
)

__all__ = [
    "CenteredStatistics",
    "are_plain_feedback",
    "as_array",
    "as_features",
    "as_numbers",
    "as_weights",
    "centered_statistics",
    "check_features",
    "check_feedback",
    "check_importance",
    "check_weights",
    "fault_of_set",
    "first_repeated",
    "is_real",
    "is_whole",
    "positive_each",
    "raise_bad_weight",
    "require_count",
    "require_positive",
    "require_scale",
    "require_unit",
    "require_unmasked",
    "sum_of_squares_is_finite",
]

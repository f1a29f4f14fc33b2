"""Labels of tables of pandas or polars, of series and of mappings, without importing a library.

Values with labels are always matched by them: columns by name, rows and values by id. A pandas
object has an index, so its order does not matter. A list, an array or a polars column has no
labels, so it goes by order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from superarm.arrays import Array, is_tensor, to_numpy
from superarm.checks.numbers import first_repeated, require_unmasked
from superarm.errors import FeaturesError, MaskError, SuperarmError, WeightsError

Names: TypeAlias = tuple[str, ...] | None
"""The names of the features; None if they have none."""
Mismatch: TypeAlias = Callable[[list[Any], list[Any]], Exception]
"""Makes the error from the missing labels and the unknown labels."""

INDEX_HINT = "a pandas object goes by its index; if it is in the right order, give .to_numpy()"
"""Part of errors about an index with other labels."""


class Table(NamedTuple):
    """Features with the ids of their rows and the names of their columns, if they have any."""

    values: Any  # the numbers of a data frame; anything else unchanged
    ids: Any = None
    names: Names = None

    @classmethod
    def of(cls, features: Any) -> "Table":
        """The table in a data frame; anything else without ids and names.

        >>> import numpy as np
        >>> from superarm.checks.tables import Table
        >>> Table.of(np.eye(2)).names is None
        True
        """
        if type(features) is np.ndarray:  # first, as all feedback comes through here
            return cls(features)
        if isinstance(features, Table):
            return features
        if not (hasattr(features, "columns") and hasattr(features, "to_numpy")):
            return cls(to_numpy(features) if is_tensor(features) else features)
        names = tuple(map(str, features.columns))
        if len(set(names)) < len(names):
            raise FeaturesError(f"feature {first_repeated(names)!r} is there twice")
        columns = [_column_numbers(features[name], str(name)) for name in features.columns]
        values = np.column_stack(columns) if columns else np.empty((len(features), 0))
        return cls(values, pandas_index(features), names)


def _column_numbers(column: Any, name: str) -> Array:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        raise FeaturesError(
            f"feature {name!r} is {values.dtype}, not numbers without gaps: leave it out, fill it, "
            "or turn categories into numbers with superarm.contexts.hashed"
        )
    return values


# --- labels ---------------------------------------------------------------------------------------


def pandas_index(x: Any) -> Any:
    """The index of a pandas object; None for anything else."""
    index = getattr(x, "index", None)
    if callable(index) or not hasattr(x, "to_numpy"):
        return None
    return index


def as_mapping(
    x: Any,
    error: type[SuperarmError] = WeightsError,
) -> Mapping[Any, Any] | None:
    """A mapping from labels to values: a mapping itself, or a pandas Series; None for anything
    else.

    >>> import pandas as pd
    >>> from superarm.checks.tables import as_mapping
    >>> as_mapping(pd.Series([0.5, 0.1], index=["b", "a"]))
    {'b': 0.5, 'a': 0.1}
    >>> as_mapping([0.5, 0.1]) is None
    True
    """
    if isinstance(x, Mapping):
        return x
    index = pandas_index(x)
    if index is None:
        return None
    if not index.is_unique:
        raise error("a series must have the items as its index, each once")
    return dict(zip(index.tolist(), x.tolist(), strict=True))


def split_labels(x: Any, error: type[SuperarmError]) -> tuple[Any, list[Any] | None]:
    """Values and their labels, of a mapping or a pandas Series; None for labels of anything else.
    Masked values are refused.

    >>> from superarm.errors import ParameterError
    >>> split_labels({"b": 2.0, "a": 1.0}, ParameterError)
    ([2.0, 1.0], ['b', 'a'])
    >>> split_labels([2.0, 1.0], ParameterError)
    ([2.0, 1.0], None)
    """
    try:
        mapping = as_mapping(require_unmasked(x), error)
    except ValueError as fault:
        raise error(str(fault)) from fault
    if mapping is None:
        return x, None
    return list(mapping.values()), list(mapping)


def require_unlabelled(what: str, x: Any, error: type[SuperarmError]) -> None:
    """Refuse a table or a series where there are no labels to align it with.

    >>> require_unlabelled("features", [[1.0], [2.0]], FeaturesError)
    """
    if pandas_index(x) is not None or Table.of(x).names is not None:
        raise error(
            f"{what} go by their order here, and a {type(x).__name__} by its names: put it "
            "into that order, and give .to_numpy()"
        )


# --- alignment ------------------------------------------------------------------------------------


def permutation(labels: Sequence[Any], target: Sequence[Any], mismatch: Mismatch) -> Any:
    """The index that puts labels into the order of the target; both must have the same labels.

    >>> permutation(["b", "a"], ["a", "b"], lambda missing, unknown: KeyError(missing))
    array([1, 0])
    """
    if labels == target:
        return slice(None)
    positions = {label: i for i, label in enumerate(labels)}
    require_same_labels(positions, target, mismatch)
    order = [positions[label] for label in target]
    return np.array(order, dtype=np.int64)


def align(x: Any, target: Sequence[Any], mismatch: Mismatch) -> Any:
    """Values in the order of the target, by their labels if they have any; else unchanged.

    >>> align({"b": 2.0, "a": 1.0}, ["a", "b"], lambda missing, unknown: KeyError(missing))
    [1.0, 2.0]
    """
    mapping = as_mapping(x)
    if mapping is None:
        return x
    require_same_labels(mapping, target, mismatch)
    return [mapping[label] for label in target]


def require_same_labels(
    labels: Mapping[Any, Any], target: Sequence[Any], mismatch: Mismatch
) -> None:
    """Refuse labels that are not the same as the target's."""
    expected = set(target)
    if labels.keys() == expected:
        return

    missing = [label for label in target if label not in labels]
    unknown = [label for label in labels if label not in expected]
    raise mismatch(missing, unknown)


def align_columns(
    names: Names,
    target: Names,
    error: type[SuperarmError] = FeaturesError,
) -> Any:
    """The index that puts columns into the order of the target names; columns stay where they are
    if either has no names.
    """
    if names is None or target is None:
        return slice(None)

    def mismatch(missing: list[str], unknown: list[str]) -> Exception:
        first = min(missing + unknown)
        fault = "missing" if first in missing else "not one of those learned from"
        return error(f"feature {first!r} is {fault}")

    return permutation(names, target, mismatch)


def align_by_item(x: Any, items: Sequence[Any]) -> Any:
    """Weights or importance in the order of the items, by item if they have labels."""

    def mismatch(missing: list[Any], unknown: list[Any]) -> WeightsError:
        return WeightsError(
            "values by item must have exactly these items as labels"
            + (f"; {INDEX_HINT}" if pandas_index(x) is not None else "")
        )

    return align(x, items, mismatch)


def align_alike(
    x: Any,
    ids: list[Any] | None,
    what: str,
    error: type[SuperarmError],
) -> Any:
    """Values in the order of the ids of others; both have labels, or neither. `what` names both in
    an error.

    >>> from superarm.errors import ParameterError
    >>> align_alike({"a": 1.0, "b": 2.0}, ["b", "a"], "costs and sizes", ParameterError)
    [2.0, 1.0]
    """

    def mismatch(missing: list[Any], unknown: list[Any]) -> Exception:
        return error(f"{what} must name the same items, or both be in their order")

    values, labels = split_labels(x, error)
    if labels is None and ids is None:
        return values
    if labels is None or ids is None:
        raise mismatch([], [])

    order = permutation(labels, ids, mismatch)
    return values if isinstance(order, slice) else [values[i] for i in order]


def as_mask(available: Any, expected: str, *shapes: tuple[int, ...]) -> Array:
    """Booleans of one of the shapes; `expected` describes them in an error."""
    try:
        mask = np.asarray(require_unmasked(available))
    except ValueError as error:
        raise MaskError(f"available must be {expected} ({error})") from error
    if mask.dtype != np.bool_ or mask.shape not in shapes:
        raise MaskError(f"available must be {expected}, got {mask.dtype} of shape {mask.shape}")
    return mask

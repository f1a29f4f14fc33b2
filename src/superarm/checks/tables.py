"""Tables of pandas or polars, needing neither: rows by id, columns by name.

What carries names goes by them, always. A pandas object has an index, so it is never taken in its
order; what has no names, as a list, an array or a polars column, is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from superarm.arrays import Array, is_tensor, to_numpy
from superarm.checks import first_repeated, require_unmasked
from superarm.errors import FeaturesError, MaskError, SuperarmError, WeightsError

Names: TypeAlias = tuple[str, ...] | None
"""The names of the features; None if they have none."""

IN_ORDER = "a pandas object goes by its index; if it is in the right order, give .to_numpy()"
"""What an error says of an index that names other things than it should."""


class Table(NamedTuple):
    """Features as they were given, with the ids of the rows and the names of the columns if any."""

    values: Any  # the numbers of a data frame; anything else as it is
    ids: Any = None
    names: Names = None


def of_frame(features: Any) -> Table:
    """A data frame taken apart into a table; anything else as its values.

    >>> import numpy as np
    >>> from superarm.checks.tables import of_frame
    >>> of_frame(np.eye(2)).names is None
    True
    """
    if type(features) is np.ndarray:  # first, as this is on the way of all feedback
        return Table(features)
    if isinstance(features, Table):
        return features
    if not (hasattr(features, "columns") and hasattr(features, "to_numpy")):
        return Table(to_numpy(features) if is_tensor(features) else features)
    names = tuple(map(str, features.columns))
    if len(set(names)) < len(names):
        raise FeaturesError(f"feature {first_repeated(names)!r} is there twice")
    columns = [_numbers(features[column], str(column)) for column in features.columns]
    values = np.column_stack(columns) if columns else np.empty((len(features), 0))
    return Table(values, index_of(features), names)


def _numbers(column: Any, name: str) -> Array:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        raise FeaturesError(
            f"feature {name!r} is {values.dtype}, not numbers without gaps: leave it out, fill it, "
            "or turn categories into numbers with superarm.contexts.hashed"
        )
    return values


def index_of(table: Any) -> Any:
    """The index of a pandas object; None for anything else."""
    index = getattr(table, "index", None)
    if callable(index) or not hasattr(table, "to_numpy"):
        return None
    return index


def columns_of(
    given: Names,
    names: Names,
    error: type[SuperarmError] = FeaturesError,
) -> Any:
    """The index that puts the given columns into the order of the names.

    There must be a column for each name, and no other; columns without names stay where they are.
    """
    if given is None or names is None or given == names:
        return slice(None)
    odd = sorted(set(given) ^ set(names))
    if odd:
        fault = "missing" if odd[0] in names else "not one of those learned from"
        raise error(f"feature {odd[0]!r} is {fault}")
    return [given.index(name) for name in names]


def by_item(
    values: Any,
    error: type[SuperarmError] = WeightsError,
) -> Mapping[Any, Any] | None:
    """A mapping from items, or a pandas Series with an index of items, as a mapping; None for
    anything else.

    >>> import pandas as pd
    >>> from superarm.checks.tables import by_item
    >>> by_item(pd.Series([0.5, 0.1], index=["b", "a"]))
    {'b': 0.5, 'a': 0.1}
    >>> by_item([0.5, 0.1]) is None
    True
    """
    if isinstance(values, Mapping):
        return values
    index = index_of(values)
    if index is None:
        return None
    if not index.is_unique:
        raise error("a series must have the items as its index, each once")
    return dict(zip(index.tolist(), values.tolist(), strict=True))


def in_order(values: Any, items: Sequence[Any]) -> Any:
    """Values by item in the order of the items; anything else, in their order already, as it is."""
    mapping = by_item(values)
    if mapping is None:
        return values
    if mapping.keys() != set(items):
        raise WeightsError(
            "what is given by item must be given for these items: for each, and for no other"
            + (f"; {IN_ORDER}" if index_of(values) is not None else "")
        )
    return [mapping[item] for item in items]


def require_in_order(what: str, values: Any, error: type[SuperarmError]) -> None:
    """Refuse a table or a series, which goes by names, where there are none to go by.

    >>> require_in_order("features", [[1.0], [2.0]], FeaturesError)
    """
    if index_of(values) is not None or of_frame(values).names is not None:
        raise error(
            f"{what} go by their order here, and a {type(values).__name__} by its names: put it "
            "into that order, and give .to_numpy()"
        )


def named(values: Any, error: type[SuperarmError]) -> tuple[Any, list[Any] | None]:
    """Values, one per item, and the ids they go by: those of a mapping or of a pandas Series; None
    where they are in the order of the items.

    >>> from superarm.errors import ParameterError
    >>> named({"b": 2.0, "a": 1.0}, ParameterError)
    ([2.0, 1.0], ['b', 'a'])
    >>> named([2.0, 1.0], ParameterError)
    ([2.0, 1.0], None)
    """
    try:
        mapping = by_item(require_unmasked(values), error)
    except ValueError as fault:
        raise error(str(fault)) from fault
    if mapping is None:
        return values, None
    return list(mapping.values()), list(mapping)


def named_alike(
    values: Any,
    ids: list[Any] | None,
    what: str,
    error: type[SuperarmError],
) -> Any:
    """Values, one per item, in the order of the ids that others of the same items go by; as they
    are where neither go by id. `what` names both in an error.

    >>> from superarm.errors import ParameterError
    >>> named_alike({"a": 1.0, "b": 2.0}, ["b", "a"], "costs and sizes", ParameterError)
    [2.0, 1.0]
    """
    listed, own = named(values, error)
    if own is None and ids is None:
        return listed
    if own is None or ids is None or set(own) != set(ids):
        raise error(f"{what} must name the same items, or both be in their order")
    by_id = dict(zip(own, listed, strict=True))
    return [by_id[item] for item in ids]


def as_mask(available: Any, wanted: str, *shapes: tuple[int, ...]) -> Array:
    """Booleans of one of the shapes; an error says what is wanted."""
    try:
        mask = np.asarray(require_unmasked(available))
    except ValueError as error:
        raise MaskError(f"available must be {wanted} ({error})") from error
    if mask.dtype != np.bool_ or mask.shape not in shapes:
        raise MaskError(f"available must be {wanted}, got {mask.dtype} of shape {mask.shape}")
    return mask

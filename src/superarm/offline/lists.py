"""Logs as people have them, put into the order of the items: lists, arrays, series, data frames.

What carries names is aligned by them or refused; what does not is taken in its order.
"""

import numbers
from typing import Any, Literal

import numpy as np

from superarm.agent.catalogue import Catalogue
from superarm.agent.ids import as_list
from superarm.arrays import Array, Features
from superarm.checks import as_features, is_whole
from superarm.checks.tables import Table, align, as_mapping, pandas_index, require_same_labels
from superarm.contexts import InContext, as_table
from superarm.errors import FeaturesError, ItemsError, SuperarmError


def padded(rows: list[Array], fill: float) -> Array:
    """Rows of any length as one array (n, K), filled up.

    >>> import numpy as np
    >>> padded([np.array([4]), np.array([2, 3])], -1)
    array([[ 4, -1],
           [ 2,  3]])
    """
    K = max(map(len, rows))
    out = np.full((len(rows), K), fill)
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return out


def per_decision(
    what: str,
    lists: Any,
    error: type[SuperarmError],
    kind: str = "numbers",
) -> list[Any]:
    """One list or mapping per decision; single values are lists of one.

    >>> from superarm.errors import WeightsError
    >>> per_decision("weights", [1.0, 0.0], WeightsError)
    [[1.0], [0.0]]
    """
    given = lists.to_numpy() if hasattr(lists, "columns") else lists
    if isinstance(given, np.ndarray) and given.ndim > 1:
        return list(given)
    try:
        entries = list(given)
    except TypeError as fault:
        raise error(f"{what} must be a list of {kind} for each decision ({fault})") from fault
    if not entries:
        raise error(f"the log holds no {what}: it needs a list for each of one or more decisions")
    single = [isinstance(entry, str | numbers.Number | np.generic) for entry in entries]
    if all(single):
        return [[entry] for entry in entries]
    if any(single):
        raise error(
            f"decision {single.index(True)}: {what} are a single value, but those of decision "
            f"{single.index(False)} a list: give lists for all decisions, or single values for all"
        )
    return entries


def require_same_index(**tables: Any) -> None:
    """Refuse series or data frames whose rows are not of the same decisions."""
    first: Any = None
    for what, table in tables.items():
        index = pandas_index(table)
        if index is None:
            continue
        if first is not None and not np.array_equal(index, pandas_index(tables[first])):
            raise ItemsError(
                f"{first} and {what} have different indexes: take them from one data frame, "
                "or give .to_numpy() if their rows are in the same order"
            )
        first = first or what


def flat_rows(
    what: str,
    entries: list[Any],
    error: type[SuperarmError],
    kind: Literal["integers", "numbers"],
) -> list[Array]:
    """A flat array per decision."""
    try:
        rows = [np.asarray(row) for row in entries]
    except (TypeError, ValueError) as fault:
        raise error(f"{what} must be a list of {kind} for each decision ({fault})") from fault
    for i, row in enumerate(rows):
        fits = row.dtype.kind in ("iu" if kind == "integers" else "biuf")
        if row.ndim != 1 or (row.size and not fits):
            raise error(
                f"decision {i}: {what} must be a flat list of {kind}, "
                f"got {row.dtype} of shape {row.shape}"
            )
    if not any(row.size for row in rows):
        raise error(f"the log holds no {what}: it needs a list for each of one or more decisions")
    return rows


def places(entries: list[Any], known: Catalogue) -> list[Array]:
    """Where the items of each decision are, -1 for padding."""
    if known.plain:
        return flat_rows("items", entries, ItemsError, "integers")
    found = []
    for i, entry in enumerate(entries):
        try:
            found.append(_places(entry, known))
        except ItemsError as error:
            raise ItemsError(
                f"decision {i}: {error}; items must be ids of the features' rows, each once"
            ) from error
    if not any((row >= 0).any() for row in found):
        raise ItemsError("the log holds no items: it needs a list for one or more decisions")
    return found


def _places(entry: Any, known: Catalogue) -> Array:
    """Where the items of one decision are. None, NaN and -1 pad, unless an item is called -1."""
    items = as_list(entry)
    real = [place for place, item in enumerate(items) if not _is_padding(item, known)]
    out = np.full(len(items), -1)
    out[real] = known.positions([items[place] for place in real])
    return out


def _is_padding(item: Any, known: Catalogue) -> bool:
    if item is None:
        return True
    if isinstance(item, float):
        return bool(np.isnan(item))
    if not is_whole(item):
        return False
    return bool(item == -1) and known.get(-1) < 0


def rows_of(
    items: list[Any],
    what: str,
    entries: list[Any],
    error: type[SuperarmError],
) -> list[Array]:
    """A flat array of numbers per decision, one for each of its items and in their order."""
    if len(entries) != len(items):
        raise error(f"there are {what} of {len(entries)} decisions, but items of {len(items)}")
    in_their_order = [_in_order(i, what, entry, items[i], error) for i, entry in enumerate(entries)]
    rows = flat_rows(what, in_their_order, error, "numbers")
    for i, row in enumerate(rows):
        if len(row) != len(items[i]):
            raise error(
                f"decision {i} has {len(row)} {what} for {len(items[i])} items: give one per item"
            )
    return rows


def _in_order(i: int, what: str, entry: Any, items: Any, error: type[SuperarmError]) -> Any:
    """Numbers by item in the order of the items of decision i; others as they are."""
    if isinstance(entry, list | tuple | np.ndarray):
        return entry
    mapping = as_mapping(entry)
    if mapping is None:
        return entry
    names = as_list(items)

    def mismatch(missing: list[Any], unknown: list[Any]) -> Exception:
        return error(
            f"decision {i}: {what} are of {list(mapping)!r:.100}, but its items are "
            f"{names!r:.100}: give one for each, and for no other"
        )

    return align(mapping, names, mismatch)


def catalogued(features: Any, ids: Any, n: int) -> tuple[Catalogue, list[Features]]:
    """The items by their ids, and the features of each of n decisions, in the order of the items.

    Args:
        features: of all decisions or of each, as `Log.of` takes them.
        ids: of the items; None for those of a data frame, or for the numbers 0..L-1.
        n: number of decisions.
    """
    if isinstance(features, list | tuple) and any(map(_may_have_ids, features)):
        return _framed(features, ids, n)
    table = as_table(features)
    each = _each(table.values, n)
    given = table.ids if ids is None else ids
    known = Catalogue(given, each[0].shape[-2], table.names)
    if table.ids is None:
        return known, each
    return known, _each(_rows(known, table), n)


def _may_have_ids(features: Any) -> bool:
    return isinstance(features, InContext) or hasattr(features, "columns")


def _rows(known: Catalogue, table: Table) -> Any:
    """The values of a table in the order of the items, which need no ids any more."""
    values = known.rows(table)
    return values.without_ids() if isinstance(values, InContext) else values


def _framed(frames: Any, ids: Any, n: int) -> tuple[Catalogue, list[Features]]:
    """The items and the features of each decision, from a data frame or context per decision."""
    tables = [as_table(frame) for frame in frames]
    first = tables[0]
    L = np.shape(first.values)[0]
    known = Catalogue(first.ids if ids is None else ids, L, first.names)
    each = []
    for i, table in enumerate(tables):
        try:
            each.append(_rows(known, table))
        except SuperarmError as error:
            raise FeaturesError(
                f"decision {i}: its features must have the rows and columns of the first ones, "
                f"in any order ({error})"
            ) from error
    return known, _each(each, n)


def _each(features: Any, n: int) -> list[Features]:
    """Features per decision, of which there are n; those given once are held once."""
    listed = isinstance(features, list | tuple)
    if listed and any(len(getattr(Phi, "shape", ())) == 2 for Phi in features):
        each = _checked(features)
    else:
        Phi = as_features(features)
        if len(Phi.shape) not in (2, 3):
            raise FeaturesError(
                f"features must have shape (items, features) or ({n}, items, features), "
                f"got {Phi.shape}"
            )
        each = [Phi] * n if len(Phi.shape) == 2 else [Phi[i] for i in range(Phi.shape[0])]
    if len(each) != n:
        raise FeaturesError(
            f"features of {len(each)} decisions, but items of {n}: "
            "give one (items, features) for each"
        )
    return each


def _checked(features: list[Any] | tuple[Any, ...]) -> list[Features]:
    """The features per decision; each array is checked once, however often it occurs."""
    checked: dict[int, Features] = {}
    shape = np.shape(features[0])
    for i, Phi in enumerate(features):
        if id(Phi) in checked:
            continue
        try:
            checked[id(Phi)] = as_features(Phi, shape)
        except FeaturesError as error:
            raise FeaturesError(f"decision {i}: {error}") from error
    return [checked[id(Phi)] for Phi in features]


def align_items(what: str, values: Any, ids: Array, error: type[SuperarmError]) -> Any:
    """Values per item, (L,) or (n, L), in the order of the ids; without labels unchanged.

    Args:
        what: of the values, in an error.
        values: with labels in a mapping, the index of a series or the columns of a data frame.
        ids: of the items.
        error: to raise if the labels are not the ids.

    >>> import numpy as np
    >>> from superarm.errors import ParameterError
    >>> align_items("target", {"b": 0.2, "a": 0.8}, np.array(["a", "b"]), ParameterError)
    [0.8, 0.2]
    """

    def mismatch(missing: list[Any], unknown: list[Any]) -> Exception:
        first = (unknown + missing)[0]
        return error(
            f"{what} must name each of the {len(ids)} items once and nothing else: "
            f"see {first!r:.100}; or give .to_numpy() in the order of the items"
        )

    items = ids.tolist()
    if not hasattr(values, "columns"):
        return align(values, items, mismatch)
    require_same_labels(dict.fromkeys(values.columns), items, mismatch)
    return values[items].to_numpy()

"""What callers give to an agent whose catalogue is in shards, checked."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from superarm.agent.feedback import shown
from superarm.arrays import Array
from superarm.checks import (
    as_array,
    as_numbers,
    check_features,
    fault_of_set,
    require_count,
    require_unmasked,
)
from superarm.checks.tables import require_unlabelled
from superarm.cluster.columns import added_columns
from superarm.cluster.heads import Choice, Later
from superarm.contexts import Concatenated, Outer
from superarm.contracts import Feedback, Learner, Statistics, require_learner
from superarm.errors import (
    FeaturesError,
    InfeasibleError,
    ItemsError,
    OracleError,
    ParameterError,
    WeightsError,
)
from superarm.oracles.base import as_oracle

# --- where an agent is made -----------------------------------------------------------------------


def require_contexts(contexts: Any) -> None:
    """Refuse what is not a kind of contexts."""
    if not any(contexts is kind for kind in (None, Outer, Concatenated)):
        raise ParameterError(
            "contexts must be the class superarm.contexts.Outer or Concatenated itself, or None, "
            f"got {contexts!r:.100}"
        )


def require_by_features(learner: Learner) -> None:
    """Refuse a learner that does not know items by their features."""
    require_learner(learner)
    if not learner.model.uses_features:
        raise ParameterError(
            f"{type(learner).__name__} learns about items one by one, without features: it has "
            "nothing to say about the items of a catalogue that is too large for one machine"
        )


def require_parts(oracle: Any, L: int) -> None:
    """Refuse an oracle that cannot be solved by parts, or is for another number of items."""
    solver = as_oracle(oracle)
    by_parts = solver.exchanges and solver.sense > 0
    if not by_parts or solver.part(slice(0, 1)) is None:
        raise OracleError(
            f"{oracle} cannot be solved by parts: use TopK, Quota, PartitionMatroid, "
            "LaminarMatroid or Matroid"
        )
    if solver.L not in (None, L):
        raise OracleError(
            f"{oracle} is for {solver.L} items, but there are {L}: give one for all of them"
        )
    ids = solver.ids
    if ids is not None and not np.array_equal(ids, np.arange(L)):
        raise OracleError(
            f"{oracle} names its items, but here items are 0, 1, ..., {L - 1} in the order of the "
            "files: put what it was made from into that order, and give a list or an array"
        )


# --- decisions ------------------------------------------------------------------------------------


def as_items(items: Sequence[int] | Array, end: int) -> Array:
    """The numbers of items, each below `end`."""
    try:
        numbers = as_array(list(items) if isinstance(items, Set) else items)
    except ValueError as error:
        raise ItemsError(
            f"items must be a flat list of integers, got {items!r:.100} ({error})"
        ) from error
    if not numbers.size:
        return np.empty(0, np.int64)
    if numbers.ndim == 1 and numbers.dtype.kind in "iu":
        numbers = np.unique(numbers)
    if fault := fault_of_set(numbers, end):
        raise ItemsError(fault)
    return numbers.astype(np.int64)


def as_exclude(exclude: Any, end: int) -> list[Array] | None:
    """The items that may not be chosen, for each call; None if nothing is given."""
    if exclude is None:
        return None
    is_array = isinstance(exclude, np.ndarray) and exclude.ndim > 0
    is_list = isinstance(exclude, Sequence) and not isinstance(exclude, str | bytes)
    if not is_array and not is_list:
        raise ItemsError(
            f"exclude must be a list with a list of items for each call, got {exclude!r:.100}"
        )
    return [as_items(items, end) for items in exclude]


def as_contexts(contexts: Any, kind: Any, learner: Learner, width: int | None) -> Array | None:
    """Contexts (n, d_u) of this width for a catalogue of this kind; None if it has none."""
    if (contexts is None) != (kind is None):
        raise FeaturesError(
            "a call has a context if, and only if, the catalogue was made with contexts="
        )
    if contexts is None:
        return None
    if learner.model.fixed_features:
        raise FeaturesError(f"{type(learner).__name__} needs contexts=True for contexts")
    _require_plain("features of a context", contexts)
    try:
        x = as_numbers(contexts)
    except ValueError as error:
        raise FeaturesError(f"contexts must be numbers, one row per call ({error})") from error
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise FeaturesError(f"contexts must be finite, one row per call, got shape {x.shape}")
    if width is not None and x.shape[1] != width:
        raise FeaturesError(f"a context has {width} features, got {x.shape[1]}")
    return x


def _require_plain(what: str, rows: Any) -> None:
    """Refuse rows in tables, which go by names, and in masked arrays, whose masks a list loses."""
    for row in rows if isinstance(rows, list | tuple) else [rows]:
        require_unlabelled(what, row, FeaturesError)
        try:
            require_unmasked(row)
        except ValueError as error:
            raise FeaturesError(f"{what} must be known ({error})") from error


def number_of_calls(n: int | None, *lists: Any) -> int:
    """How many calls there are, which n and all lists must agree on; 1 if nothing says."""
    counts = {len(each) for each in lists if each is not None}
    if n is not None:
        require_count(n=n)
        counts.add(n)
    if len(counts) > 1:
        raise ParameterError(f"contexts, exclude and n must be of as many calls, got {counts}")
    calls = counts.pop() if counts else 1
    if not calls:
        raise ParameterError("exclude must have a list for each call, and there must be one call")
    return calls


@contextmanager
def naming_limits(where: Mapping[str, Any], excluded: Sequence[Array]) -> Iterator[None]:
    """Where no set is feasible, the error also says what the call has left out."""
    limits = {"where": bool(where), "exclude": any(map(len, excluded))}
    given = [name for name, is_given in limits.items() if is_given]
    try:
        yield
    except InfeasibleError as error:
        if not given:
            raise
        raise InfeasibleError(f"{error}: too few are left by {' and '.join(given)}") from error


# --- feedback -------------------------------------------------------------------------------------


def as_choice(chosen: Any, end: int, d: int) -> Choice:
    """The items of a decision that are no padding, and their rows of d features."""
    if not isinstance(chosen, Choice):
        raise ItemsError(
            "observe needs the Choice that choose returned: its items, and rows with their "
            f"features; got {chosen!r:.100}"
        )
    try:
        items = as_array(chosen.items)
        rows = as_numbers(chosen.rows)
    except ValueError as error:
        raise FeaturesError(
            f"a Choice has a flat list of items, and a row of numbers for each ({error})"
        ) from error
    if rows.shape != (*items.shape, d):
        raise FeaturesError(
            f"this agent learns from rows of {d} features, one per item, but the Choice has rows "
            f"of shape {rows.shape} for items of shape {items.shape}: is it of another agent?"
        )
    if not np.isfinite(rows).all():
        raise FeaturesError("the rows of a Choice must be finite")
    there = np.ones(items.shape, bool) if items.dtype.kind not in "iu" else items != -1
    if fault := fault_of_set(items[there] if items.ndim == 1 else items, end):
        raise ItemsError(fault)
    return Choice(items[there].astype(np.int64), rows[there])


def as_feedback(items: Array, rows: Array, weights: Any, learner: Learner) -> Feedback:
    """What these items showed: weights, or `Statistics` if the learner learns from them."""
    if isinstance(weights, Statistics) and not learner.model.takes_statistics:
        raise WeightsError(
            f"{type(learner).__name__} cannot learn from statistics: give one weight per item"
        )
    of = shown(weights, None, items.tolist())
    return Feedback(
        items, rows, of.w, of.importance, n_observations=of.times, residual_ss=of.within
    )


# --- changes of the catalogue ---------------------------------------------------------------------


def as_later(
    features: Any, columns: Any, width: int, dtype: Any, types: Mapping[str, Any]
) -> Later:
    """Items to add, checked: each has `width` features that this type can hold, and an entry in
    each of the columns.
    """
    _require_plain("features", features)
    rows = check_features(features)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise FeaturesError(f"features must have shape (n, {width}), got {rows.shape}")
    with np.errstate(over="ignore"):
        held = rows.astype(dtype)
    if not np.isfinite(held).all():
        raise FeaturesError(
            f"the features of this catalogue are {dtype}: those of new items must be finite too, "
            f"up to {np.finfo(dtype).max:.2g}"
        )
    return Later(rows, added_columns({} if columns is None else columns, len(rows), types))

"""Lists of many users: ids, and what each of them was shown."""

from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Catalogue
from superarm.agent.ids import as_ids, kind
from superarm.arrays import Array
from superarm.beliefs.hyperparameters import require_squares
from superarm.beliefs.shrinkage import has_repeats
from superarm.checks import as_numbers
from superarm.checks.tables import align_by_item
from superarm.contracts import Statistics
from superarm.errors import ItemsError, WeightsError
from superarm.oracles.base import padded


class Lists(NamedTuple):
    """Items and weights of many users, -1 pads."""

    A: Array  # (n, K) positions
    w: Array  # (n, K)


def listed_users(users: Any) -> list[Any]:
    """Ids of users as a list, in their order; they are of the kinds that ids of items are."""
    if isinstance(users, str | bytes | Set) or not hasattr(users, "__len__"):
        raise ItemsError(f"users must be a list of ids, got {users!r:.100}")
    listed: list[Any] = as_ids(users, "users").tolist()
    return listed


def kind_of_users(users: list[Any]) -> str | None:
    """What ids of users, which are all of one kind, are in words; None if there are none."""
    return kind(users[0]) if users else None


def observed_lists(catalogue: Catalogue, n: int, items: Any, weights: Any) -> Lists:
    """What was observed of n users: lists of ids and of weights, checked."""
    for what, given in (("items", items), ("weights", weights)):
        if not isinstance(given, Sequence | np.ndarray) or len(given) != n:
            raise ItemsError(f"{n} users need as many lists of {what}, got {given!r:.100}")
    A = _positions(catalogue, items)
    chosen = A >= 0
    if has_repeats(A):
        raise ItemsError("an item is there twice for one user: give each once")
    w = np.zeros(A.shape)
    w[chosen] = _joined_weights(weights, items, chosen.sum(-1))
    require_squares(w)
    return Lists(A, w)


def _positions(catalogue: Catalogue, items: Any) -> Array:
    """Lists of ids as positions (n, K), -1 pads."""
    given = _as_matrix(items) if catalogue.plain else None
    if given is not None and given.dtype.kind in "iu":
        inside = (given >= 0) & (given < catalogue.L)
        if not inside.all():
            raise ItemsError(f"item {given[~inside][0]} is not one of the {catalogue.L} items")
        return given.astype(np.int64)
    return padded([catalogue.positions(row) for row in items])


def _as_matrix(lists: Any) -> Array | None:
    """Lists of one length as an array (n, K); None if they are not."""
    if isinstance(lists, np.ndarray):
        return lists if lists.ndim == 2 and not np.ma.is_masked(lists) else None
    sizes = {len(row) for row in lists if hasattr(row, "__len__")}
    plain = {type(row) for row in lists} <= {list, tuple, np.ndarray}  # masked ones are others
    if len(sizes) != 1 or not plain:
        return None
    found = np.array(lists)
    return found if found.ndim == 2 else None


def _joined_weights(weights: Any, items: Any, lengths: Array) -> Array:
    """All weights in one row, user by user in the order of their items; `lengths` of them each."""
    if not isinstance(weights, np.ndarray) and any(isinstance(x, Statistics) for x in weights):
        raise WeightsError("a population learns from weights, not from statistics of them")
    try:
        lists = _by_user(weights, items)
    except WeightsError:
        raise
    except (TypeError, ValueError) as error:
        raise WeightsError(f"weights must be numbers, one per item ({error})") from error
    shapes = np.array([row.shape[0] if row.ndim == 1 else -1 for row in lists])
    wrong = np.flatnonzero(shapes != lengths)
    if len(wrong):
        at = wrong[0]
        raise WeightsError(
            f"the user at position {at} has {lengths[at]} items, which need as many weights, "
            f"got {weights[at]!r:.100}"
        )
    joined = np.concatenate([*lists, np.empty(0)])
    if not np.isfinite(joined).all():
        raise WeightsError("weights must be finite: leave out what is unknown")
    return joined


def _by_user(weights: Any, items: Any) -> Array | list[Array]:
    """The weights of each user, in the order of the user's items."""
    given = _as_matrix(weights)
    if given is not None:
        return as_numbers(given)
    pairs = zip(weights, items, strict=True)
    return [as_numbers(align_by_item(row, of)) for row, of in pairs]


def turns(places: Array) -> Iterator[Array]:
    """The rows of a batch in turns: the first of each user, then the second of each, and so on."""
    order = np.argsort(places, kind="stable")
    new = np.append(True, places[order][1:] != places[order][:-1])
    first = np.flatnonzero(new)
    nth = np.empty(len(places), dtype=np.int64)
    nth[order] = np.arange(len(places)) - np.repeat(first, np.diff(np.append(first, len(places))))
    for turn in range(int(nth.max(initial=-1)) + 1):
        yield np.flatnonzero(nth == turn)

"""Lists of many users: ids, and what each of them was shown."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.checks import as_numbers
from superarm.errors import ItemsError, WeightsError


class Lists(NamedTuple):
    """Items and weights of many users, -1 pads."""

    A: Array  # (n, K) positions
    w: Array  # (n, K)


def listed_users(users: Any) -> list[Any]:
    """Ids of users as a list; what cannot be a key is refused."""
    if isinstance(users, str | bytes) or not hasattr(users, "__len__"):
        raise ItemsError(f"users must be a list of ids, got {users!r:.100}")
    listed: list[Any] = users.tolist() if hasattr(users, "tolist") else list(users)
    try:
        hash(tuple(listed))
    except TypeError as error:
        raise ItemsError(f"ids of users must be text, numbers or other keys ({error})") from error
    return listed


def as_matrix(lists: Any) -> Array | None:
    """Lists of one length as an array (n, K); None if they are not."""
    if isinstance(lists, np.ndarray):
        return lists if lists.ndim == 2 and not np.ma.is_masked(lists) else None
    sizes = {len(row) for row in lists if hasattr(row, "__len__")}
    plain = all(isinstance(row, list | tuple | np.ndarray) for row in lists)
    if len(sizes) != 1 or not plain:
        return None
    found = np.array(lists)
    return found if found.ndim == 2 else None


def joined_weights(weights: Any, lengths: Array) -> Array:
    """The weights of all users in one row, so many of each."""
    try:
        given = as_matrix(weights)
        lists = [as_numbers(row) for row in weights] if given is None else as_numbers(given)
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


def turns(places: Array) -> Iterator[Array]:
    """Parts of a batch in each of which a user is there once, in order."""
    order = np.argsort(places, kind="stable")
    new = np.append(True, places[order][1:] != places[order][:-1])
    first = np.flatnonzero(new)
    nth = np.empty(len(places), dtype=np.int64)
    nth[order] = np.arange(len(places)) - np.repeat(first, np.diff(np.append(first, len(places))))
    for turn in range(int(nth.max(initial=-1)) + 1):
        yield np.flatnonzero(nth == turn)

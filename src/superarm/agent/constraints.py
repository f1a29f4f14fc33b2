"""Oracles by id: which of an oracle's items is which item of the catalogue."""

from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Catalogue
from superarm.agent.ids import objects
from superarm.arrays import Array
from superarm.errors import ItemsError
from superarm.oracles.aligned import Aligned
from superarm.oracles.base import BaseOracle, as_oracle


class Constraints(NamedTuple):
    """An oracle as it was given, and the ids that its items go by; None if any number of items will
    do.
    """

    oracle: BaseOracle
    known: Catalogue | None

    @property
    def by_position(self) -> bool:
        """Whether it goes by the order of all items, so that there must be no gaps."""
        return self.known is None and self.oracle.by_position

    def fitted(self, catalogue: Catalogue) -> BaseOracle:
        """The oracle over the items of a catalogue, in their order."""
        if self.known is None or self.known is catalogue:
            return self.oracle
        ids = catalogue.ids.tolist()
        places = np.array([self.known.get(item) for item in ids])
        if places.min(initial=0) < 0:
            raise ItemsError(
                f"{self.oracle} says nothing of item {ids[places.argmin()]!r:.100}: give an oracle "
                "that covers all items. What comes from pandas goes by its index; if it is in the "
                "order of agent.items, give .to_numpy()"
            )
        if np.array_equal(places, np.arange(self.known.L)):
            return self.oracle
        return Aligned(self.oracle, places, self.known.L)


def constraints(oracle: Any, catalogue: Catalogue) -> Constraints:
    """The constraints that an oracle, or any function from weights to items, puts on the items.

    Constraints given by id go by those. Others are in the order of the items, of which there must
    be as many, and go by their ids from then on. The edges of a graph go by what they are where
    these are the ids.
    """
    checked = as_oracle(oracle)
    L = checked.L
    if L is None:
        return Constraints(checked, None)
    ids = checked.ids
    if ids is not None:
        return Constraints(checked, _named(checked, ids))
    edges = _edges(checked, catalogue)
    if edges is not None:
        return Constraints(checked, edges)
    if catalogue.L != L:
        raise ItemsError(
            f"{checked} is for {L} items, but there are {catalogue.L}: build it for those, in the "
            "order of agent.items, or by id, from a mapping or a pandas Series"
        )
    return Constraints(checked, catalogue)


def _named(oracle: BaseOracle, ids: Any) -> Catalogue:
    try:
        return Catalogue(ids)
    except ItemsError as error:
        raise ItemsError(f"{oracle}: {error}") from error


def _edges(oracle: BaseOracle, catalogue: Catalogue) -> Catalogue | None:
    """The edges of the oracle as ids, if those of the catalogue are among them."""
    edges = oracle.items
    if edges is None or catalogue.kind != "tuples":
        return None
    listed = edges.tolist() if isinstance(edges, np.ndarray) else edges
    try:
        known = Catalogue(objects([tuple(edge) for edge in listed]))
    except ItemsError:  # parallel edges, or nodes that are no ids
        return None
    if all(known.get(item) < 0 for item in catalogue.ids.tolist()):
        return None
    return known


def among(oracle: BaseOracle, places: Array, L: int) -> BaseOracle:
    """The oracle over the L items, asked for the items at these places alone.

    One for any number of items need not hear of the others. A function might go by their order.
    """
    any_number = oracle.L is None
    if any_number and not oracle.by_position:
        return oracle
    return Aligned(oracle, places, L)

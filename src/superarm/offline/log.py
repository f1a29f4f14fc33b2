"""Logged decisions: which items were chosen, with what probability, and what they were worth.

symbol    code         shape
n, K      log.n                     decisions, and the most items of one
A_i       A            (n, K) int   the items chosen, -1 pads
w_i(e)    w            (n, K)       the weights observed of them, 0 where A pads
p_i(e)    p            (n, K)       P(e ∈ A_i), their propensities, 1 where A pads
Φ_i       Phi          n of (L, d)  features
m_i       draws        (n,) int     the draws that p_i comes from, 0 where that is not known
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Catalogue
from superarm.agent.decisions import Decision
from superarm.arrays import Array, Features, take_rows
from superarm.checks import require_count
from superarm.checks.tables import Names, align, align_columns, as_mapping, as_mask
from superarm.errors import (
    DecisionError,
    ItemsError,
    MaskError,
    ParameterError,
    SuperarmError,
    WeightsError,
)
from superarm.offline.lists import (
    align_items,
    catalogued,
    padded,
    per_decision,
    places,
    require_same_index,
    rows_of,
)


class Log(NamedTuple):
    """Logged decisions. `Log.of` makes them from lists, and checks them.

    Attributes:
        A: the chosen items, (n, K); -1 pads.
        w: what they showed, (n, K).
        p: the probability with which each was chosen, (n, K).
        Phi: the features of all items, one table (L, d) per decision.
        available: which items could be chosen, (n, L), if not all.
        ids: of the items, if they are not 0 to L-1.
        draws: how many draws propensities come from, (n,); 0 if exact or not known.

    >>> from superarm.offline import Log
    >>> weights = [[0.5, 0.1], [0.9]]
    >>> propensities = [[0.7, 0.2], [1.0]]
    >>> log = Log.of([[0, 2], [1]], weights, propensities, features=[[1.0], [2.0], [3.0]])
    >>> log.n, log.L
    (2, 3)
    >>> log.A
    array([[ 0,  2],
           [ 1, -1]])
    """

    A: Array  # (n, K) int
    w: Array  # (n, K)
    p: Array  # (n, K)
    Phi: list[Features]  # n of (L, d)
    available: Array | None = None  # (n, L) bool, if not all items could be chosen
    ids: Array | None = None  # (L,) of the items, if they are not 0..L-1
    draws: Array | None = None  # (n,) int, that propensities come from; 0 if exact or not known

    @property
    def n(self) -> int:
        """Number of decisions."""
        return len(self.A)

    @property
    def L(self) -> int:
        """Number of items."""
        return int(self.Phi[0].shape[-2])

    @classmethod
    def of(
        cls,
        items: Any,
        weights: Any,
        propensities: Any,
        features: Any,
        *,
        ids: Any = None,
        available: Any = None,
        decisions: Any = None,
        draws: Any = None,
    ) -> "Log":
        """The log of lists with one entry per decision, or of arrays or data frames (n, K) in which
        items of -1 or None pad. Where each decision is of one item, flat lists and the columns of a
        data frame will do.

        Args:
            items: the items chosen, by their ids.
            weights: what was observed of each, in the order of the items or by item, as mappings.
                A decision whose feedback is not in yet is left out as a whole.
            propensities: the probability with which each was chosen, in (0, 1], likewise; see
                `offline.propensities`.
            features: (L, d) if they are the same in all decisions, else (n, L, d) or a list of n.
                Data frames have the ids of the items as their index. Where items have no features,
                np.eye(L).
            ids: of the items, in the order of their features; by default the index of a data frame,
                else 0..L-1.
            available: the items that could be chosen, if not all could: a mask (L,) or (n, L), a
                set of ids, or a list of n sets.
            decisions: their ids, if some may have been delivered more than once. Each counts once;
                one that comes again with other items, weights or propensities is refused.
            draws: how many draws the propensities come from, one number or one per decision, if
                they were estimated. Estimates say so where these are too few.

        Returns:
            the log, checked.

        Raises:
            ItemsError: if an id is unknown or repeated.
            WeightsError: if weights are missing or not finite.
            ParameterError: if propensities are not in (0, 1].
            DecisionError: if a decision comes twice and contradicts itself.

        >>> import pandas as pd
        >>> from superarm.offline import Log
        >>> songs = pd.DataFrame({"tempo": [0.2, 0.9]}, index=["abba", "bowie"])
        >>> shown = pd.DataFrame({"song": ["bowie", "abba"], "click": [0, 1], "p": [0.3, 0.7]})
        >>> Log.of(shown["song"], shown["click"], shown["p"], songs).A
        array([[1],
               [0]])
        """
        require_same_index(
            items=items,
            weights=weights,
            propensities=propensities,
            decisions=decisions,
        )
        chosen = per_decision("items", items, ItemsError, "integers or ids")
        w = per_decision("weights", weights, WeightsError)
        p = per_decision("propensities", propensities, ParameterError)
        known, Phi = catalogued(features, ids, len(chosen))
        A = padded(places(chosen, known), -1)
        w = rows_of(chosen, "weights", w, WeightsError)
        p = rows_of(chosen, "propensities", p, ParameterError)
        log = cls(
            A,
            np.where(A >= 0, padded(w, 0.0), 0.0),
            np.where(A >= 0, padded(p, 1.0), 1.0),
            Phi,
            ids=None if known.plain else known.ids,
            draws=_counts(draws, len(A)),
        )
        log._check()
        if available is not None:
            log = log._replace(available=_mask(available, A, known))
        if decisions is None:
            return log
        return once(log, decisions)

    def _check(self) -> None:
        """Refuse items that are unknown or repeated, weights and propensities that are none."""
        A = self.A
        refuse_first(
            (A < -1) | (A >= self.L),
            ItemsError,
            f"decision {{0}}: item {{item}} is not one of the items 0..{self.L - 1}; "
            "items with ids of their own need these as ids= or as the index of the features",
            item=A,
        )
        order = np.sort(A, axis=-1)
        repeated = (order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)
        refuse_first(repeated, ItemsError, "decision {0}: item {item} is repeated", item=order)
        refuse_first(
            ~np.isfinite(self.w),
            WeightsError,
            "decision {0}: the weight of item {item} is {w}: "
            "leave out decisions whose feedback is not known",
            item=A,
            w=self.w,
        )
        refuse_first(
            ~((self.p > 0) & (self.p <= 1)),
            ParameterError,
            "decision {0}: the propensity of item {item} is {p}: it must be a probability above 0",
            item=A,
            p=self.p,
        )

    def part(self, decisions: Any) -> "Log":
        """The log of some of its decisions, by an index, a slice or a mask."""
        chosen = np.arange(self.n)[decisions]
        return Log(
            self.A[chosen],
            self.w[chosen],
            self.p[chosen],
            [self.Phi[i] for i in chosen],
            None if self.available is None else self.available[chosen],
            self.ids,
            None if self.draws is None else self.draws[chosen],
        )

    @classmethod
    def of_decisions(
        cls,
        decisions: Iterable[Any],
        weights: Iterable[Any],
        features: Any,
        *,
        items: Any = None,
        available: Any = None,
        draws: Any = None,
    ) -> "Log":
        """The log of records of decisions with propensities, which `Agent.decide(..., draws=1000)`
        makes, and of what came of them.

        A decision that was delivered more than once, with the same weights, counts once. With other
        weights, or with other items, features or propensities, it is refused.

        Args:
            decisions: the records, or their JSON.
            weights: per decision, what `Agent.observe` takes, but for all its items: where no
                feedback means 0, say 0.
            features: as in `of`, of all items, as they were. What does not agree with the records
                is refused.
            items: the ids of the items in the order of their features, `agent.items`; by default
                the index of a data frame, else 0..L-1.
            available: as in `of`.
            draws: as in `of`; by default what the records say.

        Returns:
            the log, checked.

        Raises:
            DecisionError: if a record is damaged, has no propensities, or contradicts another.

        >>> import numpy as np
        >>> from superarm import Agent, CombLinTS, TopK, offline
        >>> ids = ["a", "b", "c"]
        >>> agent = Agent(CombLinTS(), features=np.eye(3), items=ids, oracle=TopK(2), seed=0)
        >>> decisions = [agent.decide(draws=100) for _ in range(50)]
        >>> clicks = [{item: float(item == "a") for item in d.items} for d in decisions]
        >>> log = offline.Log.of_decisions(decisions, clicks, np.eye(3), items=agent.items)
        >>> log.A.shape, log.p.min() > 0.5
        ((50, 2), np.True_)
        """
        records = [d if isinstance(d, Decision) else Decision.from_json(d) for d in decisions]
        feedback = list(weights)
        if len(records) != len(feedback):
            raise WeightsError(
                f"there are weights of {len(feedback)} decisions, but {len(records)} decisions"
            )
        known, Phi = catalogued(features, items, len(records))
        chosen = []
        observed = []
        for i, decision in enumerate(records):
            chosen.append(_positions(i, decision, known))
            observed.append(_in_order(i, decision, feedback[i]))
        p = [decision.propensity for decision in records]
        if draws is None:
            draws = [decision.draws for decision in records]
        log = cls.of(chosen, observed, p, Phi, draws=draws)
        if not known.plain:
            log = log._replace(ids=known.ids)
        if available is not None:
            everything = Catalogue(log.ids, log.L)
            log = log._replace(available=_mask(available, log.A, everything))
        for i, decision in enumerate(records):
            rows = take_rows(log.Phi[i], log.A[i][: len(decision.items)])
            _check_rows(i, decision, rows, known.names)
        return once(log, [decision.id for decision in records])


def once(log: Log, decisions: Any) -> Log:
    """The log in which each decision counts once, by its id, however often it was delivered.

    What comes again with other items, weights, propensities or features is refused.

    >>> import numpy as np
    >>> log = Log.of([[0], [1], [0]], [[1.0], [0.0], [1.0]], [[0.5], [0.5], [0.5]], np.eye(2))
    >>> once(log, ["monday", "tuesday", "monday"]).A.tolist()
    [[0], [1]]
    """
    ids = _decision_ids(decisions, log.n)
    first: dict[Any, int] = {}
    for i, key in enumerate(ids):
        before = first.setdefault(key, i)
        if before == i:
            continue
        if fault := _contradiction(log, before, i):
            raise DecisionError(
                f"decision {key!r:.100} is in the log twice, with other {fault} in entry {i} than "
                f"in entry {before}: give each decision once, as a list of its items"
            )
    return log.part(list(first.values()))


def _decision_ids(decisions: Any, n: int) -> list[Any]:
    ids = list(decisions)
    if len(ids) != n:
        raise DecisionError(f"there are ids of {len(ids)} decisions, but items of {n}")
    for i, key in enumerate(ids):
        if not _is_id(key):
            raise DecisionError(f"decision {i} needs an id, as a text or a number, got {key!r:.60}")
    return ids


def _is_id(key: Any) -> bool:
    """Whether it can name a decision: neither None nor NaN, and hashable."""
    try:
        hash(key)
        return key is not None and bool(key == key)
    except TypeError:  # pandas' NA is neither equal nor unequal
        return False


def _contradiction(log: Log, i: int, j: int) -> str | None:
    """In what two entries of the same decision differ; None if they say the same, in any order."""
    one = np.argsort(log.A[i])
    two = np.argsort(log.A[j])
    pairs = {"items": log.A, "weights": log.w, "propensities": log.p}
    for what, array in pairs.items():
        if not np.array_equal(array[i, one], array[j, two]):
            return what
    if log.Phi[i] is log.Phi[j]:
        return None
    items = log.A[i, one]
    rows = take_rows(log.Phi[i], items)
    again = take_rows(log.Phi[j], items)
    return None if np.array_equal(rows, again) else "features"


def _counts(draws: Any, n: int) -> Array | None:
    """Numbers of draws per decision, (n,), 0 where none is given; None if none is."""
    if draws is None:
        return None
    given = list(draws) if isinstance(draws, Iterable) else [draws] * n
    if len(given) != n:
        raise ParameterError(f"there are draws of {len(given)} decisions, but items of {n}")
    for each in given:
        if each is not None:
            require_count(draws=each)
    counts = [each or 0 for each in given]
    return np.array(counts, np.int64)


def refuse_first(
    bad: Array,
    error: type[SuperarmError],
    fault: str,
    **arrays: Array,
) -> None:
    """Raise if an entry is bad, with the place of the first one, and what is there, in the fault.

    >>> import numpy as np
    >>> w = np.array([[0.5, -1.0]])
    >>> refuse_first(w < 0, ValueError, "decision {0}: got {w}", w=w)
    Traceback (most recent call last):
    ValueError: decision 0: got -1.0
    """
    if not bad.any():
        return
    at = tuple(np.argwhere(bad)[0])
    there = {name: array[at] for name, array in arrays.items()}
    raise error(fault.format(*at, **there))


def _positions(i: int, decision: Decision, known: Catalogue) -> Array:
    """Where the items of a decision are."""
    if decision.propensity is None:
        raise DecisionError(
            f"decision {i} has no propensities: make it with agent.decide(..., draws=1000)"
        )
    try:
        return known.positions(decision.items)
    except ItemsError as error:
        raise ItemsError(f"decision {i}: {error}; give the items of its time") from error


def _in_order(i: int, decision: Decision, weights: Any) -> Any:
    """Weights in the order of the decision's items."""

    def mismatch(missing: list[Any], unknown: list[Any]) -> WeightsError:
        return WeightsError(
            f"decision {i}: the weight of item {missing[0]!r} is missing: "
            "give what no feedback means, as 0, or leave the decision out as a whole"
        )

    mapping = as_mapping(weights)
    if mapping is None:
        return weights
    decision.places(mapping)
    return align(mapping, decision.items, mismatch)


def _check_rows(i: int, decision: Decision, rows: Array, names: Names) -> None:
    """Refuse features that are not those of the record: of another order, or of another context."""
    own = np.asarray(decision.features)[:, align_columns(decision.names, names, DecisionError)]
    if own.shape != rows.shape:
        raise DecisionError(
            f"decision {i} is of items with {own.shape[1]} features, not {rows.shape[1]}"
        )
    same = np.isclose(rows, own, rtol=1e-5, atol=1e-7).all(axis=-1)
    if not same.all():
        raise DecisionError(
            f"decision {i}: the features of item {decision.items[same.argmin()]!r} "
            "are not those of the record"
        )


def _mask(available: Any, A: Array, known: Catalogue) -> Array:
    """Which items could be chosen, (n, L): those that were chosen must be among them."""
    shapes = ((known.L,), (len(A), known.L))
    mask = as_mask(
        _booleans(available, known),
        f"booleans of shape {shapes[0]} or {shapes[1]}, or sets of items",
        *shapes,
    )
    mask = np.broadcast_to(mask, shapes[1])
    barred = (A >= 0) & ~np.take_along_axis(mask, np.maximum(A, 0), axis=-1)
    refuse_first(
        barred,
        MaskError,
        "decision {0}: item {item} was chosen, but is marked as not available",
        item=known.ids_of(A),
    )
    return mask


def _booleans(available: Any, known: Catalogue) -> Any:
    """Sets of items, or what names them, as booleans in the order of the items."""
    if isinstance(available, set | frozenset):
        return known.mask(available)
    listed = isinstance(available, list | tuple)
    if listed and any(isinstance(items, set | frozenset) for items in available):
        return [known.mask(items) for items in available]
    return align_items("available", available, known.ids, MaskError)

"""Logged decisions: which items were chosen, with what probability, and what they were worth.

symbol    code         shape
n, K      log.n                     decisions, and the most items of one
A_i       A            (n, K) int   the items chosen, -1 pads
w_i(e)    w            (n, K)       the weights observed of them, 0 where A pads
p_i(e)    p            (n, K)       P(e ∈ A_i), their propensities, 1 where A pads
Φ_i       Phi          n of (L, d)  features
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from superarm.agent.catalogue import (
    Catalogue,
    Names,
    as_mask,
    as_table,
    by_item,
    columns_of,
)
from superarm.agent.decisions import Decision
from superarm.arrays import Array, Features, take_rows
from superarm.checks import as_features
from superarm.errors import (
    DecisionError,
    FeaturesError,
    ItemsError,
    MaskError,
    ParameterError,
    SuperarmError,
    WeightsError,
)


class Log(NamedTuple):
    """Logged decisions. `Log.of` makes them from lists, and checks them.

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
        available: Any = None,
    ) -> "Log":
        """The log of lists with one entry per decision, or of arrays (n, K) in which items of -1
        pad.

        Args:
            items: the items chosen.
            weights: what was observed of each. A decision whose feedback is not in yet is left out
                as a whole.
            propensities: the probability with which each was chosen, in (0, 1]; see
                `offline.propensities`.
            features: (L, d) if they are the same in all decisions, else (n, L, d) or a list of n.
                Where items have none, np.eye(L).
            available: a mask of the items that could be chosen, (L,) or (n, L), if not all could.
        """
        chosen = _rows("items", items, ItemsError, "integers")
        w = _rows_of(chosen, "weights", weights, WeightsError)
        p = _rows_of(chosen, "propensities", propensities, ParameterError)
        A = padded(chosen, -1)
        log = cls(
            A,
            np.where(A >= 0, padded(w, 0.0), 0.0),
            np.where(A >= 0, padded(p, 1.0), 1.0),
            _features(features, len(A)),
        )
        log._check()
        if available is None:
            return log
        return log._replace(available=_mask(available, A, log.L))

    def _check(self) -> None:
        """Refuse items that are unknown or repeated, weights and propensities that are none."""
        A = self.A
        refuse_first(
            (A < -1) | (A >= self.L),
            ItemsError,
            f"decision {{0}}: item {{item}} is not one of the items 0..{self.L - 1}",
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
    ) -> "Log":
        """The log of records of decisions with propensities, which `Agent.decide(..., draws=1000)`
        makes, and of what came of them.

        Args:
            decisions: the records, or their JSON.
            weights: per decision, what `Agent.observe` takes, but for all its items: where no
                feedback means 0, say 0.
            features: as in `of`, of all items, as they were. What does not agree with the records
                is refused.
            items: the ids of the items in the order of their features, `agent.items`; by default
                the index of a data frame, else 0..L-1.
            available: as in `of`.

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
        table = as_table(features)
        values = table.values
        ids = table.ids if items is None else items
        known = None if ids is None else Catalogue(ids)
        if known is not None:
            values = known.rows(table)
        chosen = []
        observed = []
        for i, decision in enumerate(records):
            chosen.append(_positions(i, decision, known))
            observed.append(_in_order(i, decision, feedback[i]))
        p = [decision.propensity for decision in records]
        log = cls.of(chosen, observed, p, values, available=available)
        for i, decision in enumerate(records):
            rows = take_rows(log.Phi[i], log.A[i][: len(decision.items)])
            _check_rows(i, decision, rows, table.names)
        return log


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


def _positions(i: int, decision: Decision, known: Catalogue | None) -> Any:
    """Where the items of a decision are."""
    if decision.propensity is None:
        raise DecisionError(
            f"decision {i} has no propensities: make it with agent.decide(..., draws=1000)"
        )
    if known is None:
        return list(decision.items)
    try:
        return known.positions(decision.items)
    except ItemsError as error:
        raise ItemsError(f"decision {i}: {error}; give the items of its time") from error


def _in_order(i: int, decision: Decision, weights: Any) -> Any:
    """Weights in the order of the decision's items."""
    mapping = by_item(weights)
    if mapping is None:
        return weights
    decision.places(mapping)
    for item in decision.items:
        if item not in mapping:
            raise WeightsError(
                f"decision {i}: the weight of item {item!r} is missing: "
                "give what no feedback means, as 0, or leave the decision out as a whole"
            )
    return [mapping[item] for item in decision.items]


def _check_rows(i: int, decision: Decision, rows: Array, names: Names) -> None:
    """Refuse features that are not those of the record: of another order, or of another context."""
    own = decision.features[:, columns_of(decision.names, names, DecisionError)]
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


def _rows(
    what: str,
    lists: Any,
    error: type[SuperarmError],
    kind: Literal["integers", "numbers"],
) -> list[Array]:
    """A flat array per decision."""
    try:
        rows = [np.asarray(row) for row in lists]
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


def _rows_of(
    chosen: list[Array],
    what: str,
    lists: Any,
    error: type[SuperarmError],
) -> list[Array]:
    """A flat array of numbers per decision, as long as its items."""
    rows = _rows(what, lists, error, "numbers")
    if len(rows) != len(chosen):
        raise error(f"there are {what} of {len(rows)} decisions, but items of {len(chosen)}")
    for i, row in enumerate(rows):
        if len(row) != len(chosen[i]):
            raise error(
                f"decision {i} has {len(row)} {what} for {len(chosen[i])} items: give one per item"
            )
    return rows


def _features(features: Any, n: int) -> list[Features]:
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


def _mask(available: Any, A: Array, L: int) -> Array:
    """Which items could be chosen, (n, L): those that were chosen must be among them."""
    shapes = ((L,), (len(A), L))
    mask = as_mask(available, f"booleans of shape {shapes[0]} or {shapes[1]}", *shapes)
    mask = np.broadcast_to(mask, shapes[1])
    barred = (A >= 0) & ~np.take_along_axis(mask, np.maximum(A, 0), axis=-1)
    refuse_first(
        barred,
        MaskError,
        "decision {0}: item {item} was chosen, but is marked as not available",
        item=A,
    )
    return mask

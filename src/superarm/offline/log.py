"""Logged decisions: which items were chosen, with what probability, and what they were worth.

symbol    code         shape
n, K      log.n                     decisions, and the most items of one
A_i       A            (n, K) int   the items chosen, -1 pads
w_i(e)    w            (n, K)       the weights observed of them, 0 where A pads
p_i(e)    p            (n, K)       P(e ∈ A_i), with which each was chosen, 1 where A pads
Φ_i       Phi          n of (L, d)  features
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Items, aligned, as_table, columns_of
from superarm.agent.decisions import Decision
from superarm.agent.feedback import by_item
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
    >>> log = Log.of([[0, 2], [1]], [[0.5, 0.1], [0.9]], [[0.7, 0.2], [1.0]], features=[[1.0], [2.0], [3.0]])
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
        cls, items: Any, weights: Any, propensities: Any, features: Any, *, available: Any = None
    ) -> "Log":
        """From lists with an entry a decision, or from arrays (n, K) in which items of -1 pad.

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
        rows = _rows("items", items, ItemsError, "integers")
        A = padded(rows, -1)
        w = padded(_rows("weights", weights, WeightsError, "numbers", rows), 0.0)
        p = padded(_rows("propensities", propensities, ParameterError, "numbers", rows), 1.0)
        Phi = _features(features, len(A))
        _check_items(A, Phi[0].shape[-2])
        w, p = np.where(A >= 0, w, 0.0), np.where(A >= 0, p, 1.0)
        for bad, error, name, values, remedy in (
            (
                ~np.isfinite(w),
                WeightsError,
                "weight",
                w,
                "leave out decisions whose feedback is not known",
            ),
            (
                ~((p > 0) & (p <= 1)),
                ParameterError,
                "propensity",
                p,
                "it must be a probability above 0",
            ),
        ):
            if bad.any():
                i, k = np.argwhere(bad)[0]
                raise error(
                    f"decision {i}: the {name} of item {A[i, k]} is {values[i, k]}: {remedy}"
                )
        return cls(
            A, w, p, Phi, None if available is None else _mask(available, A, Phi[0].shape[-2])
        )

    def part(self, decisions: Any) -> "Log":
        """The log of some of its decisions, by an index, a slice or a mask."""
        chosen = np.arange(self.n)[decisions]
        available = None if self.available is None else self.available[chosen]
        return Log(
            self.A[chosen], self.w[chosen], self.p[chosen], [self.Phi[i] for i in chosen], available
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
        """From records of decisions with propensities, as of `Agent.decide(..., draws=1000)`, and
        what came of them.

        Args:
            decisions: the records, or their JSON.
            weights: of each, what `Agent.observe` takes, but for all its items: where no feedback
                means 0, say 0.
            features: as in `of`, of all items, as they were. What does not agree with the records
                is refused.
            items: the ids of the items in the order of their features, `agent.items`; by default
                the index of a data frame, else 0..L-1.
            available: as in `of`.

        >>> import numpy as np
        >>> from superarm import Agent, CombLinTS, TopK, offline
        >>> agent = Agent(CombLinTS(), features=np.eye(3), items=["a", "b", "c"], oracle=TopK(2), seed=0)
        >>> decisions = [agent.decide(draws=100) for _ in range(50)]
        >>> clicks = [{item: float(item == "a") for item in decision.items} for decision in decisions]
        >>> log = offline.Log.of_decisions(decisions, clicks, np.eye(3), items=agent.items)
        >>> log.A.shape, log.p.min() > 0.5
        ((50, 2), np.True_)
        """
        records = [d if isinstance(d, Decision) else Decision.from_json(d) for d in decisions]
        feedback, table = list(weights), as_table(features)
        if len(records) != len(feedback):
            raise WeightsError(
                f"there are weights of {len(feedback)} decisions, but {len(records)} decisions"
            )
        ids = table.ids if items is None else items
        known = None if ids is None else Items(ids)
        values = table.values if known is None else aligned(table, known, None)
        chosen = [_positions(i, decision, known) for i, decision in enumerate(records)]
        observed = [
            _in_order(i, d, w) for i, (d, w) in enumerate(zip(records, feedback, strict=True))
        ]
        log = cls.of(chosen, observed, [d.propensity for d in records], values, available=available)
        for i, decision in enumerate(records):
            _check_rows(
                i, decision, take_rows(log.Phi[i], log.A[i][: len(decision.items)]), table.names
            )
        return log


def _positions(i: int, decision: Decision, known: Items | None) -> Any:
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
    if missing := [item for item in decision.items if item not in mapping]:
        raise WeightsError(
            f"decision {i}: the weight of item {missing[0]!r} is missing: give what no feedback means, as 0, "
            "or leave the decision out as a whole"
        )
    return [mapping[item] for item in decision.items]


def _check_rows(i: int, decision: Decision, rows: Array, names: tuple[str, ...] | None) -> None:
    """Refuse features that are not those of the record: of another order, or of another context."""
    own = decision.features
    if names is not None and decision.names is not None:
        own = own[:, columns_of(decision.names, names, DecisionError)]
    if own.shape != rows.shape:
        raise DecisionError(
            f"decision {i} is of items with {own.shape[1]} features, not {rows.shape[1]}"
        )
    if not (off := ~np.isclose(rows, own, rtol=1e-5, atol=1e-7).all(axis=-1)).any():
        return
    raise DecisionError(
        f"decision {i}: the features of item {decision.items[off.argmax()]!r} are not those of the record"
    )


def padded(rows: list[Array], fill: float) -> Array:
    """Rows of any length as one array (n, K), filled up.

    >>> import numpy as np
    >>> padded([np.array([4]), np.array([2, 3])], -1)
    array([[ 4, -1],
           [ 2,  3]])
    """
    lengths = np.array([len(row) for row in rows])
    out = np.full((len(rows), lengths.max()), fill)
    out[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(rows)
    return out


def _rows(
    what: str, lists: Any, error: type[SuperarmError], kind: str, items: list[Array] | None = None
) -> list[Array]:
    """A flat array for each decision, as long as its items."""
    try:
        rows = [np.asarray(row) for row in lists]
    except (TypeError, ValueError) as fault:
        raise error(f"{what} must be a list of {kind} for each decision ({fault})") from fault
    for i, row in enumerate(rows):
        if row.ndim != 1 or (
            row.size and row.dtype.kind not in {"integers": "iu", "numbers": "biuf"}[kind]
        ):
            raise error(
                f"decision {i}: {what} must be a flat list of {kind}, got {row.dtype} of shape {row.shape}"
            )
    if not any(row.size for row in rows):
        raise error(f"the log holds no {what}: it needs a list for each of one or more decisions")
    items = rows if items is None else items
    if len(rows) != len(items):
        raise error(f"there are {what} of {len(rows)} decisions, but items of {len(items)}")
    for i, (row, chosen) in enumerate(zip(rows, items, strict=True)):
        if len(row) != len(chosen):
            raise error(
                f"decision {i} has {len(row)} {what} for {len(chosen)} items: give one an item"
            )
    return rows


def _check_items(A: Array, L: int) -> None:
    outside = (A < -1) | (A >= L)
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise ItemsError(f"decision {i}: item {A[i, k]} is not one of the items 0..{L - 1}")
    order = np.sort(A, axis=-1)
    repeated = (order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)
    if repeated.any():
        i, k = np.argwhere(repeated)[0]
        raise ItemsError(f"decision {i}: item {order[i, k]} is repeated")


def _features(features: Any, n: int) -> list[Features]:
    """Features for each of n decisions; those given once are held once."""
    if isinstance(features, list | tuple) and any(
        len(getattr(Phi, "shape", ())) == 2 for Phi in features
    ):
        each = _checked(features)
    else:
        Phi = as_features(features)
        if len(Phi.shape) not in (2, 3):
            raise FeaturesError(
                f"features must have shape (items, features) or ({n}, items, features), got {Phi.shape}"
            )
        each = [Phi] * n if len(Phi.shape) == 2 else [Phi[i] for i in range(Phi.shape[0])]
    if len(each) != n:
        raise FeaturesError(
            f"features of {len(each)} decisions, but items of {n}: give one (items, features) for each"
        )
    return each


def _checked(features: list[Any] | tuple[Any, ...]) -> list[Features]:
    """Each once, however often it occurs."""
    checked: dict[int, Features] = {}
    for i, Phi in enumerate(features):
        if id(Phi) not in checked:
            try:
                checked[id(Phi)] = as_features(Phi, np.shape(features[0]))
            except FeaturesError as error:
                raise FeaturesError(f"decision {i}: {error}") from error
    return [checked[id(Phi)] for Phi in features]


def _mask(available: Any, A: Array, L: int) -> Array:
    try:
        mask = np.asarray(available)
    except ValueError as error:
        raise MaskError(f"available must be a mask of booleans ({error})") from error
    if mask.dtype != np.bool_ or mask.shape not in ((L,), (len(A), L)):
        raise MaskError(
            f"available must be booleans of shape {(L,)} or {(len(A), L)}, got {mask.dtype} of shape {mask.shape}"
        )
    mask = np.broadcast_to(mask, (len(A), L))
    barred = (A >= 0) & ~np.take_along_axis(mask, np.maximum(A, 0), axis=-1)
    if barred.any():
        i, k = np.argwhere(barred)[0]
        raise MaskError(f"decision {i}: item {A[i, k]} was chosen, but is marked as not available")
    return mask

"""A decision as a record that outlives the process: for feedback that comes late, elsewhere, in
part, or twice.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.errors import DecisionError, ItemsError
from superarm.files import packed, unpacked

VERSION = 1
REMEMBERED = 2**17
"""Observed decisions that an agent remembers if it is not told otherwise."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What was chosen, from what, and when: all that is needed to learn from feedback on it.

    >>> import numpy as np
    >>> from superarm import Agent, CombLinTS, Decision, TopK
    >>> agent = Agent(CombLinTS(), features=np.eye(3), items=["a", "b", "c"], oracle=TopK(2), seed=0)
    >>> record = agent.decide().to_json()  # to a queue, a log, another process
    >>> decision = Decision.from_json(record)
    >>> decision.items
    ('b', 'a')
    >>> agent.observe(decision, {"b": 1.0})
    >>> agent.observe(decision, {"b": 1.0})
    Traceback (most recent call last):
    superarm.errors.DecisionError: item 'b' of this decision was observed before: pass again=True to learn it again
    """

    id: str  # of its own
    items: tuple[Any, ...]  # (K,)
    features: Array  # (K, d) of the chosen items
    time: str  # UTC, ISO 8601
    seed: int  # agent.decide(..., seed=seed) decides alike, if it believes and is asked the same
    propensity: tuple[float, ...] | None = (
        None  # (K,) how likely each item was to be chosen, if that was asked for
    )
    names: tuple[str, ...] | None = None  # (d,) of the features, if they have any

    def to_json(self) -> str:
        """As JSON, with a checksum."""
        features = np.asarray(self.features, np.float64).tolist()
        content = {
            name: getattr(self, name)
            for name in ("id", "items", "time", "seed", "propensity", "names")
        }
        header = {"superarm": "decision", "version": VERSION, "check": self._check()}
        return json.dumps({**header, **content, "features": features}, allow_nan=False)

    @classmethod
    def from_json(cls, record: str | bytes | Mapping[str, Any]) -> "Decision":
        """The decision that `to_json` wrote, from the text or from what it was parsed to."""
        try:
            content = record if isinstance(record, Mapping) else json.loads(record)
        except (RecursionError, TypeError, ValueError) as error:
            raise DecisionError(
                f"a decision is a JSON text of Decision.to_json, got {record!r:.60}"
            ) from error
        if not isinstance(content, Mapping) or content.get("superarm") != "decision":
            raise DecisionError(
                f"a decision is a JSON object of Decision.to_json, got {record!r:.60}"
            )
        try:
            newer = _whole(content.get("version")) > VERSION
            decision = None if newer else cls._parsed(content)
            whole = decision is not None and decision._check() == content["check"]
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DecisionError(
                f"this decision record is damaged ({type(error).__name__}: {error})"
            ) from error
        if decision is None:
            raise DecisionError(
                f"this decision has version {content['version']}: upgrade superarm to read it"
            )
        if not whole:
            raise DecisionError(
                "this decision record is damaged: its checksum is that of other content"
            )
        return decision

    @classmethod
    def _parsed(cls, content: Mapping[str, Any]) -> "Decision":
        items = tuple(x if isinstance(x, str) else _whole(x) for x in content["items"])
        propensity, names = content["propensity"], content["names"]
        return cls(
            _text(content["id"]),
            items,
            _rows(content["features"], len(items)),
            as_time(datetime.fromisoformat(_text(content["time"]))),
            _whole(content["seed"]),
            None if propensity is None else tuple(_probability(p) for p in propensity),
            None if names is None else tuple(_text(name) for name in names),
        )

    def _check(self) -> str:
        """Of the content, not of its text: others may write the same numbers otherwise."""
        words = json.dumps([self.id, self.items, self.time, self.seed, self.propensity, self.names])
        numbers = np.ascontiguousarray(self.features, np.float64) + 0.0  # -0.0 becomes 0.0
        return f"{zlib.crc32(numbers.tobytes(), zlib.crc32(words.encode())):08x}"

    def places(self, items: Any) -> list[int]:
        """Where in the decision these items are."""
        at = {item: place for place, item in enumerate(self.items)}
        if unknown := [item for item in items if item not in at]:
            raise ItemsError(f"item {unknown[0]!r:.100} was not chosen in this decision")
        return [at[item] for item in items]


def as_time(moment: datetime) -> str:
    """In UTC, so that times compare as texts."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not text")
    return value


def _whole(value: Any) -> int:
    """A whole number, which some readers of JSON make a float or a Decimal."""
    if isinstance(value, bool | str) or int(value) != value:
        raise TypeError(f"{value!r:.60} is not a whole number")
    return int(value)


def _probability(value: Any) -> float:
    if isinstance(value, bool | str) or not 0 < float(value) <= 1:
        raise TypeError(f"{value!r:.60} is not a probability above 0")
    return float(value)


def _rows(values: Any, n: int) -> Array:
    rows = np.array(values, dtype=np.float64)
    if rows.shape == (0,):
        rows = rows.reshape(0, 0)
    if rows.ndim != 2 or len(rows) != n or not np.isfinite(rows).all():
        raise ValueError("features are not one finite row an item")
    return rows


class Ledger:
    """Which items of which decisions were observed, so that none is learned twice.

    When there are more than `limit`, the oldest tenth is forgotten, and what was decided before
    then is refused.
    """

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self.observed: dict[
            str, tuple[str, int]
        ] = {}  # decision: its time, and its observed places as bits
        self.before = ""  # the time of the last decision forgotten

    def refuse_observed(self, decision: Decision, places: list[int]) -> None:
        """Raise if one of these was observed, or if it is too long ago to know."""
        _, bits = self.observed.get(decision.id, ("", 0))
        for place in places:
            if bits >> place & 1:
                raise DecisionError(
                    f"item {decision.items[place]!r} of this decision was observed before: "
                    "pass again=True to learn it again"
                )
        if decision.id not in self.observed and decision.time <= self.before:
            raise DecisionError(
                f"this decision of {decision.time} is older than those whose feedback is remembered: "
                "pass again=True if it is sure that it was not observed before"
            )

    def note(self, decision: Decision, places: list[int]) -> None:
        """Remember these."""
        _, bits = self.observed.get(decision.id, ("", 0))
        for place in places:
            bits |= 1 << place
        self.observed[decision.id] = (decision.time, bits)
        if len(self.observed) > self.limit:
            oldest = sorted(self.observed, key=lambda key: self.observed[key])[
                : 1 + self.limit // 10
            ]
            self.before = self.observed[oldest[-1]][0]
            for key in oldest:
                del self.observed[key]

    def merged(self, other: "Ledger") -> "Ledger":
        """Both; refuses what both observed."""
        for key in self.observed.keys() & other.observed.keys():
            if self.observed[key][1] & other.observed[key][1]:
                raise DecisionError(
                    f"both agents observed the same items of decision {key}: merge what is disjoint"
                )
        both = Ledger(self.limit)
        both.before = max(self.before, other.before)
        for ledger in (self, other):
            for key, (time, bits) in ledger.observed.items():
                both.observed[key] = (time, bits | both.observed.get(key, ("", 0))[1])
        return both

    def arrays(self) -> dict[str, Array]:
        """For a file."""
        times, bits = zip(*self.observed.values(), strict=True) if self.observed else ((), ())
        texts = {
            "decision": self.observed,
            "time": times,
            "places": [f"{b:x}" for b in bits],
            "before": [self.before],
        }
        return {f"observed.{name}": packed(values) for name, values in texts.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], limit: int) -> "Ledger":
        """From a file; those of version 1 have none."""
        ledger = cls(limit)
        if "observed.decision" in arrays:
            decisions, times, places = (
                unpacked(arrays[f"observed.{x}"]) for x in ("decision", "time", "places")
            )
            ledger.observed = {
                key: (time, int(bits, 16))
                for key, time, bits in zip(decisions, times, places, strict=True)
            }
            (ledger.before,) = unpacked(arrays["observed.before"])
        return ledger

"""A decision as a record that outlives the process: for feedback that comes late, elsewhere, in
part, or twice.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.errors import DecisionError, ItemsError
from superarm.files import packed, unpacked
from superarm.tables import Names

VERSION = 1
REMEMBERED = 2**17
"""Observed decisions that an agent remembers if it is not told otherwise."""
FILED = ("decision", "time", "places", "before")
"""What a file holds of a ledger."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What was chosen, from what, and when: all that is needed to learn from feedback on it.

    >>> import numpy as np
    >>> from superarm import Agent, CombLinTS, Decision, TopK
    >>> ids = ["a", "b", "c"]
    >>> agent = Agent(CombLinTS(), features=np.eye(3), items=ids, oracle=TopK(2), seed=0)
    >>> record = agent.decide().to_json()  # to a queue, a log, another process
    >>> decision = Decision.from_json(record)
    >>> decision.items
    ('b', 'a')
    >>> agent.observe(decision, {"b": 1.0})
    >>> agent.observe(decision, {"b": 1.0})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    superarm.errors.DecisionError: item 'b' of this decision was observed before: pass again=True...
    """

    id: str  # of its own
    items: tuple[Any, ...]  # (K,)
    features: Array  # (K, d) of the chosen items
    time: str  # UTC, ISO 8601
    seed: int  # agent.decide(..., seed=seed) decides alike, if it believes and is asked the same
    propensity: tuple[float, ...] | None = None  # (K,) if asked for: P(the item is chosen)
    names: Names = None  # (d,) of the features

    def to_json(self) -> str:
        """The record as JSON, with a checksum."""
        record = {
            "superarm": "decision",
            "version": VERSION,
            "check": self._check(),
            **self._words(),
            "features": np.asarray(self.features, np.float64).tolist(),
        }
        return json.dumps(record, allow_nan=False)

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
            version = _whole(content.get("version"))
            decision = cls._parsed(content) if version <= VERSION else None
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DecisionError(
                f"this decision record is damaged ({type(error).__name__}: {error})"
            ) from error
        if decision is None:
            raise DecisionError(f"this decision has version {version}: upgrade superarm to read it")
        return decision

    @classmethod
    def _parsed(cls, content: Mapping[str, Any]) -> "Decision":
        items = tuple(x if isinstance(x, str) else _whole(x) for x in content["items"])
        propensity = content["propensity"]
        names = content["names"]
        decision = cls(
            _text(content["id"]),
            items,
            _rows(content["features"], len(items)),
            as_time(datetime.fromisoformat(_text(content["time"]))),
            _whole(content["seed"]),
            None if propensity is None else tuple(map(_probability, propensity)),
            None if names is None else tuple(map(_text, names)),
        )
        if decision._check() != content["check"]:
            raise ValueError("its checksum is that of other content")
        return decision

    def _words(self) -> dict[str, Any]:
        """All fields but the features."""
        words = dict(vars(self))
        del words["features"]
        return words

    def _check(self) -> str:
        """The checksum of the content, not of its text: numbers may be written in other ways."""
        words = json.dumps(list(self._words().values()))
        numbers = np.ascontiguousarray(self.features, np.float64)
        numbers = numbers + 0.0  # -0.0 becomes 0.0
        check = zlib.crc32(words.encode())
        check = zlib.crc32(numbers.tobytes(), check)
        return f"{check:08x}"

    def places(self, items: Any) -> list[int]:
        """Where in the decision these items are."""
        at = {item: place for place, item in enumerate(self.items)}
        for item in items:
            if item not in at:
                raise ItemsError(f"item {item!r:.100} was not chosen in this decision")
        return [at[item] for item in items]


def now() -> datetime:
    """The time of the clock."""
    return datetime.now(UTC)


def as_time(moment: datetime) -> str:
    """The moment as a text, in UTC, so that times compare as texts."""
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
        raise ValueError("features are not one finite row per item")
    return rows


class Observed(NamedTuple):
    """When a decision was made, and which of its places were observed: bit i is place i."""

    time: str = ""
    places: int = 0


class Ledger:
    """Which items of which decisions were observed, so that none is learned twice.

    When there are more than `limit`, the oldest tenth is forgotten, and what was decided before
    then is refused.

    >>> from superarm.agent.decisions import Ledger
    >>> ledger = Ledger(limit=1000)
    >>> ledger.observed
    {}
    """

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self.observed: dict[str, Observed] = {}  # by the id of the decision
        self.before = ""  # the time of the last decision forgotten

    def refuse_observed(self, decision: Decision, places: list[int]) -> None:
        """Raise if one of these was observed, or if it is too long ago to know."""
        bits = self._places(decision.id)
        for place in places:
            if bits >> place & 1:
                raise DecisionError(
                    f"item {decision.items[place]!r} of this decision was observed before: "
                    "pass again=True to learn it again"
                )
        if decision.id not in self.observed and decision.time <= self.before:
            raise DecisionError(
                f"this decision of {decision.time} is older than those whose feedback is "
                "remembered: pass again=True if it is sure that it was not observed before"
            )

    def note(self, decision: Decision, places: list[int]) -> None:
        """Remember that these places of the decision were observed."""
        bits = self._places(decision.id)
        for place in places:
            bits |= 1 << place
        self.observed[decision.id] = Observed(decision.time, bits)
        if len(self.observed) <= self.limit:
            return
        by_time = sorted(
            self.observed,
            key=self.observed.__getitem__,
        )
        for key in by_time[: 1 + self.limit // 10]:
            forgotten = self.observed.pop(key)
            self.before = forgotten.time

    def merged(self, other: "Ledger") -> "Ledger":
        """The ledger of what either observed; refuses what both observed."""
        both = Ledger(self.limit)
        both.before = max(self.before, other.before)
        both.observed = dict(self.observed)
        for key, (time, bits) in other.observed.items():
            own = self._places(key)
            if own & bits:
                raise DecisionError(
                    f"both agents observed the same items of decision {key}: merge what is disjoint"
                )
            both.observed[key] = Observed(time, own | bits)
        return both

    def _places(self, key: str) -> int:
        return self.observed.get(key, Observed()).places

    def arrays(self) -> dict[str, Array]:
        """What a file keeps of it."""
        seen = self.observed.values()
        times = [x.time for x in seen]
        places = [f"{x.places:x}" for x in seen]
        texts = map(packed, (self.observed, times, places, [self.before]))
        return {f"observed.{name}": text for name, text in zip(FILED, texts, strict=True)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], limit: int) -> "Ledger":
        """The ledger of a file; those of version 1 have none."""
        ledger = cls(limit)
        if "observed.decision" not in arrays:
            return ledger
        texts = [unpacked(arrays[f"observed.{name}"]) for name in FILED]
        (ledger.before,) = texts.pop()
        for key, time, bits in zip(*texts, strict=True):
            ledger.observed[key] = Observed(time, int(bits, 16))
        return ledger

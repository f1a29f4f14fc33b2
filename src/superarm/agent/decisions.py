"""A decision as a record that outlives the process: for feedback that comes late, elsewhere, in
part, or twice.

Records are input: what is too long, repeated, of the wrong type or signed by nobody is refused
before it is believed.
"""

import json
import re
import reprlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from superarm.agent import fields
from superarm.agent.ids import to_json
from superarm.arrays import Array, Features, is_sparse
from superarm.checks.tables import Names
from superarm.contexts import InContext, kind_of
from superarm.errors import DecisionError, ItemsError
from superarm.files.archive import pack_texts, unpack_texts

VERSION = 2
REMEMBERED = 2**17
"""Observed decisions that an agent remembers if it is not told otherwise."""
CLOCKS_DIFFER = timedelta(hours=1)
"""How far in the future a decision may seem to be."""
FILED = ("decision", "time", "places", "before")
"""What a file holds of a ledger."""
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00"
_FILED_TEXTS = {
    "decision": "[^\\0]*+",
    "time": _TIME,
    "places": "[0-9a-f]{1,25000}+",
}
"""What the texts of a ledger in a file may be."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What was chosen, from what, and when: all that is needed to learn from feedback on it.

    Decisions are equal if all that they hold is.

    Attributes:
        id: a name of its own.
        items: the chosen items, (K,).
        features: of the chosen items, (K, d); those of a context are never multiplied out.
        time: when, UTC as ISO 8601.
        seed: `agent.decide(..., seed=seed)` decides alike, if it believes and is asked the same.
        propensity: per item the probability of being chosen, if it was asked for.
        names: of the features, if they have names.
        draws: how many decisions the propensities were estimated from.
        signature: of an agent with a key.

    >>> import numpy as np
    >>> from superarm import Agent, CombLinTS, Decision, TopK
    >>> ids = ["a", "b", "c"]
    >>> agent = Agent(CombLinTS(), features=np.eye(3), items=ids, oracle=TopK(2), seed=0)
    >>> made = agent.decide()
    >>> record = made.to_json()  # to a queue, a log, another process
    >>> decision = Decision.from_json(record)
    >>> decision.items, decision == made
    (('a', 'b'), True)
    >>> agent.observe(decision, {"b": 1.0})
    >>> agent.observe(decision, {"b": 1.0})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    superarm.errors.DecisionError: item 'b' of this decision was observed before: pass again=True...
    """

    id: str  # of its own
    items: tuple[Any, ...]  # (K,)
    features: Features  # (K, d) of the chosen items; those of a context are never multiplied out
    time: str  # UTC, ISO 8601
    seed: int  # agent.decide(..., seed=seed) decides alike, if it believes and is asked the same
    propensity: tuple[float, ...] | None = None  # (K,) if asked for: P(the item is chosen)
    names: Names = None  # (d,) of the features
    draws: int | None = None  # decisions that the propensities were estimated from
    signature: str | None = None  # of an agent with a key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return self.signature == other.signature and self.content() == other.content()

    def __hash__(self) -> int:
        return hash(self.content())

    def to_json(self) -> str:
        """The record as JSON, with a checksum.

        Returns:
            one line of JSON, with a checksum.
        """
        record = {
            "superarm": "decision",
            "version": VERSION if isinstance(self.features, InContext) else 1,
            "check": self._check(),
            **self._words(),
            "features": self._features(),
        }
        if self.signature is not None:
            record["signature"] = self.signature
        return json.dumps(record, allow_nan=False)

    @classmethod
    def from_json(cls, record: str | bytes | Mapping[str, Any]) -> "Decision":
        """The decision that `to_json` wrote, from the text or from what it was parsed to.

        Refused are records of more than 2**24 characters or 100,000 items, decisions with an id of
        more than 200 characters, and ids of items or names of features of more than 1,000, or with
        the character NUL.

        Returns:
            the decision, checked.

        Raises:
            DecisionError: if the text is damaged, or no record of a decision.
        """
        if isinstance(record, str | bytes) and len(record) > fields.LONGEST_RECORD:
            raise DecisionError(
                f"a decision is a JSON text of at most {fields.LONGEST_RECORD} characters, "
                f"got {len(record)}"
            )
        try:
            content = record if isinstance(record, Mapping) else json.loads(record)
        except (RecursionError, TypeError, ValueError) as error:
            raise DecisionError(
                f"a decision is a JSON text of Decision.to_json, got {reprlib.repr(record)}"
            ) from error
        if not isinstance(content, Mapping) or content.get("superarm") != "decision":
            raise DecisionError(
                f"a decision is a JSON object of Decision.to_json, got {reprlib.repr(record)}"
            )
        try:
            version = fields.as_whole(content.get("version"))
            decision = cls._parsed(content) if version <= VERSION else None
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise DecisionError(
                f"this decision record is damaged ({type(error).__name__}: {error!s:.200})"
            ) from error
        if decision is None:
            raise DecisionError(f"this decision has version {version}: upgrade superarm to read it")
        return decision

    @classmethod
    def _parsed(cls, content: Mapping[str, Any]) -> "Decision":
        items = fields.as_items(content["items"])
        names = fields.as_names(content["names"])
        features = fields.read_features(content["features"], len(items))
        if isinstance(features, InContext):
            names = features.names
        if names is not None and items and len(names) != features.shape[1]:
            raise ValueError(f"it names {len(names)} of {features.shape[1]} features")
        decision = cls(
            id=fields.as_text(content["id"], fields.LONGEST_ID),
            items=items,
            features=features,
            time=_time(content["time"]),
            seed=fields.as_seed(content["seed"]),
            propensity=fields.as_propensity(content["propensity"], len(items)),
            names=names,
            draws=fields.as_count(content.get("draws")),
            signature=fields.as_signature(content.get("signature")),
        )
        if decision._check() != content["check"]:
            raise ValueError("its checksum is that of other content")
        return decision

    def _words(self) -> dict[str, Any]:
        """All fields but the features and the signature, in terms of JSON."""
        words = {
            "id": self.id,
            "items": [to_json(item) for item in self.items],
            "time": self.time,
            "seed": self.seed,
            "propensity": self.propensity,
            "names": None if isinstance(self.features, InContext) else self.names,
        }
        return words if self.draws is None else words | {"draws": self.draws}

    def _features(self) -> Any:
        """The features in terms of JSON: of a context, those of the items and the context's own."""
        Phi = self.features
        if not isinstance(Phi, InContext):
            return np.asarray(Phi, np.float64).tolist()
        return {
            "kind": kind_of(Phi),
            "items": dense_rows(Phi.rows).tolist(),
            "context": Phi.x.tolist(),
            "item_names": Phi.item_names,
            "context_names": Phi.x_names,
        }

    def content(self) -> bytes:
        """All that it says, however it is written: 1 and 1.0 are alike, and so are 0.0 and -0.0."""
        words = list(self._words().values())
        Phi = self.features
        numbers = [Phi]
        if isinstance(Phi, InContext):
            words += [kind_of(Phi), Phi.item_names, Phi.x_names]
            numbers = [dense_rows(Phi.rows), Phi.x]
        content = json.dumps(words).encode()
        for array in numbers:
            exact = np.ascontiguousarray(array, "<f8") + 0.0  # -0.0 becomes 0.0
            content += exact.tobytes()
        return content

    def _check(self) -> str:
        """The checksum of the content."""
        return f"{zlib.crc32(self.content()):08x}"

    def places(self, items: Any) -> list[int]:
        """Where in the decision these items are."""
        at = {item: place for place, item in enumerate(self.items)}
        for item in items:
            if item not in at:
                raise ItemsError(f"item {item!r:.100} was not chosen in this decision")
        return [at[item] for item in items]


def dense_rows(rows: Any) -> Array:
    """Rows of items as float64, sparse ones filled."""
    filled = rows.toarray() if is_sparse(rows) else rows
    return np.asarray(filled, np.float64)


def now() -> datetime:
    """The time of the clock."""
    return datetime.now(UTC)


def as_time(moment: datetime) -> str:
    """The moment as a text, in UTC, so that times compare as texts."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _time(value: Any) -> str:
    moment = datetime.fromisoformat(fields.as_text(value, 60))
    if moment.tzinfo is None:
        raise ValueError(f"the time {value} has no time zone")
    return as_time(moment)


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
        self.refuse_unfit(decision)
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

    def refuse_unfit(self, decision: Decision) -> None:
        """Raise if the ledger could not keep the decision, or if it is of the future.

        One dated 9999 would stay for ever, and push out those that are remembered by their age.
        """
        try:
            fields.as_text(decision.id, fields.LONGEST_ID)
        except (TypeError, ValueError) as error:
            raise DecisionError(f"a decision has a text as its id, but {error}") from error
        if re.fullmatch(_TIME, str(decision.time)) is None:
            raise DecisionError(
                f"the time of a decision is a text as of as_time, got {decision.time!r:.60}"
            )
        if len(decision.items) > fields.MOST_ITEMS:
            raise DecisionError(
                f"a decision is of at most {fields.MOST_ITEMS} items, got {len(decision.items)}"
            )
        if decision.time > as_time(now() + CLOCKS_DIFFER):
            raise DecisionError(
                f"this decision is of {decision.time}, which is in the future: it is forged, or a "
                "clock is wrong by more than an hour"
            )

    def note(self, decision: Decision, places: list[int]) -> None:
        """Remember that these places of the decision were observed."""
        self.refuse_unfit(decision)
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

    def copy(self) -> "Ledger":
        """One that may be changed without this one."""
        other = Ledger(self.limit)
        other.observed = dict(self.observed)
        other.before = self.before
        return other

    def merged(self, other: "Ledger") -> "Ledger":
        """The ledger of what either observed; refuses what both observed."""
        both = self.copy()
        both.before = max(self.before, other.before)
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
        texts = map(pack_texts, (self.observed, times, places, [self.before]))
        return {f"observed.{name}": text for name, text in zip(FILED, texts, strict=True)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], limit: int) -> "Ledger":
        """The ledger of a file."""
        ledger = cls(limit)
        _check_filed(arrays)
        texts = [unpack_texts(arrays[f"observed.{name}"]) for name in FILED]
        (ledger.before,) = texts.pop()
        for key, time, bits in zip(*texts, strict=True):
            ledger.observed[key] = Observed(time, int(bits, 16))
        if len(ledger.observed) < len(texts[0]):
            raise ValueError("it holds an observed decision twice")
        return ledger


def _check_filed(arrays: Mapping[str, Array]) -> None:
    """Refuse what is no ledger while it is bytes: as objects of Python's it takes several times the
    room.
    """
    counts = set()
    for name, text in _FILED_TEXTS.items():
        data = arrays[f"observed.{name}"]
        pattern = rf"(?:\0{text})*+".encode()
        if data.dtype != np.uint8 or re.fullmatch(pattern, data.data) is None:
            raise ValueError(f"the {name} of its observed decisions is damaged")
        counts.add(np.count_nonzero(data == 0))
    before = arrays["observed.before"].tobytes()
    if len(counts) > 1 or re.fullmatch(rf"\0({_TIME})?".encode(), before) is None:
        raise ValueError("its observed decisions are damaged")

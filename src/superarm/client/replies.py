"""What a service answers, as records."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from superarm.agent.explain import Explanation
from superarm.errors import DecisionError, ServiceError

T = TypeVar("T")
FOREIGN = "the answer is not one of superarm's service, or of another version: look at the address"
"""What an error says of an answer that cannot be read."""


@dataclass(frozen=True)
class RemoteDecision:
    """What a service chose, and when: a record to keep for feedback that comes late.

    Attributes:
        agent: the name of the agent.
        id: what feedback refers to.
        items: the chosen items, (K,).
        time: when, UTC as ISO 8601.
        seed: what its randomness came from.
        believed: the position in the service's log of what was believed.
        propensity: per item the probability of being chosen, if it was asked for.
        draws: how many decisions the propensities were estimated from.

    >>> from superarm.client import RemoteDecision
    >>> made = RemoteDecision("news", "7-c0ffee", ("a", "b"), "2026-01-01T00:00:00+00:00", 1, 6)
    >>> text = made.to_json()  # to a page, a queue, another process
    >>> RemoteDecision.from_json(text) == made
    True
    """

    agent: str
    id: str
    items: tuple[int | str, ...]  # (K,)
    time: str  # UTC, ISO 8601
    seed: int
    believed: int  # the position in the service's log of what was believed
    propensity: tuple[float, ...] | None = None  # (K,) if asked for: P(the item is chosen)
    draws: int | None = None  # decisions that the propensities were estimated from

    def to_json(self) -> str:
        """The record as JSON.

        Returns:
            a text that `from_json` reads.
        """
        return json.dumps({"superarm": "remote decision"} | asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, record: str | bytes | Mapping[str, Any]) -> "RemoteDecision":
        """The decision that `to_json` wrote, from the text or from what it was parsed to.

        Returns:
            an equal decision.
        """
        try:
            content = dict(record if isinstance(record, Mapping) else json.loads(record))
        except (RecursionError, TypeError, ValueError) as error:
            raise DecisionError(
                f"a decision is a JSON text of RemoteDecision.to_json, got {record!r:.100}"
            ) from error
        if content.pop("superarm", None) != "remote decision":
            raise DecisionError(
                f"a decision is a JSON object of RemoteDecision.to_json, got {record!r:.100}"
            )
        return cls.of_content(content)

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> "RemoteDecision":
        """The decision from its fields in terms of JSON; those of later versions are left out."""
        known = {field.name: content[field.name] for field in fields(cls) if field.name in content}
        if not _is_decision(known):
            raise DecisionError(f"this decision record is damaged: {content!r:.100}")
        share = known.get("propensity")
        known["items"] = tuple(known["items"])
        known["propensity"] = None if share is None else tuple(share)
        return cls(**known)


def _is_decision(content: Mapping[str, Any]) -> bool:
    """Whether these are the fields of a decision, each of its type."""
    kinds = {"agent": str, "id": str, "items": list, "time": str, "seed": int, "believed": int}
    if any(type(content.get(name)) is not kind for name, kind in kinds.items()):
        return False
    share = content.get("propensity")
    if type(content.get("draws")) not in (int, type(None)):
        return False
    if {type(item) for item in content["items"]} not in (set(), {int}, {str}):
        return False
    if share is None:
        return True
    is_list = isinstance(share, list) and len(share) == len(content["items"])
    return is_list and all(type(p) in (int, float) for p in share)


class AgentInfo(NamedTuple):
    """An agent of a service as it is now.

    Attributes:
        name: of the agent.
        learner: as JSON.
        oracle: as JSON.
        items: how many there are.
        features: how many there are, in all.
        learned: how many weights were learned.
        unfit: how much feedback the model refused.
        position: in the service's log.
        created: when.
        names: of the features of items.
        context: what a context consists of, if there is one.
        half_life: in seconds, if what was learned fades.
        default: what no feedback means, if that was said.
    """

    name: str
    learner: dict[str, Any]  # in terms of JSON, as the oracle
    oracle: dict[str, Any]
    items: int  # how many
    features: int  # how many, in all
    learned: int  # weights
    unfit: int  # feedback that the model refused
    position: int  # in the service's log
    created: str
    names: list[str] | None = None  # of the features of items
    context: dict[str, Any] | None = None
    half_life: float | None = None  # seconds
    default: dict[str, Any] | None = None


class Taken(NamedTuple):
    """What became of feedback, in weights: learned for the first time, known already, corrected.

    Attributes:
        learned: for the first time.
        repeated: known already.
        corrected: with another value.
        position: in the service's log.
    """

    learned: int
    repeated: int
    corrected: int
    position: int  # in the service's log


class ItemsPut(NamedTuple):
    """What became of items that were put.

    Attributes:
        added: how many are new.
        updated: how many have other features now.
        items: how many there are now.
        position: in the service's log.
    """

    added: int
    updated: int
    items: int  # how many there are now
    position: int


class ItemsRemoved(NamedTuple):
    """What became of items that were removed.

    Attributes:
        removed: how many are gone.
        items: how many there are now.
        position: in the service's log.
    """

    removed: int
    items: int  # how many there are now
    position: int


class Erased(NamedTuple):
    """What was erased of a user.

    Attributes:
        decisions: how many were erased.
        feedback: how many weights were unlearned.
    """

    decisions: int
    feedback: int


class Evaluation(NamedTuple):
    """What another learner would have earned per decision; printed, in words.

    Attributes:
        value: what it would have earned per decision.
        low: the lower end of the interval.
        high: the upper end of the interval.
        logged: what was earned.
        decisions: how many.
        warnings: what to beware of.
        text: all of it in words.
        se: the standard error.
    """

    value: float
    low: float
    high: float
    logged: float  # what was earned
    decisions: int
    warnings: list[str]
    text: str
    se: float | None = None

    def __str__(self) -> str:
        return self.text


def read(kind: type[T], reply: Any) -> T:
    """An answer as a record; what later versions say beside it is left out."""
    names: Any = kind._fields  # type: ignore[attr-defined] # all records are NamedTuples
    try:
        return kind(**{name: reply[name] for name in names if name in reply})
    except TypeError as error:
        raise ServiceError(f"{FOREIGN} ({error})") from error


def decision(agent: str, reply: Any) -> RemoteDecision:
    """The decision in an answer."""
    try:
        return RemoteDecision.of_content({**reply, "agent": agent})
    except (DecisionError, TypeError) as error:
        raise ServiceError(f"{FOREIGN} ({error})") from error


def explanation(reply: Any, draws: int) -> Explanation:
    """The explanation in an answer, which prints as a table."""
    try:
        rows = reply["items"]
        first = rows[0]["contributions"]
        names = tuple(first) if isinstance(first, dict) else None
        parts = [_values(row["contributions"], names) for row in rows]
        columns = ("score", "std", "deviation", "chosen", "chosen_se")
        values = {name: np.array([row[name] for row in rows], np.float64) for name in columns}
        items = np.array([row["item"] for row in rows], np.int64 if _whole(rows) else object)
    except (LookupError, TypeError, ValueError) as error:
        raise ServiceError(f"{FOREIGN} ({error!r:.100})") from error
    return Explanation(
        items=items, contributions=np.array(parts), draws=draws, names=names, **values
    )


def _values(contributions: Any, names: tuple[str, ...] | None) -> list[float]:
    return contributions if names is None else [contributions[name] for name in names]


def _whole(rows: Any) -> bool:
    return all(isinstance(row["item"], int) for row in rows)

"""What the log of a service holds: one record per thing that happened, never changed afterwards.

Numbers are kept as they are, bit by bit, so that what is folded from the log is always the same.
"""

from typing import Any

import msgspec
import numpy as np

from superarm.arrays import Array
from superarm.service.problems import Unavailable

Id = int | str
"""The id of an item: a whole number, or text."""


class Matrix(msgspec.Struct, frozen=True, array_like=True):
    """An array of numbers, exactly."""

    kind: str  # "f8", "f4" or "i8"
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: Any) -> "Matrix":
        """The array as bytes, little end first."""
        given = np.asarray(array)
        kind = "i8" if given.dtype.kind in "iub" else "f8"
        if given.dtype == np.float32:
            kind = "f4"
        exact = np.ascontiguousarray(given, f"<{kind}")
        return cls(kind, given.shape, exact.tobytes())

    def array(self) -> Array:
        """An array of its own, aligned like any other, so that sums over it round alike."""
        flat = np.frombuffer(self.data, f"<{self.kind}")
        return flat.reshape(self.shape).astype(flat.dtype.newbyteorder("="), copy=True)


class Event(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Something that happened to an agent."""


class Created(Event, frozen=True, tag="created"):
    """An agent came to be, without items."""

    name: str
    learner: dict[str, Any]
    oracle: dict[str, Any]
    context: dict[str, Any] | None = None
    half_life: float | None = None  # seconds
    default: dict[str, Any] | None = None
    remembered: int | None = None


class Changed(Event, frozen=True, tag="changed"):
    """An agent decides or learns by other settings; those that are None stay."""

    learner: dict[str, Any] | None = None
    oracle: dict[str, Any] | None = None
    default: dict[str, Any] | None = None


class Removed(Event, frozen=True, tag="removed"):
    """An agent was taken out of service."""


class ItemsPut(Event, frozen=True, tag="items put"):
    """Items came, or got other features."""

    items: list[Id]
    features: Matrix  # (n, d)
    names: list[str] | None = None
    oracle: dict[str, Any] | None = None


class ItemsRemoved(Event, frozen=True, tag="items removed"):
    """Items left."""

    items: list[Id]
    oracle: dict[str, Any] | None = None


class Loaded(Event, frozen=True, tag="loaded"):
    """An agent goes on from the file of another one."""

    file: bytes


class Decided(Event, frozen=True, tag="decided"):
    """Items were chosen."""

    token: str  # the second part of the decision's id
    items: list[Id]  # (K,)
    features: Matrix  # (K, d), in a context (K, d_i) of the items alone
    seed: int
    believed: int  # the position in the log of what was believed
    context: list[float] | None = None
    propensity: list[float] | None = None
    draws: int | None = None
    user: str | None = None
    available: list[Id] | None = None
    oracle: dict[str, Any] | None = None
    explored: bool | None = None  # whether the greedy choice differs; None if nobody looked


class Chosen(msgspec.Struct, frozen=True, tag_field="event", tag="decided"):
    """As much of a decision as feedback on it is compared with, and as is counted."""

    token: str
    items: list[Id]
    explored: bool | None = None


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What was observed at some places of one decision."""

    decision: int  # its position in the log
    places: list[int]
    weights: list[float]
    importance: list[float] | None = None
    known: int = -1  # places that were known before; -1 in a log that does not say so
    earned: float | None = None  # what those came to; None if there were none


class Observed(Event, frozen=True, tag="observed"):
    """Feedback on decisions, to be learned in one update."""

    seen: list[Seen]
    by_default: bool = False  # feedback that never came


class Correction(msgspec.Struct, frozen=True, array_like=True):
    """The true value where another one was observed."""

    decision: int  # its position in the log
    place: int
    weight: float
    observed: int  # the position of the first feedback on it
    importance: float | None = None
    before: float | None = None  # the weight until now; None in a log that does not say so
    earned: float | None = None  # what all weights of the decision came to until now


class Corrected(Event, frozen=True, tag="corrected"):
    """What was observed before was wrong: it is unlearned, and this is learned in its place."""

    corrections: list[Correction]


class Forgotten(Event, frozen=True, tag="forgotten"):
    """The decisions of a user were erased, and what was learned from them is unlearned."""

    decisions: list[int]  # positions in the log
    observed: list[int]  # positions of the feedback on them


AnyEvent = (
    Created
    | Changed
    | Removed
    | ItemsPut
    | ItemsRemoved
    | Loaded
    | Decided
    | Observed
    | Corrected
    | Forgotten
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyEvent)
_chosen = msgspec.msgpack.Decoder(Chosen)


def encoded(event: Event) -> bytes:
    """The event as bytes.

    >>> from superarm.service.events import Removed, decoded, encoded
    >>> decoded(encoded(Removed()))
    Removed()
    """
    return _encoder.encode(event)


def decoded(body: bytes) -> Any:
    """The event that `encoded` wrote."""
    return _decoded(_decoder, body)


def chosen(body: bytes) -> Chosen:
    """What a decision chose, without its features, which take longest to read."""
    found: Chosen = _decoded(_chosen, body)
    return found


def _decoded(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, TypeError) as error:  # TypeError: it is no bytes at all
        raise Unavailable(f"the log is damaged ({error}): restore a backup of it") from error


def kind_of(event: Event) -> str:
    """What happened, in a word."""
    tag = type(event).__struct_config__.tag
    return str(tag)

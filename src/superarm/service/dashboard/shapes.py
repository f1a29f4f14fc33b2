"""What the dashboard shows, as it goes over HTTP."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from superarm.service.wire import Body, Id, Spec


class Interval(msgspec.Struct, kw_only=True):
    """A mean with the bounds of its 95 % interval; those are None where nothing is known of the
    spread: of one value, or if all are alike.
    """

    value: float
    low: float | None
    high: float | None
    n: int  # of what it is the mean of


# --- all agents -----------------------------------------------------------------------------------


class AgentLine(msgspec.Struct, kw_only=True):
    """An agent among others, over a range of time."""

    name: str
    learner: str  # in words
    constraint: str  # in words
    items: int
    decisions: int
    feedback: int  # weights
    decisions_per_minute: float
    feedback_per_minute: float
    answered: float | None  # share of decisions with feedback; None without decisions
    delay: float | None  # median seconds from a decision to its first feedback
    earned: Interval | None  # return per decision, of those with feedback
    curve: list[float | None]  # return per decision over the range, for a small plot


class Overview(msgspec.Struct, kw_only=True):
    """All agents, and how the service does."""

    time: str
    since: str
    agents: list[AgentLine]
    behind: int  # events that are written and not yet learned
    behind_seconds: float
    uncounted: int  # events that the figures here do not know of yet
    storage: int  # bytes
    events: int


# --- one agent ------------------------------------------------------------------------------------


class History(msgspec.Struct, kw_only=True):
    """An agent over time: a column per bucket of `step` seconds."""

    since: str
    until: str
    step: int
    time: list[int]  # seconds since 1970, when a bucket begins
    decisions: list[int]
    answered: list[int]  # decisions with feedback
    feedback: list[int]  # weights
    delay: list[float | None]  # mean seconds to the first feedback
    earned: list[float | None]  # return per decision with feedback
    low: list[float | None]
    high: list[float | None]
    explored: list[float | None]  # share of the decisions looked at that differ from the greedy one
    looked_at: list[int]
    scales: dict[str, list[float | None]]  # as sigma, lam


class Baselines(msgspec.Struct, kw_only=True):
    """What other choices would have earned per decision, estimated from the log: a column per part
    of the range.
    """

    time: list[int]  # seconds since 1970, when a part begins
    until: int
    earned: list[Interval | None]
    random: list[Interval | None]
    first_day: list[Interval | None]
    first_day_until: str | None  # when the first day's policy was kept
    by: str  # "model", or "propensities"
    decisions: int  # that were looked at
    words: list[str]  # what to keep in mind


class Coefficient(msgspec.Struct, kw_only=True):
    """What is believed of one feature."""

    name: str
    mean: float
    std: float


class Coefficients(msgspec.Struct, kw_only=True):
    """What is believed of features, those that differ most from nothing first."""

    coefficients: list[Coefficient]
    total: int
    believed: int


class ItemTally(msgspec.Struct, kw_only=True):
    """An item, how often it was chosen, and what came back."""

    item: Id
    chosen: int
    weights: int  # times that feedback came
    mean: float | None
    low: float | None
    high: float | None
    predicted: float | None  # what is believed of it now; None in a context
    deviation: float | None  # the mean, less what features say


class ItemTallies(msgspec.Struct, kw_only=True):
    """Some of the items, in the order asked for."""

    items: list[ItemTally]
    found: int  # items that match
    total: int


class Bound(msgspec.Struct, kw_only=True):
    """One part of a constraint."""

    words: str
    binds: float  # share of decisions in which it leaves nothing
    used: float | None  # mean share of it that is used


class Constraint(msgspec.Struct, kw_only=True):
    """A constraint in words and in numbers."""

    words: str
    kind: str
    parameters: dict[str, Any]
    bounds: list[Bound]
    decisions: int  # the last ones, that were looked at


# --- decisions ------------------------------------------------------------------------------------


class DecisionLine(msgspec.Struct, kw_only=True):
    """A decision among others."""

    id: str
    time: str
    items: list[Id]
    weights: list[float | None]  # None where no feedback came
    explored: bool | None
    user: bool  # whether somebody's id is with it


class DecisionList(msgspec.Struct, kw_only=True):
    """Decisions, the last ones first."""

    decisions: list[DecisionLine]
    before: str | None  # what to ask for next


class CameBack(msgspec.Struct, kw_only=True):
    """Feedback on one item of a decision."""

    item: Id
    weight: float | None
    time: str | None  # when the first feedback came
    delay: float | None  # seconds
    by_default: bool
    corrected: bool


class Runner(msgspec.Struct, kw_only=True):
    """An item that was not chosen."""

    item: Id
    score: float
    chosen: float  # the probability


class Opened(msgspec.Struct, kw_only=True):
    """A decision with its reasons, and what came back."""

    id: str
    time: str
    items: list[Id]
    context: dict[str, float] | None
    candidates: int  # items it was chosen from
    constraint: str  # in words
    explored: bool | None
    believed: int  # the position in the log of what was believed
    explained: int  # the position of what the reasons are from
    reasons: list[Any]  # of wire.Contribution, an item each
    runners_up: list[Runner]
    came_back: list[CameBack]
    earned: float | None


# --- keys -----------------------------------------------------------------------------------------


class KeyLine(msgspec.Struct, kw_only=True):
    """What is known of a key; not the key itself."""

    id: str
    scopes: list[str]
    note: str
    created: str
    revoked: str | None


class KeyList(msgspec.Struct, kw_only=True):
    """All keys, also those that were revoked."""

    keys: list[KeyLine]


# --- what if --------------------------------------------------------------------------------------


class WhatIf(Body, kw_only=True):
    """Another learner or constraint, to be evaluated on the log."""

    learner: Spec | None = None  # the agent's own if it is left out
    oracle: Spec | None = None
    last: Annotated[int, Meta(ge=10, le=100_000)] = 1000  # decisions, fewer if they take too long


class Verdict(msgspec.Struct, kw_only=True):
    """What it would have earned per decision, by one estimator."""

    estimator: str  # "ips" or "doubly robust"
    earned: Interval | None  # None where nothing can be said
    difference: Interval | None  # to what was earned
    effective: float | None  # effective sample size
    support: str  # "enough", "little" or "too little to say"
    words: list[str]  # warnings


class WhatIfs(msgspec.Struct, kw_only=True):
    """What another learner would have earned, beside what was."""

    learner: str  # in words
    constraint: str
    logged: Interval
    decisions: int
    verdicts: list[Verdict]

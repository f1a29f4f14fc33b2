"""What goes over HTTP: the bodies of requests and of answers, from which the OpenAPI document is
made.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Name = Annotated[
    str,
    Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="of an agent, as in its address"),
]
Text = Annotated[str, Meta(min_length=1, max_length=1000, pattern="^[^\x00]*$")]
Number = Annotated[float, Meta(ge=-1e150, le=1e150)]
Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Text
"""The id of an item: a whole number, or text."""
Key = Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\x00]*$")]
Spec = Annotated[
    dict[str, Any],
    Meta(description='the kind of a learner or an oracle with its parameters: {"kind": "TopK"}'),
]


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is said; a field that is not known is refused, as it may be one that is misspelt."""


# --- requests -------------------------------------------------------------------------------------


class Context(Body, kw_only=True):
    """How the features of a call are made: from those of an item, and from those of the context."""

    kind: Literal["outer", "concatenated"] = "outer"
    names: Annotated[list[Text], Meta(min_length=1, max_length=10_000)]

    def __post_init__(self) -> None:
        """Refuse a name that is there twice."""
        if len(set(self.names)) < len(self.names):
            raise ValueError("the names of a context must differ")


class Default(Body, kw_only=True):
    """The feedback that is taken for granted if none comes."""

    after: Annotated[str | float, Meta(description='seconds, or as "30 min", "2 h", "7 d"')]
    weight: Number = 0.0


class Items(Body, kw_only=True):
    """Items with their features: a row per item."""

    items: Annotated[list[Id], Meta(min_length=1)]
    features: Annotated[list[list[Number]], Meta(min_length=1)]
    names: list[Text] | None = None
    oracle: Spec | None = None


class CreateAgent(Body, kw_only=True):
    """An agent to create."""

    name: Name
    learner: Spec = msgspec.field(default_factory=lambda: {"kind": "CombLinTS"})
    oracle: Spec
    context: Context | None = None
    half_life: Annotated[str | float, Meta(description='seconds, or as "7 d"')] | None = None
    default: Default | None = None
    items: Items | None = None

    def __post_init__(self) -> None:
        """Refuse a name that ends a line, which the pattern takes."""
        if self.name.endswith("\n"):
            raise ValueError("a name has no end of a line")


class ChangeAgent(Body, kw_only=True):
    """Settings to change; those that are left out stay. Another learner learns all from the log."""

    learner: Spec | None = None
    oracle: Spec | None = None
    default: Default | None = None


class RemoveItems(Body, kw_only=True):
    """Items to take away."""

    items: Annotated[list[Id], Meta(min_length=1)]
    oracle: Spec | None = None


class Decide(Body, kw_only=True):
    """A decision to make."""

    context: dict[str, Number] | list[Number] | None = None
    available: list[Id] | None = None
    oracle: Spec | None = None
    draws: Annotated[int, Meta(ge=0, le=100_000)] = 0
    user: Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\x00]*$")] | None = None


Weights = dict[str, Number] | list[Number]


class Seen(Body, kw_only=True):
    """What was observed of one decision: by item, or a list in the order of its items."""

    decision: Annotated[str, Meta(max_length=60)]
    weights: Weights
    importance: Number | Weights | None = None


class GiveFeedback(Body, kw_only=True):
    """Feedback on one decision, or on many, in one update."""

    decision: Annotated[str, Meta(max_length=60)] | None = None
    weights: Weights | None = None
    importance: Number | Weights | None = None
    feedback: Annotated[list[Seen], Meta(max_length=10_000)] | None = None
    correct: bool = False


class Explain(Body, kw_only=True):
    """Items to explain; by default those that would be chosen."""

    items: list[Id] | None = None
    context: dict[str, Number] | list[Number] | None = None
    available: list[Id] | None = None
    oracle: Spec | None = None
    draws: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Evaluate(Body, kw_only=True):
    """What another learner would have earned, had it decided: it is run through the last decisions
    of the log that have propensities and all their feedback.
    """

    learner: Spec
    last: Annotated[int, Meta(ge=10, le=100_000)] = 10_000
    seed: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class Forget(Body, kw_only=True):
    """A user whose decisions are to be erased."""

    user: Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\x00]*$")]


# --- answers --------------------------------------------------------------------------------------


class AgentInfo(Body, kw_only=True):
    """An agent as it is now."""

    name: str
    learner: dict[str, Any]
    oracle: dict[str, Any]
    context: dict[str, Any] | None = None
    half_life: float | None = None
    default: dict[str, Any] | None = None
    items: int
    features: int
    names: list[str] | None = None
    learned: int
    unfit: int
    position: int
    created: str


class AgentList(Body, kw_only=True):
    """All agents."""

    agents: list[AgentInfo]


class ItemList(Body, kw_only=True):
    """Some of the items, in their order, with their features."""

    items: list[Any]
    features: list[list[float]]
    names: list[str] | None = None
    total: int
    next: int | None = None


class Made(Body, kw_only=True):
    """A decision that was made, and is on disk."""

    id: str
    items: list[Any]
    time: str
    seed: int
    believed: int
    propensity: list[float] | None = None
    draws: int | None = None


class FullDecision(Made, kw_only=True):
    """A decision with all that is known of it."""

    agent: str
    features: list[list[float]]
    context: list[float] | None = None
    user: str | None = None
    weights: list[dict[str, Any]]


class Taken(Body, kw_only=True):
    """What became of feedback, in weights: learned for the first time, known already, corrected."""

    learned: int
    repeated: int
    corrected: int
    position: int


class ItemsTaken(Body, kw_only=True):
    """What became of items."""

    added: int
    updated: int
    items: int
    position: int


class ItemsGone(Body, kw_only=True):
    """What became of items that were removed."""

    removed: int
    items: int
    position: int


class Contribution(Body, kw_only=True):
    """Why an item is chosen, or not."""

    item: Any
    score: float
    std: float
    deviation: float
    chosen: float
    chosen_se: float
    contributions: dict[str, float] | list[float]


class Explained(Body, kw_only=True):
    """Why items are chosen, or not."""

    items: list[Contribution]
    believed: int


class Evaluated(Body, kw_only=True):
    """What another learner would have earned per decision, and how sure that is."""

    value: float
    se: float | None
    low: float
    high: float
    logged: float
    decisions: int
    warnings: list[str]
    text: str


class Erased(Body, kw_only=True):
    """What was erased."""

    decisions: int
    feedback: int


class Health(Body, kw_only=True):
    """Whether the service works."""

    status: str
    position: int | None = None
    agents: int | None = None
    leading: bool | None = None

"""What requests mean to an agent: ids, contexts, features and feedback, checked."""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from superarm.agent.decisions import REMEMBERED, Ledger
from superarm.agent.decisions import Observed as Noted
from superarm.agent.state import State
from superarm.contexts import InContext
from superarm.contracts import Learner
from superarm.service import log
from superarm.service.database import Connection
from superarm.service.durations import seconds_of
from superarm.service.engine import Limits
from superarm.service.events import Id, decoded
from superarm.service.fold import Folded
from superarm.service.problems import TooLarge, Unfit
from superarm.service.wire import AgentInfo, Default, GiveFeedback, Seen

NESTED = 6
"""How deep lists and objects lie in the description of a learner or an oracle."""
SET_HERE = ("effort", "rounds")
"""Parameters of oracles that say how long to search, and are left at their defaults."""
SEARCHED = {"iterations": 300, "kicks": 2, "restarts": 1}
"""Others, and how much of each is allowed."""
SIZES = (
    "L",
    "edges",
    "helpers",
    "k",
    "left_capacity",
    "m",
    "max_items",
    "n_cities",
    "n_cols",
    "n_left",
    "n_nodes",
    "n_right",
    "n_rows",
    "right_capacity",
    "sets",
    "source",
    "target",
    "total",
)
"""Parameters of oracles that arrays are made as large as."""


def info(name: str, folded: Folded) -> AgentInfo:
    """What an agent is now."""
    state = folded.state
    created = folded.created
    return AgentInfo(
        name=name,
        learner=created.learner,
        oracle=folded.oracle or created.oracle,
        context=created.context,
        half_life=created.half_life,
        default=folded.default or created.default,
        items=0 if state is None else state.catalogue.n,
        features=0 if state is None else state.problem.d,
        names=names_of(folded),
        learned=folded.learned,
        unfit=folded.unfit,
        position=folded.position,
        created=folded.began,
    )


def names_of(folded: Folded) -> list[str] | None:
    """The names of the features of items."""
    state = folded.state
    if state is None:
        return None
    Phi = state.problem.Phi
    names = Phi.item_names if isinstance(Phi, InContext) else state.catalogue.names
    return None if names is None else list(names)


def checked_ids(items: list[Id], folded: Folded, field: str = "/items") -> list[Id]:
    """Ids that are all alike, each once."""
    kinds = {type(item) for item in items}
    if len(kinds) > 1:
        raise Unfit("ids must be all whole numbers, or all text", field)
    if len(set(items)) < len(items):
        raise Unfit("an id is given twice", field)
    if folded.state is not None and items and isinstance(items[0], int) != folded.numbers:
        wanted = folded.state.catalogue.kind
        raise Unfit(f"the ids of this agent are {wanted}, not such as {items[0]!r:.60}", field)
    return items


def in_context(state: State, context: Any) -> Any:
    """The features of a call; None if they are the agent's own."""
    Phi = state.problem.Phi
    if not isinstance(Phi, InContext):
        if context is not None:
            raise Unfit("this agent was created without a context", "/context")
        return None
    if context is None:
        raise Unfit(f"this agent decides in a context of {Phi.x.shape[-1]} numbers", "/context")
    names = Phi.x_names
    if isinstance(context, dict):
        if names is None or set(context) != set(names):
            raise Unfit(f"a context is of {', '.join(names or ())[:500]}", "/context")
        context = [context[name] for name in names]
    if len(context) != Phi.x.shape[-1]:
        raise Unfit(f"a context is of {Phi.x.shape[-1]} numbers, not {len(context)}", "/context")
    return Phi.of(np.array(context, np.float64))


def in_order(rows: Any, names: list[str] | None, known: list[str] | None) -> Any:
    """Features with their columns in the order of the agent's."""
    if known is None and names is not None:
        raise Unfit("the features of this agent have no names: leave them out", "/names")
    if names is None or names == known or known is None:
        return rows
    if set(names) != set(known):
        odd = sorted(set(names) ^ set(known))[0]
        raise Unfit(f"feature {odd!r:.60} is not in both, the agent and what is given", "/names")
    return rows[:, [names.index(name) for name in known]]


def given_of(body: GiveFeedback) -> list[Seen]:
    """The decisions that feedback is on."""
    one = body.decision is not None and body.weights is not None
    if one == (body.feedback is not None):
        raise Unfit('give "decision" and "weights", or "feedback", a list of such')
    if body.feedback is not None:
        if body.decision is not None or body.weights is not None or body.importance is not None:
            raise Unfit('"feedback" is a list of decisions with weights: give nothing beside it')
        return body.feedback
    return [
        Seen(
            decision=str(body.decision),
            weights=body.weights or {},
            importance=body.importance,
        )
    ]


def needs_fractions(learner: Learner) -> bool:
    """Whether a learner takes weights in [0, 1] alone."""
    return learner.model.unit_weights


def limited(limits: Limits, spec: dict[str, Any]) -> dict[str, Any]:
    """The description of an oracle whose solver keeps to the limits of the service."""
    found = plain(spec, "/oracle")
    if found.get("kind") == "Milp":
        most = limits.oracle_seconds
        wanted = found.setdefault("time_limit", most)
        if not isinstance(wanted, int | float) or wanted > most:
            raise TooLarge(f"time_limit may be {most:g} seconds at most", "/oracle/time_limit")
    for name in SET_HERE:
        if name in found:
            raise Unfit(f"{name} is set by the service: leave it out", f"/oracle/{name}")
    for name, at_most in SEARCHED.items():
        largest = _largest(found.get(name))
        if largest > at_most:
            raise TooLarge(f"{name} may be {at_most} at most", f"/oracle/{name}")
    ends = 2 * limits.items  # of a graph whose edges are the items
    for name in SIZES:
        largest = _largest(found.get(name))
        if largest > ends:
            raise TooLarge(f"{name} may go up to {ends}", f"/oracle/{name}")
    return found


def plain(spec: dict[str, Any], field: str) -> dict[str, Any]:
    """The description of a learner or an oracle, if the log can keep it."""
    if not _is_plain(spec, NESTED):
        raise Unfit(
            f"lists and objects lie {NESTED} deep at most, and whole numbers within 64 bits", field
        )
    return dict(spec)


def _is_plain(value: Any, depth: int) -> bool:
    inside: Iterable[Any] = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    elif isinstance(value, int):
        return -(2**63) <= value < 2**63
    else:
        return True
    return depth > 0 and all(_is_plain(one, depth - 1) for one in inside)


def _largest(value: Any) -> float:
    """The largest number in lists of lists, by its size; 0 if there is none."""
    if isinstance(value, list):
        return max(map(_largest, value), default=0)
    return abs(value) if isinstance(value, int | float) else 0


def require_fractions(given: list[Seen]) -> None:
    """Refuse weights outside [0, 1]."""
    for i, one in enumerate(given):
        values = one.weights.values() if isinstance(one.weights, dict) else one.weights
        if any(not 0 <= w <= 1 for w in values):
            field = f"/feedback/{i}/weights" if len(given) > 1 else "/weights"
            raise Unfit("this agent learns from weights in [0, 1]: rescale them", field)


def digest_of(name: str, body: Any) -> bytes:
    """What tells a request from others."""
    text = msgspec.json.encode([type(body).__name__, name, body], order="sorted")
    return hashlib.blake2b(text, digest_size=16).digest()


def ledger_of(connection: Connection, folded: Folded) -> Ledger:
    """Which decisions of an agent were observed, the last ones."""
    ledger = Ledger(REMEMBERED)
    rows = connection.execute(
        "SELECT e.position, e.time, e.body, f.seen FROM events e "
        "JOIN feedback f ON f.decision = e.position "
        "WHERE e.agent = ? AND e.kind = 'decided' AND e.position <= ? "
        "ORDER BY e.position DESC LIMIT ?",
        (folded.created_at, folded.position, REMEMBERED),
    )
    for position, time, body, seen in reversed(rows):
        if body is None:
            continue
        event = decoded(body)
        bits = 0
        for place in log.places(seen):
            bits |= 1 << place
        ledger.observed[f"{position}-{event.token}"] = Noted(time, bits)
    return ledger


def seconds(given: Any, field: str) -> float | None:
    """The seconds that a time means, if there is one."""
    return None if given is None else seconds_of(given, field)


def default_of(given: Default | None) -> dict[str, Any] | None:
    """The feedback that is taken for granted, as the log keeps it."""
    if given is None:
        return None
    return {"after": seconds_of(given.after, "/default/after"), "weight": float(given.weight)}

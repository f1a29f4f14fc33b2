"""The words of a client: what is asked of a service, and what is made of its answers."""

import tempfile
from pathlib import Path
from typing import Any

from superarm.agent import Agent
from superarm.agent.explain import Explanation
from superarm.agent.ids import as_ids
from superarm.agent.specs import oracle_of
from superarm.arrays import Array
from superarm.checks import is_whole
from superarm.client import replies, sent
from superarm.client.replies import (
    FOREIGN,
    AgentInfo,
    Erased,
    Evaluation,
    ItemsPut,
    ItemsRemoved,
    RemoteDecision,
    Taken,
)
from superarm.client.steps import Request, Work
from superarm.errors import ParameterError, ServiceError
from superarm.files import archive

PAGE = 10_000
"""Items that are listed at a time."""


def agents() -> Work[list[AgentInfo]]:
    """All agents."""
    reply = yield Request("GET", "/v1/agents")
    return [replies.read(AgentInfo, one) for one in reply["agents"]]


def create(
    name: str,
    learner: Any,
    oracle: Any,
    features: Any,
    items: Any,
    context: Any,
    half_life: Any,
    default: Any,
) -> Work[None]:
    """A new agent."""
    sent.address(name)
    body = {"name": name, "oracle": sent.oracle(oracle)} | sent.without_none(
        learner=sent.learner(learner),
        context=sent.context_names(context, features),
        half_life=sent.duration(half_life),
        default=sent.default(default),
        items=None if features is None else sent.items(features, items),
    )
    yield Request("POST", "/v1/agents", body, repeatable=False)


def erase(user: str) -> Work[Erased]:
    """Erase what is known of a user."""
    reply = yield Request("POST", "/v1/forget", {"user": user})
    return replies.read(Erased, reply)


# --- one agent ------------------------------------------------------------------------------------


def info(name: str) -> Work[AgentInfo]:
    """An agent as it is now."""
    reply = yield Request("GET", sent.address(name))
    return replies.read(AgentInfo, reply)


def change(name: str, learner: Any, oracle: Any, default: Any) -> Work[AgentInfo]:
    """Other settings."""
    body = sent.without_none(
        learner=sent.learner(learner),
        oracle=sent.oracle(oracle),
        default=sent.default(default),
    )
    reply = yield Request("PATCH", sent.address(name), body)
    return replies.read(AgentInfo, reply)


def delete(name: str) -> Work[None]:
    """Take an agent out of service."""
    yield Request("DELETE", sent.address(name), repeatable=False)


def items(name: str) -> Work[Array]:
    """The ids of all items, in their order."""
    found: list[Any] = []
    start: int | None = 0
    while start is not None:
        reply = yield Request("GET", f"{sent.address(name)}/items?start={start}&limit={PAGE}")
        found += reply["items"]
        start = reply.get("next")
    if len(found) != reply["total"] or len(set(found)) < len(found):
        raise ServiceError("the items were changed while they were listed: list them again")
    return as_ids(found)


def put_items(name: str, features: Any, items: Any, oracle: Any) -> Work[ItemsPut]:
    """More items, and other features for those that are known."""
    body = sent.items(features, items, oracle)
    reply = yield Request("PUT", f"{sent.address(name)}/items", body)
    return replies.read(ItemsPut, reply)


def remove_items(name: str, items: Any, oracle: Any) -> Work[ItemsRemoved]:
    """Take items away."""
    listed = items if hasattr(items, "tolist") else list(items)
    body = {"items": sent.ids(listed)} | sent.without_none(oracle=sent.oracle(oracle))
    reply = yield Request("DELETE", f"{sent.address(name)}/items", body, repeatable=False)
    return replies.read(ItemsRemoved, reply)


def new_decision(
    name: str,
    context: Any,
    available: Any,
    oracle: Any,
    draws: int,
    user: str | None,
) -> Work[RemoteDecision]:
    """A decision, once it is on the service's disk."""
    if not (is_whole(draws) and draws >= 0):
        raise ParameterError(f"draws must be a whole number, 0 or more, got {draws!r}")
    body = {"draws": int(draws)} | _asked(context, available, oracle)
    body |= sent.without_none(user=user)
    reply = yield Request("POST", f"{sent.address(name)}/decisions", body, once=True)
    return replies.decision(name, reply)


def _asked(context: Any, available: Any, oracle: Any) -> dict[str, Any]:
    """What a decision is made from."""
    return sent.without_none(
        context=sent.context(context),
        available=sent.available(available),
        oracle=sent.oracle(oracle),
    )


def observe(
    name: str,
    decisions: Any,
    weights: Any,
    importance: Any,
    *,
    correct: bool = False,
) -> Work[Taken]:
    """Feedback, once it is on the service's disk."""
    body = sent.feedback(name, decisions, weights, importance)
    if correct:
        body["correct"] = True
    reply = yield Request("POST", f"{sent.address(name)}/feedback", body, once=True)
    return replies.read(Taken, reply)


def explain(
    name: str,
    items: Any,
    context: Any,
    available: Any,
    oracle: Any,
    draws: int,
) -> Work[Explanation]:
    """Why items are chosen, or not."""
    wanted = None if items is None else sent.ids(items)
    body = {"draws": draws} | _asked(context, available, oracle) | sent.without_none(items=wanted)
    reply = yield Request("POST", f"{sent.address(name)}/explanations", body)
    return replies.explanation(reply, draws)


def evaluate(name: str, learner: Any, last: int, seed: int) -> Work[Evaluation]:
    """What another learner would have earned."""
    body = {"learner": sent.learner(learner), "last": last, "seed": seed}
    reply = yield Request("POST", f"{sent.address(name)}/evaluations", body)
    return replies.read(Evaluation, reply)


# --- files ----------------------------------------------------------------------------------------


def snapshot(name: str, seed: int | None) -> Work[Agent]:
    """The agent as one of the library's."""
    described = yield Request("GET", sent.address(name))
    file = yield Request("GET", f"{sent.address(name)}/snapshot")
    if not isinstance(file, bytes):
        raise ServiceError(FOREIGN)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        path.write_bytes(file)
        _, arrays = archive.open_file(path)
        ids = arrays.get("items")
        numbers = ids is None or ids.dtype.kind == "i"
        oracle = oracle_of(described["oracle"], numbers=numbers)
        return Agent.load(path, oracle=oracle, seed=seed)


def load(name: str, agent: Any) -> Work[AgentInfo]:
    """Let an agent go on from another one, or from its file."""
    if isinstance(agent, Agent):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.npz"
            agent.save(path)
            file = path.read_bytes()
    else:
        file = Path(agent).read_bytes()
    reply = yield Request("PUT", f"{sent.address(name)}/snapshot", file)
    return replies.read(AgentInfo, reply)

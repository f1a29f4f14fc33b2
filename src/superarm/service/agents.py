"""Agents and their items: created, changed, looked at, removed.

What is written is tried first, on what is believed now: whatever is wrong with it shows.
"""

import asyncio
from typing import Any

import msgspec
import numpy as np

from superarm.agent.decisions import as_time, now
from superarm.agent.specs import learner_of, oracle_of
from superarm.contexts import InContext
from superarm.contracts import Learner
from superarm.errors import SuperarmError
from superarm.service import commits, log
from superarm.service.asking import (
    checked_ids,
    default_of,
    in_order,
    info,
    limited,
    names_of,
    needs_fractions,
    plain,
    seconds,
)
from superarm.service.engine import Limits, Service, as_refused
from superarm.service.events import (
    Changed,
    Created,
    Event,
    ItemsPut,
    ItemsRemoved,
    Loaded,
    Matrix,
    Observed,
)
from superarm.service.fold import Folded, Truth, applied
from superarm.service.log import Entry
from superarm.service.problems import Refused, TooLarge, Unfit
from superarm.service.wire import (
    AgentInfo,
    ChangeAgent,
    CreateAgent,
    ItemList,
    Items,
    ItemsGone,
    ItemsTaken,
    RemoveItems,
)


def listed(service: Service) -> list[AgentInfo]:
    """All agents."""
    return [info(name, folded) for name, folded in sorted(service.learner.views.items())]


def shown(service: Service, name: str) -> AgentInfo:
    """An agent as it is now."""
    return info(name, service.view(name))


async def create(service: Service, body: CreateAgent) -> AgentInfo:
    """A new agent."""
    if len(service.learner.views) >= service.limits.agents:
        raise TooLarge(f"there may be {service.limits.agents} agents: remove one first")
    learner = learner_of(plain(body.learner, "/learner"))
    _require_settings(learner, body.default)
    context = None
    if body.context is not None:
        context = msgspec.to_builtins(body.context)
        context["kind"] = body.context.kind
    event = Created(
        name=body.name,
        learner=dict(body.learner),
        oracle=limited(service.limits, body.oracle),
        context=context,
        half_life=seconds(body.half_life, "/half_life"),
        default=default_of(body.default),
    )
    trial = await asyncio.to_thread(trial_of, service.limits, None, event)
    put = None
    if body.items is not None:
        put = await asyncio.to_thread(_first_items, service.limits, trial, body.items)
    else:
        oracle_of(event.oracle)
    position = await service.written(commits.create(event, put))
    await service.published(position, body.name)
    return info(body.name, service.view(body.name))


async def change(service: Service, name: str, body: ChangeAgent) -> AgentInfo:
    """Other settings for an agent."""
    folded = service.view(name)
    spec = body.learner or folded.created.learner
    learner = learner_of(plain(spec, "/learner"))
    default = body.default or folded.default or folded.created.default
    _require_settings(learner, default)
    oracle = None
    if body.oracle is not None:
        oracle = limited(service.limits, body.oracle)
    event = Changed(
        learner=body.learner,
        oracle=oracle,
        default=default_of(body.default),
    )
    if event == Changed():
        raise Unfit("there is nothing to change: give a learner, an oracle or a default")
    await asyncio.to_thread(trial_of, service.limits, folded, event)
    if body.learner is not None:
        await asyncio.to_thread(_try_learner, service, folded, body.learner)
    work = commits.change(name, folded.created_at, event, folded.position)
    position = await service.written(work)
    await service.published(position, name)
    return info(name, service.view(name))


async def remove(service: Service, name: str) -> None:
    """Take an agent out of service."""
    folded = service.view(name)
    position = await service.written(commits.remove(name, folded.created_at))
    await service.published(position, name)
    service.screens.forget(name)


def trial_of(limits: Limits, folded: Folded | None, event: Event) -> Folded:
    """The agent after an event that is not written yet: whatever is wrong with it shows."""
    position = 1 if folded is None else folded.position + 1
    entry = Entry(position, position, as_time(now()), event)
    nothing = Truth({}, set(), None)
    try:
        found = applied(folded, [entry], _never, nothing)
    except SuperarmError as error:
        raise as_refused(error) from error
    _require_size(limits, found)
    return found


def _require_few_features(limits: Limits, folded: Folded, d_i: int) -> None:
    """Refuse features before a belief about so many is made."""
    context = folded.created.context
    d = d_i
    if context is not None:
        d_u = len(context["names"])
        multiplied = context["kind"] == "outer"
        d = d_u * d_i if multiplied else d_u + d_i
    if d > limits.features:
        raise TooLarge(f"there may be {limits.features} features in all, not {d}", "/features")


def _require_size(limits: Limits, folded: Folded) -> None:
    state = folded.state
    if state is None:
        return
    L = state.problem.L
    d = state.problem.d
    if limits.features < d:
        raise TooLarge(f"there may be {limits.features} features in all, not {d}", "/features")
    if limits.items < L:
        raise TooLarge(f"an agent may have {limits.items} items, not {L}", "/items")
    K = state.problem.oracle.K
    if K is not None and limits.chosen < K:
        raise TooLarge(f"a decision may be of {limits.chosen} items, not {K}", "/oracle")


def _require_settings(learner: Learner, default: Any) -> None:
    """Refuse a learner that cannot learn the default weight."""
    if default is None or not needs_fractions(learner):
        return
    weight = default["weight"] if isinstance(default, dict) else default.weight
    if not 0 <= weight <= 1:
        raise Unfit("this learner learns from weights in [0, 1]", "/default/weight")


def _try_learner(service: Service, folded: Folded, learner: dict[str, Any]) -> None:
    """Refuse a learner that cannot be with all the items that there ever were."""
    truth = Truth({}, set(), learner)
    entries = log.folded(service.database.read(), folded.created_at, 0, folded.position)
    trial: Folded | None = None
    for entry in entries:
        if isinstance(entry.event, Loaded):
            raise Unfit(
                "this agent goes on from a file, whose learner cannot be changed", "/learner"
            )
        if isinstance(entry.event, Observed):
            continue
        try:
            trial = applied(trial, [entry], _never, truth)
        except SuperarmError as error:
            raise Unfit(str(error), "/learner") from error


def _items(limits: Limits, folded: Folded, body: Items) -> ItemsPut:
    """Items as an event, with their features in the order of the agent's."""
    ids = checked_ids(body.items, folded)
    try:
        rows = np.array(body.features, np.float64)
    except ValueError as error:
        raise Unfit("features must be rows of the same length", "/features") from error
    if rows.ndim != 2 or len(rows) != len(ids):
        raise Unfit(
            f"there must be a row of features per item: {len(ids)} items, "
            f"{len(body.features)} rows",
            "/features",
        )
    d = rows.shape[1]
    _require_few_features(limits, folded, d)
    names = body.names
    if names is not None and (len(names) != d or len(set(names)) < len(names)):
        raise Unfit(f"there must be a name of its own per feature, {d}", "/names")
    known = names_of(folded)
    if folded.state is not None:
        rows = in_order(rows, names, known)
        names = known
    oracle = None if body.oracle is None else limited(limits, body.oracle)
    return ItemsPut(ids, Matrix.of(rows), names, oracle)


def _first_items(limits: Limits, folded: Folded, body: Items) -> ItemsPut:
    """The items that an agent is created with, tried."""
    try:
        event = _items(limits, folded, body)
        trial_of(limits, folded, event)
    except Refused as error:
        if error.field in ("/items", "/features", "/names"):
            raise type(error)(error.detail, f"/items{error.field}") from error
        raise
    return event


async def put_items(service: Service, name: str, body: Items) -> ItemsTaken:
    """More items, and other features for those that are known."""
    folded = service.view(name)
    event = await asyncio.to_thread(_items, service.limits, folded, body)
    after = await asyncio.to_thread(trial_of, service.limits, folded, event)
    work = commits.change(name, folded.created_at, event, folded.position)
    position = await service.written(work)
    await service.published(position, name)
    before = 0 if folded.state is None else folded.state.catalogue.n
    n = after.state.catalogue.n  # type: ignore[union-attr] # it has items
    added = n - before
    return ItemsTaken(added=added, updated=len(event.items) - added, items=n, position=position)


async def remove_items(service: Service, name: str, body: RemoveItems) -> ItemsGone:
    """Take items away."""
    folded, _ = service.ready(name)
    ids = checked_ids(body.items, folded)
    oracle = None if body.oracle is None else limited(service.limits, body.oracle)
    event = ItemsRemoved(ids, oracle)
    after = await asyncio.to_thread(trial_of, service.limits, folded, event)
    work = commits.change(name, folded.created_at, event, folded.position)
    position = await service.written(work)
    await service.published(position, name)
    n = after.state.catalogue.n  # type: ignore[union-attr] # it has items
    return ItemsGone(removed=len(ids), items=n, position=position)


def items(service: Service, name: str, start: int, limit: int) -> ItemList:
    """Some of the items, in their order."""
    _, state = service.ready(name)
    Phi = state.problem.Phi
    names = names_of(service.view(name))
    rows = Phi.rows if isinstance(Phi, InContext) else Phi
    total = state.catalogue.n
    end = min(start + limit, total)
    return ItemList(
        items=state.catalogue.ids[start:end].tolist(),
        features=np.asarray(rows[start:end], np.float64).tolist(),
        names=names,
        total=total,
        next=end if end < total else None,
    )


def _never(positions: set[int]) -> dict[int, Entry]:
    raise LookupError("a trial looks nothing up")

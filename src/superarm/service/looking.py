"""Looking inside: why items are chosen, what another learner would have earned, agents as files."""

import asyncio
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from superarm.agent import Agent
from superarm.agent.explain import Explanation
from superarm.agent.explain import explain as explain_items
from superarm.agent.specs import learner_of
from superarm.arrays import is_sparse
from superarm.contexts import KINDS, InContext, side_of
from superarm.service import commits, evaluation
from superarm.service.agents import trial_of
from superarm.service.asking import checked_ids, info, ledger_of, names_of
from superarm.service.decisions import asked_by
from superarm.service.engine import Service
from superarm.service.events import Loaded
from superarm.service.fold import Folded, oracle_in_force
from superarm.service.problems import Unfit
from superarm.service.wire import AgentInfo, Contribution, Evaluate, Evaluated, Explain, Explained


def explain(service: Service, name: str, body: Explain) -> Explained:
    """Why items are chosen, or not."""
    folded, state = service.ready(name)
    call = asked_by(service.limits, folded, state, body, alone=False)
    rng = np.random.default_rng(folded.position)
    if body.items is None:
        A = call.decided(rng)
        A = A[A >= 0]
    else:
        A = call.catalogue.positions(checked_ids(body.items, folded))
    found = explain_items(
        call.learner,
        call.belief,
        call.problem,
        A,
        rng=rng,
        draws=body.draws,
        seconds=service.limits.decide_seconds,
    )
    if not all(np.isfinite(numbers).all() for numbers in found[1:7]):
        raise Unfit("what is believed of these items leaves the range of float64")
    found = found._replace(items=call.ids(A), names=state.catalogue.names)
    listed = [contribution(found, i) for i in range(len(A))]
    return Explained(items=listed, believed=folded.position)


def contribution(found: Explanation, i: int) -> Contribution:
    """What an explanation says of one item."""
    parts: Any = found.contributions[i].tolist()
    if found.names is not None:
        parts = dict(zip(found.names, parts, strict=True))
    return Contribution(
        item=found.items.tolist()[i],
        score=float(found.score[i]),
        std=float(found.std[i]),
        deviation=float(found.deviation[i]),
        chosen=float(found.chosen[i]),
        chosen_se=float(found.chosen_se[i]),
        contributions=parts,
    )


def evaluate(service: Service, name: str, body: Evaluate) -> Evaluated:
    """What another learner would have earned."""
    folded, state = service.ready(name)
    evaluation.require_affordable(service.limits, state, body.last)
    return evaluation.evaluate(service.database.read(), folded, state, body)


def snapshot(service: Service, name: str) -> bytes:
    """The agent as a file that `Agent.load` opens."""
    service.ready(name)
    folded = service.view(name)
    state: Any = folded.state
    agent = Agent(
        state.learner,
        features=state.problem.Phi,
        oracle=oracle_in_force(folded),
        items=state.catalogue.ids,
        half_life=folded.half_life,
    )
    ledger = ledger_of(service.database.read(), folded)
    moment = datetime.fromisoformat(folded.time)
    agent.restore(state.belief, state.catalogue.names, ledger, moment)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        agent.save(path)
        return path.read_bytes()


def _require_alike(folded: Folded, after: Folded) -> None:
    """Refuse a file of another context or, where there are items, of other features or ids."""
    state: Any = after.state
    context = folded.created.context
    Phi = state.problem.Phi
    if (context is not None) != isinstance(Phi, InContext):
        raise Unfit("of the file and the agent, one has a context and one has none")
    if context is not None:
        names = context["names"]
        if Phi.made is not KINDS[context["kind"]] or list(Phi.x_names or names) != names:
            raise Unfit("the file was saved with another context than the agent's")
        if Phi.x.shape[-1] != len(names):
            raise Unfit("the file was saved with another context than the agent's")
    if folded.state is None:
        return
    if state.problem.d != folded.state.problem.d or names_of(after) != names_of(folded):
        raise Unfit("the file was saved with other features than the agent's: create another")
    if after.numbers != folded.numbers:
        raise Unfit("the ids of the file are of another kind than the agent's: create another")


async def load(service: Service, name: str, file: bytes) -> AgentInfo:
    """Let an agent go on from the file of another one, with its items and all that it learned."""
    folded = service.view(name)
    event = Loaded(file)
    after = await asyncio.to_thread(trial_of, service.limits, folded, event)
    state: Any = after.state
    learner = learner_of(folded.created.learner)
    if state.learner != learner:
        raise Unfit(f"the file was saved with {state.learner}, which is not the agent's learner")
    _require_alike(folded, after)
    if is_sparse(side_of(state.problem.Phi)):
        raise Unfit("the file has sparse features, which a service does not take")
    kind = state.catalogue.kind
    if kind not in ("whole numbers", "text"):
        raise Unfit("the ids of a service's items are whole numbers or text")
    work = commits.change(name, folded.created_at, event, folded.position)
    position = await service.written(work)
    await service.published(position, name)
    return info(name, service.view(name))

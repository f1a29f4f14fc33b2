"""What an agent is, as a function of its log: a fold over the events, always with the same bits.

Feedback counts where it came, with the value that is known to be true by now. So a correction
unlearns the old value exactly, as what was forgotten at a user's wish is unlearned.
"""

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from superarm.agent import Agent, Decision
from superarm.agent.changes import aged
from superarm.agent.constraints import constraints
from superarm.agent.decisions import as_time
from superarm.agent.growing import Growing
from superarm.agent.specs import learner_of, oracle_of
from superarm.agent.state import (
    State,
    caught_up,
    require_scores,
    started,
    with_changed_features,
    with_items,
    without_gaps,
    without_items,
)
from superarm.arrays import Features
from superarm.checks.tables import Table
from superarm.contexts import KINDS, InContext
from superarm.contracts import Oracle
from superarm.errors import FileError, SuperarmError
from superarm.service import log
from superarm.service.database import Connection
from superarm.service.events import (
    Changed,
    Corrected,
    Created,
    Decided,
    Forgotten,
    Id,
    ItemsPut,
    ItemsRemoved,
    Loaded,
    Matrix,
    Observed,
    Removed,
    decoded,
)
from superarm.service.log import Entry
from superarm.service.observed import Corrections, Noted, features_of, feedback_of, noted

UNFIT = (SuperarmError, ArithmeticError, np.linalg.LinAlgError)
"""What models raise of feedback that they cannot learn from; left out, as learning would stop."""


class Folded(NamedTuple):
    """An agent after all events up to a position."""

    created: Created
    created_at: int  # the position where it was created, by which the log knows the agent
    position: int
    time: str  # of what was learned: what has aged since then has not faded yet
    state: State | None = None  # None as long as there are no items
    oracle: dict[str, Any] | None = None  # the settings in force, where they were changed
    default: dict[str, Any] | None = None
    catalogue: int = 0  # the position of the last event that changed the items or the settings
    learned: int = 0  # weights learned
    unfit: int = 0  # feedback that the model refused
    removed: bool = False
    began: str = ""  # when it was created

    @property
    def half_life(self) -> timedelta | None:
        """The time after which what was learned counts half as much."""
        seconds = self.created.half_life
        return None if seconds is None else timedelta(seconds=seconds)

    @property
    def numbers(self) -> bool:
        """Whether the ids of the items are whole numbers."""
        return self.state is not None and self.state.catalogue.kind == "whole numbers"

    def at(self, now: datetime) -> State | None:
        """The state to decide by: what was learned, faded until now."""
        if self.state is None or self.half_life is None:
            return self.state
        return aged(self.state, now - datetime.fromisoformat(self.time), self.half_life)


class Truth(NamedTuple):
    """What later events say of earlier feedback."""

    weights: Corrections
    forgotten: set[int]  # decisions
    learner: dict[str, Any] | None  # of the whole log, if it was changed


Look = Callable[[set[int]], Mapping[int, Entry]]
"""The decisions at some positions, but for those that were erased."""


def fold(
    connection: Connection,
    agent: int,
    start: Folded | None = None,
    upto: int = log.WHOLE,
    *,
    knowing: int | None = None,
) -> Folded:
    """The agent after the events up to a position.

    Args:
        connection: where the log is.
        agent: the position where it was created.
        start: what was folded before; all corrections since must be of feedback after it.
        upto: the last position to read.
        knowing: the last position whose corrections count; by default `upto`.
    """
    after = agent - 1 if start is None else start.position
    truth = truth_of(connection, agent, after, upto if knowing is None else knowing)

    look = functools.partial(log.decisions, connection)
    folded = start
    for entries in committed(log.folded(connection, agent, after, upto)):
        folded = applied(folded, entries, look, truth)
    if folded is None:
        raise LookupError(f"there is no agent at position {agent}")
    return folded


def truth_of(connection: Connection, agent: int, after: int, upto: int) -> Truth:
    """What the events after a position say of feedback after it."""
    truth = Truth({}, set(), None)
    rows = connection.execute(
        "SELECT position, time, body FROM events WHERE agent = ? AND position > ? AND position <= ?"
        " AND kind <> 'decided' AND kind IN ('corrected', 'forgotten', 'changed')"
        " ORDER BY position",
        (agent, after, upto),
    )
    for _, _, body in rows:
        event = decoded(body)
        if isinstance(event, Corrected):
            for one in event.corrections:
                truth.weights[one.decision, one.place] = (one.weight, one.importance)
        elif isinstance(event, Forgotten):
            truth.forgotten.update(event.decisions)
        elif event.learner is not None:
            truth = truth._replace(learner=event.learner)
    return truth


def earliest(entries: Iterable[Entry]) -> int:
    """The first position whose feedback these events change; beyond all if they change none."""
    found = log.WHOLE
    for _, agent, _, event in entries:
        if isinstance(event, Corrected):
            found = min(found, *(one.observed for one in event.corrections))
        elif isinstance(event, Forgotten):
            found = min([found, *event.observed])
        elif isinstance(event, Changed) and event.learner is not None:
            found = min(found, agent)
    return found


def committed(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Feedback that was committed together, to be learned in one update; other events alone."""
    together: list[Entry] = []
    for entry in entries:
        if isinstance(entry.event, Observed) and (not together or together[0].time == entry.time):
            together.append(entry)
            continue
        if together:
            yield together
        together = [entry] if isinstance(entry.event, Observed) else []
        if not together:
            yield [entry]
    if together:
        yield together


def applied(folded: Folded | None, entries: list[Entry], look: Look, truth: Truth) -> Folded:
    """The agent after one more event, or after feedback that was committed together."""
    position, _, time, event = entries[-1]
    if isinstance(event, Created):
        learner = truth.learner or event.learner
        created = msgspec.structs.replace(event, learner=learner)
        return Folded(created, position, position, time, catalogue=position, began=time)
    if folded is None:
        raise LookupError("an agent begins with its creation")
    if isinstance(event, Observed):
        return _learned(folded, entries, look, truth)._replace(position=position)
    if isinstance(event, Corrected | Forgotten):
        return folded._replace(position=position)
    changed = _changed(folded, event, time)
    return changed._replace(position=position, catalogue=position)


# --- items and settings ---------------------------------------------------------------------------


def _changed(folded: Folded, event: Any, time: str) -> Folded:
    """The agent with other items or settings."""
    if isinstance(event, Removed):
        return folded._replace(removed=True)
    if isinstance(event, Changed):
        return _resettled(folded, event)
    if isinstance(event, Loaded):
        return loaded(folded, event.file)
    oracle = event.oracle or folded.oracle
    folded = folded._replace(oracle=oracle)
    if isinstance(event, ItemsRemoved):
        return without(folded, event.items, event.oracle)
    if folded.state is None:
        return begun(folded, event, time)
    return with_more(folded, event)


def oracle_in_force(folded: Folded) -> Oracle:
    """The oracle of an agent."""
    return oracle_of(folded.oracle or folded.created.oracle, numbers=folded.numbers)


def begun(folded: Folded, event: ItemsPut, time: str) -> Folded:
    """The agent with its first items, before any feedback."""
    created = folded.created
    numbers = bool(event.items) and isinstance(event.items[0], int)
    oracle = oracle_of(folded.oracle or created.oracle, numbers=numbers)
    names = None if event.names is None else tuple(event.names)
    table = Table(event.features.array(), None, names)
    features: Any = table
    if created.context is not None:
        made = KINDS[created.context["kind"]]
        x = np.ones(len(created.context["names"]))
        features = made(table)(dict(zip(created.context["names"], x, strict=True)))
    state = started(learner_of(created.learner), features, oracle, event.items)
    return folded._replace(state=state, time=time)


def with_more(folded: Folded, event: ItemsPut) -> Folded:
    """The agent with more items, and other features for those it knows."""
    state = _state(folded)
    rows = event.features.array()
    known = np.array([state.catalogue.get(item) >= 0 for item in event.items], np.bool_)
    old = [item for item, is_known in zip(event.items, known, strict=True) if is_known]
    new = [item for item, is_known in zip(event.items, known, strict=True) if not is_known]
    if old:
        state = with_changed_features(state, rows[known], old)
    given = None if event.oracle is None else oracle_of(event.oracle, numbers=folded.numbers)
    if new:
        state = caught_up(with_items(state, rows[~known], new, given, Growing()))
    elif given is not None:
        state = _with_oracle(state, given)
    return folded._replace(state=state)


def without(folded: Folded, items: list[Id], oracle: dict[str, Any] | None) -> Folded:
    """The agent without these items; no gaps are left where they were."""
    given = None if oracle is None else oracle_of(oracle, numbers=folded.numbers)
    state = without_items(_state(folded), items, given)
    return folded._replace(state=without_gaps(state))


def _resettled(folded: Folded, event: Changed) -> Folded:
    """The agent with other settings; its learner is that of the whole log already."""
    found = folded._replace(
        oracle=event.oracle or folded.oracle,
        default=event.default if event.default is not None else folded.default,
    )
    if event.oracle is None or folded.state is None:
        return found
    oracle = oracle_of(event.oracle, numbers=folded.numbers)
    return found._replace(state=_with_oracle(folded.state, oracle))


def _with_oracle(state: State, oracle: Oracle) -> State:
    given = constraints(oracle, state.catalogue)
    problem = state.problem._replace(oracle=given.fitted(state.catalogue))
    return state._replace(constraints=given, problem=problem)


def loaded(folded: Folded, file: bytes) -> Folded:
    """The agent that goes on from a file, with its items and all that it learned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        path.write_bytes(file)
        try:
            agent = Agent.load(path, oracle=_loose_oracle(folded), seed=0)
        except FileError as error:  # where it was put is nobody's business
            raise FileError(str(error).replace(str(path), "the file")) from None
    snapshot = agent.snapshot()
    time = as_time(snapshot.aged_at)
    return folded._replace(state=snapshot.state, time=time)


def _loose_oracle(folded: Folded) -> Oracle:
    """The oracle of an agent whose items are not known yet: keys of objects are tried as they are,
    then as numbers.
    """
    spec = folded.oracle or folded.created.oracle
    if folded.state is not None:
        return oracle_in_force(folded)
    try:
        return oracle_of(spec, numbers=True)
    except SuperarmError:
        return oracle_of(spec)


def _state(folded: Folded) -> State:
    if folded.state is None:
        raise LookupError("an agent without items has no state")
    return folded.state


# --- feedback -------------------------------------------------------------------------------------


def _learned(folded: Folded, entries: list[Entry], look: Look, truth: Truth) -> Folded:
    """The agent after feedback, in one update."""
    state = folded.state
    if state is None:
        return folded
    each = [seen for entry in entries for seen in entry.event.seen]
    made = look({seen.decision for seen in each} - truth.forgotten)
    found = []
    for seen in each:
        if seen.decision in made:  # if not, it was erased; the event that says so may be read next
            found += noted(state, made[seen.decision].event, seen, truth.weights)
    if not found:
        return folded
    folded = _faded(folded, entries[-1].time)
    try:
        return _after(folded, found)
    except UNFIT:
        return _after_each(folded, found)


def _faded(folded: Folded, time: str) -> Folded:
    """The agent when what it learned has faded until a time."""
    if folded.half_life is None:
        return folded
    state = folded.at(datetime.fromisoformat(time))
    return folded if state is folded.state else folded._replace(state=state, time=time)


def _after(folded: Folded, found: list[Noted]) -> Folded:
    state = _state(folded)
    belief = learned(state, found)
    n = sum(len(one.places) for one in found)
    return folded._replace(state=state._replace(belief=belief), learned=folded.learned + n)


def _after_each(folded: Folded, found: list[Noted]) -> Folded:
    """The agent after feedback, one decision at a time: what the model refuses is left out,
    always.
    """
    for one in found:
        try:
            folded = _after(folded, [one])
        except UNFIT:
            folded = folded._replace(unfit=folded.unfit + 1)
    return folded


def learned(state: State, found: list[Noted]) -> Any:
    """The belief after feedback on decisions, in one update."""
    belief = state.learner.model.learn(state.belief, state.problem, feedback_of(state, found))
    require_scores(state, belief)
    return belief


def decision_of(entry: Entry, state: State) -> Decision:
    """The decision at a position in the log, as the library knows it."""
    made: Decided = entry.event
    return Decision(
        id=id_of(entry.position, made.token),
        items=tuple(made.items),
        features=features_of(made, state),
        time=entry.time,
        seed=made.seed,
        propensity=None if made.propensity is None else tuple(made.propensity),
        names=state.catalogue.names,
        draws=made.draws,
    )


def features_to_keep(Phi: Features) -> Matrix:
    """The features of the chosen items, in a context of the items alone."""
    return Matrix.of(Phi.rows if isinstance(Phi, InContext) else Phi)


def id_of(position: int, token: str) -> str:
    """The id of a decision: where it is in the log, and a token that nobody can guess."""
    return f"{position}-{token}"

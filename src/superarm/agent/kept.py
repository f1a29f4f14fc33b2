"""What an agent keeps, and how threads share it.

Whoever learns or changes items holds one lock, so that nothing is lost between two of them. A state
is replaced, never changed: decisions go on with the one they found. Drawing from the generator has
a lock of its own.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from superarm.agent import changes, decisions
from superarm.agent.decisions import Decision, Ledger
from superarm.agent.fields import MOST_SEEDS
from superarm.agent.growing import Growing
from superarm.agent.state import State, caught_up, require_scores, without_gaps
from superarm.agent.trust import refuse_implausible, require_key, signed, verify
from superarm.arrays import Array
from superarm.arrays.types import FLOAT64
from superarm.checks.tables import Names
from superarm.contracts import Feedback, Learner, Problem
from superarm.errors import ParameterError


class Snapshot(NamedTuple):
    """All that an agent is at one moment but its key."""

    state: State
    ledger: Ledger
    generator: Mapping[str, Any]
    half_life: timedelta | None
    aged_at: datetime


class Kept:
    """The state of an agent, the decisions it observed, and its randomness."""

    def __init__(
        self,
        state: State,
        ledger: Ledger,
        seed: int | None,
        half_life: timedelta | None,
        record_key: bytes | None,
    ) -> None:
        changes.require_half_life(half_life, state)
        if record_key is not None:
            require_key(record_key)
        self.ledger = ledger
        self.rng = generator(seed)
        self.half_life = half_life
        self._state = state
        self._aged_at = decisions.now()
        self._learned = False
        self._record_key = record_key
        self._room = Growing()
        self._make_locks()

    def _make_locks(self) -> None:
        # a thread may take them again: an oracle may ask the agent that asks it
        self._updating = threading.RLock()
        self._drawing = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from, which nobody changes while that takes its time."""
        with self._drawing:
            rng = copy.deepcopy(self.rng)
        with self._updating:
            kept = dict(vars(self))
            kept["ledger"] = self.ledger.copy()
        kept["rng"] = rng
        kept["_room"] = Growing()
        del kept["_updating"]
        del kept["_drawing"]
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._make_locks()

    def __copy__(self) -> Any:
        """A copy that shares nothing."""
        return copy.deepcopy(self)

    # --- what it consists of ----------------------------------------------------------------------

    @property
    def learner(self) -> Learner:
        """Who learns."""
        return self._whole().learner

    @property
    def problem(self) -> Problem:
        """The features, in the order of the items, and the oracle over them."""
        return self._whole().problem

    @property
    def belief(self) -> Any:
        """What was learned so far; it is never changed, only replaced."""
        return self._whole().belief

    @property
    def items(self) -> Array:
        """The ids of the items, in the order of their features."""
        return self._state.catalogue.items.copy()

    @property
    def names(self) -> Names:
        """The names of the features; None if they have none."""
        return self._state.catalogue.names

    def _whole(self) -> State:
        """The present state, without gaps in its catalogue."""
        state = self._state
        if not state.catalogue.gaps and state.behind is None:
            return state
        return self._changed(without_gaps)

    def _current(self) -> State:
        """The present state, maybe with gaps."""
        state = self._state
        return state if state.behind is None else self._changed(caught_up)

    def _changed(self, change: Callable[[State], State]) -> State:
        """The state after a change that means the same; it is kept unless somebody learns now."""
        state = self._state
        with self._unless_busy() as free:
            if not free:
                return change(state)
            self._state = change(self._state)
            return self._state

    @contextmanager
    def _unless_busy(self) -> Iterator[bool]:
        """The lock of those who learn, if no other thread has it: decisions do not wait for it."""
        free = self._updating.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._updating.release()

    # --- what changes it --------------------------------------------------------------------------

    def _age(self) -> None:
        """Let what was learned fade with the time that went by."""
        if self.half_life is None:
            return
        with self._unless_busy() as free:
            if not free:
                return  # who learns lets the past fade first
            moment = decisions.now()
            state = changes.aged(self._current(), moment - self._aged_at, self.half_life)
            if state is not self._state:
                self._state = state
                self._aged_at = moment

    def _learn(self, found: Feedback) -> None:
        """Learn from feedback, with the lock held."""
        if not len(found.w):
            return
        if self.half_life is not None:
            self._age()
        state = self._current()
        belief = state.learner.model.learn(state.belief, state.problem, found)
        if getattr(state.problem.Phi, "dtype", None) is not FLOAT64:
            require_scores(state, belief)
        self._state = state.believing(belief)
        self._learned = True

    def _seeds(self, n: int) -> list[int]:
        """Seeds of n decisions."""
        with self._drawing:
            drawn: list[int] = self.rng.integers(MOST_SEEDS, size=n).tolist()
        return drawn

    # --- records ----------------------------------------------------------------------------------

    def _signed(self, decision: Decision) -> Decision:
        """The record of a decision, signed if there is a key."""
        return decision if self._record_key is None else signed(decision, self._record_key)

    def _require_trust(self, decision: Decision) -> None:
        """Refuse a record that this agent, or one with its key, cannot have made."""
        if self._record_key is not None:
            verify(decision, self._record_key)
        refuse_implausible(decision, self._state)
        self.ledger.refuse_unfit(decision)

    # --- copies -----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All that it is now: a copy to keep."""
        with self._drawing:
            drawn = self.rng.bit_generator.state
        with self._updating:
            self._age()
            state = self._whole()
            return Snapshot(state, self.ledger.copy(), drawn, self.half_life, self._aged_at)

    def restore(self, belief: Any, names: Names, ledger: Ledger, aged_at: datetime) -> None:
        """Go on from what was saved."""
        with self._updating:
            start = self._state
            start.catalogue.names = names
            self._learned = not all(map(np.array_equal, belief, start.belief))
            self._state = start._replace(belief=belief)
            self.ledger = ledger
            self._aged_at = aged_at


def generator(seed: int | None) -> np.random.Generator:
    """A generator of this seed; None: of one from the system."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"seed must be a whole number, 0 or more, or None; got {seed!r:.100}"
        ) from error

"""Decisions that are made together, where rough scores tell which items can be among the best."""

from typing import Any

import numpy as np

from superarm import gaussian
from superarm.agent.asked import Asked
from superarm.agent.state import State
from superarm.arrays import Array, Rng, all_finite
from superarm.decide import broadcast_belief
from superarm.learners import CombLinTS
from superarm.oracles import TopK
from superarm.oracles.screen import TOGETHER, Screen

FEWEST = 2**15
"""Features of all items for which a rough copy is worth its while."""
MOST = 2**24
"""Features of all items for which there is room for one."""


class Screens:
    """Rough copies of the features of agents, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Screen] = {}

    def decided(self, name: str, state: State, call: Asked, rngs: Rng) -> Array:
        """What `call.decided` chooses for each of many users, up to rounding: (n, K).

        Args:
            name: of the agent.
            state: what it believes, and its items.
            call: what is asked for.
            rngs: one generator per user, or a stream with a key per user.
        """
        if not fits(state, call):
            return call.decided(rngs)
        beliefs = broadcast_belief(call.belief, call.problem.batch[0])
        theta = gaussian.sample(beliefs, rngs)
        if not all_finite(theta):
            return call.decided(rngs)  # which says why
        Phi: Any = state.problem.Phi
        oracle: Any = call.problem.oracle
        screen = self._of(name, Phi)
        return screen.best(theta, oracle.k)

    def forget(self, name: str) -> None:
        """Let go of the copy of an agent that is no longer there."""
        self._by_name.pop(name, None)

    def _of(self, name: str, Phi: Array) -> Screen:
        found = self._by_name.get(name)
        if found is None or found.Phi is not Phi:
            found = Screen(Phi)
            self._by_name[name] = found
        return found


def warm_up() -> None:
    """Compile what decides, before anybody waits for it."""
    Screen(np.ones((1, 1))).best(np.ones((1, 1)), 1)


def fits(state: State, call: Asked) -> bool:
    """Whether a call asks for the k items with the largest linear scores, among many."""
    learner = call.learner
    oracle = call.problem.oracle
    if type(learner) is not CombLinTS or learner.link != "identity":
        return False
    if type(oracle) is not TopK or oracle.at_most:
        return False
    Phi = state.problem.Phi
    if not _can_be_copied(Phi):
        return False
    return oracle.k <= min(TOGETHER, state.problem.L)


def _can_be_copied(Phi: Any) -> bool:
    """Whether features are such as a `Screen` takes, and many but not too many."""
    if type(Phi) is not np.ndarray or Phi.dtype != np.float64:
        return False
    in_order: bool = Phi.flags.c_contiguous
    return in_order and FEWEST <= Phi.size <= MOST

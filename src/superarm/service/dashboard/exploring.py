"""Whether decisions explore: whether the greedy choice is another one, by the same belief.

Of some decisions only, as looking takes about as long as deciding.
"""

import time
from contextlib import suppress

from superarm.agent.asked import Asked
from superarm.arrays import Array
from superarm.errors import SuperarmError
from superarm.service.dashboard.expected import expected

APART = 50.0
"""After a look, as many times as long passes before the next one at the same agent: looking takes
2 % of the time at most."""


class Looks:
    """When agents were last looked at."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def explored(self, name: str, call: Asked, chosen: Array) -> bool | None:
        """Whether a decision explores; None if it is too early to look again.

        Args:
            name: of the agent.
            call: what was decided, for one user.
            chosen: the items, (K,), -1 pads.
        """
        start = time.perf_counter()
        if start < self._due.get(name, 0.0):
            return None
        if len(self._due) > 10_000:
            self._due.clear()
        found = None
        with suppress(SuperarmError):  # as of weights that are beyond all range
            found = is_exploring(call, chosen)
        end = time.perf_counter()
        self._due[name] = end + APART * (end - start)
        return found


def is_exploring(call: Asked, chosen: Array) -> bool:
    """Whether items are others than those that are best by the mean of the belief: the same items
    are available, under the same constraint and in the same context.
    """
    weights = expected(call.learner, call.belief, call.problem)
    best = call.problem.oracle(weights)
    return set(best.tolist()) - {-1} != set(chosen.tolist()) - {-1}

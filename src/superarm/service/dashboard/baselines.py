"""What a random choice, and the policy of the first day, would have earned."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from superarm.agent.asked import Asked
from superarm.agent.decisions import now
from superarm.agent.state import State
from superarm.arrays import Array
from superarm.errors import SuperarmError
from superarm.offline import Log, doubly_robust
from superarm.oracles.base import Masked, as_oracle
from superarm.service import evaluation
from superarm.service.dashboard import first_day, tallies
from superarm.service.dashboard.history import steps
from superarm.service.dashboard.posterior import worth
from superarm.service.dashboard.ranges import Range
from superarm.service.dashboard.sampling import Part, position_at, sampled
from superarm.service.dashboard.shapes import Baselines, Interval
from superarm.service.dashboard.spread import interval
from superarm.service.dashboard.tallies import MINUTE
from superarm.service.dashboard.whatif import TOO_LITTLE, shown, support_of
from superarm.service.decisions import seconds_of_one
from superarm.service.engine import Service
from superarm.service.evaluation import Among
from superarm.service.fold import Folded
from superarm.service.problems import Unfit

PARTS = 12
"""Of a range of time, at most."""
SECONDS = 2.0
"""That choosing again may take, about."""
MOST = 60
"""Decisions of a part that are looked at."""
FEWEST = 4
NUMBERS = 4_000_000
"""Features of all that is chosen again, at most."""
DRAWS = 4
"""How often each policy chooses in each decision."""
LOOKED_THROUGH = 500
"""Decisions of a part that are looked through for those with propensities."""

FRESH = 5.0
"""Seconds for which an answer is given again, at least."""
REST = 20.0
"""After an answer, as many times as long as it took it is given again."""
REMEMBERED = 16
"""Answers."""

Choose = Callable[[Asked, np.random.Generator], Array]


class Slice(NamedTuple):
    """A part of the range, with decisions in it."""

    at: int  # which part
    part: Part


class _Memory:
    """What was found in the last minutes, for all who look at the same time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: OrderedDict[tuple[int, int, int], tuple[float, Baselines]] = OrderedDict()


_memories: WeakKeyDictionary[Service, _Memory] = WeakKeyDictionary()


def baselines(service: Service, name: str, wanted: Range) -> Baselines:
    """What other choices would have earned per decision, in each part of a range of time, as of a
    short time ago.
    """
    memory = _memories.setdefault(service, _Memory())
    key = (service.view(name).created_at, int(wanted.since // MINUTE), int(wanted.until // MINUTE))
    with memory.lock:
        due, found = memory.found.get(key, (0.0, None))
        start = time.monotonic()
        if found is None or start >= due:
            found = estimated(service, name, wanted)
            end = time.monotonic()
            memory.found[key] = (end + max(FRESH, REST * (end - start)), found)
        while len(memory.found) > REMEMBERED:
            memory.found.popitem(last=False)
        return found


def estimated(service: Service, name: str, wanted: Range) -> Baselines:
    """What other choices would have earned per decision, in each part of a range of time."""
    folded, state = service.ready(name)
    connection = service.database.read()
    began = tallies.first(connection, folded.created_at)
    if began is not None and wanted.since < began < wanted.until:
        wanted = Range(began, wanted.until)
    found = steps(connection, folded.created_at, wanted, PARTS - 1)
    edges = [position_at(connection, at) for at in (*found.start, wanted.until)]
    slices = [
        Slice(i, Part(edges[i], edges[i + 1]))
        for i, tally in enumerate(found.tallies)
        if tally.decisions
    ]
    then = first_day.policy(service, folded, state, now().timestamp())
    policies: dict[str, Choose] = {"random": at_random}
    if then is not None:
        policies["first day"] = _by(then)
    work = _Work(service, folded, state, slices, policies)
    values = work.by_propensities()
    by = "propensities"
    if values is None:
        by = "model"
        values = work.by_model()
    nothing: list[Interval | None] = [None] * len(found.start)
    return Baselines(
        time=found.start,
        until=int(wanted.until),
        earned=[interval(x.answered, x.earned, x.squares) for x in found.tallies],
        random=_column(nothing, slices, values["random"]),
        first_day=_column(nothing, slices, values.get("first day", [])),
        first_day_until=None if then is None else then.time,
        by=by,
        decisions=work.looked_at,
        words=_words(by, then, work.looked_at),
    )


def _column(
    nothing: list[Interval | None],
    slices: list[Slice],
    values: list[Interval | None],
) -> list[Interval | None]:
    found = list(nothing)
    for one, value in zip(slices, values, strict=False):
        found[one.at] = value
    return found


def _words(by: str, then: first_day.Policy | None, n: int) -> list[str]:
    """What to keep in mind."""
    found = [f"both were asked what they would choose in {n:,} of the decisions, drawn at random"]
    if by == "model":
        found.append(
            "what that would have earned is estimated by what the agent believes now: the "
            "intervals say how sure it is, and hold only as far as its model does"
        )
    else:
        found.append(
            "what that would have earned is estimated from decisions with propensities, doubly "
            "robust, which holds even if the model is wrong"
        )
    if then is None:
        found.append("there are too few decisions for a policy of the first day")
    else:
        found.append(then.words)
    return found


def at_random(call: Asked, rng: np.random.Generator) -> Array:
    """A random choice: the best set for weights drawn at random."""
    return call.problem.oracle(rng.standard_normal(call.problem.L))


def _by(then: first_day.Policy) -> Choose:
    """Choices by what was believed another time."""

    def choose(call: Asked, rng: np.random.Generator) -> Array:
        return call._replace(learner=then.learner, belief=then.belief).decided(rng)

    return choose


class _Work:
    """Policies asked again for decisions of the log, and what their choices are worth."""

    def __init__(
        self,
        service: Service,
        folded: Folded,
        state: State,
        slices: list[Slice],
        policies: dict[str, Choose],
    ) -> None:
        self._service = service
        self._folded = folded
        self._state = state
        self._slices = slices
        self._policies = policies
        self._rng = np.random.default_rng(folded.created_at)
        self.looked_at = 0
        self._n = self._affordable()

    def _affordable(self) -> int:
        """How many decisions of a part can be made again."""
        problem = self._state.problem
        one = seconds_of_one(
            Asked(self._state.learner, self._state.belief, problem, self._state.catalogue, None)
        )
        rounds = max(1, len(self._slices)) * DRAWS * len(self._policies)
        K = min(problem.oracle.K or problem.L, problem.L)
        by_time = SECONDS / one / rounds
        by_memory = NUMBERS / (rounds * max(1, K) * problem.d)
        return int(max(FEWEST, min(MOST, by_time, by_memory)))

    def by_model(self) -> dict[str, list[Interval | None]]:
        """By what is believed now."""
        found: dict[str, list[Interval | None]] = {name: [] for name in self._policies}
        self.looked_at = 0
        for one in self._slices:
            calls = sampled(
                self._service.database.read(),
                self._service.limits,
                self._folded,
                self._state,
                one.part,
                self._n,
                self._rng,
            )
            self.looked_at += len(calls)
            for name, choose in self._policies.items():
                found[name].append(self._worth(calls, choose))
        return found

    def _worth(self, calls: list[Asked], choose: Choose) -> Interval | None:
        """What a policy would have earned in some decisions, by the model."""
        asked = []
        choices = []
        for call in calls:
            try:
                choices.append([choose(call, self._rng) for _ in range(DRAWS)])
                asked.append(call)
            except SuperarmError:  # it has no set to choose now
                continue
        return worth(self._state.learner, self._state.belief, asked, choices, self._rng)

    def by_propensities(self) -> dict[str, list[Interval | None]] | None:
        """By what was logged with propensities, doubly robust; None if that says too little."""
        found: dict[str, list[Interval | None]] = {name: [] for name in self._policies}
        self.looked_at = 0
        for one in self._slices:
            logged = self._logged(one.part)
            self.looked_at += 0 if logged is None else logged.n
            for name, choose in self._policies.items():
                found[name].append(None if logged is None else self._robust(logged, choose))
        enough = [sum(one is not None for one in column) for column in found.values()]
        return found if 2 * min(enough) > len(self._slices) else None

    def _logged(self, part: Part) -> Log | None:
        """The last decisions of a part that have propensities and all feedback."""
        among = Among(part.since, part.until, LOOKED_THROUGH)
        connection = self._service.database.read()
        n = max(self._n, evaluation.FEWEST)
        try:
            return evaluation.logged(connection, self._folded, self._state, n, among)
        except Unfit:  # there are too few
            return None

    def _robust(self, logged: Log, choose: Choose) -> Interval | None:
        """What a policy would have earned in logged decisions; None if they say too little."""
        target = np.zeros((logged.n, logged.L))
        state = self._state
        try:
            for i in range(logged.n):
                oracle = state.problem.oracle
                if logged.available is not None:
                    oracle = Masked(as_oracle(oracle), logged.available[i])
                problem = state.problem._replace(Phi=logged.Phi[i], oracle=oracle)
                call = Asked(state.learner, state.belief, problem, state.catalogue, None)
                for _ in range(DRAWS):
                    A = choose(call, self._rng)
                    target[i, A[A >= 0]] += 1 / DRAWS
            value = doubly_robust(logged, target)
        except SuperarmError:
            return None
        return None if support_of(value) == TOO_LITTLE else shown(value)

"""The stateful face of a learner, for one real stream of decisions and feedback."""

import copy
import uuid
from datetime import UTC, datetime
from typing import Any

import numpy as np

from superarm.agent import saving
from superarm.agent.catalogue import Catalogue, Names, as_table, by_item, columns_of, in_order
from superarm.agent.decisions import REMEMBERED, Decision, Ledger, as_time
from superarm.agent.explain import Explanation, explain, propensities
from superarm.arrays import Array, Features, take_rows
from superarm.beliefs.changes import moved
from superarm.checks import (
    as_features,
    check_features,
    check_feedback,
    check_importance,
    is_whole,
    require_count,
)
from superarm.contexts import alike, joined
from superarm.contracts import Feedback, Learner, Problem, features_stay, method_of, require_learner
from superarm.decide import checked, decide, in_context
from superarm.errors import DecisionError, FeaturesError, ItemsError, NumericalError, ParameterError
from superarm.files import PathLike
from superarm.oracles.base import Masked, as_oracle

MOST_SEEDS = 2**53
"""Seeds lie below this, so that they survive JSON readers whose numbers are floats."""


class Agent:
    """Chooses combinations, observes feedback, learns.

    Args:
        learner: any learner, e.g. `CombLinTS(lam=1.0, sigma=0.3)`.
        features: one row per item, (L, d): an array, used as given and not copied; SciPy's sparse
            rows (CSR), never filled; a pandas or polars data frame; or what `superarm.contexts`
            makes of a context.
        oracle: an oracle, or any function from L weights to items.
        items: your ids of the items, all whole numbers or all text. By default the index of a
            pandas data frame, else 0..L-1. Items go in and come out by these.
        seed: for the agent's own randomness; None draws one from the system.
        remembered: how many observed decisions to remember, so that none is learned twice. Feedback
            on decisions older than those is refused unless it is forced.

    A call that raises leaves the agent exactly as it was. Calls of several threads must not
    overlap: use a lock. What the agent consists of can be read: its `learner`, `problem` (features
    and oracle), `belief`, `items`, and `names` of the features.

    >>> import numpy as np
    >>> from superarm import Agent, CombLinTS, TopK
    >>> agent = Agent(CombLinTS(lam=1.0, sigma=0.3), features=np.eye(5), oracle=TopK(2), seed=7)
    >>> for _ in range(50):
    ...     items = agent.choose()
    ...     agent.observe(items, [1.0 if item in (1, 4) else 0.0 for item in items])
    >>> sorted(agent.choose().tolist())
    [1, 4]
    """

    def __init__(
        self,
        learner: Learner,
        *,
        features: Any,
        oracle: Any,
        items: Any = None,
        seed: int | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        require_learner(learner)
        require_count(remembered=remembered)
        table = as_table(features)
        problem = checked(Problem(table.values, oracle))
        if problem.batch:
            raise FeaturesError(
                f"features must be 2-D, (items, features), got shape {problem.Phi.shape}"
            )
        ids = table.ids if items is None else items
        self.learner = learner
        self.problem = problem
        self.catalogue = Catalogue(ids, problem.L, table.names)
        self.belief = learner.model.prior(problem)
        self.ledger = Ledger(remembered)
        try:
            self.rng = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"seed must be a whole number, 0 or more, or None; got {seed!r:.100}"
            ) from error

    def __repr__(self) -> str:
        L, d = self.problem.Phi.shape
        return f"Agent({self.learner}, {L} items, {d} features, {self.problem.oracle})"

    @property
    def items(self) -> Array:
        """The ids of the items, in the order of their features."""
        return self.catalogue.ids.copy()

    @property
    def names(self) -> Names:
        """The names of the features; None if they have none."""
        return self.catalogue.names

    def choose(self, features: Any = None, available: Any = None, oracle: Any = None) -> Array:
        """The items to choose now.

        Args:
            features: the features (L, d) of this call, if they differ from the agent's own: a
                context. Rows are in the order of `agent.items`; a pandas data frame is put into it
                by its index.
            available: a mask of L booleans, or a set of items; others are not chosen.
            oracle: the constraints of this call, if they differ from the agent's own.
        """
        problem = self._asked(features, available, oracle)
        state = self.rng.bit_generator.state
        try:
            A = decide(self.learner, self.belief, problem, self.rng)
        except BaseException:
            self.rng.bit_generator.state = state
            raise
        return self.catalogue.ids_of(A[A >= 0])

    def decide(
        self,
        features: Any = None,
        available: Any = None,
        oracle: Any = None,
        *,
        draws: int = 0,
        seed: int | None = None,
    ) -> Decision:
        """Choose, and return a record to keep for feedback that comes late or elsewhere.

        Args:
            features: as in `choose`.
            available: as in `choose`.
            oracle: as in `choose`.
            draws: decisions to estimate the propensity of each chosen item from, for
                `superarm.offline`; by default none.
            seed: decide with this seed; by default one is drawn.
        """
        problem = self._asked(features, available, oracle)
        if not (is_whole(draws) and draws >= 0):
            raise ParameterError(f"draws must be a whole number, 0 or more, got {draws!r}")
        if seed is not None and not (is_whole(seed) and 0 <= seed < MOST_SEEDS):
            raise ParameterError(f"seed must be a whole number from 0 to 2**53 - 1, got {seed!r}")
        state = self.rng.bit_generator.state
        drawn = self.rng.integers(MOST_SEEDS) if seed is None else seed
        try:
            return self._decided(problem, int(drawn), draws)
        except BaseException:
            self.rng.bit_generator.state = state
            raise

    def _decided(self, problem: Problem, seed: int, draws: int) -> Decision:
        rng = np.random.default_rng(seed)
        A = decide(self.learner, self.belief, problem, rng)
        A = A[A >= 0]
        propensity = None
        if draws:
            p = propensities(self.learner, self.belief, problem, A, draws=draws, rng=rng)
            propensity = tuple(p.tolist())
        rows = take_rows(problem.Phi, A)
        if not np.isfinite(rows).all():
            raise NumericalError(
                "the features of this context, multiplied out, leave the range of float64"
            )
        return Decision(
            id=uuid.uuid4().hex,
            items=tuple(self.catalogue.ids_of(A).tolist()),
            features=rows,
            time=as_time(datetime.now(UTC)),
            seed=seed,
            propensity=propensity,
            names=self.names,
        )

    def explain(
        self,
        items: Any,
        features: Any = None,
        available: Any = None,
        oracle: Any = None,
        *,
        draws: int = 1000,
    ) -> Explanation:
        """Why items are chosen, or not: score, contribution of each feature, probability of being
        chosen.

        The agent stays as it is: its randomness is copied, not used.

        Args:
            items: the items to explain, each once.
            features: as in `choose`.
            available: as in `choose`.
            oracle: as in `choose`.
            draws: how many decisions to estimate the probability of being chosen from.
        """
        problem = self._asked(features, available, oracle)
        A = self.catalogue.positions(items)
        rng = copy.deepcopy(self.rng)
        found = explain(self.learner, self.belief, problem, A, rng=rng, draws=draws)
        return found._replace(items=self.catalogue.ids_of(A), names=self.names)

    def _asked(self, features: Any, available: Any, oracle: Any) -> Problem:
        """The problem of one call."""
        problem = self._in_context(features)
        if oracle is not None:
            problem = problem._replace(oracle=as_oracle(oracle))
        if available is not None:
            mask = self.catalogue.mask(available)
            problem = problem._replace(oracle=Masked(problem.oracle, mask))
        return problem

    def _in_context(self, features: Any) -> Problem:
        if features is None:
            return self.problem
        values = self.catalogue.rows(as_table(features))
        return in_context(self.learner, self.problem, values)

    def observe(
        self,
        items: Any,
        weights: Any,
        features: Any = None,
        *,
        importance: Any = None,
        again: bool = False,
    ) -> None:
        """Learn what items were worth: any subset of what was chosen, in any order, whenever it
        arrives.

        Args:
            items: the items, each once; or a `Decision`, whose items are learned with the features
                of its time, and no item of it twice.
            weights: one number per item, in their order; or by item, as a mapping or a pandas
                Series, which for a decision may be of some of its items.
            features: the features (L, d) that were given to `choose`, if any were; a decision has
                its own.
            importance: how often each observation counts: a positive number, or one per item as in
                `weights`. A mean of ten observations counts 10; one with noise of std s where the
                learner has sigma counts (sigma/s)².
            again: learn items of a decision even if they were observed before.
        """
        if isinstance(items, Decision):
            if features is not None:
                raise FeaturesError("a decision has its own features: leave features out")
            self._learn_decision(items, weights, importance, again)
            return
        A = self.catalogue.positions(items)
        problem = self._in_context(features)
        ids = self.catalogue.ids_of(A).tolist()
        w = check_feedback(in_order(weights, ids), len(A), "item")
        if len(A):
            v = self._importance(importance, ids, w)
            self._learn(problem, Feedback.of(problem, A, w, v))

    def _learn_decision(
        self, decision: Decision, weights: Any, importance: Any, again: bool
    ) -> None:
        some = by_item(weights)
        places = decision.places(decision.items if some is None else some)
        items = [decision.items[place] for place in places]
        values = weights if some is None else list(some.values())
        w = check_feedback(values, len(items), "item")
        v = self._importance(importance, items, w)
        if not again:
            self.ledger.refuse_observed(decision, places)
        if not items:
            return
        self._learn(self.problem, self._feedback_now(decision, places, w, v))
        self.ledger.note(decision, places)

    def _feedback_now(self, decision: Decision, places: list[int], w: Array, v: Any) -> Feedback:
        """Feedback on a decision in terms of the items and features that there are by now.

        What is known about an item itself grows only if it still is what it was.
        """
        d = self.problem.d
        rows = decision.features[places]
        A = np.array([self.catalogue.get(decision.items[place]) for place in places])
        if not self.learner.model.uses_features:
            if A.min() < 0:
                raise ItemsError(
                    f"item {decision.items[places[A.argmin()]]!r} of this decision is not one of "
                    f"the {self.problem.L} items, and {type(self.learner).__name__} learns of "
                    "items alone: give a mapping from the others to their weights"
                )
            return Feedback(A, rows, w, v)
        if rows.shape[1] != d:
            raise DecisionError(f"this decision is of items with {rows.shape[1]} features, not {d}")
        rows = check_features(rows[:, columns_of(decision.names, self.names, DecisionError)])
        if not features_stay(self.learner.model):
            return Feedback(A, rows, w, v)
        same = take_rows(self.problem.Phi, A) == rows
        return Feedback(np.where(same.all(axis=-1), A, -1), rows, w, v)

    def learn(self, rows: Any, weights: Any, *, importance: Any = None) -> None:
        """Learn from logged rows and their weights: a warm start, or late feedback with the
        features of its time.

        Args:
            rows: one feature row per observation, (n, d).
            weights: one number per row.
            importance: how often each row counts, as in `observe`.
        """
        self._require_features()
        d = self.problem.d
        values = self.catalogue.columns(as_table(rows))
        try:
            shape = np.shape(values)
        except ValueError as error:
            raise FeaturesError(f"rows must be numbers of shape (n, {d}) ({error})") from error
        if shape[1:] != (d,) and shape != (0,):
            raise FeaturesError(f"rows must have shape (n, {d}), got {shape}")
        w = check_feedback(weights, shape[0], "row")
        if len(w):
            v = check_importance(1.0 if importance is None else importance, w)
            nowhere = np.full(len(w), -1)
            self._learn(self.problem, Feedback(nowhere, check_features(values), w, v))

    def _learn(self, problem: Problem, feedback: Feedback) -> None:
        self.belief = self.learner.model.learn(self.belief, problem, feedback)

    def _importance(self, importance: Any, items: list[Any], w: Array) -> Array | float:
        if importance is None:
            return 1.0
        return check_importance(in_order(importance, items), w)

    def _require_features(self) -> None:
        if not self.learner.model.uses_features:
            raise FeaturesError(
                f"{type(self.learner).__name__} learns one item at a time, and nothing from "
                "features: use observe()"
            )

    def add_items(self, features: Any, items: Any = None, *, oracle: Any = None) -> None:
        """Put more items behind those there are; what was learned stays. A catalogue on disk is
        read into memory.

        Args:
            features: one row per new item, as at the start.
            items: their ids, as at the start; by default the numbers that come next, if no item was
                removed.
            oracle: the oracle over all items, if the one there is does not fit more of them.
        """
        table = as_table(features)
        more = as_features(self.catalogue.columns(table))
        if more.shape[1:] != (self.problem.d,):
            raise FeaturesError(f"features must have shape (n, {self.problem.d}), got {more.shape}")
        Phi = joined(self.problem.Phi, more)
        n = more.shape[0]
        catalogue = self.catalogue.extended(n, table.ids if items is None else items)
        source = np.append(np.arange(self.problem.L), np.full(n, -1))
        self._move(Phi, catalogue, source, oracle)

    def remove_items(self, items: Any, *, oracle: Any = None) -> None:
        """Take items away; what was learned from them about features, and of all others, stays.

        Args:
            items: the items, a list or a set. The others keep their ids.
            oracle: the oracle over those that are left, if the one there is does not fit fewer.
        """
        listed = list(items) if isinstance(items, set | frozenset) else items
        gone = self.catalogue.positions(listed)
        left = np.delete(np.arange(self.problem.L), gone)
        if not len(left):
            raise ItemsError("at least one item must be left")
        if len(gone):
            self._move(self.problem.Phi[left], self.catalogue.part(left), left, oracle)

    def _move(self, Phi: Features, catalogue: Catalogue, source: Array, oracle: Any) -> None:
        """Go over to another catalogue, whose item i was item source[i], or is new: -1."""
        oracle = self.problem.oracle if oracle is None else as_oracle(oracle)
        problem = Problem(Phi, oracle)
        move = getattr(self.learner, "moved", None)
        learner = self.learner if move is None else move(source)
        self.belief = moved(learner.model, self.belief, self.problem, problem, source)
        self.learner = learner
        self.problem = problem
        self.catalogue = catalogue

    def merge(self, other: "Agent") -> None:
        """Learn all that another agent learned.

        Both must have the same learner and have started from its prior, not one from a copy of the
        other, and have observed different things. What they believe together is what one agent
        would that had observed it all. But scales that are "auto" are chosen anew; with forgetting,
        each keeps what it has not forgotten; the logit link's approximations add up, near that of
        the whole. Mixed learners merge before items are removed, not after.
        """
        if not isinstance(other, Agent) or other is self:
            raise ParameterError(f"merging needs another agent, got {other!r:.100}")
        if self.learner != other.learner:
            raise ParameterError(
                f"merging needs the same learner, got {self.learner} and {other.learner}"
            )
        if self.problem.d != other.problem.d or self.names != other.names:
            raise FeaturesError("merging needs the same features")
        model = self.learner.model
        if model.per_item and not np.array_equal(self.catalogue.ids, other.catalogue.ids):
            raise ItemsError(
                "merging what was learned of items needs the same items in the same order"
            )
        if features_stay(model) and not alike(self.problem.Phi, other.problem.Phi):
            raise FeaturesError(
                "merging how items deviate from their features needs the same features"
            )
        merge = method_of(model, "merge")
        ledger = self.ledger.merged(other.ledger)
        self.belief = merge(self.belief, other.belief, self.problem)
        self.ledger = ledger

    def save(self, path: PathLike) -> None:
        """Write everything but the oracle to a file of arrays and JSON, atomically."""
        saving.save(self, path)

    @classmethod
    def load(cls, path: PathLike, *, oracle: Any, learner: Learner | None = None) -> "Agent":
        """The agent that `save` wrote; its next choice is the one that would have been made.

        Args:
            path: the file.
            oracle: the oracle, which the file does not hold.
            learner: the learner, if its class is not one of superarm's own.
        """
        return saving.load(cls, path, oracle, learner)

"""The friendly, stateful face of a learner, for one real stream of decisions and feedback."""

import copy
import dataclasses
import uuid
from datetime import UTC, datetime
from typing import Any

import numpy as np

from superarm import files
from superarm.agent.catalogue import (
    Items,
    aligned,
    as_items,
    as_table,
    columns_of,
    index_of,
    joined_features,
    order_of,
)
from superarm.agent.decisions import REMEMBERED, Decision, Ledger, as_time
from superarm.agent.explain import Explanation, explain, propensities
from superarm.agent.feedback import by_item, check_feedback, check_importance, in_order
from superarm.agent.saving import (
    packed_features,
    packed_ids,
    saved_belief,
    saved_features,
    saved_ids,
    saved_learner,
)
from superarm.arrays import Array, Features, Product, take_rows
from superarm.beliefs.changes import moved
from superarm.checks import as_features, check_features, is_whole, require_count
from superarm.contracts import Feedback, Learner, Oracle, Problem, method_of, require_learner
from superarm.decide import checked, decide, in_context
from superarm.errors import (
    DecisionError,
    FeaturesError,
    FileError,
    ItemsError,
    MaskError,
    NumericalError,
    ParameterError,
)
from superarm.oracles.base import Masked, as_oracle

MOST_SEEDS = 2**53
"""Seeds lie below this, so that they survive JSON readers whose numbers are floats."""


class Agent:
    """Chooses combinations, observes feedback, learns.

    Args:
        learner: any learner, e.g. `CombLinTS(lam=1.0, sigma=0.3)`.
        features: one row an item, (L, d): an array, used as given and not copied; a pandas or
            polars data frame; or what `superarm.contexts` makes of a context.
        oracle: an oracle, or any function from L weights to items.
        items: your ids of the items, all whole numbers or all text. By default the index of a
            pandas data frame, else 0..L-1. Items go in and come out by these.
        seed: for the agent's own randomness; None draws one from the system.
        remembered: how many observed decisions to remember, so that none is learned twice. Feedback
            on decisions older than those is refused unless it is forced.

    A call that raises leaves the agent exactly as it was. Calls of several threads must not
    overlap: use a lock. What the agent consists of can be read: its `learner`, `problem` (features
    and oracle), `belief`, `items` and `names`.

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
        self.learner = learner
        self.problem = problem
        self.names = table.names
        ids = table.ids if items is None else items
        self._items = as_items(ids, problem.L)
        self._numbered = ids is None  # and so may more be; never the number of an item that is gone
        self.belief = learner.model.prior(problem)
        try:
            self.rng = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"seed must be a whole number, 0 or more, or None; got {seed!r:.100}"
            ) from error
        self.ledger = Ledger(remembered)

    def __repr__(self) -> str:
        return f"Agent({self.learner}, {self.problem.L} items, {self.problem.d} features, {self.problem.oracle})"

    @property
    def items(self) -> Array:
        """The ids of the items, in the order of their features."""
        return self._items.ids.copy()

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
        return self._items.ids_of(A[A >= 0])

    def decide(
        self,
        features: Any = None,
        available: Any = None,
        oracle: Any = None,
        *,
        draws: int = 0,
        seed: int | None = None,
    ) -> Decision:
        """Choose, as a record to keep for feedback that comes late or elsewhere: see `Decision`.

        Args:
            features: as in `choose`.
            available: as in `choose`.
            oracle: as in `choose`.
            draws: decisions to estimate how likely each chosen item was, for `superarm.offline`; by
                default none.
            seed: decide with this seed; by default one is drawn.
        """
        problem = self._asked(features, available, oracle)
        if not (is_whole(draws) and draws >= 0):
            raise ParameterError(f"draws must be a whole number, 0 or more, got {draws!r}")
        if seed is not None and not (is_whole(seed) and 0 <= seed < MOST_SEEDS):
            raise ParameterError(f"seed must be a whole number from 0 to 2**53 - 1, got {seed!r}")
        state = self.rng.bit_generator.state
        seed = int(self.rng.integers(MOST_SEEDS)) if seed is None else int(seed)
        try:
            rng = np.random.default_rng(seed)
            A = decide(self.learner, self.belief, problem, rng)
            A = A[A >= 0]
            likely = (
                propensities(self.learner, self.belief, problem, A, draws=draws, rng=rng)
                if draws
                else None
            )
            rows = take_rows(problem.Phi, A)
            if not np.isfinite(rows).all():
                raise NumericalError(
                    "the features of this context, multiplied out, leave the range of float64"
                )
        except BaseException:
            self.rng.bit_generator.state = state
            raise
        return Decision(
            id=uuid.uuid4().hex,
            items=tuple(self._items.ids_of(A).tolist()),
            features=rows,
            time=as_time(datetime.now(UTC)),
            seed=seed,
            propensity=None if likely is None else tuple(likely.tolist()),
            names=self.names,
        )

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
            weights: one number an item, in their order; or by item, as a mapping or a pandas
                Series, which for a decision may be of some of its items.
            features: the features (L, d) that were given to `choose`, if any were; a decision has
                its own.
            importance: how often each observation counts: a positive number, or one an item as in
                `weights`. A mean of ten observations counts 10; one with noise of std s where the
                learner has sigma counts (sigma/s)².
            again: learn items of a decision even if they were observed before.
        """
        if isinstance(items, Decision):
            if features is not None:
                raise FeaturesError("a decision has its own features: leave features out")
            self._observe_decision(items, weights, importance, again)
            return
        A, problem = self._items.positions(items), self._problem(features)
        ids = self._items.ids_of(A).tolist()
        w = check_feedback(in_order(weights, ids), len(A), "item")
        if not len(A):
            return
        v = self._importance(importance, ids, w)
        self._learn(problem, Feedback.of(problem, A, w, v))

    def learn(self, rows: Any, weights: Any, *, importance: Any = None) -> None:
        """Learn from logged rows and their weights: a warm start, or late feedback with the
        features of its time.

        Args:
            rows: one feature row an observation, (n, d).
            weights: one number a row.
            importance: how often each row counts, as in `observe`.
        """
        self._require_features()
        table = as_table(np.asarray(rows) if isinstance(rows, Product) else rows)
        values = aligned(table._replace(ids=None), self._items, self.names)
        try:
            shape = np.shape(values)
        except ValueError as error:
            raise FeaturesError(
                f"rows must be numbers of shape (n, {self.problem.d}) ({error})"
            ) from error
        if shape[1:] != (self.problem.d,) and shape != (0,):
            raise FeaturesError(f"rows must have shape (n, {self.problem.d}), got {shape}")
        w = check_feedback(weights, shape[0], "row")
        if len(w):
            v = check_importance(1.0 if importance is None else importance, w)
            nowhere = np.full(len(w), -1)
            self._learn(self.problem, Feedback(nowhere, check_features(values), w, v))

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
        problem, A = self._asked(features, available, oracle), self._items.positions(items)
        found = explain(
            self.learner, self.belief, problem, A, rng=copy.deepcopy(self.rng), draws=draws
        )
        return found._replace(items=self._items.ids_of(A), names=self.names)

    def add_items(self, features: Any, items: Any = None, *, oracle: Any = None) -> None:
        """Put more items behind those there are; what was learned stays. A catalogue on disk is
        read into memory.

        Args:
            features: one row a new item, as at the start.
            items: their ids, as at the start; by default the numbers that come next, if no item was
                removed.
            oracle: the oracle over all items, if the one there is does not fit more of them.
        """
        table = as_table(features)
        values = aligned(table._replace(ids=None), self._items, self.names)
        more = as_features(values)
        if more.shape[1:] != (self.problem.d,):
            raise FeaturesError(f"features must have shape (n, {self.problem.d}), got {more.shape}")
        Phi = joined_features(self.problem.Phi, more)
        ids = table.ids if items is None else items
        if ids is None and not self._numbered:
            raise ItemsError(
                "the items have ids, or some were removed: give the new ones theirs, as items="
            )
        new = more.shape[0]
        added = (
            range(self.problem.L, Phi.shape[0]) if ids is None else as_items(ids, new).ids.tolist()
        )
        if known := [x for x in added if self._items.get(x) is not None]:
            raise ItemsError(
                f"item {known[0]!r} is there already: give new items ids of their own, as items= or as index"
            )
        both = range(Phi.shape[0]) if ids is None else [*self.items.tolist(), *added]
        self._move(Phi, Items(both), np.append(np.arange(self.problem.L), np.full(new, -1)), oracle)
        self._numbered = ids is None

    def remove_items(self, items: Any, *, oracle: Any = None) -> None:
        """Take items away; what was learned from them about features, and of all others, stays.

        Args:
            items: the items, a list or a set. The others keep their ids.
            oracle: the oracle over those that are left, if the one there is does not fit fewer.
        """
        gone = self._items.positions(list(items) if isinstance(items, set | frozenset) else items)
        source = np.delete(np.arange(self.problem.L), gone)
        if not len(source):
            raise ItemsError("at least one item must be left")
        if len(gone):
            self._move(self.problem.Phi[source], Items(self._items.ids_of(source)), source, oracle)
            self._numbered = False

    def merge(self, other: "Agent") -> None:
        """Learn all that another agent learned.

        Both must have the same learner and have started from its prior, not one from a copy of the
        other, and have observed different things. What they believe together is what one agent
        would that had observed it all. But scales that are "auto" are chosen anew; with forgetting,
        each keeps what it has not forgotten; the logit link's approximations add up, near that of
        the whole; CombTS tosses other coins for weights between 0 and 1. Mixed learners merge
        before items are removed, not after.
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
        if model.per_item and not np.array_equal(self._items.ids, other._items.ids):
            raise ItemsError(
                "merging what was learned of items needs the same items in the same order"
            )
        deviates = model.per_item and model.uses_features
        if deviates and not np.array_equal(self.problem.Phi, other.problem.Phi):
            raise FeaturesError(
                "merging how items deviate from their features needs the same features"
            )
        ledger = self.ledger.merged(other.ledger)
        self.belief = method_of(model, "merge")(self.belief, other.belief, self.problem)
        self.ledger = ledger

    def save(self, path: files.PathLike) -> None:
        """Write everything but the oracle to a file of arrays and JSON, atomically."""
        meta = {
            "learner": type(self.learner).__name__,
            # the protocol cannot say that a learner is a dataclass
            "parameters": dataclasses.asdict(self.learner),  # type: ignore[call-overload]
            "generator": self.rng.bit_generator.state,
            "names": self.names,
            "remembered": self.ledger.limit,
        }
        features = packed_features(self.problem.Phi)
        ids = {} if self._numbered else {"items": packed_ids(self._items.ids)}
        belief = {
            f"belief.{name}": np.asarray(value) for name, value in self.belief._asdict().items()
        }
        files.write(path, "agent", meta, features | ids | belief | self.ledger.arrays())

    @classmethod
    def load(
        cls, path: files.PathLike, *, oracle: Oracle | Any, learner: Learner | None = None
    ) -> "Agent":
        """The agent that `save` wrote; its next choice is the one that would have been made.

        Args:
            path: the file.
            oracle: the oracle, which the file does not hold.
            learner: the learner, if its class is not one of superarm's own.
        """
        meta, arrays = files.read(path, "agent")
        try:
            learner = saved_learner(path, meta["learner"], meta["parameters"], learner)
            agent = cls(
                learner,
                features=saved_features(arrays),
                oracle=oracle,
                items=saved_ids(arrays),
                remembered=meta.get("remembered", REMEMBERED),
            )
            agent.names = None if meta.get("names") is None else tuple(map(str, meta["names"]))
            if agent.names is not None and len(agent.names) != agent.problem.d:
                raise FileError(
                    f"{path} is damaged: it names {len(agent.names)} of {agent.problem.d} features"
                )
            agent.belief = saved_belief(
                path, agent.learner.model, agent.belief, arrays, agent.problem
            )
            agent.rng.bit_generator.state = meta["generator"]
            agent.ledger = Ledger.of_arrays(arrays, agent.ledger.limit)
        except (
            AttributeError,
            IndexError,
            KeyError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path} is damaged or does not fit this learner ({error})") from error
        return agent

    def _learn(self, problem: Problem, feedback: Feedback) -> None:
        self.belief = self.learner.model.learn(self.belief, problem, feedback)

    def _importance(self, importance: Any, items: list[Any], w: Array) -> Array | float:
        if importance is None:
            return 1.0
        self._require_features()
        return check_importance(in_order(importance, items), w)

    def _require_features(self) -> None:
        if not self.learner.model.uses_features:
            raise FeaturesError(
                f"{type(self.learner).__name__} learns an item at a time, each observation once, "
                "and nothing from features: use observe() without importance"
            )

    def _observe_decision(
        self, decision: Decision, weights: Any, importance: Any, again: bool
    ) -> None:
        some = by_item(weights)
        places = decision.places(decision.items if some is None else some)
        items = [decision.items[place] for place in places]
        w = check_feedback(weights if some is None else list(some.values()), len(places), "item")
        v = self._importance(importance, items, w)
        if not again:
            self.ledger.refuse_observed(decision, places)
        if not len(w):
            return
        rows = decision.features[np.array(places, dtype=np.int64)]
        by_feature = self.learner.model.uses_features
        if by_feature and rows.shape[1] != self.problem.d:
            raise DecisionError(
                f"this decision is of items with {rows.shape[1]} features, not {self.problem.d}"
            )
        if by_feature and decision.names is not None and self.names is not None:
            rows = rows[:, columns_of(decision.names, self.names, DecisionError)]
        found = [self._items.get(item) for item in items]
        A = np.array([-1 if place is None else place for place in found], dtype=np.int64)
        if not by_feature and None in found:
            raise ItemsError(
                f"item {items[found.index(None)]!r} of this decision is not one of the {self.problem.L} items, and "
                f"{type(self.learner).__name__} learns of items alone: give a mapping from the others to their weights"
            )
        if by_feature:  # what is known of an item itself grows if it still is what it was
            A = np.where((take_rows(self.problem.Phi, A) == rows).all(axis=-1), A, -1)
        self._learn(self.problem, Feedback(A, rows, w, v))
        self.ledger.note(decision, places)

    def _asked(self, features: Any, available: Any, oracle: Any) -> Problem:
        """The problem of one call."""
        problem = self._problem(features)
        if oracle is not None:
            problem = problem._replace(oracle=as_oracle(oracle))
        if available is not None:
            problem = problem._replace(oracle=Masked(problem.oracle, self._mask(available)))
        return problem

    def _problem(self, features: Any) -> Problem:
        if features is None:
            return self.problem
        values = aligned(as_table(features), self._items, self.names)
        return in_context(self.learner, self.problem, values)

    def _mask(self, available: Any) -> Array:
        if isinstance(available, set | frozenset):
            mask = np.zeros(self.problem.L, dtype=np.bool_)
            mask[self._items.positions(list(available))] = True
            return mask
        try:
            mask = np.asarray(available)
        except ValueError as error:
            raise MaskError(f"available must be a flat mask of booleans ({error})") from error
        if mask.dtype != np.bool_ or mask.shape != (self.problem.L,):
            raise MaskError(
                f"available must be a mask of {self.problem.L} booleans, one an item, or a set of items, "
                f"got {mask.dtype} of shape {mask.shape}"
            )
        index = index_of(available)
        order = None if index is None else order_of(index, self._items, MaskError)
        return mask if order is None else mask[order]

    def _move(self, Phi: Features, items: Items, source: Array, oracle: Any) -> None:
        problem = Problem(Phi, self.problem.oracle if oracle is None else as_oracle(oracle))
        self.belief = moved(self.learner.model, self.belief, self.problem, problem, source)
        self.problem, self._items = problem, items

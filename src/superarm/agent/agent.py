"""The stateful face of a learner, for one real stream of decisions and feedback."""

import copy
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from superarm.agent import changes, decisions, feedback, saving
from superarm.agent.asked import Asked, asked, is_whole_catalogue
from superarm.agent.decisions import REMEMBERED, Ledger
from superarm.agent.explain import Explanation, explain
from superarm.agent.fields import MOST_SEEDS
from superarm.agent.kept import Kept
from superarm.agent.record import record, records
from superarm.agent.state import started, with_changed_features, with_items, without_items
from superarm.arrays import spawn
from superarm.checks import is_whole, require_count
from superarm.contracts import Learner, require_learner
from superarm.decide import compile_first_call, random_numbers
from superarm.errors import FeaturesError, ParameterError
from superarm.files.archive import PathLike
from superarm.oracles.base import is_full


class Agent(Kept):
    """Chooses combinations, observes feedback, learns.

    Args:
        learner: any learner, e.g. `CombLinTS(lam=1.0, sigma=0.3)`.
        features: one row per item, (L, d): an array, used as given and not copied; SciPy's sparse
            rows (CSR), never filled; a pandas or polars data frame; or what `superarm.contexts`
            makes of a context.
        oracle: an oracle, or any function from L weights to items. Constraints given by id, as a
            mapping or a pandas Series, go by it; others are in the order of the items, and go by
            their ids from then on.
        items: your ids of the items: all whole numbers, all text, all UUIDs, or all tuples of such.
            By default the index of a pandas data frame, else 0..L-1. Items go in and come out by
            these.
        seed: for the agent's own randomness; None draws one from the system.
        remembered: how many observed decisions to remember, so that none is learned twice. Feedback
            on decisions older than those is refused unless it is forced.
        half_life: after this time, what was learned counts half as much; by default it counts for
            ever. For a half-life of n episodes, give the learner `forgetting=0.5 ** (1 / n)`.
        record_key: a secret of at least 16 bytes: records of decisions are signed with it, and
            others are refused. It is not saved.

    A call that raises leaves the agent as it was; only its generator moves on when a decision
    fails, so that trying again may succeed. All calls may come from several threads: those that
    learn or change items wait for each other, and decisions go by what was last learned. What the
    agent consists of can be read: its `learner`, `problem` (features and oracle), `belief`,
    `items`, and `names` of the features.

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
        half_life: timedelta | None = None,
        record_key: bytes | None = None,
    ) -> None:
        require_learner(learner)
        require_count(remembered=remembered)
        state = started(learner, features, oracle, items)
        super().__init__(state, Ledger(remembered), seed, half_life, record_key)

    def __repr__(self) -> str:
        L, d = self.problem.Phi.shape
        return f"Agent({self.learner}, {L} items, {d} features, {self.problem.oracle})"

    # --- decisions --------------------------------------------------------------------------------

    def choose(self, features: Any = None, available: Any = None, oracle: Any = None) -> Any:
        """The items to choose now: an array of ids.

        Args:
            features: the features (L, d) of this call, if they differ from the agent's own: a
                context. Rows are in the order of `agent.items`; a pandas data frame is put into it
                by its index. For n users at once, (n, L, d), a list of n, or what
                `superarm.contexts` makes of n contexts: then a list of n arrays is returned.
            available: the items to choose from: any collection of ids; a mask of L booleans in the
                order of `agent.items`; or booleans by id, as a mapping or pandas Series. For n
                users also a mask (n, L), or a data frame with the ids as its columns. Of few items
                only those are scored.
            oracle: the constraints of this call, if they differ from the agent's own.

        Returns:
            an array of at most K ids; for n users, a list of n arrays.

        Raises:
            InfeasibleError: if no set of available items is allowed.
            FeaturesError: if features have another shape, other names, or are not finite.
            MaskError: if a mask has another shape.
            ItemsError: if an item is unknown.
            OracleError: if the oracle returns no set of available items.
        """
        call = self._asked(features, available, oracle)
        A = call.decided(self.rng, self._drawing)
        if call.users is None:
            return call.ids(A[A >= 0])
        ids = call.ids(A)
        if is_full(A):
            return list(ids)
        return [row[there] for row, there in zip(ids, A >= 0, strict=True)]

    def decide(
        self,
        features: Any = None,
        available: Any = None,
        oracle: Any = None,
        *,
        draws: int = 0,
        seed: int | None = None,
    ) -> Any:
        """Choose, and return a record to keep for feedback that comes late or elsewhere: a
        `Decision`; for n users at once, a list of n.

        Args:
            features: as in `choose`.
            available: as in `choose`.
            oracle: as in `choose`.
            draws: decisions to estimate the propensity of each chosen item from, for
                `superarm.offline`; by default none.
            seed: decide with this seed; by default one is drawn. Not for many users.

        Returns:
            the record, a `Decision`; for n users, a list of n. It raises what `choose` raises.
        """
        call = self._asked(features, available, oracle)
        if not (is_whole(draws) and draws >= 0):
            raise ParameterError(f"draws must be a whole number, 0 or more, got {draws!r}")
        if seed is not None and not (is_whole(seed) and 0 <= seed < MOST_SEEDS):
            raise ParameterError(f"seed must be a whole number from 0 to 2**53 - 1, got {seed!r}")
        if call.users is None:
            drawn = self._seeds(1)[0] if seed is None else int(seed)
            rng = random_numbers(call.learner, drawn)
            return self._signed(record(call, call.decided(rng), drawn, rng, draws))
        if seed is not None:
            raise ParameterError("a seed is of one decision: leave it out for many users")
        seeds = self._seeds(call.users)
        rngs = random_numbers(call.learner, seeds)
        chosen = call.decided(rngs)
        (more,) = spawn(rngs, 1)  # for the propensities
        return [self._signed(made) for made in records(call, chosen, seeds, more, draws)]

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
            features: as in `choose`, of one user.
            available: as in `choose`.
            oracle: as in `choose`.
            draws: how many decisions to estimate the probability of being chosen from.

        Returns:
            scores, contributions and probabilities, one row per item; printed, a table.
        """
        call = asked(self._whole(), features, available, oracle, alone=False)
        if call.users is not None:
            raise FeaturesError("an explanation is of one user's features, (L, d)")
        A = call.catalogue.positions(items)
        with self._drawing:
            rng = copy.deepcopy(self.rng)
        found = explain(call.learner, call.belief, call.problem, A, rng=rng, draws=draws)
        return found._replace(items=call.ids(A), names=self.names)

    def warm_up(self) -> None:
        """Compile what the first decision and the first update need, while nobody waits for them.

        Compiled code is kept on disk, so that later processes need not compile it again.
        """
        state = self._whole()
        compile_first_call(state.learner, state.belief, state.problem)

    def _asked(self, features: Any, available: Any, oracle: Any) -> Asked:
        self._age()
        state = self._current()
        if state.constraints.by_position or is_whole_catalogue(features, available, oracle):
            state = self._whole()
        return asked(state, features, available, oracle)

    # --- feedback ---------------------------------------------------------------------------------

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
                of its time, and no item of it twice. For many at once, in one update: a list of
                decisions, or of the items of each user.
            weights: one number per item, in their order; or by item, as a mapping or a pandas
                Series, which for a decision may be of some of its items. For many, a list of them.
                `Statistics` of many observations of each item, likewise in order or by item.
            features: the features that were given to `choose`, if any were; a decision has its own.
            importance: how often each observation counts: a positive number, or one per item as in
                `weights`. A mean of ten observations counts 10, but shows one residual: where sigma
                is "auto", give `Statistics`. One with noise of std s where the learner has sigma
                counts (sigma/s)².
            again: learn items of a decision even if they were observed before.

        Raises:
            ItemsError: if an item is unknown or occurs twice.
            WeightsError: if weights are missing, not finite, or out of the range of the learner.
            DecisionError: if the decision was observed before, is damaged, or not signed where it
                must be.
            FeaturesError: if features do not fit, or a decision is given others.
        """
        if feedback.is_decisions(items):
            if features is not None:
                raise FeaturesError("a decision has its own features: leave features out")
            self._observe_decisions(feedback.observed_of(items, weights, importance), again)
            return
        with self._updating:
            state = self._state if features is None else self._whole()
            self._learn(feedback.of_items(state, items, weights, features, importance))

    def _observe_decisions(self, found: Sequence[feedback.Observed], again: bool) -> None:
        with self._updating:
            for one in found:
                self._require_trust(one.decision)
            if not again:
                feedback.refuse_repeated(self.ledger, found)
            parts = [feedback.of_decision(self._state, one) for one in found if one.places]
            if not parts:
                return
            self._learn(parts[0] if len(parts) == 1 else feedback.together(parts))
            for one in found:
                self.ledger.note(one.decision, one.places)

    def learn(self, rows: Any, weights: Any, *, importance: Any = None) -> None:
        """Learn from logged rows and their weights: a warm start, or late feedback with the
        features of its time.

        Args:
            rows: one feature row per observation, (n, d).
            weights: one number per row; or the `Statistics` of many observations of each row.
            importance: how often each row counts, as in `observe`.

        Raises:
            FeaturesError: if rows have another shape or are not finite.
            WeightsError: if there is not one finite weight per row.
        """
        with self._updating:
            self._learn(feedback.of_rows(self._state, rows, weights, importance))

    # --- the catalogue ----------------------------------------------------------------------------

    def add_items(self, features: Any, items: Any = None, *, oracle: Any = None) -> None:
        """Put more items behind those there are; what was learned stays.

        The first time, all features are copied, also those on disk into memory. After that, one
        more item costs as little for a million as for ten.

        Args:
            features: one row per new item, as at the start; where the features are those of a
                context, the features of the items alone.
            items: their ids, as at the start; by default the numbers that come next, if no item was
                removed.
            oracle: the oracle over all items, if the one there is says nothing of the new ones.

        Raises:
            ItemsError: if an id is there already, or the constraints say nothing of it.
            FeaturesError: if the features do not fit those there are.
        """
        with self._updating:
            state = self._state if oracle is None else self._whole()
            self._state = with_items(state, features, items, oracle, self._room)

    def remove_items(self, items: Any, *, oracle: Any = None) -> None:
        """Take items away; what was learned from them about features, and of all others, stays.

        Args:
            items: the items, a list or a set. The others keep their ids and their order.
            oracle: the oracle over those that are left, if the one there is will not do.

        Raises:
            ItemsError: if an item is unknown, or none would be left.
        """
        with self._updating:
            state = self._state if oracle is None else self._whole()
            self._state = without_items(state, items, oracle)

    def update_items(self, features: Any, items: Any = None) -> None:
        """Give items other features from now on; what was learned from the old ones stays.

        What is known of an item itself stays too, but not how it deviates from its features: that
        was learned with the old ones.

        Args:
            features: one row per item, as in `add_items`.
            items: which items; by default the index of a data frame.

        Raises:
            ItemsError: if an item is unknown.
            FeaturesError: if the features do not fit those there are.
        """
        with self._updating:
            self._state = with_changed_features(self._whole(), features, items)

    # --- several agents, files --------------------------------------------------------------------

    def merge(self, other: "Agent") -> None:
        """Learn all that another agent learned.

        Both must have the same learner and have started from its prior, not one from a copy of the
        other, and have observed different things. What they believe together is what one agent
        would that had observed it all. But scales that are "auto" are chosen anew; with forgetting,
        each keeps what it has not forgotten; the logit link's approximations add up, near that of
        the whole. Mixed learners merge before items are removed, not after.

        Raises:
            ParameterError: if the other is no agent, or has another learner.
        """
        if not isinstance(other, Agent) or other is self:
            raise ParameterError(f"merging needs another agent, got {other!r:.100}")
        theirs = other.snapshot()
        with self._updating:
            self._age()
            state = changes.merged(self._whole(), theirs.state)
            self.ledger = self.ledger.merged(theirs.ledger)
            self._state = state
            self._learned = True

    def prior_from(self, other: "Agent", discount: float) -> None:
        """Start from what another agent learned, as if it had been `discount` times as much.

        For a new market, season or version of the features' meaning, where the past is worth
        something but not all. Both must have the same learner and features; what was known of items
        that both have is carried over by id. Only before any feedback.

        Args:
            other: an agent that learned.
            discount: what its feedback counts here, in (0, 1].

        Raises:
            ParameterError: if this agent has learned already, or the other has another learner.
        """
        if not isinstance(other, Agent) or other is self:
            raise ParameterError(f"a prior needs another agent, got {other!r:.100}")
        theirs = other.snapshot()
        with self._updating:
            if self._learned:
                raise ParameterError(
                    "this agent has learned already: a prior comes before any feedback"
                )
            self._state = changes.started_from(self._whole(), theirs.state, discount)
            self._learned = True
            self._aged_at = decisions.now()

    def save(self, path: PathLike, *, features: bool = True) -> None:
        """Write everything but the oracle to a file of arrays and JSON.

        Once it returns, the file is on disk; at any moment before, it is what it was. What was
        written is read again before it takes the place of what was there.

        Args:
            path: the file.
            features: whether to write the features too. A catalogue that lives elsewhere, as one
                that is memory-mapped, is given to `load` again.

        Raises:
            OSError: if the file cannot be written; what was there before stays.
        """
        saving.save(self, path, features=features)

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        oracle: Any,
        learner: Learner | None = None,
        seed: int | Literal["saved"] | None = None,
        features: Any = None,
        record_key: bytes | None = None,
    ) -> "Agent":
        """The agent that `save` wrote.

        Every process that loads a file must explore by itself, so the agent gets **new randomness**
        unless it is told otherwise.

        Args:
            path: the file.
            oracle: the oracle, which the file does not hold.
            learner: the learner, if its class is not one of superarm's own.
            seed: None draws one from the system; a number is one; "saved" goes on where the saved
                agent stopped, so that its next choice is the one that would have been made: for one
                process only, as several would all choose the same.
            features: those of all items, if they were not saved, or live elsewhere: rows in the
                order of the items, which must be those of the file; or a data frame, which goes by
                its index, and whose numbers may be new.
            record_key: as at the start; it is not in the file.

        Returns:
            the agent, as it was saved.

        Raises:
            FileError: if the file is damaged, foreign, or of a newer version.
            ItemsError: if the oracle does not fit the items.
        """
        return saving.load(
            cls,
            path,
            oracle=oracle,
            learner=learner,
            seed=seed,
            features=features,
            record_key=record_key,
        )

"""An agent whose catalogue is in shards: on the nodes of a Ray cluster, or in files of one machine
that are larger than its memory.

One seed is drawn per decision, so that θ_t is the same in all shards, and so is what an item draws
for itself. Each shard answers with the few items that the best set may hold; of these the oracle
finds the set, which is that of one machine. The belief stays with the agent: about θ, and about the
items that were observed.

>>> import numpy as np
>>> from superarm import CombLinTS, TopK, sharded
>>> learner = CombLinTS(lam=1.0, sigma=1.0)
>>> agent = sharded.Agent(learner, features=np.eye(4), oracle=TopK(2), shards=2)
>>> len(agent.choose().items)
2
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from superarm.agent.kept import generator
from superarm.agent.state import reach, require_usable
from superarm.arrays import Array
from superarm.arrays.random import Stream
from superarm.base_learner import as_learner
from superarm.cluster import calls, heads, saving
from superarm.cluster.columns import as_where, joint_types
from superarm.cluster.cutting import cut, cut_columns
from superarm.cluster.heads import About, Choice, Later
from superarm.cluster.locks import Lock, one_at_a_time, one_change_at_a_time
from superarm.cluster.places import Places
from superarm.cluster.saving import Saved
from superarm.cluster.shards import Added, Fields, Found, Question, Shard, State
from superarm.contexts import Concatenated, Outer
from superarm.contracts import Learner, Problem
from superarm.errors import ClusterError, DecisionError, FeaturesError, ParameterError
from superarm.files.archive import PathLike
from superarm.oracles.base import BaseOracle

__all__ = ["Agent", "Choice"]

SAMPLE = 1024
"""Items whose features say how large features are, where a learner finds its own scales."""
NOBODY = np.empty(0, np.int64)


class Agent:
    """Chooses from a catalogue in shards, and learns.

    Items have numbers: 0, 1, ... in the order of the files, and then in the order in which they are
    added. A number is never used again.

    Args:
        learner: a linear or a mixed learner. Where it finds its own scales, it takes the sizes of
            the features from a sample of items.
        features: one .npy file or array per shard, in order; or a single one, and `shards`.
        oracle: one that can be solved by parts, as `TopK`, `Quota` or `PartitionMatroid`.
        shards: into how many to cut a single file or array.
        columns: by name, a file or array with an entry per item, cut as the features are: for
            `where`.
        contexts: `Outer` or `Concatenated`, where features of a call go with those of the items.
        seed: of all decisions; None draws one from the system.
        cluster: the address of a Ray cluster, "ray" for one on this machine; None for this process.

    >>> import numpy as np
    >>> from superarm import CombLinTS, TopK, sharded
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.standard_normal((500, 3)), rng.standard_normal((500, 3))]
    >>> agent = sharded.Agent(CombLinTS(lam=1.0, sigma=0.1), features=shards, oracle=TopK(2))
    >>> theta = np.array([1.0, -1.0, 0.5])
    >>> for _ in range(30):
    ...     chosen = agent.choose()
    ...     agent.observe(chosen, chosen.rows @ theta)
    >>> best = np.argsort(-np.concatenate(shards) @ theta)[:2]
    >>> bool((agent.choose().items == best).all())
    True
    """

    def __init__(
        self,
        learner: Learner,
        *,
        features: Any,
        oracle: BaseOracle,
        shards: int | None = None,
        columns: Mapping[str, Any] | None = None,
        contexts: type[Outer | Concatenated] | None = None,
        seed: int | None = None,
        cluster: str | None = None,
    ) -> None:
        calls.require_by_features(learner)
        calls.require_contexts(contexts)
        self._lock = Lock()
        self._rng = generator(seed)
        sources = cut(features, shards)
        by_shard = cut_columns(columns, sources, isinstance(features, list | tuple))
        self.learner = learner
        self.oracle = oracle
        self.belief: Any = None  # the prior comes with the first call, as contexts tell d
        self._contexts = contexts
        self._context_width: int | None = None
        self._starts = np.cumsum([0] + [source.stop - source.start for source in sources])
        self._next = self.L  # the number of the next item
        self._removed = NOBODY
        calls.require_parts(oracle, self.L)
        made = []
        for i, source in enumerate(sources):
            part = heads.part_of(oracle, self._starts[i : i + 2], NOBODY)
            made.append((source, by_shard[i], int(self._starts[i]), part, contexts))
        self._shards = Places(cluster, Shard, made, self._state)
        self._open = True
        try:
            checked = self._shards.ask_all("check")
            self._width = checked[0].width
            self._dtype = checked[0].dtype
            self._types = joint_types(one.types for one in checked)
            self._added = Later(np.empty((0, self._width)), {})
            self._known = np.arange(0, self.L, max(1, self.L // SAMPLE))  # of the belief
            (self._held,) = self._fetched([self._known])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @one_at_a_time
    def close(self) -> None:
        """Let go of the shards, and of the cluster if this agent has connected to it. What was
        learned can still be saved; to choose, observe, add or remove is refused from now on.
        """
        if self._open:
            self._open = False
            self._shards.close()

    def _require_open(self) -> None:
        if not self._open:
            raise ClusterError("this agent was closed, and has no shards: make or load another")

    @property
    def L(self) -> int:
        """How many items the files hold."""
        return int(self._starts[-1])

    # --- decisions ----------------------------------------------------------------------------

    def choose(
        self,
        context: Any = None,
        *,
        where: Mapping[str, Any] | None = None,
        exclude: Sequence[int] | Array = (),
    ) -> Choice:
        """Choose items for one call.

        Args:
            context: features of the call, where the catalogue has `contexts`.
            where: by column, the value that items must have, or a collection of values.
            exclude: items that may not be chosen.

        Returns:
            the chosen items, with their features.
        """
        contexts = None if context is None else [context]
        return self.choose_many(contexts, where=where, exclude=[exclude])[0]

    @one_at_a_time
    def choose_many(
        self,
        contexts: Any = None,
        *,
        where: Mapping[str, Any] | None = None,
        exclude: Sequence[Sequence[int] | Array] | None = None,
        n: int | None = None,
    ) -> list[Choice]:
        """Choose items for n calls, which share a pass over the features; each draws for itself.

        Args:
            contexts: one row per call.
            where: by column, the value that items must have, or a collection, in all calls.
            exclude: for each call, the items that may not be chosen.
            n: how many calls, where neither contexts nor exclude say so.

        Returns:
            one choice per call, in their order.
        """
        self._require_open()
        x = calls.as_contexts(contexts, self._contexts, self.learner, self._context_width)
        per_call = calls.as_exclude(exclude, self._next)
        n = calls.number_of_calls(n, x, per_call)
        excluded = per_call or [NOBODY] * n
        wanted = as_where(where, self._types)
        before = (self.belief, self._context_width, self._rng.bit_generator.state)
        try:
            self._start_belief(x)
            with calls.naming_limits(wanted, excluded):
                answers = self._answers(x, wanted, excluded)
                sets = [self.oracle.merged(found.candidates for found in each) for each in answers]
            rows = self._winners(sets, answers)
        except BaseException:  # a call that raises changes nothing
            self.belief, self._context_width, self._rng.bit_generator.state = before
            raise
        each_x = [None] * n if x is None else x
        triples = zip(sets, rows, each_x, strict=True)
        return [Choice(A, self._in_context(held, own_x)) for A, held, own_x in triples]

    def _answers(
        self, x: Array | None, where: Mapping[str, Any], excluded: list[Array]
    ) -> list[tuple[Found, ...]]:
        """What the shards found, for each decision."""
        seeds = self._rng.integers(2**63, size=len(excluded)).tolist()
        model = self.learner.model
        of_items = {name: getattr(self.belief, name)[..., :0] for name in model.per_item}
        belief = self.belief._replace(**of_items)
        by_rows = None
        learner = as_learner(self.learner)
        if len(seeds) == 1 and learner.scores_rows:
            by_rows = learner.row_scores(self.belief, Stream(seeds[0]))
        question = Question(self.learner, belief, seeds, x, where, excluded, by_rows)
        answers = self._shards.ask_all("candidates", self._shards.share(question))
        return list(zip(*answers, strict=True))

    def _winners(self, sets: Sequence[Array], answers: list[tuple[Found, ...]]) -> list[Array]:
        """The rows of the items in each set, from the answers if they are there."""
        rows = [heads.rows_found(A, found) for A, found in zip(sets, answers, strict=True)]
        there = [each for each in rows if each is not None]
        return there if len(there) == len(sets) else self._fetched(sets)

    def _fetched(self, sets: Sequence[Array]) -> list[Array]:
        """The rows of the items in each set; zeros for -1."""
        wanted = np.unique(np.concatenate(sets))
        wanted = wanted[wanted >= 0]
        dealt = self._dealt(wanted)
        taken = self._shards.ask("taken", {i: (wanted[mine],) for i, mine in dealt.items()})
        found = np.empty((len(wanted), self._width))
        for i, mine in dealt.items():
            found[mine] = taken[i]
        return [heads.rows_at(A, wanted, found) for A in sets]

    def _owners(self, items: Array) -> Array:
        """The shard that holds each item; those that are added go to one after the other."""
        of_files = np.searchsorted(self._starts, items, side="right") - 1
        return np.where(items < self.L, of_files, (items - self.L) % (len(self._starts) - 1))

    def _dealt(self, items: Array) -> dict[int, Array]:
        """Where the items of each shard are in the list."""
        owner = self._owners(items)
        return {i: np.flatnonzero(owner == i) for i in np.unique(owner).tolist()}

    def _in_context(self, rows: Array, x: Array | None) -> Array:
        if x is None or self._contexts is None:
            return rows
        return np.asarray(self._contexts(rows)(x))

    # --- learning -----------------------------------------------------------------------------

    def _start_belief(self, x: Array | None) -> None:
        """The prior, if this is the first call."""
        if self.belief is not None:
            return
        self._context_width = None if x is None else x.shape[1]
        belief = self.learner.model.prior(self._problem(self._held))
        if any(getattr(belief, name).any() for name in self.learner.model.per_item):
            raise ParameterError(f"{self.learner} has priors per item: it knows no shards")
        self.belief = belief

    def _problem(self, held: Array) -> Problem:
        """The items that the belief is about, whose rows are held here: a sample, and those that
        were observed.
        """
        return heads.problem_of(held, self.oracle, self._contexts, self._context_width)

    @one_change_at_a_time
    def observe(self, chosen: Choice, weights: Any) -> None:
        """Learn what the items of a decision showed.

        Args:
            chosen: what `choose` returned.
            weights: one number per item, in their order or by item; or the `Statistics` of many
                observations of each item.
        """
        self._require_open()
        if self.belief is None:
            raise DecisionError("this agent has made no decision yet that could be observed")
        items, rows = calls.as_choice(chosen, self._next, self._problem(self._held[:1]).d)
        of_items = calls.as_feedback(items, rows, weights, self.learner)
        about = self._about(items)
        feedback = of_items._replace(A=about.places)
        model = self.learner.model
        belief = model.learn(about.belief, self._problem(about.held), feedback)
        require_usable(model, about.belief, belief, self._dtype, reach(rows))

        def commit(_: Any) -> None:
            self.belief = belief
            self._known = about.known
            self._held = about.held

        self._shards.change("learn", self._news(about, belief), commit)

    def _about(self, items: Array) -> About:
        """The belief, with a place for each of these items if it has fields per item."""
        model = self.learner.model
        if not model.per_item:
            return About(self.belief, self._known, self._held, np.full(len(items), -1))
        new = np.setdiff1d(items, self._known)
        known = np.append(self._known, new)
        held = self._held
        belief = self.belief
        if len(new):
            (rows,) = self._fetched([new])
            held = np.concatenate([held, rows])
            belief = model.extend(belief, self._problem(self._held), self._problem(held))
        return About(belief, known, held, heads.places_of(items, known))

    def _news(self, before: About, belief: Any) -> dict[int, tuple[Fields]]:
        """What shards are to believe of their items from now on, as far as it has changed."""
        known = before.known
        differs = np.zeros(len(known), bool)
        model = self.learner.model
        for name in model.per_item:
            unequal = getattr(belief, name) != getattr(before.belief, name)
            differs |= unequal.reshape(-1, len(known)).any(0)
        changed = np.flatnonzero(differs)
        learn = {}
        for i, mine in self._dealt(known[changed]).items():
            learn[i] = (heads.fields_of(model, belief, known, changed[mine]),)
        return learn

    # --- changes of the catalogue -------------------------------------------------------------

    @one_change_at_a_time
    def add_items(
        self,
        features: Any,
        columns: Mapping[str, Any] | None = None,
        *,
        oracle: BaseOracle | None = None,
    ) -> Array:
        """Add items.

        Args:
            features: one row per item.
            columns: their entries in all columns that the catalogue has.
            oracle: the one from now on, for all items, where the present one is for a number of
                them.

        Returns:
            the numbers of the new items, (n,).
        """
        self._require_open()
        new = calls.as_later(features, columns, self._width, self._dtype, self._types)
        end = self._next + len(new.rows)
        from_now_on = oracle or self.oracle
        calls.require_parts(from_now_on, end)
        numbers = np.arange(self._next, end)
        told = range(len(self._shards)) if oracle else self._dealt(numbers)
        extend = {i: (self._of_shard(i, numbers, new, from_now_on),) for i in told}
        added = self._added.and_then(new)

        def commit(_: Any) -> None:
            self.oracle = from_now_on
            self._next = end
            self._added = added

        self._shards.change("extend", extend, commit)
        return numbers

    @one_change_at_a_time
    def remove_items(self, items: Sequence[int] | Array) -> None:
        """Choose these no more; what was learned from them stays."""
        self._require_open()
        numbers = calls.as_items(items, self._next)
        remove = {i: (numbers[mine],) for i, mine in self._dealt(numbers).items()}
        removed = np.append(self._removed, numbers)

        def commit(_: Any) -> None:
            self._removed = removed

        self._shards.change("remove", remove, commit)

    def _state(self, i: int) -> tuple[State]:
        """What has changed in a shard since its files were written."""
        numbers = np.arange(self.L, self._next)
        removed = self._removed[self._owners(self._removed) == i]
        own = self._owners(self._known) == i
        fields = heads.fields_of(self.learner.model, self.belief, self._known, own)
        return (State(self._of_shard(i, numbers, self._added, self.oracle), removed, fields),)

    def _of_shard(self, i: int, numbers: Array, later: Later, oracle: BaseOracle) -> Added:
        """Those of the items, the last that were added, that a shard holds."""
        mine = self._owners(numbers) == i
        columns = {name: values[mine] for name, values in later.columns.items()}
        end = numbers[-1] + 1 if len(numbers) else self._next
        every = np.arange(self.L, end)
        added = every[self._owners(every) == i]
        part = heads.part_of(oracle, self._starts[i : i + 2], added)
        return Added(later.rows[mine], numbers[mine], columns, part)

    # --- files --------------------------------------------------------------------------------

    @one_at_a_time
    def save(self, path: PathLike) -> None:
        """Write what was learned, added and removed to a file of arrays and JSON, as `Agent.save`
        of one machine does; not the oracle, and not the files or arrays of features.
        """
        saving.save_agent(self, path)

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        features: Any,
        oracle: BaseOracle,
        learner: Learner | None = None,
        shards: int | None = None,
        columns: Mapping[str, Any] | None = None,
        seed: int | Literal["saved"] | None = None,
        cluster: str | None = None,
    ) -> "Agent":
        """The agent that `save` wrote, in any shards of the same items.

        Args:
            path: the file.
            features: the files or arrays that the agent was made with, in the same order.
            oracle: the oracle, which the file does not hold.
            learner: needed if it is not one of superarm's own.
            shards: as where an agent is made.
            columns: as where an agent is made.
            seed: "saved" goes on exactly where the saved agent stopped; None draws one from the
                system.
            cluster: as where an agent is made.

        Returns:
            an agent that believes what the saved one did.
        """
        given = {"shards": shards, "columns": columns, "cluster": cluster}
        return saving.load_agent(cls, path, features, oracle, learner, seed, given)

    def restore(self, saved: Saved, oracle: BaseOracle) -> None:
        """Be as in a file that was read; refused if it is of other features."""
        added = saving.fitting(saved, self.L, self._width, self._types)
        end = self.L + len(added.rows)
        calls.require_parts(oracle, end)
        self.oracle = oracle
        self.belief = saved.belief
        self._next = end
        self._added = added
        self._removed = saved.removed
        self._context_width = saved.context_width
        self._known = saved.known
        self._held = saved.held
        self._shards.change("restore", {i: self._state(i) for i in range(len(self._shards))})
        (held,) = self._fetched([saved.known])
        if not np.array_equal(held, saved.held):
            raise FeaturesError(
                "the features are not those that the agent was saved with, or in another order"
            )

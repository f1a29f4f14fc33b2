"""Agents of a service by their names, with the words of `Agent`."""

from typing import Any

from superarm.client import words
from superarm.client.steps import Work


class Words:
    """What a client says; each word returns what `_do` makes of it: a result, or for an
    `AsyncClient` something to await.
    """

    def _do(self, work: Work[Any]) -> Any:
        raise NotImplementedError


class _Agent(Words):
    """An agent of a service, by its name."""

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        self._client = client

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self._client.url})"

    def _do(self, work: Work[Any]) -> Any:
        return self._client._do(work)

    # --- decisions and feedback -------------------------------------------------------------------

    def decide(
        self,
        context: Any = None,
        available: Any = None,
        oracle: Any = None,
        *,
        draws: int = 0,
        user: str | None = None,
    ) -> Any:
        """Choose items. The decision is on the service's disk before it is answered.

        Args:
            context: the features of this call, if the agent has a context: numbers by name, as a
                mapping or pandas Series, or in the order of their names.
            available: the ids of the items to choose from; by default all.
            oracle: the constraints of this call, if they differ from the agent's own.
            draws: decisions to estimate the propensity of each chosen item from; by default none.
            user: who it is for, so that it can be erased by `Client.forget`.

        Returns:
            a record with the chosen items and their propensities, as a `RemoteDecision`.
        """
        return self._do(words.new_decision(self.name, context, available, oracle, draws, user))

    def observe(self, decision: Any, weights: Any, *, importance: Any = None) -> Any:
        """Feedback on decisions: any part of it, at any time, each item once. The same value again
        changes nothing, and another value is refused.

        Args:
            decision: a `RemoteDecision`, or its id; for many in one update, a list of them.
            weights: one number per item, in their order; or by item, as a mapping or a pandas
                Series, which may be of some of the items. For many, a list of them.
            importance: how often each observation counts: a positive number, or one per item as in
                `weights`.

        Returns:
            how many weights were learned, known already, and corrected, as a `Taken`.
        """
        return self._do(words.observe(self.name, decision, weights, importance))

    def correct(self, decision: Any, weights: Any, *, importance: Any = None) -> Any:
        """Feedback that takes the place of what was observed before, which is unlearned exactly.

        Args:
            decision: as in `observe`.
            weights: as in `observe`.
            importance: as in `observe`.

        Returns:
            how many weights were learned, known already, and corrected, as a `Taken`.
        """
        return self._do(words.observe(self.name, decision, weights, importance, correct=True))

    def explain(
        self,
        items: Any = None,
        context: Any = None,
        available: Any = None,
        oracle: Any = None,
        *,
        draws: int = 1000,
    ) -> Any:
        """Why items are chosen, or not.

        Args:
            items: the items to explain; by default those that would be chosen.
            context: as in `decide`.
            available: as in `decide`.
            oracle: as in `decide`.
            draws: how many decisions to estimate the probability of being chosen from.

        Returns:
            per item its score, what each feature adds, and how likely it is chosen; an
            `Explanation`, which prints as a table.
        """
        return self._do(words.explain(self.name, items, context, available, oracle, draws))

    def evaluate(self, learner: Any, *, last: int = 10_000, seed: int = 0) -> Any:
        """What another learner would have earned, estimated from the last decisions that have
        propensities and feedback on all their items.

        Args:
            learner: the other learner.
            last: how many decisions.
            seed: of the other learner's randomness.

        Returns:
            the estimated return per decision with its interval, as an `Evaluation`.
        """
        return self._do(words.evaluate(self.name, learner, last, seed))

    # --- the catalogue ----------------------------------------------------------------------------

    def items(self) -> Any:
        """The ids of all items, in their order.

        Returns:
            a list of ids.
        """
        return self._do(words.items(self.name))

    def put_items(self, features: Any, items: Any = None, *, oracle: Any = None) -> Any:
        """Add items, and give those that are known other features.

        Args:
            features: one row per item: an array, or a pandas or polars data frame, whose columns
                go by their names; in a context, the features of the items alone.
            items: their ids, whole numbers or text; by default the index of a pandas data frame,
                else 0..n-1.
            oracle: the oracle over all items, if the one there is says nothing of the new ones.

        Returns:
            how many items are new, and how many have other features, as an `ItemsPut`.
        """
        return self._do(words.put_items(self.name, features, items, oracle))

    add_items = put_items

    def remove_items(self, items: Any, *, oracle: Any = None) -> Any:
        """Take items away; what was learned from them about features stays.

        Args:
            items: the items, a list or a set.
            oracle: the oracle over those that are left, if the one there is will not do.

        Returns:
            how many items are gone, and how many are left, as an `ItemsRemoved`.
        """
        return self._do(words.remove_items(self.name, items, oracle))

    # --- the agent itself -------------------------------------------------------------------------

    def info(self) -> Any:
        """What the agent is now.

        Returns:
            its settings, and how much it has learned, as an `AgentInfo`.
        """
        return self._do(words.info(self.name))

    def change(self, *, learner: Any = None, oracle: Any = None, default: Any = None) -> Any:
        """Change settings.

        Args:
            learner: another learner, which learns all from the service's log.
            oracle: another oracle.
            default: as in `Client.create_agent`.

        Returns:
            the agent with the new settings, as an `AgentInfo`.
        """
        return self._do(words.change(self.name, learner, oracle, default))

    def snapshot(self, *, seed: int | None = None) -> Any:
        """A copy of the agent, for use without the service.

        Args:
            seed: for the randomness of the agent; None draws one from the system.

        Returns:
            an `Agent` with all that the service's agent has learned.
        """
        return self._do(words.snapshot(self.name, seed))

    def load(self, agent: Any) -> Any:
        """Let the agent go on from another one, with its items and all that it learned.

        Args:
            agent: an `Agent`, or the path of a file that `Agent.save` wrote.

        Returns:
            the agent as it is then, as an `AgentInfo`.
        """
        return self._do(words.load(self.name, agent))

    def delete(self) -> Any:
        """Take the agent out of service; the service's log keeps what it was.

        Returns:
            nothing, once the service has written it down.
        """
        return self._do(words.delete(self.name))


class RemoteAgent(_Agent):
    """An agent of a service, with the words of `Agent`; see `Client`."""


class AsyncRemoteAgent(_Agent):
    """An agent of a service, whose methods are awaited; see `AsyncClient`."""

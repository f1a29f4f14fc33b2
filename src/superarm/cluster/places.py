"""Things that live on the nodes of a cluster, or in this process, and change.

Each counts its changes. One whose worker was killed is made again from its arguments, and its count
begins again: so it is found out, and brought to where it was before it answers. The same is done
with each that may have seen a change which failed in another.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

from superarm.cluster.locks import held_interrupts
from superarm.engine.local import create_engine
from superarm.errors import ClusterError


class Behind:
    """The answer of a thing that was made again: it does not know what has changed."""


class Counted:
    """A thing, and how many changes it has seen. The thing has a method `restore`, which brings it
    to a state.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self.thing = make(*arguments)
        self.version = 0

    def ask(self, version: int, method: str, *call: Any) -> Any:
        """What a method returns that changes nothing, after so many changes."""
        if version != self.version:
            return Behind()
        return getattr(self.thing, method)(*call)

    def change(self, version: int, method: str, *call: Any) -> Any:
        """What a method returns that makes one more change, after so many."""
        found = self.ask(version, method, *call)
        if not isinstance(found, Behind):
            self.version += 1
        return found

    def restore(self, version: int, *state: Any) -> None:
        """Be as in the state, which is that after so many changes."""
        self.thing.restore(*state)
        self.version = version

    def process(self) -> int:
        """The process it lives in."""
        return os.getpid()


class Places:
    """Where things live.

    Args:
        cluster: the address of a Ray cluster, "ray" for one on this machine; None for this process.
        make: the class of the things.
        arguments: what each of them is made from.
        state: a function that returns what to hand to `restore` of thing i: the changes so far.

    >>> from superarm.cluster.places import Places
    >>> class Sum:
    ...     def __init__(self, start):
    ...         self.total = start
    ...     def add(self, x):
    ...         self.total += x
    ...         return self.total
    >>> places = Places(None, Sum, [(1,), (10,)], state=lambda i: ())
    >>> places.change("add", {0: (1,), 1: (2,)})
    {0: 2, 1: 12}
    """

    def __init__(
        self,
        cluster: str | None,
        make: Callable[..., Any],
        arguments: Sequence[Sequence[Any]],
        state: Callable[[int], Sequence[Any]],
    ) -> None:
        self._state = state
        self._versions = [0] * len(arguments)
        self._things: list[Any] = []
        self._closed = False
        self._here = cluster is None
        self.made = 0  # changes
        self._entered = create_engine(cluster)
        self._engine = self._entered.__enter__()
        try:
            self._things = self._placed(make, arguments)
        except BaseException:
            self.close()
            raise

    def _placed(self, make: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """The things, for which what several are made from is shipped once."""
        shared: dict[int, Any] = {}
        for one in chain.from_iterable(arguments):
            if id(one) not in shared:
                shared[id(one)] = self._engine.put(one)
        return [
            self._engine.create_actor(Counted, make, *(shared[id(one)] for one in each))
            for each in arguments
        ]

    def __len__(self) -> int:
        return len(self._versions)

    def close(self) -> None:
        """Let go of the things, and of the cluster if nobody else here uses it. They cannot be
        asked any more.
        """
        self._things = []
        self._closed = True
        self._entered.__exit__(None, None, None)

    def share(self, thing: Any) -> Any:
        """What stands for something large in several calls; it is shipped once."""
        return self._engine.put(thing)

    def ask(self, method: str, calls: Mapping[int, Sequence[Any]]) -> dict[int, Any]:
        """What a method of some of the things returns, each for its own call."""
        return self._asked("ask", method, calls)

    def ask_all(self, method: str, *call: Any) -> list[Any]:
        """What a method of each thing returns for the same call."""
        return list(self.ask(method, dict.fromkeys(range(len(self)), call)).values())

    def change(
        self,
        method: str,
        calls: Mapping[int, Sequence[Any]],
        commit: Callable[[dict[int, Any]], None] = lambda answers: None,
    ) -> dict[int, Any]:
        """What a method returns that changes some of the things.

        `commit` is called with the answers; from then on `state` must tell of the change. If this
        raises, nothing has changed, unless `made` counts one more: Ctrl-C ends the wait for a
        cluster, but waits for what is done in this process, and is raised then.
        """
        with held_interrupts() if self._here else nullcontext():
            try:
                answers = self._asked("change", method, calls)
            except BaseException:
                self._count(calls, 2)  # some may have seen one change: they are to be restored
                raise
            with held_interrupts():
                commit(answers)
                self._count(calls, 1)
                self.made += 1
        return answers

    def _count(self, which: Iterable[int], changes: int) -> None:
        for i in which:
            self._versions[i] += changes

    def processes(self) -> list[int]:
        """The processes that the things live in."""
        return list(self._sent("process", dict.fromkeys(range(len(self)), ())).values())

    def _asked(self, how: str, method: str, calls: Mapping[int, Sequence[Any]]) -> dict[int, Any]:
        named = {i: (self._versions[i], method, *call) for i, call in calls.items()}
        answers = self._sent(how, named)
        behind = [i for i, answer in answers.items() if isinstance(answer, Behind)]
        if behind:
            for i in behind:
                self._sent("restore", {i: (self._versions[i], *self._state(i))})
            answers |= self._asked(how, method, {i: calls[i] for i in behind})
        return answers

    def _sent(self, how: str, calls: Mapping[int, Sequence[Any]]) -> dict[int, Any]:
        if self._closed:
            raise ClusterError("this was closed: make it anew, or load it from its file")
        things = [self._things[i] for i in calls]
        answers = self._engine.call(things, how, list(calls.values()))
        return dict(zip(calls, answers, strict=True))

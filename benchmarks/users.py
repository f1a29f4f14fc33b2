"""What a decision for a user costs if it is made with those for many others at once."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.agent import Agent
from superarm.arrays import Array, Features
from superarm.contexts import Outer
from superarm.contracts import Learner
from superarm.learners import CombLinTS, CombLinUCB, CombMixTS
from superarm.oracles import TopK
from turns import SIGMA, Row, as_text, interleaved

LEARNERS: tuple[Learner, ...] = (
    CombLinTS(),
    CombLinTS(lam=1.0, sigma=SIGMA),
    CombLinUCB(lam=1.0, sigma=SIGMA, c=1.0),
    CombMixTS(contexts=True),
)
ALONE = 100
"""Users who are decided for one by one in a turn: the rest would take as long each."""


class Users(NamedTuple):
    """The features of users, and the ratio that is asked of them."""

    name: str
    asked: str
    together: Features
    alone: Callable[[int], Features]


def dense(n: int, L: int, d: int, dtype: Any) -> Users:
    """Features (n, L, d) with nothing in common: to read them once takes half of the time."""
    Phi: Array = np.random.default_rng(0).standard_normal((n, L, d), dtype)
    name = f"dense {np.dtype(dtype)}, d={d}"
    return Users(name, "at most 1/5", Phi, lambda i: Phi[i])


def outer(n: int, L: int, d_i: int, d_u: int) -> Users:
    """Features x ⊗ y_e of users x and items e."""
    rng = np.random.default_rng(0)
    features = Outer(rng.standard_normal((L, d_i)))
    x = rng.standard_normal((n, d_u))
    name = f"x ⊗ y_e, d={d_u} x {d_i}"
    return Users(name, "at most 1/5", features(x), lambda i: features(x[i]))


def ratios(
    learner: Learner, users: Users, repeats: int, method: str = "choose", k: int = 10
) -> Row:
    """The time per user of a call for all beside that of a call for each."""
    n = users.together.shape[0]
    rng = np.random.default_rng(1)
    agent = Agent(learner, features=users.alone(0), oracle=TopK(k), seed=2)
    for i in range(min(n, 50)):
        features = users.alone(i)
        chosen = agent.choose(features)
        agent.observe(chosen, SIGMA * rng.standard_normal(k), features=features)

    call = getattr(agent, method)

    def together() -> Any:
        return call(users.together)

    def one_by_one() -> None:
        for i in range(min(n, ALONE)):
            call(users.alone(i))

    taken = interleaved({"together": together, "alone": one_by_one}, repeats)
    each = taken["together"] / n
    alone = taken["alone"] / min(n, ALONE)
    name = f"{method}, {type(learner).__name__}, {users.name}, L={agent.problem.L:,}, {n:,} users"
    return Row(name, each, "one by one", each / alone, users.asked)


def rows(n: int, L: int, d: int, repeats: int) -> Iterator[Row]:
    """One per learner and kind of features."""
    kinds = [
        dense(n, L, d, np.float64),
        dense(n, L, d, np.float32),
        outer(n, L, d, 1),
        outer(n, L, d, 5),
    ]
    for users in kinds:
        for learner in LEARNERS:
            yield ratios(learner, users, repeats)
        yield ratios(LEARNERS[0], users, repeats, "decide")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print the table: times per user, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args(argv)
    print(as_text(list(rows(given.users, given.items, given.features, given.repeats))))


if __name__ == "__main__":
    main()

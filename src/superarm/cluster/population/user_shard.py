"""What is known of some of the users of a population, and how sets are chosen for them.

data     (n, D(D+1)/2)   the users' rows [φ w], each as a packed triangular factor, D = d + 1
start    (D, D)          the factor that every user starts from
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import Array, Stream, broadcast, qr_append, qr_stack
from superarm.arrays.householder import SAFE_SQUARE_MAX
from superarm.base_learner import as_learner
from superarm.cluster.lists import turns
from superarm.cluster.population.packed_triangles import (
    absorb_rows,
    fill_factors,
    fill_thetas,
    packed_size,
    unpacked,
)
from superarm.contracts import Learner, Oracle, Problem
from superarm.decide import random_numbers
from superarm.errors import NumericalError, ParameterError
from superarm.oracles.base import Masked, as_oracle

PART = 2**18
"""Scores to hold at a time."""
FITTED = 1024
"""Users whose rows scales are chosen by, from all over the population if there are more: that is
some 20,000 coefficients, whose size they tell to half a percent."""
FIRST = 64
"""Users that there is room for at first."""


class SharedHyperparameters(NamedTuple):
    """The scales that all users share."""

    spread: Array  # (d,) prior stds of θ
    lam: float
    sigma: float


class Everybody(NamedTuple):
    """What all users share."""

    start: Array  # (D, D)
    lam: float
    sigma: float


class Asked(NamedTuple):
    """Whom to choose for."""

    users: list[Any]  # (n,)
    draws: Array  # normals (n, d) of learners that `draws_normals`; of others seeds (n,)
    available: Array | None  # (L,), or (n, L)


class Seen(NamedTuple):
    """What was observed of users."""

    users: list[Any]  # (n,)
    A: Array  # (n, K) positions of items, -1 pads
    w: Array  # (n, K)


class Total(NamedTuple):
    """All rows of all users."""

    users: int
    data: Array  # (D, D) the factor of all rows [φ w]
    rows: float
    t: int  # decisions that were observed


def no_total(d: int) -> Total:
    """No rows of nobody."""
    return Total(0, gaussian.empty_factor(d), 0.0, 0)


def total_of(totals: Sequence[Total]) -> Total:
    """All rows of several shards."""
    return Total(
        sum(each.users for each in totals),
        reduce(qr_stack, [each.data for each in totals]),
        sum(each.rows for each in totals),
        sum(each.t for each in totals),
    )


class Known(NamedTuple):
    """All that is known of some users."""

    users: list[Any]
    data: Array  # (n, D(D+1)/2)
    rows: Array  # (n,) how many each has, of which old ones may count less
    t: Array  # (n,) decisions of each that were observed
    total: Total


class Kept:
    """What a shard that was killed is made from: what it knew once, and has seen since."""

    def __init__(self, known: Any = None) -> None:
        self.known = known
        self.since: list[Seen] = []
        self.numbers = 0

    def add(self, seen: Seen) -> None:
        """Keep what was observed."""
        self.since.append(seen)
        self.numbers += seen.A.size + seen.w.size


class Sample(NamedTuple):
    """Some of the users, in the order of their keys."""

    keys: Array  # (m,)
    data: Array  # (m, D, D)
    rows: Array  # (m,)


def keys_of(users: Sequence[Any]) -> Array:
    """A number from 0 to 1 for each id, spread evenly, which depends on the id alone. It is the
    same in all processes for text, numbers, UUIDs and tuples of them.

    >>> from superarm.cluster.population.user_shard import keys_of
    >>> keys_of(["ann", "bob", 7]).round(3)
    array([0.585, 0.453, 0.305])
    """
    codes = np.array([_code(user) for user in users], dtype=np.int64)
    return Stream(0, first=codes).item_uniform(codes.shape)


def _code(user: Any) -> int:
    """A whole number; ids that are equal have the same."""
    if isinstance(user, str):
        return zlib.crc32(user.encode("utf-8", "surrogatepass"))  # Python's differs by process
    if isinstance(user, tuple):
        return hash(tuple(_code(part) for part in user))
    return hash(user)


def draws_normals(learner: Learner) -> bool:
    """True if the scores of a learner are those of one θ, made of standard normals."""
    return as_learner(learner).theta_noise is not None


def require_linear(learner: Any) -> None:
    """Refuse what is not a linear learner without a link."""
    model = learner.model
    if not model.fits_row_factors:
        raise ParameterError(
            "a population needs a linear learner without a link, as CombLinTS(), CombLinUCB(c=1.0) "
            f"or Greedy(), got {learner!r:.100}"
        )


def require_range(values: Array, scale: float) -> None:
    """Refuse numbers whose squares float64 cannot hold once they are divided by a scale."""
    largest = np.abs(values).max(initial=0.0)
    if largest > scale * math.sqrt(SAFE_SQUARE_MAX):
        raise NumericalError(
            f"numbers of up to {largest:g} and lam or sigma {scale:g} are too far apart: use other "
            "units"
        )


class Users:
    """What one machine holds: a triangle per user."""

    def __init__(self, learner: Learner, Phi: Array, oracle: Oracle) -> None:
        self.learner = learner
        self.problem = Problem(Phi, oracle)
        self.Phi = Phi
        self._forget()

    def _forget(self) -> None:
        """Know nothing of anybody."""
        d = self.problem.d
        self.place: dict[Any, int] = {}
        self.data = np.zeros((FIRST, packed_size(d + 1)))
        self.rows = np.zeros(FIRST)
        self.t = np.zeros(FIRST, np.int64)
        self.key = np.zeros(FIRST)
        self.total = no_total(d)

    # --- decisions --------------------------------------------------------------------------------

    def choose(self, asked: Asked, of: Everybody) -> list[Array]:
        """The sets for all that are asked for, as positions (m, K), some users at a time."""
        places = self.places(asked.users)
        found = []
        for part in self._parts(len(places)):
            oracle = self.problem.oracle
            if asked.available is not None:
                mask = asked.available if asked.available.ndim == 1 else asked.available[part]
                oracle = Masked(as_oracle(oracle), mask)
            found.append(oracle(self._weights(places[part], asked.draws[part], of)))
        return found

    def factors(self, users: list[Any], of: Everybody) -> Array:
        """The factors (n, D, D) of what is believed of users."""
        return self._factors(self.places(users), of)

    def places(self, users: list[Any]) -> Array:
        """Where the users' triangles are; -1 for those of whom nothing was observed."""
        get = self.place.get
        return np.array([get(user, -1) for user in users], dtype=np.int64)

    def _parts(self, n: int) -> Iterator[slice]:
        step = max(1, PART // self.problem.L)
        for start in range(0, n, step):
            yield slice(start, start + step)

    def _weights(self, places: Array, draws: Array, of: Everybody) -> Array:
        """What the learner hands to the oracle, (n, L)."""
        if not draws_normals(self.learner):
            problem = self.problem._replace(Phi=broadcast(self.Phi, len(places)))
            beliefs = self._beliefs(places, problem, of)
            return self.learner.scores(beliefs, problem, random_numbers(self.learner, draws))
        noise = (as_learner(self.learner).theta_noise or 0.0) * draws
        theta = self._thetas(places, noise, of)
        unknown = ~theta.any(-1)
        if unknown.any():  # a greedy one would otherwise never begin
            theta[unknown] = self._thetas(places[unknown], draws[unknown], of)
        weights: Array = theta @ self.Phi.T
        return weights

    def _thetas(self, places: Array, noise: Array, of: Everybody) -> Array:
        theta = np.empty(noise.shape)
        fill_thetas(theta, self.data, places, of.start, of.sigma, np.ascontiguousarray(noise))
        return theta

    def _factors(self, places: Array, of: Everybody) -> Array:
        out = np.empty((len(places), *of.start.shape))
        fill_factors(out, self.data, places, of.start, of.sigma)
        return out

    def _beliefs(self, places: Array, problem: Problem, of: Everybody) -> Any:
        """The users' beliefs as the learner's model has them."""
        hyperparameters = {"lam": of.lam, "sigma": of.sigma}
        t = np.where(places >= 0, self.t[places], 0)
        factors = self._factors(places, of)
        return self.learner.model.from_factor(factors, problem, hyperparameters, t)

    # --- feedback ---------------------------------------------------------------------------------

    def observe(self, seen: Seen) -> Total:
        """Learn from rows; returns all rows so far."""
        users, A, w = seen
        places = self._with_users(users)
        keep = float(self.learner.model.forgetting)
        for turn in turns(places):
            mine = places[turn]
            absorb_rows(self.data, mine, self.Phi, A[turn], w[turn], keep)
            self.rows[mine] = keep * self.rows[mine] + (A[turn] >= 0).sum(-1)
            self.t[mine] += (A[turn] >= 0).any(-1)
        there = A >= 0
        Phi = self.Phi[A[there]]
        total = qr_append(self.total.data, Phi, w[there], 1.0)
        self.total = Total(
            len(self.place),
            total.factor,
            self.total.rows + float(there.sum()),
            self.total.t + int(there.any(-1).sum()),
        )
        return self.total

    def sample(self) -> Sample:
        """The users of the lowest keys."""
        n = len(self.place)
        lowest = np.argsort(self.key[:n], kind="stable")[:FITTED]
        data = unpacked(self.data[lowest], self.problem.d + 1)
        return Sample(self.key[lowest], data, self.rows[lowest])

    def _with_users(self, users: list[Any]) -> Array:
        """Where the users' triangles are; those that are new get room for one."""
        before = len(self.place)
        for user in users:
            self.place.setdefault(user, len(self.place))
        new = list(islice(reversed(self.place), len(self.place) - before))[::-1]
        room = len(self.data)
        while room < len(self.place):
            room *= 2
        more = room - len(self.data)
        if more:
            self.data = np.concatenate([self.data, np.zeros((more, self.data.shape[1]))])
            self.rows = np.append(self.rows, np.zeros(more))
            self.t = np.append(self.t, np.zeros(more, np.int64))
            self.key = np.append(self.key, np.zeros(more))
        self.key[before : len(self.place)] = keys_of(new)
        return self.places(users)

    # --- what there is to keep --------------------------------------------------------------------

    def known(self) -> Known:
        """All that is known."""
        n = len(self.place)
        return Known(list(self.place), self.data[:n], self.rows[:n], self.t[:n], self.total)

    def restore(self, known: Known | None, since: Sequence[Seen]) -> Total:
        """Know this, or nothing if it is None, and learn what was seen since."""
        self._forget()
        if known is not None:
            places = self._with_users(known.users)
            self.data[places] = known.data
            self.rows[places] = known.rows
            self.t[places] = known.t
            self.total = known.total
        for seen in since:
            self.observe(seen)
        return self.total

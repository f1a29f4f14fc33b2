"""One belief per user over shared items.

A user's belief is what the population is worth to anybody, and the user's own rows:

    Σ_u⁻¹ = Σ₀⁻¹ + γ XᵀX/s² + X_uᵀX_u/σ²,   γ = min(1, worth/N)

    symbol    code         meaning
    X_u       _data        the user's rows [φ w], as a packed triangular factor
    X, N      _all         all rows of all users, as a belief of the linear model; how many they are
    γ         discount     what a row of the population counts: all of it counts `worth` rows
    s²        spread       the variance of all rows around one θ for everybody, at least σ²
    Σ₀, σ     of _all      the prior and the noise, which all users share

What users differ by is in s². Where θ_u varies by v around a common mean, and features have size 1,
s² is about σ² + d v: with worth = d, a new user's θ starts out with a variance of about v.

Scales that are "auto" are those of the largest marginal likelihood of all users together, each with
a θ of their own: log p(w) = Σ_u log p(w_u).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.agent.catalogue import Catalogue
from superarm.arrays import Array, factor_of_rows, normal, repeated, stacked_rows
from superarm.arrays.packed import absorb_rows, fill_factors, fill_thetas, packed_size, unpacked
from superarm.arrays.pools import one_blas_thread
from superarm.beliefs.deviations import repeats
from superarm.beliefs.linear import LinearModel
from superarm.beliefs.logit import LogitModel, TunedLogitModel
from superarm.beliefs.scales import require_squares
from superarm.beliefs.tuned import Tuned, TunedModel, doubled
from superarm.beliefs.widths import WidthsModel, with_widths
from superarm.checks import check_features, is_real
from superarm.cluster import saving
from superarm.cluster.lists import as_matrix, joined_weights, listed_users, turns
from superarm.contexts import as_table
from superarm.contracts import Learner, Problem, require_learner
from superarm.errors import ItemsError, MaskError, ParameterError
from superarm.files import PathLike
from superarm.gaussian import Gaussian
from superarm.learners import CombLinTS, Greedy
from superarm.oracles.base import Masked, as_oracle, is_full, padded

PART = 2**18
"""Scores to hold at a time."""
FITTED = 1024
"""Users whose rows scales are chosen by, from all over the population if there are more: that is
some 20,000 coefficients, whose size they tell to half a percent."""
FIRST = 64
"""Users that there is room for at first."""


class Lists(NamedTuple):
    """Items and weights of many users, -1 pads."""

    A: Array  # (n, K) positions
    w: Array  # (n, K)


class Everybody(NamedTuple):
    """All rows of all users, and the scales."""

    data: Array  # (d+1, d+1) the factor of all rows [φ w]
    rows: float
    spread: Array  # (d,) prior stds of θ
    lam: float
    sigma: float
    t: int  # decisions that were observed


class Start(NamedTuple):
    """The factor that users start from, and what it was made from."""

    of: Everybody
    factor: Array  # (d+1, d+1)


class Population:
    """Chooses for many users, each with a belief of their own, and learns from all of them.

    Args:
        learner: a linear learner: `CombLinTS`, `CombLinUCB` or `Greedy`. Scales that are "auto" are
            shared by all users, and fitted over all of them.
        features: one row per item, (L, d), as for an `Agent`; all users share them.
        oracle: an oracle, or any function from L weights to items.
        items: your ids of the items, as for an `Agent`.
        worth: how many rows the whole population is worth to a user, by default as many as there
            are features. A new user starts from all that was observed of anybody, at a discount of
            min(1, worth / rows observed), and with what users differ by as noise.
        seed: for the population's own randomness; None draws one from the system.

    Users are known by any ids that can be keys of a dictionary: text, numbers. Those never seen are
    chosen for from what the population knows, and kept once something of theirs is observed. A user
    takes (d+1)(d+2)/2 numbers: a million with d=20 are 1.85 GB.

    >>> import numpy as np
    >>> from superarm import CombLinTS, Population, TopK
    >>> rng = np.random.default_rng(0)
    >>> features = rng.standard_normal((50, 4))
    >>> population = Population(CombLinTS(), features=features, oracle=TopK(3), seed=0)
    >>> taste = {"ann": rng.standard_normal(4), "bob": rng.standard_normal(4)}
    >>> for _ in range(30):
    ...     chosen = population.choose(["ann", "bob"])
    ...     shown = [features[items] @ taste[u] for u, items in zip(taste, chosen)]
    ...     population.observe(["ann", "bob"], chosen, shown)
    >>> ann = population.choose(["ann"])[0]
    >>> bool(set(ann) == set(np.argsort(-features @ taste["ann"])[:3]))
    True
    """

    def __init__(
        self,
        learner: Learner,
        *,
        features: Any,
        oracle: Any,
        items: Any = None,
        worth: float | None = None,
        seed: int | None = None,
    ) -> None:
        require_learner(learner)
        _require_linear(learner)
        table = as_table(features)
        Phi = np.ascontiguousarray(check_features(table.values), np.float64)
        worth = Phi.shape[1] if worth is None else worth
        if not (is_real(worth) and 0 <= worth < math.inf):
            raise ParameterError(f"worth must be a number of rows, 0 or more, got {worth!r}")
        require_squares(Phi)
        self.learner = learner
        self.worth = float(worth)
        self.rng = np.random.default_rng(seed)
        self.catalogue = Catalogue(table.ids if items is None else items, len(Phi), table.names)
        self.problem = Problem(Phi, as_oracle(oracle))
        self._Phi = Phi
        self._place: dict[Any, int] = {}
        self._data = np.zeros((FIRST, packed_size(self.problem.d + 1)))
        self._rows = np.zeros(FIRST)
        self._t = np.zeros(FIRST, np.int64)
        self._all = self._nothing()
        self._started: Start | None = None

    def __repr__(self) -> str:
        L, d = self.problem.Phi.shape
        return f"Population({self.learner}, {len(self)} users, {L} items, {d} features)"

    def __len__(self) -> int:
        return len(self._place)

    @property
    def users(self) -> list[Any]:
        """The users of whom something was observed, in the order in which they came."""
        return list(self._place)

    @property
    def items(self) -> Array:
        """The ids of the items."""
        return self.catalogue.items

    @property
    def sigma(self) -> float:
        """The noise std that all users share."""
        return self._all.sigma

    @property
    def lam(self) -> float:
        """The prior std that all users share."""
        return self._all.lam

    @property
    def discount(self) -> float:
        """What a row of the population counts to each user."""
        return min(1.0, self.worth / self._all.rows) if self._all.rows else 1.0

    @property
    def spread(self) -> float:
        """The std of all rows around one θ for everybody, at least sigma. How much users differ is
        part of it.
        """
        of = self._all
        free = of.rows - self.problem.d
        squares = of.data[-1, -1] ** 2
        if free < self.problem.d:  # too few rows to tell
            squares = (of.data[:, -1] ** 2).sum()
            free = max(of.rows, 1.0)
        return max(of.sigma, math.sqrt(squares / free))

    # --- decisions --------------------------------------------------------------------------------

    def choose(self, users: Any, available: Any = None) -> list[Array]:
        """Choose items for each of the users.

        Args:
            users: their ids; a user may be there more than once.
            available: the items to choose from, for all users, as for an `Agent`; or a mask (n, L)
                of booleans in the order of `population.items`, one row per user.

        Returns:
            per user an array of the ids of the chosen items, in the order of `users`.
        """
        places = self._places(users)
        mask = None if available is None else self._mask(available, len(places))
        found = []
        with one_blas_thread():
            for part in self._parts(len(places)):
                problem = self.problem
                if mask is not None:
                    some = mask if mask.ndim == 1 else mask[part]
                    problem = problem._replace(oracle=Masked(problem.oracle, some))
                found.append(problem.oracle(self._weights(places[part])))
        chosen: list[Array] = []
        for A in found:
            ids = self.catalogue.ids_of(A)
            if is_full(A):
                chosen.extend(ids)
            else:
                chosen.extend(row[there] for row, there in zip(ids, A >= 0, strict=True))
        return chosen

    def belief(self, user: Any) -> Gaussian:
        """What is believed of one user's θ.

        Returns:
            the posterior of the user's coefficients θ; of a new user, what the population says.
        """
        (place,) = self._places([user])
        factor = self._factors(np.array([place]))[0]
        return Gaussian(factor, np.zeros(()))

    def _parts(self, n: int) -> Iterator[slice]:
        step = max(1, PART // self.problem.L)
        for start in range(0, n, step):
            yield slice(start, start + step)

    def _factors(self, places: Array) -> Array:
        D = self.problem.d + 1
        out = np.empty((len(places), D, D))
        fill_factors(out, self._data, places, self._start(), self._all.sigma)
        return out

    def _weights(self, places: Array) -> Array:
        """What the learner hands to the oracle, (n, L)."""
        if type(self.learner) not in (CombLinTS, Greedy):
            problem = self.problem._replace(Phi=repeated(self._Phi, len(places)))
            beliefs = self._beliefs(self._factors(places), places, problem)
            return self.learner.weights(beliefs, problem, self.rng)
        noise = np.zeros((len(places), self.problem.d))
        if isinstance(self.learner, CombLinTS):
            noise = normal(self.rng, noise)
        theta = self._thetas(places, noise)
        unknown = ~theta.any(-1)
        if unknown.any():  # a greedy one would otherwise never begin
            theta[unknown] = self._thetas(places[unknown], normal(self.rng, theta[unknown]))
        weights: Array = theta @ self._Phi.T
        return weights

    def _thetas(self, places: Array, noise: Array) -> Array:
        theta = np.empty(noise.shape)
        fill_thetas(theta, self._data, places, self._start(), self._all.sigma, noise)
        return theta

    def _beliefs(self, factor: Array, places: Array, problem: Problem) -> Any:
        """The users' beliefs as the learner's model has them."""
        n = len(factor)
        plain = Gaussian(factor, np.zeros(n))
        model = self.learner.model
        if not isinstance(model, TunedModel):
            return with_widths(plain, problem.Phi)
        one = model.prior(self.problem)._asdict()
        shared = {}
        for name, x in one.items():
            shared[name] = repeated(np.asarray(x), n)
        t = np.where(places >= 0, self._t[places], 0)
        return Tuned(**shared)._replace(
            **plain._asdict(),
            lam=np.full(n, self._all.lam),
            sigma=np.full(n, self._all.sigma),
            t=t,
        )

    # --- feedback ---------------------------------------------------------------------------------

    def observe(self, users: Any, items: Any, weights: Any) -> None:
        """Learn what the items of users were worth.

        Args:
            users: their ids; one that is there more than once is learned from in this order.
            items: the items of each user, each once: a list of lists, or an array (n, K).
            weights: one number per item, likewise.
        """
        listed = listed_users(users)
        A, w = self._checked(listed, items, weights)
        places = self._with_users(listed)
        keep = float(getattr(self.learner.model, "forgetting", 1.0))
        for turn in turns(places):
            mine = places[turn]
            absorb_rows(self._data, mine, self._Phi, A[turn], w[turn], keep)
            self._rows[mine] = keep * self._rows[mine] + (A[turn] >= 0).sum(-1)
            self._t[mine] += (A[turn] >= 0).any(-1)
        self._count(A, w)

    def _count(self, A: Array, w: Array) -> None:
        """Put the rows to those of everybody, and choose scales anew where it is due."""
        flat = A.reshape(-1)
        seen = flat >= 0
        block = factor_of_rows(self._Phi[flat[seen]], w.reshape(-1)[seen], 1.0, seen[seen])
        before = self._all.t
        after = before + int((A >= 0).any(-1).sum())
        self._all = self._all._replace(
            data=stacked_rows(self._all.data, block),
            rows=self._all.rows + float(seen.sum()),
            t=after,
        )
        tuned = isinstance(self.learner.model, TunedModel)
        if tuned and doubled(np.asarray(before), np.asarray(after)).any():
            self._all = self._fitted()

    def _fitted(self) -> Everybody:
        """Everybody at the scales of the largest marginal likelihood of all users together."""
        model: Any = self.learner.model
        some = np.unique(np.linspace(0, len(self) - 1, min(len(self), FITTED)).astype(int))
        own = unpacked(self._data[some], self.problem.d + 1)
        start = model.prior(self.problem)
        pool = start._replace(data=self._all.data, rows=np.asarray(self._all.rows))
        pool = pool._replace(lam=np.asarray(self._all.lam), sigma=np.asarray(self._all.sigma))
        found = model.pooled(pool, list(own), self._rows[some].tolist())
        return self._all._replace(
            spread=found.spread, lam=float(found.lam), sigma=float(found.sigma)
        )

    def _nothing(self) -> Everybody:
        model: Any = self.learner.model
        d = self.problem.d
        data = np.zeros((d + 1, d + 1))
        if isinstance(model, TunedModel):
            start = model.prior(self.problem)
            return Everybody(data, 0.0, start.spread, float(start.lam), float(start.sigma), 0)
        return Everybody(data, 0.0, np.full(d, model.lam), model.lam, model.sigma, 0)

    def _start(self) -> Array:
        """The factor of a user of whom nothing is known but the population."""
        of = self._all
        if self._started is not None and self._started.of is of:
            return self._started.factor
        start = gaussian.prior(self.problem.d, of.spread)
        if self.worth and of.rows:
            share = math.sqrt(self.discount) * of.data
            start = gaussian.absorb(start, share, self.discount * of.rows, self.spread)
        self._started = Start(of, np.ascontiguousarray(start.factor))
        return self._started.factor

    # --- users and items --------------------------------------------------------------------------

    def _places(self, users: Any) -> Array:
        """Where the users' triangles are; -1 for those of whom nothing was observed."""
        get = self._place.get
        return np.array([get(user, -1) for user in listed_users(users)], dtype=np.int64)

    def _with_users(self, users: list[Any]) -> Array:
        """Where the users' triangles are; those that are new get room for one."""
        for user in users:
            self._place.setdefault(user, len(self._place))
        room = len(self._data)
        while room < len(self._place):
            room *= 2
        if room > len(self._data):
            data = np.zeros((room, self._data.shape[1]))
            data[: len(self._data)] = self._data
            self._data = data
            self._rows = np.append(self._rows, np.zeros(room - len(self._rows)))
            self._t = np.append(self._t, np.zeros(room - len(self._t), np.int64))
        return self._places(users)

    def _mask(self, available: Any, n: int) -> Array:
        if not isinstance(available, np.ndarray) or available.ndim != 2:
            return self.catalogue.mask(available)
        shape = (n, self.problem.L)
        if available.dtype != bool or available.shape != shape:
            raise MaskError(
                f"a mask for {n} users must be booleans of shape {shape}, "
                f"got {available.dtype} of shape {available.shape}"
            )
        return available

    def _checked(self, users: list[Any], items: Any, weights: Any) -> Lists:
        """What was observed, as positions and weights (n, K), -1 pads."""
        for what, given in (("items", items), ("weights", weights)):
            if not isinstance(given, Sequence | np.ndarray) or len(given) != len(users):
                raise ItemsError(
                    f"{len(users)} users need as many lists of {what}, got {given!r:.100}"
                )
        A = self._positions(items)
        chosen = A >= 0
        lengths = chosen.sum(-1)
        if repeats(A):
            raise ItemsError("an item is there twice for one user: give each once")
        w = np.zeros(A.shape)
        w[chosen] = joined_weights(weights, lengths)
        require_squares(w)
        return Lists(A, w)

    def _positions(self, items: Any) -> Array:
        """Lists of ids as positions (n, K), -1 pads."""
        given = as_matrix(items) if self.catalogue.plain else None
        if given is not None and given.dtype.kind in "iu":
            inside = (given >= 0) & (given < self.problem.L)
            if not inside.all():
                raise ItemsError(
                    f"item {given[~inside][0]} is not one of the {self.problem.L} items"
                )
            return given.astype(np.int64)
        return padded([self.catalogue.positions(row) for row in items])

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write everything but the oracle to a file of arrays and JSON, as `Agent.save` does.

        Ids of users must be all whole numbers, all text, all UUIDs or all tuples of such.
        """
        saving.save(self, path)

    @classmethod
    def load(cls, path: PathLike, *, oracle: Any, seed: int | None = None) -> "Population":
        """The population that `save` wrote, with new randomness.

        Args:
            path: the file.
            oracle: the oracle, which the file does not hold.
            seed: None draws one from the system.

        Returns:
            a population that believes what the saved one did.
        """
        return saving.load(cls, path, oracle=oracle, seed=seed)


def _require_linear(learner: Any) -> None:
    """Refuse what is not a linear learner of weights themselves."""
    model = learner.model
    linear = isinstance(model, LinearModel | WidthsModel | TunedModel)
    if not linear or isinstance(model, LogitModel | TunedLogitModel):
        raise ParameterError(
            "a population needs a linear learner without a link, as CombLinTS(), CombLinUCB(c=1.0) "
            f"or Greedy(), got {learner!r:.100}"
        )

"""One belief per user over shared items.

A user's belief is what the population is worth to anybody, and the user's own rows:

    Σ_u⁻¹ = Σ₀⁻¹ + γ XᵀX/s² + X_uᵀX_u/σ²,   γ = min(1, worth/N)

    symbol    code         meaning
    X_u       Users.data   the user's rows [φ w], as a packed triangular factor
    X, N      _all         all rows of all users, as a triangular factor; how many they are
    γ         discount     what a row of the population counts: all of it counts `worth` rows
    s²        spread       the variance of all rows around one θ for everybody, at least σ²
    Σ₀, σ     _scales      the prior and the noise, which all users share

What users differ by is in s². Where θ_u varies by v around a common mean, and features have size 1,
s² is about σ² + d v: with worth = d, a new user's θ starts out with a variance of about v.

Scales that are "auto" are those of the largest marginal likelihood of all users together, each with
a θ of their own: log p(w) = Σ_u log p(w_u).
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.linalg import norm

from superarm import gaussian
from superarm.agent.catalogue import Catalogue
from superarm.agent.constraints import constraints
from superarm.agent.ids import objects
from superarm.agent.kept import generator
from superarm.arrays import Array, normal
from superarm.beliefs.empirical_bayes import crossed_power_of_two
from superarm.beliefs.hyperparameters import require_squares
from superarm.checks import check_features, is_real, require_count
from superarm.cluster import saving
from superarm.cluster.lists import kind_of_users, listed_users, observed_lists
from superarm.cluster.locks import Lock, one_at_a_time, one_change_at_a_time
from superarm.cluster.places import Places
from superarm.cluster.population.packed_triangles import packed_size
from superarm.cluster.population.user_shard import (
    FITTED,
    Asked,
    Everybody,
    Kept,
    Known,
    Seen,
    SharedHyperparameters,
    Total,
    Users,
    draws_normals,
    keys_of,
    no_total,
    require_linear,
    require_range,
    total_of,
)
from superarm.contexts import as_table
from superarm.contracts import Learner, Problem, require_learner
from superarm.errors import ClusterError, FeaturesError, ItemsError, MaskError, ParameterError
from superarm.files.archive import PathLike
from superarm.gaussian import Gaussian, RowFactor
from superarm.oracles.base import is_full

NOTHING = np.empty(0, np.int64)
LOGGED = 2**20
"""Numbers to keep of what was observed in a shard before all that it knows is kept in its place."""


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
        shards: how many to deal the users to, by a hash of their ids.
        cluster: the Ray cluster of the shards, by its address, or "ray"; None for this process.

    Ids of users are all whole numbers, all text, all UUIDs or all tuples of such. For users never
    seen, it chooses by what is known of all; they are kept once observed. A million users with d=20
    take 1.85 GB.

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
        shards: int = 1,
        cluster: str | None = None,
    ) -> None:
        require_learner(learner)
        require_linear(learner)
        table = as_table(features)
        Phi = np.ascontiguousarray(check_features(table.values), np.float64)
        if Phi.ndim != 2:
            raise FeaturesError(f"features must be 2-D, (items, features), got shape {Phi.shape}")
        worth = Phi.shape[1] if worth is None else worth
        if not (is_real(worth) and 0 <= worth < math.inf):
            raise ParameterError(f"worth must be a number of rows, 0 or more, got {worth!r}")
        require_squares(Phi)
        require_count(shards=shards)
        self.learner = learner
        self.worth = float(worth)
        self.rng = generator(seed)
        self._lock = Lock()
        self.catalogue = Catalogue(table.ids if items is None else items, len(Phi), table.names)
        self.problem = Problem(Phi, constraints(oracle, self.catalogue).fitted(self.catalogue))
        self._Phi = Phi
        self._scales = self._first_scales()
        require_range(Phi, self._scales.sigma)
        require_range(np.ones(1), float(self._scales.spread.min()))
        self._kind: str | None = None  # of the ids of users
        self._due = False  # whether there is enough more than before to choose scales anew
        self._started: Array | None = None
        self._totals = [no_total(self.problem.d)] * shards
        self._all = self._totals[0]
        self._kept = None if cluster is None else [Kept() for _ in range(shards)]
        made = (learner, Phi, self.problem.oracle)
        self._shards = Places(cluster, Users, [made] * shards, self._state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @one_at_a_time
    def close(self) -> None:
        """Let go of the shards, and of the cluster if this population has connected to it."""
        self._shards.close()
        self._kept = None

    def __repr__(self) -> str:
        L, d = self.problem.Phi.shape
        return f"Population({self.learner}, {len(self)} users, {L} items, {d} features)"

    def __len__(self) -> int:
        return self._all.users

    @property
    @one_at_a_time
    def users(self) -> list[Any]:
        """The users of whom something was observed, shard by shard, as they came."""
        return list(chain(*(known.users for known in self._known())))

    @property
    def items(self) -> Array:
        """The ids of the items."""
        return self.catalogue.items

    @property
    @one_at_a_time
    def sigma(self) -> float:
        """The noise std that all users share."""
        self._choose_scales()
        return self._scales.sigma

    @property
    @one_at_a_time
    def lam(self) -> float:
        """The prior std that all users share."""
        self._choose_scales()
        return self._scales.lam

    @property
    def discount(self) -> float:
        """What a row of the population counts to each user."""
        return min(1.0, self.worth / self._all.rows) if self._all.rows else 1.0

    @property
    @one_at_a_time
    def spread(self) -> float:
        """The std of all rows around one θ for everybody, and so also of how users differ."""
        of = self._all
        free = of.rows - self.problem.d
        squares = of.data[-1, -1] ** 2
        if free < self.problem.d:  # too few rows to tell
            squares = (of.data[:, -1] ** 2).sum()
            free = max(of.rows, 1.0)
        return max(self.sigma, math.sqrt(squares / free))

    # --- decisions --------------------------------------------------------------------------------

    @one_at_a_time
    def choose(self, users: Any, available: Any = None) -> list[Array]:
        """Choose items for each of the users.

        Args:
            users: their ids; a user may be there more than once.
            available: the items to choose from, for all users, as for an `Agent`; or a mask (n, L)
                of booleans in the order of `population.items`, one row per user.

        Returns:
            per user an array of the ids of the chosen items, in the order of `users`.
        """
        listed = objects(self._listed(users))
        n = len(listed)
        mask = None if available is None else self._mask(available, n)
        of = self._everybody()
        state = self.rng.bit_generator.state
        draws = self._draws(n)
        calls = {}
        dealt = self._dealt(listed)
        for i, mine in dealt.items():
            own = mask[mine] if mask is not None and mask.ndim > 1 else mask
            calls[i] = (Asked(listed[mine].tolist(), draws[mine], own), of)
        chosen = [NOTHING] * n
        try:
            answers = self._shards.ask("choose", calls)
        except BaseException:
            self.rng.bit_generator.state = state  # a call that raises changes nothing
            raise
        for i, found in answers.items():
            sets = chain(*map(self._named, found))
            for at, items in zip(dealt[i].tolist(), sets, strict=True):
                chosen[at] = items
        return chosen

    @one_at_a_time
    def belief(self, user: Any) -> Gaussian:
        """What is believed of one user's θ.

        Returns:
            the posterior of the user's coefficients θ; of a new user, what the population says.
        """
        listed = objects(self._listed([user]))
        ((i, _),) = self._dealt(listed).items()
        factors = self._shards.ask("factors", {i: (listed.tolist(), self._everybody())})[i]
        return Gaussian(factors[0], np.zeros(()))

    def _named(self, A: Array) -> Iterable[Array]:
        """The ids of the items in sets (n, K), without padding."""
        ids = self.catalogue.ids_of(A)
        if is_full(A):
            return ids
        return (row[there] for row, there in zip(ids, A >= 0, strict=True))

    def _draws(self, n: int) -> Array:
        """What users draw from, one row each, whatever shards they are in."""
        if draws_normals(self.learner):
            return normal(self.rng, np.empty((n, self.problem.d)))
        return self.rng.integers(2**63, size=n)

    def _dealt(self, users: Array) -> dict[int, Array]:
        """Where the users of each shard are in the list."""
        n = len(self._shards)
        if n == 1:
            return {0: np.arange(len(users))}
        owner = (n * keys_of(users.tolist())).astype(np.int64)
        return {i: np.flatnonzero(owner == i) for i in np.unique(owner).tolist()}

    # --- feedback ---------------------------------------------------------------------------------

    @one_change_at_a_time
    def observe(self, users: Any, items: Any, weights: Any) -> None:
        """Learn what the items of users were worth.

        Args:
            users: their ids; one that is there more than once is learned from in this order.
            items: the items of each user, each once: a list of lists, or an array (n, K).
            weights: one number per item, likewise; or by item, in a mapping or a pandas Series.
        """
        listed = self._listed(users)
        A, w = observed_lists(self.catalogue, len(listed), items, weights)
        seen = (A >= 0).any(-1)
        every = objects(listed)[seen]
        A = A[seen]
        w = w[seen]
        require_squares(np.hypot(norm(self._all.data[:, -1]), norm(w)))
        require_range(w, self._scales.sigma)
        calls = {}
        for i, mine in self._dealt(every).items():
            calls[i] = (Seen(every[mine].tolist(), A[mine], w[mine]),)
        self._choose_scales()
        kind = self._kind or kind_of_users(every[:1].tolist())

        def commit(totals: Mapping[int, Total]) -> None:
            self._count(totals)
            self._kind = kind
            for i, kept in enumerate(self._kept or []):
                if i in calls:
                    kept.add(*calls[i])

        self._shards.change("observe", calls, commit)
        with suppress(ClusterError):  # the next call does what fails here; this one has learned
            self._choose_scales()
            self._keep_less()

    def _count(self, totals: Mapping[int, Total]) -> None:
        """Add up the rows of everybody, with the new totals of some shards."""
        before = self._all.t
        every = [totals.get(i, total) for i, total in enumerate(self._totals)]
        self._all = total_of(every)
        self._totals = every
        self._started = None
        tuned = self.learner.model.fits_hyperparameters
        more = crossed_power_of_two(np.asarray(before), np.asarray(self._all.t)).any()
        self._due = self._due or bool(tuned and more)

    def _choose_scales(self) -> None:
        """Choose scales anew where it is due."""
        if self._due:
            self._scales = self._fitted()
            self._due = False

    def _keep_less(self) -> None:
        """Where more has been seen in a shard than it knows, keep what it knows instead."""
        all_kept = self._kept or []
        for i, kept in enumerate(all_kept):
            known = self._totals[i].users * packed_size(self.problem.d + 1)
            if kept.numbers > max(known, LOGGED):
                found = self._shards.ask("known", {i: ()})[i]
                all_kept[i] = Kept(self._shards.share(found))

    def _fitted(self) -> SharedHyperparameters:
        """The scales of the largest marginal likelihood of all users together."""
        model: Any = self.learner.model
        samples = self._shards.ask_all("sample")
        keys, data, rows = map(np.concatenate, zip(*samples, strict=True))
        lowest = np.argsort(keys, kind="stable")[:FITTED]  # the same users in any shards
        start = model.prior(self.problem)
        pool = start._replace(observation_factor=self._all.data, n_rows=np.asarray(self._all.rows))
        before = self._scales
        pool = pool._replace(lam=np.asarray(before.lam), sigma=np.asarray(before.sigma))
        users = [RowFactor(*each) for each in zip(data[lowest], rows[lowest], strict=True)]
        fitted = model.refit_to_groups(pool, users)
        return SharedHyperparameters(fitted.prior_std, float(fitted.lam), float(fitted.sigma))

    def _first_scales(self) -> SharedHyperparameters:
        model = self.learner.model
        start = model.prior(self.problem) if model.fits_hyperparameters else None
        values = model.hyperparameters(start)
        spread = model.prior_std(start, self.problem)
        return SharedHyperparameters(spread, float(values["lam"]), float(values["sigma"]))

    def _everybody(self) -> Everybody:
        """What all users start from: the prior, and what the population is worth to anybody."""
        self._choose_scales()
        if self._started is None:
            of = self._all
            start = gaussian.prior(self.problem.d, self._scales.spread)
            if self.worth and of.rows:
                share = math.sqrt(self.discount) * of.data
                rows = RowFactor(share, np.asarray(self.discount * of.rows))
                start = gaussian.condition_on_factor(start, rows, self.spread)
            self._started = np.ascontiguousarray(start.factor)
        return Everybody(self._started, self.lam, self.sigma)

    # --- shards -----------------------------------------------------------------------------------

    def _known(self) -> list[Known]:
        """What is known of the users of each shard."""
        return self._shards.ask_all("known")

    def _state(self, i: int) -> tuple[Any, list[Seen]]:
        """What a shard that was killed is made from."""
        if self._kept is None:
            raise ClusterError("an update has failed halfway: load this population from its file")
        return self._kept[i].known, self._kept[i].since

    def restore(self, known: Known, scales: SharedHyperparameters) -> None:
        """Be as in a file; what all users know is kept with the first shard."""
        users = objects(known.users)
        dealt = dict.fromkeys(range(len(self._shards)), np.empty(0, np.int64))
        dealt |= self._dealt(users)
        for i, mine in dealt.items():
            of = known.total if i == 0 else no_total(self.problem.d)
            total = of._replace(users=len(mine))
            own = (known.data[mine], known.rows[mine], known.t[mine], total)
            some = Known(users[mine].tolist(), *own)
            if self._kept is not None:
                self._kept[i] = Kept(self._shards.share(some))
            self._totals[i] = self._shards.change("restore", {i: (some, [])})[i]
        self._all = total_of(self._totals)
        self._scales = scales
        self._started = None
        self._kind = kind_of_users(known.users)

    # --- users and items --------------------------------------------------------------------------

    def _listed(self, users: Any) -> list[Any]:
        """Ids of users as a list; they must be of the kind that is known here."""
        listed = listed_users(users)
        kind = kind_of_users(listed)
        if listed and self._kind not in (None, kind):
            raise ItemsError(f"ids of users are {self._kind} here, not {kind}")
        return listed

    def _mask(self, available: Any, n: int) -> Array:
        if not isinstance(available, np.ndarray) or available.ndim != 2:
            return self.catalogue.mask(available)
        shape = (n, self.problem.L)
        if np.ma.is_masked(available):
            raise MaskError("a mask must not have masked entries: say who is available")
        if available.dtype != bool or available.shape != shape:
            raise MaskError(
                f"a mask for {n} users must be booleans of shape {shape}, "
                f"got {available.dtype} of shape {available.shape}"
            )
        return available

    # --- files ------------------------------------------------------------------------------------

    @one_at_a_time
    def save(self, path: PathLike) -> None:
        """Write everything but the oracle to a file of arrays and JSON, as `Agent.save` does.

        Ids of users must be all whole numbers, all text, all UUIDs or all tuples of such.
        """
        saving.save_population(self, path)

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        oracle: Any,
        seed: int | None = None,
        shards: int = 1,
        cluster: str | None = None,
    ) -> "Population":
        """The population that `save` wrote, with new randomness.

        Args:
            path: the file.
            oracle: the oracle, which the file does not hold.
            seed: None draws one from the system.
            shards: into how many to deal the users, whatever they were in before.
            cluster: where these are.

        Returns:
            a population that believes what the saved one did.
        """
        given = {"oracle": oracle, "seed": seed, "shards": shards, "cluster": cluster}
        return saving.load_population(cls, path, given)

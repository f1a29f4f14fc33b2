"""What one call asks for: its features, the items that are available, its constraints; of one user
or of many.
"""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Catalogue, is_collection
from superarm.agent.constraints import among, constraints
from superarm.agent.state import State
from superarm.arrays import Array, Features, Rng, is_sparse
from superarm.base_learner import as_learner
from superarm.checks.tables import as_mask
from superarm.contexts import InContext, aligned, as_table, rows_taken
from superarm.contracts import Learner, Problem
from superarm.decide import UNLOCKED, decide, decide_each, with_features, with_features_of_users
from superarm.errors import FeaturesError, MaskError
from superarm.oracles.base import Masked, as_oracle

FEW = 4
"""Items are scored alone if there are this many times as many in all."""


class Asked(NamedTuple):
    """A problem to decide on, of all items or of those at some places."""

    learner: Learner
    belief: Any
    problem: Problem
    catalogue: Catalogue
    places: Array | None  # (n,) where the items of the problem are in the catalogue; None: in order

    @property
    def users(self) -> int | None:
        """How many decisions are asked for at once; None if it is one."""
        return self.problem.batch[0] if self.problem.batch else None

    def decided(
        self,
        rng: Rng,
        drawing: AbstractContextManager[Any] = UNLOCKED,
    ) -> Array:
        """Items of the problem to choose: (K,), or of each user (n, K), -1 pads.

        A generator that others use too has a lock, which is not held while an oracle solves.
        """
        if self.users is not None:
            with drawing:
                return decide_each(self.learner, self.belief, self.problem, rng)
        return decide(self.learner, self.belief, self.problem, rng, drawing)

    def of_user(self, i: int) -> "Asked":
        """What is asked for one of many users."""
        oracle = as_oracle(self.problem.oracle).of_user(i)
        return self._replace(problem=Problem(self.problem.Phi[i], oracle))

    def ids(self, A: Array) -> Array:
        """The ids of items of the problem."""
        places = A if self.places is None else self.places[A]
        return self.catalogue.ids_of(places)


def is_whole_catalogue(features: Any, available: Any, oracle: Any) -> bool:
    """Whether a call speaks of all items in their order, so that there must be no gaps."""
    if features is not None or oracle is not None:
        return True
    return available is not None and not is_collection(available)


def asked(
    state: State,
    features: Any,
    available: Any,
    oracle: Any,
    *,
    alone: bool = True,
) -> Asked:
    """What a call asks for; with `alone`, few available items are looked at without the others."""
    problem = problem_of(state, features)
    catalogue = state.catalogue
    if oracle is not None:
        given = constraints(oracle, catalogue)
        problem = problem._replace(oracle=given.fitted(catalogue))
    everything = Asked(state.learner, state.belief, problem, catalogue, None)
    if available is None:
        if not catalogue.gaps:
            return everything
        return _masked(everything, catalogue.is_there)
    by_user = problem.batch and len(getattr(available, "shape", ())) == 2
    if by_user:
        shape = (*problem.batch, problem.L)
        wanted = f"booleans of shape {shape}, one per user and item"
        each = as_mask(available, wanted, shape)
        if hasattr(available, "columns"):
            order = catalogue.order_of(available.columns, MaskError)
            each = each[:, order]
        return _masked(everything, each)
    places = catalogue.available(available)
    few = 0 < FEW * len(places) <= problem.L
    if alone and few and as_learner(state.learner).scores_subsets:
        return _part(everything, places)
    mask = np.zeros(problem.L, np.bool_)
    mask[places] = True
    return _masked(everything, mask)


def _masked(whole: Asked, available: Array) -> Asked:
    oracle = Masked(as_oracle(whole.problem.oracle), available)
    return whole._replace(problem=whole.problem._replace(oracle=oracle))


def _part(whole: Asked, places: Array) -> Asked:
    """Only the items at these places, which are scored as they are among all."""
    problem = Problem(
        rows_taken(whole.problem.Phi, places),
        among(as_oracle(whole.problem.oracle), places, whole.problem.L),
    )
    return whole._replace(
        learner=as_learner(whole.learner).resize(places),
        belief=whole.learner.model.select_items(whole.belief, places),
        problem=problem,
        places=places,
    )


def problem_of(state: State, features: Any) -> Problem:
    """The problem with the features of a call, of one user or of many; None: the agent's own."""
    if features is None:
        return state.problem
    if isinstance(features, list | tuple) and any(map(_is_table, features)):
        features = _stacked([_values(state, one) for one in features])
        return with_features_of_users(state.learner, state.problem, features)
    values = _values(state, features)
    if _axes(values) == 3:
        return with_features_of_users(state.learner, state.problem, values)
    return with_features(state.learner, state.problem, values)


def _axes(values: Any) -> int:
    """How many axes features have; 0 if they are ragged."""
    if hasattr(values, "shape"):
        return len(values.shape)
    try:
        return np.ndim(values)
    except ValueError:
        return 0


def _is_table(features: Any) -> bool:
    return isinstance(features, InContext) or len(getattr(features, "shape", ())) == 2


def _values(state: State, features: Any) -> Any:
    """Features of a call in the order of the items and of the names."""
    own = state.problem.Phi
    if isinstance(features, InContext) and isinstance(own, InContext):
        if features.made is not own.made:
            raise FeaturesError(
                f"the features were learned from {own.made.__name__}: got {features.made.__name__}"
            )
        features = aligned(features, own.x_names, own.item_names)
    values = state.catalogue.rows(as_table(features))
    if isinstance(values, InContext):
        return values.without_ids()
    return values


def _stacked(each: list[Any]) -> Features:
    """The features of many users as one; those of contexts of the same items share these."""
    first = each[0]
    if isinstance(first, InContext) and all(_alike(Phi, first) for Phi in each):
        x = np.stack([Phi.x for Phi in each])
        return first.of(x)
    try:
        filled = [_filled(Phi) for Phi in each]
        return np.stack(filled)
    except ValueError as error:
        raise FeaturesError(f"features of many users must be alike ({error})") from error


def _filled(Phi: Any) -> Array:
    return Phi.toarray() if is_sparse(Phi) else np.asarray(Phi)


def _alike(Phi: Any, first: InContext) -> bool:
    return isinstance(Phi, InContext) and Phi.left is first.left and Phi.x.shape == first.x.shape

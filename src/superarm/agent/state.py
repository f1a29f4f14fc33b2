"""What an agent is at one moment, and how one catalogue becomes another.

A state is never changed, only replaced: who holds one may go on with it while others learn.
"""

from typing import Any, NamedTuple

import numpy as np

from superarm.agent.catalogue import Catalogue
from superarm.agent.constraints import Constraints, constraints
from superarm.agent.growing import Growing
from superarm.agent.ids import as_ids
from superarm.arrays import (
    Array,
    Features,
    is_product,
    is_selection,
    is_sparse,
    sparse_arrays,
)
from superarm.base_learner import as_learner
from superarm.checks import as_features
from superarm.contexts import InContext, as_table, rows_taken, side_of, side_rows, with_side
from superarm.contracts import Learner, Model, Problem
from superarm.errors import FeaturesError, ItemsError, UnsupportedError, WeightsError


class State(NamedTuple):
    """Who learns, over which items under which constraints, and what is believed."""

    learner: Learner
    catalogue: Catalogue
    constraints: Constraints
    problem: Problem
    belief: Any
    reach: float  # the largest magnitude of the features, as far as they were looked at
    behind: Problem | None = None  # what learner and belief are of, if items came since

    def believing(self, belief: Any) -> "State":
        """The state with another belief: `_replace`, in a quarter of the time."""
        fields = (
            self.learner,
            self.catalogue,
            self.constraints,
            self.problem,
            belief,
            self.reach,
            self.behind,
        )
        return tuple.__new__(State, fields)


def started(learner: Learner, features: Any, oracle: Any, items: Any) -> State:
    """The state before any feedback."""
    table = as_table(features)
    Phi = as_features(table.values)
    if isinstance(Phi, InContext):
        Phi = Phi.without_ids()
    if len(Phi.shape) != 2:
        raise FeaturesError(f"features must be 2-D, (items, features), got shape {Phi.shape}")
    catalogue = Catalogue(table.ids if items is None else items, Phi.shape[0], table.names)
    given = constraints(oracle, catalogue)
    problem = Problem(Phi, given.fitted(catalogue))
    belief = learner.model.prior(problem)
    return State(learner, catalogue, given, problem, belief, reach(some_rows(Phi)))


def reach(Phi: Features) -> float:
    """The largest magnitude of any feature; of a context's product, a bound on it.

    >>> import numpy as np
    >>> from superarm.agent.state import reach
    >>> reach(np.array([[1.0, -3.0]]))
    3.0
    """
    if is_product(Phi):
        right = Phi.right.scale if is_selection(Phi.right) else Phi.right
        return reach(Phi.left) * reach(right)
    values: Any = Phi.data if is_sparse(Phi) else Phi
    if not np.size(values):
        return 0.0
    return float(max(values.max(), -values.min()))


def is_single(Phi: Features) -> bool:
    """Whether these features are float32, or a part of a context's product is."""
    if is_product(Phi):
        right = Phi.right.scale if is_selection(Phi.right) else Phi.right
        return is_single(Phi.left) or is_single(right)
    return bool(Phi.dtype == np.float32)


ROOM = 1e6
"""How much smaller than the largest number scores are to be: they are drawn around their mean, and
of features that may be larger than those that were looked at."""


def require_scores(state: State, belief: Any) -> None:
    """Refuse a belief with which features that are float32 could not be scored any more."""
    if is_single(state.problem.Phi):
        model = state.learner.model
        require_usable(model, state.belief, belief, np.float32, state.reach)


def require_usable(model: Model, before: Any, after: Any, dtype: Any, reach: float) -> None:
    """Refuse a belief whose scores of features of this type, of up to this size, would overflow
    where those of the belief before it do not.
    """
    most = float(np.finfo(dtype).max) / ROOM
    largest = _largest_score(model, after, reach)
    if not largest <= most and _largest_score(model, before, reach) <= most:
        raise WeightsError(
            f"these weights are too large to go with features of {np.dtype(dtype)}: scores would "
            f"be as large as {largest:.2g}; use other units for them"
        )


def _largest_score(model: Model, belief: Any, reach: float) -> float:
    """A bound on the coefficients and on their products with features; 0 if there are none."""
    try:
        with np.errstate(over="ignore"):
            total = float(np.abs(model.coefficients(belief)).sum())
    except UnsupportedError:
        return 0.0
    return total * max(reach, 1.0)


def some_rows(Phi: Features) -> Features:
    """The features of many items from all over the catalogue; of all if these are few."""
    L, d = side_of(Phi).shape
    by_width = 2**20 // max(d, 1)
    n = 1024 + by_width
    if n >= L:
        return Phi
    evenly = np.linspace(0, L - 1, n)
    some = evenly.astype(np.int64)
    return rows_taken(Phi, some)


def without_gaps(state: State) -> State:
    """The same items at positions without gaps."""
    if not state.catalogue.gaps:
        return caught_up(state)
    left = state.catalogue.left
    Phi = with_side(state.problem.Phi, side_of(state.problem.Phi)[left])
    return _moved(state, Phi, state.catalogue.part(left), left)


def with_items(state: State, features: Any, items: Any, oracle: Any, room: Growing) -> State:
    """More items behind those there are."""
    Phi = state.problem.Phi
    rows, ids = side_rows(Phi, features, state.catalogue.names)
    n = rows.shape[0]
    ids = ids if items is None else items
    if ids is not None:
        ids = as_ids(ids)
        if state.catalogue.had(ids.tolist()):
            state = without_gaps(state)
    Phi = with_side(Phi, _below(side_of(state.problem.Phi), rows, room))
    catalogue = state.catalogue.extended(n, ids)
    given = _given(state, catalogue, oracle)
    problem = Problem(Phi, given.fitted(catalogue))
    grown = state._replace(
        catalogue=catalogue,
        constraints=given,
        problem=problem,
        reach=max(state.reach, reach(rows)),
        behind=state.behind or state.problem,
    )
    # what is kept per item would be copied for each that comes: that waits until it is needed
    return grown if state.learner.model.per_item else caught_up(grown)


def caught_up(state: State) -> State:
    """The state whose learner and belief know of all items."""
    before = state.behind
    if before is None:
        return state
    n_new = state.problem.L - before.L
    learner = state.learner
    adapted = as_learner(learner)
    if adapted.resizes:
        old = np.arange(before.L)
        new = np.full(n_new, -1)
        learner = adapted.resize(np.append(old, new))
    belief = state.belief
    if n_new:
        belief = learner.model.extend(belief, before, state.problem)
    return state._replace(learner=learner, belief=belief, behind=None)


def _given(state: State, catalogue: Catalogue, oracle: Any) -> Constraints:
    """The constraints there are, unless others are given."""
    return state.constraints if oracle is None else constraints(oracle, catalogue)


def _below(side: Array, rows: Array, room: Growing) -> Array:
    if is_sparse(side):
        together: Array = sparse_arrays().joined_rows(side, rows)
        return together
    return room.extended(side, rows)


def without_items(state: State, items: Any, oracle: Any) -> State:
    """Gaps where these items were."""
    catalogue = state.catalogue
    listed = list(items) if isinstance(items, set | frozenset) else items
    places = catalogue.positions(listed)
    if len(places) == catalogue.n:
        raise ItemsError("at least one item must be left")
    if not len(places):
        return state
    if oracle is None and catalogue.gaps + len(places) <= catalogue.L // 2:
        return state._replace(catalogue=catalogue.without(places))
    stays = catalogue.is_there.copy()
    stays[places] = False
    left = np.flatnonzero(stays)
    Phi = with_side(state.problem.Phi, side_of(state.problem.Phi)[left])
    return _moved(state, Phi, catalogue.part(left), left, oracle)


def with_changed_features(state: State, features: Any, items: Any) -> State:
    """Other features for some of the items."""
    Phi = state.problem.Phi
    rows, ids = side_rows(Phi, features, state.catalogue.names)
    places = state.catalogue.positions(ids if items is None else items)
    if len(places) != rows.shape[0]:
        raise ItemsError(f"{rows.shape[0]} rows of features need as many items, got {len(places)}")
    side = _with_rows(side_of(Phi), places, rows)
    source = np.arange(state.catalogue.L)
    model = state.learner.model
    if model.fixed_features or not model.per_item:
        source[places] = -1  # what was learned of the items was of other features
    found = _moved(state, with_side(Phi, side), state.catalogue, source)
    return found._replace(reach=max(state.reach, reach(rows)))


def _with_rows(side: Array, places: Array, rows: Array) -> Array:
    """A copy with other rows at these places."""
    if is_sparse(side):
        found: Array = sparse_arrays().with_rows(side, places, rows)
        return found
    changed = np.array(side)
    changed[places] = rows
    return changed


def _moved(
    state: State,
    Phi: Features,
    catalogue: Catalogue,
    source: Array,
    oracle: Any = None,
) -> State:
    """The state for another catalogue, whose item i was item source[i], or is new: -1."""
    state = caught_up(state)
    given = _given(state, catalogue, oracle)
    problem = Problem(Phi, given.fitted(catalogue))
    learner = as_learner(state.learner).resize(source)
    belief = learner.model.resize(state.belief, state.problem, problem, source)
    return State(learner, catalogue, given, problem, belief, state.reach)

"""Records of decisions as they are made."""

import uuid
from collections.abc import Sequence

import numpy as np

from superarm.agent import decisions
from superarm.agent.asked import Asked
from superarm.agent.decisions import Decision, as_time
from superarm.agent.explain import propensities
from superarm.arrays import Array, Features, is_product, take_rows
from superarm.contexts import InContext
from superarm.errors import NumericalError
from superarm.oracles.base import is_full


def record(
    call: Asked,
    chosen: Array,
    seed: int,
    rng: np.random.Generator,
    draws: int,
    seconds: float = np.inf,
) -> Decision:
    """The record of what was chosen in a call, with propensities from so many further draws, which
    must be made within some seconds.
    """
    A = chosen[chosen >= 0]
    Phi = call.problem.Phi
    rows = _rows(Phi, A)
    features = Phi[A] if isinstance(Phi, InContext) else rows
    time = as_time(decisions.now())
    return _record(call, A, features, time, seed, rng, draws, seconds)


def records(
    call: Asked,
    chosen: Array,
    seeds: Sequence[int],
    rngs: Sequence[np.random.Generator],
    draws: int,
) -> list[Decision]:
    """The records of what was chosen for each of many users."""
    users = range(len(chosen))
    if is_product(call.problem.Phi):  # rows that are multiplied out may be too wide for all at once
        return [record(call.of_user(i), chosen[i], seeds[i], rngs[i], draws) for i in users]

    rows = _rows(call.problem.Phi, chosen)
    full = is_full(chosen)
    time = as_time(decisions.now())
    made = []
    for i in users:
        there = slice(None) if full else chosen[i] >= 0
        features = rows[i, there].copy()  # a view would keep the rows of all users in memory
        one = call.of_user(i) if draws else call
        found = _record(one, chosen[i, there], features, time, seeds[i], rngs[i], draws)
        made.append(found)
    return made


def _rows(Phi: Features, A: Array) -> Array:
    """The feature rows of what was chosen, which must be finite."""
    rows = take_rows(Phi, A)
    if not np.isfinite(rows).all():
        raise NumericalError(
            "the features of this context, multiplied out, leave the range of float64"
        )
    return rows


def _record(
    call: Asked,
    A: Array,
    features: Features,
    time: str,
    seed: int,
    rng: np.random.Generator,
    draws: int,
    seconds: float = np.inf,
) -> Decision:
    """The record of a decision for the items A, whose features are at hand."""
    propensity = None
    if draws:
        p = propensities(
            call.learner, call.belief, call.problem, A, draws=draws, rng=rng, seconds=seconds
        )
        propensity = tuple(p.tolist())
    return Decision(
        id=uuid.uuid4().hex,
        items=tuple(call.ids(A).tolist()),
        features=features,
        time=time,
        seed=seed,
        propensity=propensity,
        draws=draws or None,
        names=call.catalogue.names,
    )

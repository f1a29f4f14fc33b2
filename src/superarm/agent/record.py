"""Records of decisions as they are made."""

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from superarm.agent import decisions
from superarm.agent.asked import Asked
from superarm.agent.decisions import Decision, as_time
from superarm.agent.explain import propensities
from superarm.arrays import Array, Features, Rng, is_product, take_rows
from superarm.contexts import InContext
from superarm.errors import NumericalError
from superarm.oracles.base import is_full


def record(
    call: Asked,
    chosen: Array,
    seed: int,
    rng: Rng,
    draws: int,
    seconds: float = np.inf,
) -> Decision:
    """The record of what was chosen in a call, with propensities from so many further draws, which
    must be made within some seconds.
    """
    one = _chosen(call, call.problem.Phi, chosen[chosen >= 0])
    time = as_time(decisions.now())
    return _record(call, one, time, seed, rng, draws, seconds)


def records(
    call: Asked,
    chosen: Array,
    seeds: Sequence[int],
    rngs: Any,
    draws: int,
) -> list[Decision]:
    """The records of what was chosen for each of many users."""
    time = as_time(decisions.now())
    made = []
    for i, one in enumerate(chosen_each(call, chosen)):
        own = call.of_user(i) if draws else call
        if isinstance(one.features, np.ndarray):  # a view would keep those of all users in memory
            one = one._replace(features=one.features.copy())
        made.append(_record(own, one, time, seeds[i], rngs[i], draws))
    return made


class Chosen(NamedTuple):
    """What was chosen for one user."""

    A: Array  # (K,) items of the problem
    items: list[Any]  # their ids
    features: Features  # (K, d)


def chosen_each(call: Asked, chosen: Array) -> list[Chosen]:
    """What was chosen for each of many users, (n, K), with features that may be views of those of
    all users.
    """
    Phi = call.problem.Phi
    if is_product(Phi):  # rows that are multiplied out may be too wide for all at once
        return [_chosen(call, Phi[i], A[A >= 0]) for i, A in enumerate(chosen)]
    rows = _rows(Phi, chosen)
    if is_full(chosen):
        return list(map(Chosen, chosen, call.ids(chosen).tolist(), rows))
    found = []
    for A, features in zip(chosen, rows, strict=True):
        there = A >= 0
        found.append(Chosen(A[there], call.ids(A[there]).tolist(), features[there]))
    return found


def _chosen(call: Asked, Phi: Features, A: Array) -> Chosen:
    """What was chosen from these features."""
    rows = _rows(Phi, A)
    features = Phi[A] if isinstance(Phi, InContext) else rows
    return Chosen(A, call.ids(A).tolist(), features)


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
    one: Chosen,
    time: str,
    seed: int,
    rng: Rng,
    draws: int,
    seconds: float = np.inf,
) -> Decision:
    """The record of a decision for what was chosen."""
    propensity = None
    if draws:
        p = propensities(
            call.learner, call.belief, call.problem, one.A, draws=draws, rng=rng, seconds=seconds
        )
        propensity = tuple(p.tolist())
    return Decision(
        id=uuid.uuid4().hex,
        items=tuple(one.items),
        features=one.features,
        time=time,
        seed=seed,
        propensity=propensity,
        draws=draws or None,
        names=call.catalogue.names,
    )

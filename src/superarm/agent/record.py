"""Records of decisions as they are made."""

import uuid

import numpy as np

from superarm.agent import decisions
from superarm.agent.asked import Asked
from superarm.agent.decisions import Decision, as_time
from superarm.agent.explain import propensities
from superarm.arrays import Array, take_rows
from superarm.contexts import InContext
from superarm.errors import NumericalError


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
    propensity = None
    if draws:
        p = propensities(
            call.learner, call.belief, call.problem, A, draws=draws, rng=rng, seconds=seconds
        )
        propensity = tuple(p.tolist())
    Phi = call.problem.Phi
    rows = take_rows(Phi, A)
    if not np.isfinite(rows).all():
        raise NumericalError(
            "the features of this context, multiplied out, leave the range of float64"
        )
    return Decision(
        id=uuid.uuid4().hex,
        items=tuple(call.ids(A).tolist()),
        features=Phi[A] if isinstance(Phi, InContext) else rows,
        time=as_time(decisions.now()),
        seed=seed,
        propensity=propensity,
        draws=draws or None,
        names=call.catalogue.names,
    )

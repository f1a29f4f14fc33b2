"""What is believed of features, by name."""

from typing import Any

import numpy as np

from superarm import gaussian
from superarm.agent.state import State
from superarm.arrays import Array
from superarm.contexts import InContext
from superarm.errors import UnsupportedError
from superarm.service.dashboard.shapes import Coefficient, Coefficients
from superarm.service.engine import Service


def feature_names(state: State) -> list[str]:
    """The names of all features; in a context of each pair, such as "student·sports"."""
    Phi: Any = state.problem.Phi
    names = Phi.names if isinstance(Phi, InContext) else state.catalogue.names
    if names is None:
        return [f"[{j}]" for j in range(state.problem.d)]
    return list(names)


def coefficients_of(state: State) -> Array | None:
    """Posterior mean of the coefficients of an agent's features, (d,); None if it has none."""
    try:
        return np.asarray(state.learner.model.coefficients(state.belief))
    except UnsupportedError:
        return None


def coefficients(service: Service, name: str, search: str, limit: int) -> Coefficients:
    """What is believed of features whose name has a text in it, those that differ most from
    nothing first, in standard deviations.
    """
    folded, state = service.ready(name)
    theta = coefficients_of(state)
    if theta is None:
        return Coefficients(coefficients=[], total=0, believed=folded.position)
    mean = theta
    std = gaussian.std(state.belief, np.eye(len(mean)))
    names = feature_names(state)
    wanted = search.casefold()
    known = np.isfinite(mean) & np.isfinite(std)
    found = [j for j, one in enumerate(names) if known[j] and wanted in one.casefold()]
    size = np.abs(mean) / np.where(std > 0, std, np.finfo(float).tiny)
    found.sort(key=lambda j: -size[j])
    shown = [
        Coefficient(name=names[j], mean=float(mean[j]), std=float(std[j])) for j in found[:limit]
    ]
    return Coefficients(coefficients=shown, total=len(found), believed=folded.position)

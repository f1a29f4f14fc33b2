"""Learners against worlds, episode by episode and replicate by replicate."""

from superarm.simulation.differences import Difference, paired
from superarm.simulation.episodes import Step, episodes
from superarm.simulation.replicates import simulate
from superarm.simulation.trace import Trace, mean_se
from superarm.simulation.users import CascadeEnvironment, PositionEnvironment
from superarm.simulation.worlds import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    GaussianEnvironment,
)

__all__ = [
    "AdversarialEnvironment",
    "BernoulliEnvironment",
    "CascadeEnvironment",
    "ContextualEnvironment",
    "Difference",
    "DriftingEnvironment",
    "GaussianEnvironment",
    "PositionEnvironment",
    "Step",
    "Trace",
    "episodes",
    "mean_se",
    "paired",
    "simulate",
]

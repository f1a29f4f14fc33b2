"""Learners against worlds, episode by episode and replicate by replicate."""

from superarm.simulation.click_models import CascadeEnvironment, PositionEnvironment
from superarm.simulation.comparisons import Difference, paired
from superarm.simulation.environments import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    GaussianEnvironment,
)
from superarm.simulation.episodes import Episode, episodes
from superarm.simulation.replicate import simulate
from superarm.simulation.trace import Trace, mean_se

__all__ = [
    "AdversarialEnvironment",
    "BernoulliEnvironment",
    "CascadeEnvironment",
    "ContextualEnvironment",
    "Difference",
    "DriftingEnvironment",
    "Episode",
    "GaussianEnvironment",
    "PositionEnvironment",
    "Trace",
    "episodes",
    "mean_se",
    "paired",
    "simulate",
]

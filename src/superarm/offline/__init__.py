"""What another policy would have earned, estimated from logged decisions."""

from superarm.agent.explain import propensities
from superarm.offline.estimates import Replay, doubly_robust, ips, probabilities, replay
from superarm.offline.intervals import Estimate
from superarm.offline.log import Log

__all__ = [
    "Estimate",
    "Log",
    "Replay",
    "doubly_robust",
    "ips",
    "probabilities",
    "propensities",
    "replay",
]

"""The stateful face of a learner, for one stream of decisions and feedback."""

from superarm.agent.agent import Agent
from superarm.agent.decisions import Decision

__all__ = ["Agent", "Decision"]

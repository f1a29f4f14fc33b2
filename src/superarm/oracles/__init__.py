"""Oracles: the feasible sets, as the solver that maximizes over them. One file a family."""

from superarm.oracles.brute_force import brute_force
from superarm.oracles.path import GridPath
from superarm.oracles.topk import Quota, TopK

__all__ = ["GridPath", "Quota", "TopK", "brute_force"]

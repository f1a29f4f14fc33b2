"""Oracles: the feasible sets, as the solver that maximizes over them. One file per family."""

from superarm.oracles.base import minimize, with_gap
from superarm.oracles.brute_force import brute_force
from superarm.oracles.budget import Budget
from superarm.oracles.flows import network_flow, steiner_tree
from superarm.oracles.grid import GridPath
from superarm.oracles.intervals import Intervals
from superarm.oracles.knapsack import Knapsack
from superarm.oracles.matching import Assignment, BipartiteMatching
from superarm.oracles.matroid import LaminarMatroid, Matroid, PartitionMatroid
from superarm.oracles.milp import Milp
from superarm.oracles.overlapping import GroupLimits
from superarm.oracles.path import DagPath, ShortestPath
from superarm.oracles.routes import Orienteering, VehicleRoutes
from superarm.oracles.slate import Slate
from superarm.oracles.topk import Quota, TopK
from superarm.oracles.tour import Tour
from superarm.oracles.tree import SpanningTree

__all__ = [
    "Assignment",
    "BipartiteMatching",
    "Budget",
    "DagPath",
    "GridPath",
    "GroupLimits",
    "Intervals",
    "Knapsack",
    "LaminarMatroid",
    "Matroid",
    "Milp",
    "Orienteering",
    "PartitionMatroid",
    "Quota",
    "ShortestPath",
    "Slate",
    "SpanningTree",
    "TopK",
    "Tour",
    "VehicleRoutes",
    "brute_force",
    "minimize",
    "network_flow",
    "steiner_tree",
    "with_gap",
]

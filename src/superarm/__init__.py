"""superarm learns which combination to choose.

A user brings items with features, a combinatorial optimizer (the oracle) and per-item feedback;
superarm explores and learns with CombLinTS and CombLinUCB of Wen, Kveton & Ashkan (ICML 2015).
"""

from superarm.agent import Agent
from superarm.agent.decisions import Decision
from superarm.beliefs.scales import fit_scales
from superarm.contracts import Environment, Learner, Oracle, Problem
from superarm.errors import SuperarmError
from superarm.learners import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    Greedy,
    RandomChoice,
)
from superarm.oracles import (
    Assignment,
    BipartiteMatching,
    DagPath,
    GridPath,
    Knapsack,
    LaminarMatroid,
    Matroid,
    Milp,
    PartitionMatroid,
    Quota,
    ShortestPath,
    SpanningTree,
    TopK,
    Tour,
    brute_force,
    minimize,
    with_gap,
)
from superarm.oracles.base import as_oracle
from superarm.simulation.episodes import Step, episodes, simulate
from superarm.simulation.trace import Trace, mean_se
from superarm.simulation.worlds import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    GaussianEnvironment,
)
from superarm.version import __version__

__all__ = [
    "AdversarialEnvironment",
    "Agent",
    "Assignment",
    "BernoulliEnvironment",
    "BipartiteMatching",
    "CombGaussianTS",
    "CombLinTS",
    "CombLinUCB",
    "CombMixTS",
    "CombMixUCB",
    "CombTS",
    "CombUCB1",
    "ContextualEnvironment",
    "DagPath",
    "Decision",
    "DriftingEnvironment",
    "Environment",
    "GaussianEnvironment",
    "Greedy",
    "GridPath",
    "Knapsack",
    "LaminarMatroid",
    "Learner",
    "Matroid",
    "Milp",
    "Oracle",
    "PartitionMatroid",
    "Problem",
    "Quota",
    "RandomChoice",
    "ShortestPath",
    "SpanningTree",
    "Step",
    "SuperarmError",
    "TopK",
    "Tour",
    "Trace",
    "__version__",
    "as_oracle",
    "brute_force",
    "episodes",
    "fit_scales",
    "mean_se",
    "minimize",
    "simulate",
    "with_gap",
]

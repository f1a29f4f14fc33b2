"""superarm learns which combination to choose.

A user brings items with features, a combinatorial optimizer (the oracle) and per-item feedback;
superarm explores and learns with CombLinTS and CombLinUCB of Wen, Kveton & Ashkan (ICML 2015).
"""

from superarm.agent import Agent, Decision
from superarm.ahead import warm_up
from superarm.beliefs.scales import fit_scales
from superarm.contracts import Environment, Feedback, Learner, Model, Oracle, Problem, World
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
    Slate,
    SpanningTree,
    TopK,
    Tour,
    brute_force,
    minimize,
    with_gap,
)
from superarm.oracles.base import as_oracle
from superarm.simulation import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    CascadeEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    GaussianEnvironment,
    PositionEnvironment,
    Step,
    Trace,
    episodes,
    mean_se,
    simulate,
)
from superarm.version import __version__

__all__ = [
    "AdversarialEnvironment",
    "Agent",
    "Assignment",
    "BernoulliEnvironment",
    "BipartiteMatching",
    "CascadeEnvironment",
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
    "Feedback",
    "GaussianEnvironment",
    "Greedy",
    "GridPath",
    "Knapsack",
    "LaminarMatroid",
    "Learner",
    "Matroid",
    "Milp",
    "Model",
    "Oracle",
    "PartitionMatroid",
    "PositionEnvironment",
    "Problem",
    "Quota",
    "RandomChoice",
    "ShortestPath",
    "Slate",
    "SpanningTree",
    "Step",
    "SuperarmError",
    "TopK",
    "Tour",
    "Trace",
    "World",
    "__version__",
    "as_oracle",
    "brute_force",
    "episodes",
    "fit_scales",
    "mean_se",
    "minimize",
    "simulate",
    "warm_up",
    "with_gap",
]

"""The public names, pinned: a name that appears or vanishes is a decision, not an accident."""

import doctest
import importlib.util
import pkgutil
import subprocess
import sys

import pytest

import superarm

PUBLIC = {
    "Budget",
    "Knapsack",
    "Milp",
    "Model",
    "Assignment",
    "BipartiteMatching",
    "SpanningTree",
    "Statistics",
    "Learned",
    "learn_from",
    "Population",
    "Tour",
    "Orienteering",
    "network_flow",
    "steiner_tree",
    "VehicleRoutes",
    "DagPath",
    "Decision",
    "ShortestPath",
    "Slate",
    "AdversarialEnvironment",
    "Agent",
    "BernoulliEnvironment",
    "CascadeEnvironment",
    "CombGaussianTS",
    "CombLinTS",
    "CombLinUCB",
    "CombMixTS",
    "CombMixUCB",
    "ContextualEnvironment",
    "DriftingEnvironment",
    "fit_hyperparameters",
    "CombTS",
    "CombUCB1",
    "Environment",
    "Feedback",
    "GaussianEnvironment",
    "Greedy",
    "GridPath",
    "GroupLimits",
    "Intervals",
    "LaminarMatroid",
    "Learner",
    "Matroid",
    "Oracle",
    "PartitionMatroid",
    "PositionEnvironment",
    "Problem",
    "Quota",
    "RandomChoice",
    "Episode",
    "SuperarmError",
    "TopK",
    "Trace",
    "World",
    "warm_up",
    "__version__",
    "as_oracle",
    "brute_force",
    "episodes",
    "mean_se",
    "minimize",
    "sharded",
    "simulate",
    "with_gap",
}


def test_public_names():
    assert set(superarm.__all__) == PUBLIC
    assert all(hasattr(superarm, name) for name in PUBLIC)


PROTOCOLS_AND_RECORDS = {
    "Environment",
    "Learned",
    "Learner",
    "Model",
    "Oracle",
    "Episode",
    "SuperarmError",
    "Trace",
    "World",
    "__version__",
}


@pytest.mark.parametrize("name", sorted(PUBLIC - PROTOCOLS_AND_RECORDS))
def test_every_public_thing_has_a_runnable_example(name):
    examples = doctest.DocTestFinder(recurse=False).find(getattr(superarm, name), name)
    assert examples and examples[0].examples


EXTRAS = {
    "superarm.arrays.torch": "torch",
    "superarm.arrays.torch_qr": "torch",
    "superarm.oracles.gpu": "torch",
    "superarm.oracles.sweep": "triton",
    "superarm.arrays.triton": "triton",
}


@pytest.mark.parametrize(
    "module", [m.name for m in pkgutil.walk_packages(superarm.__path__, "superarm.")]
)
def test_every_module_says_what_it_is(module):
    extra = EXTRAS.get(module)
    if extra is not None:
        pytest.importorskip(extra)
    assert importlib.import_module(module).__doc__


HEAVY = (
    "highspy",
    "joblib",
    "matplotlib",
    "numba",
    "pandas",
    "psutil",
    "pyvrp",
    "rich",
    "scipy.optimize",
    "scipy.sparse",
    "torch",
)


def test_importing_superarm_imports_nothing_heavy():
    code = f"import sys, superarm; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_simulate_is_a_function_and_no_module():
    assert callable(superarm.simulate)
    assert importlib.util.find_spec("superarm.simulate") is None

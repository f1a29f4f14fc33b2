"""Oracles in processes of their own that share one cache of compiled kernels.

Run as a script it solves some families, named by its arguments, and prints their items as JSON.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import superarm
from superarm import (
    Assignment,
    BipartiteMatching,
    Budget,
    DagPath,
    GridPath,
    GroupLimits,
    Intervals,
    Knapsack,
    LaminarMatroid,
    Milp,
    PartitionMatroid,
    Quota,
    ShortestPath,
    SpanningTree,
    TopK,
    Tour,
    minimize,
)
from superarm.arrays.compiled import ENOUGH_FOR_ALL_CORES

SECONDS = 60  # for a process that finds all kernels in the cache
RING = [(i, (i + step) % 40) for i in range(40) for step in (1, 7)]
PAIRS = [(i, j) for i in range(12) for j in range(9) if (i * j) % 3]
FORWARD = [(i, j) for i in range(9) for j in range(i + 1, 9)]


def laminar_matroid():
    return LaminarMatroid(60, sets=[list(range(40)), list(range(10))], capacities=[25, 5])


def budget():
    return Budget(np.linspace(0.1, 1.1, 60), 4.0, groups=[0, 1, 2] * 20, maximum=3, max_items=8)


def milp():
    costs = np.linspace(0.1, 1.1, 120).reshape(2, 60)
    return Milp(costs, [1.0, 4.0], time_limit=30.0)


FAMILIES = {
    "TopK": lambda: (TopK(5), 60),
    "Quota": lambda: (Quota([0, 1] * 30, {0: 3, 1: 2}), 60),
    "PartitionMatroid": lambda: (PartitionMatroid([0, 1] * 30, {0: 3, 1: 2}), 60),
    "LaminarMatroid": lambda: (laminar_matroid(), 60),
    "GridPath": lambda: (GridPath(8), 144),
    "DagPath": lambda: (DagPath(FORWARD, 0, 8), 36),
    "ShortestPath": lambda: (minimize(ShortestPath(RING, 0, 20)), 80),
    "SpanningTree": lambda: (SpanningTree(RING), 80),
    "Assignment": lambda: (Assignment(8, 10), 80),
    "BipartiteMatching": lambda: (BipartiteMatching(PAIRS), len(PAIRS)),
    "Knapsack": lambda: (Knapsack(np.linspace(0.1, 1.1, 60), 8.0), 60),
    "Budget": lambda: (budget(), 60),
    "Intervals": lambda: (Intervals(np.arange(60) % 25, np.arange(60) % 25 + 3, max_items=4), 60),
    "GroupLimits": lambda: (GroupLimits([{e % 5, 5 + e % 7} for e in range(60)], 2), 60),
    "Milp": lambda: (milp(), 60),
    "Tour": lambda: (Tour(25), 300),
}
ON_ALL_CORES = (
    "TopK",
    "Quota",
    "PartitionMatroid",
    "LaminarMatroid",
    "GridPath",
    "DagPath",
    "ShortestPath",
)


def answers(names):
    """The items that the families choose, alone, in a batch, and in one that takes all cores."""
    found = {}
    for name in names:
        oracle, L = FAMILIES[name]()
        w = np.random.default_rng(0).random((3, L))
        found[name] = [oracle(w[0]).tolist(), oracle(w).tolist()]
        if name in ON_ALL_CORES and "SUPERARM_ONE_CORE" not in os.environ:
            many = np.resize(w, (ENOUGH_FOR_ALL_CORES // L + 1, L))
            found[name].append(oracle(many)[-3:].tolist())
    return found


def in_a_process(names, cache, seconds=SECONDS):
    """What `answers` says in a process of its own, with the kernels of the cache."""
    source = Path(superarm.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, __file__, *names],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def filled(cache, names):
    """The answers of processes that fill the cache, one per family, each in a fresh process."""
    found = {}
    for name in names:
        found |= in_a_process([name], cache, seconds=600)
    return found


def numbers(cache):
    """The numbers by which Numba tells apart the functions in each module's part of the cache."""
    found = {}
    for path in cache.rglob("*.nbc"):
        module = path.name.split(".")[0]
        tags = re.findall(rb"B\d+v(\d+)B", path.read_bytes())
        found.setdefault(module, set()).update(tags)
    return found


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1:])))

"""One instance of each oracle, called by four threads at a time."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import superarm
from kernels import FAMILIES, ON_ALL_CORES
from superarm import (
    Matroid,
    Milp,
    Orienteering,
    Slate,
    VehicleRoutes,
    minimize,
    network_flow,
    steiner_tree,
    with_gap,
)
from superarm.arrays.compiled import ENOUGH_FOR_ALL_CORES
from superarm.oracles.brute_force import brute_force

SQUARE = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2)]
ROAD = abs(np.arange(9)[:, None] - np.arange(9))
ORACLES = FAMILIES | {
    "Slate": lambda: (Slate(3, examination=[0.5, 1.0, 0.3]), 60),
    "Matroid": lambda: (Matroid(30, lambda items: len({e % 4 for e in items}) == len(items)), 30),
    "Milp": lambda: (Milp(np.ones((1, 20)), [4.0]), 20),
    "Orienteering": lambda: (Orienteering(ROAD, 9.0, iterations=10), 8),
    "VehicleRoutes": lambda: (VehicleRoutes([2, 1, 1], [3, 3], iterations=10), 12),
    "steiner_tree": lambda: (steiner_tree(SQUARE, [0, 2, 3]), 5),
    "network_flow": lambda: (network_flow(SQUARE, {0: 1, 3: -1}), 5),
    "brute_force": lambda: (brute_force([(0, 1), (1, 2), (0, 3)]), 4),
    "minimize": lambda: (minimize(superarm.TopK(3)), 60),
    "with_gap": lambda: (with_gap(superarm.TopK(3), 0.2), 60),
}
CALLS = 24


def test_every_oracle_is_here():
    assert set(superarm.oracles.__all__) <= set(ORACLES)


@pytest.mark.parametrize("name", ORACLES)
def test_four_threads_get_the_answers_of_one(name):
    oracle, L = ORACLES[name]()
    rng = np.random.default_rng(0)
    weights = [rng.random((1 + i % 3, L)) for i in range(CALLS)]
    if name in ON_ALL_CORES:
        rows = ENOUGH_FOR_ALL_CORES // L + 1
        weights[5] = rng.random((rows, L))
        weights[6] = rng.random((rows, L))
    alone = [oracle(w) for w in weights]
    fresh, _ = ORACLES[name]()  # nothing of it is cached yet
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fresh, weights))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)

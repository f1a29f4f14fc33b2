"""Replicates on Dask, through joblib."""

import joblib
import numpy as np
import pytest
from pieces import refuse

from superarm import CombLinTS, CombMixTS, RandomChoice, simulate
from superarm.engine.local import create_engine
from superarm.errors import InfeasibleError
from superarm.simulation.trace import ARRAYS
from superarm.studies.longest_path import LongestPath

WORKERS = 2
PATH = LongestPath(m=3, d=4)
LEARNERS = [CombLinTS(lam=10.0, sigma=1.0), CombMixTS(), RandomChoice()]
SETTINGS = {"episodes": 20, "replicates": 6, "progress": False}


@pytest.fixture(scope="module")
def dask(workers_find_tests):
    """A real cluster of Dask on this machine, of two processes."""
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install distributed"
    )
    with (
        distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_trace_from_dask_is_the_same_to_the_last_bit(dask):
    here = simulate(PATH, LEARNERS, **SETTINGS)
    with joblib.parallel_config(backend="dask"):
        there = simulate(PATH, LEARNERS, **SETTINGS)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
    tasks = dask.run(lambda dask_worker: dask_worker.state.executed_count)
    assert len(tasks) == WORKERS
    assert sum(tasks.values()) > 0


def test_an_error_on_dask_is_raised_as_it_was(dask):
    calls = [(x,) for x in range(10)]
    with (
        joblib.parallel_config(backend="dask"),
        create_engine(None) as where,
        pytest.raises(InfeasibleError, match="no set for 3"),
    ):
        dict(where.map(refuse, calls))

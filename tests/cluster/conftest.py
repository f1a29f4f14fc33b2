import os
from pathlib import Path

import pytest

CORES = 2
MEMORY = 200 * 2**20
CLUSTERS = {"ray", "dask"}
"""Fixtures, or parameters that ask for them."""


def pytest_collection_modifyitems(items):
    """Mark what needs a cluster: `make test` runs everything else."""
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        words = [each for each in given if isinstance(each, str)]
        if CLUSTERS & {*getattr(item, "fixturenames", ()), *words}:
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def workers_find_tests():
    """Processes that are started from now on can import the modules beside this file."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


@pytest.fixture(scope="session")
def ray(workers_find_tests):
    """A real Ray on this machine, one for all tests of a process."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'superarm[cluster]'")
    ray.init(
        address="local",  # not one that happens to run here
        num_cpus=CORES,
        object_store_memory=MEMORY,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    yield ray
    ray.shutdown()

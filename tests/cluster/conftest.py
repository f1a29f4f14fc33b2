import os
from pathlib import Path

import pytest

CORES = 2
MEMORY = 200 * 2**20


@pytest.fixture(scope="session")
def workers_find_tests():
    """Processes that are started from now on can import the modules beside this file."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


@pytest.fixture(scope="session")
def ray(workers_find_tests):
    """A real Ray on this machine, one for all tests."""
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

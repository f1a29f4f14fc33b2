import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """The arrays here are small: more threads only wait for each other, the more so on a busy machine."""
    with threadpool_limits(limits=1):
        yield

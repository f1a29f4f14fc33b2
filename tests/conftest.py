import os
import shutil

import pytest
from threadpoolctl import threadpool_limits

if (
    shutil.which("nvidia-smi") is None
):  # Triton must know before kernels are defined that they run in its interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """The arrays here are small: more threads only wait for each other, the more so on a busy
    machine."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def in_a_terminal(monkeypatch):
    """The standard error is taken for a terminal that shows frames of a bar."""
    for module in ("superarm.simulation.progress", "superarm.studies.progress"):
        monkeypatch.setattr(f"{module}.is_watched", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

LONGEST = (
    "agent/test_agent.py",  # compiles most kernels
    "test_contributing.py",  # this and the next need none of them, or few, meanwhile
    "cli/test_in_a_terminal.py",
    "studies/test_artists.py",
    "studies/test_drift.py",
    "service/test_kills.py",
    "test_readme.py",
    "offline/test_estimates.py",
    "studies/test_beyond.py",
    "cli/test_cli.py",
    "test_learners.py",
    "beliefs/test_logit.py",
    "beliefs/test_likelihoods.py",
    "simulation/test_episodes.py",
    "test_decide.py",
    "beliefs/test_empirical_bayes.py",
    "studies/test_report.py",
    "service/test_demo_service.py",
    "service/test_service_page.py",
    "oracles/test_kernel_cache.py",
    "test_notebooks.py",
    "beliefs/test_appended.py",
    "service/dashboard/test_posterior.py",
    "studies/test_ads.py",
    "service/test_raw.py",
    "test_gaussian.py",
    "service/test_openapi.py",
    "agent/test_hostile_files.py",
    "benchmarks/test_speed.py",
)
"""The files that take five seconds or more."""

if (
    shutil.which("nvidia-smi") is None
):  # Triton must know before kernels are defined that they run in its interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays to the end: no search for garbage need look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Tests hold no examples: their modules are not searched for them, and their helpers not
    imported, which may take long."""
    collectors = yield
    return [found for found in collectors if type(found) is pytest.Module]


def pytest_collection_modifyitems(items):
    """The longest files first, so that no core waits at the end for the other, and the kernels
    that many files need are in the cache by then."""
    here = Path(__file__).parent
    place = {here / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


# a first call may compile: no deadlines; --hypothesis-profile other tries others at each run
settings.register_profile("other", deadline=None)
settings.register_profile("fixed", settings.get_profile("other"), derandomize=True)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """The arrays here are small: more threads only wait for each other, the more so on a busy
    machine."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def in_a_terminal(monkeypatch):
    """The standard error is taken for a terminal that shows frames of a bar."""
    monkeypatch.setattr("superarm.engine.progress.is_interactive", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

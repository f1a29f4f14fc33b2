"""All ordered pairs of oracles over a cache that other processes filled: five minutes."""

import itertools
import os
import subprocess
import sys

import pytest

from kernels import FAMILIES, filled, in_a_process


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    return folder, filled(folder, FAMILIES)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(FAMILIES, 2)))
def test_two_oracles_whose_kernels_other_processes_cached(cache, first, second):
    """They answer as they did alone, and within 60 s."""
    folder, expected = cache
    found = in_a_process([first, second], folder)
    assert found == {first: expected[first], second: expected[second]}


def test_what_is_compiled_ahead_is_all_that_is_needed(tmp_path):
    """After `superarm compile` no family adds to the cache, alone, in batches or on all cores."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "superarm", "compile"], env=environment, check=True)
    before = sorted(tmp_path.rglob("*.nbc"))
    in_a_process(FAMILIES, tmp_path, seconds=600)
    assert sorted(tmp_path.rglob("*.nbc")) == before

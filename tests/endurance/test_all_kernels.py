"""All ordered pairs of oracles over a cache that other processes filled: five minutes."""

import itertools

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

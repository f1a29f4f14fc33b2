"""Kernels cached by other processes: `tests/endurance` does the same with all oracles."""

import itertools

from kernels import filled, in_a_process, numbers

NAMES = ("LaminarMatroid", "GridPath")


def test_kernels_that_other_processes_cached_do_not_collide(tmp_path):
    """No two processes number their functions alike, or else a third would take one for another:
    then `Knapsack` sorted wrongly after `Tour`, and `Tour` hung after `Knapsack`."""
    expected = filled(tmp_path, NAMES)
    matroid = numbers(tmp_path)["matroid"]
    grid = numbers(tmp_path)["grid"]
    assert len(matroid) > 10
    assert len(grid) > 10
    assert not matroid & grid
    for pair in itertools.permutations(NAMES):
        assert in_a_process(pair, tmp_path) == expected

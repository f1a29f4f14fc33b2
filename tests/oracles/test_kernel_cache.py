"""Kernels cached by other processes: `tests/endurance` does the same with all oracles."""

import itertools

from kernels import filled, in_a_process, numbers

NAMES = ("SpanningTree", "DagPath")


def test_kernels_that_other_processes_cached_do_not_collide(tmp_path, monkeypatch):
    """No two processes number their functions alike, or else a third would take one for another:
    then `Knapsack` sorted wrongly after `Tour`, and `Tour` hung after `Knapsack`."""
    monkeypatch.setenv("SUPERARM_ONE_CORE", "1")  # kernels for all cores take long to compile
    expected = filled(tmp_path, NAMES)
    tree = numbers(tmp_path)["tree"]
    path = numbers(tmp_path)["path"]
    assert len(tree) > 10
    assert len(path) > 3
    assert not tree & path
    for pair in itertools.permutations(NAMES):
        assert in_a_process(pair, tmp_path) == expected

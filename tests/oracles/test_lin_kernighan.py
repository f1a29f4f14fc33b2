import numpy as np
import pytest

from superarm.oracles.lin_kernighan import Map, local_search


def some_map(rng, n):
    """Random costs, and candidates that are all other cities or some of them."""
    cost = rng.random((n, n))
    cost = cost + cost.T
    np.fill_diagonal(cost, 0)
    others = np.argsort(cost, axis=1)[:, 1:]
    near = others[:, : rng.integers(2, n)].astype(np.int32)
    return Map(cost, np.ascontiguousarray(near), 1e-13)


def length(tour, cost):
    return cost[tour, np.roll(tour, 1)].sum()


@pytest.mark.parametrize("kicks", [0, 1, 30])
def test_the_length_is_that_of_the_tour_and_no_more_than_at_the_start(kicks):
    # gains are added up from the edges of each chain, so a wrong chain would show here
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = 4 + seed % 40
        atlas = some_map(rng, n)
        start = rng.permutation(n).astype(np.int32)
        total, tour = local_search(start.copy(), np.array([seed], np.uint64), kicks, atlas)
        assert sorted(tour) == list(range(n))
        assert total == pytest.approx(length(tour, atlas.cost), rel=1e-9)
        assert total <= length(start, atlas.cost) * (1 + 1e-12)


def test_no_two_or_three_edges_can_be_exchanged_for_shorter_ones():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = 12
        atlas = some_map(rng, n)
        everyone = np.argsort(atlas.cost, axis=1)[:, 1:].astype(np.int32)
        atlas = atlas._replace(near=np.ascontiguousarray(everyone))
        start = rng.permutation(n).astype(np.int32)
        total, tour = local_search(start, np.array([seed], np.uint64), 0, atlas)
        for i in range(n):
            for j in range(i + 1, n + 1):
                turned = [*tour[:i], *tour[i:j][::-1], *tour[j:]]
                assert length(turned, atlas.cost) >= total - 1e-9
                for k in range(j + 1, n + 1):
                    swapped = [*tour[:i], *tour[j:k], *tour[i:j], *tour[k:]]
                    assert length(swapped, atlas.cost) >= total - 1e-9

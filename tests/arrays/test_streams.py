import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superarm.arrays import normal, uniform
from superarm.arrays.streams import Streams

SEEDS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 2**33), min_size=1, max_size=5)


def alone(seeds):
    return [np.random.default_rng(seed) for seed in seeds]


@given(SEEDS, st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_draws_and_states_are_those_of_numpy(seeds, sizes):
    streams = Streams(seeds)
    generators = alone(seeds)
    for size in sizes:
        found = streams.normal((size,))
        np.testing.assert_array_equal(found, [g.standard_normal(size) for g in generators])
    for one, expected in zip(streams, generators, strict=True):
        assert one.bit_generator.state == expected.bit_generator.state


def test_all_branches_of_the_ziggurat():
    """Of two million draws about 14,000 are near the edge of a layer, and 540 in the tail."""
    streams = Streams(range(20))
    drawn = streams.normal((1000, 100))
    assert (np.abs(drawn) > 3.6541528853610088).sum() > 300
    expected = [g.standard_normal((1000, 100)) for g in alone(range(20))]
    np.testing.assert_array_equal(drawn, expected)
    for one, other in zip(streams, alone(range(20)), strict=True):
        other.standard_normal(100_000)
        assert one.random() == other.random()


def test_parts_go_on_where_the_others_are():
    streams = Streams(range(6))
    generators = alone(range(6))
    for part in (slice(0, 2), slice(2, 6), slice(None, None, 2), slice(1, 5)):
        found = streams[part].normal((3,))
        np.testing.assert_array_equal(found, [g.standard_normal(3) for g in generators[part]])
    assert streams[4] is streams[2:][2]  # made once, wherever it is asked for
    found = streams.normal((2,))  # one of them draws by itself by now
    np.testing.assert_array_equal(found, [g.standard_normal(2) for g in generators])
    assert len(streams[3:3]) == 0


@given(SEEDS)
def test_other_draws_in_between(seeds):
    like = np.zeros((len(seeds), 7))
    streams = Streams(seeds)
    generators = alone(seeds)
    for draw in (normal, uniform, normal):
        np.testing.assert_array_equal(draw(streams, like), draw(generators, like))


def test_as_many_as_entries():
    with pytest.raises(ValueError, match="one generator per entry"):
        normal(Streams([1, 2]), np.zeros((3, 2)))

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from superarm.arrays.seeding import generator_of, words_of

SEEDS = st.integers(0, 2**63 - 1) | st.integers(0, 2**33)


@given(st.lists(SEEDS, max_size=5))
def test_as_numpy_makes_them(seeds):
    for seed, words in zip(seeds, words_of(seeds), strict=True):
        found = generator_of(words)
        expected = np.random.default_rng(seed)
        assert found.bit_generator.state == expected.bit_generator.state
        np.testing.assert_array_equal(found.standard_normal(9), expected.standard_normal(9))

"""What NumPy's generators start from, for many seeds at once.

`numpy.random.default_rng` spends nearly all of its time on making random words of a seed, by many
small steps of Python's. Here one kernel makes those of all seeds, and they are the same.

    pool      four words of 32 bits, into which a seed is mixed
    words     eight of them, as four of 64 bits, from which PCG64 starts
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from superarm.arrays.compiled import compiled
from superarm.arrays.types import Array

MASK = 0xFFFFFFFF
INIT_A = 0x43B0D7E5
MULT_A = 0x931E8875
INIT_B = 0x8B51F9DD
MULT_B = 0x58F38DED
MIX_L = 0xCA01F9DD
MIX_R = 0x4973F715
POOL = 4


class _Words(ISeedSequence):
    """Random words that were made of a seed before."""

    def __init__(self, words: Array) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Array:
        """The words that PCG64 asks for."""
        return self._words


def words_of(seeds: Sequence[int]) -> Array:
    """The words from which PCG64 starts, (n, 4), for each seed below 2**63."""
    words = np.empty((len(seeds), 4), np.uint64)
    _make_words(np.array(seeds, np.int64), words.view(np.int64))
    return words


def generator_of(words: Array) -> np.random.Generator:
    """The generator that starts from words."""
    sequence: Any = _Words(words)
    return np.random.Generator(np.random.PCG64(sequence))


@compiled
def _make_words(seeds: Array, words: Array) -> None:
    """What SeedSequence(seed).generate_state(4, uint64) is, for each seed."""
    pool = np.empty(POOL, np.int64)
    for i in range(len(seeds)):
        for j in range(POOL):
            pool[j] = 0
        pool[0] = seeds[i] & MASK
        pool[1] = seeds[i] >> 32
        _mix(pool)
        factor = INIT_B
        for j in range(2 * POOL):
            word = pool[j % POOL] ^ factor
            factor = factor * MULT_B & MASK
            word = word * factor & MASK
            word ^= word >> 16
            if j % 2 == 0:
                words[i, j // 2] = word
            else:
                words[i, j // 2] |= word << 32


@compiled
def _mix(pool: Array) -> None:
    """Mix the words of a pool with each other."""
    factor = INIT_A
    for j in range(POOL):
        word = pool[j] ^ factor
        factor = factor * MULT_A & MASK
        word = word * factor & MASK
        pool[j] = word ^ word >> 16
    for source in range(POOL):
        for target in range(POOL):
            if source == target:
                continue
            word = pool[source] ^ factor
            factor = factor * MULT_A & MASK
            word = word * factor & MASK
            word ^= word >> 16
            mixed = (MIX_L * pool[target] - MIX_R * word) & MASK
            pool[target] = mixed ^ mixed >> 16

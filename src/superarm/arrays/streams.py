"""Normal numbers of many of NumPy's generators at once.

A generator of NumPy's lets go of Python's lock while it draws, even if it draws few numbers: where
other threads wait for the lock, each of many generators costs as much as thousands of draws. Here
one kernel draws for all of them, what they would have drawn.

    state     128 bits of PCG64, as two words;  state <- state * M + increment
    output    the xor of both words, rotated by the highest six bits
    normal    by a ziggurat of 256 layers: nearly always a word times the width of a layer
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from superarm.arrays.compiled import compiled
from superarm.arrays.types import Array
from superarm.arrays.seeding import generator_of, words_of

M_HIGH = np.uint64(0x2360ED051FC65DA4)
M_LOW = np.uint64(0x4385DF649FCCF645)
LOW_HALF = np.uint64(0xFFFFFFFF)
MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)


class Streams(Sequence[np.random.Generator]):
    """The generators that `numpy.random.default_rng` makes of seeds below 2**63.

    They are made as they are asked for; until then, `normal` draws for all at once.

    Args:
        seeds: one per generator.

    >>> import numpy as np
    >>> from superarm.arrays.streams import Streams
    >>> drawn = Streams([7, 8]).normal((3,))
    >>> bool((drawn[1] == np.random.default_rng(8).standard_normal(3)).all())
    True
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        words = words_of(seeds)
        state = np.empty_like(words)
        _begin(words, state)
        self._of(words, state, np.zeros(len(words), np.bool_), np.full(len(words), None))

    def _of(self, words: Array, state: Array, has_drawn: Array, made: Array) -> None:
        self._words = words  # (n, 4) from which each starts
        self._state = state  # (n, 4) where each is now, and its increment
        self._has_drawn = has_drawn  # (n,)
        self._made = made  # (n,) generators, None where there is none yet

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, i: int) -> np.random.Generator: ...
    @overload
    def __getitem__(self, i: slice) -> "Streams": ...
    def __getitem__(self, i: int | slice) -> "np.random.Generator | Streams":
        """One of the generators, or some of them, which stay the same as here."""
        if isinstance(i, slice):
            some = Streams.__new__(Streams)
            some._of(self._words[i], self._state[i], self._has_drawn[i], self._made[i])
            return some
        if self._made[i] is None:
            self._made[i] = self._generator(i)
        found: np.random.Generator = self._made[i]
        return found

    def _generator(self, i: int) -> np.random.Generator:
        """The generator where it is now."""
        found = generator_of(self._words[i])
        if self._has_drawn[i]:
            high, low, increment_high, increment_low = map(int, self._state[i])
            state = {"state": high << 64 | low, "inc": increment_high << 64 | increment_low}
            found.bit_generator.state = {
                "bit_generator": "PCG64",
                "state": state,
                "has_uint32": 0,
                "uinteger": 0,
            }
        return found

    def normal(self, shape: tuple[int, ...]) -> Array:
        """What `standard_normal(shape)` of each draws: (n, *shape)."""
        if any(one is not None for one in self._made):
            return np.stack([generator.standard_normal(shape) for generator in self])
        drawn = np.empty((len(self), math.prod(shape)))
        state = np.ascontiguousarray(self._state)
        _draw(state, drawn, *_ziggurat())
        self._state[:] = state
        self._has_drawn[:] = True
        return drawn.reshape(len(self), *shape)


class _Ziggurat(NamedTuple):
    """The layers of a ziggurat under the normal density."""

    width: Array  # (256,) what a word of 52 bits is multiplied by
    inside: Array  # (256,) words below it are in the layer for certain
    density: Array  # (256,) at the right end of a layer
    end: float  # where the tail begins
    one_over_end: float


@functools.cache
def _ziggurat() -> _Ziggurat:
    """That of NumPy, as Numba has it too."""
    from numba.np.random import _constants as found

    return _Ziggurat(
        np.array(found.wi_double),
        np.array(found.ki_double),
        np.array(found.fi_double),
        float(found.ziggurat_nor_r),
        float(found.ziggurat_nor_inv_r),
    )


@compiled
def _begin(words: Array, state: Array) -> None:
    """The states after NumPy has seeded PCG64 with four words each."""
    one = np.uint64(1)
    for i in range(len(words)):
        increment_high = words[i, 2] << one | words[i, 3] >> np.uint64(63)
        increment_low = words[i, 3] << one | one
        low = increment_low + words[i, 1]
        high = increment_high + words[i, 0] + np.uint64(low < increment_low)
        state[i, 0], state[i, 1] = _next(high, low, increment_high, increment_low)
        state[i, 2] = increment_high
        state[i, 3] = increment_low


@compiled
def _next(high: Any, low: Any, increment_high: Any, increment_low: Any) -> Any:
    """The next state: the last one times M, and the increment, modulo 2**128."""
    half = np.uint64(32)
    a = low >> half
    b = low & LOW_HALF
    c = M_LOW >> half
    d = M_LOW & LOW_HALF
    middle = a * d + (b * d >> half)
    other = b * c + (middle & LOW_HALF)
    carried = a * c + (middle >> half) + (other >> half)
    new_high = carried + high * M_LOW + low * M_HIGH
    product = low * M_LOW
    new_low = product + increment_low
    new_high += increment_high + np.uint64(new_low < product)
    return new_high, new_low


@compiled
def _word(high: Any, low: Any) -> Any:
    """The output of a state."""
    mixed = high ^ low
    by = high >> np.uint64(58)
    return mixed >> by | mixed << (np.uint64(64) - by & np.uint64(63))


@compiled
def _fraction(high: Any, low: Any) -> float:
    """The output of a state as a number in [0, 1)."""
    return float(_word(high, low) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def _draw(
    state: Array,
    drawn: Array,
    width: Array,
    inside: Array,
    density: Array,
    end: float,
    one_over_end: float,
) -> None:
    """Normal numbers of each state, which moves on."""
    one = np.uint64(1)
    for i in range(len(state)):
        high = state[i, 0]
        low = state[i, 1]
        up = state[i, 2]
        down = state[i, 3]
        j = 0
        while j < drawn.shape[1]:
            high, low = _next(high, low, up, down)
            word = _word(high, low)
            layer = int(word & np.uint64(255))
            word >>= np.uint64(8)
            place = word >> one & MANTISSA
            x = float(place) * width[layer]
            if word & one:
                x = -x
            is_taken = place < inside[layer]
            if not is_taken and layer > 0:
                high, low = _next(high, low, up, down)
                height = density[layer - 1] - density[layer]
                u = height * _fraction(high, low) + density[layer]
                is_taken = u < math.exp(-0.5 * x * x)
            elif not is_taken:
                while not is_taken:
                    high, low = _next(high, low, up, down)
                    beyond = -one_over_end * math.log1p(-_fraction(high, low))
                    high, low = _next(high, low, up, down)
                    y = -math.log1p(-_fraction(high, low))
                    is_taken = y + y > beyond * beyond
                x = end + beyond
                if place >> np.uint64(8) & one:
                    x = -x
            if is_taken:
                drawn[i, j] = x
                j += 1
        state[i, 0] = high
        state[i, 1] = low

"""Standard normals inside compiled kernels: the ziggurat of Marsaglia and Tsang (2000) over
SplitMix64.

NumPy's generators can be used in a kernel too, but for a catalogue of items their draws would take
longer than all the rest of a decision; these take half the time. Under the normal curve f lie 256
layers of equal area: layer i reaches out to x_i, and all of it up to x_{i+1} is under the curve, so
that one comparison accepts 99 % of all draws.
"""

import math

import numpy as np

from superarm.arrays.compiled import compiled
from superarm.arrays.types import Array

_TAIL = 3.6541528853610088
_AREA = 0.00492867323397465524


def _edges() -> list[float]:
    """x_0 > x_1 > ... > x_256 = 0: the bottom layer, with the tail beyond x_1, is as wide as its
    area asks for.
    """
    x = [_AREA / math.exp(-(_TAIL**2) / 2), _TAIL]
    while len(x) < 256:
        height = _AREA / x[-1] + math.exp(-(x[-1] ** 2) / 2)
        x.append(math.sqrt(-2 * math.log(height)))
    return [*x, 0.0]


_X = np.array(_edges())
_INSIDE = _X[1:] / _X[:-1]
_HEIGHT = np.exp(-(_X**2) / 2)
_UNIT = 2.0**-53


@compiled
def next_bits(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The next state and 64 random bits (SplitMix64)."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = state
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return state, z


@compiled
def fill_normal(out: Array, state: np.uint64) -> None:
    """Fill a flat array with draws from N(0, 1) that depend on the 64-bit seed alone."""
    for i in range(len(out)):
        while True:
            state, bits = next_bits(state)
            layer = np.int64(bits & np.uint64(255))
            u = (np.int64(bits) >> np.int64(11)) * (2 * _UNIT)  # in [-1, 1)
            y = u * _X[layer]
            if abs(u) < _INSIDE[layer]:
                break
            if layer == 0:
                beyond = 1.0
                room = 0.0
                while room < beyond**2:  # the tail beyond x_1
                    state, a = next_bits(state)
                    state, b = next_bits(state)
                    beyond = -math.log(((a >> np.uint64(11)) + 1) * _UNIT) / _TAIL
                    room = -2 * math.log(((b >> np.uint64(11)) + 1) * _UNIT)
                y = math.copysign(_TAIL + beyond, u)
                break
            state, a = next_bits(state)
            low = _HEIGHT[layer]
            high = _HEIGHT[layer + 1]
            if low + (a >> np.uint64(11)) * _UNIT * (high - low) < math.exp(-(y**2) / 2):
                break
        out[i] = y


@compiled
def fill_normal_by_item(out: Array, items: Array, seed: np.uint64) -> None:
    """Fill a flat array with draws from N(0, 1), each of which depends on the 64-bit seed and on
    its item alone: the item, hashed, says where in the stream of the seed its draw begins.
    """
    _, of_seed = next_bits(seed)
    for i in range(len(out)):
        _, of_item = next_bits(np.uint64(items[i]))
        _, start = next_bits(of_item ^ of_seed)
        fill_normal(out[i : i + 1], start)
